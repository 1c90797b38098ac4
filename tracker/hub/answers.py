"""What a refusal means: the Hub's status, code and words become one of our errors. Pure.

The library's classes say most of it, but not all: without ``https://`` an anonymous 401 has no class, a bad
token and a missing repo share a status, and a 403 may be a disabled repo, a gate or a token without rights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import httpx2
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import hf_raise_for_status  # type: ignore[attr-defined]  # exported lazily

from storage.model import RepoState
from tracker.hub.errors import AccessDenied, FileGone, HubError, RevisionGone, UpstreamFault

BAD_TOKEN = "invalid credentials in authorization header"  # noqa: S105 - the Hub's words, not a secret
DISABLED = "access to this resource is disabled"
MESSAGE_LIMIT = 300

HELP = {
    RepoState.GATED: "ask for access on the repo's page, then set HF_TOKEN to a token of that account",
    RepoState.DISABLED: "the Hub has disabled this repo; nothing can be read until it is enabled again",
    RepoState.MISSING: (
        "check the name; a private repo needs HF_TOKEN set to a token that may read it (the Hub answers the same "
        "for both)"
    ),
    RepoState.PRIVATE: "set HF_TOKEN to a token that may read this repo",
    RepoState.TOKEN_BAD: "set HF_TOKEN to a valid token or unset it; no repo is taken for gone because of this",
}
FAULT_HELP = "nothing to do yet: the next poll asks again; if it lasts, see https://status.huggingface.co"
ENDPOINT_HELP = "check that HF_ENDPOINT points to a Hugging Face Hub"


def refusal(
    *, status: int, headers: Mapping[str, str], body: bytes, where: str, has_token: bool, is_file: bool = False
) -> HubError:
    """The error that stands for an answer of 400 or more (429 excepted: `RateLimited` comes from the transport).

    Args:
        status: The HTTP status.
        headers: The response headers.
        body: The start of the body.
        where: What was asked, for the message: method and path, without query and secrets.
        has_token: Whether our token went along.
        is_file: Whether a file was asked for, so that a bare 404 means the file.

    """
    code, message = _short_header(headers, "x-error-code"), _message(headers, body)
    text = f"{where} answered {status}" + (f" ({message})" if message else "")
    words = message.lower()
    if status == 401 and words.startswith(BAD_TOKEN):
        return _denied(RepoState.TOKEN_BAD, text)
    if words.startswith(DISABLED) or status == 451:
        return _denied(RepoState.DISABLED, text)
    named = _by_class(status, code, message)
    if isinstance(named, GatedRepoError):
        return _denied(RepoState.GATED, text)
    if isinstance(named, DisabledRepoError):
        return _denied(RepoState.DISABLED, text)
    if isinstance(named, RepositoryNotFoundError):
        return _denied(RepoState.MISSING, text)
    if isinstance(named, RevisionNotFoundError):
        return RevisionGone(text, help="the ref or commit is not there (any more): check --ref")
    if isinstance(named, RemoteEntryNotFoundError) or (status in (404, 410) and is_file):
        return FileGone(text, help=FAULT_HELP)
    if status == 401:
        # with a token a missing repo is a 404, so that a 401 says something about the token
        return _denied(RepoState.TOKEN_BAD if has_token else RepoState.MISSING, text)
    if status == 403 and has_token:
        return _denied(RepoState.PRIVATE, text)
    return UpstreamFault(text, status=status, help=FAULT_HELP if status >= 500 else ENDPOINT_HELP)


def _denied(state: RepoState, text: str) -> AccessDenied:
    return AccessDenied(text, state=state, help=HELP[state])


def _by_class(status: int, code: str, message: str) -> HfHubHTTPError | None:
    """The library's own reading, from a small copy of the answer: its body is unbounded and may be anything."""
    headers = {name: value for name, value in (("X-Error-Code", code), ("X-Error-Message", message)) if value}
    copy = httpx2.Response(
        status, headers=headers, content=b"{}", request=httpx2.Request("GET", "http://hub.invalid/")
    )
    try:
        hf_raise_for_status(copy)
    except HfHubHTTPError as error:
        return error
    return None


def _message(headers: Mapping[str, str], body: bytes) -> str:
    said = _short_header(headers, "x-error-message")
    if said:
        return said
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    error = value.get("error") if isinstance(value, dict) else None
    return plain(error) if isinstance(error, str) else ""


def _short_header(headers: Mapping[str, str], name: str) -> str:
    return plain(next((value for key, value in headers.items() if key.lower() == name), ""))


def plain(text: str) -> str:
    """Printable ASCII on one line, cut: fit for a message, a header and a terminal."""
    return "".join(char if " " <= char <= "~" else "?" for char in text.strip()[:MESSAGE_LIMIT])
