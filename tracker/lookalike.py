"""Repos that imitate a watched one: an owner that reads like a known owner, and the same model name.

Nothing is searched for: a name is held against the watched ones when it comes under watch itself, by hand or
by an owner's listing.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from storage import watches
from storage.database import Transaction
from storage.model import Change, Watch
from tracker.state_advisories import Begun, write

SHORTEST: Final = 5
"""Owners of fewer characters are too close to too many others."""
_SIMILAR: Final = (
    ("rn", "m"),
    ("vv", "w"),
    ("cl", "d"),
    ("0", "o"),
    ("1", "l"),
    ("i", "l"),
    ("5", "s"),
    ("3", "e"),
)
_SEPARATORS = re.compile(r"[-_.]")
_LATEST = datetime.max.replace(tzinfo=UTC)


def resembles(one: str, other: str) -> bool:
    """Whether two owners can be taken for each other: one edit apart, or the same in likeness."""
    left, right = one.lower(), other.lower()
    if left == right:
        return False  # the Hub tells owners apart by more than case
    if skeleton(left) == skeleton(right):
        return True
    return min(len(left), len(right)) >= SHORTEST and _one_edit(left, right)


def skeleton(name: str) -> str:
    """A name without separators, look-alike characters written one way."""
    text = _SEPARATORS.sub("", name.lower())
    for likeness, plain in _SIMILAR:
        text = text.replace(likeness, plain)
    return text


def _one_edit(left: str, right: str) -> bool:
    """Whether one insertion, deletion, replacement or swap of neighbours makes them equal."""
    if abs(len(left) - len(right)) > 1:
        return False
    start = next(
        (n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )
    rest, other = left[start:], right[start:]
    swapped = rest[:2] == other[:2][::-1] and rest[2:] == other[2:]
    return swapped or rest[1:] == other[1:] or rest[1:] == other or rest == other[1:]


def look_alikes(tx: Transaction, watch: Watch, *, sha: str | None, now: datetime) -> int:
    """Hold a repo that was first seen against the watched ones; the younger of a pair is the imitation.

    Returns how many advisories were opened, on either repo.
    """
    opened = 0
    for other in watches.same_name(tx, watch.repo):
        if other.hub_id is None or not resembles(watch.repo.owner, other.repo.owner):
            continue
        pair = sorted(((watch, sha), (other, other.head)), key=lambda item: item[0].repo_created_at or _LATEST)
        (genuine, _), (copy, head) = pair
        change = Change(
            cls="repo.lookalike",
            path="",
            summary=f"{copy.repo.id} is named like {genuine.repo.id}, which is older and watched",
            before=genuine.repo.id,
            after=copy.repo.id,
            facts={"imitates": genuine.repo.id},
        )
        key = f"lookalike:{genuine.repo.id}"
        opened += write(tx, copy, [Begun(change=change, key=key, sha=head)], now=now)
    return opened
