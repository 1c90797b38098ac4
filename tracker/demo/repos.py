"""Real bare git repositories, built in milliseconds and read without a git process.

    repo = GitRepo(folder / "tiny.git")
    first = repo.commit({"config.json": "{}"}, title="initial commit")
    repo.commit({"model.safetensors": safetensors({"w": ("F32", [4, 4])})}, title="weights", author="bob")

Loose objects and refs are written as git itself writes them, so `git upload-pack` serves the folder as it
stands. Files given as `LargeFile` become LFS pointers; their first bytes lie under ``lfs/`` in the folder.
"""

from __future__ import annotations

import heapq
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tracker.demo.files import LargeFile
from tracker.demo.objects import EMPTY_TREE, FILE_MODE, TREE_MODE, TreeItem, encode_commit, encode_tree
from tracker.demo.odb import ObjectStore

# What a commit may hold: new content, or None to delete the path (a file, or a whole folder).
Content = bytes | str | LargeFile | None

FIRST_DATE = datetime(2024, 1, 1, tzinfo=UTC)
_CONFIG = """[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
[uploadpack]
\tallowFilter = true
\tallowAnySHA1InWant = true
[gc]
\tauto = 0
"""


class GitRepo(ObjectStore):
    """One bare repository. Reads and writes may come from several threads; writers take turns."""

    def __init__(self, path: Path) -> None:
        """Open the repository at ``path``, or make an empty one with the branch ``main``."""
        super().__init__(path)
        self._logs: dict[str, tuple[str, ...]] = {}
        self.refs: dict[str, str] = {}
        if not (path / "HEAD").is_file():
            for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
                (path / folder).mkdir(parents=True, exist_ok=True)
            (path / "config").write_text(_CONFIG)
            (path / "HEAD").write_text("ref: refs/heads/main\n")
            self.write("tree", b"")
        self.reload()

    # --- writing -----------------------------------------------------------------------------------

    def commit(
        self,
        files: Mapping[str, Content],
        *,
        title: str = "Update",
        body: str = "",
        author: str = "alice",
        email: str | None = None,
        date: datetime | None = None,
        ref: str = "main",
        parents: Sequence[str] | None = None,
    ) -> str:
        """Add a commit on top of ``ref`` (a branch name, or ``refs/...``) and return its sha.

        Without ``date``: an hour after the parent. With ``parents``, on top of those instead; the tree
        is the first parent's with ``files`` applied.
        """
        with self._lock:
            name = full_ref(ref)
            head = self.refs.get(name)
            above = tuple(parents) if parents is not None else (head,) if head else ()
            base = self.commit_info(above[0]) if above else None
            tree = self._grow(base.tree if base else EMPTY_TREE, self._blobs(files))
            data = encode_commit(
                tree=tree or EMPTY_TREE,
                parents=above,
                author=author,
                email=email or f"{''.join(author.split()) or 'nobody'}@example.org",
                date=date or (base.date + timedelta(hours=1) if base else FIRST_DATE),
                title=title,
                body=body,
            )
            sha = self.write("commit", data)
            self.set_ref(name, sha)
            return sha

    def merge(
        self, other: str, *, files: Mapping[str, Content] | None = None, title: str = "", ref: str = "main",
        author: str = "alice", date: datetime | None = None,
    ) -> str:  # fmt: skip
        """Merge the revision ``other`` into ``ref``: its files win, then ``files``; returns the merge's sha."""
        second = self._require(other)
        merged: dict[str, Content] = {}
        ours = {path: item.sha for path, item in self.files(ref)}
        for path, item in self.files(second):
            if ours.get(path) != item.sha:
                merged[path] = self.blob(item.sha)
        head = self._require(ref)
        return self.commit(
            {**merged, **(files or {})},
            title=title or f"Merge {other}",
            author=author,
            date=date or max(self.commit_info(sha).date for sha in (head, second)) + timedelta(hours=1),
            ref=ref,
            parents=(head, second),
        )

    def squash(self, *, title: str = "Super-squash branch", ref: str = "main", author: str = "alice") -> str:
        """Rewrite ``ref`` as one root commit with the same tree, as the Hub's super-squash does."""
        head = self.commit_info(self._require(ref))
        data = encode_commit(
            tree=head.tree, parents=(), author=author, email=f"{author}@example.org",
            date=head.date + timedelta(hours=1), title=title, body="",
        )  # fmt: skip
        with self._lock:
            sha = self.write("commit", data)
            self.set_ref(full_ref(ref), sha)
        return sha

    def reset(self, ref: str, revision: str) -> str:
        """Force-push: point ``ref`` at any revision; returns its sha."""
        sha = self._require(revision)
        self.set_ref(full_ref(ref), sha)
        return sha

    def branch(self, name: str, revision: str = "main") -> str:
        """Make or move a branch; returns the sha."""
        return self.reset(f"refs/heads/{name}", revision)

    def tag(self, name: str, revision: str = "main") -> str:
        """Make or move a lightweight tag; returns the sha."""
        return self.reset(f"refs/tags/{name}", revision)

    def pull_request(self, number: int, revision: str = "main") -> str:
        """Make or move ``refs/pr/<number>``; returns the sha."""
        return self.reset(f"refs/pr/{number}", revision)

    def set_ref(self, name: str, sha: str) -> None:
        """Point a full ref name at a sha, on disk first."""
        with self._lock:
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            fresh = self.path / f"{threading.get_ident()}.lock"
            fresh.write_text(sha + "\n")
            fresh.replace(target)
            self.refs[name] = sha

    def delete_ref(self, ref: str) -> None:
        """Delete a branch, tag or other ref; KeyError when it is not there."""
        with self._lock:
            name = full_ref(ref)
            del self.refs[name]
            (self.path / name).unlink(missing_ok=True)

    # --- reading -----------------------------------------------------------------------------------

    def resolve(self, revision: str) -> str | None:
        """The commit that a branch, tag, full ref or full sha names; None when there is none."""
        for name in (revision, f"refs/heads/{revision}", f"refs/tags/{revision}"):
            if name in self.refs:
                return self.peeled(self.refs[name])
        if len(revision) == 40 and set(revision) <= set("0123456789abcdef"):
            found = self.info(revision)
            return revision if found and found[0] == "commit" else None
        return None

    def log(self, revision: str) -> tuple[str, ...]:
        """The shas reachable from a revision in `git log` order: newest first, by commit date."""
        head = self._require(revision)
        if head not in self._logs:
            self._logs[head] = tuple(self._walk(head))
        return self._logs[head]

    def find(self, revision: str, path: str) -> TreeItem | None:
        """The file or folder at ``path``; None when there is none."""
        at = TreeItem("", TREE_MODE, self.commit_info(self._require(revision)).tree)
        for part in path.split("/"):
            if not at.folder:
                return None
            found = next((item for item in self.tree(at.sha) if item.name == part), None)
            if found is None:
                return None
            at = found
        return at

    def entries(self, tree: str, prefix: str = "", *, recursive: bool = True) -> Iterator[tuple[str, TreeItem]]:
        """Paths and items below a tree, folders of a level first, then its files, then what is inside."""
        items = sorted(self.tree(tree), key=lambda item: not item.folder)
        yield from ((prefix + item.name, item) for item in items)
        if recursive:
            for item in items:
                if item.folder:
                    yield from self.entries(item.sha, f"{prefix}{item.name}/")

    def files(self, revision: str) -> Iterator[tuple[str, TreeItem]]:
        """Every file of a revision."""
        tree = self.commit_info(self._require(revision)).tree
        return ((path, item) for path, item in self.entries(tree) if not item.folder and not item.submodule)

    def content(self, revision: str, path: str) -> bytes | None:
        """A small file's bytes, or the stored first bytes of an LFS file; None when it is not there."""
        item = self.find(revision, path)
        if item is None or item.folder:
            return None
        pointer = self.pointer(item.sha)
        return self.head_bytes(pointer.sha256) if pointer else self.blob(item.sha)

    def reload(self) -> None:
        """Read the refs again, after another program changed the folder."""
        refs = {}
        packed = self.path / "packed-refs"
        for line in packed.read_text().splitlines() if packed.is_file() else ():
            if line[:1] not in {"#", "^"}:
                sha, _, name = line.partition(" ")
                refs[name] = sha
        for file in (self.path / "refs").rglob("*"):
            if file.is_file():
                refs[file.relative_to(self.path).as_posix()] = file.read_text().strip()
        self.refs = refs

    def forget(self) -> None:
        """Drop what was cached, after objects were pruned or packed by git."""
        super().forget()
        self._logs.clear()

    # --- inside ------------------------------------------------------------------------------------

    def _require(self, revision: str) -> str:
        sha = self.resolve(revision) or self.resolve(full_ref(revision))
        if sha is None:
            raise KeyError(revision)
        return sha

    def _walk(self, head: str) -> Iterator[str]:
        queue = [(-self.commit_info(head).date.timestamp(), 0, head)]
        seen = {head}
        count = 0
        while queue:
            sha = heapq.heappop(queue)[2]
            yield sha
            for parent in self.commit_info(sha).parents:
                if parent not in seen:
                    seen.add(parent)
                    count += 1
                    heapq.heappush(queue, (-self.commit_info(parent).date.timestamp(), count, parent))

    def _blobs(self, files: Mapping[str, Content]) -> dict[str, str | None]:
        return {path: None if content is None else self.add(content) for path, content in files.items()}

    def _grow(self, tree: str, changes: Mapping[str, str | None]) -> str | None:
        """The tree with blobs set or (None) removed; None when nothing is left in it."""
        items = {item.name: item for item in self.tree(tree)}
        below: dict[str, dict[str, str | None]] = {}
        for path, sha in changes.items():
            name, slash, rest = path.partition("/")
            if slash:
                below.setdefault(name, {})[rest] = sha
            elif sha is None:
                items.pop(name, None)
            else:
                items[name] = TreeItem(name, FILE_MODE, sha)
        for name, inner in below.items():
            old = items.get(name)
            grown = self._grow(old.sha if old and old.folder else EMPTY_TREE, inner)
            items.pop(name, None)
            if grown is not None:
                items[name] = TreeItem(name, TREE_MODE, grown)
        return self.write("tree", encode_tree(items.values())) if items else None


def full_ref(ref: str) -> str:
    """``main`` -> ``refs/heads/main``; a full ref as it is."""
    return ref if ref.startswith("refs/") else f"refs/heads/{ref}"


def json_file(value: object) -> bytes:
    """JSON as it is usually found in model repos: two spaces, a newline at the end."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8")
