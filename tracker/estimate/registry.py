"""Find every architecture: each file under ``architectures`` exports ``ARCHITECTURES``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from tracker.estimate import architectures
from tracker.estimate.model import Architecture


@cache
def load() -> Mapping[str, Architecture]:
    """Every architecture by model type, in a fixed order; raises ValueError if two files claim one type."""
    found: dict[str, Architecture] = {}
    for module in sorted(pkgutil.iter_modules(architectures.__path__), key=lambda item: item.name):
        exported = importlib.import_module(f"{architectures.__name__}.{module.name}").ARCHITECTURES
        for item in exported:
            if item.model_type in found:
                raise ValueError(f"{item.model_type} is declared twice, again in {module.name}")
            found[item.model_type] = item
    return dict(sorted(found.items()))
