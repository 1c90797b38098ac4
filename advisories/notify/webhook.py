"""Webhooks by the Standard Webhooks specification (https://www.standardwebhooks.com).

Each attempt carries ``webhook-id`` (the same at every attempt), ``webhook-timestamp`` (this attempt's) and
``webhook-signature``. Redirects are not followed: they would lead around the judged address. Proxies from the
environment are not used, for the same reason.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus

import httpx
from standardwebhooks import Webhook as Signer

from advisories.notify import addresses
from advisories.notify.interface import Answer, CannotSend, Message, Target
from advisories.notify.secrets import reveal
from advisories.text import one_line
from storage.errors import UsageError
from storage.model import canonical_json

DEADLINE_SECONDS = 20.0
"""For one attempt, from resolving the name to the last byte read of the answer."""
_CONNECT_SECONDS = 5.0
_READ = 2048  # bytes of a refusal that are looked at, for the log
_EXCERPT_SECONDS = 1.0
_LONGEST_WISH = timedelta(hours=24)
_SCHEMES = {"http": 80, "https": 443}
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Webhook:
    """Posts signed JSON."""

    name: str = "webhook"
    signs: bool = True

    def takes(self, scheme: str) -> bool:
        """Those of the web."""
        return scheme in _SCHEMES

    def check(self, target: Target) -> None:
        """Refuse what is no URL, a secret that cannot be read, and a host known to be inside."""
        url = _parse(target.url)
        try:
            reveal(target.secret)
            addresses.judge(url.host, addresses.resolve(url.host, _port(url)), allow_private=target.allow_private)
        except CannotSend as error:
            if "no address" in error.message:
                return  # it may have one by the time there is something to send
            raise UsageError(error.message, help=error.help) from None

    def shown(self, url: str) -> str:
        """Scheme, host and path: no user, no query."""
        parsed = _parse(url)
        return str(parsed.copy_with(username=None, password=None, query=None, fragment=None))

    def send(self, target: Target, message: Message, *, now: datetime) -> Answer:
        """One attempt, under one deadline."""
        try:
            return asyncio.run(_send(target, message, now))
        except TimeoutError:
            return Answer(delivered=False, silent=True, error=f"no answer within {DEADLINE_SECONDS:g} s")
        except CannotSend as error:
            return Answer(delivered=False, silent=True, error=str(error))


NOTIFIER = Webhook()


def _parse(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
        host = parsed.raw_host.decode("ascii")
        good = parsed.scheme in _SCHEMES and _HOST.fullmatch(host) and 0 < _port(parsed) < 65536
    except (httpx.InvalidURL, TypeError, ValueError):
        good = None
    if not good or len(url) > 2000:
        raise UsageError("this is not a webhook URL", help="write https://host/path")
    return parsed


def _port(url: httpx.URL) -> int:
    return url.port or _SCHEMES[url.scheme]


def headers_of(message: Message, body: str, secret: str, now: datetime) -> dict[str, str]:
    """The headers of one attempt. Raises nothing for a secret that `reveal` gave."""
    return {
        "content-type": "application/json",
        "user-agent": "hubwatch",
        "webhook-id": message.id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Signer(secret).sign(msg_id=message.id, timestamp=now.astimezone(UTC), data=body),
    }


async def _send(target: Target, message: Message, now: datetime) -> Answer:
    url = _parse(target.url)
    body = canonical_json(message.body)
    headers = headers_of(message, body, reveal(target.secret), now)
    async with asyncio.timeout(DEADLINE_SECONDS):
        found = await addresses.allowed_addresses(url.host, _port(url), allow_private=target.allow_private)
        answer = Answer(delivered=False, silent=True, error="no address answered")
        for address in found[:4]:
            answer, connected = await _post(url, address, body, headers, now)
            if connected:
                return answer
        return answer


async def _post(
    url: httpx.URL, address: str, body: str, headers: dict[str, str], now: datetime
) -> tuple[Answer, bool]:
    """Post to one judged address; the name stays in Host, in SNI and in what the certificate must say."""
    pinned = url.copy_with(host=address)
    async with httpx.AsyncClient(
        verify=_tls(),
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(DEADLINE_SECONDS, connect=_CONNECT_SECONDS),
    ) as client:
        request = client.build_request(
            "POST",
            pinned,
            content=body.encode("ascii"),
            headers={**headers, "host": url.netloc.decode("ascii")},
            extensions={"sni_hostname": url.raw_host.decode("ascii")},
        )
        try:
            async with _streamed(client, request) as response:
                excerpt = "" if response.is_success else await _excerpt(response)
                return _judge(response, excerpt, now), True
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            return Answer(delivered=False, silent=True, error=f"cannot connect: {_words(error)}"), False
        except httpx.HTTPError as error:
            return Answer(delivered=False, silent=True, error=f"no answer: {_words(error)}"), True


class _streamed:  # noqa: N801 - used as a function
    """The answer of a prepared request, closed at the end whatever is left of it."""

    def __init__(self, client: httpx.AsyncClient, request: httpx.Request) -> None:
        self._client, self._request = client, request

    async def __aenter__(self) -> httpx.Response:
        self._response = await self._client.send(self._request, stream=True)
        return self._response

    async def __aexit__(self, *_: object) -> None:
        await self._response.aclose()


async def _excerpt(response: httpx.Response) -> str:
    """The beginning of an answer, for the log; the rest is never read, however much there is."""
    read = b""
    try:
        async with asyncio.timeout(_EXCERPT_SECONDS):
            async for chunk in response.aiter_raw():
                read += chunk[: _READ - len(read)]
                if len(read) >= _READ:
                    break
    except (httpx.HTTPError, TimeoutError):
        pass  # the status is what counts, and it is here
    return one_line(read.decode("utf-8", "replace"), 200)


def _judge(response: httpx.Response, excerpt: str, now: datetime) -> Answer:
    status = response.status_code
    if response.is_success:
        return Answer(delivered=True, status=status)
    told = f"{status} {_phrase(status)}".strip()
    if response.is_redirect or 300 <= status < 400:
        told += ": redirects are not followed, subscribe to the new address"
    elif excerpt:
        told += f": {excerpt}"
    return Answer(
        delivered=False,
        status=status,
        error=told,
        gone=status == HTTPStatus.GONE,
        retry_after=_wish(response.headers.get("retry-after"), now),
    )


def _wish(text: str | None, now: datetime) -> timedelta | None:
    """What Retry-After asks for, at most a day."""
    if text is None:
        return None
    try:
        if text.strip().isdecimal():
            wished = timedelta(seconds=min(int(text.strip()[:9]), 10**6))
        else:
            wished = parsedate_to_datetime(text).astimezone(UTC) - now
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(wished, timedelta(0)), _LONGEST_WISH)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _words(error: Exception) -> str:
    return one_line(str(error) or type(error).__name__, 150)


@cache
def _tls() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)
