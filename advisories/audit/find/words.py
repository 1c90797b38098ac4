"""The words of a command, and the reference that one of them makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from advisories.audit.find.making import Given, reference
from advisories.audit.model import Place, Reference
from advisories.audit.names import Spec


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a command, unquoted and with known variables put in; ``used`` names these variables."""

    text: str
    line: int
    column: int | None = None
    end_column: int | None = None
    used: tuple[str, ...] = ()

    @property
    def place(self) -> Place:
        """Where it stands."""
        return Place(line=self.line, column=self.column, end_column=self.end_column)


def flag_value(words: Sequence[str], *flags: str) -> str | None:
    """The value of the first of these flags: ``--flag value`` or ``--flag=value``."""
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in flags:
            if equals:
                return value
            return words[place + 1] if place + 1 < len(words) else None
    return None


def made(spec: Spec, given: Given, token: Token, via: str) -> tuple[Reference, tuple[str, ...]]:
    """The reference of a word, with the variables that it came from."""
    return reference(spec, given, token.place, via), token.used
