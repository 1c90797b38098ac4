"""The root of every error hubwatch raises on purpose.

    HubwatchError
     |- UsageError            what was asked cannot be done as asked
     |- NotFound              a repo, revision, file or advisory that is not here
     |- StorageError          the database cannot be used
     |   `- SchemaError       the database has another schema version
     `- (tracker.hub.errors)  HubError and its children

Every error carries a stable ``code``, whether trying again later can help, and
``help``: one sentence that tells a person what to do. Errors of other
libraries never leave the package that called them; they are raised again as
one of these.
"""

from __future__ import annotations


class HubwatchError(Exception):
    """Anything hubwatch refuses or fails to do.

    Args:
        message: What happened, in one line.
        help: What to do about it, in one line.

    """

    code: str = "error"
    retryable: bool = False

    def __init__(self, message: str, *, help: str = "") -> None:  # noqa: A002 - the word users see
        super().__init__(message)
        self.message = message
        self.help = help

    def __str__(self) -> str:
        """One line: what happened, then what to do."""
        return f"{self.message}: {self.help}" if self.help else self.message


class UsageError(HubwatchError):
    """What was asked cannot be done as asked."""

    code = "usage"


class NotFound(HubwatchError):
    """A repo, revision, file or advisory that this database does not hold."""

    code = "not_found"


class StorageError(HubwatchError):
    """The database cannot be opened, read or written."""

    code = "storage"
    retryable = True


class SchemaError(StorageError):
    """The database has another schema version than this hubwatch."""

    code = "schema"
    retryable = False
