"""One request to the Hub, and what may go with it: the token to its own origin only, redirects by hand."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import metadata
from io import BytesIO
from urllib.parse import urlencode, urljoin, urlsplit

import httpx2
from huggingface_hub import constants
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # exported lazily

from storage.errors import UsageError
from storage.model import Json, RepoRef
from tracker.hub import transport
from tracker.hub.answers import ENDPOINT_HELP, FAULT_HELP, plain, refusal
from tracker.hub.budget import Gate
from tracker.hub.deadline import operation
from tracker.hub.errors import HubError, RateLimited, UpstreamFault
from tracker.hub.limits import Budget, parse_budgets, parse_pause

MAX_JSON = 64 * 1024 * 1024
"""Bytes of one JSON answer, unpacked. A page of 1,000 commits with long messages is about 2 MB."""
MAX_SMALL = 64 * 1024
"""Bytes read of an answer that only has to be got out of the way (redirects, errors)."""
MAX_HOPS = 5
"""Redirects followed for one question."""
MAX_BUDGETS = 8
QUOTAS = ("api", "resolvers")
"""The quotas that we pay into; what else an answer names is only remembered."""
REDIRECTS = (301, 302, 303, 307, 308)

Origin = tuple[str, str, int]
_MODEL_PATH = re.compile(r"(/api/models/)([^/]+/[^/]+)(/.*)?", re.DOTALL)


def origin(url: str) -> Origin | None:
    """Scheme, host and port of an http(s) URL; None for anything else, user names in it included."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        return None
    return parts.scheme, parts.hostname.lower(), port or (443 if parts.scheme == "https" else 80)


def joined(url: str, link: str) -> str:
    """A link as seen from a URL; "" when it is none, which is on no origin."""
    try:
        return urljoin(url, link)
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A good answer, read: the JSON, the headers, and the URL that gave it after redirects."""

    url: str
    headers: Mapping[str, str]
    value: Json


class Wire:
    """Talks to one endpoint with one token. Shared by threads.

    Args:
        endpoint: Where requests go (``HF_ENDPOINT``); a path prefix is kept.
        token: Sent to the endpoint's origin and nowhere else; None reads anonymously, whatever is logged in.
        deadline_s: Seconds for one operation, all its requests and bodies included.
        connect_s: Seconds for one connect.
        read_s: Seconds for one silence.
        clock: The wall clock, for rate limit windows.
        gate: What every request to the endpoint's origin passes; None lets all through.

    Raises:
        UsageError: The endpoint is no http(s) URL, or the token cannot be one.

    """

    def __init__(
        self,
        endpoint: str,
        token: str | None,
        *,
        deadline_s: float,
        connect_s: float,
        read_s: float,
        clock: Callable[[], datetime],
        gate: Gate | None = None,
    ) -> None:
        self.endpoint = endpoint.strip().rstrip("/")
        self.origin = origin(self.endpoint)
        if self.origin is None or urlsplit(self.endpoint).query or urlsplit(self.endpoint).fragment:
            raise UsageError(
                "HF_ENDPOINT is not an http or https address", help="write it like https://huggingface.co"
            )
        self._token = (token or "").strip() or None
        if self._token and not re.fullmatch(r"[!-~]{1,4096}", self._token, re.ASCII):
            raise UsageError("HF_TOKEN is not a token", help="set HF_TOKEN to a valid token or unset it")
        self._headers = self._build_headers(self._token)
        self._anonymous = self._build_headers(None)
        self._deadline_s, self._connect_s, self._read_s = deadline_s, connect_s, read_s
        self._clock = clock
        self._gate = gate
        self._lock = threading.Lock()
        self._budgets: dict[str, Budget] = {}
        self._paused_until: datetime | None = None

    @property
    def has_token(self) -> bool:
        """Whether a token goes along."""
        return self._token is not None

    @property
    def budgets(self) -> dict[str, Budget]:
        """The Hub's quotas by name, as last told."""
        with self._lock:
            return dict(self._budgets)

    @property
    def paused_until(self) -> datetime | None:
        """The end of the pause that the last 429 asked for."""
        with self._lock:
            return self._paused_until

    def resume(self) -> None:
        """Forget pauses and spent windows."""
        with self._lock:
            self._paused_until = None
            self._budgets = {name: budget for name, budget in self._budgets.items() if budget.remaining}

    @contextmanager
    def operation(self, seconds: float | None = None) -> Iterator[None]:
        """Everything inside shares one deadline of ``seconds`` (default: the client's)."""
        limit = self._deadline_s if seconds is None else seconds
        with operation(limit, connect_s=self._connect_s, read_s=self._read_s, observe=self._observe):
            yield

    def owns(self, url: str) -> bool:
        """Whether a URL is on the endpoint's origin: scheme, host and port."""
        return origin(url) == self.origin

    @contextmanager
    def open(
        self, url: str, headers: Mapping[str, str] | None = None, *, method: str = "GET"
    ) -> Iterator[httpx2.Response]:
        """Send one request and give its response, body unread; the token goes along on our own origin only.

        Raises RateLimited without asking while the Hub's window, or our share of it, is spent.
        """
        authorized = self.owns(url)
        if authorized:
            self._hold(url)
        sent = {**(self._headers if authorized else self._anonymous), **(headers or {})}
        try:
            with transport.session().stream(method, url, headers=sent) as response:
                yield response
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL) as error:
            raise UpstreamFault(
                f"{where(url)}: unreadable answer ({type(error).__name__})", help=FAULT_HELP
            ) from None

    def read(self, response: httpx2.Response, limit: int) -> bytes | None:
        """The body, unpacked, up to ``limit`` bytes; None when there is more (the rest stays unread)."""
        body = BytesIO()  # which gives its own bytes away: a list of parts would be there beside the whole
        for chunk in response.iter_bytes():
            if body.tell() + len(chunk) > limit:
                return None
            body.write(chunk)
        return body.getvalue()

    def fail(self, response: httpx2.Response, *, is_file: bool = False) -> HubError:
        """The error that a response of 400 or more stands for; reads the start of its body."""
        error = refusal(
            status=response.status_code,
            headers=response.headers,
            body=self.read(response, MAX_SMALL) or b"",
            where=where(str(response.url)),
            has_token=self.has_token,
            is_file=is_file,
        )
        if self._token:
            error.message = error.message.replace(self._token, "***")
            error.args = (error.message,)
        return error

    def get(self, path: str, params: list[tuple[str, str]] | None = None) -> Answer:
        """Ask an API path and read its JSON; see `get_url`."""
        query = f"?{urlencode(params)}" if params else ""
        return self.get_url(f"{self.endpoint}{path}{query}")

    def get_url(self, url: str) -> Answer:
        """Ask an API URL of our origin and read its JSON, following a rename within the origin by hand."""
        for _ in range(MAX_HOPS):
            with self.open(url) as response:
                if response.status_code in REDIRECTS:
                    url = self._renamed(url, response)
                    continue
                if response.status_code >= 400:
                    raise self.fail(response)
                body = self.read(response, MAX_JSON)
                headers = dict(response.headers)
            return Answer(url=url, headers=headers, value=_parsed(body, url))
        raise UpstreamFault(f"{where(url)}: more than {MAX_HOPS} redirects", help=FAULT_HELP)

    def _renamed(self, url: str, response: httpx2.Response) -> str:
        """Where a moved repo's API answers: the same question at another name, on the same origin."""
        self.read(response, MAX_SMALL)
        target = joined(url, response.headers.get("location", ""))
        if not self.owns(target):
            raise UpstreamFault(f"{where(url)}: redirected to another host, not followed", help=ENDPOINT_HELP)
        old, new = (_MODEL_PATH.search(urlsplit(link).path) for link in (url, target))
        if not old or not new or old.group(3) != new.group(3):
            raise UpstreamFault(f"{where(url)}: redirected to another place, not followed", help=ENDPOINT_HELP)
        try:
            RepoRef.parse(new.group(2))
        except UsageError:
            raise UpstreamFault(f"{where(url)}: redirected to no repo's name", help=ENDPOINT_HELP) from None
        asked = urlsplit(url).query
        return target if urlsplit(target).query or not asked else f"{target}?{asked}"

    def _hold(self, url: str) -> None:
        now = self._clock()
        path = urlsplit(url).path
        name = "api" if "/api/" in path and "/api/resolve-cache/" not in path else "resolvers"
        with self._lock:
            budget, paused = self._budgets.get(name), self._paused_until
        wait = max(budget.wait(now) if budget else 0.0, (paused - now).total_seconds() if paused else 0.0, 0.0)
        if wait > 0:
            raise RateLimited(
                f"the Hub's window is spent for {wait:.0f} s more", seconds=wait, help=transport.PAUSE_HELP
            )
        if self._gate is not None:
            self._gate.take(name)

    def _observe(self, response: httpx2.Response) -> None:
        now = self._clock()
        ours = self.owns(str(response.url))
        if ours:
            told = parse_budgets(response.headers, now)[:MAX_BUDGETS]
            with self._lock:
                for budget in told:
                    if budget.name in self._budgets or len(self._budgets) < MAX_BUDGETS:
                        self._budgets[budget.name] = budget
            if self._gate is not None:
                self._gate.learn([budget for budget in told if budget.name in QUOTAS])
        if response.status_code == 429:
            seconds = parse_pause(response.headers, now)
            if ours:
                with self._lock:
                    until = now + timedelta(seconds=seconds)
                    self._paused_until = max(until, self._paused_until or until)
            raise RateLimited(
                f"{response.url.host} asks for a pause of {seconds:.0f} s",
                seconds=seconds,
                help=transport.PAUSE_HELP,
            )

    @staticmethod
    def _build_headers(token: str | None) -> dict[str, str]:
        # False, not None: None would send the token of whoever is logged in on this machine
        # With telemetry on, the library asks the Hub for a list of coding agents to put into the user agent:
        # a request that nobody asked for, and one more for every process with a fresh cache.
        constants.HF_HUB_DISABLE_TELEMETRY = True
        return build_hf_headers(token=token or False, library_name="hubwatch", library_version=_version())


def where(url: str) -> str:
    """A URL for messages: no query, which may hold a signature."""
    parts = urlsplit(url)
    return plain(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")


def utc_now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


def _parsed(body: bytes | None, url: str) -> Json:
    if body is None:
        raise UpstreamFault(f"{where(url)}: more than {MAX_JSON} bytes of JSON", help=FAULT_HELP)
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise UpstreamFault(f"{where(url)}: the answer is not JSON", help=ENDPOINT_HELP) from None


def _version() -> str:
    try:
        return metadata.version("hubwatch")
    except metadata.PackageNotFoundError:
        return "0"
