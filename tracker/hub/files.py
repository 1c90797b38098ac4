"""Files by ``/resolve``: small ones whole and verified by hash, weights by the range of their header.

Redirects are followed by hand. Within the origin (``/api/resolve-cache``, a renamed repo) the token goes
along; to another host, the storage, only an LFS file may lead, and never the token. A signed storage
address that has expired is asked for once more.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import hf_hub_url

from storage.model import FileEntry, RepoRef
from tracker.hub import fields
from tracker.hub.answers import ENDPOINT_HELP, FAULT_HELP, plain
from tracker.hub.errors import Corrupt, Malformed, Nameless, TooLarge, UpstreamFault
from tracker.hub.wire import MAX_HOPS, MAX_SMALL, REDIRECTS, Wire, joined, origin, where

FIRST_RANGE = 100_000
"""Bytes asked for first: most safetensors headers are shorter, so that one range is enough."""
LENGTH_BYTES = 8
"""A safetensors file begins with the length of its header: 8 bytes, little-endian, unsigned."""

CORRUPT_HELP = "nothing to do: what was read is thrown away and asked for again at the next check"
MALFORMED_HELP = "nothing to do: the file is listed, but what is in it cannot be told"
_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)", re.ASCII)


class _LinkExpired(UpstreamFault):
    """The storage refuses a signed address."""


def read_content(wire: Wire, repo: RepoRef, revision: str, entry: FileEntry) -> bytes:
    """The whole file, equal to its hash. See `Upstream.content`.

    Raises:
        Corrupt: Twice other bytes than the tree's hash and size say.
        Malformed: Both times the same ones: not the way here is at fault, this is what the Hub holds.

    """
    told = f"{repo.id}: {plain(entry.path)} is not what the tree lists"
    wrong: list[bytes] = []

    def attempt(fresh: bool) -> bytes:
        with _opened(wire, repo, revision, entry, {}, fresh=fresh) as response:
            body = wire.read(response, entry.size) if response.status_code == 200 else None
        if body is None or not matches(body, entry):
            wrong.append(hashlib.sha256(body or b"").digest())
            raise Corrupt(told, help=CORRUPT_HELP)
        return body

    try:
        return _twice(attempt)
    except Corrupt:
        if len(wrong) == 2 and wrong[0] == wrong[1]:
            raise Malformed(told, help=MALFORMED_HELP) from None
        raise


def read_header(wire: Wire, repo: RepoRef, revision: str, entry: FileEntry, *, limit: int) -> bytes:
    """A weight file's header, in at most two ranges. See `Upstream.header`.

    Raises:
        TooLarge: The announced header is longer than ``limit`` (the 8 length bytes included).
        Corrupt: The file cannot hold the header it announces, or a range came back wrong twice.

    """
    if not entry.path.lower().endswith(".safetensors"):
        return _range(wire, repo, revision, entry, start=0, stop=min(limit, entry.size))
    if entry.size < LENGTH_BYTES:
        raise Malformed(f"{repo.id}: {plain(entry.path)} is too short to be safetensors", help=MALFORMED_HELP)
    first = min(entry.size, max(LENGTH_BYTES, min(limit, FIRST_RANGE)))
    start = _range(wire, repo, revision, entry, start=0, stop=first)
    length = LENGTH_BYTES + int.from_bytes(start[:LENGTH_BYTES], "little")
    if length > entry.size:
        raise Malformed(
            f"{repo.id}: {plain(entry.path)} announces a header of {length} bytes in {entry.size}",
            help=MALFORMED_HELP,
        )
    if length > limit:
        raise TooLarge(
            f"{repo.id}: the header of {plain(entry.path)} has {length} bytes, more than {limit}",
            help="the file is listed, but its tensors are not read",
        )
    if length > len(start):
        start += _range(wire, repo, revision, entry, start=len(start), stop=length)
    return start[:length]


def read_part(wire: Wire, repo: RepoRef, revision: str, entry: FileEntry, *, start: int, stop: int) -> bytes:
    """Some bytes of a file. See `Upstream.part`.

    Raises:
        Corrupt: The range came back wrong twice, or lies outside the file.

    """
    if not 0 <= start <= stop <= entry.size:
        raise Corrupt(f"{repo.id}: no bytes {start} to {stop} in {plain(entry.path)}", help=CORRUPT_HELP)
    return _range(wire, repo, revision, entry, start=start, stop=stop)


def _range(wire: Wire, repo: RepoRef, revision: str, entry: FileEntry, *, start: int, stop: int) -> bytes:
    """The bytes from ``start`` up to, without, ``stop``: exactly so many, or Corrupt."""
    if start >= stop:
        return b""

    def attempt(fresh: bool) -> bytes:
        asked = {"range": f"bytes={start}-{stop - 1}"}
        with _opened(wire, repo, revision, entry, asked, fresh=fresh) as response:
            if response.status_code == 206:
                found = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
                first, last, size = found.groups() if found else ("", "", "")
                right = (first, last) == (str(start), str(stop - 1)) and size in (str(entry.size), "*")
                data = wire.read(response, stop - start) if right else None
            else:
                # the range was not understood: take what leads up to it and hang up, instead of the weights
                data = _prefix(response, stop)[start:]
        if data is None or len(data) != stop - start:
            raise Corrupt(f"{repo.id}: a range of {plain(entry.path)} came back wrong", help=CORRUPT_HELP)
        return data

    return _twice(attempt)


def _prefix(response: httpx2.Response, size: int) -> bytes:
    got = bytearray()
    for chunk in response.iter_bytes():
        got += chunk
        if len(got) >= size:
            break
    return bytes(got[:size])


def _twice(attempt: Callable[[bool], bytes]) -> bytes:
    """Try, and once more afresh when bytes or a signature were bad."""
    try:
        return attempt(False)
    except (Corrupt, _LinkExpired):
        return attempt(True)


@contextmanager
def _opened(
    wire: Wire, repo: RepoRef, revision: str, entry: FileEntry, headers: dict[str, str], *, fresh: bool
) -> Iterator[httpx2.Response]:
    """The response that carries the file (200 or 206), its body unread."""
    if fields.is_unsafe(entry.path):
        raise Nameless(f"{repo.id}: a file has a name that cannot be asked for", help=FAULT_HELP)
    url = hf_hub_url(repo.id, entry.path, revision=revision, endpoint=wire.endpoint)
    sent = {"accept-encoding": "identity", **headers} | ({"cache-control": "no-cache"} if fresh else {})
    for _ in range(MAX_HOPS):
        with wire.open(url, sent) as response:
            if response.status_code in REDIRECTS:
                if "range" in headers:
                    _check_linked(response, entry, repo)
                target = joined(url, response.headers.get("location", ""))
                wire.read(response, MAX_SMALL)
                url = _followed(wire, url, target, entry)
                continue
            if response.status_code in (401, 403) and not wire.owns(url):
                raise _LinkExpired(f"{where(url)}: the storage refuses the signed address", help=FAULT_HELP)
            if response.status_code == 416:
                raise Corrupt(f"{repo.id}: {plain(entry.path)} is shorter than the tree lists", help=CORRUPT_HELP)
            if response.status_code >= 400:
                raise wire.fail(response, is_file=True)
            if response.status_code not in (200, 206):
                raise UpstreamFault(f"{where(url)} answered {response.status_code}", help=ENDPOINT_HELP)
            yield response
            return
    raise UpstreamFault(f"{where(url)}: more than {MAX_HOPS} redirects", help=FAULT_HELP)


def _followed(wire: Wire, url: str, target: str, entry: FileEntry) -> str:
    """The redirect's target, if it may be followed."""
    at_home, stays = wire.owns(url), wire.owns(target)
    if at_home and stays:
        return target
    place = origin(target)
    # over plain http only where the endpoint itself is asked so
    fit = place is not None and place[0] in ("https", urlsplit(wire.endpoint).scheme)
    if stays or entry.lfs_sha256 is None or not fit:
        raise UpstreamFault(f"{where(url)}: redirected to a place that is not followed", help=ENDPOINT_HELP)
    return target


def _check_linked(response: httpx2.Response, entry: FileEntry, repo: RepoRef) -> None:
    """Hold what the Hub says of the content (hash, size) against the tree: part of a file has no other check."""
    tag = response.headers.get("x-linked-etag", "").removeprefix("W/").strip('"')
    size = response.headers.get("x-linked-size", str(entry.size))
    wrong_tag = fields.is_sha(tag) and tag != (entry.lfs_sha256 or entry.blob_id)
    if wrong_tag or size != str(entry.size):
        raise Corrupt(f"{repo.id}: the Hub has another {plain(entry.path)} than the tree lists", help=CORRUPT_HELP)


def matches(body: bytes, entry: FileEntry) -> bool:
    """Whether these bytes are the whole file that a tree lists: its size, and its sha256 or git blob id."""
    if len(body) != entry.size:
        return False
    if entry.lfs_sha256 is not None:
        return hashlib.sha256(body).hexdigest() == entry.lfs_sha256
    # git's object id: the hash of a header and the content, sha1 or, in sha256 repos, sha256
    algorithm = "sha1" if len(entry.blob_id) == 40 else "sha256"
    blob = hashlib.new(algorithm, b"blob %d\0" % len(body), usedforsecurity=False)
    blob.update(body)
    return blob.hexdigest() == entry.blob_id
