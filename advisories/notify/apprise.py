"""Chat and mail by apprise URLs (https://github.com/caronc/apprise), the extra ``notify``.

Which schemes may be used is an allow-list: apprise also knows some that run programs, write to the desktop or
post to any address.
"""

from __future__ import annotations

import importlib.util
import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from advisories.notify.interface import Answer, Message, Target
from advisories.notify.render import text_of, title_of
from storage.errors import UsageError

_NEEDED = "install hubwatch[notify]"


@dataclass(frozen=True, slots=True)
class Chat:
    """Sends a title and Markdown by apprise."""

    name: str = "apprise"
    signs: bool = False

    def takes(self, scheme: str) -> bool:
        """Everything that is not a webhook: the allow-list and apprise say what of it works."""
        return scheme not in {"http", "https"} and scheme.isidentifier()

    def check(self, target: Target) -> None:
        """Refuse schemes off the allow-list, and what apprise cannot read."""
        scheme = _scheme(target.url)
        if scheme not in target.schemes:
            allowed = ", ".join(sorted(target.schemes))
            raise UsageError(f"{scheme}:// is not allowed", help=f"allowed are {allowed} (setting notify.schemes)")
        if not installed():
            raise UsageError("apprise is not installed", help=_NEEDED)
        if _service(target.url) is None:
            raise UsageError(
                f"apprise cannot read this {scheme}:// URL", help="see the service's page in the apprise manual"
            )

    def shown(self, url: str) -> str:
        """The scheme alone: everything else can be a token."""
        return f"{_scheme(url)}://…"

    def send(self, target: Target, message: Message, *, now: datetime) -> Answer:
        """Send once. Apprise says whether it worked, and its own words may hold tokens: they are not kept."""
        scheme = _scheme(target.url)
        if scheme not in target.schemes:
            return Answer(delivered=False, error=f"{scheme}:// is not allowed (setting notify.schemes)")
        if not installed():
            return Answer(delivered=False, error=f"apprise is not installed: {_NEEDED}")
        service = _service(target.url)
        if service is None:
            return Answer(delivered=False, error=f"apprise cannot read this {scheme}:// URL")
        sent = service.notify(title=title_of(message.body), body=text_of(message.body), body_format="markdown")
        return Answer(delivered=bool(sent), error=None if sent else f"{scheme} did not take the message")


NOTIFIER = Chat()


def installed() -> bool:
    """Whether the extra ``notify`` is there."""
    return importlib.util.find_spec("apprise") is not None


def _scheme(url: str) -> str:
    return url.partition("://")[0].lower()


def _service(url: str) -> Any:
    """Apprise with one address; None when it cannot read it. Keeps nothing on disk and loads no plugins."""
    import apprise

    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
    asset = apprise.AppriseAsset(
        app_id="hubwatch", app_desc="hubwatch", plugin_paths=[], storage_path=None, storage_mode="memory"
    )
    service = apprise.Apprise(asset=asset)
    return service if service.add(url) else None
