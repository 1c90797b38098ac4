"""What a changed template does, judged by its rendered probes. Pure.

A template change comes as ``template.semantic``; the probes say which kind it is. The kinds are tried from
the narrowest to the widest, each on the probes that differ: white space alone, dates alone, only with an
open generation prompt, only with tools, only without a system turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from storage.model import Change, Json, ProbeOutcome, ProbeResult
from tracker.probe.conversations import BY_NAME, TOGGLE, Conversation

PROVISIONAL = "template.semantic"
_SHOWN = 2048  # characters of each side shown around the first difference
_LEAD = 200  # of them before it
_LISTED = 40  # probes named in the facts
_DATE = re.compile(
    r"\d{4}-\d\d-\d\d|\d\d?[ /.]\w{2,9}[ /.]\d{4}|[A-Z][a-z]{2,8} \d{1,2}, \d{4}|[A-Z][a-z]{2,8} \d{4}|\b20\d\d\b"
)
_WORDS = re.compile(r"[^\W\d_]{2,}")


def refine(change: Change, probes: Sequence[ProbeResult]) -> tuple[Change, ...]:
    """Turn a provisional template change into the changes that its probes show.

    Args:
        change: A change of class ``template.semantic``; any other comes back as it is.
        probes: What `tracker.probe.render.Prober.templates` gave for it.

    Returns:
        The primary change first, then the others (``template.args_contract``), all on the same facet. The
        primary's facts say ``probes_equal`` (every probe ran, and none differs), ``probes_gap`` (words of
        those that could not run), ``probes_different`` (names) and ``first_difference``.

    """
    if change.cls != PROVISIONAL or not probes:
        return (change,)
    results = [_Seen.of(probe) for probe in probes]
    different = [seen for seen in results if seen.probe.outcome is ProbeOutcome.DIFFERENT]
    gaps = sorted({_gap(seen.probe) for seen in results if seen.probe.outcome is ProbeOutcome.GAP})
    # Two templates that refuse every probe are not shown to be the same.
    rendered_once = any(seen.probe.before is not None for seen in results)
    facts: dict[str, Json] = {
        **change.facts,
        "probes_equal": not different and not gaps and rendered_once,
        "probes_different": [seen.probe.probe for seen in different][:_LISTED],
        "probes_run": len(results),
    }
    if gaps:
        facts["probes_gap"] = gaps
    if not different:
        words = "no probe renders differently" if rendered_once and not gaps else "probes could not tell"
        return (replace(change, summary=f"{change.summary}; {words}", facts=facts),)
    if change.before is None or change.after is None:
        return (replace(change, facts=facts),)
    broken = [seen for seen in different if seen.breaks]
    rendered = [seen for seen in different if not seen.breaks]
    # Where more than white space moved, what moved white space alone does not decide.
    worded = [seen for seen in rendered if not _blank(*seen.texts)]
    cls, words = _kind(worded or rendered or broken, results)
    facts["first_difference"] = _first_difference(rendered or broken)
    primary = replace(change, cls=cls, summary=f"{change.summary}: {words}", facts=facts)
    return (primary, _contract(change, facts, broken)) if broken else (primary,)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A probe beside the conversation it was tried on."""

    probe: ProbeResult
    conversation: Conversation

    @classmethod
    def of(cls, probe: ProbeResult) -> _Seen:
        # A toggled probe is the plain user turn with a variable of the template's own.
        plain = BY_NAME["user"]
        return cls(
            probe=probe, conversation=plain if probe.probe.startswith(TOGGLE) else BY_NAME.get(probe.probe, plain)
        )

    @property
    def breaks(self) -> bool:
        """Whether what rendered before raises now."""
        return self.probe.before is not None and self.probe.after_error is not None

    @property
    def texts(self) -> tuple[str, str]:
        """Both prompts; an error stands as text of its own."""
        probe = self.probe
        return (
            probe.before if probe.before is not None else f"[{probe.before_error}]",
            probe.after if probe.after is not None else f"[{probe.after_error}]",
        )


def _gap(probe: ProbeResult) -> str:
    gap_words = {"time", "memory", "output", "died", "too_large", "skipped"}
    return next((word for word in (probe.after_error, probe.before_error) if word in gap_words), "gap")


def _kind(different: Sequence[_Seen], results: Sequence[_Seen]) -> tuple[str, str]:
    """The narrowest class that covers every differing probe, and what to say of it."""
    same = [seen for seen in results if seen.probe.outcome is ProbeOutcome.EQUAL]
    if _all(different, _blank):
        return "template.whitespace", "prompts differ in white space alone"
    if _all(different, lambda before, after: _DATE.sub("", before) == _DATE.sub("", after)):
        return "template.nondeterministic", "prompts differ in dates alone"
    if _is_generation_prompt(different, same):
        return "template.generation_prompt", "the generation prompt differs"
    if all(seen.conversation.uses_tools for seen in different) and any(
        not s.conversation.uses_tools for s in same
    ):
        return "template.tools", "prompts with tools differ"
    if _is_default_system(different, same):
        return "template.default_system", "the default system text differs"
    return PROVISIONAL, "prompts differ"


def _blank(before: str, after: str) -> bool:
    """Whether two texts differ in white space alone."""
    return "".join(before.split()) == "".join(after.split())


def _all(different: Sequence[_Seen], equal: Callable[[str, str], bool]) -> bool:
    return all(equal(*seen.texts) for seen in different)


def _is_generation_prompt(different: Sequence[_Seen], same: Sequence[_Seen]) -> bool:
    """Whether only open prompts differ, and only in how they end: their closed twins are equal."""
    closed = [seen for seen in same if not seen.conversation.generation and seen.probe.before is not None]
    if not closed or any(not seen.conversation.generation for seen in different):
        return False
    twins = {seen.conversation.twin: seen.probe for seen in closed}
    for seen in different:
        twin = twins.get(seen.probe.probe)
        if twin is not None and not _only_suffix(seen.texts, twin):
            return False
    return any(seen.probe.probe in twins for seen in different)


def _only_suffix(texts: tuple[str, str], twin: ProbeResult) -> bool:
    """Whether both open prompts begin with what the closed one says, white space at its end aside."""
    before, after = (twin.before or "").rstrip(), (twin.after or "").rstrip()
    return texts[0].startswith(before) and texts[1].startswith(after)


def _is_default_system(different: Sequence[_Seen], same: Sequence[_Seen]) -> bool:
    """Whether only callers without a system turn see a difference, and it is a text or a system turn."""
    given = [seen for seen in same if seen.conversation.has_system and seen.probe.before is not None]
    if not given or any(seen.conversation.has_system for seen in different):
        return False
    return all(any(_WORDS.search(part) for part in _middle(*seen.texts)) for seen in different)


def _middle(before: str, after: str) -> tuple[str, str]:
    """What is left of two texts without their common beginning and end."""
    start = _common(before, after)
    left, right = before[start:], after[start:]
    end = _common(left[::-1], right[::-1])
    return left[: len(left) - end], right[: len(right) - end]


def _common(left: str, right: str) -> int:
    """How many characters two texts share at the start."""
    low, high = 0, min(len(left), len(right))
    while low < high:  # halving, so that long prompts cost slices and not a loop a character
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _first_difference(different: Sequence[_Seen]) -> Mapping[str, Json]:
    """The shortest differing probe, cut down to where its two sides part."""
    seen = min(different, key=lambda item: (item.breaks, sum(map(len, item.texts))))
    before, after = seen.texts
    start = max(0, _common(before, after) - _LEAD)
    kind = "error" if seen.probe.before_error or seen.probe.after_error else "text"
    return {
        "probe": seen.probe.probe,
        "before": before[start : start + _SHOWN],
        "after": after[start : start + _SHOWN],
        "offset": start,
        "kind": kind,
    }


def _contract(change: Change, facts: Mapping[str, Json], broken: Sequence[_Seen]) -> Change:
    errors = sorted({seen.probe.after_error or "" for seen in broken})
    names = [seen.probe.probe for seen in broken][:_LISTED]
    return replace(
        change,
        cls="template.args_contract",
        summary=f"{change.summary}: input that rendered before now raises {errors[0][:120]}",
        facts={
            **facts,
            "probes_broken": names,
            "errors": errors[:10],
            "first_difference": _first_difference(broken),
        },
    )
