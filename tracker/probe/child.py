"""The sandboxed process that renders chat templates or loads tokenizers. Run as a script, never imported.

    python -I child.py templates|tokenizers

It reads requests from standard input and answers on standard output: four bytes of length (big
endian), then JSON in ASCII. It imports jinja2 (or tokenizers) and the standard library alone, takes its
limits upon itself before the first request, and from then on an audit hook refuses files, sockets,
processes and foreign code. Whoever started it keeps the wall clock.

A request for a template is ``{"template": text, "variables": {...}, "clock": "2025-01-01T12:00:00"}``, its
answer ``{"text": ...}``; one for a tokenizer ``{"tokenizer": text, "texts": [...]}``, its answer
``{"plain": [[ids, tokens], ...], "special": [...]}``. Either may be ``{"error": ...}`` (the thing's own failure:
a result) or ``{"gap": word}``.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import struct
import sys
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

ADDRESS_SPACE = 1 << 30  # bytes
TOKENIZER_SPACE = 3 << 30  # bytes: a vocabulary of 256k tokens with its merges takes some 400 MB
CPU_SECONDS = 6  # per request; the starter's wall clock is 5
MAX_OUTPUT = 1 << 20  # characters of one rendered prompt
MAX_REQUEST = 256 << 20  # bytes
MAX_ERROR = 500  # characters of one error
CACHED_TEMPLATES = 8
MAX_IDS = 200_000  # of all texts together
_REFUSED = ("open", "socket.", "subprocess.", "os.", "shutil.", "ctypes.", "import", "pty.", "webbrowser.")
# What running a template can raise. Anything else ends the process, which its starter sees as a gap.
_TEMPLATE_FAILURES = (
    jinja2.TemplateError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    StopIteration,
    SyntaxError,
    TypeError,
    ValueError,
)


class _Generation(Extension):
    """``{% generation %}`` marks the assistant's tokens for training; a prompt shows its body as it is."""

    tags = {"generation"}  # noqa: RUF012 - the name jinja2 gives it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the body in place of the block."""
        next(parser.stream)
        return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))


def _raise_exception(message: object) -> None:
    raise jinja2.TemplateError(str(message))


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as chat templates expect it: no HTML escapes, other scripts as they are."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment() -> ImmutableSandboxedEnvironment:
    """Return the environment in which model libraries render chat templates."""
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols], cache_size=0
    )
    env.filters["tojson"] = _tojson
    env.globals["raise_exception"] = _raise_exception
    return env


class Renderer:
    """Renders requests; compiled templates are kept, for one template is rendered many times in a row."""

    def __init__(self) -> None:
        self._env = environment()
        self._compiled: OrderedDict[str, jinja2.Template] = OrderedDict()
        self._clock = datetime(2025, 1, 1)  # noqa: DTZ001 - templates see local time without a zone
        self._env.globals["strftime_now"] = self._now

    def _now(self, form: str) -> str:
        return self._clock.strftime(form)

    def answer(self, request: Mapping[str, Any]) -> dict[str, str]:
        """Render one request. Whatever the template does comes back as text, error or gap."""
        try:
            self._clock = datetime.fromisoformat(request["clock"])
            return self._render(self._template(request["template"]), request["variables"])
        except MemoryError:
            return {"gap": "memory"}
        except RecursionError:
            return {"error": "RecursionError: the template nests too deeply"}
        except _TEMPLATE_FAILURES as error:
            return {"error": f"{type(error).__name__}: {error}"[:MAX_ERROR]}

    def _template(self, source: str) -> jinja2.Template:
        template = self._compiled.get(source)
        if template is None:
            template = self._env.from_string(source)
            self._compiled[source] = template
            if len(self._compiled) > CACHED_TEMPLATES:
                self._compiled.popitem(last=False)
        return template

    @staticmethod
    def _render(template: jinja2.Template, variables: Mapping[str, Any]) -> dict[str, str]:
        parts: list[str] = []
        size = 0
        for part in template.generate(**variables):
            parts.append(part)
            size += len(part)
            if size > MAX_OUTPUT:
                return {"gap": "output"}
        return {"text": "".join(parts)}


class Encoder:
    """Loads a tokenizer and encodes texts with it, without and with the special tokens it puts around them."""

    def __init__(self) -> None:
        # A pool of threads would count as processes, of which none are allowed.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        self._load = importlib.import_module("tokenizers").Tokenizer.from_str

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Encode one request. Whatever the tokenizer does comes back as ids, error or gap."""
        try:
            tokenizer = self._load(request["tokenizer"])
            found: dict[str, Any] = {"plain": [], "special": []}
            count = 0
            for text in request["texts"]:
                for key, encodings in found.items():
                    encoding = tokenizer.encode(text, add_special_tokens=key == "special")
                    count += len(encoding.ids)
                    if count > MAX_IDS:
                        return {"gap": "output"}
                    encodings.append([encoding.ids, encoding.tokens])
        except MemoryError:
            return {"gap": "memory"}
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a panic of the library derives from nothing narrower
            return {"error": f"{type(error).__name__}: {error}"[:MAX_ERROR]}
        return found


def _refuse(event: str, _args: tuple[object, ...]) -> None:
    if event.startswith(_REFUSED):
        raise PermissionError(f"{event.partition('.')[0]} is refused here")


def confine(address_space: int) -> None:
    """Take every limit upon this process, for good."""
    for name, amount in (
        (resource.RLIMIT_AS, address_space),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 16),
    ):
        # macOS knows RLIMIT_AS and refuses to set it; the other limits and the wall clock remain.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(name, (amount, amount))
    if hasattr(resource, "RLIMIT_NPROC"):
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    sys.addaudithook(_refuse)


def load_what_is_lazy() -> None:
    """Bring in the modules that jinja2 and strftime import on first use, before files are refused."""
    warm = Renderer()
    for source in ("{{ strftime_now('%c') }}", "{{ raise_exception('x') }}", "{{ 1 + '' }}", "{{ x.y.z }}"):
        warm.answer({"template": source, "variables": {}, "clock": "2025-01-01T00:00:00"})
    for name in ("encodings.idna", "pprint", "random", "textwrap", "urllib.parse"):
        importlib.import_module(name)


def _allow_cpu() -> None:
    """Grant this request its seconds of CPU; past them the kernel ends the process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(usage.ru_utime + usage.ru_stime) + CPU_SECONDS
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))


def _read(size: int) -> bytes:
    """Read exactly ``size`` bytes, or none at the end of input."""
    data = bytearray()
    while len(data) < size:
        part = os.read(0, min(size - len(data), 1 << 16))
        if not part:
            return b""
        data += part
    return bytes(data)


def _write(answer: Mapping[str, Any]) -> None:
    body = json.dumps(answer).encode("ascii")
    data = memoryview(struct.pack(">I", len(body)) + body)
    while data:
        data = data[os.write(1, data) :]


def serve(worker: Renderer | Encoder) -> None:
    """Answer requests until the input ends. After trouble with memory it leaves, to be started afresh."""
    _write({"ready": type(worker).__name__})
    while header := _read(4):
        (size,) = struct.unpack(">I", header)
        if size > MAX_REQUEST:
            return
        _allow_cpu()
        answer = worker.answer(json.loads(_read(size)))
        try:
            _write(answer)
        except MemoryError:
            _write({"gap": "memory"})
            return
        if answer.get("gap") == "memory":
            return


def main(kind: str) -> None:
    """Become a renderer of templates or an encoder of texts, and serve."""
    worker = Renderer() if kind == "templates" else Encoder()
    load_what_is_lazy()
    confine(ADDRESS_SPACE if kind == "templates" else TOKENIZER_SPACE)
    serve(worker)


if __name__ == "__main__":
    main(sys.argv[1])
