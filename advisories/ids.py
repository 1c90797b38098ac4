"""Advisory ids: made from what an advisory is about, so that every installation makes the same.

The algorithm is part of the public contract and never changes (docs/advisories.md):

1. Join identity, ``owner/name`` as watched, change class and introducing sha with line feeds (U+000A) and
   take the SHA-256 of the UTF-8 text, as one big-endian integer.
2. Divide it by 20 again and again; the remainders, in the order they come, are digits in the alphabet
   ``23456789cfghjmpqrvwx``.
3. The id is ``x_HUBWATCH-<year>-`` and the first twelve digits in groups of four. While a *different*
   advisory has that id, the next four digits are appended as one more group.

The year is the introducing commit's in UTC, not before the repo's creation and not after now.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

ALPHABET = "23456789cfghjmpqrvwx"
PREFIX = "x_HUBWATCH"
_GROUP = 4
_GROUPS = 3
_MOST_GROUPS = 14  # 56 digits: about all that 256 bits give


def state_key(state: str, sha: str | None) -> str:
    """What stands in for the introducing sha where there is none: the new state, and the head or old target."""
    return f"{state}\n{sha or ''}"


def year_of(committed_at: datetime, *, repo_created_at: datetime | None, now: datetime) -> int:
    """The commit's year, clamped to [repo created, now]: a commit date is only its author's claim."""
    claimed = committed_at.astimezone(UTC).year
    earliest = repo_created_at.astimezone(UTC).year if repo_created_at else claimed
    return min(max(claimed, earliest), now.astimezone(UTC).year)


def advisory_id(
    identity: str,
    repo_id: str,
    cls: str,
    introduced_sha: str,
    *,
    committed_at: datetime,
    repo_created_at: datetime | None,
    now: datetime,
    taken: Callable[[str], bool] = lambda _: False,
) -> str:
    """The id of one advisory.

    Args:
        identity: The hub's identity, ``https://huggingface.co``.
        repo_id: ``owner/name`` as watched.
        cls: The change class.
        introduced_sha: The introducing commit, or `state_key` for a state of the repo.
        committed_at: The introducing commit's date; the observation for a state of the repo.
        repo_created_at: When the Hub says the repo was made, if known.
        now: The time of observation.
        taken: Whether a different advisory already has an id.

    """
    year = year_of(committed_at, repo_created_at=repo_created_at, now=now)
    digits = _digits("\n".join((identity, repo_id, cls, introduced_sha)))
    groups = ["".join(next(digits) for _ in range(_GROUP)) for _ in range(_GROUPS)]
    while taken(made := f"{PREFIX}-{year:04d}-{'-'.join(groups)}") and len(groups) < _MOST_GROUPS:
        groups.append("".join(next(digits) for _ in range(_GROUP)))
    return made


def _digits(text: str) -> Iterator[str]:
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest(), "big")
    while True:
        number, digit = divmod(number, len(ALPHABET))
        yield ALPHABET[digit]
