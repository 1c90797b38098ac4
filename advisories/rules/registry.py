"""Every rule, found: the modules of this package that export ``RULES``."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import advisories.rules
from advisories.rules.interface import Rule
from storage.errors import UsageError


@cache
def load() -> tuple[Rule, ...]:
    """All rules, sorted by class."""
    modules = (
        importlib.import_module(f"{advisories.rules.__name__}.{info.name}")
        for info in pkgutil.iter_modules(advisories.rules.__path__)
    )
    rules = [rule for module in modules for rule in getattr(module, "RULES", ())]
    return tuple(sorted(rules, key=lambda rule: rule.cls))


@cache
def by_class() -> dict[str, Rule]:
    """All rules by the class they are for."""
    return {rule.cls: rule for rule in load()}


def rule_of(cls: str) -> Rule:
    """The rule of a change class; UsageError when there is no such class."""
    try:
        return by_class()[cls]
    except KeyError:
        raise UsageError(
            f"unknown change class {cls[:80]!r}", help="docs/advisories.md lists the classes, e.g. template.tools"
        ) from None
