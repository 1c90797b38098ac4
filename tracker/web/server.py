"""The web part of a daemon: uvicorn in a thread of its own, on an address that is known before it serves."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from storage.database import Database
from storage.errors import HubwatchError
from tracker.examine import Examiner
from tracker.loader import Loader
from tracker.settings import Settings
from tracker.vitals import Vitals
from tracker.web.app import create_app
from tracker.web.connections import Impatient
from tracker.web.pages.warm import warm

_START_SECONDS = 15.0


class CannotServe(HubwatchError):
    """The address of the pages cannot be used."""

    code = "web"


@contextmanager
def serving(
    settings: Settings,
    database: Database,
    *,
    loader: Loader | None = None,
    examiner: Examiner | None = None,
    vitals: Vitals | None = None,
) -> Iterator[str]:
    """Serve for as long as the block runs; gives the address, with the port that was really taken.

    ``loader``, ``examiner`` and ``vitals`` are those of the process; without them the application makes its own.
    """
    app = create_app(settings, database, loader=loader, examiner=examiner, vitals=vitals)
    warm(app)
    with running_app(app, settings.host, settings.port) as url:
        yield url


@contextmanager
def running_app(app: FastAPI, host: str, port: int) -> Iterator[str]:
    """Serve an application on an address for as long as the block runs; gives its URL. Port 0 takes a free one."""
    listener = _listen(host, port)
    host, port = listener.getsockname()[:2]
    config = uvicorn.Config(
        app,
        http=Impatient,
        log_level="warning",
        access_log=False,  # `tracker.web.requests` has the lines
        log_config=None,  # by the handlers of `tracker.log`, in their shape
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=3,  # event streams look every second whether they are to end
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True, name="web")
    thread.start()
    try:
        until = time.monotonic() + _START_SECONDS
        while not server.started and thread.is_alive() and time.monotonic() < until:
            time.sleep(0.01)
        if not server.started:
            raise CannotServe(f"the pages did not start on {host}:{port}", help="see the log above")
        yield f"http://{'[' + host + ']' if ':' in host else host}:{port}/"
    finally:
        app.state.closing.set()
        server.should_exit = True
        thread.join(timeout=10)
        listener.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # named as TCP, or asyncio leaves Nagle's algorithm on, and a kept connection waits 40 ms for each body
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise CannotServe(
            f"cannot listen on {host}:{port}: {error.strerror}", help="set HUBWATCH_PORT to a free port, or 0"
        ) from None
    return listener
