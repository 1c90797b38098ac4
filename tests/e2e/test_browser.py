"""The pages in a real Chromium: the way of a person through them, on every width, by keyboard, light and dark.

Screenshots are written to the folder named by HUBWATCH_SCREENSHOTS, where that is set.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Hubwatch, wait_for
from tests.support.models import TEMPLATE, THINKING, llama, tokenizer_config, weights
from tracker.demo.hub import LoopbackHub

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
axe = pytest.importorskip("axe_core_python.sync_playwright", reason="no axe: pip install axe-core-python")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
REPO = "acme/tiny"
NASTY = "<script>document.title='owned'</script>\u202e" + "A" * 10_000
WIDTHS = (320, 768, 1440)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for the module."""
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def shas(hub: LoopbackHub) -> list[str]:
    """A history with a template that opens a tag, another layer, code of its own, and a hostile title."""
    repo = hub.create(REPO)
    return [
        repo.commit({"config.json": llama(), "model.safetensors": weights()}, title="Upload"),
        repo.commit({"tokenizer_config.json": tokenizer_config(TEMPLATE)}, title="Tokenizer"),
        repo.commit({"modeling_tiny.py": "import os\n\n\ndef run() -> int:\n    return 1\n"}, title="Code"),
        repo.commit({"tokenizer_config.json": tokenizer_config(THINKING)}, title="Fix template"),
        repo.commit(
            {
                "config.json": llama(num_hidden_layers=3),
                "model.safetensors": weights(layers=3),
                "modeling_tiny.py": 'import os\n\n\ndef run() -> int:\n    return os.system("true")  # now\n',
            },
            title=NASTY,
            author="<b>eve</b>",
        ),
    ]


class Served:
    """A running daemon, its address, and a token that may write."""

    def __init__(self, hubwatch: Hubwatch, url: str, token: str) -> None:
        self.hubwatch, self.url, self.token = hubwatch, url, token


@pytest.fixture
def served(hubwatch: Hubwatch, shas: list[str]) -> Iterator[Served]:
    """`hubwatch run` with an empty database."""
    made = hubwatch("token", "create", "browser", "--scope", "write", "--json")
    assert made.code == 0, made.err
    port = _free_port()
    process = hubwatch.start("run", HUBWATCH_PORT=str(port), HUBWATCH_POLL_FLOOR="1s", HUBWATCH_POLL_DEFAULT="1s")
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: _answers(url), what="the pages")
        yield Served(hubwatch, url, made.json["token"])
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    import urllib.error
    import urllib.request

    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=2) as answer:  # noqa: S310 - our own address
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


class Watchful:
    """A page of a browser that remembers what went wrong in it."""

    def __init__(self, browser: Any, width: int = 1440, scheme: str = "light") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.name = f"{width}-{scheme}"
        self.errors: list[str] = []
        self.page.on("console", lambda told: self.errors.append(told.text) if told.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def settle(self, what: str) -> None:
        """What must hold on every page: it fits, it is accessible, nothing is wrong, nothing is alive."""
        page = self.page
        width = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(width) <= 0, f"{what} is wider than {self.name}"
        found = axe.Axe().run(page)["violations"]
        grave = [(item["id"], item["nodes"][0]["html"][:200]) for item in found if item["impact"] in GRAVE]
        assert not grave, f"{what} at {self.name}: {grave}"
        shifted = page.evaluate(
            "new Promise(done => { let sum = 0; new PerformanceObserver(list => { for (const entry of"
            " list.getEntries()) sum += entry.value }).observe({type: 'layout-shift', buffered: true});"
            " setTimeout(() => done(sum), 50) })"
        )
        assert shifted < 0.01, f"{what} moves while it loads"
        assert page.evaluate("document.scripts.length") == 0
        assert "owned" not in page.title()
        assert not self.errors, self.errors
        folder = os.environ.get("HUBWATCH_SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            page.screenshot(path=f"{folder}/{what}-{self.name}.png", full_page=True)


GRAVE = {"serious", "critical"}


def test_a_person_adds_a_watch_follows_a_change_to_its_advisory_and_subscribes(
    browser: Any, served: Served, shas: list[str]
) -> None:
    here = Watchful(browser)
    page = here.page
    page.goto(f"{served.url}/")
    here.settle("empty")
    page.get_by_role("link", name="Watches").click()
    form = page.locator("form", has=page.get_by_role("button", name="Add"))
    form.get_by_label("Repo").fill(REPO)
    form.get_by_label("Token").fill(served.token)
    form.get_by_role("button", name="Add").click()
    assert f"{REPO} is watched" in page.get_by_role("status").inner_text()
    here.settle("watches")

    def read() -> bool:
        page.goto(f"{served.url}/models/{REPO}")
        return "5 of 5, the newest" in page.content()

    wait_for(read, what="the first check")
    page.get_by_role("heading", name="Largest batch per card").wait_for()
    here.settle("model")
    page.get_by_role("link", name="Changes", exact=True).click()
    here.settle("changes")
    page.get_by_role("link", name=f"compare {shas[2][:7]} with {shas[3][:7]}").click()
    assert "<think>" in page.locator(".sides ins").first.inner_text()
    here.settle("compare-template")
    page.goto(f"{served.url}/models/{REPO}/compare/{shas[0]}...main")
    assert "num_hidden_layers" in page.locator("#config + .scroll").inner_text()
    assert page.locator(".code .add").count() > 0
    here.settle("compare")
    page.goto(f"{served.url}/models/{REPO}")
    page.locator("#worry + ul a").first.click()
    page.get_by_role("heading", name="What to do").wait_for()
    here.settle("advisory")
    page.goto(f"{served.url}/watches")
    form = page.locator("form", has=page.get_by_role("button", name="Subscribe", exact=True))
    form.get_by_label("Address").fill("https://hooks.example.org/x")
    form.get_by_label("Token").fill(served.token)
    form.get_by_role("button", name="Subscribe", exact=True).click()
    assert page.locator(".secret").inner_text().startswith("whsec_")
    assert "hooks.example.org" in page.content()
    here.settle("subscribed")
    here.context.close()


def test_every_page_at_every_width_light_and_dark(browser: Any, served: Served, shas: list[str]) -> None:
    added = served.hubwatch("watch", "add", REPO)
    assert added.code == 0, added.err
    wait_for(lambda: len(served.hubwatch.json("history", REPO)["revisions"]) == len(shas), what="the history")
    advisory = served.hubwatch.json("advisories", REPO, "--min-severity", "low")["advisories"][0]["id"]
    paths = {
        "home": "/",
        "search": "/?q=tiny",
        "model": f"/models/{REPO}",
        "classic": f"/models/{REPO}?profile=classic",
        "changes": f"/models/{REPO}/changes",
        "choose": f"/models/{REPO}/compare",
        "compare": f"/models/{REPO}/compare/{shas[0]}...{shas[-1]}",
        "advisory": f"/advisories/{advisory}",
        "watches": "/watches",
        "health": "/health",
        "estimators": "/estimators",
    }
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            here = Watchful(browser, width, scheme)
            for what, path in paths.items():
                here.page.goto(served.url + path)
                here.settle(what)
            here.context.close()


def test_the_keyboard_alone_is_enough(browser: Any, served: Served) -> None:
    here = Watchful(browser, 768)
    page = here.page
    page.goto(f"{served.url}/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "q":
            break
    page.keyboard.type("nothing like it")
    page.keyboard.press("Enter")
    page.get_by_text("Nothing found").wait_for()
    assert page.evaluate("getComputedStyle(document.querySelector('a')).outlineStyle") is not None
    here.settle("search-by-keyboard")
    here.context.close()
