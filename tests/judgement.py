"""Every recorded history, judged revision by revision: what is said, how grave, and why.

    python -m tests.judgement [--min-severity medium] [--sample 30] [NAME...]

Whole trees are replayed commit by commit; a file that was recorded alone is played as a repo that holds
nothing else, under the name such a file has in a model repo. Stand-ins for bytes that were not recorded are
not judged, nor are findings that headers of large files would give. Reads the corpus named by ``--corpus``.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from storage.model import FileEntry, Finding, Manifest, Revision, Severity, Snapshot
from tests.conftest import ROOT
from tests.support.replay import Replay, histories, replay
from tracker.demo.repos import GitRepo
from tracker.diff.repo import has_model
from tracker.estimate.exact import ESTIMATOR
from tracker.examine import Examiner
from tracker.probe.render import Prober
from tracker.snapshot.build import Parser, Unread, carry

# What only a header tells: the headers of large files were not recorded.
_BY_HEADER = frozenset(
    {"weights.keys", "weights.shape", "weights.dtype", "weights.index_mismatch", "weights.resharded"}
)
_NATURAL = (
    (re.compile(r"tokenizer_config\.json$"), "tokenizer_config.json"),
    (re.compile(r"tokenizer\.json$"), "tokenizer.json"),
    (re.compile(r"generation_config\S*\.json$"), "generation_config.json"),
    (re.compile(r"\.jinja$"), "chat_template.jinja"),
    (re.compile(r"\.json$"), "config.json"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One finding of one revision of one history."""

    history: str
    commit: str
    title: str
    finding: Finding

    def __str__(self) -> str:
        change = self.finding.change
        return (
            f"{self.history:34.34} {self.commit[:8]} {self.finding.severity.label:8} {change.cls:24} "
            f"{change.path:40.40} {change.summary} [{self.finding.reason}] ({self.title[:60]})"
        )


def lines(corpus: Path, folder: Path, names: list[str] | None = None) -> Iterator[Line]:
    """Every finding of every history, oldest revision first."""
    with Prober() as prober:
        examiner = Examiner(prober=prober, estimator=ESTIMATOR)
        for name in histories(corpus):
            if not names or name in names:
                yield from judged(replay(corpus, name, folder), examiner)
        for history in single_files(corpus, folder, names):
            yield from judged(history, examiner)


def single_files(corpus: Path, folder: Path, names: list[str] | None = None) -> Iterator[Replay]:
    """The histories of one file each, where no whole tree was recorded."""
    whole = set(histories(corpus))
    for index in sorted((corpus / "corpus" / "histories").glob("*/*/index.json")):
        owner = index.parent.parent.name
        name = f"{owner}/{index.parent.name}"
        if owner in whole or (names and owner not in names and name not in names):
            continue
        repo = GitRepo(folder / f"{name.replace('/', '--')}.git")
        path = next(natural for pattern, natural in _NATURAL if pattern.search(index.parent.name))
        shas = {}
        for version in json.loads(index.read_bytes())["versions"]:
            file = index.parent / version["file"] if version.get("file") else None
            if file is not None and file.is_file():
                sha = repo.commit({path: file.read_bytes()}, title=version.get("title") or "", author="a")
                shas[version.get("commit") or version["blob"]] = sha
        yield Replay(name=name, repo=repo, shas=shas)


def judged(history: Replay, examiner: Examiner) -> Iterator[Line]:
    """The findings of one history; what a stand-in file gives is left out."""
    parser = Parser()
    before: Snapshot | None = None
    authors: set[str] = set()
    had_model = False
    stand_ins: set[str] = set()
    for position, (commit, sha) in enumerate(history.shas.items()):
        after = carry(before, snapshot(history.repo, sha, parser))
        seen = examiner.examine(
            before, after, known_authors=frozenset(authors), position=position, had_model=had_model
        )
        filled = {path for ours, path in history.filled if ours == sha}
        touched = filled | {path for path in stand_ins if _key(before, path) != _key(after, path)}
        for finding in seen.findings:
            if finding.change.path not in touched and finding.cls not in _BY_HEADER:
                yield Line(history=history.name, commit=commit, title=after.revision.title, finding=finding)
        stand_ins = {path for path in stand_ins | filled if path in after.manifest.files} - (touched - filled)
        authors.add(after.revision.author)
        had_model = had_model or has_model(after)
        before = after


def _key(snapshot: Snapshot | None, path: str) -> str | None:
    entry = snapshot.manifest.files.get(path) if snapshot else None
    return entry.content_key if entry else None


def snapshot(repo: GitRepo, sha: str, parser: Parser) -> Snapshot:
    """One commit of a repository, parsed."""
    entries = {}
    blobs = {}
    for path, item in repo.files(sha):
        pointer = repo.pointer(item.sha)
        info = repo.info(item.sha)
        size = pointer.size if pointer else info[1] if info else 0
        entries[path] = FileEntry(
            path=path, size=size, blob_id=item.sha, lfs_sha256=pointer.sha256 if pointer else None
        )
        blobs[entries[path].content_key] = (item.sha, pointer)

    def load(key: str) -> bytes | Unread:
        blob, pointer = blobs[key.partition(":")[2] if key.startswith("header:") else key]
        data = repo.head_bytes(pointer.sha256) if pointer else repo.blob(blob)
        return data or Unread("fetch", "no bytes were recorded")

    commit = repo.commit_info(sha)
    revision = Revision(
        sha=sha, committed_at=commit.date, author=commit.author, title=commit.title, parents=tuple(commit.parents)
    )
    return parser.build(revision, Manifest(files=entries), load=load)


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description="Judge every recorded history.")
    options.add_argument("names", nargs="*")
    options.add_argument("--corpus", type=Path, default=ROOT.parent / "shared")
    options.add_argument("--min-severity", default="info")
    options.add_argument("--sample", type=int, help="so many lines drawn at random (always the same ones)")
    given = options.parse_args()
    least = Severity.parse(given.min_severity)
    with tempfile.TemporaryDirectory() as folder:
        shown = [
            line
            for line in lines(given.corpus, Path(folder), given.names or None)
            if line.finding.severity >= least
        ]
    if given.sample:
        shown = random.Random(0).sample(  # noqa: S311 - no secret
            shown, min(given.sample, len(shown))
        )
    for line in shown:
        print(line)


if __name__ == "__main__":
    main()
