"""A revision's Snapshot from its manifest and the bytes that were fetched for it. Pure: the caller does the I/O.

What cannot be read is a gap, never an absence: `carry` then lets the last readable version stand in, so that
nothing looks removed and the repairing revision is compared with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from storage.model import (
    Document,
    DocumentKind,
    FileEntry,
    Gap,
    Json,
    Manifest,
    PickleFile,
    Revision,
    Snapshot,
    TensorFile,
)
from tracker.snapshot.card import parse_card
from tracker.snapshot.gguf import parse_gguf_header
from tracker.snapshot.json_reader import Unreadable, decode, read_json
from tracker.snapshot.kinds import cap_of, kind_of, weight_format
from tracker.snapshot.memory import BUDGET, Memory, weight_of_header, weight_of_value
from tracker.snapshot.pickles import inspect, looked_into
from tracker.snapshot.ranges import Read, Recorder, unpacked
from tracker.snapshot.table_reader import read_tables
from tracker.snapshot.weights import parse_safetensors_header

MAX_DOCUMENTS: Final = 4_096  # of one revision; what is beyond becomes gaps
MAX_HEADERS: Final = 2_048
MAX_PICKLES: Final = 512  # files that are looked into by ranges
_OBJECTS: Final = frozenset(
    {
        DocumentKind.CONFIG,
        DocumentKind.GENERATION_CONFIG,
        DocumentKind.TOKENIZER,
        DocumentKind.TOKENIZER_CONFIG,
        DocumentKind.SPECIAL_TOKENS,
        DocumentKind.ADDED_TOKENS,
        DocumentKind.WEIGHT_INDEX,
        DocumentKind.PROCESSOR,
        DocumentKind.ADAPTER,
        DocumentKind.COMPONENTS,
    }
)
_TEXTS: Final = frozenset(
    {DocumentKind.CODE, DocumentKind.REQUIREMENTS, DocumentKind.LICENCE, DocumentKind.MERGES}
)
_TABLES: Final = frozenset({DocumentKind.TOKENIZER, DocumentKind.VOCABULARY, DocumentKind.WEIGHT_INDEX})
_TEXT_SUFFIXES: Final = (".txt", ".jinja")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What must be fetched to build a revision: whole contents, headers of weight files, parts of pickles."""

    contents: tuple[FileEntry, ...] = ()
    headers: tuple[FileEntry, ...] = ()
    pickles: tuple[FileEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Unread:
    """Why there are no bytes for a file: a stable word and one line for a person."""

    reason: str
    detail: str


Load = Callable[[str], bytes | Unread]
Parsed = tuple[Json, tuple[str, ...]] | TensorFile | PickleFile | Unread


def header_key(entry: FileEntry) -> str:
    """The name under which the header bytes of a weight file are kept; its content itself never is."""
    return f"header:{entry.content_key}"


def parts_key(entry: FileEntry) -> str:
    """The name under which the parts of a file are kept that `inspect` asked for.

    The number grows when other parts are asked for.
    """
    return f"parts1:{weight_format(entry.path)}:{entry.content_key}"


def wanted(manifest: Manifest) -> Wanted:
    """The entries to fetch, by path. Files over their kind's cap are left out; `build` makes gaps of them."""
    contents, headers, pickles = _plan(manifest)
    return Wanted(
        contents=tuple(
            entry for entry in contents if (kind := kind_of(entry.path)) and entry.size <= cap_of(kind)
        )[:MAX_DOCUMENTS],
        headers=tuple(headers)[:MAX_HEADERS],
        pickles=tuple(pickles)[:MAX_PICKLES],
    )


def _plan(manifest: Manifest) -> tuple[list[FileEntry], list[FileEntry], list[FileEntry]]:
    """The entries that count as documents, those whose header is read, and those that are looked into."""
    contents: list[FileEntry] = []
    headers: list[FileEntry] = []
    pickles: list[FileEntry] = []
    for path, entry in sorted(manifest.files.items()):
        kind = kind_of(path)
        if kind is not None:
            # A big JSON of no known kind is data (logs, samples), not a file that loading depends on.
            if kind is not DocumentKind.JSON or entry.size <= cap_of(kind):
                contents.append(entry)
        elif weight_format(path) in ("safetensors", "gguf"):
            headers.append(entry)
        elif looked_into(path):
            pickles.append(entry)
    return contents, headers, pickles


@dataclass(slots=True)
class Parser:
    """Parses files and remembers them by content, so that an unchanged tokenizer is parsed once.

    Safe to share between threads. ``budget`` bounds what is remembered, in bytes of parsed values as
    estimated; the least recently used goes first.
    """

    budget: int = BUDGET
    _memory: Memory[Parsed] = field(init=False)
    _names: Memory[str] = field(default_factory=lambda: Memory(4 * MAX_HEADERS), init=False)
    """What the header of a weight file is, by its key, for as many files as this."""

    def __post_init__(self) -> None:
        """Remember nothing yet."""
        self._memory = Memory(self.budget)

    def build(
        self,
        revision: Revision,
        manifest: Manifest,
        *,
        load: Load,
        parts: Callable[[str], bytes | None] | None = None,
        failed: Mapping[str, Unread] | None = None,
        previous: Snapshot | None = None,
    ) -> Snapshot:
        """Parse a revision.

        Args:
            revision: The commit.
            manifest: Its files.
            load: Gives the bytes of a content key, or of `header_key`; asked only for what is not
                remembered. What it raises is let through.
            parts: Gives what is kept under a `parts_key`, None for a file that nobody looked into; that file is
                then in neither ``pickles`` nor ``gaps``.
            failed: By path, what could not be fetched.
            previous: Another revision, whose files are not parsed again where they are the same.

        """
        failed = failed or {}
        documents: dict[str, Document] = {}
        tensor_files: dict[str, TensorFile] = {}
        pickle_files: dict[str, PickleFile] = {}
        gaps: list[Gap] = []
        contents, headers, pickles = _plan(manifest)
        for number, entry in enumerate(contents):
            known = failed.get(entry.path) or _over(entry, number)
            document = previous.documents.get(entry.path) if previous is not None else None
            if known is None and document is not None and document.content_key == entry.content_key:
                documents[entry.path] = document
                continue
            parsed = known or self._document(entry, load)
            if isinstance(parsed, Unread):
                gaps.append(Gap(path=entry.path, reason=parsed.reason, detail=parsed.detail))
            elif isinstance(parsed, tuple):
                documents[entry.path] = _as_document(entry, parsed)
        for number, entry in enumerate(headers):
            known = failed.get(entry.path)
            if known is None and number >= MAX_HEADERS:
                known = Unread("too_many", f"more than {MAX_HEADERS} weight files")
            tensor_file = previous.tensor_files.get(entry.path) if previous is not None else None
            if known is None and tensor_file is not None and tensor_file.content_key == entry.content_key:
                tensor_files[entry.path] = tensor_file
                continue
            parsed = known or self._header(entry, load)
            if isinstance(parsed, Unread):
                gaps.append(Gap(path=entry.path, reason=parsed.reason, detail=parsed.detail))
            elif isinstance(parsed, TensorFile):
                tensor_files[entry.path] = replace(parsed, path=entry.path, content_key=entry.content_key)
        for number, entry in enumerate(pickles):
            known = failed.get(entry.path)
            if known is None and number >= MAX_PICKLES:
                known = Unread("too_many", f"more than {MAX_PICKLES} files to look into")
            seen = known or self._pickle(entry, parts)
            if isinstance(seen, Unread):
                gaps.append(Gap(path=entry.path, reason=seen.reason, detail=seen.detail))
            elif isinstance(seen, PickleFile):
                pickle_files[entry.path] = replace(seen, path=entry.path, content_key=entry.content_key)
        return Snapshot(
            revision=revision,
            manifest=manifest,
            documents=documents,
            tensor_files=tensor_files,
            gaps=tuple(gaps),
            pickles=pickle_files,
        )

    def _document(self, entry: FileEntry, load: Load) -> Parsed:
        kind = kind_of(entry.path)
        as_text = kind in _TEXTS or entry.path.endswith(_TEXT_SUFFIXES)
        as_json = "tables" if kind in _TABLES else "json"
        reader = (
            "text" if as_text else f"{as_json}{kind in _OBJECTS:d}" if kind is not DocumentKind.CARD else "card"
        )

        def parse(data: bytes) -> Parsed:
            if as_text:
                text, flaws = decode(data)
                return text, tuple(flaws)
            if kind is DocumentKind.CARD:
                text, flaws = decode(data)
                value, more = parse_card(text)
                return value, (*flaws, *more)
            return (read_tables if kind in _TABLES else read_json)(data, need_object=kind in _OBJECTS)

        return self._remembered((reader, entry.content_key), entry.content_key, load, parse)

    def _header(self, entry: FileEntry, load: Load) -> Parsed:
        """A weight header. Weights that are trained on have other bytes under the same header: parsed once."""
        read = parse_gguf_header if weight_format(entry.path) == "gguf" else parse_safetensors_header
        key = header_key(entry)
        named = self._names.get((read.__name__, key))
        known = self._memory.get((read.__name__, named)) if named else None
        if known is not None:
            return known
        data = load(key)
        if isinstance(data, Unread):
            return data
        named = f"{entry.size} {hashlib.sha256(data).hexdigest()}"
        self._names.keep((read.__name__, key), named, 1)
        return self._remembered((read.__name__, named), key, lambda _: data, lambda data: read(data, entry.size))

    def _pickle(self, entry: FileEntry, parts: Callable[[str], bytes | None] | None) -> Parsed | None:
        key = parts_key(entry)
        data = parts(key) if parts is not None else None
        if data is None:
            return None
        return self._remembered(
            ("pickle", key), key, lambda _: data, lambda data: inspect(entry.path, entry.size, unpacked(data))
        )

    def _remembered(self, slot: tuple[str, str], key: str, load: Load, parse: Callable[[bytes], Parsed]) -> Parsed:
        known = self._memory.get(slot)
        if known is not None:
            return known
        data = load(key)
        if isinstance(data, Unread):
            return data
        parsed = _tried(parse, data)
        self._memory.keep(slot, parsed, _weight(parsed, len(data)))
        return parsed


def _tried(parse: Callable[[bytes], Parsed], data: bytes) -> Parsed:
    try:
        return parse(data)
    except Unreadable as error:
        return Unread(error.reason, error.detail)


def _weight(parsed: Parsed, size: int) -> int:
    if isinstance(parsed, tuple):
        return weight_of_value(parsed[0], size)
    return weight_of_header(parsed) if isinstance(parsed, TensorFile) else weight_of_value("", size)


def _over(entry: FileEntry, number: int) -> Unread | None:
    kind = kind_of(entry.path)
    if kind is not None and entry.size > cap_of(kind):
        return Unread("too_large", f"{entry.size} bytes, at most {cap_of(kind)} are read")
    if number >= MAX_DOCUMENTS:
        return Unread("too_many", f"more than {MAX_DOCUMENTS} files to read")
    return None


def _as_document(entry: FileEntry, parsed: tuple[Json, tuple[str, ...]]) -> Document:
    kind = kind_of(entry.path)
    assert kind is not None  # noqa: S101 - only documents are planned as contents
    data, flaws = parsed
    return Document(path=entry.path, kind=kind, content_key=entry.content_key, data=data, flaws=flaws)


def build(
    revision: Revision,
    manifest: Manifest,
    contents: Mapping[str, bytes | Unread],
    headers: Mapping[str, bytes | Unread],
    *,
    parser: Parser | None = None,
) -> Snapshot:
    """Build a snapshot from bytes at hand, both mappings by content key. What is missing becomes a gap.

    Files that would be looked into by ranges are looked into where ``headers`` holds them whole.
    """
    missing = Unread("fetch", "the file was not fetched")
    _, _, pickles = _plan(manifest)
    entries = {parts_key(entry): entry for entry in pickles}

    def load(key: str) -> bytes | Unread:
        if key.startswith("header:"):
            return headers.get(key.removeprefix("header:"), missing)
        return contents.get(key, missing)

    def parts(key: str) -> bytes | None:
        whole = headers.get(entries[key].content_key, missing)
        return None if isinstance(whole, Unread) else parts_of(entries[key], lambda start, stop: whole[start:stop])

    return (parser or Parser()).build(revision, manifest, load=load, parts=parts)


def parts_of(entry: FileEntry, read: Read) -> bytes:
    """The parts that looking into a file asks for, to be kept under its `parts_key`.

    What ``read`` raises is let through, but for Unreadable.
    """
    recorder = Recorder(read)
    with suppress(Unreadable):  # said again, and kept as a gap, when the parts are parsed
        inspect(entry.path, entry.size, recorder)
    return recorder.packed()


def carry(previous: Snapshot | None, snapshot: Snapshot) -> Snapshot:
    """Let the last readable version of every unreadable path stand in.

    A path that ``previous`` did not hold stays without a document; its gap then has no ``last_readable``.
    """
    if previous is None or not snapshot.gaps:
        return snapshot
    documents = dict(snapshot.documents)
    tensor_files = dict(snapshot.tensor_files)
    pickles = dict(snapshot.pickles)
    gaps: list[Gap] = []
    for gap in snapshot.gaps:
        document = previous.documents.get(gap.path)
        tensor_file = previous.tensor_files.get(gap.path)
        pickle_file = previous.pickles.get(gap.path)
        stand_in = document or tensor_file or pickle_file
        if pickle_file is not None:
            pickles[gap.path] = pickle_file
        if document is not None:
            documents[gap.path] = document
        if tensor_file is not None:
            tensor_files[gap.path] = tensor_file
        gaps.append(replace(gap, last_readable=stand_in.content_key) if stand_in else gap)
    return replace(snapshot, documents=documents, tensor_files=tensor_files, pickles=pickles, gaps=tuple(gaps))
