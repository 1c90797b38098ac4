"""What a pickle imports, read from its opcodes: disassembled, never loaded.

picklescan lists and grades the imports; what it does not know to be dangerous is added here.
"""

from __future__ import annotations

import io
import logging
import pickletools
from dataclasses import dataclass
from typing import Final

from picklescan.scanner import SafetyLevel, scan_pickle_bytes

MAX_IMPORTS: Final = 500
LONGEST_NAME: Final = 120
# The number that begins a checkpoint as torch wrote it before 1.6; four pickles follow it.
_LEGACY_TORCH: Final = 0x1950A86A20F9469CFC6C
_LEGACY_PICKLES: Final = 5
_DANGEROUS_MODULES: Final = frozenset(
    {"importlib", "imp", "zipimport", "torch.hub", "multiprocessing", "marshal", "_posixsubprocess", "dill"}
    | {"cloudpickle", "platform", "ftplib", "http", "urllib", "smtplib", "telnetlib", "_socket", "antigravity"}
)
_DANGEROUS_NAMES: Final = frozenset(
    f"{home}.{name}"
    for home in ("builtins", "__builtin__")
    for name in ("__import__", "globals", "locals", "vars", "setattr", "delattr", "input", "execfile")
)

HIDDEN: Final = "an import that cannot be made out"
UNPARSED: Final = "opcodes that cannot be read to their end"
_ARRAYS: Final = frozenset({"joblib.numpy_pickle.NumpyArrayWrapper", "joblib.numpy_pickle.NDArrayWrapper"})
# How pickletools says that it needs more bytes, rather than others.
_RAN_OUT: Final = ("exhausted", "remain", "no newline", "not enough data")

# Its findings come back as values; what it logs holds names that strangers chose.
_LOG = logging.getLogger("picklescan")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Opcodes:
    """A pickle, or a row of them, summed up. ``pickles`` counts those that came to their end, up to five."""

    imports: tuple[str, ...]
    dangerous: tuple[str, ...]
    pickles: int
    whole: bool


def read_opcodes(data: bytes, *, complete: bool = True) -> Opcodes:
    """Disassemble bytes that begin with a pickle. Never raises; time and memory are linear in the bytes.

    ``whole`` says that everything a loader would read is here; what follows the last pickle (arrays,
    storages) is none of it. A pickle that cannot be disassembled to its end counts as dangerous: loaders run
    what stands before the end, and some read what a disassembler refuses.

    Args:
        data: The bytes.
        complete: Whether they are all that there is, so that a missing end is no matter of the cap.

    """
    imports, dangerous = _imports(data)
    pickles, first, ran_out = _count(data)
    whole = pickles >= (_LEGACY_PICKLES if first == _LEGACY_TORCH else 1)
    # joblib writes arrays between the opcodes, where no disassembler can follow.
    if not whole and not dangerous and (complete or not ran_out) and not _ARRAYS.intersection(imports):
        dangerous = (UNPARSED,)
    return Opcodes(imports=imports[:MAX_IMPORTS], dangerous=dangerous[:MAX_IMPORTS], pickles=pickles, whole=whole)


def _imports(data: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    try:
        found = scan_pickle_bytes(io.BytesIO(data), "pickle").globals
    except (ValueError, OSError, OverflowError, RecursionError, MemoryError):
        # Opcodes in an order that no pickler writes: what they import is hidden, which no harmless file needs.
        return (), (HIDDEN,)
    names = {(item.module, item.name): item.safety is SafetyLevel.Dangerous for item in found}
    imports = sorted({_shown(module, name) for module, name in names})
    graded = {_shown(module, name) for (module, name), bad in names.items() if bad or _dangerous(module, name)}
    return tuple(imports), tuple(sorted(graded))


def _dangerous(module: str, name: str) -> bool:
    # Protocol 4 resolves dots in the name too: ("torch", "hub.load") is torch.hub.load.
    dotted = f"{module}.{name}"
    parts = dotted.split(".")
    homes = (".".join(parts[:count]) for count in range(1, min(len(parts), 8)))
    return dotted in _DANGEROUS_NAMES or any(home in _DANGEROUS_MODULES for home in homes)


def _shown(module: str, name: str) -> str:
    text = f"{module}.{name}".encode("utf-8", "backslashreplace").decode()
    text = "".join(char if char.isprintable() else "?" for char in text)
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def _count(data: bytes) -> tuple[int, object, bool]:
    """How many pickles end within the bytes, up to five; the first number pushed; whether the bytes ran out."""
    stream = io.BytesIO(data)
    first: object = None
    for count in range(_LEGACY_PICKLES):
        try:
            for opcode, value, _ in pickletools.genops(stream):
                if count == 0 and first is None and opcode.name.startswith(("LONG", "INT", "BININT")):
                    first = value
        except (ValueError, OverflowError, MemoryError, IndexError) as error:
            return count, first, any(word in str(error) for word in _RAN_OUT)
    return _LEGACY_PICKLES, first, False
