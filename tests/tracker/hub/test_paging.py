"""Lists in pages: the link is followed on our origin only, and everything has an end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.model import RepoRef
from tests.tracker.hub.scripted import Script, model, reply
from tracker.demo.faults import foreign_link, matching, no_link, server_error
from tracker.demo.hub import LoopbackHub
from tracker.demo.wire import Request, Response
from tracker.hub.client import HubClient
from tracker.hub.errors import UpstreamFault
from tracker.hub.paging import parse_next

Connect = Callable[..., HubClient]
REPO = RepoRef(owner="acme", name="tiny")


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ('<https://huggingface.co/api/x?p=1&limit=1>; rel="next"', "https://huggingface.co/api/x?p=1&limit=1"),
        ("</api/x?p=1>; rel=next", "/api/x?p=1"),
        ('<https://a/first>; rel="first", <https://a/2>; rel="next"', "https://a/2"),
        ('<https://a/2;x=y,z>; title="a, b"; REL="next last"', "https://a/2;x=y,z"),
        ('<https://a/x>; rel="xet-auth", <https://b/y>; rel="xet-reconstruction-info"', None),
        ('<https://a/prev>; rel="prev"', None),
        ('<https://a/x>; rel="nextish"', None),
        ("<>; rel=next", None),
        ("", None),
    ],
)
def test_next_is_found_among_the_links(link: str, target: str | None) -> None:
    assert parse_next(link) == target


@given(st.text() | st.from_regex(r'(<[^>]{0,9}>;\s*rel="?[a-z ]{0,9}"?,?\s?){0,4}', fullmatch=True))
def test_any_link_header_is_survived(link: str) -> None:
    target = parse_next(link)
    assert target is None or target in link


@given(st.sampled_from(["<", "<" * 9, ";", "; rel", "> ; rel=", '"', ",", " "]), st.integers(1, 20_000))
def test_a_long_link_header_takes_no_time(part: str, times: int) -> None:
    assert parse_next(part * times) is None


def test_all_pages_of_a_tree_are_read_to_the_end(hub: LoopbackHub, connect: Connect) -> None:
    hub.pages.tree = 3
    sha = hub.create("acme/tiny").commit({f"f{n:02d}.json": "{}" for n in range(10)})
    manifest = connect(hub).manifest(REPO, sha)
    assert sorted(manifest.files) == [f"f{n:02d}.json" for n in range(10)]
    assert len(hub.requests) == 4


def test_a_link_to_another_host_is_not_followed_and_the_token_stays(
    hub: LoopbackHub, other: Script, connect: Connect
) -> None:
    hub.tokens = {"hf_secret": []}
    sha = hub.create("acme/tiny").commit({"a": "1"})
    hub.faults.add(foreign_link(other.url), when=matching(path="*/tree/*"))
    with pytest.raises(UpstreamFault, match="another host"):
        connect(hub, "hf_secret").manifest(REPO, sha)
    assert other.seen == []


@pytest.mark.parametrize(
    "link",
    [
        "https://127.0.0.1:{port}{path}?p=1",
        "http://localhost:{port}{path}?p=1",
        "http://127.0.0.1:{port}@evil.example{path}?p=1",
        "http://user:pw@127.0.0.1:{port}{path}?p=1",
        "//evil.example{path}?p=1",
        "http://127.0.0.1:{port}/api/models/other/repo/tree/x?p=1",
        "file:///etc/passwd",
        "http://[::1",
        "http://127.0.0.1:99999{path}",
        "https://huggingface.co.evil.example{path}?p=1",
    ],
)
def test_only_the_very_same_scheme_host_port_and_list_is_followed(
    script: Script, connect: Connect, link: str
) -> None:
    path = f"/api/models/acme/tiny/tree/{'a' * 40}"
    port = script.url.rpartition(":")[2]
    script.routes[path] = reply([], Link=f'<{link.format(port=port, path=path)}>; rel="next"')
    with pytest.raises(UpstreamFault):
        connect(script, "hf_secret").manifest(REPO, "a" * 40)
    assert len(script.seen) == 1


def test_a_mirror_passing_on_the_hubs_own_links_is_asked_itself(script: Script, connect: Connect) -> None:
    def page(request: Request) -> Response:
        if request.first("cursor"):
            return reply([])
        return reply([], Link=f'<https://huggingface.co{request.raw_path}?cursor=x>; rel="next"')

    script.routes[f"/api/models/acme/tiny/tree/{'a' * 40}"] = page
    assert connect(script).manifest(REPO, "a" * 40).files == {}
    assert script.paths[1].endswith("?cursor=x")


def test_pages_that_go_round_in_a_circle_end(script: Script, connect: Connect) -> None:
    path = f"/api/models/acme/tiny/tree/{'a' * 40}"
    script.routes[path] = lambda request: reply(
        [], Link=f"<{path}?cursor={request.first('cursor') != '1':d}>; rel=next"
    )
    with pytest.raises(UpstreamFault, match="circle"):
        connect(script).manifest(REPO, "a" * 40)
    assert len(script.seen) == 3


def test_commit_pages_that_bring_nothing_new_end(script: Script, connect: Connect) -> None:
    path = f"/api/models/acme/tiny/commits/{'a' * 40}"
    commit = {"id": "a" * 40, "title": "t", "date": "2024-02-19T10:57:45.000Z"}
    script.routes[path] = lambda request: reply(
        [commit], Link=f'<{path}?p={int(request.first("p") or 0) + 1}&limit={request.first("limit")}>; rel="next"'
    )
    with pytest.raises(UpstreamFault, match="nothing new"):
        connect(script).walk(REPO, head="a" * 40, known=lambda _: False)
    assert len(script.seen) <= 4


def test_a_504_deep_in_the_pages_keeps_the_cursor(hub: LoopbackHub, connect: Connect) -> None:
    hub.pages.tree = 2
    sha = hub.create("acme/tiny").commit({f"f{n}": str(n) for n in range(6)})
    fault = hub.faults.add(server_error(504), when=matching(path="*/tree/*"), skip=2, times=1)
    assert len(connect(hub).manifest(REPO, sha).files) == 6
    assert fault.done == 1
    queries = [record.query for record in hub.requests]
    assert len(queries) == 4
    assert queries[2] == queries[3]


def test_lasting_5xx_deep_in_the_pages_give_up_after_one_more_try(hub: LoopbackHub, connect: Connect) -> None:
    hub.pages.tree = 2
    sha = hub.create("acme/tiny").commit({f"f{n}": str(n) for n in range(6)})
    hub.faults.add(server_error(500), when=matching(path="*/tree/*"), skip=1)
    with pytest.raises(UpstreamFault) as caught:
        connect(hub).manifest(REPO, sha)
    assert caught.value.status == 500
    assert len(hub.requests) == 3


def test_a_5xx_on_the_first_page_is_not_asked_again(hub: LoopbackHub, connect: Connect) -> None:
    sha = hub.create("acme/tiny").commit({"a": "1"})
    hub.faults.add(server_error(500))
    with pytest.raises(UpstreamFault):
        connect(hub).manifest(REPO, sha)
    assert len(hub.requests) == 1


def test_a_listing_of_an_owner_is_paged(hub: LoopbackHub, connect: Connect) -> None:
    hub.pages.models = 2
    for n in range(5):
        hub.create(f"acme/m{n}").commit({"a": str(n)})
    hub.create("else/m0").commit({"a": "x"})
    listing = connect(hub).listing("acme")
    assert sorted(head.canonical for head in listing) == [f"acme/m{n}" for n in range(5)]
    assert all(head.sha == hub.model(head.canonical).repo.resolve("main") for head in listing)
    assert all(head.hub_id == hub.model(head.canonical).hub_id for head in listing)
    assert len(hub.requests) == 3


def test_a_partial_listing_looks_whole_so_that_it_proves_no_absence(hub: LoopbackHub, connect: Connect) -> None:
    hub.pages.models = 2
    for n in range(5):
        hub.create(f"acme/m{n}").commit({"a": str(n)})
    hub.faults.add(no_link())
    assert len(connect(hub).listing("acme")) == 2


def test_entries_of_a_listing_that_make_no_sense_are_left_out(script: Script, connect: Connect) -> None:
    script.routes["/api/models"] = reply(
        [model("acme/a"), 7, model("evil/b"), model("acme/c", sha="zz"), {"id": "acme"}]
    )
    listing = connect(script).listing("acme")
    assert [head.canonical for head in listing] == ["acme/a"]
