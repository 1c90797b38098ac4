"""Reading ahead: what the next revisions of a history need is fetched while the present one is examined.

    with ReadAhead(reading, source, shas, absent=loader.absent) as files:
        for revision in revisions:
            loader.fetch(source, revision, before, files)      # mostly finds its answers here

One thread asks for the trees in their order, a few more fetch what is not held of them. Nothing is asked twice: a
key belongs to whoever claims it first, the threads or the one who reads. An answer that is an error is raised
where it is asked for, at its own revision, as without reading ahead; from then on nothing more is asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Protocol, Self, TypeVar

import structlog

from storage.errors import StorageError
from storage.model import FileEntry, Manifest, RepoRef
from tracker.hub.errors import Corrupt, FileGone, HubError, TooLarge
from tracker.hub.interface import Files
from tracker.hub.readers import Submit
from tracker.snapshot.build import Wanted, header_key
from tracker.snapshot.kinds import header_limit

T = TypeVar("T")
FETCHERS = 4
"""Requests of one history that are on their way at once, beside the one that is waited for."""
MAX_REVISIONS = 8
"""Revisions that are read beyond the one that was asked for last."""
MAX_BYTES = 8 << 20
"""What is fetched and not asked for yet takes at most so much."""
MAX_FILE = 4 << 20
"""A larger file is not fetched ahead: a tokenizer would wait in memory while the one before is examined."""
SOON_S = 0.1
"""An answer that takes longer is waited for."""
_HEADER_BYTES = 256 << 10
"""What the header of a weight file is taken to need before it is known."""
_OF_THE_FILE = (FileGone, TooLarge, Corrupt)
"""Errors that say nothing of what is asked next."""

log = structlog.get_logger("hubwatch.ahead")


class History(Files, Protocol):
    """What is read: files of one history, asked for by several threads."""

    def coming(self, repo: RepoRef, revisions: Sequence[str], submit: Submit) -> None:
        """Learn which trees are asked for next, and ask for them by ``submit``."""
        ...

    def at_hand(self, entry: FileEntry) -> bool:
        """Whether the content of a file takes no request."""
        ...


@dataclass(frozen=True, slots=True)
class _Claim:
    """One answer to come; ``revision`` is the one it was asked at."""

    revision: str
    size: int
    answer: Future[bytes]


class ReadAhead:
    """The files of one history, see `Files`. To be asked by one thread, in the order of ``revisions``.

    Args:
        history: Where they come from.
        repo: The name to ask by.
        revisions: The commits that will be asked for, in order.
        absent: What of a tree is not held yet.
        waiting: Called by who asks, where the answer lets wait: whatever else is to be done can be done first.

    """

    def __init__(
        self,
        history: History,
        repo: RepoRef,
        revisions: Sequence[str],
        absent: Callable[[Manifest], Wanted],
        waiting: Callable[[], None] = lambda: None,
    ) -> None:
        self._history, self._repo, self._absent, self._waiting = history, repo, absent, waiting
        self._revisions = list(revisions)
        self._numbers = {sha: number for number, sha in enumerate(revisions)}
        self._asked = 0
        self._trees: dict[str, Future[Manifest]] = {sha: Future() for sha in revisions}
        self._claims: dict[str, _Claim | None] = {}  # None: whoever reads asks for it
        self._bytes = 0
        self._over = False
        self._changed = threading.Condition()
        self._pool = ThreadPoolExecutor(FETCHERS, thread_name_prefix="fetch")
        context = copy_context()  # the urgency of what is asked, and the words that log lines carry
        self._reader = threading.Thread(target=context.run, args=(self._read,), name="ahead", daemon=True)

    def __enter__(self) -> Self:
        """Begin to read."""
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ask for nothing more, and wait for what is on its way."""
        self._stop()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._reader.join()

    def unclaimed(self) -> Iterator[tuple[str, bytes]]:
        """What was fetched and nobody asked for, by key, once this is closed: it need not be fetched again."""
        for key, claim in self._claims.items():
            answer = claim.answer if claim is not None else None
            if answer is not None and not answer.cancelled() and answer.exception() is None:
                yield key, answer.result()

    # --- what is asked -------------------------------------------------------------------------------

    def manifest(self, repo: RepoRef, revision: str) -> Manifest:
        """See `Upstream.manifest`."""
        tree = self._trees.get(revision)
        if tree is None:
            return self._history.manifest(repo, revision)
        with self._changed:
            self._asked = self._numbers[revision]
            passed = [key for key, claim in self._claims.items() if claim and self._is_before(claim, revision)]
        self._release(*passed)
        try:
            return self._result(tree)
        except CancelledError:
            self._waiting()
            return self._history.manifest(repo, revision)

    def content(self, repo: RepoRef, revision: str, entry: FileEntry) -> bytes:
        """See `Upstream.content`."""

        def ask() -> bytes:
            if not self._history.at_hand(entry):
                self._waiting()
            return self._history.content(repo, revision, entry)

        return self._take(entry.content_key, revision, ask)

    def header(self, repo: RepoRef, revision: str, entry: FileEntry, *, limit: int) -> bytes:
        """See `Upstream.header`."""

        def ask() -> bytes:
            self._waiting()
            return self._history.header(repo, revision, entry, limit=limit)

        return self._take(header_key(entry), revision, ask)

    def part(self, repo: RepoRef, revision: str, entry: FileEntry, *, start: int, stop: int) -> bytes:
        """See `Upstream.part`. Never read ahead: which part is next depends on the one before."""
        self._waiting()
        return self._history.part(repo, revision, entry, start=start, stop=stop)

    def _take(self, key: str, revision: str, ask: Callable[[], bytes]) -> bytes:
        """The answer that was claimed for a key, or else the one to ``ask`` for now."""
        with self._changed:
            claim = self._claims.setdefault(key, None)
        if claim is None:
            return ask()
        try:
            return self._result(claim.answer)
        except CancelledError:
            return ask()
        except HubError:
            if claim.revision == revision:
                raise
            return ask()
        finally:
            self._release(key)

    def _result(self, future: Future[T]) -> T:
        if not wait([future], timeout=SOON_S).done:
            self._waiting()
        return future.result()

    def _is_before(self, claim: _Claim, revision: str) -> bool:
        return self._numbers[claim.revision] < self._numbers[revision]

    def _release(self, *keys: str) -> None:
        with self._changed:
            for key in keys:
                claim = self._claims.get(key)
                if claim is not None:
                    self._claims[key] = None
                    self._bytes -= claim.size
            self._changed.notify_all()

    # --- reading ahead -------------------------------------------------------------------------------

    def _read(self) -> None:
        """Ask for the trees, in order, and claim what is absent of them, until told to stop."""
        known: dict[str, FileEntry] = {}
        try:
            for revision, tree in self._trees.items():
                if not self._may_read(self._numbers[revision]):
                    return
                try:
                    self._history.coming(self._repo, self._next(revision), self._submit)
                    manifest = self._history.manifest(self._repo, revision)
                except CancelledError:
                    return  # closed meanwhile
                except Exception as error:  # noqa: BLE001 - it is for whoever asks for this tree
                    tree.set_exception(error)
                    self._stop()
                    return
                tree.set_result(manifest)
                fresh = {path: file for path, file in manifest.files.items() if known.get(path) != file}
                self._claim_absent(revision, {path: file for path, file in fresh.items() if self._is_far(file)})
                known = dict(manifest.files)
        except StorageError as error:
            log.info("not reading ahead", error=error.message)  # whoever asks meets it, too
        finally:
            for tree in self._trees.values():
                tree.cancel()

    def _may_read(self, number: int) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._over or number <= self._asked + MAX_REVISIONS)
            return not self._over

    def _next(self, revision: str) -> list[str]:
        """A revision and those after it whose trees may be asked for beside its own."""
        number = self._numbers[revision]
        return self._revisions[number : min(number + FETCHERS, self._asked + MAX_REVISIONS + 1)]

    def _submit(self, ask: Callable[[], T]) -> Future[T]:
        return self._pool.submit(copy_context().run, ask)

    def _is_far(self, entry: FileEntry) -> bool:
        """Whether a file may take a request: headers of weights always do."""
        return not self._history.at_hand(entry) or header_limit(entry.path) is not None

    def _claim_absent(self, revision: str, files: Mapping[str, FileEntry]) -> None:
        if not files:
            return
        absent = self._absent(Manifest(files=files))
        for entry in absent.contents:
            if entry.size <= MAX_FILE and not self._history.at_hand(entry):
                fetch = partial(self._history.content, self._repo, revision, entry)
                self._claim(entry.content_key, revision, entry.size, fetch)
        for entry in absent.headers:
            limit = header_limit(entry.path) or 0
            fetch = partial(self._history.header, self._repo, revision, entry, limit=limit)
            self._claim(header_key(entry), revision, min(entry.size, _HEADER_BYTES), fetch)

    def _claim(self, key: str, revision: str, size: int, fetch: Callable[[], bytes]) -> None:
        """Fetch this unless somebody did, once there is room for it; not for who has gone on without it."""
        number = self._numbers[revision]

        def settled() -> bool:
            return self._over or number < self._asked or self._bytes + size <= MAX_BYTES

        with self._changed:
            self._changed.wait_for(settled)
            if self._over or number < self._asked or key in self._claims:
                return
            answer = self._submit(fetch)
            self._claims[key] = _Claim(revision, size, answer)
            self._bytes += size
        answer.add_done_callback(self._answered)

    def _answered(self, answer: Future[bytes]) -> None:
        """Stop at an error that is not the file's own: what is asked next would meet it, too."""
        if not answer.cancelled() and not isinstance(answer.exception(), (*_OF_THE_FILE, type(None))):
            self._stop()

    def _stop(self) -> None:
        with self._changed:
            self._over = True
            for claim in self._claims.values():
                if claim is not None:
                    claim.answer.cancel()
            self._changed.notify_all()
