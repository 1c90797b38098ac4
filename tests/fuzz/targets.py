"""Every parser of upstream bytes, and what must hold for any bytes at all. A parser's own errors are fine."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from advisories.audit.find import cache, dockerfile, env, notebook, python, sbom, shell
from advisories.audit.find import settings as settings_files
from advisories.audit.model import Reading
from advisories.audit.model import Unreadable as NotFound
from advisories.audit.names import Names
from storage.errors import UsageError
from storage.model import Change, FileEntry, ProbeOutcome, ProbeResult, canonical_json
from tests.fuzz import strategies as make
from tests.fuzz.pipeline import check_history
from tests.fuzz.work import at_most
from tests.tracker.diff.snapshots import snapshot_of
from tracker.diff.sources import summarise
from tracker.diff.template import aspect
from tracker.estimate.exact import ESTIMATOR
from tracker.hub import fields
from tracker.hub.answers import refusal
from tracker.hub.errors import GitUnavailable, HubError, UpstreamFault
from tracker.hub.git_objects import parse_commit, parse_pointer, parse_tree
from tracker.hub.limits import MAX_PAUSE_S, parse_budgets, parse_pause, parse_retry_after
from tracker.hub.paging import next_url, parse_next
from tracker.hub.wire import Answer, Wire, origin
from tracker.probe.judge import PROVISIONAL, refine
from tracker.snapshot.build import parts_of
from tracker.snapshot.card import parse_card
from tracker.snapshot.code import parse_source
from tracker.snapshot.gguf import parse_gguf_header
from tracker.snapshot.json_reader import MAX_FLAWS, Unreadable, read_json
from tracker.snapshot.pickles import inspect
from tracker.snapshot.ranges import unpacked
from tracker.snapshot.tokenizer import added_tokens, merges, special_tokens, token_ids, vocabulary
from tracker.snapshot.weights import parse_safetensors_header
from tracker.web import cursors
from tracker.web.hooks import read_hint
from tracker.web.paging import moment

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = Names(known=frozenset({"acme/a"}))
CALLS = 3_000_000  # more than any input of these sizes costs; without a bound one takes hours


@dataclass(frozen=True, slots=True)
class Target:
    """A parser: what it is given, what must hold, and how many examples a plain test run takes."""

    name: str
    inputs: SearchStrategy[Any]
    check: Callable[[Any], None]
    examples: int = 60

    def test(self, how: settings) -> Callable[[], None]:
        """The check as a test that hypothesis runs, with a bound on the work of one input."""

        def holds(value: Any) -> None:
            with at_most(CALLS):
                self.check(value)

        return given(self.inputs)(how(holds))


def _strict(value: Any) -> None:
    """A value that any reader of JSON takes, and any database."""
    json.dumps(value, allow_nan=False)
    canonical_json(value)


# --- files --------------------------------------------------------------------------------------------


def _json(data: bytes) -> None:
    with suppress(Unreadable):
        value, flaws = read_json(data)
        _strict(value)
        assert len(flaws) <= MAX_FLAWS
        assert read_json(canonical_json(value).encode())[0] == value


def _tokenizer(tree: make.Tree) -> None:
    snapshot = snapshot_of(tree)
    token_ids(snapshot)
    special_tokens(snapshot)
    for document in snapshot.documents.values():
        _strict([vocabulary(document.data), added_tokens(document)])
        assert all(isinstance(rule, str) for rule in merges(document.data))


def _template(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for name in ("hidden", "unsafe", "nondeterministic", "variables", "unparsable"):
        _strict(aspect(text, name))
    assert all(str(item).isprintable() for item in aspect(text, "hidden") or ())


def _card(data: bytes) -> None:
    with suppress(Unreadable):
        value, flaws = parse_card(data.decode("utf-8", "replace"))
        _strict(value)
        assert all("\n" not in flaw for flaw in flaws)


def _safetensors(data: bytes) -> None:
    with suppress(Unreadable):
        file = parse_safetensors_header(data, len(data))
        _strict([[item.name, item.dtype, list(item.shape)] for item in file.tensors])


def _gguf(data: bytes) -> None:
    for size in (len(data), len(data) + 1000):
        with suppress(Unreadable):
            file = parse_gguf_header(data, size)
            _strict(dict(file.metadata))
            assert len(file.tensors) <= file.metadata["GGUF.tensor_count"]
            assert file.truncated <= (size > len(data))


def _pickle(given: tuple[str, bytes]) -> None:
    path, data = given
    entry = FileEntry(path=path, size=len(data), blob_id="0" * 40)
    parts = parts_of(entry, lambda start, stop: data[start:stop])
    with suppress(Unreadable):
        seen = inspect(path, len(data), unpacked(parts))
        assert seen == inspect(path, len(data), lambda start, stop: data[start:stop])
        _strict([list(seen.imports), list(seen.dangerous)])


def _source(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    assert (summarise(text) is not None) <= (parse_source(text) is not None)


def _estimate(data: bytes) -> None:
    with suppress(Unreadable):
        _strict(dict(ESTIMATOR.estimate(read_json(data)[0]).body))


# --- what the Hub answers -----------------------------------------------------------------------------

WIRE = Wire("https://hub.invalid", None, deadline_s=1, connect_s=1, read_s=1, clock=lambda: NOW)


def _link(data: bytes) -> None:
    link = data.decode("latin-1")
    target = parse_next(link)
    assert target is None or target.strip()
    answer = Answer(url="https://hub.invalid/api/models?author=acme", headers={"link": link}, value=[])
    with suppress(UpstreamFault):
        following = next_url(WIRE, answer)
        assert following is None or origin(following) == origin(WIRE.endpoint)


def _limits(values: tuple[bytes, bytes, bytes, bytes]) -> None:
    names = ("RateLimit", "ratelimit-policy", "RETRY-AFTER", "Date")
    headers = {name: value.decode("latin-1") for name, value in zip(names, values, strict=True)}
    assert 0 <= parse_pause(headers, NOW) <= MAX_PAUSE_S
    assert all(budget.wait(NOW) <= MAX_PAUSE_S for budget in parse_budgets(headers, NOW))
    asked = parse_retry_after(headers["RETRY-AFTER"], NOW)
    assert asked is None or 0 <= asked <= MAX_PAUSE_S


def _answer(given: tuple[int, bytes, bytes]) -> None:
    status, said, body = given
    headers = {"X-Error-Code": said.decode("latin-1"), "x-error-message": said[::-1].decode("latin-1")}
    error = refusal(status=status, headers=headers, body=body, where="GET /x", has_token=bool(said))
    assert isinstance(error, HubError)
    assert str(error).isprintable()


def _fields(value: Any) -> None:
    for check in (fields.sha, fields.sha256, fields.size):
        with suppress(UpstreamFault):
            check(value, "value")
    with suppress(UpstreamFault):
        fields.safe_path(value).encode("utf-8")
    assert len(fields.text(value, 100).encode("utf-8")) <= 400
    assert "@" not in fields.authors([value, "a@example.org"]) or "@" in str(value)
    fields.moment(value)


def _git_object(data: bytes) -> None:
    with suppress(GitUnavailable):
        commit = parse_commit("0" * 40, data)
        (commit.author + commit.title).encode("utf-8")
        assert commit.committed_at.tzinfo is UTC
    with suppress(GitUnavailable):
        assert sum(len(item.name) + 22 for item in parse_tree(data)) <= len(data)
    with suppress(GitUnavailable):
        pointer = parse_pointer(data)
        assert pointer is None or 0 <= pointer.size <= fields.MAX_SIZE


def _hook(data: bytes) -> None:
    with suppress(UsageError):
        hint = read_hint(data, endpoint="https://hub.invalid")
        assert hint is None or hint.repo.id.count("/") == 1


def _cursor(data: bytes) -> None:
    for shape in ((int,), (str, int), ()):
        with suppress(cursors.BadCursor):
            key = cursors.decode("k", data.decode("utf-8", "surrogateescape"), *shape) or ()
            assert cursors.decode("k", cursors.encode("k", *key), *shape) == key
            if shape == (int,):
                moment(key[0])


# --- probes -------------------------------------------------------------------------------------------

_SIDES = st.none() | st.text(max_size=20) | st.sampled_from(["time", "a\nb", "2024-01-01", " a  b "])
PROBES = st.lists(
    st.builds(
        ProbeResult,
        probe=st.sampled_from(["user", "system", "tools", "user+x=true", "nothing", "generation", "user-open"]),
        outcome=st.sampled_from(ProbeOutcome),
        before=_SIDES,
        after=_SIDES,
        before_error=_SIDES,
        after_error=_SIDES,
    ),
    max_size=6,
)


def _judge(probes: list[ProbeResult]) -> None:
    change = Change(cls=PROVISIONAL, path="t", summary="t", before="a", after="b", facts={"template": "t"})
    for found in refine(change, probes):
        _strict([found.summary, dict(found.facts)])


# --- the auditor's finders ----------------------------------------------------------------------------

Finder = Callable[[str], Reading]
FINDERS: dict[str, tuple[Finder, tuple[str, ...]]] = {
    "python": (
        lambda text: python.find(text.encode("utf-8", "surrogatepass"), NAMES),
        ("app_source.txt", "model_source.txt"),
    ),
    "notebook": (lambda text: notebook.find(text, NAMES), ("notebook.json",)),
    "yaml": (lambda text: settings_files.find_yaml(text, NAMES), ("compose.yaml", "README.md")),
    "json": (lambda text: settings_files.find_json(text, NAMES), ("config.json", "bom.json")),
    "toml": (lambda text: settings_files.find_toml(text, NAMES), ("settings.toml",)),
    "env": (lambda text: env.find(text, NAMES), ("run.sh",)),
    "unit": (lambda text: env.find_unit(text, NAMES), ("run.sh", "Dockerfile")),
    "shell": (lambda text: shell.find(text, NAMES), ("run.sh", "Dockerfile")),
    "make": (lambda text: shell.find(text, NAMES, make=True), ("run.sh",)),
    "dockerfile": (lambda text: dockerfile.find(text, NAMES), ("Dockerfile",)),
    "modelfile": (lambda text: dockerfile.find_modelfile(text, NAMES), ("Dockerfile",)),
    "sbom": (sbom.find, ("bom.json",)),
}


def _finder(find: Finder) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        lines = text.count("\n") + text.count("\r") + 1
        with suppress(NotFound):
            for item in find(text).references:
                assert 1 <= item.place.line <= max(lines, len(text.splitlines()))
                json.dumps([item.repo, item.revision])

    return check


def _audit_cache(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        reading = cache.read(Path(folder))
        assert all(item.revision and len(item.revision) == 40 for item in reading.references)


_CACHE = st.dictionaries(
    st.sampled_from(
        [
            "models--acme--a/refs/main",
            "models--acme--a/refs/pr/1",
            "models--acme--a/snapshots/" + "a" * 40 + "/config.json",
            "models--/refs/x",
            "models--..--x/refs/main",
            "models--gpt2/refs/main",
            "x/y",
        ]
    ),
    make.mutants(b"b" * 40, b"b" * 40 + b"\n"),
    max_size=4,
)
_TREES = st.dictionaries(
    st.sampled_from(["tokenizer.json", "tokenizer_config.json", "vocab.json", "added_tokens.json", "vocab.txt"]),
    make.DOCUMENTS,
    max_size=4,
)
_GIT = make.around("commit.txt", "pointer.txt") | st.lists(
    st.tuples(st.sampled_from([b"100644", b"40000", b"160000", b"9", b""]), st.binary(max_size=4)), max_size=4
).map(lambda items: b"".join(mode + b" " + name + b"\0" + b"\x01" * 20 for mode, name in items))
_HEADERS = st.tuples(
    make.around("ratelimit.txt"),
    make.around("policy.txt"),
    make.mutants(b"30", b"1.5", make.seed("date.txt")),
    make.around("date.txt"),
)
# As deep as a list can be parsed is not as deep as it can be written.
_HOOKS = (
    make.around("hook.json")
    | make.JSON
    | st.integers(300, 1000).map(
        lambda depth: b'{"repo": {"type": "model"}, "event": {"scope": ' + b"[" * depth + b"]" * depth + b"}}"
    )
)
_CURSORS = st.binary(max_size=40) | make.mutants(
    *(cursors.encode("k", *key).encode() for key in ((5,), (2**61,), ("a", 1), ()))
)
_ANSWERS = st.tuples(
    st.sampled_from([400, 401, 403, 404, 410, 416, 451, 500, 599]),
    st.binary(max_size=40) | st.sampled_from([b"GatedRepo", b"RepoNotFound", b"EntryNotFound"]),
    make.JSON,
)

TARGETS = (
    Target("json", make.DOCUMENTS, _json, 100),
    Target("tokenizer", _TREES, _tokenizer, 50),
    Target("template", make.TEMPLATES, _template, 120),
    Target("card", make.CARDS, _card, 100),
    Target("safetensors", make.SAFETENSORS, _safetensors, 100),
    Target("gguf", make.GGUF, _gguf, 100),
    Target("pickle", st.tuples(make.PICKLE_PATHS, make.PICKLES), _pickle, 100),
    Target("source", make.SOURCES, _source),
    Target("estimate", make.JSON | make.around("config.json"), _estimate),
    Target("link", make.around("link.txt"), _link),
    Target("limits", _HEADERS, _limits),
    Target("answer", _ANSWERS, _answer, 30),
    Target("fields", make.VALUES | st.text(max_size=60), _fields),
    Target("git", _GIT, _git_object, 100),
    Target("hook", _HOOKS, _hook),
    Target("cursor", _CURSORS, _cursor),
    Target("probes", PROBES, _judge),
    *(Target(f"audit-{name}", make.around(*seeds), _finder(find), 40) for name, (find, seeds) in FINDERS.items()),
    Target("audit-cache", _CACHE, _audit_cache, 20),
    Target("history", make.histories(), check_history, 60),
)
