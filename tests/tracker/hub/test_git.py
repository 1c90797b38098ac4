"""Git, run on hostile repositories: what it is told, what it may cost, what its failures mean."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from storage.model import RepoRef
from tests.tracker.hub.scripted import Script, reply
from tracker.demo.faults import corrupt, garbage, rate_limited, redirect, reset, server_error, stall, truncate
from tracker.demo.hub import LoopbackHub
from tracker.demo.injection import matching
from tracker.hub.deadline import operation
from tracker.hub.errors import GitUnavailable, RateLimited
from tracker.hub.git import Git
from tracker.hub.git_environment import GitLimits
from tracker.hub.git_folder import LOCK, PREFIX, size_of, sweep
from tracker.hub.history_git import GitReader

REPO = RepoRef(owner="acme", name="tiny")
TOKEN = "hf_" + "s3cret" * 5
BASIC = base64.b64encode(f"user:{TOKEN}".encode()).decode()
REAL_GIT = shutil.which("git") or ""

pytestmark = pytest.mark.skipif(not REAL_GIT, reason="there is no git on this machine")


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary folders; none may be left in it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.glob(f"{PREFIX}*")) == []


def wrapper(folder: Path, script: str) -> str:
    """A git of our own making; ``$REAL`` in the script is the real one."""
    program = folder / "git-wrapper"
    program.write_text("#!/bin/sh\n" + script.replace("$REAL", REAL_GIT))
    program.chmod(0o755)
    return str(program)


def tiny(hub: LoopbackHub, **files: bytes) -> str:
    repo = hub.create("acme/tiny")
    return repo.commit({"config.json": "{}", **files}, title="first")


def read(reader: GitReader, head: str) -> list[str]:
    with reader.open(REPO, head=head) as history:
        walk = history.walk(REPO, head=head, known=lambda _: False)
        return sorted(history.manifest(REPO, walk.revisions[-1].sha).files)


def failure(reader: GitReader, head: str) -> GitUnavailable:
    with pytest.raises(GitUnavailable) as caught:
        read(reader, head)
    return caught.value


# --- what it is told ---------------------------------------------------------------------------------


def test_the_token_is_a_header_of_the_requests_and_in_no_argument_list(hub: LoopbackHub, tmp_path: Path) -> None:
    head = tiny(hub)
    hub.tokens = {TOKEN: {"acme/tiny"}}
    hub.model("acme/tiny").private = True
    said = tmp_path / "said"
    program = wrapper(
        tmp_path,
        f'tr "\\0" " " < /proc/$$/cmdline >> {said}/args; printf "%s\\n" "$*" >> {said}/args\n'
        f'case "$*" in *fetch*) env >> {said}/fetch;; *) env >> {said}/local;; esac\nexec $REAL "$@"\n',
    )
    said.mkdir()
    assert read(GitReader(hub.url, TOKEN, program=program), head) == ["config.json"]
    assert all(record.authorization for record in hub.asked("git"))
    arguments = (said / "args").read_text()
    assert "fetch" in arguments
    assert TOKEN not in arguments
    assert BASIC not in arguments
    fetched, local = (said / "fetch").read_text(), (said / "local").read_text()
    assert f"Authorization: Basic {BASIC}" in fetched
    assert TOKEN not in fetched
    assert BASIC not in local
    assert "GIT_ALLOW_PROTOCOL=none" in local


def test_the_environment_is_made_not_inherited(
    hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = tiny(hub)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(f'[url "http://127.0.0.1:9/"]\n\tinsteadOf = {hub.url}/\n')
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_SSH_COMMAND", "touch /nowhere")
    monkeypatch.setenv("GIT_ASKPASS", "/bin/echo")
    seen = tmp_path / "environment"
    program = wrapper(tmp_path, f'env >> {seen}\nexec $REAL "$@"\n')
    assert read(GitReader(hub.url, program=program), head) == ["config.json"]
    names = {line.partition("=")[0] for line in seen.read_text().splitlines() if "=" in line}
    names -= {"PWD", "OLDPWD", "SHLVL", "_"}  # the shell's own
    allowed = {"PATH", "HOME", "TMPDIR", "LC_ALL", "no_proxy"}
    assert {name for name in names if not name.startswith("GIT_")} <= allowed
    assert not {"GIT_DIR", "GIT_SSH_COMMAND", "GIT_ASKPASS"} & names
    assert {"GIT_CONFIG_NOSYSTEM", "GIT_TERMINAL_PROMPT", "GIT_NO_LAZY_FETCH"} <= names


def test_hooks_of_a_template_do_not_run(hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = tiny(hub)
    hooks = tmp_path / "template" / "hooks"
    hooks.mkdir(parents=True)
    for name in ("post-checkout", "reference-transaction", "pre-auto-gc"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
        (hooks / name).chmod(0o755)
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(hooks.parent))
    read(GitReader(hub.url), head)
    assert not (tmp_path / "hooked").exists()


def test_nobody_is_asked_for_a_password(hub: LoopbackHub) -> None:
    head = tiny(hub)
    hub.model("acme/tiny").private = True
    error = failure(GitReader(hub.url), head)
    assert error.reason == "refused"
    hub.tokens = {"hf_other": ()}
    error = failure(GitReader(hub.url, TOKEN), head)
    assert error.reason == "refused"
    assert TOKEN not in error.message + error.help
    assert BASIC not in error.message + error.help


@pytest.mark.parametrize("address", ["file:///etc", "ext::touch /tmp/x", "ssh://127.0.0.1/x", "git://127.0.0.1/x"])
def test_only_http_is_spoken(address: str) -> None:
    with Git(address, None, GitLimits()) as git, pytest.raises(GitUnavailable):
        git.remote("ls-remote", "origin")


def test_what_only_reads_cannot_reach_the_network(hub: LoopbackHub) -> None:
    head = tiny(hub)
    with GitReader(hub.url).open(REPO, head=head) as history:
        hub.clear()
        entry = hub.repo("acme/tiny").find(head, "config.json")
        assert entry is not None
        with pytest.raises(GitUnavailable):
            history.objects.read(entry.sha, "blob", 100)
        assert history.objects.sizes([entry.sha]) == {}
        with pytest.raises(GitUnavailable):
            history.git.local("fetch", hub.url + "/acme/tiny")
        assert hub.requests == []


def test_a_redirect_is_not_followed(hub: LoopbackHub, script: Script) -> None:
    head = tiny(hub)
    hub.faults.add(redirect(f"{script.url}/acme/tiny/info/refs"), when=matching(kind="git"))
    script.fallback = reply({})
    hub.tokens = {TOKEN: ()}
    failure(GitReader(hub.url, TOKEN), head)
    assert script.seen == []
    hub.faults.clear()
    hub.rename("acme/tiny", "acme/moved")
    failure(GitReader(hub.url), head)
    assert [record.status for record in hub.asked("git")] == [307, 307]


# --- what it may cost --------------------------------------------------------------------------------


def test_too_many_bytes_are_too_large(hub: LoopbackHub) -> None:
    head = tiny(hub, **{"noise.txt": os.urandom(3_000_000)})
    error = failure(GitReader(hub.url, limits=GitLimits(disk_bytes=1_000_000)), head)
    assert error.reason == "too_large"


def test_a_folder_that_grows_is_watched(hub: LoopbackHub, tmp_path: Path) -> None:
    head = tiny(hub)
    program = wrapper(
        tmp_path,
        'number=0; case "$*" in *fetch*) while :; do number=$((number+1));'
        ' head -c 50000 /dev/zero > $HOME/x$number; done;; esac\nexec $REAL "$@"\n',
    )
    error = failure(GitReader(hub.url, program=program, limits=GitLimits(disk_bytes=2_000_000)), head)
    assert error.reason == "too_large"


@pytest.mark.parametrize("outer", [True, False])
def test_time_runs_out_for_git_and_what_it_started(hub: LoopbackHub, tmp_path: Path, outer: bool) -> None:
    head = tiny(hub)
    pids = tmp_path / "pids"
    program = wrapper(
        tmp_path,
        f'case "$*" in *fetch*) sleep 300 & echo $! >> {pids}; echo $$ >> {pids}; wait;; esac\nexec $REAL "$@"\n',
    )
    limits = GitLimits() if outer else GitLimits(seconds=0.5)
    with operation(0.5) if outer else contextlib.nullcontext():
        error = failure(GitReader(hub.url, program=program, limits=limits), head)
    assert error.reason == "timed_out"
    numbers = [int(line) for line in pids.read_text().split()]
    assert len(numbers) == 2
    assert not any(_alive(number) for number in numbers)


def _alive(number: int) -> bool:
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_stalled_transfer_is_given_up(hub: LoopbackHub) -> None:
    head = tiny(hub)
    hub.faults.add(stall(60), when=matching(kind="git", method="POST"))
    error = failure(GitReader(hub.url, limits=GitLimits(stall_s=1)), head)
    assert error.reason == "timed_out"


def test_the_size_of_a_folder_counts_all_below(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_bytes(b"x" * 700)
    (tmp_path / "d").write_bytes(b"x" * 30)
    (tmp_path / "gone").symlink_to("/nowhere")
    assert size_of(tmp_path) == 730 + len("/nowhere")


def test_what_a_killed_process_left_behind_is_removed(tmp_path: Path) -> None:
    def folder(name: str, *, age: float, lock: bool = True) -> Path:
        made = tmp_path / f"{PREFIX}{name}"
        made.mkdir()
        (made / "repo.git").mkdir()
        for path in ([made / LOCK] if lock else []) + [made]:
            path.touch()
            os.utime(path, (time.time() - age,) * 2)
        return made

    left, bare = folder("left", age=600), folder("bare", age=600, lock=False)
    held, young = folder("held", age=600), folder("young", age=0)
    fresh, other = folder("fresh", age=0, lock=False), tmp_path / "other"
    other.mkdir()
    link = tmp_path / f"{PREFIX}link"
    link.symlink_to(other)
    with (held / LOCK).open("r+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        sweep(tmp_path)
    assert not left.exists()
    assert not bare.exists()
    assert all(path.exists() for path in (held, young, fresh, other, link))


# --- what its failures mean --------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["git version 2.20.1", "gitoxide 1", ""])
def test_an_old_git_is_none(hub: LoopbackHub, tmp_path: Path, said: str) -> None:
    program = wrapper(tmp_path, f'case "$*" in version) echo "{said}"; exit 0;; esac\nexec $REAL "$@"\n')
    assert failure(GitReader(hub.url, program=program), tiny(hub)).reason == "no_git"


def test_no_git_at_all(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    head = tiny(hub)
    assert failure(GitReader(hub.url, program=str(tmp_path / "none")), head).reason == "no_git"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert failure(GitReader(hub.url), head).reason == "no_git"


def test_a_pause_that_is_asked_for_is_a_pause(hub: LoopbackHub) -> None:
    head = tiny(hub)
    hub.faults.add(rate_limited(55), when=matching(kind="git"))
    with pytest.raises(RateLimited) as caught:
        read(GitReader(hub.url), head)
    assert caught.value.seconds > 0


FAULTS: dict[str, Callable[[], Any]] = {
    "500": lambda: server_error(500),
    "reset": reset,
    "cut": lambda: truncate(60),
    "garbage": garbage,
    "flipped": lambda: corrupt(position=120, count=4),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("skip", [0, 1])
def test_whatever_breaks_means_read_by_the_other(hub: LoopbackHub, name: str, method: str, skip: int) -> None:
    head = tiny(hub, **{"model.py": os.urandom(5_000)})
    hub.faults.add(FAULTS[name](), when=matching(kind="git", method=method), skip=skip)
    try:
        assert read(GitReader(hub.url), head) == ["config.json", "model.py"]
    except GitUnavailable:
        return
    # bytes of no consequence were hit: only the list of abilities has such
    assert (name, method) in {("flipped", "GET"), ("cut", "GET")}


def test_a_head_that_is_not_there(hub: LoopbackHub) -> None:
    tiny(hub)
    assert failure(GitReader(hub.url), "b" * 40).reason == "not_served"
    for head in ("main", "--upload-pack=touch x", "a" * 64, ""):
        assert failure(GitReader(hub.url), head).reason == "not_served"


def test_nobody_answers() -> None:
    assert failure(GitReader("http://127.0.0.1:9"), "a" * 40).reason == "failed"
