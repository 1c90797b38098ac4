"""Which addresses a message may be sent to: a webhook must not reach what only this machine can reach.

A name is resolved once, every address is judged, and the connection is made to the very address that was
judged. Nothing is resolved twice, so a name that answers differently the second time gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor

from advisories.notify.interface import CannotSend

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Resolving blocks and cannot be stopped: it has threads of its own, which nobody waits for at the end.
_RESOLVERS = ThreadPoolExecutor(16, thread_name_prefix="resolve")
# Answered inside clouds although the address looks public.
_METADATA = frozenset({ipaddress.ip_address("168.63.129.16")})
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_HELP = "use --allow-private for a receiver inside your own network"


def is_public(address: Address) -> bool:
    """Whether an address is on the public internet, looked at through every way of wrapping IPv4 in IPv6."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = _wrapped(address)
        if inner is not None:
            return is_public(inner)
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not address.is_unspecified
        and address not in _METADATA
    )


def _wrapped(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    return address.teredo[1] if address.teredo is not None else None


async def allowed_addresses(host: str, port: int, *, allow_private: bool) -> list[str]:
    """The addresses of a host that may be connected to, in the resolver's order.

    Raises CannotSend when it has none: it does not resolve, or only to private, loopback, link-local,
    metadata or otherwise special addresses.
    """
    loop = asyncio.get_running_loop()
    return judge(host, await loop.run_in_executor(_RESOLVERS, resolve, host, port), allow_private=allow_private)


def resolve(host: str, port: int) -> list[str]:
    """Every address the system's resolver gives for a host; raises CannotSend when there is none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise CannotSend(f"the host {host[:200]} has no address", help="check the name") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def judge(host: str, addresses: list[str], *, allow_private: bool) -> list[str]:
    """The addresses that may be connected to; raises CannotSend when none is left."""
    allowed = [text for text in addresses if allow_private or is_public(_parse(text))]
    if not allowed:
        raise CannotSend(f"the host {host[:200]} is not on the public internet", help=_HELP)
    return allowed


def _parse(text: str) -> Address:
    return ipaddress.ip_address(text.partition("%")[0])
