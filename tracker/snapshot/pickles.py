"""Files that loaders unpickle, looked into by ranges: which container, which imports. Nothing is loaded.

    zip archive    its directory, then each pickle of it (Keras: its config)
    pickle         the first bytes
    NumPy array    its header; an array of objects holds a pickle
    compressed     the first bytes, unpacked up to a cap

What cannot be taken apart fails closed: why not stands among the dangers of the file.
"""

from __future__ import annotations

import bz2
import lzma
import re
import struct
import zipfile
import zlib
from typing import Final, cast

from storage.model import PickleFile
from tracker.snapshot.containers import (
    ALLOWED,
    COMPRESSED,
    HDF5,
    MAGIC_ONLY,
    NUMPY,
    PICKLE,
    ZIP,
    container_of,
    is_raw,
)
from tracker.snapshot.json_reader import Unreadable
from tracker.snapshot.kinds import is_pickle, weight_format
from tracker.snapshot.opcodes import Opcodes, read_opcodes
from tracker.snapshot.ranges import BLOCK, OverBudget, RangeFile, Read

MAX_STREAM: Final = 256 * 1024  # bytes of one pickle that are disassembled
MAX_MEMBERS: Final = 8  # pickles of one archive that are disassembled
_MAGIC_BYTES: Final = 512
_PICKLE_MEMBER: Final = (".pkl", ".pickle", ".joblib", ".dill")
_KERAS_MEMBER: Final = "config.json"
_LAMBDA: Final = (b'"class_name": "Lambda"', b'"class_name":"Lambda"')
_LAMBDA_NAME: Final = "keras.layers.Lambda"
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_OBJECTS: Final = re.compile(rb"""['"][|<>=]?O[0-9]*['"]""")  # a NumPy type of objects
_NOTHING: Final = Opcodes(imports=(), dangerous=(), pickles=0, whole=True)


def looked_into(path: str) -> bool:
    """Whether a file's first bytes and its pickles are read."""
    found = weight_format(path)
    return found in ALLOWED and not path.lower().endswith((".onnx_data", ".onnx.data"))


def inspect(path: str, size: int, read: Read) -> PickleFile:
    """Look into one file.

    Args:
        path: Its path, which says what it should be.
        size: Its bytes.
        read: Gives its bytes; what it raises is let through.

    Returns:
        What it imports. A file that loaders would unpickle and that is broken, or begins as nothing known,
        has that among its ``dangerous``: a loader may run what stands before the place where it breaks.

    Raises:
        Unreadable: ``disguised`` where the first bytes are those of another kind of file.

    """
    form = weight_format(path) or ""
    if form in MAGIC_ONLY:
        found = container_of(read(0, min(size, _MAGIC_BYTES))) if size else None
        # Without a magic number of their own, they may begin like many a thing, but not like these.
        if found in {PICKLE, ZIP, "7z archive", "rar archive"} or (found or "").endswith("program"):
            raise Unreadable("disguised", f"the first bytes are those of a {found}")
        return PickleFile(path=path, content_key="", container=form)
    file = RangeFile(read, size)
    head = file.part(0, BLOCK)
    container = container_of(head)
    if container is None:
        return _broken(path, "unknown", "begins neither as an archive nor as a pickle")
    if form in ALLOWED and container not in ALLOWED[form] and not is_raw(container):
        raise Unreadable("disguised", f"the first bytes are those of a {container}")
    try:
        opcodes = _opcodes(form, container, file)
    except Unreadable as error:
        if error.reason != "container":
            raise
        return _broken(path, container, error.detail)
    return PickleFile(
        path=path,
        content_key="",
        container=container,
        imports=opcodes.imports,
        dangerous=opcodes.dangerous,
        whole=opcodes.whole,
    )


def _broken(path: str, container: str, why: str) -> PickleFile:
    dangerous = (why,) if is_pickle(path) else ()
    return PickleFile(path=path, content_key="", container=container, dangerous=dangerous, whole=False)


def _opcodes(form: str, container: str, file: RangeFile) -> Opcodes:
    if container == ZIP:
        return _archive(form, file)
    if container == PICKLE:
        return _stream(file, 0)
    if container == NUMPY:
        return _array(file)
    if container == HDF5:
        return _lambdas(file.part(0, BLOCK))
    if container in COMPRESSED and form in {"pickle", "joblib"}:
        data = _unpacked(container, file.part(0, MAX_STREAM))
        return read_opcodes(data, complete=False)
    # A tar or a compressed archive would have to be read whole: what is in it stays unknown.
    return _NOTHING if is_raw(container) else Opcodes(imports=(), dangerous=(), pickles=0, whole=False)


def _stream(file: RangeFile, start: int) -> Opcodes:
    """A bare pickle; more of it is read only where the first bytes are not enough."""
    data = file.part(start, start + BLOCK)
    found = read_opcodes(data, complete=len(data) < BLOCK)
    if found.whole or len(data) < BLOCK:
        return found
    data = file.part(start, start + MAX_STREAM)
    return read_opcodes(data, complete=len(data) < MAX_STREAM)


def _array(file: RangeFile) -> Opcodes:
    """A NumPy file; its header is the text of a dict, whose ``descr`` names objects by a letter O."""
    head = file.part(0, BLOCK)
    wide = head[6:7] >= b"\x02"
    if len(head) < 12:
        raise Unreadable("container", "a NumPy file that ends inside its header")
    (length,) = struct.unpack_from("<I" if wide else "<H", head, 8)
    begin = 12 if wide else 10
    if length > BLOCK - begin:
        raise Unreadable("container", f"a NumPy header of {length} bytes")
    if not _OBJECTS.search(head, begin, begin + length):
        return _NOTHING
    found = _stream(file, begin + length)
    return Opcodes(
        imports=tuple(sorted({*found.imports, "numpy.ndarray of objects"})),
        dangerous=found.dangerous,
        pickles=found.pickles,
        whole=found.whole,
    )


def _lambdas(data: bytes) -> Opcodes:
    """Keras layers that hold marshalled Python code, told by their class in the model's config."""
    there = (_LAMBDA_NAME,) if any(mark in data for mark in _LAMBDA) else ()
    return Opcodes(imports=there, dangerous=there, pickles=0, whole=True)


def _unpacked(container: str, data: bytes) -> bytes:
    """The beginning of a compressed content: at most `MAX_STREAM` bytes, whatever it would unpack to."""
    try:
        match container:
            case "zlib stream":
                return zlib.decompressobj().decompress(data, MAX_STREAM)
            case "gzip archive":
                return zlib.decompressobj(wbits=31).decompress(data, MAX_STREAM)
            case "bzip2 archive":
                return bz2.BZ2Decompressor().decompress(data, MAX_STREAM)
            case "xz archive":
                return lzma.LZMADecompressor(memlimit=64 * 1024 * 1024).decompress(data, MAX_STREAM)
            case _:
                raise Unreadable("container", f"an {container} is not unpacked here")
    except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as error:
        raise Unreadable("container", f"a broken {container}: {type(error).__name__}") from None


def _archive(form: str, file: RangeFile) -> Opcodes:
    """Every pickle of a zip archive, by its directory, as loaders find them."""
    try:
        with zipfile.ZipFile(cast("zipfile._ZipReadable", file)) as archive:
            return _members(form, archive)
    except OverBudget:
        return Opcodes(imports=(), dangerous=(), pickles=0, whole=False)
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        EOFError,
        OSError,
        OverflowError,
        RuntimeError,  # encrypted
        ValueError,
    ) as error:
        raise Unreadable("container", f"a broken zip archive: {str(error)[:120]}") from None


def _members(form: str, archive: zipfile.ZipFile) -> Opcodes:
    names = [info for info in archive.infolist() if _wanted(form, info.filename)]
    imports: set[str] = set()
    dangerous: set[str] = set()
    pickles, whole = 0, len(names) <= MAX_MEMBERS
    for info in names[:MAX_MEMBERS]:
        try:
            data, complete = _member(archive, info)
        except OverBudget:
            whole = False
            break
        keras = form == "keras" and info.filename == _KERAS_MEMBER
        found = _lambdas(data) if keras else read_opcodes(data, complete=complete)
        imports.update(found.imports)
        dangerous.update(found.dangerous)
        pickles += found.pickles
        whole = whole and complete and found.whole
    return Opcodes(
        imports=tuple(sorted(imports)), dangerous=tuple(sorted(dangerous)), pickles=pickles, whole=whole
    )


def _wanted(form: str, name: str) -> bool:
    return name.lower().endswith(_PICKLE_MEMBER) or (form == "keras" and name == _KERAS_MEMBER)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[bytes, bool]:
    """The first bytes of a member, and whether they are all of it."""
    if info.compress_type not in _METHODS:
        raise Unreadable("container", f"{info.filename[:60]!r} is packed in a way that loaders do not use")
    with archive.open(info) as member:
        data = member.read(MAX_STREAM)
    return data, info.file_size <= MAX_STREAM
