"""The rate limit counts for real, in a fixed window, for each bucket and caller."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.tracker.demo.conftest import Reply
from tracker.demo.files import LargeFile
from tracker.demo.hub import LoopbackHub


def test_a_spent_window_refuses_until_it_ends(tmp_path: Path, ask: Callable[..., Reply]) -> None:
    now = [1_000_000.0]
    with LoopbackHub(tmp_path, quota={"api": 2, "resolvers": 1}, clock=lambda: now[0]) as hub:
        hub.tokens = {"hf_good": set()}
        hub.create("acme/tiny").commit({"config.json": "{}", "w.bin": LargeFile(b"", 10)})
        info, file = f"{hub.url}/api/models/acme/tiny", f"{hub.url}/acme/tiny/resolve/main/config.json"
        first = ask(info)
        assert first.headers["ratelimit"] == '"api";r=1;t=300'
        assert first.headers["ratelimit-policy"] == '"fixed window";"api";q=2;w=300'
        now[0] += 100
        assert ask(f"{hub.url}/api/models/acme/none").headers["ratelimit"] == '"api";r=0;t=200'
        spent = ask(info)
        assert (spent.status, spent.headers["ratelimit"]) == (429, '"api";r=0;t=200')
        # other buckets and other callers have their own
        redirect = ask(file)
        assert (redirect.status, redirect.headers["ratelimit"]) == (307, '"resolvers";r=0;t=300')
        assert ask(hub.url + redirect.headers["location"]).status == 429
        assert ask(info, Authorization="Bearer hf_good").status == 200
        now[0] += 200
        assert ask(info).status == 200
        hub.limits.quota["api"] = 0
        hub.limits.reset()
        assert ask(info).status == 429
        assert hub.counts() == {"api": 6, "resolve": 2}


def test_signed_links_expire_by_the_hub_clock(tmp_path: Path, ask: Callable[..., Reply]) -> None:
    now = [1_000_000.0]
    with LoopbackHub(tmp_path, clock=lambda: now[0]) as hub:
        hub.create("acme/tiny").commit({"w.bin": LargeFile(b"", 10)})
        link = ask(f"{hub.url}/acme/tiny/resolve/main/w.bin").headers["location"]
        assert ask(link).status == 200
        now[0] += 3600
        assert ask(link).status == 403
