"""Model references in notebooks: all code cells as one program, lines as they stand in the file."""

from __future__ import annotations

import re

from advisories.audit.find import python, shell
from advisories.audit.find.making import moved
from advisories.audit.find.tree_nodes import Mapping, Scalar, Sequence, read_json
from advisories.audit.model import Gap, Reading, Reference, Unreadable
from advisories.audit.names import Names

_MAGIC = re.compile(r"^(\s*)(?:[%?]|[\w.]+\s*=\s*[!%]).*$")
_SHELL_LINE = re.compile(r"^(\s*)(?:[\w.]+\s*=\s*)?!(.*)$")
_SHELL_CELL = re.compile(r"%%(?:bash|sh|script|!)\b.*|%%!")
_PYTHON_CELL = re.compile(r"%%(?:time|timeit|capture|prun|python3?)\b.*")


def find(text: str, names: Names) -> Reading:
    """The references of a notebook; a cell that is not Python is a gap. Raises Unreadable."""
    root = read_json(text)
    cells = root.get("cells") if isinstance(root, Mapping) else None
    if not isinstance(cells, Sequence):
        raise Unreadable("parse_error", "a notebook without cells")
    lines: list[str] = []
    places: list[int] = []
    found: list[Reference] = []
    gaps: list[Gap] = []
    for cell in cells.items:
        if not isinstance(cell, Mapping) or cell.text("cell_type") != "code":
            continue
        source, numbers = _source(cell)
        if source and _SHELL_CELL.fullmatch(source[0].strip()):
            reading = moved(shell.find("\n".join(["", *source[1:]]), names), numbers)
            found += reading.references
            gaps += reading.gaps
            continue
        program, commands = _sanitized(source)
        reading = moved(shell.find("\n".join(commands), names), numbers)
        found += reading.references
        gaps += reading.gaps
        try:
            python.parse("\n".join(program))
        except Unreadable as error:
            gaps.append(Gap(reason=error.reason, detail=error.detail, line=numbers[0] if numbers else cell.line))
            continue
        lines += program
        places += numbers
    whole = moved(python.find("\n".join(lines), names), places)
    listed = sorted(dict.fromkeys([*whole.references, *found]), key=lambda item: item.line)
    return Reading(references=tuple(listed), gaps=(*whole.gaps, *gaps))


def _source(cell: Mapping) -> tuple[list[str], list[int]]:
    """A cell's lines, and the line of the file that each stands in."""
    source = cell.get("source")
    pieces = source.items if isinstance(source, Sequence) else [source]
    lines: list[str] = []
    numbers: list[int] = []
    joined = False
    for piece in pieces:
        if not isinstance(piece, Scalar):
            continue
        parts = piece.text.replace("\r\n", "\n").split("\n")
        for place, part in enumerate(parts):
            if joined and place == 0:
                lines[-1] += part
            else:
                lines.append(part)
                numbers.append(piece.line)
        joined = True
        if parts[-1] == "" and len(parts) > 1:
            lines.pop()
            numbers.pop()
            joined = False
    return lines, numbers


def _sanitized(source: list[str]) -> tuple[list[str], list[str]]:
    """The cell as Python, magics left out, and its shell lines; both keep their line numbers."""
    if source and source[0].lstrip().startswith("%%"):
        keep = _PYTHON_CELL.fullmatch(source[0].strip())
        source = ["", *source[1:]] if keep else [""] * len(source)
    program: list[str] = []
    commands: list[str] = []
    continued = False
    for line in source:
        command = _SHELL_LINE.match(line)
        if command or continued:
            commands.append(command.group(2) if command else line)
            program.append(f"{command.group(1)}pass" if command else "")
            continued = line.rstrip().endswith("\\")
            continue
        magic = _MAGIC.match(line)
        program.append(f"{magic.group(1)}pass" if magic else line)
        commands.append("")
    return program, commands
