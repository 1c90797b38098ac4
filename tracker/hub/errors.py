"""What can go wrong when talking to the Hub.

HubError
 |- RateLimited     429, or the window is spent: a pause to be kept as data
 |  `- BudgetSpent  our own share of the window is spent, for questions of this urgency
 |- Unreachable     no answer: DNS, connect, reset, stall, deadline
 |- UpstreamFault   5xx, or an answer that makes no sense
 |- AccessDenied    the repo's state forbids reading (carries the RepoState)
 |- RevisionGone    the sha or ref is not there (any more)
 |- FileGone        the revision lists a file that cannot be fetched
 |  `- Nameless     by the name that it lists, nothing can ever be asked for
 |- TooLarge        more than the cap
 |- Corrupt         bytes that do not match their hash or declared length
 |  `- Malformed    the file itself is so, whoever brings it
 `- GitUnavailable  git cannot tell (now, here, or of this repo): the API may
"""

from __future__ import annotations

from storage.errors import HubwatchError
from storage.model import RepoState


class HubError(HubwatchError):
    """The upstream could not be asked, or answered badly."""

    code = "hub"
    retryable = True


class RateLimited(HubError):
    """The Hub asks for a pause of ``seconds``; every call waits until then."""

    code = "rate_limited"

    def __init__(self, message: str, *, seconds: float, help: str = "") -> None:  # noqa: A002
        super().__init__(message, help=help)
        self.seconds = seconds


class BudgetSpent(RateLimited):
    """Our share of the Hub's window is used up for questions of this urgency; more urgent ones may go on."""

    code = "budget_spent"


class Unreachable(HubError):
    """No answer from the Hub within the deadline."""

    code = "unreachable"


class UpstreamFault(HubError):
    """The Hub failed (5xx) or answered something that makes no sense; ``status`` is its HTTP status, if any."""

    code = "upstream"

    def __init__(self, message: str, *, status: int | None = None, help: str = "") -> None:  # noqa: A002
        super().__init__(message, help=help)
        self.status = status


class AccessDenied(HubError):
    """The repo's state forbids what was asked."""

    code = "access"
    retryable = False

    def __init__(self, message: str, *, state: RepoState, help: str = "") -> None:  # noqa: A002
        super().__init__(message, help=help)
        self.state = state


class RevisionGone(HubError):
    """The sha or ref is not known to the Hub (now)."""

    code = "revision_gone"


class FileGone(HubError):
    """The tree lists a file that cannot be fetched (now)."""

    code = "file_gone"


class Nameless(FileGone):
    """The tree lists a file under a name by which it can never be asked for."""

    retryable = False


class TooLarge(HubError):
    """More bytes than the cap for this kind of file."""

    code = "too_large"
    retryable = False


class Corrupt(HubError):
    """Bytes that do not match their hash, or a header that lies about its length."""

    code = "corrupt"


class Malformed(Corrupt):
    """A file that contradicts itself or its entry in the tree: it is so for whoever reads it."""

    retryable = False


class GitUnavailable(HubError):
    """Git cannot tell, whatever the cause: read by the API instead. It says nothing about the repo's state.

    ``reason`` is a stable word: ``no_git``, ``refused``, ``not_served``, ``too_large``, ``timed_out``,
    ``corrupt``, ``differs`` (from what the API says), ``failed``.
    """

    code = "git_unavailable"

    def __init__(self, message: str, *, reason: str, help: str = "") -> None:  # noqa: A002
        super().__init__(message, help=help)
        self.reason = reason
