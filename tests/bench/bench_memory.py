"""Memory of an idle daemon, and of one that checks a large repo: 250,000 tokens, 160 shards, each twice.

The daemon is a process; its peak is what the kernel says (``VmHWM``). Children (probes, git) are told beside it.
"""

from __future__ import annotations

import io
import json
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path

from storage import history, schema, watches
from storage.database import Database
from storage.model import RepoRef
from tests.bench.served import served
from tests.support.command import Hubwatch
from tests.support.models import llama, tokenizer_config
from tests.support.processes import Fleet
from tracker.demo.files import LargeFile, LfsFile, safetensors
from tracker.demo.hub import LoopbackHub
from tracker.demo.repos import Content

Row = tuple[str, str, str, bool]
NAME = "acme/large"
MB = 1_000_000
MOST = 300
TOKENS, SHARDS, TENSORS = 250_000, 160, 900
PATIENCE_S = 900
SETTLED_S = 8.0


def main() -> Iterator[Row]:
    """Measure an idle daemon, then one at work; Linux only."""
    if not Path("/proc/self/status").is_file():
        yield "memory", "only measured on Linux", "", True
        return
    with (
        tempfile.TemporaryDirectory(prefix="hubwatch-bench-") as name,
        served(Path(name) / "hub", write_large) as hub,
    ):
        home = Path(name)
        hubwatch = Hubwatch(hub.url, f"sqlite:///{home}/hubwatch.db", home, {"HUBWATCH_PORT": "0"})
        database = Database.open(hubwatch.database_url)
        schema.upgrade(database)
        repo = RepoRef.parse(NAME)
        with redirect_stdout(io.StringIO()), Fleet(hubwatch) as fleet:
            daemon = fleet.start("scheduler,worker,web")
            time.sleep(SETTLED_S)
            idle = _status(daemon.pid, "VmRSS")
            with database.transaction() as tx:
                watches.add(tx, repo, now=datetime.now(UTC))
            children = _until_done(database, repo, daemon.pid)
            peak, after = _status(daemon.pid, "VmHWM"), _status(daemon.pid, "VmRSS")
            daemon.stop()
        database.dispose()
    yield "an idle daemon, all roles", f"{idle:.0f} MB", f"under {MOST} MB", idle < MOST
    yield (
        f"checking {TOKENS} tokens and {SHARDS} shards, 3 revisions",
        f"peak {peak:.0f} MB, then {after:.0f} MB; its children together at most {children:.0f} MB",
        f"under {MOST} MB",
        peak < MOST,
    )


def write_large(hub: LoopbackHub) -> None:
    """A large model, then its tokenizer anew, then its weights anew."""
    repo = hub.create(NAME)
    config = llama(vocab_size=TOKENS + 100, num_hidden_layers=60, hidden_size=7168, num_attention_heads=128)
    repo.commit(
        {
            "config.json": config,
            "tokenizer_config.json": tokenizer_config(),
            "tokenizer.json": tokenizer(1),
            "model.safetensors.index.json": index(),
            **shards(""),
        }
    )
    repo.commit({"tokenizer.json": tokenizer(2)})
    repo.commit(shards("anew"))


def tokenizer(seed: int) -> LargeFile:
    """A tokenizer.json of a byte-level BPE that loads, every token made by a merge; about 26 MB."""
    chance = random.Random(7)  # noqa: S311
    letters = [chr(code) for code in (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x144))]
    tokens = dict.fromkeys(letters)
    merges: list[list[str]] = []
    known = [*letters]
    while len(tokens) < TOKENS - 10:
        left, right = chance.choice(known[:2_000]), chance.choice(known)
        if len(left + right) < 16 and left + right not in tokens:
            tokens[left + right] = None
            known.append(left + right)
            merges.append([left, right])
    vocabulary = {token: number for number, token in enumerate([*tokens, *(f"own{seed}x{n}" for n in range(10))])}
    added = [{"id": TOKENS + n, "content": f"<|{n}|>", "special": True, "normalized": False} for n in range(50)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    value = {
        "version": "1.0",
        "added_tokens": [{**entry, "single_word": False, "lstrip": False, "rstrip": False} for entry in added],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
    }
    return LfsFile(json.dumps(value, indent=1).encode())


def index() -> LargeFile:
    """Which shard holds which tensor."""
    places = {name: path(number) for number in range(1, SHARDS + 1) for name in names(number)}
    return LfsFile(json.dumps({"metadata": {"total_size": 1}, "weight_map": places}, indent=1).encode())


def path(number: int) -> str:
    """The path of a shard."""
    return f"model-{number:05}-of-{SHARDS:06}.safetensors"


def names(number: int) -> list[str]:
    """The tensors of a shard."""
    return [f"model.layers.{number % 60}.mlp.experts.{number}.{n}.down_proj.weight" for n in range(TENSORS)]


def shards(salt: str) -> dict[str, Content]:
    """Shards whose headers are about 100 kB each."""
    return {
        path(number): safetensors(
            dict.fromkeys(names(number), ("BF16", (64, 64))),
            metadata={"format": "pt"},
            salt=f"{salt}{number}",
        )
        for number in range(1, SHARDS + 1)
    }


def _until_done(database: Database, repo: RepoRef, pid: int) -> float:
    """Wait for three revisions and a while; returns the most that all children had at a time, in MB."""
    most, until = 0.0, time.monotonic() + PATIENCE_S
    settled: float | None = None
    while time.monotonic() < until:
        most = max(most, sum(_status(child, "VmRSS") for child in _children(pid)))
        with database.snapshot() as tx:
            done = history.count(tx, repo) == 3
        settled = settled or (time.monotonic() + SETTLED_S if done else None)
        if settled and time.monotonic() > settled:
            return most
        time.sleep(0.1)
    raise RuntimeError(f"{repo.id} was not read within {PATIENCE_S} s")


def _children(pid: int) -> list[int]:
    try:
        text = " ".join(file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/children"))
    except OSError:
        return []
    own = [int(word) for word in text.split()]
    return own + [deeper for child in own for deeper in _children(child)]


def _status(pid: int, name: str) -> float:
    """A figure of a process in MB; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    found = [line for line in lines if line.startswith(f"{name}:")]
    return int(found[0].split()[1]) * 1024 / MB if found else 0.0
