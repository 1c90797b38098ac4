"""Who may see a repo: what was read with a token of ours, while private or gated, is not for everybody."""

from __future__ import annotations

from sqlalchemy import or_, select

from storage.database import Transaction
from storage.model import RepoRef
from storage.tables import repos

OPEN_TO_ALL = or_(repos.c.restricted.is_(False), repos.c.public.is_(True))
"""The condition on ``repos``: read openly, or opened by a person (``hubwatch watch add --public``)."""


def open_to_all(tx: Transaction, repo: RepoRef) -> bool:
    """Whether anybody may see a repo; True for one that is not known here."""
    here = (repos.c.endpoint == repo.endpoint, repos.c.owner == repo.owner, repos.c.name == repo.name)
    return tx.scalar(select(repos.c.id).where(*here, ~OPEN_TO_ALL)) is None
