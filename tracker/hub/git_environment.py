"""What a git process is told: an environment made here, in which nothing of the machine or its user is left.

Configuration stands in the environment too (``GIT_CONFIG_COUNT``), not in files and not in arguments, which other
users can see.
"""

from __future__ import annotations

import base64
import os
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tracker.hub import transport

MIB = 1024 * 1024

# Flaws of old or odd clients that do no harm here: commits are parsed by us, and no file is checked out. A git
# before 2.45 does not hand the list on where blobs are left out; there the API reads such repositories.
_BENIGN = (
    "badDate", "badDateOverflow", "badEmail", "badTimezone", "missingEmail", "missingNameBeforeEmail",
    "missingSpaceBeforeDate", "missingSpaceBeforeEmail", "nulInCommit", "zeroPaddedDate", "zeroPaddedFilemode",
    # these files are blobs like others, and not here while only commits and trees are
    "gitmodulesMissing", "gitattributesMissing", "gitmodulesParse",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class GitLimits:
    """What reading one repo may cost.

    Args:
        seconds: For all that git does with the network, over the whole reading.
        disk_bytes: For the temporary folder.
        memory_bytes: Of address space, for each process (Linux).
        stall_s: Seconds of silence before a transfer is given up.
        object_s: Seconds for one object to be read from disk.

    """

    seconds: float = 600.0
    disk_bytes: int = 2048 * MIB
    memory_bytes: int = 2048 * MIB
    stall_s: int = 30
    object_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Remote:
    """Where a process may fetch from: an http(s) URL, and the token for it."""

    address: str
    token: str | None = None

    def __repr__(self) -> str:
        """The address; whether there is a token, never which."""
        return f"Remote({self.address!r}, token={'set' if self.token else None})"


def basic(token: str) -> str:
    """A token as the credentials of basic authentication; the Hub takes any user name."""
    return base64.b64encode(f"user:{token}".encode()).decode("ascii")


def environment(folder: Path, limits: GitLimits, remote: Remote | None) -> dict[str, str]:
    """The whole environment of a process that works in a folder; without a remote it can talk to nobody."""
    settings = _settings(limits) | (_remote_settings(remote) if remote else {})
    scheme = urlsplit(remote.address).scheme if remote else ""
    made = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ALLOW_PROTOCOL": scheme if scheme in ("http", "https") else "none",
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_CONFIG_COUNT": str(len(settings)),
    }
    for number, (key, value) in enumerate(settings.items()):
        made[f"GIT_CONFIG_KEY_{number}"] = key
        made[f"GIT_CONFIG_VALUE_{number}"] = value
    return made | (_network(remote.address) if remote else {})


def _remote_settings(remote: Remote) -> dict[str, str]:
    settings = {
        "remote.origin.url": remote.address,
        # blobs are left out on purpose: only the process that fetches needs to know
        "remote.origin.promisor": "true",
        "remote.origin.partialclonefilter": "blob:none",
    }
    if remote.token:
        settings[f"http.{remote.address}.extraHeader"] = f"Authorization: Basic {basic(remote.token)}"
    return settings


def _settings(limits: GitLimits) -> dict[str, str]:
    """What every git process is told."""
    return {
        "core.hooksPath": os.devnull,
        "core.attributesFile": os.devnull,
        "core.excludesFile": os.devnull,
        "core.fsmonitor": "false",
        "core.askPass": "",
        "credential.helper": "",
        "credential.interactive": "false",
        "gc.auto": "0",
        "maintenance.auto": "false",
        "submodule.recurse": "false",
        "fetch.recurseSubmodules": "false",
        "fetch.negotiationAlgorithm": "noop",
        "fetch.writeCommitGraph": "false",
        "fetch.unpackLimit": "1",
        "fetch.fsckObjects": "true",
        **{f"fetch.fsck.{name}": "ignore" for name in _BENIGN},
        "transfer.bundleURI": "false",
        "protocol.version": "2",
        "http.followRedirects": "false",
        "http.lowSpeedLimit": "1",
        "http.lowSpeedTime": str(limits.stall_s),
        "pack.threads": "1",
        "core.deltaBaseCacheLimit": "32m",
        "core.bigFileThreshold": "16m",
        "core.packedGitWindowSize": "16m",
        "core.packedGitLimit": "128m",
    }


def _network(address: str) -> dict[str, str]:
    """The proxy and the certificates that our other requests use; loopback is never asked through a proxy."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    if not proxy or transport.is_loopback(host) or urllib.request.proxy_bypass(host):
        found = {"no_proxy": "*"}
    else:
        found = {f"{parts.scheme}_proxy": proxy}
    if bundle := os.environ.get("SSL_CERT_FILE"):
        found["GIT_SSL_CAINFO"] = bundle
    return found
