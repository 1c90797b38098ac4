"""What the Hub derives from a repo's files: card metadata, config summary, tensor totals, tags."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import yaml

from tracker.demo.repos import GitRepo

_FRONT_MATTER = re.compile(rb"\A---\r?\n(.*?)\r?\n---\s*(?:\r?\n|\Z)", re.DOTALL)
_CARD_LIMIT = 256 << 10
_HEADER_LIMIT = 25 << 20


def derived(repo: GitRepo, sha: str) -> dict[str, Any]:
    """The derived keys of a model's info at a commit; a file that cannot be read gives no key."""
    card = _card(repo.content(sha, "README.md"))
    config = _config(repo.content(sha, "config.json"))
    tensors = safetensors_totals(repo, sha)
    library = card.get("library_name") or ("transformers" if config.get("model_type") else None)
    licence = card.get("license")
    found = {
        "cardData": card or None,
        "config": config or None,
        "safetensors": tensors,
        "library_name": library,
        "pipeline_tag": card.get("pipeline_tag"),
    }
    tags = [library, "safetensors" if tensors else None, config.get("model_type")]
    tags += [f"license:{licence}" if isinstance(licence, str) else None, "region:us"]
    found["tags"] = [tag for tag in tags if isinstance(tag, str)]
    return {key: value for key, value in found.items() if value is not None}


def safetensors_header(data: bytes) -> dict[str, Any] | None:
    """A safetensors header out of a file's first bytes; None when there is none."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(_HEADER_LIMIT, len(data) - 8):
        return None
    header = _json(data[8 : 8 + length])
    return header if isinstance(header, dict) else None


def safetensors_totals(repo: GitRepo, sha: str) -> dict[str, Any] | None:
    """``{"parameters": {dtype: scalars}, "total": scalars}`` over the root's safetensors files."""
    counts: dict[str, int] = {}
    for item in repo.tree(repo.commit_info(sha).tree):
        if not item.name.endswith(".safetensors") or item.folder:
            continue
        for name, entry in (safetensors_header(repo.content(sha, item.name) or b"") or {}).items():
            if name != "__metadata__" and isinstance(entry, dict):
                dtype, shape = entry.get("dtype"), entry.get("shape")
                if isinstance(dtype, str) and isinstance(shape, list):
                    sides = [side for side in shape if isinstance(side, int)]
                    counts[dtype] = counts.get(dtype, 0) + math.prod(sides)
    return {"parameters": counts, "total": sum(counts.values())} if counts else None


def _config(data: bytes | None) -> dict[str, Any]:
    config = _json(data)
    if not isinstance(config, dict):
        return {}
    return {key: config[key] for key in ("architectures", "model_type", "auto_map") if key in config}


def _card(data: bytes | None) -> dict[str, Any]:
    found = _FRONT_MATTER.match(data) if data and len(data) <= _CARD_LIMIT else None
    if found is None:
        return {}
    try:
        # through JSON: dates become text, as on the Hub
        card = json.loads(json.dumps(yaml.safe_load(found[1]), default=str))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        return {}
    return card if isinstance(card, dict) else {}


def _json(data: bytes | None) -> Any:
    try:
        return json.loads(data or b"null")
    except (ValueError, RecursionError):
        return None
