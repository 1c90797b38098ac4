"""Git smart HTTP for clones: `git upload-pack` behind the two addresses that git asks."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from shutil import which
from typing import IO
from urllib.parse import unquote

from tracker.demo.catfile import git_environment
from tracker.demo.store import Refusal, Store
from tracker.demo.wire import Request, Response

_PATH = re.compile(r"/([^/]+/[^/]+?)(\.git)?/(info/refs|git-upload-pack)")
_PROTOCOL = re.compile(r"version=[0-2]")
_CHUNK = 64 << 10
_NO_CACHE = {"Cache-Control": "no-cache, max-age=0, must-revalidate"}


def is_git(path: str) -> bool:
    """Whether an unquoted path is one of git's."""
    return _PATH.fullmatch(path) is not None


def answer(store: Store, request: Request) -> Response:
    """Answer git; raises Refusal or Moved."""
    found = _PATH.fullmatch(request.raw_path)
    if found is None:
        raise Refusal(404, "Not found")
    model = store.readable(request, unquote(found[1]))
    protocol = request.header("git-protocol") or ""
    environment = git_environment(GIT_PROTOCOL=protocol) if _PROTOCOL.fullmatch(protocol) else git_environment()
    command = [which("git") or "git", "upload-pack", "--strict", "--stateless-rpc"]
    if found[3] == "git-upload-pack":
        body = _stream([*command, str(model.repo.path)], request.body, environment)
        kind = "application/x-git-upload-pack-result"
        return Response(headers={"Content-Type": kind} | _NO_CACHE, body=body)
    if request.first("service") != "git-upload-pack":
        raise Refusal(403, "Pushing is not served here")
    done = subprocess.run(  # noqa: S603 - a fixed command on a folder of our own
        [*command, "--advertise-refs", str(model.repo.path)], env=environment, capture_output=True, check=False
    )
    # protocol v2 has no service line (gitprotocol-http)
    service = b"" if protocol == "version=2" else b"001e# service=git-upload-pack\n0000"
    kind = "application/x-git-upload-pack-advertisement"
    return Response(headers={"Content-Type": kind} | _NO_CACHE, body=service + done.stdout)


def _stream(command: list[str], body: bytes, environment: dict[str, str]) -> Iterator[bytes]:
    with subprocess.Popen(  # noqa: S603 - a fixed command on a folder of our own
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        if process.stdin is None or process.stdout is None:
            return
        feeder = threading.Thread(target=_feed, args=(process.stdin, body), daemon=True)
        feeder.start()
        try:
            while piece := process.stdout.read1(_CHUNK):  # type: ignore[attr-defined]
                yield piece
        finally:
            process.kill()
            feeder.join()


def _feed(pipe: IO[bytes], body: bytes) -> None:
    try:
        with pipe:
            pipe.write(body)
    except OSError:
        return  # upload-pack had its fill, or was ended
