"""Signing secrets: made by us, or found where a person keeps them."""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import stat
from pathlib import Path

from advisories.notify.interface import CannotSend

PREFIX = "whsec_"
SIZE = 32  # bytes of a secret we make; the specification asks for 24 to 64
SHORTEST = 16
_LARGEST_FILE = 4096


def new_secret() -> str:
    """A new signing secret as Standard Webhooks writes it: ``whsec_`` and base64."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SIZE)).decode("ascii")


def is_reference(secret: str) -> bool:
    """Whether this says where the secret is (``env:NAME``, ``file:PATH``) rather than being it."""
    return secret.startswith(("env:", "file:"))


def reveal(secret: str | None) -> str:
    """The signing secret itself, read anew each time so that it can be changed where it is kept.

    Raises CannotSend, which never holds any of it: no secret, a variable that is not set, a file that others
    may read, or a text that is no secret.
    """
    if not secret:
        raise CannotSend("the subscription has no signing secret", help="remove it and add it again")
    where, _, name = secret.partition(":")
    match where:
        case "env":
            value, told = os.environ.get(name, ""), f"the environment variable {name[:100]}"
            if not value:
                raise CannotSend(f"{told} is not set", help="set it where the daemon runs, too")
        case "file":
            value, told = _read(Path(name)), f"the file {name[:200]}"
        case _:
            value, told = secret, "what is kept"
    return _checked(value.strip(), told)


def _checked(value: str, told: str) -> str:
    try:
        size = len(base64.b64decode(value.removeprefix(PREFIX) + "==", validate=False))
    except (binascii.Error, ValueError):
        size = 0
    if size < SHORTEST:
        raise CannotSend(
            f"{told} is no signing secret", help=f"it is {PREFIX} and base64 of at least {SHORTEST} bytes"
        )
    return value


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode) or stat.S_IMODE(mode) & 0o077:
                raise CannotSend(f"others may read the secret in {path}", help=f"run: chmod 600 {path}")
            return file.read(_LARGEST_FILE).decode("ascii", "replace")
    except OSError as error:
        raise CannotSend(
            f"the secret file {path} cannot be read: {error.strerror}", help="check the path, and who may read it"
        ) from None
