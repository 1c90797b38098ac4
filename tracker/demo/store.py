"""What the loopback Hub holds: models, renames, tokens; and who may see what.

The answers for what may not be seen are the Hub's, state by state: see `Store.visible` and `Store.readable`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tracker.demo.repos import GitRepo
from tracker.demo.wire import Request

BAD_TOKEN = "Invalid credentials in Authorization header"  # noqa: S105 - a message
ANONYMOUS = "Invalid username or password."
DISABLED = "Access to this resource is disabled."


@dataclass(slots=True, kw_only=True)
class Model:
    """A model repo on the hub.

    ``gated`` is False, "auto" or "manual". ``disabled`` is False, True (model info still answers 200 and
    says so) or "old" (every answer is 403). ``xet`` says whether LFS files carry a Xet hash. ``fields``
    are further keys of the model's info, which override what is derived from its files.
    """

    id: str
    repo: GitRepo
    hub_id: str
    created_at: datetime
    private: bool = False
    gated: bool | str = False
    disabled: bool | str = False
    xet: bool = True
    last_modified: datetime | None = None
    fields: dict[str, Any] = field(default_factory=dict)


class Refusal(Exception):
    """An answer instead of the one asked for: a status, the Hub's message and its error code."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code


class Moved(Exception):
    """The repo has another name now; ``location`` is relative and keeps the query."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: nobody, or a token. ``grants`` are the private and gated repos the token may read."""

    token: str | None
    grants: Collection[str] = ()

    def may_read(self, model: Model) -> bool:
        """Whether a grant names the model."""
        return model.id in self.grants


@dataclass(slots=True)
class Store:
    """Models by name, old names, tokens with what each may read."""

    models: dict[str, Model] = field(default_factory=dict)
    renames: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, Collection[str]] = field(default_factory=dict)
    made: int = 0

    def new_hub_id(self, name: str) -> str:
        """24 hex characters, another at each call and the same in each run."""
        self.made += 1
        return hashlib.sha256(f"{self.made}:{name}".encode()).hexdigest()[:24]

    def caller(self, request: Request) -> Caller:
        """Who asks; refuses a token that is not known, whatever was asked."""
        header = request.header("authorization")
        if not header:
            return Caller(None)
        scheme, _, value = header.partition(" ")
        token = _password(value) if scheme.lower() == "basic" else value.strip()
        if token not in self.tokens:
            raise Refusal(401, BAD_TOKEN)
        return Caller(token, self.tokens[token])

    def visible(self, request: Request, name: str) -> Model:
        """The model, if the caller may know of it: missing and private are told apart by no one."""
        caller = self.caller(request)
        model = self.models.get(name)
        if model is None and name in self.renames:
            path = request.raw_path.replace(name, self.renames[name], 1)
            raise Moved(path + (f"?{request.raw_query}" if request.raw_query else ""))
        if model is None or (model.private and not caller.may_read(model)):
            if caller.token is None:
                raise Refusal(401, ANONYMOUS)
            raise Refusal(404, "Repository not found", "RepoNotFound")
        if model.disabled == "old":
            raise Refusal(403 if caller.token else 401, DISABLED)
        return model

    def readable(self, request: Request, name: str) -> Model:
        """The model, if the caller may read its history and files."""
        model = self.visible(request, name)
        caller = self.caller(request)
        if model.disabled:
            if caller.token:
                raise Refusal(403, DISABLED)
            raise Refusal(401, _restricted(model), "GatedRepo")
        if model.gated and not caller.may_read(model):
            if caller.token is None:
                raise Refusal(401, _restricted(model), "GatedRepo")
            message = (
                f"Access to model {model.id} is restricted and you are not in the authorized list. "
                f"Visit https://huggingface.co/{model.id} to ask for access."
            )
            raise Refusal(403, message, "GatedRepo")
        return model

    def listed(self, request: Request) -> list[Model]:
        """The models that the caller may know of, in the order they were added."""
        caller = self.caller(request)
        return [model for model in self.models.values() if not model.private or caller.may_read(model)]


def commit_of(model: Model, revision: str, pins: Mapping[str, str]) -> str:
    """The commit a revision names; refuses one that is not there, in the Hub's words."""
    sha = pins.get(revision) or model.repo.resolve(revision)
    if sha is None:
        raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
    return sha


def _restricted(model: Model) -> str:
    return (
        f"Access to model {model.id} is restricted. You must have access to it and be authenticated to "
        "access it. Please log in."
    )


def _password(value: str) -> str:
    try:
        text = base64.b64decode(value, validate=True).decode("utf-8", "replace")
    except binascii.Error:
        return ""
    return text.partition(":")[2]
