"""Small files verified by hash, weight headers by range."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.model import FileEntry, RepoRef, RepoState
from tests.tracker.hub.scripted import Script, reply
from tracker.demo.faults import (
    body,
    corrupt,
    expired_links,
    headers,
    matching,
    oversize,
    redirect,
    server_error,
    truncate,
    wrong_hash,
)
from tracker.demo.files import LargeFile, LfsFile, gguf, safetensors
from tracker.demo.hub import LoopbackHub
from tracker.demo.wire import Request, Response
from tracker.hub import files
from tracker.hub.client import HubClient
from tracker.hub.errors import AccessDenied, Corrupt, FileGone, HubError, RevisionGone, TooLarge, UpstreamFault

Connect = Callable[..., HubClient]
REPO = RepoRef(owner="acme", name="tiny")
SHA = "a" * 40
LIMIT = 10_000_000
RESOLVED = f"/acme/tiny/resolve/{SHA}/"


def published(hub: LoopbackHub, **contents: bytes | LargeFile) -> tuple[str, dict[str, FileEntry]]:
    """Commit files (names with __ for a dot) and return their revision and entries; requests start at none."""
    named = {name.replace("__", "."): content for name, content in contents.items()}
    sha = hub.create("acme/tiny").commit(named)
    entries = dict(HubClient(hub.url).manifest(REPO, sha).files)
    hub.clear()
    return sha, entries


def plain(data: bytes, path: str = "a.json") -> FileEntry:
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return FileEntry(path=path, size=len(data), blob_id=blob)


def lfs(data: bytes, path: str = "a.bin") -> FileEntry:
    return FileEntry(path=path, size=len(data), blob_id=SHA, lfs_sha256=hashlib.sha256(data).hexdigest())


# --- small files ---------------------------------------------------------------------------------


def test_a_small_file_comes_by_the_resolve_cache(hub: LoopbackHub, connect: Connect) -> None:
    sha, entries = published(hub, config__json=b'{"a": 1}')
    assert connect(hub).content(REPO, sha, entries["config.json"]) == b'{"a": 1}'
    assert [record.path for record in hub.requests] == [
        f"/acme/tiny/resolve/{sha}/config.json",
        f"/api/resolve-cache/models/acme/tiny/{sha}/config.json",
    ]
    assert {record.method for record in hub.requests} == {"GET"}  # HEADs of config.json count as downloads


@pytest.mark.parametrize("name", ["a b/ä?#%.json", "x+y&z=1.json", "%2e%2e.json", "deep/er/f.json", "a\nb.json"])
def test_names_are_quoted(hub: LoopbackHub, connect: Connect, name: str) -> None:
    sha = hub.create("acme/tiny").commit({name: b"content"})
    client = connect(hub)
    assert client.content(REPO, sha, client.manifest(REPO, sha).files[name]) == b"content"


def test_an_empty_file_is_empty(hub: LoopbackHub, connect: Connect) -> None:
    sha, entries = published(hub, empty__txt=b"")
    assert connect(hub).content(REPO, sha, entries["empty.txt"]) == b""


def test_an_lfs_file_comes_from_storage_without_the_token(hub: LoopbackHub, connect: Connect) -> None:
    data = b'{"big": true}' * 1000
    hub.tokens = {"hf_secret": []}
    sha, entries = published(hub, tokenizer__json=LfsFile(data))
    assert connect(hub, "hf_secret").content(REPO, sha, entries["tokenizer.json"]) == data
    assert [(record.kind, record.authorization) for record in hub.requests] == [
        ("resolve", True),
        ("storage", False),
    ]


def test_a_plain_file_is_not_fetched_from_another_host(hub: LoopbackHub, other: Script, connect: Connect) -> None:
    sha, entries = published(hub, config__json=b"{}")
    hub.faults.add(redirect(f"{other.url}/x", status=302), when=matching(path="*/resolve/*"))
    with pytest.raises(UpstreamFault, match="not followed"):
        connect(hub).content(REPO, sha, entries["config.json"])
    assert other.seen == []


@pytest.mark.parametrize("target", ["ftp://x/y", "file:///etc/passwd", "http://[", "http://user:pw@127.0.0.1/"])
def test_an_lfs_file_is_fetched_from_http_addresses_only(script: Script, connect: Connect, target: str) -> None:
    script.fallback = Response(status=302, headers={"Location": target})
    with pytest.raises(UpstreamFault):
        connect(script).content(REPO, SHA, lfs(b"x"))
    assert len(script.seen) == 1


def test_a_host_name_that_is_none_is_unreachable(script: Script, connect: Connect) -> None:
    script.fallback = Response(status=302, headers={"Location": f"http://{'a' * 64}.example/x"})
    with pytest.raises(HubError):
        connect(script).content(REPO, SHA, lfs(b"x"))


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(st.characters(max_codepoint=255), max_size=40)
    | st.from_regex(r"(https?:)?//[^a-z]{0,9}", fullmatch=True)
)
def test_any_location_is_survived(script: Script, connect: Connect, location: str) -> None:
    script.fallback = Response(status=302, headers={"Location": location})
    client = connect(script, deadline_s=2.0)
    for ask in (lambda: client.content(REPO, SHA, plain(b"x")), lambda: client.head(REPO)):
        with pytest.raises(HubError):
            ask()


def test_storage_that_leads_back_to_the_hub_is_not_followed(
    script: Script, other: Script, connect: Connect
) -> None:
    script.fallback = Response(status=302, headers={"Location": f"{other.url}/x"})
    other.fallback = Response(status=302, headers={"Location": f"{script.url}/api/whoami-v2"})
    with pytest.raises(UpstreamFault):
        connect(script, "hf_secret").content(REPO, SHA, lfs(b"x"))
    assert other.tokens == [None]
    assert len(script.seen) == 1


def test_wrong_content_of_the_right_size_is_asked_for_once_more(hub: LoopbackHub, connect: Connect) -> None:
    sha, entries = published(hub, config__json=b'{"a": 1}')
    fault = hub.faults.add(corrupt(3), when=matching(path="*resolve-cache*"), times=1)
    assert connect(hub).content(REPO, sha, entries["config.json"]) == b'{"a": 1}'
    assert fault.done == 1
    assert len(hub.requests) == 4


@pytest.mark.parametrize("large", [False, True])
def test_content_that_stays_wrong_is_corrupt(hub: LoopbackHub, connect: Connect, large: bool) -> None:
    sha, entries = published(hub, config__json=LfsFile(b'{"a": 1}') if large else b'{"a": 1}')
    hub.faults.add(corrupt(3), when=matching(kind="storage" if large else "resolve"))
    with pytest.raises(Corrupt):
        connect(hub).content(REPO, sha, entries["config.json"])
    assert len(hub.requests) == 4


def test_a_tag_that_names_another_content_does_not_spoil_verified_bytes(
    hub: LoopbackHub, connect: Connect
) -> None:
    sha, entries = published(hub, config__json=b"{}")
    hub.faults.add(wrong_hash())
    assert connect(hub).content(REPO, sha, entries["config.json"]) == b"{}"


def test_more_bytes_than_listed_are_not_read(hub: LoopbackHub, connect: Connect) -> None:
    sha, entries = published(hub, config__json=b"{}")
    hub.faults.add(oversize(50_000_000), when=matching(path="*resolve-cache*"))
    with pytest.raises(Corrupt):
        connect(hub).content(REPO, sha, entries["config.json"])


def test_a_name_full_of_control_characters_stays_out_of_the_message(hub: LoopbackHub, connect: Connect) -> None:
    sha = hub.create("acme/tiny").commit({"a": "1"})
    with pytest.raises(FileGone) as caught:
        connect(hub).content(REPO, sha, plain(b"x", "\x1b]0;title\x07\n.json"))
    assert str(caught.value).isprintable()


def test_fewer_bytes_than_listed_are_corrupt(hub: LoopbackHub, connect: Connect) -> None:
    sha, entries = published(hub, config__json=b'{"a": 1}')
    hub.faults.add(body(b"{}"), when=matching(path="*resolve-cache*"))
    with pytest.raises(Corrupt):
        connect(hub).content(REPO, sha, entries["config.json"])


def test_a_body_cut_short_is_an_error_of_ours(hub: LoopbackHub, connect: Connect) -> None:
    sha, entries = published(hub, config__json=b'{"a": 1}')
    hub.faults.add(truncate(3), when=matching(path="*resolve-cache*"))
    with pytest.raises(HubError):
        connect(hub).content(REPO, sha, entries["config.json"])


def test_a_file_that_the_tree_lists_and_nobody_has_is_gone(hub: LoopbackHub, connect: Connect) -> None:
    sha, _ = published(hub, config__json=b"{}")
    with pytest.raises(FileGone):
        connect(hub).content(REPO, sha, plain(b"x", "nothing.json"))
    with pytest.raises(RevisionGone):
        connect(hub).content(REPO, SHA, plain(b"x", "config.json"))


@pytest.mark.parametrize(
    ("options", "state"), [({"gated": "auto"}, RepoState.GATED), ({"private": True}, RepoState.MISSING)]
)
def test_files_of_a_closed_repo_are_denied(
    hub: LoopbackHub, connect: Connect, options: dict[str, object], state: RepoState
) -> None:
    sha, entries = published(hub, config__json=b"{}")
    for name, value in options.items():
        setattr(hub.model("acme/tiny"), name, value)
    with pytest.raises(AccessDenied) as caught:
        connect(hub).content(REPO, sha, entries["config.json"])
    assert caught.value.state is state


def test_an_expired_signature_is_resolved_again_once(hub: LoopbackHub, connect: Connect) -> None:
    sha, entries = published(hub, tokenizer__json=LfsFile(b"{}"))
    fault = hub.faults.add(expired_links(), when=matching(path="*/resolve/*"), times=1)
    assert connect(hub).content(REPO, sha, entries["tokenizer.json"]) == b"{}"
    assert fault.done == 1
    assert [record.status for record in hub.requests] == [302, 403, 302, 200]


def test_signatures_that_keep_expiring_end_as_a_fault_that_shows_none(hub: LoopbackHub, connect: Connect) -> None:
    sha, entries = published(hub, tokenizer__json=LfsFile(b"{}"))
    hub.faults.add(expired_links(), when=matching(path="*/resolve/*"))
    with pytest.raises(UpstreamFault) as caught:
        connect(hub).content(REPO, sha, entries["tokenizer.json"])
    assert "Signature" not in str(caught.value)
    assert len(hub.requests) == 4


def test_a_5xx_of_the_storage_is_a_fault(hub: LoopbackHub, connect: Connect) -> None:
    sha, entries = published(hub, tokenizer__json=LfsFile(b"{}"))
    hub.faults.add(server_error(503), when=matching(kind="storage"))
    with pytest.raises(UpstreamFault):
        connect(hub).content(REPO, sha, entries["tokenizer.json"])


def test_a_repo_in_sha256_form_is_verified_too(script: Script, connect: Connect) -> None:
    data = b"content"
    blob = hashlib.sha256(b"blob %d\0" % len(data) + data).hexdigest()
    script.fallback = reply(data)
    assert connect(script).content(REPO, SHA, FileEntry(path="a", size=7, blob_id=blob)) == data


# --- headers -------------------------------------------------------------------------------------


def weights(count: int, size: int | None = None) -> LargeFile:
    return safetensors({f"model.layers.{n}.weight": ("BF16", (4, 4)) for n in range(count)})


def test_a_header_comes_in_one_range_and_no_tensor_with_it(hub: LoopbackHub, connect: Connect) -> None:
    file = safetensors({"w": ("F32", (5000, 5000))})
    sha, entries = published(hub, model__safetensors=file)
    header = connect(hub).header(REPO, sha, entries["model.safetensors"], limit=LIMIT)
    assert header == file.header[: len(header)]
    assert len(header) == 8 + int.from_bytes(file.header[:8], "little")
    assert [record.range for record in hub.asked("storage")] == ["bytes=0-99999"]
    assert sum(record.bytes_sent for record in hub.requests) < 101_000


def test_a_long_header_takes_a_second_range_for_the_rest(hub: LoopbackHub, connect: Connect) -> None:
    file = weights(4000)
    length = 8 + int.from_bytes(file.header[:8], "little")
    assert length > files.FIRST_RANGE
    sha, entries = published(hub, model__safetensors=file)
    header = connect(hub).header(REPO, sha, entries["model.safetensors"], limit=LIMIT)
    assert header == file.header[:length]
    assert [record.range for record in hub.asked("storage")] == ["bytes=0-99999", f"bytes=100000-{length - 1}"]


@pytest.mark.parametrize("around", range(-10, 11, 2))
def test_headers_around_the_first_range_are_never_cut(
    script: Script, connect: Connect, monkeypatch: pytest.MonkeyPatch, around: int
) -> None:
    monkeypatch.setattr(files, "FIRST_RANGE", 500)
    announced = 500 + around
    data = announced.to_bytes(8, "little") + bytes(n % 251 for n in range(announced)) + b"\0" * 100
    script.fallback = serving(data)
    header = connect(script).header(REPO, SHA, plain(data, "m.safetensors"), limit=LIMIT)
    assert header == data[: 8 + announced]
    assert len(script.seen) <= 2


def serving(data: bytes, **extra: str) -> Callable[[Request], Response]:
    """A server of one file, by range."""

    def answer(request: Request) -> Response:
        first, last = (request.header("range") or "").removeprefix("bytes=").split("-")
        start, stop = int(first), min(int(last) + 1, len(data))
        named = {"Content_Range": f"bytes {start}-{stop - 1}/{len(data)}"} | extra
        return reply(data[start:stop], 206, **named)

    return answer


@pytest.mark.parametrize("announced", [93, 10**6, 2**40, 2**63, 2**64 - 1])
def test_a_header_longer_than_its_file_is_corrupt_and_not_asked_for(
    script: Script, connect: Connect, announced: int
) -> None:
    data = announced.to_bytes(8, "little") + b"{" * 92
    script.fallback = serving(data)
    with pytest.raises(Corrupt, match="announces"):
        connect(script).header(REPO, SHA, plain(data, "m.safetensors"), limit=LIMIT)
    assert len(script.seen) == 1


def test_a_header_above_the_limit_is_too_large_and_not_asked_for(hub: LoopbackHub, connect: Connect) -> None:
    sha, entries = published(hub, model__safetensors=weights(4000))
    with pytest.raises(TooLarge):
        connect(hub).header(REPO, sha, entries["model.safetensors"], limit=50_000)
    assert [record.range for record in hub.asked("storage")] == ["bytes=0-49999"]


@pytest.mark.parametrize("size", [0, 7])
def test_a_file_without_room_for_a_length_is_corrupt(script: Script, connect: Connect, size: int) -> None:
    with pytest.raises(Corrupt):
        connect(script).header(REPO, SHA, plain(b"x" * size, "m.safetensors"), limit=LIMIT)
    assert script.seen == []


def test_a_gguf_file_gives_its_first_bytes(hub: LoopbackHub, connect: Connect) -> None:
    file = gguf({"general.architecture": "llama"}, {"w": ("F32", (64, 64))})
    sha, entries = published(hub, model__gguf=file)
    start = connect(hub).header(REPO, sha, entries["model.gguf"], limit=64)
    assert start == file.header[:64]
    assert [record.range for record in hub.asked("storage")] == ["bytes=0-63"]
    size = entries["model.gguf"].size
    assert len(connect(hub).header(REPO, sha, entries["model.gguf"], limit=10**9)) == size


def test_a_server_that_ignores_the_range_is_not_drained(hub: LoopbackHub, connect: Connect) -> None:
    file = safetensors({"w": ("F32", (50_000, 5_000))})  # a gigabyte of zeros
    sha, entries = published(hub, model__safetensors=file)

    def ignore(request: Request, answer: Callable[[], Response]) -> Response:
        request.headers = {name: value for name, value in request.headers.items() if name != "range"}
        return answer()

    hub.faults.add(ignore, when=matching(kind="storage"))
    header = connect(hub).header(REPO, sha, entries["model.safetensors"], limit=LIMIT)
    assert header == file.header[: len(header)]
    assert [record.status for record in hub.asked("storage")] == [200]
    assert sum(record.bytes_sent for record in hub.requests) < 100_000_000


def test_a_second_range_that_is_ignored_is_cut_out(script: Script, connect: Connect) -> None:
    announced = 150_000
    data = announced.to_bytes(8, "little") + bytes(n % 251 for n in range(announced)) + b"\0" * 100
    script.fallback = reply(data)
    assert connect(script).header(REPO, SHA, plain(data, "m.safetensors"), limit=LIMIT) == data[: 8 + announced]


@pytest.mark.parametrize(
    "content_range",
    [
        "",
        "bytes 0-49/100",
        "bytes 1-100/100",
        "bytes 0-99/200",
        "bytes */100",
        "bytes 0-99/",
        "0-99",
        "bytes ٠-99/100",
    ],
)
def test_a_range_that_is_another_than_asked_is_corrupt(
    script: Script, connect: Connect, content_range: str
) -> None:
    data = (92).to_bytes(8, "little") + b"{" * 92
    script.fallback = serving(data, Content_Range=content_range.encode().decode("latin-1"))
    with pytest.raises(Corrupt, match="range"):
        connect(script).header(REPO, SHA, plain(data, "m.safetensors"), limit=LIMIT)
    assert len(script.seen) == 2


def test_a_range_shorter_than_it_says_is_corrupt(script: Script, connect: Connect) -> None:
    data = (92).to_bytes(8, "little") + b"{" * 92
    script.fallback = reply(data[:50], 206, Content_Range="bytes 0-99/100")
    with pytest.raises(Corrupt):
        connect(script).header(REPO, SHA, plain(data, "m.safetensors"), limit=LIMIT)


def test_a_range_that_cannot_be_satisfied_is_corrupt(script: Script, connect: Connect) -> None:
    script.fallback = reply(b"", 416, Content_Range="bytes */3")
    with pytest.raises(Corrupt):
        connect(script).header(REPO, SHA, plain(b"x" * 100, "m.safetensors"), limit=LIMIT)


def test_weights_whose_linked_hash_is_another_are_corrupt(hub: LoopbackHub, connect: Connect) -> None:
    sha, entries = published(hub, model__safetensors=weights(3))
    hub.faults.add(wrong_hash(), when=matching(path="*/resolve/*"))
    with pytest.raises(Corrupt, match="another"):
        connect(hub).header(REPO, sha, entries["model.safetensors"], limit=LIMIT)
    hub.faults.clear()
    hub.faults.add(headers(X_Linked_Size="7"), when=matching(path="*/resolve/*"))
    with pytest.raises(Corrupt, match="another"):
        connect(hub).header(REPO, sha, entries["model.safetensors"], limit=LIMIT)


def test_an_expired_signature_of_a_range_is_resolved_again(hub: LoopbackHub, connect: Connect) -> None:
    sha, entries = published(hub, model__safetensors=weights(3))
    hub.faults.add(expired_links(), when=matching(path="*/resolve/*"), times=1)
    assert connect(hub).header(REPO, sha, entries["model.safetensors"], limit=LIMIT)
    assert [record.status for record in hub.requests] == [302, 403, 302, 206]


def test_a_small_header_inside_git_is_read_by_range_too(hub: LoopbackHub, connect: Connect) -> None:
    file = weights(1)
    data = file.header.ljust(file.size, b"\0")
    sha, entries = published(hub, model__safetensors=data)
    assert entries["model.safetensors"].lfs_sha256 is None
    header = connect(hub).header(REPO, sha, entries["model.safetensors"], limit=LIMIT)
    assert header == data[: len(header)]
