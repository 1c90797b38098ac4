"""Chat templates: what a prompt is made of, compared by name, wherever the file is.

A text that differs is ``template.semantic`` until the probes say what the difference does to prompts
(`tracker.probe.judge`). Beside it stands what can be read off the template alone: a move, code that
reaches out, hidden characters, dates, inputs. Facets:

* ``template:<name>`` the text; ``template:at:<name>`` its place; ``template:variables:<name>`` its inputs;
* ``template:<danger>:<name>`` whether there is any reason for the danger (unsafe, hidden, nondeterministic,
  unparsable), so that a finding holds until the template is safe again, whatever else is edited;
* ``template:<danger>=<digest>:<name>`` whether there is this one reason, for one that joins others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from jinja2 import nodes

from storage.model import Change, Json, Snapshot, digest
from tracker.diff.documents import unread
from tracker.diff.template_ast import Inputs, Unexamined, Unparsable, inputs, parse, texts, walk
from tracker.diff.template_hidden import hidden
from tracker.diff.template_unsafe import unsafe
from tracker.diff.values import capped, examples, short
from tracker.snapshot.template import MAX_TEXT, Template, locations, templates

TEXT = "text"
MAX_REASONS = 1_000  # kept of one danger of one template
_DATE = re.compile(
    r"\b\d{4}-\d\d-\d\d\b|\b\d{1,2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* \d{4}\b"
    r"|\b(?:January|February|March|April|May|June|July|August|September|October|November|December)"
    r" (?:\d{1,2}, )?\d{4}\b"
)


@lru_cache(maxsize=64)
def _read(text: str) -> Mapping[str, Json]:
    """Every aspect of a template's text; an aspect with nothing in it is None."""
    found: dict[str, Json] = {"hidden": _listed(hidden(text))}
    try:
        tree = parse(text)
        taken = inputs(tree)
        dangers = unsafe(tree)
    except Unexamined as error:
        # Padding must not hide what a smaller template would be warned of.
        return {**found, "unparsable": str(error), "unsafe": [f"cannot be examined: {error}"]}
    except Unparsable as error:
        return {**found, "unparsable": str(error)}
    return {
        **found,
        "unsafe": _listed(dangers),
        "nondeterministic": _listed(_changing(tree, taken)),
        "variables": {"variables": list(taken.variables), "fields": list(taken.fields)},
    }


def _listed(reasons: Iterable[str]) -> list[str] | None:
    """The reasons, if any: at most `MAX_REASONS`, and how many more there are."""
    every = list(reasons)
    more = len(every) - MAX_REASONS
    return [*every[:MAX_REASONS], *([f"{more} more"] if more > 0 else [])] or None


def _changing(tree: nodes.Template, taken: Inputs) -> Iterator[str]:
    """What makes two equal conversations give two prompts on two days, and dates written into the text."""
    yield from (f"calls {name}" for name in ("strftime_now", "datetime") if name in taken.variables)
    for node in walk(tree):
        match node:
            case nodes.Filter(name="random"):
                yield "filter random"
            case nodes.Call(node=nodes.Name(name="lipsum")):
                yield "calls lipsum"
            case _:
                pass
    dates = {date for text in texts(tree) for date in _DATE.findall(text)}
    yield from (f"date {date}" for date in sorted(dates))


def aspect(text: str, name: str) -> Json:
    """One aspect of a template's text: hidden, unsafe, nondeterministic, variables or unparsable; or None."""
    return _read(text).get(name)


_UNEXAMINED = f"it comes after the {MAX_TEXT} characters of templates that are examined in one revision"


def _aspect(template: Template, name: str) -> Json:
    if template.examined:
        return aspect(template.text, name)
    return {"unparsable": _UNEXAMINED, "unsafe": [f"cannot be examined: {_UNEXAMINED}"]}.get(name)


def free_variables(*sources: str | None) -> tuple[str, ...]:
    """The variables that any of these templates takes from its caller, sorted: what probes try on and off."""
    found: set[str] = set()
    for text in sources:
        if text is not None:
            found.update((aspect(text, "variables") or {}).get("variables", ()))
    return tuple(sorted(found))


_REASONED = frozenset({"hidden", "unsafe", "nondeterministic", "unparsable"})
_ASPECTS = _REASONED | {TEXT, "at", "variables"}
_REASON_DIGITS = 12
MAX_JOINED = 20  # reasons with a finding of their own in one revision


def facet_of(name: str, part: str = TEXT) -> str:
    """The facet of a template's text, of one aspect, or of one reason (``unsafe=<digest>``)."""
    if part == TEXT and not _is_part(name.partition(":")[0]):
        return f"template:{name}"
    return f"template:{part}:{name}"


def _is_part(text: str) -> bool:
    return text.partition("=")[0] in _ASPECTS


def _parts(facet: str) -> tuple[str, str]:
    """The aspect and the template's name that a facet means."""
    rest = facet.removeprefix("template:")
    part, colon, name = rest.partition(":")
    return (part, name) if colon and _is_part(part) else (TEXT, rest)


def _value(template: Template | None, part: str) -> Json:
    """What a facet watches; of a danger, True where there is a reason for it."""
    if template is None:
        return None
    if part == TEXT:
        return template.text
    if part == "at":
        return [template.path, template.pointer]
    danger, equals, reason = part.partition("=")
    if danger not in _REASONED:
        return _aspect(template, part)
    reasons = _reasons(template, danger)
    there = any(_reason_id(item) == reason for item in reasons) if equals else bool(reasons)
    return True if there else None


def _reasons(template: Template | None, danger: str) -> list[str]:
    """The reasons for a danger, in words; of an unparsable template, why."""
    found = _aspect(template, danger) if template else None
    return [str(item) for item in found] if isinstance(found, list) else [str(found)] if found else []


def _reason_id(reason: str) -> str:
    return digest(reason)[:_REASON_DIGITS]


def _digest(value: Json) -> str | None:
    return None if value is None else digest(value)


class TemplateDiffer:
    """Compares the chat templates that take effect."""

    name = "template"

    def diff(self, before: Snapshot, after: Snapshot) -> Iterable[Change]:
        """What is different, by template name."""
        old, new = templates(before), templates(after)
        for name in sorted({*old, *new}):
            yield from self._template(name, old.get(name), new.get(name), before, after)

    def standing(self, snapshot: Snapshot) -> Iterable[Change]:
        """Templates that reach out, that hide characters, that cannot be read."""
        for name, template in sorted(templates(snapshot).items()):
            yield from _dangers(name, None, template)

    def observe(self, snapshot: Snapshot, facet: str) -> str | None:
        """The digest of a template's text or aspect."""
        part, name = _parts(facet)
        return _digest(_value(templates(snapshot).get(name), part))

    def _template(
        self, name: str, old: Template | None, new: Template | None, before: Snapshot, after: Snapshot
    ) -> Iterator[Change]:
        if old is not None and new is not None and old.text == new.text:
            moved = (old.path, old.pointer) != (new.path, new.pointer)
            kept = any(
                (item.path, item.pointer, item.text) == (old.path, old.pointer, old.text)
                for item in locations(after)
            )
            if moved and not kept:
                yield _moved(name, old, new)
            return
        if old is None and new is not None and unread(before, new.path):
            return
        if new is None and old is not None and unread(after, old.path):
            return
        yield _text_change(name, old, new)
        if new is not None:
            yield from _dangers(name, old, new)
            yield from _inputs_change(name, old, new)


def _moved(name: str, old: Template, new: Template) -> Change:
    return Change(
        cls="template.moved",
        path=new.path,
        pointer=new.pointer,
        summary=f"template {short(name)} moved from {_place(old)} to {_place(new)}",
        before=_place(old),
        after=_place(new),
        facet=facet_of(name, "at"),
        before_digest=_digest(_value(old, "at")),
        after_digest=_digest(_value(new, "at")),
        facts={"template": name, "from": old.path, "to": new.path, "paths": sorted({old.path, new.path})},
    )


def _text_change(name: str, old: Template | None, new: Template | None) -> Change:
    shown = new or old
    assert shown is not None  # noqa: S101 - a name comes from one of the two
    what = "changed" if old and new else "added" if new else "removed"
    facts: dict[str, Json] = {
        "template": name,
        "what": what,
        "characters": [len(old.text) if old else None, len(new.text) if new else None],
    }
    if old and new and old.path != new.path:
        facts |= {"moved": {"from": old.path, "to": new.path}, "paths": sorted({old.path, new.path})}
    return Change(
        cls="template.semantic",
        path=shown.path,
        pointer=shown.pointer,
        summary=f"template {short(name)} {what}",
        before=capped(old.text) if old else None,
        after=capped(new.text) if new else None,
        facet=facet_of(name),
        before_digest=_digest(old.text) if old else None,
        after_digest=_digest(new.text) if new else None,
        facts=facts,
    )


_DANGERS: tuple[tuple[str, str, str], ...] = (
    ("unsafe", "template.unsafe", "is unsafe"),
    ("hidden", "template.hidden_chars", "holds hidden characters"),
    ("unparsable", "document.unreadable", "cannot be parsed"),
)


def _dangers(name: str, old: Template | None, new: Template) -> Iterator[Change]:
    """Findings about the new text that were not there before: the first reason, or each that joins others."""
    kinds = (
        _DANGERS
        if old is None
        else (*_DANGERS, ("nondeterministic", "template.nondeterministic", "depends on the date"))
    )
    for danger, cls, says in kinds:
        was, now = _reasons(old, danger), _reasons(new, danger)
        known = set(was)
        gained = [reason for reason in now if reason not in known]
        if gained and not was:
            yield _danger(cls, says, name, danger, (old, new), now, gained)
        elif danger != "unparsable":
            for reason in gained[:MAX_JOINED]:
                part = f"{danger}={_reason_id(reason)}"
                yield _danger(cls, says, name, part, (old, new), now, [reason])


def _danger(
    cls: str,
    says: str,
    name: str,
    part: str,
    sides: tuple[Template | None, Template],
    reasons: list[str],
    gained: list[str],
) -> Change:
    old, new = sides
    danger = part.partition("=")[0]
    was = _reasons(old, danger)
    return Change(
        cls=cls,
        path=new.path,
        pointer=new.pointer,
        summary=f"template {short(name)} {says}: {short('; '.join(gained), limit=160)}",
        before=capped(was) if was else None,
        after=capped(reasons),
        facet=facet_of(name, part),
        before_digest=_digest(_value(old, part)),
        after_digest=_digest(_value(new, part)),
        facts={"template": name, "reasons": examples(reasons), "new": examples(gained)},
    )


def _inputs_change(name: str, old: Template | None, new: Template) -> Iterator[Change]:
    """Variables and optional message fields that appear or disappear."""
    was, now = _value(old, "variables"), _value(new, "variables")
    if was is None or now is None or was == now:
        return
    facts: dict[str, Json] = {"template": name}
    words = []
    for kind in ("variables", "fields"):
        added = sorted(set(now[kind]) - set(was[kind]))
        removed = sorted(set(was[kind]) - set(now[kind]))
        facts |= {f"{kind}_added": examples(added), f"{kind}_removed": examples(removed)}
        words += [f"+{item}" for item in added] + [f"-{item}" for item in removed]
    yield Change(
        cls="template.variables",
        path=new.path,
        pointer=new.pointer,
        summary=f"template {short(name)} takes other inputs: {short(' '.join(words), limit=120)}",
        before=capped(was),
        after=capped(now),
        facet=facet_of(name, "variables"),
        before_digest=_digest(was),
        after_digest=_digest(now),
        facts=facts,
    )


def _place(template: Template) -> str:
    return template.path if template.pointer is None else f"{template.path}#{template.pointer}"


DIFFER = TemplateDiffer()
