"""How every finder makes a reference: of what was named, and of what was given to pin it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from advisories.audit.model import Form, Place, Reading, Reference, is_sha
from advisories.audit.names import Spec

_OPEN = re.compile(r"\$[A-Za-z_0-9{(@*]|\{\{|\$\$")
_IN_ITSELF = frozenset({"hf://", "hf-hub:", "url"})


@dataclass(frozen=True, slots=True)
class Given:
    """What was given to pin a reference: a revision, the name it was given under, whether that is all there is.

    ``unsure``: a revision is given, or may be, that cannot be followed.
    """

    text: str | None = None
    name: str | None = None
    unsure: bool = False


NOTHING = Given()


def is_open(text: str) -> bool:
    """Whether a text has places that only its program fills: ``$NAME``, ``${{ ... }}``, ``{{ ... }}``."""
    return _OPEN.search(text) is not None


def reference(spec: Spec, given: Given, place: Place, via: str, form: Form = Form.PLAIN) -> Reference:
    """The reference of a repo as named; a revision in the name itself wins over one beside it."""
    own = spec.form in _IN_ITSELF
    revision = spec.revision or given.text or None
    unsure = given.unsure and not spec.revision
    if revision is not None and is_open(revision):
        revision, unsure = None, True
    lowered = revision.lower() if revision else None
    return Reference(
        repo=spec.repo,
        endpoint=spec.endpoint,
        revision=lowered if is_sha(lowered) else revision,
        place=place,
        via=str(spec.form) if own else via,
        unsure=unsure,
        form=form,
        pin_key=None if own else given.name,
    )


def moved(reading: Reading, lines: list[int]) -> Reading:
    """A reading of text put together from lines of a file, with the file's own line numbers."""

    def line_of(line: int) -> int:
        return lines[min(max(line, 1), len(lines)) - 1] if lines else 1

    return Reading(
        references=tuple(replace(item, place=Place(line=line_of(item.place.line))) for item in reading.references),
        gaps=tuple(replace(gap, line=line_of(gap.line)) if gap.line else gap for gap in reading.gaps),
    )
