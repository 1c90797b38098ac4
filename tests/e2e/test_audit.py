"""``hubwatch audit`` against a database, an export folder and a server: the same answers from each."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from advisories.client import Client, ClientError, NotThere
from storage.errors import UsageError
from tests.advisories.audit.thirty import cached
from tests.support.command import Hubwatch, wait_for
from tests.support.models import THINKING, llama, tokenizer_config, weights
from tracker.demo.hub import LoopbackHub

REPO = "acme/tiny"


@dataclass
class Site:
    """A watched repo whose template changed at its head, and a tree that uses it."""

    hubwatch: Hubwatch
    shas: list[str]
    tree: Path
    advisory: str

    @property
    def before(self) -> str:
        return self.shas[-2]

    @property
    def head(self) -> str:
        return self.shas[-1]


@pytest.fixture
def site(hub: LoopbackHub, hubwatch: Hubwatch, tmp_path: Path) -> Site:
    repo = hub.create(REPO)
    shas = [
        repo.commit({"config.json": llama(), "model.safetensors": weights()}, title="Upload"),
        repo.commit({"tokenizer_config.json": tokenizer_config()}, title="Tokenizer"),
        repo.commit({"tokenizer_config.json": tokenizer_config(THINKING)}, title="Template"),
    ]
    assert hubwatch("watch", "add", REPO).code == 0
    assert hubwatch("poll").code == 0
    (found,) = hubwatch.json("advisories", REPO, "--class", "template.generation_prompt")["advisories"]
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "app.py").write_text(
        f"MODEL = '{REPO}'\n\nAutoModel.from_pretrained(MODEL)\n"
        f"AutoModel.from_pretrained(MODEL, revision='{shas[1]}')\n"
        f"AutoModel.from_pretrained('acme/unknown')\n"
    )
    (tree / "run.sh").write_text(f"vllm serve {REPO} --revision {shas[2]}\n")
    return Site(hubwatch, shas, tree, found["id"])


@pytest.fixture
def server(site: Site) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = site.hubwatch.start("run", "--roles", "web", HUBWATCH_PORT=str(port))
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            return httpx.get(f"{url}/healthz").status_code == 200
        except httpx.HTTPError:
            return False

    try:
        wait_for(answers, what="the server")
        yield url
    finally:
        process.terminate()
        process.communicate(timeout=60)


def findings(made: dict[str, Any]) -> list[tuple[str, int, str, str]]:
    return [(row["file"], row["line"], row["advisory"], row["severity"]) for row in made["findings"]]


def expected(site: Site) -> list[tuple[str, int, str, str]]:
    return [("app.py", 3, site.advisory, "high"), ("run.sh", 1, site.advisory, "high")]


def test_a_tree_against_the_local_database(site: Site) -> None:
    made = site.hubwatch.json("audit", str(site.tree), codes=(1,))
    assert [
        (row["repo"], row["revision"], row["pinned"], row["file"], row["line"]) for row in made["references"]
    ] == [
        (REPO, None, False, "app.py", 3),
        (REPO, site.before, True, "app.py", 4),
        ("acme/unknown", None, False, "app.py", 5),
        (REPO, site.head, True, "run.sh", 1),
    ]
    assert findings(made) == expected(site)
    assert [(gap["reason"], gap["repo"], gap["line"]) for gap in made["gaps"]] == [
        ("not_watched", "acme/unknown", 5)
    ]
    held = {row["line"]: row for row in made["held"] if row["file"] == "app.py"}
    assert (held[4]["sha"], held[4]["head"], held[4]["behind"]) == (site.before, site.head, 1)
    assert (held[4]["affected"], held[4]["gained"]) == ([], [site.advisory])
    assert [row["advisory"] for row in held[4]["since"]] == [site.advisory]


def test_what_fails_and_what_does_not(site: Site) -> None:
    for severity, code in (("info", 1), ("high", 1), ("critical", 0), ("never", 0)):
        assert site.hubwatch("audit", str(site.tree), "--fail-on", severity).code == code
    unknown = site.hubwatch("audit", str(site.tree), "--fail-on", "grave")
    assert (unknown.code, "use info, low, medium, high or critical, or never" in unknown.err) == (2, True)
    (site.tree / "run.sh").unlink()
    (site.tree / "app.py").write_text(f"AutoModel.from_pretrained('{REPO}', revision='{site.before}')\n")
    assert site.hubwatch("audit", str(site.tree), "--fail-on", "info").code == 0


def test_the_same_from_an_export_and_a_server(site: Site, server: str, tmp_path: Path) -> None:
    assert site.hubwatch("export", str(tmp_path / "osv")).code == 0
    elsewhere = {"HUBWATCH_DATABASE_URL": f"sqlite:///{tmp_path}/never-made.db"}
    local = site.hubwatch.json("audit", str(site.tree), codes=(1,))
    for where in (("--export", str(tmp_path / "osv")), ("--server", server)):
        made = site.hubwatch.json("audit", str(site.tree), *where, codes=(1,), **elsewhere)
        assert findings(made) == expected(site)
        assert made["references"] == local["references"]
        assert made["gaps"] == local["gaps"]
        rows = [{**row, "behind": None, "since": []} for row in made["held"]]
        assert rows == [{**row, "behind": None, "since": []} for row in local["held"]]
    assert not (tmp_path / "never-made.db").exists()


def test_a_hub_cache_names_the_sha_it_holds(site: Site, tmp_path: Path) -> None:
    cached(tmp_path / "cache", REPO, refs={"main": site.before}, snapshots=(site.before, site.head))
    made = site.hubwatch.json("audit", "--hub-cache", str(tmp_path / "cache"), codes=(1,))
    assert {row["revision"] for row in made["references"]} == {site.before, site.head}
    assert [row["revision"] for row in made["findings"]] == [site.head]
    assert site.hubwatch.json("audit", "--hub-cache", codes=(1,), HF_HUB_CACHE=str(tmp_path / "cache")) == made
    table = site.hubwatch("audit", "--hub-cache", str(tmp_path / "cache"))
    assert f"{REPO}@{site.before[:10]}, 1 revisions behind" in table.out


def test_an_sbom_goes_out_and_comes_in_again(site: Site, tmp_path: Path) -> None:
    out = site.hubwatch("audit", str(site.tree), "--format", "cyclonedx")
    assert out.code == 1
    assert JsonStrictValidator(SchemaVersion.V1_7).validate_str(out.out) is None
    models = [item for item in out.json["components"] if item["type"] == "machine-learning-model"]
    assert {item["version"] for item in models if "version" in item} == {site.before, site.head}
    cards = [item["modelCard"]["modelParameters"] for item in models if "modelCard" in item]
    assert cards == [{"architectureFamily": "llama", "modelArchitecture": "LlamaForCausalLM"}]
    assert [item["id"] for item in out.json["vulnerabilities"]] == [site.advisory]
    (tmp_path / "bom.json").write_text(out.out)
    back = site.hubwatch.json("audit", "--sbom", str(tmp_path / "bom.json"), codes=(1,))
    assert {row["advisory"] for row in back["findings"]} == {site.advisory}
    assert {row["revision"] for row in back["references"]} == {site.before, site.head, None}


def test_sarif_points_at_the_lines(site: Site) -> None:
    log = site.hubwatch("audit", str(site.tree), "--format", "sarif").json
    places = [result["locations"][0]["physicalLocation"] for result in log["runs"][0]["results"]]
    assert [(place["artifactLocation"]["uri"], place["region"]["startLine"]) for place in places] == [
        ("app.py", 3),
        ("run.sh", 1),
    ]


def test_fix_prints_the_pins_to_write(site: Site) -> None:
    (site.tree / "unsure.py").write_text(
        f"AutoModel.from_pretrained('{REPO}', revision=pick())\n"
        f"AutoModel.from_pretrained('{REPO}', revision='abcdef0')\n"
        "AutoModel.from_pretrained(pick())\n"
    )
    shown = site.hubwatch("audit", str(site.tree), "--fix")
    assert f"unsure.py:1  {REPO}  {site.head} (its revision comes from elsewhere (revision)" in shown.out
    assert f"unsure.py:2  {REPO}  (revision 'abcdef0' was not judged" in shown.out
    assert "gap: unsure.py:3 from_pretrained: which model is not in the file (unresolved)" in shown.out
    assert "6 references, 2 pinned, 1 of unknown pin" in shown.out
    assert f'app.py:3  {REPO}  revision="{site.head}"' in shown.out
    assert site.advisory in shown.out
    pins = site.hubwatch.json("audit", str(site.tree), "--fix", codes=(1,))["pins"]
    assert [(pin["file"], pin["line"], pin["sha"], pin["open"]) for pin in pins if pin["write"]] == [
        ("app.py", 3, site.head, [site.advisory])
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("absent",),
        (".", "--hub-cache", "."),
        ("--sbom", "absent.json"),
        ("--hub-cache", "absent"),
        (".", "--export", "absent"),
        (".", "--server", "http://127.0.0.1:1"),
        (".", "--server", "ftp://x"),
        (".", "--server", "http://x", "--export", "."),
        (".", "--fail-on", "grave"),
        (".", "--format", "pdf"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(hubwatch: Hubwatch, arguments: tuple[str, ...]) -> None:
    result = hubwatch("audit", *arguments)
    assert result.code == 2
    assert result.out == ""
    assert "Traceback" not in result.err
    assert result.err.strip()


def test_the_client(site: Site, server: str) -> None:
    with Client(server, token="") as client:
        assert [item["repo"] for item in client.repos()] == [REPO]
        assert client.repo(REPO)["head"] == site.head
        assert [item["sha"] for item in client.revisions(REPO)] == site.shas[::-1]
        assert [item["sha"] for item in client.estimates(REPO)] == site.shas[::-1]
        assert client.revision(REPO, site.before)["sha"] == site.before
        assert {item["path"] for item in client.files(REPO)} >= {"config.json", "tokenizer_config.json"}
        found = list(client.advisories(REPO, min_severity="high", class_="template.generation_prompt"))
        assert [item["id"] for item in found] == [site.advisory]
        assert site.advisory in [item["id"] for item in client.advisories(state="open")]
        assert client.diff(REPO, site.before, site.head)["changes"]
        assert any(item["class"] == "template.generation_prompt" for item in client.changes(REPO))
        assert client.blame(REPO, "config.json", "/vocab_size")["entries"][0]["value"] == 100
        assert client.vulnerability(site.advisory)["id"] == site.advisory
        assert [item["id"] for item in client.query(commit=site.head)] == [site.advisory]
        assert client.query(purl=f"pkg:huggingface/{REPO}@{site.before}") == []
        assert client.query_many(site.shas)[site.head] == [site.advisory]
        with pytest.raises(NotThere):
            client.repo("acme/unknown")
        with pytest.raises(NotThere):
            client.vulnerability("x_nothing")
        with pytest.raises(ClientError):
            list(client.advisories(REPO, no_such_filter=1))


def test_a_server_that_is_none_is_said_so(hub: LoopbackHub) -> None:
    with Client(hub.url) as client, pytest.raises(ClientError):
        client.repo(REPO)
    for url in ("nothing", "http://user:secret@127.0.0.1", "http://"):
        with pytest.raises(UsageError) as refused:
            Client(url)
        assert "secret" not in str(refused.value)
    with pytest.raises(UsageError):
        Client("http://127.0.0.1", token="a\nb: c")


def test_hostile_names_reach_no_terminal(hubwatch: Hubwatch, tmp_path: Path) -> None:
    tree = tmp_path / "t"
    tree.mkdir()
    (tree / "a\x1b]0;x\x07\u202e[bold].py").write_text("AutoModel.from_pretrained('acme/a')\n")
    shown = hubwatch("audit", str(tree))
    assert shown.code == 0
    assert not {"\x1b", "\x07", "\u202e"} & set(shown.out)
    for form in ("json", "sarif", "cyclonedx"):
        json.loads(hubwatch("audit", str(tree), "--format", form).out)
