"""The pages, without a browser: what they say, whom they say it to, and that nothing from upstream comes alive."""

from __future__ import annotations

import base64
import html.parser
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from storage import advisories, blobs, estimates, history, watches
from storage.model import FileEntry, Landing, Manifest, RepoRef, Scope, Severity
from tests.advisories.landing import Kept
from tests.advisories.story import REPO, revision, sha
from tests.tracker.web.conftest import NOW, OTHER, Site, _estimate, _findings
from tracker.demo.files import safetensors
from tracker.demo.hub import LoopbackHub
from tracker.snapshot.build import header_key

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
HERE = "/models/acme/tiny-llm"
LARGEST = 100_000


class Page(html.parser.HTMLParser):
    """What a browser would make of a page, as far as it matters here."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def links(self) -> list[str]:
        return [attrs.get("href") or "" for tag, attrs in self.tags if tag == "a"]


def get(site: Site, path: str, status: int = 200, **headers: str) -> Page:
    answer = site.client.get(path, headers={**HTML, **headers})
    assert answer.status_code == status, f"{path}: {answer.status_code} {answer.text[:300]}"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert len(answer.content) < LARGEST, f"{path} has {len(answer.content)} bytes"
    page = Page(answer.text)
    assert_inert(page, answer.text)
    return page


def assert_inert(page: Page, text: str) -> None:
    """No script, no inline style or handler, no address that is one, nothing hidden."""
    for tag, attrs in page.tags:
        assert tag not in {"script", "style", "iframe", "object", "embed", "base"}, tag
        for name, value in attrs.items():
            assert not name.startswith("on"), (tag, name)
            assert name != "style", (tag, value)
            if name in {"href", "src", "action"}:
                assert re.match(r"(/|#|https?://)", value or ""), (tag, name, value)
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b-\u200f\x00-\x08\x0b-\x1f\ufeff]", text)


def an_advisory(site: Site, state: str = "open") -> str:
    with site.database.snapshot() as tx:
        return next(item.id for item in advisories.of_repo(tx, REPO, state=state) if item.severity > Severity.INFO)


def pages_of(site: Site) -> list[str]:
    return [
        "/",
        "/?q=tiny",
        "/?q=rope",
        f"/?q={sha(3)[:30]}",
        HERE,
        f"{HERE}?rev={sha(2)}",
        f"{HERE}?profile=classic",
        f"{HERE}/changes",
        f"{HERE}/changes?class=config.rope&min_severity=high&path=config.json",
        f"{HERE}/changes?hold={sha(1)}",
        f"{HERE}/compare",
        f"{HERE}/compare/{sha(1)}...main",
        f"/advisories/{an_advisory(site)}",
        "/watches",
        "/health",
        "/estimators",
    ]


def test_every_page_is_whole_small_and_inert(site: Site) -> None:
    for path in pages_of(site):
        page = get(site, path)
        assert [tag for tag, _ in page.tags].count("h1") == 1, path
        ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
        assert len(ids) == len(set(ids)), path
        assert {attrs.get("lang") for tag, attrs in page.tags if tag == "html"} == {"en"}


def test_every_link_of_ours_leads_somewhere(site: Site) -> None:
    links = {link.partition("#")[0] for path in pages_of(site) for link in get(site, path).links}
    ours = sorted(link for link in links if link.startswith("/") and link != "/sign-in")
    assert len(ours) > 30
    for link in ours:
        assert site.client.get(link, headers=HTML).status_code == 200, link


def test_a_model_says_what_it_is_where_it_stands_and_how_to_pin_it(site: Site) -> None:
    page = get(site, HERE)
    assert "LlamaForCausalLM" in page.text
    assert "6 of 6, the newest" in page.text
    assert f'from_pretrained("acme/tiny-llm", revision="{sha(5)}")' in page.text
    assert f"/advisories/{an_advisory(site)}" in page.links
    assert "compare with main" in get(site, f"{HERE}?rev={sha(2)}").text


def test_the_timeline_shows_every_revision_filters_and_pages(site: Site, kept: Kept) -> None:
    page = get(site, f"{HERE}/changes")
    for number in range(6):
        assert f"{HERE}?rev={sha(number)}" in page.links
    assert "total" not in page.text
    assert "parameters 1,004 → 1,005" in page.text
    filtered = get(site, f"{HERE}/changes?class=config.rope&min_severity=&path=")
    shown = [link for link in filtered.links if link.startswith(f"{HERE}?rev=")]
    assert shown == [f"{HERE}?rev={sha(number)}" for number in (5, 3, 1)]
    kept.rope(*"ABCABCABCABCABCABCABCABCABCABCABC")
    first = get(site, f"{HERE}/changes")
    (older,) = [link for link in first.links if "cursor=" in link]
    rest = get(site, older)
    seen = [link for page in (first, rest) for link in page.links if link.startswith(f"{HERE}?rev=")]
    assert seen == [f"{HERE}?rev={sha(number)}" for number in range(38, -1, -1)]


def test_the_revision_that_somebody_holds_is_placed(site: Site) -> None:
    text = get(site, f"{HERE}/changes?hold={sha(1)}").text
    assert "revision 2 of 6" in text
    assert "4 newer revisions" in text
    assert "has no revision ffff" in get(site, f"{HERE}/changes?hold=ffff").text
    assert "It is the newest" in get(site, f"{HERE}/changes?hold=main").text


def test_two_revisions_compared(site: Site) -> None:
    page = get(site, f"{HERE}/compare/{sha(0)}...{sha(1)}")
    assert "rope" in page.text
    assert "extra0.txt" in page.text
    assert "extra1.txt" in page.text
    form = site.client.get(f"{HERE}/compare?a={sha(0)}&b=main", headers=HTML, follow_redirects=False)
    assert form.headers["location"] == f"{HERE}/compare/{sha(0)}...main"
    assert get(site, f"{HERE}/compare/{sha(1)}...{sha(1)}").text.count("No difference.") == 1
    get(site, f"{HERE}/compare/nonsense", status=404)
    get(site, f"{HERE}/compare/{sha(1)}...feed", status=404)


def test_an_advisory_is_a_page_for_browsers_and_its_document_for_programs(site: Site) -> None:
    path = f"/advisories/{an_advisory(site)}"
    page = get(site, path)
    assert an_advisory(site) in page.text
    assert "open" in page.text
    for headers, asked in (({}, path), ({"Accept": "application/json"}, path), (HTML, f"{path}?format=json")):
        answer = site.client.get(asked, headers=headers)
        assert answer.json()["id"] == an_advisory(site)
        assert answer.headers["content-type"] == "application/json"
        assert "Accept" in answer.headers["vary"]
    closed = get(site, f"/advisories/{an_advisory(site, 'closed')}")
    assert "closed" in closed.text


def test_what_is_not_here_is_a_page_for_browsers_and_a_problem_for_programs(site: Site) -> None:
    for path in ("/models/no/such", f"{HERE}?rev=feed", "/advisories/nope", "/models/no/such/changes"):
        get(site, path, status=404)
        assert site.client.get(path).headers["content-type"] == "application/problem+json"
    get(site, f"{HERE}?profile=best", status=422)
    get(site, f"{HERE}/changes?cursor=x", status=400)


def test_search_finds_repos_revisions_advisories_classes_and_config_keys(site: Site) -> None:
    assert HERE in get(site, "/?q=TINY").links
    assert f"{HERE}?rev={sha(3)}" in get(site, f"/?q={sha(3)}").links
    assert f"/advisories/{an_advisory(site)}" in get(site, f"/?q={an_advisory(site)}").links
    assert "/?q=config.rope" in get(site, "/?q=config.ro").links
    assert f"{HERE}?rev={sha(5)}" in get(site, "/?q=rope").links
    assert "Nothing found" in get(site, "/?q=%00%E2%80%AE%3Cscript%3E").text


# --- who may see what ----------------------------------------------------------------------------


def test_what_was_read_with_a_token_is_shown_only_with_one_of_ours(site: Site) -> None:
    hidden = an_advisory(site)
    with site.database.transaction() as tx:
        watch = watches.add(tx, REPO, now=NOW)
        watches.save(tx, replace(watch, restricted=True))
    for path in (
        HERE,
        f"{HERE}/changes",
        f"{HERE}/compare/main...main",
        f"{HERE}/card.svg",
        f"/advisories/{hidden}",
    ):
        assert site.client.get(path, headers=HTML).status_code == 404, path
    for path in ("/", "/?q=tiny", "/?q=rope", f"/?q={sha(3)}", "/watches", "/health"):
        text = get(site, path).text
        assert "acme/tiny-llm" not in text, path
    secret = site.token(Scope.READ)["Authorization"].removeprefix("Bearer ")
    basic = "Basic " + base64.b64encode(f"me:{secret}".encode()).decode()
    assert "acme/tiny-llm" in get(site, "/", Authorization=basic).text
    get(site, HERE, Authorization=basic)
    get(site, f"/advisories/{hidden}", Authorization=basic)


def test_signing_in_asks_the_browser_for_a_token(site: Site) -> None:
    answer = site.client.get("/sign-in", headers=HTML)
    assert answer.status_code == 401
    assert "Basic" in answer.headers["www-authenticate"]
    header = site.token(Scope.READ)
    assert site.client.get("/sign-in", headers=header, follow_redirects=False).headers["location"] == "/"


# --- forms ---------------------------------------------------------------------------------------


def send(site: Site, **fields: str) -> Any:
    return site.client.post("/watches", data=fields, headers=HTML)


def secret_of(site: Site, *scopes: Scope, name: str = "form") -> str:
    return site.token(*scopes, name=name)["Authorization"].removeprefix("Bearer ")


def test_watches_are_added_paused_and_removed_by_a_form_with_a_token(kept: Kept, upstream: LoopbackHub) -> None:
    site = Site(kept.database, hub={"endpoint": upstream.url})
    upstream.create("birch/stories").commit({"README.md": "# Stories\n"}, title="first")
    token = secret_of(site, Scope.WRITE)
    added = send(site, action="add", repo="birch/stories", every="30m", token=token)
    assert added.status_code == 200, added.text
    assert "birch/stories is watched" in Page(added.text).text
    assert "/models/birch/stories" in get(site, "/watches").links
    assert "Nothing was read of this repo yet" in get(site, "/models/birch/stories").text
    send(site, action="pause", repo="birch/stories", token=token)
    with site.database.snapshot() as tx:
        assert watches.require(tx, OTHER).paused
    send(site, action="remove", repo="birch/stories", token=token)
    with site.database.snapshot() as tx:
        assert watches.get(tx, OTHER) is None


def test_a_form_reaches_all_repos_of_an_owner(kept: Kept, upstream: LoopbackHub) -> None:
    site = Site(kept.database, hub={"endpoint": upstream.url})
    upstream.create("birch/stories").commit({"README.md": "# Stories\n"}, title="first")
    token = secret_of(site, Scope.WRITE)
    for name in ("birch/*", "birch/stories"):
        assert send(site, action="add", repo=name, token=token).status_code == 200
    for action, paused in (("pause", True), ("resume", False)):
        answer = send(site, action=action, repo="birch/*", token=token)
        assert answer.status_code == 200, answer.text
        with site.database.snapshot() as tx:
            assert watches.require(tx, OTHER).paused is paused
            assert [(owner.owner, owner.paused) for owner in watches.owners(tx)] == [("birch", paused)]
    assert send(site, action="remove", repo="birch/*", token=token).status_code == 200
    with site.database.snapshot() as tx:
        assert (watches.get(tx, OTHER), list(watches.owners(tx))) == (None, [])


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"action": "remove", "repo": "acme/tiny-llm"}, 401),
        ({"action": "remove", "repo": "acme/tiny-llm", "token": "hubwatch_no"}, 401),
        ({"action": "burn", "repo": "acme/tiny-llm"}, 400),
        ({}, 400),
    ],
)
def test_a_form_without_a_good_token_changes_nothing(site: Site, fields: dict[str, str], status: int) -> None:
    with site.database.transaction() as tx:
        watches.add(tx, REPO, now=NOW)
    assert send(site, **fields).status_code == status
    reader = secret_of(site, Scope.READ)
    assert send(site, **{"action": "remove", **fields, "token": reader}).status_code in {400, 403}
    # what a browser sends by itself is not enough either
    basic = "Basic " + base64.b64encode(f"me:{secret_of(site, Scope.WRITE, name='w')}".encode()).decode()
    answer = site.client.post(
        "/watches", data={"action": "remove", "repo": "acme/tiny-llm"}, headers={**HTML, "Authorization": basic}
    )
    assert answer.status_code == 401
    with site.database.snapshot() as tx:
        assert watches.get(tx, REPO) is not None


def test_a_webhook_is_subscribed_by_a_form_and_its_secret_shown_once(site: Site) -> None:
    token = secret_of(site, Scope.WRITE)
    answer = send(site, action="subscribe", url="https://hooks.example.org/x", repo="", token=token)
    assert answer.status_code == 200, answer.text
    assert "whsec_" in answer.text
    header = {"Authorization": f"Bearer {token}"}
    listed = get(site, "/watches", **header)
    assert "hooks.example.org" in listed.text
    assert "whsec_" not in listed.text
    assert "hooks.example.org" not in get(site, "/watches").text
    refused = send(site, action="subscribe", url="slack://token@channel", token=token)
    assert refused.status_code == 400


# --- hostile -------------------------------------------------------------------------------------

NASTY = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>\"'></textarea></title>"
    "\u202egnp.exe\u2066\x00\x1b]8;;http://evil\x07\ud800" + "A" * 10_000
)


def test_hostile_text_everywhere_is_inert(site: Site) -> None:
    number = 6
    entry = FileEntry(path="config.json", size=7, blob_id="e" * 40)
    names = {path: replace(entry, path=path) for path in (f"{NASTY}.py", "config.json", "a\nb.py", "../x.py")}
    (before,) = _findings(1, "B")
    change = replace(
        before.change,
        path=f"{NASTY}.py",
        pointer=f"/{NASTY}",
        summary=NASTY,
        before={NASTY: [NASTY]},
        after=NASTY,
        facts={"why": NASTY},
    )
    estimate = replace(
        _estimate(number),
        architecture=NASTY,
        model_type=NASTY,
        reason=NASTY,
        body={
            "parameters": {"total": 10},
            "memory": {"full_finetune_bytes": 1, "lora_bytes": 1},
            "cards": [],
            "structure": [{"name": NASTY, "type": NASTY, "output_shape": NASTY, "parameters": 1}],
            "findings": [{"rule": "r", "level": "error", "message": NASTY, "fix": NASTY}],
        },
    )
    with site.database.transaction() as tx:
        blobs.put(tx, entry.content_key, b'{"a":1}')
        history.land(
            tx,
            Landing(
                repo=REPO,
                ref="main",
                revision=replace(revision(number), author=NASTY, title=NASTY),
                observed_at=NOW,
                backfill=False,
                manifest=Manifest(files=names),
                gaps=(),
                findings=(replace(before, change=change, reason=NASTY),),
                estimate=estimate,
                advisories=(),
                events=(),
            ),
        )
    for path in (
        "/",
        HERE,
        f"{HERE}/changes",
        f"{HERE}/compare",
        f"{HERE}/compare/{sha(5)}...{sha(6)}",
        "/?q=%3Cscript%3Ealert(1)%3C/script%3E%E2%80%AE%00",
        f"{HERE}/changes?hold=%3Cscript%3E%E2%80%AE",
        f"{HERE}/changes?path=%22%3E%3Cscript%3E",
    ):
        get(site, path)
    assert "&lt;script&gt;" in site.client.get(f"{HERE}/changes", headers=HTML).text
    for kind in ("svg", "md"):
        made = site.client.get(f"{HERE}/card.{kind}")
        assert made.status_code == 200
        assert "<script" not in made.text.replace(r"\<script", "")
        assert "\u202e" not in made.text


def test_a_share_card_needs_nothing_else(site: Site) -> None:
    made = site.client.get(f"{HERE}/card.svg")
    assert made.headers["content-type"] == "image/svg+xml"
    assert "href" not in made.text
    assert "style" not in made.text
    assert "1,005" in made.text
    assert sha(5)[:12] in site.client.get(f"{HERE}/card.md").text


def test_models_of_the_same_architecture_are_named(site: Site, kept: Kept) -> None:
    with kept.database.transaction() as tx:
        history.land(
            tx,
            Landing(
                repo=OTHER,
                ref="main",
                revision=revision(70),
                observed_at=NOW,
                backfill=False,
                manifest=Manifest(files={}),
                gaps=(),
                findings=(),
                estimate=_estimate(1005),
                advisories=(),
                events=(),
            ),
        )
        watch = watches.add(tx, OTHER, now=NOW)
        watches.save(tx, replace(watch, head=revision(70).sha))
        assert estimates.of(tx, OTHER, revision(70).sha) is not None
    page = get(site, HERE)
    assert "/models/birch/stories" in page.links
    assert "+99.5%" in page.text


def test_a_repo_that_only_looks_like_one_is_no_defect(site: Site) -> None:
    for path in ("/models/a/..%2f..", "/models/%00/x", "/models/a/b%0a", f"/models/{'a' * 300}/b"):
        assert site.client.get(path, headers=HTML).status_code in {400, 404, 422}
    assert RepoRef.parse("acme/tiny-llm") == REPO


# --- the figures of the reference pages ----------------------------------------------------------


@pytest.mark.corpus
@pytest.mark.parametrize("number", [0, 1])
def test_the_reference_models_show_every_classic_figure(site: Site, corpus: Any, number: int) -> None:
    known = json.loads((corpus / "reference" / "estimators" / "classic-figures.json").read_text())[number]
    config = json.dumps(known["config"]).encode()
    entry = FileEntry(path="config.json", size=len(config), blob_id="d" * 40)
    files = {"config.json": entry}
    with site.database.transaction() as tx:
        blobs.put(tx, entry.content_key, config)
        if "published_scalars" in known:
            large = safetensors({"w": ("F32", (known["published_scalars"],))})
            weight = FileEntry(
                path="model.safetensors", size=large.size, blob_id="c" * 40, lfs_sha256=large.sha256
            )
            files[weight.path] = weight
            blobs.put(tx, header_key(weight), large.header)
        history.land(
            tx,
            Landing(
                repo=OTHER,
                ref="main",
                revision=revision(90),
                observed_at=NOW,
                backfill=False,
                manifest=Manifest(files=files),
                gaps=(),
                findings=(),
                estimate=None,
                advisories=(),
                events=(),
            ),
        )
    page = get(site, "/models/birch/stories?profile=classic")
    wanted = [
        f"a full fine-tune takes {known['full_finetune_gb']} GB, LoRA {known['lora_r16_gb']} GB",
        f"the smallest card that takes a full fine-tune is {known['smallest_card_full']}",
        f"Structure, {known['nodes']} nodes",
        *(
            f"{card['card']} {card['full_finetune_batch']:,} {card['lora_batch']:,} {card['serve_batch']:,}"
            for card in known["cards"]
        ),
        *known["findings"],
        *(f"{row['name']} {row['type']}" for row in known["structure"]),
        f"Training counts {known['training_tokens']:,} tokens a sequence, serving {known['serving_tokens']:,}.",
    ]
    if number == 0:
        wanted += [
            f"Derived from config.json {known['derived_parameters']:,}",
            f"Published scalars {known['published_scalars']:,}",
            f"({known['delta_percent']}%)",
            f"Weights in bf16 {known['weights_gb']} GB",
            f"KV cache, one sequence {known['kv_cache_gb']} GB",
            f"Layers {known['layers']}",
            f"Training cost ${known['cost_usd']} on {known['priced_on']}",
            "Will it forward-pass yes",
        ]
    for words in wanted:
        assert words in page.text, words
