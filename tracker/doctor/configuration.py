"""Settings: whether they can be read, what in them means nothing, and what they open to others."""

from __future__ import annotations

import difflib
import ipaddress
import os
import stat
import tomllib
from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from storage.errors import UsageError
from tracker.doctor.model import Check, fail, good, warn
from tracker.settings import Settings, config_file, load_settings

_PREFIX = "HUBWATCH_"
_OWN = frozenset({"CONFIG", "TOKEN"})
"""Variables that are read elsewhere: the settings file's name, the token of `hubwatch audit --server`."""


def read(database_url: str | None) -> tuple[Settings | None, Check]:
    """The settings, if they can be read."""
    try:
        settings = load_settings(database_url=database_url)
        rules = len(settings.house_policy.rules)
    except UsageError as error:
        return None, fail("settings", error.message, error.help)
    told = f", {rules} rules of the house" if rules else ""
    return settings, good("settings", f"read{told}")


def unknown_variables(environment: Mapping[str, str] = os.environ) -> Iterator[Check]:
    """Variables that begin like ours and mean nothing."""
    known = _known_variables()
    unknown = sorted(
        name for name in environment if name.upper().startswith(_PREFIX) and name.upper() not in known
    )
    for name in unknown:
        meant = difflib.get_close_matches(name.upper(), known, 1)
        yield warn(
            "environment",
            f"{name[:80]} is set and means nothing",
            f"did you mean {meant[0]}?" if meant else "unset it; hubwatch config show lists what there is",
        )
    if not unknown:
        yield good("environment", "every HUBWATCH_ variable is known")


def _known_variables() -> set[str]:
    names = {_PREFIX + name for name in _OWN}
    for name, field in Settings.model_fields.items():
        names.add(f"{_PREFIX}{name.upper()}")
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            names |= {f"{_PREFIX}{name.upper()}_{inner.upper()}" for inner in kind.model_fields}
    return names


def settings_file() -> Iterator[Check]:
    """Keys of ``hubwatch.toml`` that mean nothing, and secrets in it that others can read."""
    try:
        path = config_file()
        if not path.is_file():
            yield good("settings file", "none; defaults and the environment are in force")
            return
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        mode = path.stat().st_mode
    except UsageError as error:
        yield fail("settings file", error.message, error.help)
        return
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        yield fail("settings file", f"it cannot be read: {str(error)[:200]}", "correct the file")
        return
    unknown = sorted(set(values) - set(Settings.model_fields))
    for key in unknown:
        meant = difflib.get_close_matches(key, Settings.model_fields, 1)
        help_ = f"did you mean {meant[0]}?" if meant else "remove it"
        yield warn("settings file", f"{key[:80]!r} in {path} means nothing", help_)
    hub = values.get("hub")
    secret = isinstance(hub, dict) and "token" in hub
    if secret and mode & (stat.S_IRGRP | stat.S_IROTH):
        yield warn("settings file", f"{path} holds a token, and others can read it", f"run: chmod 600 {path}")
    if not unknown:
        yield good("settings file", f"{path}: every key is known")


def exposure(settings: Settings) -> Iterator[Check]:
    """Whom the pages are open to."""
    if _is_loopback(settings.host):
        yield good("access", f"pages are for this machine only ({settings.host})")
        return
    if not settings.allowed_hosts:
        yield fail(
            "access",
            f"pages listen on {settings.host}, and answer to no name but loopback",
            "list the names they are asked under: HUBWATCH_ALLOWED_HOSTS='[\"watch.example.org\"]'",
        )
    if settings.web.read == "open":
        yield warn(
            "access",
            f"whoever reaches {settings.host}:{settings.port} can read what is open to everybody",
            "set HUBWATCH_WEB_READ=token to ask for a token of ours, or keep others away in the network",
        )
    elif settings.allowed_hosts:
        yield good("access", f"pages on {settings.host} ask for a token")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
