"""Upstream text made safe to show: on a line, in Markdown, in XML, in JSON.

Everything in a repo is hostile. Nothing here changes what is stored; it decides what a reader gets to see.
"""

from __future__ import annotations

import re
import unicodedata

# Characters that show nothing, turn the writing direction, or drive a terminal.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|<>~&@$^])")
_SCHEME = re.compile(r"(?<=[A-Za-z])://|(?i:\bwww\.)")
_BACKTICKS = re.compile(r"`+")


def visible(text: str, *, keep: str = "") -> str:
    r"""Show every invisible character as ``\u{...}``, but for those in ``keep``."""
    shown = text
    for char in keep:
        shown = shown.replace(char, "")
    if shown.isprintable():  # nearly always: nothing in it is hidden
        return text
    return "".join(
        char if char in keep or unicodedata.category(char) not in _HIDDEN else f"\\u{{{ord(char):04x}}}"
        for char in text
    )


def one_line(text: str, limit: int) -> str:
    """One line of visible text, white space folded, at most ``limit`` characters."""
    # what will be cut off is not worth folding; each character shown takes at least one of the source
    folded = visible(" ".join(text[: limit * 4 + 64].split()))
    return folded if len(folded) <= limit else folded[: limit - 1].rstrip() + "…"


def markdown(text: str, limit: int = 300) -> str:
    """One line of text that Markdown shows as it is: no markup, no HTML, no link, no mention."""
    escaped = _MARKDOWN.sub(r"\\\1", one_line(text, limit))
    return _SCHEME.sub(lambda found: found.group().replace(":", "\\:").replace(".", "\\."), escaped)


def code_span(text: str, limit: int = 200) -> str:
    """One line of text as a Markdown code span, with a fence longer than any inside."""
    line = one_line(text, limit)
    fence = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def code_block(text: str, limit: int = 1000, language: str = "") -> str:
    """Text as a fenced Markdown block, with a fence longer than any inside; line breaks and tabs are kept."""
    shown = visible(text[:limit].replace("\r\n", "\n"), keep="\n\t")
    if len(text) > limit:
        shown += "…"
    fence = "`" * max(3, _longest_run(shown) + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def xml_text(text: str) -> str:
    """Text that XML 1.0 can hold: control characters, surrogates and non-characters are made visible."""
    return visible(text, keep="\n\t")


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)
