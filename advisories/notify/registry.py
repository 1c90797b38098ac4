"""Every way of sending, found: the modules of this package that export ``NOTIFIER``."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import advisories.notify
from advisories.notify.interface import Notifier
from storage.errors import UsageError


@cache
def load() -> tuple[Notifier, ...]:
    """All notifiers, by name."""
    modules = (
        importlib.import_module(f"{advisories.notify.__name__}.{info.name}")
        for info in pkgutil.iter_modules(advisories.notify.__path__)
    )
    found = [module.NOTIFIER for module in modules if hasattr(module, "NOTIFIER")]
    return tuple(sorted(found, key=lambda notifier: notifier.name))


def notifier_of(url: str) -> Notifier:
    """The notifier of a URL; raises UsageError when its scheme is nobody's."""
    scheme, colon, _ = url.partition("://")
    for notifier in load():
        if colon and notifier.takes(scheme.lower()):
            return notifier
    raise UsageError(
        "this is no address that messages can be sent to",
        help="give an https:// webhook, or an apprise URL such as slack://... or mailto://...",
    )


def shown(url: str) -> str:
    """A URL without anything secret, whatever it is."""
    try:
        return notifier_of(url).shown(url)
    except UsageError:
        return "(unknown)"
