"""Model references in ``.env`` files and the environment lines of service units."""

from __future__ import annotations

import re

from advisories.audit.find.shell import Script, expand
from advisories.audit.find.words import Token
from advisories.audit.model import Reading
from advisories.audit.names import Names

_LINE = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][\w.]*)\s*[=:]\s*(.*?)\s*$")
_UNIT = re.compile(r"^\s*(Environment|Exec[A-Za-z]+)\s*=\s*(.*)$")


def find(text: str, names: Names) -> Reading:
    """The references of a file of ``KEY=value`` lines."""
    script = Script(names, declares=True)
    for number, line in enumerate(text.split("\n"), 1):
        found = _LINE.match(line[:4000])
        if found is None or line.lstrip().startswith("#"):
            continue
        name, value = found.groups()
        quoted = value[:1] in {"'", '"'} and value[1:].find(value[0]) >= 0
        value = value[1 : value.index(value[0], 1)] if quoted else re.split(r"\s+#", value, maxsplit=1)[0]
        column = line.index(name) + 1
        used: list[str] = []
        value = expand(value, script.variables, used)
        script.assign(name, value, Token(line, number, column, len(line.rstrip()) + 1, tuple(used)))
        if " " in value:
            script.run(value, number, whole=False)
    return script.reading()


def find_unit(text: str, names: Names) -> Reading:
    """The references of a systemd unit: its commands and its environment."""
    script = Script(names)
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        first = number
        whole = [lines[number]]
        while whole[-1].endswith("\\") and number + 1 < len(lines):
            number += 1
            whole.append(lines[number])
        number += 1
        found = _UNIT.match(whole[0])
        if found is None:
            continue
        body = "\n".join([found.group(2).lstrip("-@:+!"), *whole[1:]])
        script.run(f"export {body}" if found.group(1) == "Environment" else body, first + 1, whole=False)
    return script.reading()
