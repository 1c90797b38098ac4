"""Single values of the Hub's answers, checked: shas, dates, names, titles, paths. Pure.

A commit's date, author and title are its author's claim and may be anything; a sha, a size or a path that
makes no sense is the Hub's fault. Text that leaves here has no NUL and no lone surrogate, so that every
database, header and page can hold it.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime

from storage.model import Json
from tracker.hub.answers import FAULT_HELP
from tracker.hub.errors import UpstreamFault

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""Stands for a commit date that is none."""
TITLE_LIMIT = 1_000
AUTHOR_LIMIT = 200
AUTHORS_LIMIT = 20
PATH_LIMIT = 1_024
"""Bytes of a path; longer ones are kept under another name, see `safe_path`."""
UNSAFE_PREFIX = "unsafe-name:"
MAX_SIZE = 2**63 - 1

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_EMAIL = re.compile(r"[^\s<>@,;]{1,254}@[^\s<>@,;]{1,254}")
_UNFIT = re.compile("[\x00\ud800-\udfff]")
_NOT_A_PATH = re.compile("[\x00\ud800-\udfff\ufffd]")
"""U+FFFD stands for bytes that are no UTF-8: by that name the file cannot be asked for."""


def is_sha(value: Json) -> bool:
    """Whether a value is a git object id: 40 or 64 lowercase hex digits."""
    return isinstance(value, str) and bool(_SHA.fullmatch(value))


def sha(value: Json, what: str) -> str:
    """A git object id; raises UpstreamFault for anything else."""
    if not is_sha(value):
        raise UpstreamFault(f"the Hub sent no valid {what}", help=FAULT_HELP)
    return str(value)


def sha256(value: Json, what: str) -> str:
    """A SHA-256, with or without a ``sha256:`` in front; raises UpstreamFault for anything else."""
    text = value.removeprefix("sha256:") if isinstance(value, str) else ""
    if not _SHA256.fullmatch(text):
        raise UpstreamFault(f"the Hub sent no valid {what}", help=FAULT_HELP)
    return text


def size(value: Json, what: str) -> int:
    """A count of bytes; raises UpstreamFault for anything else."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_SIZE:
        raise UpstreamFault(f"the Hub sent no valid {what}", help=FAULT_HELP)
    return value


def moment(value: Json) -> datetime | None:
    """An ISO 8601 date as UTC (without a zone it is taken as UTC); None when it is none."""
    if not isinstance(value, str) or len(value) > 64:
        return None
    try:
        parsed = datetime.fromisoformat(value)
        return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def text(value: Json, limit: int) -> str:
    """At most ``limit`` characters of a text; "" for anything else."""
    return _UNFIT.sub("\ufffd", value[:limit]) if isinstance(value, str) else ""


def authors(value: Json) -> str:
    """The authors of a commit by their user names, joined by ", "; ``unknown`` without any; never an e-mail."""
    names = []
    for item in value[:AUTHORS_LIMIT] if isinstance(value, list) else []:
        raw = (
            next((item[key] for key in ("user", "name") if item.get(key)), None)
            if isinstance(item, dict)
            else item
        )
        name = " ".join(_EMAIL.sub("", text(raw, AUTHOR_LIMIT)).replace("<", "").replace(">", "").split())
        if name and name not in names:
            names.append(name)
    return ", ".join(names) or "unknown"


def safe_path(path: Json) -> str:
    """A file's path as the manifest keeps it: as it is, or under a made-up name when it cannot be a git path.

    A name that git forbids or no request can carry (absolute, ``..``, NUL, no UTF-8, over 1,024 bytes)
    is neither dropped nor refused: dropping would hide a file, refusing would let one file stop the whole
    watch. It is kept as ``unsafe-name:<hash>:<its last readable characters>``, which cannot be fetched, so
    that it ends as a gap that people see.

    Raises:
        UpstreamFault: The path is no text, or empty.

    """
    if not isinstance(path, str) or not path:
        raise UpstreamFault("the Hub listed a file without a path", help=FAULT_HELP)
    parts = path.split("/")
    raw = path.encode("utf-8", "surrogatepass")
    forbidden = any(part in ("", ".", "..") or part.lower() == ".git" for part in parts)
    if not forbidden and len(raw) <= PATH_LIMIT and not _NOT_A_PATH.search(path) and not is_unsafe(path):
        return path
    readable = re.sub(r"[^A-Za-z0-9._-]", "_", path[-80:], flags=re.ASCII)
    return f"{UNSAFE_PREFIX}{hashlib.sha256(raw).hexdigest()[:16]}:{readable}"


def is_unsafe(path: str) -> bool:
    """Whether a path is a made-up one of `safe_path`, which the Hub does not know."""
    return path.startswith(UNSAFE_PREFIX)
