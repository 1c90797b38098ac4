"""This machine: programs, libraries, the probes' child, the port."""

from __future__ import annotations

import importlib.util
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from importlib import metadata

from advisories.notify.registry import notifier_of
from storage.errors import HubwatchError
from storage.model import Json, ProbeOutcome
from tracker.doctor.model import Check, fail, good, skip, warn
from tracker.hub.git import OLDEST
from tracker.probe.render import Prober

_TEMPLATE = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
_TOKENIZER: Json = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "[UNK]": 2}, "unk_token": "[UNK]"},
}
_EXTRAS = {
    "transformers": ("transformers", "counting models that have no closed form"),
    "torch": ("transformers", "counting models that have no closed form"),
    "apprise": ("notify", "chat and mail"),
    "psycopg": ("postgres", "PostgreSQL"),
    "procrastinate": ("postgres", "many machines"),
}


def git() -> Check:
    """Whether histories can be read by git; without it the API does it, at more requests."""
    program = shutil.which("git")
    if program is None:
        return warn("git", "not installed: long histories are read by the API, at more requests", "install git")
    try:
        told = subprocess.run(  # noqa: S603 - a fixed program, no shell
            [program, "--version"], capture_output=True, text=True, timeout=10, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return warn("git", f"{program} cannot be run ({type(error).__name__})", "install git anew")
    found = re.search(r"(\d+)\.(\d+)", told)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if version < OLDEST:
        needs = ".".join(map(str, OLDEST))
        return warn(
            "git", f"{told.strip()[:60]} is too old: long histories are read by the API", f"install {needs}"
        )
    return good("git", told.strip()[:60])


def probes() -> Iterator[Check]:
    """Whether the children work in which templates and tokenizers are tried."""
    with Prober() as prober:
        results = prober.templates(_TEMPLATE, _TEMPLATE)
        gaps = [item for item in results if item.outcome is ProbeOutcome.GAP]
        if gaps or not any(item.after for item in results):
            word = next((item.after_error or item.before_error for item in gaps), "nothing came back")
            yield fail(
                "template probe",
                f"the child that renders templates does not work ({word})",
                "changes of templates are rated without being tried; check memory and process limits",
            )
        else:
            yield good("template probe", f"{len(results)} conversations rendered in a child")
        if importlib.util.find_spec("tokenizers") is None:
            yield fail("tokenizer probe", "the library tokenizers is missing", "install hubwatch anew")
            return
        seen = prober.tokenizers(_TOKENIZER, _TOKENIZER, ["a b"])
        if "gap" in seen.after or "error" in seen.after:
            word = seen.after.get("gap") or seen.after.get("error")
            yield fail(
                "tokenizer probe",
                f"the child that tries tokenizers does not work ({word})",
                "changes of tokenizers are rated without being tried; check memory and process limits",
            )
        else:
            yield good("tokenizer probe", f"tokenizers {_version('tokenizers')} encodes in a child")


def extras(addresses: Sequence[str]) -> Iterator[Check]:
    """What is installed beside the default, and whether a subscription needs what is not."""
    there = [f"{name} {_version(name)}" for name in _EXTRAS if importlib.util.find_spec(name)]
    absent = [f"{name} ({what}: hubwatch[{extra}])" for name, (extra, what) in _EXTRAS.items()
              if not importlib.util.find_spec(name)]  # fmt: skip
    parts = [f"installed: {', '.join(there)}"] if there else []
    parts += [f"not installed: {', '.join(absent)}"] if absent else []
    yield good("extras", "; ".join(parts))
    chat = [scheme for scheme in addresses if scheme not in {"http", "https"}]
    if chat and importlib.util.find_spec("apprise") is None:
        yield fail(
            "extras",
            f"subscriptions with {', '.join(chat)} need apprise, which is missing",
            "install hubwatch[notify]",
        )
    for scheme in chat:
        try:
            notifier_of(f"{scheme}://x")
        except HubwatchError as error:
            yield fail("extras", f"subscriptions with {scheme}: {error.message}", error.help)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "(version unknown)"


def port(host: str, number: int) -> Check:
    """Whether the pages' port is free, or taken by a hubwatch that runs."""
    if number == 0:
        return good("port", "any free one is taken")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, number))
    except OSError as error:
        if _is_ours(host, number):
            return good("port", f"a hubwatch serves on {host}:{number}")
        return fail(
            "port",
            f"{host}:{number} cannot be served on: {error.strerror or error}",
            "set HUBWATCH_PORT to a free port",
        )
    return good("port", f"{host}:{number} is free: no hubwatch serves pages there now")


def _is_ours(host: str, number: int) -> bool:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    try:
        with urllib.request.urlopen(f"http://{shown}:{number}/healthz", timeout=3) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError:
        return False
    except (OSError, ValueError):
        return False


def skipped() -> Check:
    """What is left out when nobody may be asked."""
    return skip("hub", "not asked (--offline)")
