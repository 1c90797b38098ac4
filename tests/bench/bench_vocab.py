"""How long two vocabularies of 256k tokens take to compare, against the time of parsing both files.

Beside it DeepDiff on the same pair, for it is what compares smaller documents here. It is cut off when it has
taken many times as long.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from deepdiff import DeepDiff

from storage.model import FileEntry, Manifest, Revision, Snapshot
from tracker.diff.registry import compare
from tracker.snapshot.build import Parser
from tracker.snapshot.json_reader import read_json

Row = tuple[str, str, str, bool]
TOKENS = 256_000
MOST = 3.0  # times the parsing of both files
PATIENCE = 60  # seconds that DeepDiff is given
ROUNDS = 3


def main() -> Iterator[Row]:
    """Measure parse, diff and DeepDiff."""
    before, after = (json.dumps(data).encode() for data in pair())
    parse = best(lambda: [read_json(data) for data in (before, after)])
    old, new = (snapshot(data) for data in (before, after))
    diff = best(lambda: compare(old, new))
    found = sorted({change.cls for change in compare(old, new)})
    yield f"parse both, {len(before) + len(after):,} bytes", f"{parse:.2f} s", "", True
    aim = f"at most {MOST:.0f} times the parsing"
    yield f"diff ({', '.join(found)})", f"{diff:.2f} s, {diff / parse:.2f} times", aim, diff <= MOST * parse
    taken = deepdiff_seconds(before, after)
    said = f"over {PATIENCE} s, cut off" if taken is None else f"{taken:.2f} s, {taken / parse:.1f} times"
    yield "DeepDiff on the same pair", said, "for comparison", True


def pair() -> tuple[dict[str, Any], dict[str, Any]]:
    """A BPE tokenizer of 256k tokens, and one in which some ids moved, some tokens went and some came."""
    choice = random.Random(1)  # noqa: S311 - a vocabulary, no secret
    words: dict[str, None] = {}
    while len(words) < TOKENS:
        words["".join(choice.choices("abcdefghijklmnopqrstuvwxyzĠ", k=choice.randint(2, 9)))] = None
    tokens = [*words]
    merges = [[token[:1], token[1:]] for token in tokens]
    swapped = [*tokens]
    for _ in range(500):
        left, right = choice.randrange(TOKENS), choice.randrange(TOKENS)
        swapped[left], swapped[right] = swapped[right], swapped[left]
    swapped[-300:] = [f"<new_{number}>" for number in range(300)]
    return tokenizer(tokens, merges), tokenizer(swapped, [*merges[:-200], ["n", "ew"]])


def tokenizer(tokens: list[str], merges: list[list[str]]) -> dict[str, Any]:
    """A tokenizer.json with these tokens, in the order of their ids."""
    vocab = {token: place for place, token in enumerate(tokens)}
    return {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": vocab, "merges": merges}}


def snapshot(data: bytes) -> Snapshot:
    """A revision that holds this tokenizer.json, parsed."""
    entry = FileEntry(path="tokenizer.json", size=len(data), blob_id=f"{hash(data):040x}"[-40:])
    revision = Revision(sha="0" * 40, committed_at=datetime(2025, 1, 1, tzinfo=UTC), author="a", title="t")
    return Parser().build(revision, Manifest(files={entry.path: entry}), load=lambda _key: data)


def best(work: Callable[[], object]) -> float:
    """The least seconds of a few rounds."""
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


def deepdiff_seconds(before: bytes, after: bytes) -> float | None:
    """What DeepDiff takes, in a process of its own that can be ended; None when it is not done in time."""
    answers: multiprocessing.Queue[float] = multiprocessing.Queue()
    process = multiprocessing.Process(target=_deepdiff, args=(before, after, answers), daemon=True)
    process.start()
    process.join(PATIENCE)
    if process.is_alive():
        process.kill()
        process.join()
        return None
    return answers.get(timeout=5)


def _deepdiff(before: bytes, after: bytes, answers: multiprocessing.Queue[float]) -> None:
    old, new = json.loads(before), json.loads(after)
    start = time.perf_counter()
    DeepDiff(old, new)
    answers.put(time.perf_counter() - start)
