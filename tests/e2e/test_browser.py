"""The pages in a real Chromium: the way of a person through them, by keyboard, on every width, light and dark.

Screenshots are written to the folder named by HUBWATCH_SCREENSHOTS, where that is set.
"""

from __future__ import annotations

import json
import shutil
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.browsing import AXE_FROM, Keyboard, Watchful
from tests.support.command import Hubwatch, wait_for
from tests.support.models import TEMPLATE, THINKING, llama, tokenizer_config, weights
from tests.support.receiver import Receiver, receiving
from tracker.demo.hub import LoopbackHub

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
axe = pytest.importorskip(AXE_FROM, reason="no axe: pip install axe-core-python")

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
NASTY = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\u202e" + "A" * 10_000
WIDTHS = (320, 768, 1440)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for the module."""
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


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

    def wait_for_history(self, repo: str, number: int) -> None:
        """Until this many revisions were read."""

        def read() -> bool:
            got = self.hubwatch("history", repo, "--json")
            return got.code == 0 and len(got.json["revisions"]) == number

        wait_for(read, what=f"{number} revisions of {repo}")


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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=2) as answer:  # noqa: S310 - our own address
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


# --- the way of a person, without a mouse --------------------------------------------------------


def test_a_person_watches_a_repo_follows_a_change_to_its_advisory_and_is_told_by_keyboard_alone(
    browser: Any, served: Served, hub: LoopbackHub, shas: list[str], receiver: Receiver
) -> None:
    here = Watchful(browser, axe.Axe())
    page, hands = here.page, Keyboard(here.page)
    page.goto(f"{served.url}/")
    here.settle("empty")
    _the_skip_link_skips(page, hands)
    page.goto(f"{served.url}/")
    hands.follow("Watches")
    hands.fill("add", repo=REPO, token=served.token)
    hands.follow("Add")
    assert f"{REPO} is watched" in page.get_by_role("status").inner_text()
    here.settle("watches-added")
    served.wait_for_history(REPO, len(shas))
    hands.follow("Watches")
    hands.follow(REPO)
    assert "5 of 5, the newest" in page.content()
    here.settle("model-by-keyboard")
    hands.follow("Changes")
    hands.follow(f"compare {shas[2][:7]} with {shas[3][:7]}")
    assert "<think>" in page.locator(".sides ins").first.inner_text()
    here.settle("compare-template")
    hands.follow("Model")
    told = page.locator("#worry + ul a").first.inner_text()
    hands.follow(" ".join(told.split()))
    page.get_by_role("heading", name="What to do").wait_for()
    here.settle("advisory-by-keyboard")
    hands.follow("Watches")
    hands.fill("subscribe", url="https://hooks.example.org/x", token=served.token)
    hands.follow("Subscribe")
    assert page.locator(".secret").inner_text().startswith("whsec_")
    assert "hooks.example.org" in page.locator("#told ~ .scroll").first.inner_text()
    here.settle("subscribed")
    _a_delivery_is_seen(here, hands, served, hub, receiver)
    here.context.close()


def _the_skip_link_skips(page: Any, hands: Keyboard) -> None:
    assert hands.tab()["words"] == "Skip to the content"
    hands.keys.press("Enter")
    page.wait_for_url("**/#content")
    hands.tab()
    assert page.evaluate("document.getElementById('content').contains(document.activeElement)")


def _a_delivery_is_seen(
    here: Watchful, hands: Keyboard, served: Served, hub: LoopbackHub, receiver: Receiver
) -> None:
    """A receiver on this machine is for the command line to allow; how sending went is for the page to show."""
    page = here.page
    made = served.hubwatch.json("subscribe", "add", receiver.url, "--allow-private", "--settle", "0s")
    hub.repo(REPO).commit({"tokenizer_config.json": tokenizer_config(TEMPLATE)}, title="Put back")
    assert served.hubwatch("poll", REPO).code == 0
    wait_for(lambda: receiver.taken, what="the message")
    hands.follow("Watches")
    hands.fill("look", token=served.token)
    hands.press()
    log = page.get_by_role("group", name=f"Latest messages of {made['id']}")

    def delivered() -> bool:
        if "delivered" in log.inner_text():
            return True
        hands.follow("Watches")
        hands.fill("look", token=served.token)
        hands.press()
        return False

    wait_for(delivered, what="the delivery on the page")
    row = " ".join(log.locator("tbody tr").first.inner_text().split())
    assert receiver.taken[0].id in row
    assert "delivered 1 204" in row
    assert "ms" in row
    here.settle("delivered")
    before = len(receiver.got)
    hands.to(name="subscription")
    hands.keys.type(made["id"])  # a list is chosen from by typing
    hands.fill("replay", since="1h", token=served.token)
    hands.follow("Send again")
    assert f"of {made['id']} will be sent again" in page.get_by_role("status").inner_text()
    wait_for(lambda: len(receiver.got) > before, what="the message once more")
    assert receiver.got[-1].id == receiver.got[0].id


# --- every page ----------------------------------------------------------------------------------


def test_every_page_at_every_width_light_and_dark(browser: Any, served: Served, shas: list[str]) -> None:
    added = served.hubwatch("watch", "add", REPO)
    assert added.code == 0, added.err
    served.wait_for_history(REPO, len(shas))
    advisory = served.hubwatch.json("advisories", REPO, "--min-severity", "low")["advisories"][0]["id"]
    paths = {
        "home": "/",
        "search": "/?q=tiny",
        "model": f"/models/{REPO}",
        "classic": f"/models/{REPO}?profile=classic",
        "changes": f"/models/{REPO}/changes?hold={shas[1]}",
        "choose": f"/models/{REPO}/compare",
        "compare": f"/models/{REPO}/compare/{shas[0]}...{shas[-1]}",
        "advisory": f"/advisories/{advisory}",
        "watches": "/watches",
        "health": "/health",
        "estimators": "/estimators",
        "missing": "/models/no/such",
        "nowhere": "/nope",
    }
    tester = axe.Axe()
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            here = Watchful(browser, tester, width, scheme)
            for what, path in paths.items():
                here.page.goto(served.url + path)
                here.settle(what, refused=404 if what in {"missing", "nowhere"} else None)
            here.context.close()


# --- what is hostile -----------------------------------------------------------------------------

CODE = "x = 1  # " + "y" * 10_000 + "\n</table></code><script>document.title='owned'</script>\n\x00\x1b[31m\n"


def test_hostile_names_values_templates_and_code_stay_inert_and_within_the_page(
    browser: Any, served: Served, hub: LoopbackHub
) -> None:
    repo = hub.create("acme/hostile")
    path = "<script>document.title='owned'</script>\u202e" + "B" * 150 + ".py"
    first = repo.commit(
        {
            "config.json": llama(torch_dtype="float32"),
            "model.safetensors": weights(),
            "tokenizer_config.json": tokenizer_config(TEMPLATE),
            path: "x = 1\n",
        },
        title="Upload",
    )
    raw = json.loads(llama(num_hidden_layers=3)) | {
        NASTY[:200]: NASTY,
        "rope_scaling": {"type": f"\u0000</td>{NASTY[:46]}\ud800", "factor": "\n" * 3000},
        "architectures": ["LlamaForCausalLM", NASTY],
    }
    last = repo.commit(
        {
            "config.json": json.dumps(raw),
            "tokenizer_config.json": tokenizer_config(NASTY + "\u0000" + TEMPLATE),
            path: CODE,
            "README.md": f"---\nlicense: {NASTY[:300]!r}\n---\n",
        },
        title=NASTY,
        author=NASTY[:200],
    )
    assert served.hubwatch("watch", "add", "acme/hostile").code == 0
    served.wait_for_history("acme/hostile", 2)
    found = served.hubwatch.json("advisories", "acme/hostile")["advisories"]
    paths = {
        "home": "/",
        "model": "/models/acme/hostile",
        "changes": "/models/acme/hostile/changes",
        "choose": "/models/acme/hostile/compare",
        "compare": f"/models/acme/hostile/compare/{first}...{last}",
        "search": "/?q=rope_scaling",
        **{f"advisory{number}": f"/advisories/{item['id']}" for number, item in enumerate(found[:6])},
    }
    assert len(paths) > 6
    tester = axe.Axe()
    for width in (320, 1440):
        here = Watchful(browser, tester, width)
        for what, path in paths.items():
            answer = here.page.goto(served.url + path)
            assert len(answer.body()) < 100_000, what
            here.settle(f"hostile-{what}")
        here.context.close()
