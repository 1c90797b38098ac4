"""What to do about an advisory, as it stands: one that has ended is not to be acted on as if it were open."""

from __future__ import annotations

from advisories.rules.registry import rule_of
from storage.model import Advisory

EARLIER = "While it was open the advice was: "
"""What stands in the advice of a closed advisory ahead of the advice that counted before."""


def advice(advisory: Advisory) -> str:
    """The class's advice while the advisory is open; afterwards what its end means to whoever acted on it.

    A close is told because whoever runs the commits in between is now different from the ref.
    """
    standing = rule_of(advisory.cls).advise(before=advisory.predecessor, after=advisory.introduced or "now")
    if advisory.withdrawn is not None:
        over = "It is so no longer" if advisory.context.get("ended_at") else "This was withdrawn"
        return f"{over}: nothing is to be done now."
    last = advisory.spans[-1] if advisory.spans else None
    if last is None or last.open:
        return standing
    since = "before this history" if last.introduced == "0" else last.introduced[:7]
    if last.fixed is not None:
        return (
            f"Put back at {last.fixed[:7]}: who follows the ref need do nothing. Who runs or pinned a commit "
            f"from {since} up to {last.fixed[:7]} differs from it: move to {last.fixed[:7]} or later. "
            f"{EARLIER}{standing}"
        )
    later = f" (see {advisory.superseded_by})" if advisory.superseded_by else ""
    end = (last.last_affected or "")[:7]
    return (
        f"Changed again after {end}{later}: what is advised there counts for who follows the ref. Who runs or "
        f"pinned a commit from {since} to {end} still has this: {standing}"
    )
