"""Who may see a repo: what was read with a token of ours, while private or gated, is not for everybody."""

from __future__ import annotations

from sqlalchemy import func, or_, select

from storage.database import Transaction
from storage.model import RepoRef
from storage.tables import repos

OPEN_TO_ALL = or_(repos.c.restricted.is_(False), repos.c.public.is_(True))
"""The condition on ``repos``: read openly, or opened by a person (``hubwatch watch add --public``)."""


def fingerprint(tx: Transaction) -> str:
    """A text that differs whenever other repos are hidden."""
    hidden = select(func.count(), func.sum(repos.c.id * repos.c.id)).select_from(repos).where(~OPEN_TO_ALL)
    return repr(tuple(tx.execute(hidden).one()))


def hidden(tx: Transaction) -> int:
    """How many repos are not for everybody."""
    return tx.scalar(select(func.count()).select_from(repos).where(~OPEN_TO_ALL)) or 0


def open_to_all(tx: Transaction, repo: RepoRef) -> bool:
    """Whether anybody may see a repo; True for one that is not known here."""
    here = (repos.c.endpoint == repo.endpoint, repos.c.owner == repo.owner, repos.c.name == repo.name)
    return tx.scalar(select(repos.c.id).where(*here, ~OPEN_TO_ALL)) is None
