"""The sandboxed process that builds a model class on torch's meta device and counts it. A script, never imported.

    python -I meta_child.py models

It speaks the protocol of ``child.py``: four bytes of length (big endian), then JSON. The meta device gives
tensors a shape and no memory, so a model of any size costs its module objects alone; those are counted, and a
config that asks for more than ``MAX_MODULES`` is refused. Only classes of the installed transformers are
built: what a config says of code of its own (``auto_map``) is dropped before anything reads it.

Ready: ``{"ready": ..., "transformers": version}``. A request is ``{"config": {...}, "rank": 16}``, its answer
``{"class": ..., "known": bool, "total": ..., ...}`` (see `count`), ``{"error": sentence}`` or ``{"gap": word}``.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import resource
import struct
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

sys.dont_write_bytecode = True

import torch  # noqa: E402
import transformers  # noqa: E402
from torch import nn  # noqa: E402
from transformers.models.auto import configuration_auto, modeling_auto  # noqa: E402

ADDRESS_SPACE = 24 << 30  # bytes: torch maps far more than it uses
CPU_SECONDS = 50  # per request; the starter's wall clock is 45
MAX_REQUEST = 16 << 20
MAX_ERROR = 300
MAX_MODULES = 60_000  # the largest published model has some 20,000
MAX_ROWS = 400
MAX_PARAMETERS = 10**16
_STRIPPED = frozenset(
    {
        "auto_map",
        "trust_remote_code",
        "quantization_config",
        "compression_config",
        "_name_or_path",
        "name_or_path",
        "adapter_path",
        "attn_implementation",
        "_attn_implementation",
        "_attn_implementation_internal",
        "experts_implementation",
        "use_kernels",
    }
)
_REFUSED = (
    "socket.",
    "subprocess.",
    "shutil.",
    "pty.",
    "webbrowser.",
    "ctypes.dlopen",
    "ftplib.",
    "http.",
    "urllib.",
)
_FLOATS = ("Infinity", "-Infinity", "NaN")
_READ_ONLY = ("os.listdir", "os.scandir", "os.walk", "os.fwalk")
_LAYER = re.compile(r"\.\d+(?=\.|$)")


class _TooLarge(Exception):
    """The config asks for more modules than any model has."""


class _Limit:
    """Counts the modules made for one request."""

    def __init__(self) -> None:
        self.left = MAX_MODULES
        made = nn.Module.__init__

        def counted(module: nn.Module, *args: Any, **options: Any) -> None:
            self.left -= 1
            if self.left < 0:
                raise _TooLarge
            made(module, *args, **options)

        nn.Module.__init__ = counted


def stripped(value: Any, depth: int = 0) -> Any:
    """The config without what points to code or packing."""
    if depth > 12:
        return None
    if isinstance(value, Mapping):
        if list(value) == ["__float__"] and value["__float__"] in _FLOATS:
            return float(value["__float__"])  # how transformers writes what JSON has no number for
        return {key: stripped(item, depth + 1) for key, item in value.items() if key not in _STRIPPED}
    if isinstance(value, list):
        return [stripped(item, depth + 1) for item in value]
    return value


def registered(model_type: str) -> dict[str, str]:
    """Class names that the registry has for a type, by the table that holds each; the base class under MODEL."""
    found: dict[str, str] = {}
    for table, names in vars(modeling_auto).items():
        if table.endswith("_MAPPING_NAMES") and isinstance(names, Mapping):
            listed = names.get(model_type)
            for name in listed if isinstance(listed, tuple | list) else [listed]:
                if isinstance(name, str):
                    found.setdefault(name, table.removesuffix("_MAPPING_NAMES"))
    return found


def class_of(model_type: str, wanted: str | None) -> tuple[type[Any], bool] | None:
    """The class to build, and whether it is the one that was asked for."""
    names = registered(model_type)
    config_class = configuration_auto.CONFIG_MAPPING[model_type]
    if wanted is not None and wanted.isidentifier():
        cls = getattr(transformers, wanted, None)
        if (
            isinstance(cls, type)
            and issubclass(cls, transformers.PreTrainedModel)
            and (wanted in names or getattr(cls, "config_class", None) is config_class)
        ):
            return cls, True
    for name, table in names.items():
        if table == "MODEL":
            cls = getattr(transformers, name, None)
            if isinstance(cls, type):
                return cls, False
    return None


def build(config: Any, cls: type[Any]) -> Any:
    """Make the class on the meta device, its weights tied."""
    with torch.device("meta"), transformers.initialization.no_init_weights():
        model = cls(config)
    model.tie_weights()
    return model


def count(request: Mapping[str, Any], limit: _Limit) -> dict[str, Any]:
    """What the class named in the config registers.

    ``total`` and the parts count a tied weight once; ``embedding`` is every ``nn.Embedding``, ``head`` the output
    layer, ``linear`` the adapter parameters over ``nn.Linear`` alone, ``adapted`` those that PEFT makes of
    ``all-linear`` (None: PEFT is not there, or refuses).
    """
    config, rank = stripped(request["config"]), request["rank"]
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or model_type not in configuration_auto.CONFIG_MAPPING_NAMES:
        return {"error": "the installed transformers has no such model_type"}
    named = config.get("architectures")
    wanted = named[0] if isinstance(named, list) and named and isinstance(named[0], str) else None
    chosen = class_of(model_type, wanted)
    if chosen is None:
        return {"error": "the installed transformers has no class for this model_type"}
    cls, known = chosen
    limit.left = MAX_MODULES
    model = build(configuration_auto.CONFIG_MAPPING[model_type].from_dict(config), cls)
    parameters = {id(p): p for p in model.parameters()}
    total = sum(p.numel() for p in parameters.values())
    if not 0 < total <= MAX_PARAMETERS:
        return {"error": "the sizes multiply to nothing, or to more than any model has"}
    head = head_of(model)
    outside = {id(m) for m in head.modules()} if head is not None else set()
    answer = {
        "class": cls.__name__,
        "known": known,
        "transformers": transformers.__version__,
        "total": total,
        "embedding": _once(m.weight for m in model.modules() if isinstance(m, nn.Embedding)),
        "head": _once(head.parameters()) if head is not None else 0,
        "linears": sum(isinstance(m, nn.Linear) for m in model.modules()),
        "linear": rank * sum(sum(_sides(m)) for m in model.modules() if id(m) not in outside),
        "expert_parameters": _once(p for name, p in model.named_parameters() if "experts" in name),
        "generates": bool(model.can_generate()),
        "components": {name: _once(part.parameters()) for name, part in list(model.named_children())[:64]},
        "structure": rows(model),
    }
    return answer | {"adapted": adapted(model, rank, limit)}


def _once(found: Iterator[Any]) -> int:
    return sum({id(p): p.numel() for p in found}.values())


def _sides(module: nn.Module) -> tuple[int, ...]:
    """(in, out) of a matrix that adapters sit on: ``nn.Linear``, or GPT-2's transposed kind."""
    if isinstance(module, nn.Linear):
        return tuple(int(size) for size in module.weight.shape)  # a class may hold anything under in_features
    if type(module).__name__ == "Conv1D" and hasattr(module, "nx"):
        return int(module.nx), int(module.nf)
    return ()


def head_of(model: Any) -> nn.Module | None:
    """The output layer: over the vocabulary, else the classifier of a task."""
    with contextlib.suppress(AttributeError, NotImplementedError):
        found = model.get_output_embeddings()
        if isinstance(found, nn.Module):
            return found
    for name in ("score", "classifier"):
        found = getattr(model, name, None)
        if isinstance(found, nn.Module):
            return found
    return None


def rows(model: nn.Module) -> list[dict[str, Any]]:
    """One row for each kind of module that holds parameters; layer numbers read ``*``."""
    found: dict[tuple[str, str, int], int] = Counter()
    seen: set[int] = set()
    for name, module in model.named_modules():
        own = [p for p in module.parameters(recurse=False) if id(p) not in seen]
        seen.update(id(p) for p in own)
        if own:
            key = (_LAYER.sub(".*", name), type(module).__name__, sum(p.numel() for p in own))
            found[key] += 1
    return [
        {"name": name, "type": kind, "parameters": size, "count": times}
        for (name, kind, size), times in list(found.items())[:MAX_ROWS]
    ]


def adapted(model: Any, rank: int, limit: _Limit) -> int | None:
    """Adapter parameters that PEFT makes; the model is changed by it."""
    try:
        peft = importlib.import_module("peft")
    except ImportError:
        return None
    limit.left = MAX_MODULES
    try:
        with torch.device("meta"):
            changed = peft.get_peft_model(model, peft.LoraConfig(r=rank, target_modules="all-linear"))
    except (ValueError, TypeError, AttributeError, NotImplementedError, RuntimeError, KeyError):
        return None
    return int(sum(p.numel() for name, p in changed.named_parameters() if "lora_" in name))


def answer(request: Mapping[str, Any], limit: _Limit) -> dict[str, Any]:
    """One answer. Whatever building the class does comes back as figures, error or gap."""
    try:
        return count(request, limit)
    except _TooLarge:
        return {"error": f"the config asks for more than {MAX_MODULES:,} modules"}
    except MemoryError:
        return {"gap": "memory"}
    except RecursionError:
        return {"error": "the class nests too deeply"}
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - eight hundred classes read a hostile config
        return {"error": f"{type(error).__name__}: {error}"[:MAX_ERROR]}


def _allowed(path: object) -> bool:
    """Whether a file may be read: the interpreter's own, and what the kernel tells of this process."""
    if not isinstance(path, str | bytes):
        return isinstance(path, int)
    real = os.path.realpath(os.fsdecode(path))
    return real.startswith((sys.prefix, sys.base_prefix, *_LIBRARIES, "/proc/", "/sys/", "/dev/"))


_LIBRARIES = tuple(os.path.realpath(path) for path in sys.path if path)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _refuse(event: str, args: tuple[object, ...]) -> None:
    if event == "open":
        path, mode, flags = (*args, None, None)[:3]
        writes = any(mark in mode for mark in "wxa+") if isinstance(mode, str) else False
        if writes or (isinstance(flags, int) and flags & _WRITES) or not _allowed(path):
            raise PermissionError("only the interpreter's own files may be read here")
    elif event.startswith(_REFUSED) or (event.startswith("os.") and not event.startswith(_READ_ONLY)):
        raise PermissionError(f"{event} is refused here")


def confine() -> None:
    """Take every limit upon this process, for good."""
    for name, amount in (
        (resource.RLIMIT_AS, ADDRESS_SPACE),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
    ):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(name, (amount, amount))
    sys.addaudithook(_refuse)


def _allow_cpu() -> None:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(usage.ru_utime + usage.ru_stime) + CPU_SECONDS
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))


def _read(size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = os.read(0, min(size - len(data), 1 << 16))
        if not part:
            return b""
        data += part
    return bytes(data)


def _write(body: Mapping[str, Any], out: int) -> None:
    text = json.dumps(body).encode("ascii")
    data = memoryview(struct.pack(">I", len(text)) + text)
    while data:
        data = data[os.write(out, data) :]


def main() -> None:
    """Serve until the input ends. What the libraries print goes nowhere: the answers' pipe is ours alone."""
    out = os.dup(1)
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity(50)
    torch.set_num_threads(1)
    limit = _Limit()
    warm = {"model_type": "bert", "num_hidden_layers": 1, "architectures": ["BertForMaskedLM"]}
    answer({"config": warm, "rank": 16}, limit)  # brings in what is imported on first use
    confine()
    _write({"ready": "models", "transformers": transformers.__version__}, out)
    while header := _read(4):
        (size,) = struct.unpack(">I", header)
        if size > MAX_REQUEST:
            return
        _allow_cpu()
        found = answer(json.loads(_read(size)), limit)
        _write(found, out)
        if found.get("gap") == "memory":
            return


if __name__ == "__main__":
    main()
