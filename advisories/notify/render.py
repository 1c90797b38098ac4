"""A message for people: a title and Markdown that says the same, with nothing of a repo's own markup. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from advisories.notify.compose import Net
from advisories.text import markdown, one_line

_LINES = 40
_LONGEST = 3500  # characters; chats cut longer messages, and cut them anywhere
_WORDS = {
    Net.OPENED: "opened",
    Net.CLOSED: "closed",
    Net.UNDONE: "undone meanwhile",
    Net.UNCHANGED: "closed and opened again",
}
_HOW = {"fixed": "restored", "superseded": "changed again", "reintroduced": "back again", "withdrawn": "ended"}


def title_of(body: Mapping[str, Any]) -> str:
    """One line of plain text."""
    return _harmless(one_line(str(body["data"]["title"]), 200))


def text_of(body: Mapping[str, Any]) -> str:
    """The message in Markdown, cut at a line's end where it is long."""
    lines = list(_lines(body))
    shown: list[str] = []
    room = _LONGEST
    for line in lines[:_LINES]:
        room -= len(line) + 1
        if room < 0:
            break
        shown.append(line)
    left = len(lines) - len(shown)
    return "\n".join([*shown, f"and {left} more lines"] if left else shown) or "This is a test: nothing happened."


def _lines(body: Mapping[str, Any]) -> Iterator[str]:
    for repo in body["data"]["repos"]:
        yield f"**{_shown(repo['repo'])}** {repo['url']}"
        if repo["new"]:
            yield "- a new repo of a watched owner"
        for net in Net:
            for entry in repo[net]:
                how = _HOW.get(entry["how"])
                told = _WORDS[net] + (f" ({how})" if how else "")
                about = _shown(entry["summary"] or str(entry["class"]))
                yield f"- {told}, {entry['severity']}: {about} [{entry['id']}]"


def _shown(text: str) -> str:
    return _harmless(markdown(text, 250))


def _harmless(text: str) -> str:
    """No mention works across a zero-width space, in chats that look for mentions before they read Markdown."""
    return text.replace("@", "@\u200b")
