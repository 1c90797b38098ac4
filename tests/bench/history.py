"""A large history, written straight into the tables: what a daemon would have after a year or two."""

from __future__ import annotations

import hashlib
import json
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import Any

from sqlalchemy import Table, func, insert, select

from advisories.ids import ALPHABET
from storage.database import Database, Transaction
from storage.lineage import OPEN_END
from storage.model import DEFAULT_IDENTITY, FileEntry, Severity, digest
from storage.rows import path_key
from storage.tables import (
    advisories,
    advisory_events,
    blobs,
    changes,
    estimates,
    file_changes,
    repos,
    revisions,
    spans,
)

START = datetime(2025, 1, 1, tzinfo=UTC)
CLASSES = (
    ("config.rope", Severity.HIGH, "config.json", "/rope_theta"),
    ("tokens.eos", Severity.HIGH, "generation_config.json", "/eos_token_id"),
    ("template.generation_prompt", Severity.HIGH, "tokenizer_config.json", "/chat_template"),
    ("config.arch_shape", Severity.HIGH, "config.json", "/num_hidden_layers"),
    ("card.only", Severity.INFO, "README.md", None),
)
RARE = ("weights.pickle_added", Severity.CRITICAL, "pytorch_model.bin", None)
"""What few revisions have: the gravest is seldom."""
_ROWS = 2000


@dataclass(frozen=True, slots=True)
class Scale:
    """How much there is."""

    repos: int = 1000
    revisions: int = 50  # of each repo
    advisories: int = 4  # of each revision


def sha(repo: int, position: int) -> str:
    """The sha of a revision."""
    return hashlib.sha1(f"{repo}/{position}".encode(), usedforsecurity=False).hexdigest()


def name(repo: int) -> tuple[str, str]:
    """Owner and name of a repo: ten to an owner."""
    return f"owner{repo // 10}", f"model{repo}"


def is_filled(database: Database, scale: Scale) -> bool:
    """Whether all of it is there. Raises RuntimeError for a database that holds something else."""
    with database.snapshot() as tx:
        found = tx.execute(select(func.count()).select_from(advisories)).scalar_one()
        known = tx.execute(select(func.count()).select_from(repos)).scalar_one()
    if found == scale.repos * scale.revisions * scale.advisories:
        return True
    if found or known:
        raise RuntimeError(f"{database.place} holds something else: {known} repos, {found} advisories")
    return False


def fill(database: Database, scale: Scale) -> None:
    """Write all of it in one transaction."""
    with database.transaction() as tx:
        _write(tx, repos, _repos(scale))
        _write(tx, revisions, _revisions(scale))
        _write(tx, file_changes, _files(scale))
        _write(tx, blobs, _blobs(scale))
        _write(tx, estimates, _estimates(scale))
        _write(tx, advisories, _advisories(scale))
        _write(tx, spans, _spans(scale))
        _write(tx, advisory_events, _events(scale))
        _write(tx, changes, _changes(scale))
        tx.exec_driver_sql("ANALYZE")


def _write(tx: Transaction, table: Table, rows: Iterator[dict[str, Any]]) -> None:
    """Insert rows, which all have the same keys; by COPY where there is one."""
    first = next(rows)
    rows = chain([first], rows)
    if tx.dialect.name == "sqlite":
        while batch := list(islice(rows, _ROWS)):
            tx.execute(insert(table), batch)
        return
    binds = {name: table.c[name].type.bind_processor(tx.dialect) for name in first}
    columns = ", ".join(f'"{name}"' for name in first)
    cursor = tx.connection.cursor()
    with cursor.copy(f"COPY {table.name} ({columns}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row([bind(row[name]) if bind else row[name] for name, bind in binds.items()])


def _places(scale: Scale) -> Iterator[tuple[int, int, int]]:
    """(revision row, repo, position): in the order observed, as if all repos moved in turn."""
    row = 0
    for position in range(scale.revisions):
        for repo in range(scale.repos):
            row += 1
            yield row, repo, position


def _made(scale: Scale) -> Iterator[tuple[str, int, int, int, int]]:
    """(id, revision row, repo, position, ordinal) of every advisory."""
    for row, repo, position in _places(scale):
        for ordinal in range(scale.advisories):
            yield advisory_id(repo, position, ordinal), row, repo, position, ordinal


def entry(repo: int, position: int, path: str) -> FileEntry:
    """A file of a revision; each revision has other contents."""
    named = hashlib.sha1(f"{repo}/{position}/{path}".encode(), usedforsecurity=False).hexdigest()
    return FileEntry(path=path, size=len(_config(repo, position)), blob_id=named)


def _config(repo: int, position: int) -> bytes:
    """A config.json, of the size that they have; rope_theta moves with every revision."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "rope_theta": position,
        "num_hidden_layers": position // 5,
        "quantization_config": {"modules_to_not_convert": [f"model.layers.{n}.mlp" for n in range(20)]},
        "id2label": {str(number): f"label {repo} {number}" for number in range(10)},
    }
    return json.dumps(config, indent=2).encode()


def advisory_id(repo: int, position: int, ordinal: int) -> str:
    """An id as they look."""
    number = int(hashlib.sha256(f"{repo}/{position}/{ordinal}".encode()).hexdigest(), 16)
    digits = []
    for _ in range(12):
        number, digit = divmod(number, len(ALPHABET))
        digits.append(ALPHABET[digit])
    text = "".join(digits)
    return f"x_HUBWATCH-2025-{text[:4]}-{text[4:8]}-{text[8:]}"


def _at(repo: int, position: int) -> datetime:
    return START + timedelta(days=position * 10, seconds=repo * 860)


def _class(repo: int, position: int, ordinal: int) -> tuple[str, Severity, str, str | None]:
    if ordinal == 0 and (repo + position) % 500 == 0:
        return RARE
    return CLASSES[(ordinal + position) % len(CLASSES)]


def _until(position: int, ordinal: int) -> int | None:
    """Half of the advisories are still open, the others ended after a few revisions."""
    return None if ordinal % 2 else position + 1 + (position + ordinal) % 7


def _repos(scale: Scale) -> Iterator[dict[str, Any]]:
    for repo in range(scale.repos):
        owner, called = name(repo)
        yield {
            "id": repo + 1,
            "endpoint": DEFAULT_IDENTITY,
            "owner": owner,
            "name": called,
            "ref": "main",
            "state": "ok",
            "private": False,
            "public": False,
            "restricted": False,
        }


def _revisions(scale: Scale) -> Iterator[dict[str, Any]]:
    for row, repo, position in _places(scale):
        yield {
            "id": row,
            "repo_id": repo + 1,
            "ref": "main",
            "sha": sha(repo, position),
            "position": position,
            "fork": None,
            "predecessor_id": row - scale.repos if position else None,
            "parents": [sha(repo, position - 1)] if position else [],
            "parents_unknown": False,
            "committed_at": _at(repo, position) - timedelta(minutes=5),
            "author": f"author{repo % 7}",
            "title": f"Update number {position}",
            "observed_at": _at(repo, position),
            "backfill": False,
            "manifest_digest": digest([repo, position]),
        }


def _files(scale: Scale) -> Iterator[dict[str, Any]]:
    for row, repo, position in _places(scale):
        for path in sorted({item[2] for item in CLASSES}):
            found = entry(repo, position, path)
            yield {
                "revision_id": row,
                "path_key": path_key(path),
                "repo_id": repo + 1,
                "path": path,
                "removed": False,
                "size": found.size,
                "blob_id": found.blob_id,
                "lfs_sha256": None,
            }


def _blobs(scale: Scale) -> Iterator[dict[str, Any]]:
    for _, repo, position in _places(scale):
        data = _config(repo, position)
        yield {
            "key": entry(repo, position, "config.json").content_key,
            "size": len(data),
            "data": zlib.compress(data, 6),
        }


def _estimates(scale: Scale) -> Iterator[dict[str, Any]]:
    chosen = random.Random(1)  # noqa: S311 - figures, not secrets
    structure = [
        {"name": f"model.layers.{n}.proj", "type": "Linear", "output_shape": "[1, 2048, 4096]", "parameters": 1000}
        for n in range(30)
    ]
    cards = [
        {"name": f"card{number}", "full_finetune_batch": number, "serve_batch": number} for number in range(20)
    ]
    for _, repo, position in _places(scale):
        total = chosen.randrange(10**8, 10**11)
        yield {
            "repo_id": repo + 1,
            "sha": sha(repo, position),
            "estimator": "exact",
            "version": "1",
            "status": "exact",
            "source": "closed_form",
            "model_type": "llama",
            "architecture": "LlamaForCausalLM",
            "reason": None,
            "body": {
                "parameters": {"total": total, "embedding": total // 10, "head": 0, "active": total},
                "memory": {"weights_bytes": 2 * total, "kv_cache_bytes": total // 7},
                "tokens": {"train": 2048, "serve": 4096},
                "cards": cards,
                "structure": structure,
            },
        }


def _finding(repo: int, position: int, ordinal: int) -> dict[str, Any]:
    cls, severity, path, pointer = _class(repo, position, ordinal)
    return {
        "cls": cls,
        "severity": int(severity),
        "reason": "base severity of the class",
        "path": path,
        "pointer": pointer,
        "before": position - 1,
        "after": position,
        "summary": f"{pointer or path} changed from {position - 1} to {position}",
        "facet": f"{path}#{pointer}",
        "before_digest": digest(position - 1),
        "after_digest": digest(position),
        "facts": {},
    }


def _advisories(scale: Scale) -> Iterator[dict[str, Any]]:
    for made, _, repo, position, ordinal in _made(scale):
        cls, severity, *_ = _class(repo, position, ordinal)
        is_open = _until(position, ordinal) is None or (_until(position, ordinal) or 0) >= scale.revisions
        ended = None if is_open else "restored"
        yield {
            "id": made,
            "repo_id": repo + 1,
            "cls": cls,
            "severity": int(severity),
            "reason": "base severity of the class",
            "introduced": sha(repo, position),
            "predecessor": sha(repo, position - 1) if position else None,
            "ref": "main",
            "open": is_open,
            "findings": [_finding(repo, position, ordinal) | {"holds": is_open, "ended_by": ended}],
            "published": _at(repo, position),
            "modified": _at(repo, position),
            "withdrawn": None,
            "superseded_by": None,
            "related": [],
            "context": {},
        }


def _spans(scale: Scale) -> Iterator[dict[str, Any]]:
    for made, _, repo, position, ordinal in _made(scale):
        end = _until(position, ordinal)
        end = None if end is None or end >= scale.revisions else end
        yield {
            "advisory_id": made,
            "ordinal": 0,
            "repo_id": repo + 1,
            "ref": "main",
            "introduced": sha(repo, position),
            "fixed": None if end is None else sha(repo, end),
            "last_affected": None,
            "first": position,
            "until": OPEN_END if end is None else end,
        }


def _events(scale: Scale) -> Iterator[dict[str, Any]]:
    for made, _, repo, position, _ordinal in _made(scale):
        yield {
            "advisory_id": made,
            "action": "opened",
            "sha": sha(repo, position),
            "moment": 0,
            "repo_id": repo + 1,
            "at": _at(repo, position),
        }


def _changes(scale: Scale) -> Iterator[dict[str, Any]]:
    for _, row, repo, position, ordinal in _made(scale):
        yield {"revision_id": row, "ordinal": ordinal, **_finding(repo, position, ordinal)}
