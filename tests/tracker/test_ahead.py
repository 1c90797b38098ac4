"""Reading ahead of who reads: the same answers and errors, in the same places, and nothing asked twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic, sleep

import pytest

from storage.model import FileEntry, Manifest, RepoRef
from tests.support.models import weights
from tracker.ahead import FETCHERS, MAX_BYTES, MAX_FILE, MAX_REVISIONS, ReadAhead
from tracker.demo.faults import corrupt, delay, rate_limited, server_error
from tracker.demo.files import LfsFile
from tracker.demo.hub import LoopbackHub
from tracker.demo.injection import matching
from tracker.hub.client import HubClient
from tracker.hub.errors import Corrupt, RateLimited, UpstreamFault
from tracker.hub.readers import Histories, Reading
from tracker.snapshot.build import Wanted, wanted

REPO = RepoRef(owner="acme", name="tiny")


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as running:
        yield running
    assert running.crashes == []


def commits(hub: LoopbackHub, count: int, content: Callable[[int], bytes] = lambda n: b"# %d" % n) -> list[str]:
    """So many commits, each with a config, a card and weights of its own; the licence is in all of them."""
    repo = hub.create("acme/tiny")
    return [
        repo.commit(
            {
                "LICENSE": "MIT",
                "README.md": content(number),
                "config.json": f'{{"step": {number}}}',
                "model.safetensors": weights(salt=str(number)),
            }
        )
        for number in range(count)
    ]


@contextmanager
def ahead(
    hub: LoopbackHub, shas: list[str], absent: Callable[[Manifest], Wanted] = wanted
) -> Iterator[tuple[ReadAhead, Reading]]:
    client = HubClient(hub.url, None, deadline_s=10.0, connect_s=5.0, read_s=5.0)
    with Histories(client).history(REPO, head=shas[-1], known=lambda _: False) as reading:
        hub.requests.clear()
        with ReadAhead(reading, REPO, shas, absent=absent) as files:
            yield files, reading


def read(files: ReadAhead, sha: str, held: dict[str, bytes]) -> None:
    """Everything of a revision that is not held, in the order in which the loader asks."""
    want = wanted(files.manifest(REPO, sha))
    for entry in want.contents:
        if entry.content_key not in held:
            held[entry.content_key] = files.content(REPO, sha, entry)
    for entry in want.headers:
        if entry.content_key not in held:
            held[entry.content_key] = files.header(REPO, sha, entry, limit=1 << 20)


def trees(hub: LoopbackHub) -> list[str]:
    """The revisions whose trees were asked for."""
    return [record.path.rpartition("/tree/")[2] for record in list(hub.requests) if "/tree/" in record.path]


def wait(until: Callable[[], bool]) -> None:
    deadline = monotonic() + 60
    while not until():
        assert monotonic() < deadline, "it does not come"
        sleep(0.005)


def asked(hub: LoopbackHub) -> Counter[str]:
    return Counter(f"{record.path}?{record.query}#{record.range}" for record in hub.requests)


def test_it_gives_what_the_reading_gives_and_asks_for_nothing_twice(hub: LoopbackHub) -> None:
    shas = commits(hub, 2 * MAX_REVISIONS)
    hub.faults.add(delay(0.002), when=lambda _: True)
    held: dict[str, bytes] = {}
    with ahead(hub, shas) as (files, _):
        for sha in shas:
            read(files, sha, held)
    assert list(files.unclaimed()) == []
    assert max(asked(hub).values()) == 1
    with ahead(hub, shas) as (_, reading):
        for sha in shas:
            want = wanted(reading.manifest(REPO, sha))
            for entry in want.contents:
                assert held[entry.content_key] == reading.content(REPO, sha, entry)
            for entry in want.headers:
                assert held[entry.content_key] == reading.header(REPO, sha, entry, limit=1 << 20)


def test_it_stays_a_few_revisions_ahead(hub: LoopbackHub) -> None:
    shas = commits(hub, 3 * MAX_REVISIONS)
    with ahead(hub, shas) as (files, _):
        read(files, shas[0], {})
        wait(lambda: len(trees(hub)) > MAX_REVISIONS)
    assert sorted(trees(hub)) == sorted(shas[: MAX_REVISIONS + 1])


def test_it_holds_few_bytes_that_nobody_asked_for(hub: LoopbackHub) -> None:
    size = MAX_BYTES // 3 - 8
    repo = hub.create("acme/tiny")
    shas = [repo.commit({"tokenizer.json": LfsFile(b"%8d" % number + bytes(size))}) for number in range(6)]
    with ahead(hub, shas) as (files, _):
        files.manifest(REPO, shas[0])
        wait(lambda: len(trees(hub)) >= 4)
    assert sum(len(data) for _, data in files.unclaimed()) <= MAX_BYTES


def test_a_large_file_is_left_to_who_asks_for_it(hub: LoopbackHub) -> None:
    large = LfsFile(bytes(MAX_FILE + 1))
    sha = hub.create("acme/tiny").commit({"tokenizer.json": large, "config.json": "{}"})
    with ahead(hub, [sha]) as (files, _):
        entry = files.manifest(REPO, sha).files["tokenizer.json"]
        wait(lambda: any(record.path.endswith("config.json") for record in list(hub.requests)))
        assert not any(record.path.endswith("tokenizer.json") for record in hub.requests)
        assert files.content(REPO, sha, entry) == bytes(MAX_FILE + 1)


def test_who_asks_can_do_something_else_first_where_it_would_wait(hub: LoopbackHub) -> None:
    shas = commits(hub, 3)
    hub.faults.add(delay(1.0), when=matching(path=f"*/{shas[1]}/config.json"))
    done: list[str] = []
    client = HubClient(hub.url, None, deadline_s=10.0, connect_s=5.0, read_s=5.0)
    with (
        Histories(client).history(REPO, head=shas[-1], known=lambda _: False) as reading,
        ReadAhead(reading, REPO, shas, wanted, waiting=lambda: done.append("config")) as files,
    ):
        config = files.manifest(REPO, shas[1]).files["config.json"]
        done.clear()
        assert files.content(REPO, shas[1], config) == b'{"step": 1}'
    assert done == ["config"]


def test_who_needs_nothing_of_it_is_never_kept_waiting(hub: LoopbackHub) -> None:
    # another process may have read all of it meanwhile: more than there is room for, and nobody takes it
    many = {f"model-{number:05d}.safetensors": weights(salt=str(number)) for number in range(3 * MAX_BYTES >> 18)}
    repo = hub.create("acme/tiny")
    shas = [repo.commit(many), repo.commit({"README.md": "a"}), repo.commit({"README.md": "b"})]

    def plenty(manifest: Manifest) -> Wanted:
        large = tuple(replace(entry, size=1 << 30) for entry in wanted(manifest).headers)
        return Wanted(headers=large)

    with ahead(hub, shas, plenty) as (files, _):
        for sha in shas:
            assert len(files.manifest(REPO, sha).files) >= len(many)


def test_what_was_fetched_for_nothing_is_told(hub: LoopbackHub) -> None:
    shas = commits(hub, 3)
    held: dict[str, bytes] = {}
    with ahead(hub, shas) as (files, _):
        read(files, shas[0], held)
        files.manifest(REPO, shas[2])
    left = dict(files.unclaimed())
    assert held.keys().isdisjoint(key.removeprefix("header:") for key in left)
    for key, data in left.items():
        assert key.startswith(("git:", "sha256:", "header:"))
        assert data


def test_what_is_held_already_is_not_asked_for(hub: LoopbackHub) -> None:
    shas = commits(hub, 4)

    def only_cards(manifest: Manifest) -> Wanted:
        return Wanted(contents=tuple(entry for entry in wanted(manifest).contents if entry.path == "README.md"))

    with ahead(hub, shas, only_cards) as (files, _):
        for sha in shas:
            files.manifest(REPO, sha)
    assert not [record for record in hub.requests if "/resolve/" in record.path and "README" not in record.path]


def test_an_error_is_raised_at_its_own_revision_and_ends_the_asking(hub: LoopbackHub) -> None:
    shas = commits(hub, 12)
    hub.faults.add(server_error(), when=matching(path=f"*/tree/{shas[3]}"))
    held: dict[str, bytes] = {}
    with ahead(hub, shas) as (files, _):
        for sha in shas[:3]:
            read(files, sha, held)
        with pytest.raises(UpstreamFault):
            files.manifest(REPO, shas[3])
    assert not [record for record in hub.requests if any(sha in record.path for sha in shas[3 + FETCHERS :])]


def test_a_pause_that_the_hub_asks_for_is_kept_by_all(hub: LoopbackHub) -> None:
    shas = commits(hub, 12)
    hub.faults.add(rate_limited(50), when=matching(path=f"*/tree/{shas[3]}"))
    held: dict[str, bytes] = {}

    def read_all(files: ReadAhead) -> None:
        for sha in shas:
            read(files, sha, held)

    with ahead(hub, shas) as (files, _), pytest.raises(RateLimited):
        read_all(files)
    assert [record.status for record in hub.requests].count(429) == 1
    assert not [record for record in hub.requests if any(sha in record.path for sha in shas[3 + FETCHERS :])]


def test_a_file_s_own_error_ends_nothing(hub: LoopbackHub) -> None:
    shas = commits(hub, 3)
    hub.faults.add(corrupt(), when=matching(path=f"*/{shas[1]}/config.json"))
    with ahead(hub, shas) as (files, _):
        for sha in shas:
            config = files.manifest(REPO, sha).files["config.json"]
            if sha == shas[1]:
                with pytest.raises(Corrupt):
                    files.content(REPO, sha, config)
            else:
                assert files.content(REPO, sha, config)


def test_an_error_at_another_revision_is_not_told_of_this_one(hub: LoopbackHub) -> None:
    repo = hub.create("acme/tiny")
    shas = [repo.commit({"config.json": "{}", "README.md": f"{number}"}) for number in range(2)]
    hub.faults.add(server_error(), when=matching(path=f"*/{shas[0]}/config.json"))
    with ahead(hub, shas) as (files, _):
        config: FileEntry = files.manifest(REPO, shas[0]).files["config.json"]
        with pytest.raises(UpstreamFault):
            files.content(REPO, shas[0], config)
        assert files.content(REPO, shas[1], files.manifest(REPO, shas[1]).files["config.json"]) == b"{}"
