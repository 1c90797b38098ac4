"""Under the client: deadlines, pauses, the token, one shared session, and the library itself on top of it."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from huggingface_hub import HfApi, get_session, set_client_factory
from huggingface_hub.utils import http_backoff

from storage.errors import UsageError
from storage.model import RepoRef, RepoState
from tests.tracker.hub.scripted import Script, model, reply
from tracker.demo.faults import delay, matching, rate_limited, redirect, stall, stall_body
from tracker.demo.files import LfsFile, safetensors
from tracker.demo.hub import LoopbackHub
from tracker.demo.wire import Request, Response
from tracker.hub import transport
from tracker.hub.client import HubClient
from tracker.hub.errors import AccessDenied, HubError, RateLimited, Unreachable, UpstreamFault

Connect = Callable[..., HubClient]
REPO = RepoRef(owner="acme", name="tiny")
API = "/api/models/acme/tiny"
SECRET = "hf_verySecretToken123"


@pytest.fixture
def no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sleeping in this thread fails the test."""
    main = threading.get_ident()

    def refuse(seconds: float) -> None:
        assert threading.get_ident() != main, f"slept {seconds} s"

    monkeypatch.setattr("time.sleep", refuse)


# --- pauses --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_sleep")
@pytest.mark.parametrize("form", ["ratelimit", "seconds", "date"])
def test_a_429_is_raised_at_once_after_one_request(hub: LoopbackHub, form: str) -> None:
    now = datetime(2026, 10, 1, tzinfo=UTC)
    hub.faults.add(rate_limited(55, form=form, now=now.timestamp()))
    client = HubClient(hub.url, clock=lambda: now)
    with pytest.raises(RateLimited) as caught:
        client.head(REPO)
    assert caught.value.seconds == 55
    assert caught.value.help
    assert len(hub.requests) == 1


@pytest.mark.usefixtures("no_sleep")
def test_after_a_429_every_call_is_held_without_being_sent(hub: LoopbackHub) -> None:
    now = datetime.now(UTC)
    client = HubClient(hub.url, clock=lambda: now)
    sha = hub.create("acme/tiny").commit({"a": "1"})
    fault = hub.faults.add(rate_limited(55))
    with pytest.raises(RateLimited):
        client.head(REPO)
    hub.faults.remove(fault)
    for ask in (
        lambda: client.head(REPO),
        lambda: client.listing("acme"),
        lambda: client.manifest(REPO, sha),
    ):
        with pytest.raises(RateLimited) as caught:
            ask()
        assert caught.value.seconds == 55
    assert len(hub.requests) == 1
    assert client.paused_until == now + timedelta(seconds=55)
    now += timedelta(seconds=55)
    assert client.head(REPO).sha == sha


def test_a_pause_can_be_forgotten(hub: LoopbackHub, connect: Connect) -> None:
    client = connect(hub)
    hub.faults.add(rate_limited(55), times=1)
    with pytest.raises(RateLimited):
        client.head(REPO)
    client.resume()
    assert client.head(REPO).state is RepoState.MISSING


def test_a_spent_window_is_not_asked_into(hub: LoopbackHub) -> None:
    now = datetime.now(UTC)
    hub.limits.quota = {"api": 2}
    sha = hub.create("acme/tiny").commit({"a": "1"})
    client = HubClient(hub.url, clock=lambda: now)
    client.head(REPO)
    entry = client.manifest(REPO, sha).files["a"]
    with pytest.raises(RateLimited):
        client.head(REPO)
    assert len(hub.requests) == 2
    assert client.content(REPO, sha, entry) == b"1"  # another quota


def test_budgets_are_kept_as_data(hub: LoopbackHub) -> None:
    now = datetime.now(UTC)
    hub.limits.quota = {"api": 500, "resolvers": 3000}
    sha = hub.create("acme/tiny").commit({"a": "1"})
    client = HubClient(hub.url, clock=lambda: now)
    assert client.budgets == {}
    client.content(REPO, sha, client.manifest(REPO, sha).files["a"])
    api, resolvers = client.budgets["api"], client.budgets["resolvers"]
    assert (api.remaining, api.limit, api.window_s) == (499, 500, 300)
    assert (resolvers.remaining, resolvers.limit) == (2998, 3000)  # each hop costs one
    assert now < api.resets_at <= now + timedelta(seconds=300)


def test_a_redirect_costs_budget_too(hub: LoopbackHub, connect: Connect) -> None:
    hub.limits.quota = {"api": 500}
    hub.create("acme/tiny").commit({"a": "1"})
    hub.rename("acme/tiny", "acme/new")
    client = connect(hub)
    client.head(REPO)
    assert client.budgets["api"].remaining == 498


def test_a_storage_that_rate_limits_does_not_stop_the_api(script: Script, other: Script, connect: Connect) -> None:
    from storage.model import FileEntry

    entry = FileEntry(path="a", size=1, blob_id="a" * 40, lfs_sha256="a" * 64)
    script.routes["/acme/tiny/resolve/" + "a" * 40 + "/a"] = Response(status=302, headers={"Location": other.url})
    script.routes[API] = reply(model())
    other.fallback = reply({}, 429, Retry_After="30", RateLimit='"api";r=0;t=30')
    client = connect(script)
    with pytest.raises(RateLimited) as caught:
        client.content(REPO, "a" * 40, entry)
    assert caught.value.seconds == 30
    assert client.budgets == {}
    assert client.head(REPO).state is RepoState.OK


# --- time ----------------------------------------------------------------------------------------


def test_a_stalled_answer_hits_the_deadline(hub: LoopbackHub, connect: Connect) -> None:
    hub.faults.add(stall(60))
    with pytest.raises(Unreachable, match="time for this operation"):
        connect(hub, deadline_s=0.3).head(REPO)


def test_silence_longer_than_the_read_limit_is_unreachable(hub: LoopbackHub, connect: Connect) -> None:
    hub.faults.add(delay(60))
    with pytest.raises(Unreachable):
        connect(hub, read_s=0.2).head(REPO)


def trickle(pause: float) -> Callable[[Request], Response]:
    """A body that never ends and never falls silent for long."""

    def pieces(request: Request) -> Iterator[bytes]:
        while not request.stopping.wait(pause):
            yield b" "

    return lambda request: Response(body=pieces(request))


def test_a_trickling_body_hits_the_deadline(script: Script, connect: Connect) -> None:
    script.routes[API] = trickle(0.02)
    with pytest.raises(Unreachable, match="time for this operation"):
        connect(script, deadline_s=0.5).head(REPO)


def test_a_trickling_header_hits_the_deadline() -> None:
    import socket

    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nX-A: ")
                while not stop.wait(0.02):
                    try:
                        connection.sendall(b"a")
                    except OSError:
                        return

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            client = HubClient(f"http://127.0.0.1:{server.getsockname()[1]}", deadline_s=0.5)
            with pytest.raises(Unreachable, match="time for this operation"):
                client.head(REPO)
        finally:
            stop.set()
            thread.join()


def test_a_stalled_header_range_hits_the_deadline(hub: LoopbackHub, connect: Connect) -> None:
    sha = hub.create("acme/tiny").commit({"model.safetensors": safetensors({"w": ("F32", (9, 9))})})
    client = connect(hub)
    entry = client.manifest(REPO, sha).files["model.safetensors"]
    hub.faults.add(stall_body(60), when=matching(kind="storage"))
    with pytest.raises(Unreachable):
        connect(hub, deadline_s=0.5).header(REPO, sha, entry, limit=1000)


def test_one_deadline_over_many_pages(hub: LoopbackHub, connect: Connect) -> None:
    hub.pages.tree = 1
    sha = hub.create("acme/tiny").commit({f"f{n:03}": str(n) for n in range(300)})
    hub.faults.add(delay(0.05))
    with pytest.raises(Unreachable):
        connect(hub, deadline_s=0.5).manifest(REPO, sha)
    assert len(hub.requests) < 20


def test_several_calls_under_one_deadline(hub: LoopbackHub, connect: Connect) -> None:
    hub.create("acme/tiny").commit({"a": "1"})
    client = connect(hub)
    hub.faults.add(stall(60), skip=1)

    def check() -> None:
        with client.within(0.5):
            client.head(REPO)
            client.head(REPO)

    with pytest.raises(Unreachable):
        check()


def test_a_stalled_repo_does_not_hold_up_another_thread(script: Script, connect: Connect) -> None:
    gate = threading.Event()

    def stalled(request: Request) -> Response:
        gate.wait(60)
        return reply(model("acme/slow"))

    script.routes["/api/models/acme/slow"] = stalled
    script.routes[API] = reply(model())
    client, slow = connect(script), RepoRef(owner="acme", name="slow")
    with ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(client.head, slow) for _ in range(4)]
        assert {pool.submit(client.head, REPO).result().state for _ in range(20)} == {RepoState.OK}
        assert not any(future.done() for future in waiting)
        gate.set()
        assert {future.result().state for future in waiting} == {RepoState.OK}


# --- the token -----------------------------------------------------------------------------------


def test_the_token_is_in_no_log_url_or_error(
    hub: LoopbackHub, script: Script, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    hub.tokens = {SECRET: []}
    sha = hub.create("acme/tiny").commit({"a": LfsFile(b"{}")})
    client = connect(hub, SECRET)
    client.content(REPO, sha, client.manifest(REPO, sha).files["a"])
    assert all(SECRET not in record.path + record.query for record in hub.requests)
    script.fallback = lambda request: reply({"error": f"bad {request.header('authorization')}"}, 500)
    echoing = connect(script, SECRET)
    with pytest.raises(UpstreamFault) as caught:
        echoing.head(REPO)
    assert script.tokens == [f"Bearer {SECRET}"]
    for text in (
        str(caught.value),
        repr(caught.value),
        caught.value.help,
        repr(client),
        repr(echoing),
        caplog.text,
    ):
        assert SECRET not in text
    assert "Signature=" not in caplog.text


@pytest.mark.parametrize("token", ["hf_a b", "hf_a\nX: y", "hf_ä", "x" * 5000])
def test_what_cannot_be_a_token_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(UsageError) as caught:
        HubClient("https://huggingface.co", token)
    assert token not in str(caught.value)


def test_blanks_around_a_token_are_cut_and_an_empty_one_is_none(hub: LoopbackHub) -> None:
    hub.tokens = {"hf_good": []}
    assert HubClient(hub.url, " hf_good\n").token_is_good() is True
    assert HubClient(hub.url, "  ").has_token is False


@pytest.mark.parametrize(
    "endpoint",
    ["", "huggingface.co", "ftp://x", "http://", "http://u:p@h", "http://h?x=1", "http://[", "http://h:99999"],
)
def test_what_is_no_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(UsageError):
        HubClient(endpoint)


def test_without_a_token_nobodys_login_is_used(
    script: Script, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    script.routes[API] = reply(model())
    connect(script).head(REPO)
    assert script.tokens == [None]
    assert "hubwatch/" in (script.seen[0].header("user-agent") or "")
    assert "hf_hub/" in (script.seen[0].header("user-agent") or "")


def test_cookies_are_not_kept(script: Script, connect: Connect) -> None:
    script.routes[API] = reply(model(), Set_Cookie="session=1; Path=/")
    client = connect(script)
    client.head(REPO)
    client.head(REPO)
    assert [request.header("cookie") for request in script.seen] == [None, None]


def test_an_endpoint_below_a_path_keeps_it(script: Script) -> None:
    script.routes["/hub/api/models/acme/tiny"] = reply(model())
    assert HubClient(f"{script.url}/hub/").head(REPO).state is RepoState.OK


# --- the session ---------------------------------------------------------------------------------


def test_connections_are_kept_and_shared_by_clients_and_redirects(script: Script, connect: Connect) -> None:
    script.routes[API] = Response(status=307, headers={"Location": "/api/models/acme/new"}, body=b"moved")
    script.routes["/api/models/acme/new"] = reply(model("acme/new"))
    for _ in range(5):
        connect(script).head(REPO)
    assert len(script.seen) == 10
    assert script.connections == 1


def test_many_threads_share_a_client(hub: LoopbackHub, connect: Connect) -> None:
    hub.pages.tree = 2
    shas = {}
    for n in range(6):
        shas[f"m{n}"] = hub.create(f"acme/m{n}").commit({f"f{k}": f"{n}{k}" for k in range(5)})
    client = connect(hub)

    def read(name: str) -> list[bytes]:
        repo = RepoRef(owner="acme", name=name)
        manifest = client.manifest(repo, shas[name])
        return [client.content(repo, shas[name], entry) for _, entry in sorted(manifest.files.items())]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read, sorted(shas) * 4))
    assert found == [[f"{n}{k}".encode() for k in range(5)] for n in range(6)] * 4


@pytest.mark.usefixtures("no_sleep")
def test_the_library_itself_raises_our_pause_instead_of_sleeping(hub: LoopbackHub) -> None:
    transport.session()
    hub.create("acme/tiny").commit({"a": "1"})
    hub.faults.add(rate_limited(55))
    api = HfApi(endpoint=hub.url, token=False)
    for ask in (
        lambda: api.list_repo_commits("acme/tiny"),
        lambda: list(api.list_repo_tree("acme/tiny")),
        lambda: list(api.list_models(author="acme")),
        lambda: api.model_info("acme/tiny"),
    ):
        hub.clear()
        with pytest.raises(RateLimited):
            ask()
        assert len(hub.requests) == 1


@pytest.mark.usefixtures("no_sleep")
def test_the_librarys_retries_do_not_catch_what_is_unreachable() -> None:
    transport.session()
    with pytest.raises(Unreachable):
        http_backoff("GET", "http://127.0.0.1:1/")


def test_the_library_does_not_follow_redirects_by_itself(hub: LoopbackHub, other: Script) -> None:
    transport.session()
    hub.faults.add(redirect(f"{other.url}{{path}}"))
    answer = get_session().get(f"{hub.url}{API}", headers={"authorization": f"Bearer {SECRET}"})
    assert answer.status_code == 307
    assert other.seen == []


def test_the_session_is_put_back_when_somebody_replaces_it(hub: LoopbackHub, connect: Connect) -> None:
    hub.create("acme/tiny").commit({"a": "1"})
    client = connect(hub)
    client.head(REPO)
    set_client_factory(lambda: httpx2.Client(follow_redirects=True))
    assert client.head(REPO).state is RepoState.OK
    assert isinstance(get_session(), transport.HubSession)


def test_the_session_is_made_once_by_many_threads(hub: LoopbackHub, connect: Connect) -> None:
    hub.create("acme/tiny").commit({"a": "1"})
    set_client_factory(httpx2.Client)
    client = connect(hub)
    with ThreadPoolExecutor(8) as pool:
        states = list(pool.map(lambda _: client.head(REPO).state, range(40)))
    assert set(states) == {RepoState.OK}


@pytest.mark.parametrize(
    "settings",
    [
        {"HF_HUB_OFFLINE": "1"},
        {"TRANSFORMERS_OFFLINE": "1"},
        {"HF_HUB_DISABLE_XET": "1"},
        {"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1", "HF_TOKEN": SECRET},
        {"HF_ENDPOINT": "http://127.0.0.1:1", "HF_DEBUG": "1"},
        {"HTTP_PROXY": "http://127.0.0.1:1", "ALL_PROXY": "socks5://127.0.0.1:1"},
    ],
)
def test_the_librarys_settings_in_the_environment_do_not_break_it(
    hub: LoopbackHub, settings: dict[str, str]
) -> None:
    sha = hub.create("acme/tiny").commit({"a": LfsFile(b"{}")})
    program = (
        "from tracker.hub.client import HubClient; from storage.model import RepoRef\n"
        f"client, repo = HubClient({hub.url!r}), RepoRef(owner='acme', name='tiny')\n"
        f"assert client.head(repo).sha == {sha!r}\n"
        f"assert client.content(repo, {sha!r}, client.manifest(repo, {sha!r}).files['a']) == b'{{}}'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PATH": "", **settings}, timeout=60)
    assert not any(record.authorization for record in hub.requests)


def test_a_proxy_of_the_environment_is_used_but_not_for_loopback() -> None:
    proxies = {"http": "http://proxy:3128", "https": "proxy:3129"}
    assert transport._proxy_for(httpx2.URL("http://hub.example/x"), proxies) == "http://proxy:3128"
    assert transport._proxy_for(httpx2.URL("https://hub.example/x"), proxies) == "http://proxy:3129"
    assert transport._proxy_for(httpx2.URL("http://127.0.0.1:9/x"), proxies) == ""
    assert transport._proxy_for(httpx2.URL("http://localhost:9/x"), proxies) == ""
    assert transport._proxy_for(httpx2.URL("http://[::1]:9/x"), proxies) == ""
    assert transport._proxy_for(httpx2.URL("https://hub.example/x"), {}) == ""


def test_a_proxy_is_asked_for_the_whole_address(script: Script) -> None:
    script.fallback = reply(model())
    program = (
        "from tracker.hub.client import HubClient; from storage.model import RepoRef\n"
        "HubClient('http://hub.example').head(RepoRef(owner='acme', name='tiny'))\n"
    )
    settings = {"PATH": "", "http_proxy": script.url.replace("http://", "http://me:pass%40word@")}
    subprocess.run([sys.executable, "-c", program], check=True, env=settings, timeout=60)
    (asked,) = script.seen
    assert (asked.header("host"), asked.raw_path) == ("hub.example", f"http://hub.example{API}")
    assert asked.header("proxy-authorization") == "Basic bWU6cGFzc0B3b3Jk"


def test_every_error_says_what_to_do(hub: LoopbackHub, connect: Connect) -> None:
    client = connect(hub, "hf_bad")
    for ask in (
        lambda: client.manifest(REPO, "a" * 40),
        lambda: client.listing("acme"),
        lambda: client.refs(REPO),
    ):
        with pytest.raises(HubError) as caught:
            ask()
        assert isinstance(caught.value, AccessDenied)
        assert caught.value.state is RepoState.TOKEN_BAD
        assert caught.value.help
