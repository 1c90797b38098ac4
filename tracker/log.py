"""Structured logs on stderr: readable on a terminal, JSON lines elsewhere; libraries' lines in the same shape.

What is logged comes from repos, headers and other people's libraries. So every text loses its control and
bidirectional characters, the query of an address (a signed one is as good as a password), passwords in
addresses, and whatever looks like a token; and it is cut. The loggers of HTTP libraries, which know whole
addresses, say warnings only, whatever the level.
"""

from __future__ import annotations

import logging
import re
import sys
import unicodedata
from typing import Any, Literal

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

Format = Literal["auto", "json", "console"]
Level = Literal["error", "warning", "info", "debug"]
LEVELS: tuple[Level, ...] = ("error", "warning", "info", "debug")
MAX_TEXT = 2_000
"""Characters of a value that are shown."""
MAX_TRACE = 20_000
"""Characters of a traceback that are shown."""

# Whole addresses, SQL with its values: warnings only. Other libraries stay at the root logger's level, warning.
_NEVER_LOUD = (
    "httpx",
    "httpx2",
    "httpcore",
    "httpcore2",
    "urllib3",
    "requests",
    "huggingface_hub",
    "apprise",
    "hpack",
    "sqlalchemy",
    "psycopg",
)
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s\"'<>]+", re.IGNORECASE)
_TOKEN = re.compile(r"\b(hf_|hubwatch_|whsec_|bearer\s+|basic\s+)[A-Za-z0-9+/=._~-]{8,}", re.IGNORECASE)
_LINES = "exception"


def configure_logging(level: str = "warning", *, form: Format = "auto") -> None:
    """Set up logging for the process; may be called again. ``auto``: JSON unless stderr is a terminal."""
    number = logging.getLevelNamesMapping()[level.upper()]
    as_json = form == "json" or (form == "auto" and not sys.stderr.isatty())
    ours: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    ending: list[Processor] = [
        safe,
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(),
    ]
    structlog.configure(
        processors=[*ours, *ending],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*ours[:1], _named, *ours[1:]],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending],
        )
    )
    root = logging.getLogger()
    for old in [item for item in root.handlers if getattr(item, "hubwatch", False)]:
        root.removeHandler(old)
    handler.hubwatch = True  # type: ignore[attr-defined]  # so that the next call finds it
    root.addHandler(handler)
    for name in _NEVER_LOUD:
        logging.getLogger(name).setLevel(logging.WARNING)


def louder(level: Level, verbose: int) -> Level:
    """The level after ``-v`` (at least info) and ``-vv`` (debug)."""
    asked = LEVELS.index("warning") + verbose if verbose else 0
    return LEVELS[min(max(LEVELS.index(level), asked), len(LEVELS) - 1)]


def safe(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Make every text of a line fit to be shown (a structlog processor)."""
    return {
        str(key): shown(value, keep="\n\t", limit=MAX_TRACE) if key == _LINES else _cleaned(value)
        for key, value in event.items()
    }


def shown(text: Any, *, keep: str = "", limit: int = MAX_TEXT) -> str:
    r"""A text without secrets, its hidden characters as ``\u{...}``, cut at ``limit`` characters."""
    text = _TOKEN.sub(r"\1***", _ADDRESS.sub(_bare, str(text)[: 4 * limit]))
    if not text.isprintable():
        text = "".join(
            char if char in keep or unicodedata.category(char) not in _HIDDEN else f"\\u{{{ord(char):04x}}}"
            for char in text[: limit + 1]
        )
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _bare(found: re.Match[str]) -> str:
    """An address without a password and without its query."""
    scheme, _, rest = found.group().partition("://")
    where, mark, _ = rest.partition("?")
    host, slash, path = where.partition("/")
    _, at, name = host.rpartition("@")
    return f"{scheme}://{'***@' if at else ''}{name}{slash}{path}{'?***' if mark else ''}"


def _cleaned(value: Any, depth: int = 3) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth and isinstance(value, dict):
        return {shown(key): _cleaned(inner, depth - 1) for key, inner in list(value.items())[:50]}
    if depth and isinstance(value, list | tuple | set | frozenset):
        return [_cleaned(inner, depth - 1) for inner in list(value)[:50]]
    return shown(value)


def _named(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Say which library a line is from."""
    record = event.get("_record")
    if isinstance(record, logging.LogRecord):
        event["logger"] = record.name
    return event
