"""What a Python source does, as far as its syntax tree shows: imports, calls that matter, signatures.

Nothing is imported or run. A source that cannot be parsed answers with None and is judged as unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from storage.model import digest
from tracker.snapshot.code import parse_source

MAX_ITEMS: Final = 2_000  # calls, imports or signatures looked at in one file
# The groups that make a new call grave.
DANGEROUS: Final = frozenset({"exec", "subprocess", "network", "file_write"})

_EXACT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("eval", "exec", "compile", "__import__", "execfile"), "exec"),
    **dict.fromkeys(("importlib.import_module", "runpy.run_path", "runpy.run_module", "code.interact"), "exec"),
    **dict.fromkeys(("ctypes.CDLL", "ctypes.cdll.LoadLibrary", "ctypes.PyDLL", "cffi.FFI"), "exec"),
    **dict.fromkeys(("torch.ops.load_library", "torch.utils.cpp_extension.load"), "exec"),
    **dict.fromkeys(("pickle.load", "pickle.loads", "marshal.load", "marshal.loads", "dill.load"), "exec"),
    **dict.fromkeys(("dill.loads", "cloudpickle.load", "cloudpickle.loads", "jsonpickle.decode"), "exec"),
    **dict.fromkeys(("os.system", "os.popen", "os.fork", "os.forkpty", "pty.spawn", "os.startfile"), "subprocess"),
    **dict.fromkeys(("asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell"), "subprocess"),
    **dict.fromkeys(("urllib.request.urlopen", "urllib.request.urlretrieve", "torch.hub.load"), "network"),
    **dict.fromkeys(("torch.hub.download_url_to_file", "torch.hub.load_state_dict_from_url"), "network"),
    **dict.fromkeys(("os.remove", "os.unlink", "os.rename", "os.replace", "os.rmdir", "os.chmod"), "file_write"),
    **dict.fromkeys(("os.symlink", "os.link", "os.truncate", "os.write", "os.removedirs"), "file_write"),
    **dict.fromkeys(("torch.save", "numpy.save", "numpy.savez", "joblib.dump", "pickle.dump"), "file_write"),
    **dict.fromkeys(("torch.load", "joblib.load", "numpy.load", "yaml.load", "yaml.unsafe_load"), "deserialise"),
    **dict.fromkeys(("shelve.open", "pandas.read_pickle", "torch.jit.load"), "deserialise"),
}
_PREFIXES: Final[tuple[tuple[str, str], ...]] = (
    ("subprocess.", "subprocess"),
    ("os.exec", "subprocess"),
    ("os.spawn", "subprocess"),
    ("os.posix_spawn", "subprocess"),
    ("pexpect.", "subprocess"),
    ("requests.", "network"),
    ("httpx.", "network"),
    ("aiohttp.", "network"),
    ("socket.", "network"),
    ("urllib3.", "network"),
    ("http.client.", "network"),
    ("http.server.", "network"),
    ("ftplib.", "network"),
    ("smtplib.", "network"),
    ("telnetlib.", "network"),
    ("paramiko.", "network"),
    ("websocket.", "network"),
    ("websockets.", "network"),
    ("shutil.", "file_write"),
)
_METHODS: Final[Mapping[str, str]] = {"write_text": "file_write", "write_bytes": "file_write"}
_BUILTIN_HOMES: Final = ("builtins.", "__builtins__.", "__builtin__.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source, summed up. ``calls`` are (group, dotted name); ``signatures`` qualified name to text."""

    digest: str
    imports: frozenset[str]
    calls: frozenset[tuple[str, str]]
    signatures: Mapping[str, str]


@lru_cache(maxsize=128)
def summarise(text: str) -> Source | None:
    """The summary of a source; None where it cannot be parsed. Comments and layout do not count."""
    tree = parse_source(text)
    if tree is None:
        return None
    try:
        names = _imported_names(tree)
        return Source(
            digest=digest(ast.dump(tree)),
            imports=frozenset(names.values()),
            calls=frozenset(_calls(tree, names)),
            signatures=dict(_signatures(tree, "")),
        )
    except (RecursionError, MemoryError, ValueError):
        return None


def source_digest(text: str) -> str:
    """Equal for sources with the same syntax tree; of the bare text where there is none."""
    found = summarise(text)
    return found.digest if found else digest(text)


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """Local name to dotted name, over all imports at any depth."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if len(names) >= MAX_ITEMS:
            break
        if isinstance(node, ast.Import):
            for alias in node.names:
                local = alias.asname or alias.name.partition(".")[0]
                names[local] = alias.name if alias.asname else local
                if not alias.asname and "." in alias.name:
                    names[alias.name] = alias.name
        elif isinstance(node, ast.ImportFrom):
            home = "." * node.level + (node.module or "")
            for alias in node.names:
                names[alias.asname or alias.name] = (
                    f"{home}.{alias.name}" if node.module else f"{home}{alias.name}"
                )
    return names


def _calls(tree: ast.Module, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    count = 0
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        found = _classify(node, names)
        if found:
            yield found
            count += 1
            if count >= MAX_ITEMS:
                return


def _classify(node: ast.Call, names: Mapping[str, str]) -> tuple[str, str] | None:
    dotted = _dotted(node.func, names)
    if dotted is None:
        return None
    for home in _BUILTIN_HOMES:
        dotted = dotted.removeprefix(home)
    if dotted in ("open", "io.open", "codecs.open", "gzip.open") or dotted.endswith(".open"):
        return ("file_write", f"{dotted} for writing") if _writes(node) else None
    if dotted == "getattr" and node.args and isinstance(node.args[0], ast.Name):
        home = names.get(node.args[0].id, node.args[0].id)
        return ("exec", f"getattr({home})") if home in ("builtins", "__builtins__", "os", "subprocess") else None
    if dotted in _EXACT:
        return _EXACT[dotted], dotted
    for prefix, group in _PREFIXES:
        if dotted.startswith(prefix):
            return group, dotted
    method = dotted.rpartition(".")[2]
    return (_METHODS[method], f".{method}") if method in _METHODS else None


def _dotted(node: ast.expr, names: Mapping[str, str]) -> str | None:
    """The dotted name a callee stands for, its first part resolved through the imports."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(names.get(node.id, node.id))
    elif parts:
        parts.append("")  # a method of an expression
    else:
        return None
    name = ".".join(reversed(parts))
    return name.replace("np.", "numpy.", 1) if name.startswith("np.") else name


def _writes(node: ast.Call) -> bool:
    """Whether an open call writes: its mode says so, or cannot be known."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    place = 0 if name == "open" and not isinstance(getattr(node.func, "value", None), ast.Name) else 1
    mode = next((item.value for item in node.keywords if item.arg == "mode"), None)
    if mode is None:
        if len(node.args) <= place:
            return False
        mode = node.args[place]
    if isinstance(mode, ast.Constant):
        return isinstance(mode.value, str) and bool(set(mode.value) & set("wax+"))
    return isinstance(mode, ast.Name | ast.JoinedStr | ast.BinOp)


def _signatures(tree: ast.AST, prefix: str) -> Iterator[tuple[str, str]]:
    """Qualified name and arguments of functions and methods, two levels of nesting deep."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", ast.unparse(node.args)
        elif isinstance(node, ast.ClassDef) and prefix.count(".") < 2:
            yield from _signatures(node, f"{prefix}{node.name}.")
