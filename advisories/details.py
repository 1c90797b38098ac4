"""An advisory in Markdown: what changed, what that does, what to do. Pure; upstream text is escaped or fenced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from advisories.advice import advice
from advisories.rules.registry import rule_of
from advisories.text import code_block, code_span, markdown
from advisories.view import HEAD, capped
from storage.model import Advisory, Change, Json, Span, TrackedFinding, canonical_json

_SHOWN = 20  # changes listed
_VALUES = 5  # changes whose values are shown
_CARDS = 40  # uses of cards gained, and lost
_PROBES = 3  # probes whose prompts are shown
_ENDED = {"restored": "restored since", "superseded": "changed again since"}


def details(advisory: Advisory) -> str:
    """The text of an advisory's document."""
    rule = rule_of(advisory.cls)
    sections = (
        ("", [f"{rule.title[:1].upper()}{rule.title[1:]}. {rule.effect}"]),
        ("What changed", _changes(advisory.findings)),
        ("What it does", _probes(advisory.context.get("probes"))),
        ("What it costs", _estimate(advisory.context.get("estimate"))),
        ("What to do", [advice(advisory)]),
        ("Why this severity", [f"{advisory.severity.osv}: {markdown(advisory.reason, 500)}."]),
        ("Where it stands", _standing(advisory)),
    )
    blocks: list[str] = []
    for title, body in sections:
        lines = list(body)
        if lines:
            blocks += [f"### {title}", *lines] if title else lines
    return "\n\n".join(blocks) + "\n"


def _changes(findings: tuple[TrackedFinding, ...]) -> Iterator[str]:
    for index, item in enumerate(findings[:_SHOWN]):
        change = item.finding.change
        where = code_span(change.path) if change.path else "The repo"
        if change.pointer:
            where += f" at {code_span(change.pointer)}"
        ended = "" if item.holds else f" ({_ENDED.get(item.ended_by or '', 'no longer so')})"
        yield f"{where}: {markdown(change.summary)}{ended}"
        if index < _VALUES:
            yield from _values(change)
    if len(findings) > _SHOWN:
        yield f"And {len(findings) - _SHOWN} more."


def _values(change: Change) -> Iterator[str]:
    for label, value in (("Before", change.before), ("After", change.after)):
        if value is not None:
            yield f"{label}:\n\n{_block(value)}"


def _block(value: Json) -> str:
    shown = capped(value)
    if isinstance(shown, str):
        return code_block(shown, HEAD)
    return code_block(canonical_json(shown), HEAD, "json")


def _probes(probes: Json) -> Iterator[str]:
    told = [probe for probe in probes if isinstance(probe, Mapping)] if isinstance(probes, list) else []
    different = [probe for probe in told if probe.get("outcome") == "different"]
    gaps = [probe for probe in told if probe.get("outcome") == "gap"]
    if different:
        yield f"{len(different)} of {len(told)} probes give something else: {_names(different)}."
    for probe in different[:_PROBES]:
        for label, key in (("Before", "before"), ("After", "after")):
            text = probe.get(key) if probe.get(key) is not None else probe.get(f"{key}_error")
            if text is not None:
                yield f"{label}, {markdown(str(probe.get('probe')), 80)}:\n\n{_block(text)}"
    if gaps:
        yield f"Could not be tried: {_names(gaps)}."
    if told and not different and not gaps:
        yield f"All {len(told)} probes give the same before and after."


def _names(probes: Iterable[Mapping[str, Json]]) -> str:
    return ", ".join(markdown(str(probe.get("probe")), 80) for probe in probes)


def _estimate(delta: Json) -> Iterator[str]:
    if not isinstance(delta, Mapping):
        return
    lines = [
        f"- {markdown(str(group), 40)}, {markdown(str(name), 60)}: {_moved(pair)}"
        for group, figures in delta.items()
        if isinstance(figures, Mapping)
        for name, pair in figures.items()
        if isinstance(pair, Mapping)
    ]
    for key, words in (("cards_lost", "no longer fits"), ("cards_gained", "now fits")):
        uses = delta.get(key)
        shown = uses[:_CARDS] if isinstance(uses, list) else []
        lines += [f"- {words} {markdown(str(use), 120)}" for use in shown]
    if lines:
        yield "\n".join(lines)


def _moved(pair: Mapping[str, Json]) -> str:
    return f"{_figure(pair.get('before'))} → {_figure(pair.get('after'))}"


def _figure(value: Json) -> str:
    return f"{value:,}" if isinstance(value, int | float) else "unknown"


def _standing(advisory: Advisory) -> Iterator[str]:
    lines = [_span(span) for span in advisory.spans]
    ended = advisory.context.get("ended_at")
    if not advisory.spans:
        lines.append(f"- a state of the repo{f', ended {markdown(str(ended), 40)}' if ended else ''}")
    if advisory.context.get("since_first"):
        lines.append("- there since the first model files")
    if advisory.superseded_by:
        lines.append(f"- the value changed again: see {code_span(advisory.superseded_by)}")
    if advisory.withdrawn and not ended:
        names = ", ".join(code_span(other) for other in advisory.related)
        lines.append(f"- withdrawn{f'; see {names}' if names else ''}")
    yield "\n".join(lines)


def _span(span: Span) -> str:
    begin = "since before the history that was read" if span.introduced == "0" else f"since `{span.introduced}`"
    if span.fixed:
        return f"- {begin}, until `{span.fixed}` restored the value"
    if span.last_affected:
        return f"- {begin}, up to and including `{span.last_affected}`"
    return f"- {begin}"
