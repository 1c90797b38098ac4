"""The cheap question, and the states of a repo told apart."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storage.model import RepoRef, RepoState
from tests.tracker.hub.scripted import Script, model, reply
from tracker.demo.faults import edit_json, garbage, gzip_bomb, matching, redirect, reset, server_error
from tracker.demo.hub import LoopbackHub
from tracker.demo.repos import GitRepo
from tracker.demo.wire import Response
from tracker.hub import wire
from tracker.hub.client import HubClient
from tracker.hub.errors import AccessDenied, HubError, RevisionGone, Unreachable, UpstreamFault

Connect = Callable[..., HubClient]
REPO = RepoRef(owner="acme", name="tiny")
API = "/api/models/acme/tiny"


def test_one_request_says_where_main_stands(hub: LoopbackHub, connect: Connect) -> None:
    sha = hub.create("acme/tiny").commit({"config.json": "{}"})
    head = connect(hub).head(REPO)
    published = hub.model("acme/tiny")
    assert (head.state, head.sha, head.hub_id) == (RepoState.OK, sha, published.hub_id)
    assert (head.canonical, head.gated, head.private) == ("acme/tiny", None, False)
    assert head.created_at == published.created_at
    assert head.last_modified is not None
    (asked,) = hub.requests
    assert asked.path == API
    assert asked.query == (
        "expand=sha&expand=lastModified&expand=createdAt&expand=disabled&expand=gated&expand=private"
        "&expand=downloads"
    )


def test_a_ref_with_a_slash_is_quoted(hub: LoopbackHub, connect: Connect) -> None:
    repo = hub.create("acme/tiny")
    repo.commit({"a": "1"})
    sha = repo.commit({"a": "2"}, ref="refs/pr/1")
    assert connect(hub).head(REPO, ref="refs/pr/1").sha == sha


def test_an_empty_repo_has_no_sha(hub: LoopbackHub, connect: Connect) -> None:
    hub.create("acme/tiny")
    head = connect(hub).head(REPO)
    assert (head.state, head.sha) == (RepoState.OK, None)


def test_a_ref_that_is_not_there_is_not_a_repo_that_is_gone(hub: LoopbackHub, connect: Connect) -> None:
    hub.create("acme/tiny").commit({"a": "1"})
    with pytest.raises(RevisionGone):
        connect(hub).head(REPO, ref="no-such-branch")


@pytest.mark.parametrize("ref", ["", "a b", "a..b", "x\ny", "r" * 256, "a^", "\ud800"])
def test_what_cannot_be_a_ref_is_not_asked_for(hub: LoopbackHub, connect: Connect, ref: str) -> None:
    with pytest.raises(RevisionGone):
        connect(hub).head(REPO, ref=ref)
    assert hub.requests == []


def test_missing_to_the_anonymous_is_a_401_without_code(hub: LoopbackHub, connect: Connect) -> None:
    head = connect(hub).head(REPO)
    assert (head.state, head.sha, head.hub_id) == (RepoState.MISSING, None, None)


def test_private_to_the_anonymous_is_missing(hub: LoopbackHub, connect: Connect) -> None:
    hub.create("acme/tiny", private=True).commit({"a": "1"})
    assert connect(hub).head(REPO).state is RepoState.MISSING


def test_missing_to_a_token_is_a_404_repo_not_found(hub: LoopbackHub, connect: Connect) -> None:
    hub.tokens = {"hf_good": []}
    assert connect(hub, "hf_good").head(REPO).state is RepoState.MISSING


def test_private_to_a_token_that_may_read_it_is_ok_and_private(hub: LoopbackHub, connect: Connect) -> None:
    sha = hub.create("acme/tiny", private=True).commit({"a": "1"})
    hub.tokens = {"hf_good": ["acme/tiny"]}
    head = connect(hub, "hf_good").head(REPO)
    assert (head.state, head.sha, head.private) == (RepoState.OK, sha, True)


def test_a_bad_token_never_means_that_a_repo_is_gone(hub: LoopbackHub, connect: Connect) -> None:
    hub.create("acme/tiny").commit({"a": "1"})
    client = connect(hub, "hf_expired")
    assert client.head(REPO).state is RepoState.TOKEN_BAD
    with pytest.raises(AccessDenied) as caught:
        client.manifest(REPO, "a" * 40)
    assert caught.value.state is RepoState.TOKEN_BAD
    assert "HF_TOKEN" in caught.value.help
    assert client.token_is_good() is False


def test_a_401_without_code_in_answer_to_a_token_is_about_the_token(script: Script, connect: Connect) -> None:
    script.routes[API] = reply({"error": "Invalid username or password."}, 401)
    assert connect(script, "hf_x").head(REPO).state is RepoState.TOKEN_BAD
    assert connect(script).head(REPO).state is RepoState.MISSING


def test_whether_the_token_is_good_is_asked_with_it(hub: LoopbackHub, connect: Connect) -> None:
    hub.tokens = {"hf_good": []}
    assert connect(hub, "hf_good").token_is_good() is True
    assert connect(hub).token_is_good() is None
    assert [record.path for record in hub.requests] == ["/api/whoami-v2"]


def test_gated_answers_the_head_and_refuses_the_rest(hub: LoopbackHub, connect: Connect) -> None:
    sha = hub.create("acme/tiny", gated="manual").commit({"config.json": "{}"})
    client = connect(hub)
    head = client.head(REPO)
    assert (head.state, head.sha, head.gated) == (RepoState.OK, sha, "manual")
    for ask in (
        lambda: client.walk(REPO, head=sha, known=lambda _: False),
        lambda: client.manifest(REPO, sha),
    ):
        with pytest.raises(AccessDenied) as caught:
            ask()
        assert caught.value.state is RepoState.GATED
        assert caught.value.help


def test_disabled_answers_200_and_says_so(hub: LoopbackHub, connect: Connect) -> None:
    sha = hub.create("acme/tiny", disabled=True).commit({"a": "1"})
    head = connect(hub).head(REPO)
    assert (head.state, head.sha) == (RepoState.DISABLED, sha)


def test_disabled_in_its_older_shape_is_a_403(hub: LoopbackHub, connect: Connect) -> None:
    hub.create("acme/tiny", disabled="old").commit({"a": "1"})
    hub.tokens = {"hf_good": []}
    assert connect(hub, "hf_good").head(REPO).state is RepoState.DISABLED


@pytest.mark.parametrize(
    ("status", "body", "token", "state"),
    [
        (403, {"error": "Access to this resource is disabled."}, None, RepoState.DISABLED),
        (403, {"error": "token lacks permission"}, "hf_x", RepoState.PRIVATE),
        (451, {"error": "for legal reasons"}, None, RepoState.DISABLED),
    ],
)
def test_other_refusals(
    script: Script, connect: Connect, *, status: int, body: object, token: str | None, state: RepoState
) -> None:
    script.routes[API] = reply(body, status)
    assert connect(script, token).head(REPO).state is state


@pytest.mark.parametrize(
    ("status", "body"), [(403, b"<html>blocked"), (404, {"error": "x"}), (400, []), (418, "x")]
)
def test_a_refusal_that_says_nothing_clear_is_a_fault_and_never_gone(
    script: Script, connect: Connect, status: int, body: object
) -> None:
    script.routes[API] = reply(body, status)
    with pytest.raises(UpstreamFault) as caught:
        connect(script).head(REPO)
    assert caught.value.status == status


def test_renamed_is_followed_by_hand_in_two_requests(hub: LoopbackHub, connect: Connect) -> None:
    sha = hub.create("acme/tiny").commit({"a": "1"})
    hub_id = hub.model("acme/tiny").hub_id
    hub.rename("acme/tiny", "big/tiny-2")
    head = connect(hub).head(REPO)
    assert (head.state, head.canonical, head.sha, head.hub_id) == (RepoState.RENAMED, "big/tiny-2", sha, hub_id)
    assert [record.path for record in hub.requests] == [API, "/api/models/big/tiny-2"]
    assert "expand=sha" in hub.requests[1].query


def test_a_redirect_to_a_different_repo_shows_in_the_id(hub: LoopbackHub, connect: Connect) -> None:
    hub.create("acme/tiny").commit({"a": "1"})
    first = connect(hub).head(REPO).hub_id
    hub.remove("acme/tiny")
    hub.create("stranger/tiny").commit({"a": "evil"})
    hub.redirect("acme/tiny", "stranger/tiny")
    head = connect(hub).head(REPO)
    assert head.state is RepoState.RENAMED
    assert head.hub_id not in (None, first)


def test_a_name_taken_by_another_repo_shows_in_the_id(hub: LoopbackHub, connect: Connect) -> None:
    hub.create("acme/tiny").commit({"a": "1"})
    before = connect(hub).head(REPO)
    hub.replace_identity("acme/tiny")
    after = connect(hub).head(REPO)
    assert after.state is RepoState.OK
    assert before.hub_id != after.hub_id


def test_subresources_of_a_renamed_repo_are_followed(hub: LoopbackHub, connect: Connect) -> None:
    hub.pages.tree = 1
    repo: GitRepo = hub.create("acme/tiny")
    sha = repo.commit({"a": "1", "b": "2"})
    hub.rename("acme/tiny", "big/tiny-2")
    client = connect(hub)
    manifest = client.manifest(REPO, sha)
    assert sorted(manifest.files) == ["a", "b"]
    assert [revision.sha for revision in client.walk(REPO, head=sha, known=lambda _: False).revisions] == [sha]
    assert client.content(REPO, sha, manifest.files["a"]) == b"1"
    assert client.refs(REPO) == {"refs/heads/main": sha}


def test_the_query_is_kept_when_the_redirect_leaves_it_out(script: Script, connect: Connect) -> None:
    script.routes[API] = Response(status=307, headers={"Location": "/api/models/big/new"})
    script.routes["/api/models/big/new"] = reply(model("big/new"))
    assert connect(script).head(REPO).state is RepoState.RENAMED
    assert "expand=sha" in script.paths[1]


def test_a_rename_that_ends_in_a_401_is_missing(script: Script, connect: Connect) -> None:
    script.routes[API] = Response(status=307, headers={"Location": "/api/models/big/new"})
    script.routes["/api/models/big/new"] = reply({"error": "Invalid username or password."}, 401)
    assert connect(script).head(REPO).state is RepoState.MISSING


def test_another_spelling_of_the_name_is_no_rename(script: Script, connect: Connect) -> None:
    script.routes[API] = reply(model("Acme/Tiny"))
    head = connect(script).head(REPO)
    assert (head.state, head.canonical) == (RepoState.OK, "Acme/Tiny")


@pytest.mark.parametrize("location", ["{other}{path}", "//{host}{path}"])
def test_a_redirect_to_another_host_is_not_followed(
    hub: LoopbackHub, other: Script, connect: Connect, location: str
) -> None:
    hub.tokens = {"hf_secret": []}
    target = location.replace("{other}", other.url).replace("{host}", other.url.removeprefix("http://"))
    hub.faults.add(redirect(target))
    with pytest.raises(UpstreamFault, match="another host"):
        connect(hub, "hf_secret").head(REPO)
    assert other.seen == []


@pytest.mark.parametrize(
    "location",
    [
        "/login",
        "/api/whoami-v2",
        "/api/models/big/new/commits/main",
        "/api/models/big..x/new",
        "",
        "http://[",
        "/" * 9,
    ],
)
def test_a_redirect_to_something_else_is_not_followed(script: Script, connect: Connect, location: str) -> None:
    script.routes[API] = Response(status=307, headers={"Location": location})
    with pytest.raises(UpstreamFault):
        connect(script).head(REPO)
    assert len(script.seen) <= wire.MAX_HOPS


def test_redirects_in_a_circle_end(script: Script, connect: Connect) -> None:
    script.routes[API] = Response(status=307, headers={"Location": "/api/models/b/c"})
    script.routes["/api/models/b/c"] = Response(status=307, headers={"Location": API})
    with pytest.raises(UpstreamFault, match="redirects"):
        connect(script).head(REPO)
    assert len(script.seen) == wire.MAX_HOPS


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_5xx_is_a_fault_asked_once(hub: LoopbackHub, connect: Connect, status: int) -> None:
    hub.faults.add(server_error(status))
    with pytest.raises(UpstreamFault) as caught:
        connect(hub).head(REPO)
    assert (caught.value.status, caught.value.retryable) == (status, True)
    assert len(hub.requests) == 1


def test_garbage_is_a_fault(hub: LoopbackHub, connect: Connect) -> None:
    hub.create("acme/tiny").commit({"a": "1"})
    hub.faults.add(garbage())
    with pytest.raises(UpstreamFault):
        connect(hub).head(REPO)


@pytest.mark.parametrize(
    "value",
    [
        [], "x", None, {}, {"id": 7}, {"id": "a/../b"}, {"id": "gpt2"}, model(sha="main"), model(sha=7),
        model(sha="A" * 40), b"[" * 100_000, b"1" * 5_000, b"",
    ],
)  # fmt: skip
def test_an_answer_that_makes_no_sense_is_a_fault(script: Script, connect: Connect, value: object) -> None:
    script.routes[API] = reply(value)
    with pytest.raises(UpstreamFault):
        connect(script).head(REPO)


def test_odd_fields_of_a_head_are_survived(script: Script, connect: Connect) -> None:
    odd = model(_id=["x"], lastModified="yesterday", createdAt=7, gated={"a": 1}, private="yes", disabled="no")
    script.routes[API] = reply(odd)
    head = connect(script).head(REPO)
    assert (head.state, head.hub_id, head.created_at, head.gated) == (RepoState.OK, None, None, "auto")


def test_an_answer_without_end_is_cut(hub: LoopbackHub, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_JSON", 1_000_000)
    hub.create("acme/tiny").commit({"a": "1"})
    hub.faults.add(gzip_bomb(50_000_000))
    with pytest.raises(UpstreamFault, match="bytes of JSON"):
        connect(hub).head(REPO)


def test_broken_compression_is_a_fault(script: Script, connect: Connect) -> None:
    script.routes[API] = reply(b"not gzip", Content_Encoding="gzip")
    with pytest.raises(UpstreamFault):
        connect(script).head(REPO)


def test_a_reset_connection_is_unreachable(hub: LoopbackHub, connect: Connect) -> None:
    hub.faults.add(reset())
    with pytest.raises(Unreachable) as caught:
        connect(hub).head(REPO)
    assert "HF_ENDPOINT" in caught.value.help


def test_no_server_is_unreachable(connect: Connect) -> None:
    with pytest.raises(Unreachable):
        HubClient("http://127.0.0.1:1").head(REPO)


@pytest.mark.parametrize(
    ("owner", "name"),
    [("acme", "../x"), ("a/b", "c"), ("acme", "x?y"), ("acme", "x#y"), ("", "x"), ("a--b", "c"), ("a", "x.git"),
     ("a", "x y"), ("a", "x\n"), ("a", "n" * 97), ("ä", "x")],
)  # fmt: skip
def test_an_invalid_repo_id_never_reaches_the_network(
    hub: LoopbackHub, connect: Connect, owner: str, name: str
) -> None:
    client, repo = connect(hub), RepoRef(owner=owner, name=name)
    for ask in (client.head, client.refs, lambda repo: client.manifest(repo, "a" * 40)):
        with pytest.raises(AccessDenied):
            ask(repo)
    with pytest.raises(HubError):
        client.listing(f"{owner}/{name}")
    assert hub.requests == []


def test_what_is_no_commit_id_never_reaches_the_network(hub: LoopbackHub, connect: Connect) -> None:
    client = connect(hub)
    with pytest.raises(RevisionGone):
        client.manifest(REPO, "main/../../x")
    with pytest.raises(RevisionGone):
        client.walk(REPO, head="main", known=lambda _: False)
    assert hub.requests == []


def test_a_stale_head_is_told_from_the_refs(hub: LoopbackHub, connect: Connect) -> None:
    from tracker.demo.faults import stale

    repo = hub.create("acme/tiny")
    old = repo.commit({"a": "1"})
    new = repo.commit({"a": "2"})
    hub.faults.add(stale(old), when=matching(path=API))
    client = connect(hub)
    assert client.head(REPO).sha == old
    assert client.refs(REPO)["refs/heads/main"] == new


def test_refs_are_branches_tags_and_pull_requests(hub: LoopbackHub, connect: Connect) -> None:
    repo = hub.create("acme/tiny")
    first = repo.commit({"a": "1"})
    repo.tag("v1.0")
    second = repo.commit({"a": "2"})
    repo.pull_request(3, first)
    repo.branch("dev")
    assert connect(hub).refs(REPO) == {
        "refs/heads/main": second,
        "refs/heads/dev": second,
        "refs/tags/v1.0": first,
        "refs/pr/3": first,
    }


@pytest.mark.parametrize("target", [None, "main", "a" * 39])
def test_a_ref_without_a_target_is_a_fault_and_never_a_removed_ref(
    hub: LoopbackHub, connect: Connect, target: object
) -> None:
    hub.create("acme/tiny").commit({"a": "1"})
    hub.faults.add(
        edit_json(lambda value: value | {"tags": [{"name": "v1", "ref": "refs/tags/v1", "targetCommit": target}]})
    )
    with pytest.raises(UpstreamFault):
        connect(hub).refs(REPO)
