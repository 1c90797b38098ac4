"""How bytes reach the Hub: one HTTP session under huggingface_hub, in which every wait has an end.

The library's stock client has no timeout on lists, sleeps through 429s and follows redirects. This module
installs its own client factory, so that whatever the library sends goes through here:

* a deadline over a whole operation, enforced at the socket (a trickling header or body hits it too);
* a 429 becomes `RateLimited` at once, a broken connection `Unreachable`: errors that the library's retry
  loops do not catch, so that no thread ever sleeps on the Hub's behalf;
* redirects are answers, not followed; cookies are not kept; connections are kept and shared by all threads.

The factory is global to the process, by the library's design. What differs between clients (deadline,
time limits, who wants to see the rate limit headers) is therefore in a context variable, set per operation.
"""

from __future__ import annotations

import ipaddress
import logging
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from urllib.parse import SplitResult, unquote, urlsplit

import httpcore2
import httpx2
import structlog
from huggingface_hub import get_session, set_client_factory

from tracker import metrics
from tracker.hub.deadline import DeadlineBackend, current_operation
from tracker.hub.errors import RateLimited, Unreachable, UpstreamFault
from tracker.hub.limits import parse_pause

MAX_CONNECTIONS = 64
KEEP_ALIVE_S = 30.0

UNREACHABLE_HELP = (
    "check HF_ENDPOINT and your network; nothing was lost, the next poll goes on from where this one stopped"
)
PAUSE_HELP = (
    "nothing to do: every call waits until the Hub's window is over; a token (HF_TOKEN) has a larger quota"
)

log = structlog.get_logger("hubwatch.hub")


class DeadlineTransport(httpx2.BaseTransport):
    """Sends requests through pools of kept connections, straight or by the proxies of the environment."""

    def __init__(self) -> None:
        self._ssl = httpx2.create_ssl_context()
        self._proxies: Mapping[str, str] = urllib.request.getproxies()
        self._pools: dict[str, httpcore2.ConnectionPool] = {}
        self._lock = threading.Lock()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; raises `Unreachable` for everything that can break underneath."""
        now = current_operation()
        where = f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"
        limits = {"connect": now.connect_s, "read": now.read_s, "write": now.read_s, "pool": now.remaining()}
        outgoing = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions={**request.extensions, "timeout": limits},
        )
        with _seen(request) as seen, _reaching(where):
            response = self._pool(request.url).handle_request(outgoing)
            seen.append(response.status)
        return httpx2.Response(
            status_code=response.status,
            headers=response.headers,
            stream=_Body(response, where),
            extensions=response.extensions,
        )

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            pools, self._pools = list(self._pools.values()), {}
        for pool in pools:
            pool.close()

    def _pool(self, url: httpx2.URL) -> httpcore2.ConnectionPool:
        proxy = _proxy_for(url, self._proxies)
        with self._lock:
            if proxy not in self._pools:
                self._pools[proxy] = self._open_pool(proxy)
            return self._pools[proxy]

    def _open_pool(self, proxy: str) -> httpcore2.ConnectionPool:
        if not proxy:
            return httpcore2.ConnectionPool(
                ssl_context=self._ssl,
                max_connections=MAX_CONNECTIONS,
                max_keepalive_connections=MAX_CONNECTIONS,
                keepalive_expiry=KEEP_ALIVE_S,
                network_backend=DeadlineBackend(),
            )
        parts = urlsplit(proxy)
        if parts.scheme not in ("http", "https"):
            raise Unreachable(
                f"a {parts.scheme or 'nameless'} proxy is set in the environment",
                help="set HTTPS_PROXY to an http:// or https:// proxy, or unset it",
            )
        bare = SplitResult(parts.scheme, parts.netloc.rpartition("@")[2], "", "", "").geturl()
        auth = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
        return httpcore2.HTTPProxy(
            proxy_url=bare,
            proxy_auth=auth,
            ssl_context=self._ssl,
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_CONNECTIONS,
            keepalive_expiry=KEEP_ALIVE_S,
            network_backend=DeadlineBackend(),
        )


@contextmanager
def _seen(request: httpx2.Request) -> Iterator[list[int]]:
    """Count and time a request; the block puts in the status that was answered, or breaks.

    The query is never told: that of a storage address is as good as a password, and so may its path be.
    """
    kind = metrics.kind_of(request.url.path)
    status: list[int] = []
    began = time.monotonic()
    try:
        yield status
    finally:
        seconds = time.monotonic() - began
        answered = status[0] if status else None
        metrics.requested(kind, answered, seconds)
        if structlog.is_configured():  # else this is a library in somebody's program, where all would be printed
            log.debug(
                "hub request",
                method=request.method,
                host=request.url.host,
                path=None if kind == "storage" else request.url.path,
                kind=kind,
                status=answered,
                ms=round(seconds * 1000),
            )


class _Body(httpx2.SyncByteStream):
    """A response body whose every failure is ours to name."""

    def __init__(self, response: httpcore2.Response, where: str) -> None:
        self._response = response
        self._where = where

    def __iter__(self) -> Iterator[bytes]:
        with _reaching(self._where):
            yield from self._response.iter_stream()

    def close(self) -> None:
        self._response.close()


@contextmanager
def _reaching(where: str) -> Iterator[None]:
    try:
        yield
    except httpcore2.TimeoutException:
        over = current_operation().remaining() <= 0
        what = "the time for this operation is over" if over else "no answer in time"
        raise Unreachable(f"{where}: {what}", help=UNREACHABLE_HELP) from None
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.ProxyError) as error:
        raise Unreachable(f"{where}: {_short(error)}", help=UNREACHABLE_HELP) from None
    except httpcore2.UnsupportedProtocol:
        raise UpstreamFault(f"{where}: not an http or https address", help="check HF_ENDPOINT") from None


def _short(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


def _proxy_for(url: httpx2.URL, proxies: Mapping[str, str]) -> str:
    """The proxy for a URL, "" for none; loopback is never asked through a proxy."""
    proxy = proxies.get(url.scheme) or proxies.get("all") or ""
    if not proxy or is_loopback(url.host) or urllib.request.proxy_bypass(url.host):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _on_response(response: httpx2.Response) -> None:
    observe = current_operation().observe
    if observe is not None:
        observe(response)
    if response.status_code == 429:
        seconds = parse_pause(response.headers, datetime.now(UTC))
        raise RateLimited(
            f"{response.url.host} asks for a pause of {seconds:.0f} s", seconds=seconds, help=PAUSE_HELP
        )


class HubSession(httpx2.Client):
    """The session that huggingface_hub gets from our factory; its type tells that the factory is in place."""


def make_session() -> HubSession:
    """Build the session: no redirects, no cookies, no environment but its proxies, the 429 hook."""
    return HubSession(
        transport=DeadlineTransport(),
        trust_env=False,
        follow_redirects=False,
        timeout=None,
        cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
        event_hooks={"response": [_on_response]},
    )


class _Install:
    """Whether the factory was given to the library; never ask it for a session before that."""

    lock = threading.Lock()
    done = False


def session() -> HubSession:
    """The process's one session, put under huggingface_hub on first use, and again if it was taken out."""
    current = get_session() if _Install.done else None
    if isinstance(current, HubSession):
        return current
    with _Install.lock:
        current = get_session() if _Install.done else None
        if not isinstance(current, HubSession):
            _quieten()
            set_client_factory(make_session)
            _Install.done = True
            current = get_session()
    if not isinstance(current, HubSession):
        raise Unreachable("another HTTP client keeps replacing ours", help="run hubwatch in a process of its own")
    return current


def _quieten() -> None:
    """Keep request lines out of the log: a signed storage address in one is as good as a password."""
    for name in ("httpx2", "httpcore2"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)
