"""A loopback Hub in a process of its own, so that what is measured does not share an interpreter with it."""

from __future__ import annotations

import json
import multiprocessing
import random
import resource
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.support.models import TEMPLATE, THINKING, llama, tokenizer_config, weights
from tracker.demo.faults import always, delay
from tracker.demo.hub import LoopbackHub
from tracker.demo.repos import Content

FORK = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Served:
    """The Hub of another process."""

    url: str
    _pipe: Connection

    def asked(self) -> tuple[Counter[str], int]:
        """What was asked since the last call, by kind, and the bytes of the bodies that were sent for it."""
        self._pipe.send("asked")
        kinds, size = self._pipe.recv()
        return kinds, size


@contextmanager
def served(root: Path, fill: Any, *arguments: Any, latency_s: float = 0.0) -> Iterator[Served]:
    """Serve what ``fill(hub, *arguments)`` makes, each answer so much later, for as long as the block runs."""
    here, there = FORK.Pipe()
    process = FORK.Process(target=_serve, args=(there, root, fill, arguments, latency_s), daemon=True)
    process.start()
    try:
        yield Served(here.recv(), here)
        here.send("stop")
        process.join(20)
    finally:
        process.kill()
        process.join()


def _serve(pipe: Connection, root: Path, fill: Any, arguments: tuple[Any, ...], latency_s: float) -> None:
    with LoopbackHub(root) as hub:
        fill(hub, *arguments)
        if latency_s:
            hub.faults.add(delay(latency_s), when=always)
        pipe.send(hub.url)
        while pipe.recv() == "asked":
            pipe.send((Counter(item.kind for item in hub.requests), sum(item.bytes_sent for item in hub.requests)))
            hub.requests.clear()


def write_history(hub: LoopbackHub, name: str, revisions: int, seed: int = 1) -> None:
    """A repo that was worked on: configs, templates, weights, a vocabulary and cards, one edit a revision."""
    chance = random.Random(seed)  # noqa: S311
    repo = hub.create(name)
    repo.commit(
        {
            ".gitattributes": "*.safetensors filter=lfs diff=lfs merge=lfs -text\n",
            "README.md": _card(0),
            "config.json": llama(),
            "generation_config.json": json.dumps({"eos_token_id": 2, "temperature": 0.6}),
            "model.safetensors": weights(),
            "special_tokens_map.json": json.dumps({"bos_token": "<s>", "eos_token": "</s>"}),
            "tokenizer.json": tokenizer(0),
            "tokenizer_config.json": tokenizer_config(),
        },
        title="Upload",
    )
    for turn in range(1, revisions):
        repo.commit(_edit(chance, turn), title=f"n {turn}", author=chance.choice(("alice", "bob")))


def _edit(chance: random.Random, turn: int) -> dict[str, Content]:
    match chance.choices(
        ("card", "config", "generation", "template", "vocabulary", "weights"), (5, 2, 1, 1, 1, 2)
    )[0]:
        case "config":
            return {
                "config.json": llama(
                    rope_theta=1000.0 * chance.randrange(1, 9), num_hidden_layers=chance.choice((2, 4))
                )
            }
        case "generation":
            return {"generation_config.json": json.dumps({"eos_token_id": [2, turn], "temperature": 0.6})}
        case "template":
            return {
                "tokenizer_config.json": tokenizer_config(
                    chance.choice((TEMPLATE, THINKING, f"{TEMPLATE}{{# {turn} #}}"))
                )
            }
        case "vocabulary":
            return {"tokenizer.json": tokenizer(turn)}
        case "weights":
            return {"model.safetensors": weights(salt=str(turn))}
        case _:
            return {"README.md": _card(turn)}


def _card(turn: int) -> str:
    words = " ".join(f"word{turn * 7 + number}" for number in range(300))
    return f"---\nlicense: mit\nbase_model: acme/base\n---\n# Model\n\nRevision {turn}\n\n{words}\n"


def tokenizer(turn: int, words: int = 1000) -> str:
    """A tokenizer.json with a vocabulary of so many words, some of which move with ``turn``."""
    vocabulary = {f"w{number}": number for number in range(words)} | {f"t{turn}": words}
    added = [{"id": words + 1, "content": "</s>", "special": True, "normalized": False}]
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "w0"}
    return json.dumps({"version": "1.0", "added_tokens": added, "model": model})


@dataclass(frozen=True, slots=True)
class Spent:
    """What a piece of work took: seconds by the clock, and of processor, those of ended children included."""

    clock: float
    processor: float


@contextmanager
def spending() -> Iterator[list[Spent]]:
    """Measure a block; the list holds one `Spent` afterwards."""
    found: list[Spent] = []
    began, used = time.perf_counter(), _processor()
    yield found
    found.append(Spent(time.perf_counter() - began, _processor() - used))


def _processor() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
