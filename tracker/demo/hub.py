"""A Hub on loopback: the Hugging Face Hub's API, files and git over real git repositories.

    with LoopbackHub() as hub:
        tiny = hub.create("acme/tiny")
        tiny.commit({"config.json": "{}"}, title="initial commit")
        HfApi(endpoint=hub.url).model_info("acme/tiny")

Files in LFS are served from a second origin (`storage_url`) through links that are signed and expire. Every
answer of the first carries the rate-limit headers, counted for real. `requests` lists what was asked;
`faults` makes trouble.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tracker.demo import smart_http
from tracker.demo.api import Api
from tracker.demo.events import content_event, move_event
from tracker.demo.injection import Faults
from tracker.demo.limits import API, PAGES, RESOLVERS, Allowance, RateLimiter
from tracker.demo.paging import Pages
from tracker.demo.repos import FIRST_DATE, GitRepo, full_ref
from tracker.demo.resolve import Files
from tracker.demo.store import Model, Moved, Refusal, Store
from tracker.demo.wire import LoopbackServer, Request, RequestRecord, Response, json_response, text_response

_BUCKETS = {"api": API, "resolve": RESOLVERS}
_EXPOSED = (
    "X-Repo-Commit,X-Request-Id,X-Error-Code,X-Error-Message,X-Total-Count,ETag,Link,Accept-Ranges,"
    "Content-Range,X-Linked-Size,X-Linked-ETag,X-Xet-Hash"
)


class LoopbackHub:
    """The server and what it holds. ``root`` is where `create` puts repositories (default: a temporary folder).

    ``clock`` gives seconds since 1970, for rate windows and signed links; ``quota`` requests per bucket
    (``{"api": 500, "resolvers": 3000}``, default: no limit) and ``window`` of so many seconds.
    """

    def __init__(
        self,
        root: Path | None = None,
        *,
        port: int = 0,
        quota: dict[str, int] | None = None,
        window: int = 300,
        clock: Callable[[], float] = time.time,
        seed: int = 0,
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="loopback-hub-") if root is None else None
        self.root = Path(self._temporary.name) if self._temporary else Path(root or ".")
        self.store = Store()
        self.faults = Faults(seed)
        self.limits = RateLimiter(clock, dict(quota or {}), window)
        self.requests: list[RequestRecord] = []
        self._api = Api(self.store)
        self._files = Files(self.store, storage_url=lambda: self.storage_url, clock=clock)
        self._server = LoopbackServer(self._answer, self._record, port=port)
        self._storage = LoopbackServer(self._answer_storage, self._record_storage)
        self._repos: list[GitRepo] = []
        self._count = 0
        self._count_lock = threading.Lock()

    # --- running -----------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The endpoint, ``http://127.0.0.1:<port>``."""
        return self._server.origin

    @property
    def storage_url(self) -> str:
        """The origin that serves LFS content."""
        return self._storage.origin

    @property
    def crashes(self) -> list[BaseException]:
        """What went wrong inside the hub itself; empty unless it has a bug."""
        return [*self._server.crashes, *self._storage.crashes]

    def start(self) -> Self:
        """Begin to answer."""
        self._server.start()
        self._storage.start()
        return self

    def stop(self) -> None:
        """Stop, close all connections, remove the temporary folder."""
        self._server.stop()
        self._storage.stop()
        for repo in self._repos:
            repo.close()
        if self._temporary:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- what it holds -----------------------------------------------------------------------------

    @property
    def pages(self) -> Pages:
        """Page sizes, to be altered by tests."""
        return self._api.pages

    @property
    def tokens(self) -> dict[str, Collection[str]]:
        """Good tokens, and the private and gated repos that each may read."""
        return self.store.tokens

    @tokens.setter
    def tokens(self, tokens: dict[str, Collection[str]]) -> None:
        self.store.tokens = tokens

    def add(
        self,
        name: str,
        repo: GitRepo,
        *,
        hub_id: str | None = None,
        created_at: datetime | None = None,
        last_modified: datetime | None = None,
        private: bool = False,
        gated: bool | str = False,
        disabled: bool | str = False,
        xet: bool = True,
        **fields: Any,
    ) -> Model:
        """Publish a repository under ``owner/name``.

        ``created_at`` defaults to the first commit's date; ``fields`` are further keys of the model's info
        (``downloads=5, cardData={...}``). The Model returned may be altered at any time.
        """
        oldest = repo.commit_info(repo.log("main")[-1]).date if repo.resolve("main") else FIRST_DATE
        model = Model(
            id=name,
            repo=repo,
            hub_id=hub_id or self.store.new_hub_id(name),
            created_at=created_at or oldest,
            last_modified=last_modified,
            private=private,
            gated=gated,
            disabled=disabled,
            xet=xet,
            fields=dict(fields),
        )
        self.store.models[name] = model
        self._repos.append(repo)
        return model

    def create(self, name: str, **options: Any) -> GitRepo:
        """Make an empty repository and publish it; ``options`` as for `add`."""
        with self._count_lock:
            self._count += 1
            folder = self.root / f"{self._count:03d}-{name.replace('/', '--')}.git"
        repo = GitRepo(folder)
        self.add(name, repo, **options)
        return repo

    def model(self, name: str) -> Model:
        """A model by its name, to read or alter (``hub.model(x).gated = "auto"``)."""
        return self.store.models[name]

    def repo(self, name: str) -> GitRepo:
        """A model's repository, to commit to."""
        return self.store.models[name].repo

    def rename(self, old: str, new: str) -> None:
        """Move a model to another name; the old one redirects until it is taken again."""
        model = self.store.models.pop(old)
        model.id = new
        self.store.models[new] = model
        self.store.renames[old] = new

    def redirect(self, old: str, new: str) -> None:
        """Let a name redirect to any other, whoever lives there."""
        self.store.renames[old] = new

    def remove(self, name: str) -> Model:
        """Delete a model; its name is free. Returned, so that it can come back by `restore`."""
        return self.store.models.pop(name)

    def restore(self, model: Model) -> None:
        """Publish a removed model again, as it was."""
        self.store.models[model.id] = model

    def replace_identity(
        self, name: str, hub_id: str | None = None, *, repo: GitRepo | None = None,
        created_at: datetime | None = None,
    ) -> Model:  # fmt: skip
        """The name now belongs to another repo: a new ``_id``, a later creation date, maybe other content."""
        model = self.store.models[name]
        model.hub_id = hub_id or self.store.new_hub_id(name)
        model.created_at = created_at or model.created_at + timedelta(days=365)
        if repo is not None:
            model.repo = repo
            self._repos.append(repo)
        return model

    def push_event(self, name: str, old: str | None, new: str | None, ref: str = "main") -> dict[str, Any]:
        """The webhook body that tells of a ref that moved from one sha to another."""
        return content_event(self.store.models[name], {full_ref(ref): (old, new)}, endpoint=self.url)

    def move_event(self, name: str, moved_to: str) -> dict[str, Any]:
        """The webhook body that tells of a rename."""
        return move_event(self.store.models[name], moved_to, endpoint=self.url)

    # --- what was asked ----------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget the requests so far."""
        self.requests.clear()

    def asked(self, kind: str | None = None, *, path: str | None = None) -> list[RequestRecord]:
        """The requests of a kind (api, resolve, storage, git, other), or whose path contains a text."""
        return [
            record
            for record in list(self.requests)
            if kind in {None, record.kind} and (path is None or path in record.path)
        ]

    def counts(self) -> Counter[str]:
        """How many requests of each kind there were."""
        return Counter(record.kind for record in list(self.requests))

    # --- answering ---------------------------------------------------------------------------------

    def _record(self, request: Request) -> RequestRecord:
        request.kind = _kind(request.path)
        return self._remember(request)

    def _record_storage(self, request: Request) -> RequestRecord:
        request.kind = "storage"
        return self._remember(request)

    def _remember(self, request: Request) -> RequestRecord:
        record = RequestRecord(
            method=request.method,
            path=request.path,
            query=request.raw_query,
            kind=request.kind,
            range=request.header("range"),
            authorization=request.header("authorization") is not None,
        )
        self.requests.append(record)
        return record

    def _answer(self, request: Request, record: RequestRecord) -> Response:
        bucket = _BUCKETS.get(request.kind, PAGES)
        allowance = self.limits.take(bucket, request.header("authorization") or "anonymous")

        def true_answer() -> Response:
            response = self._route(request) if allowance.granted else _spent(allowance)
            response.headers = allowance.headers | response.headers
            return response

        response = self.faults.apply(request, true_answer)
        response.headers = {
            **allowance.headers,
            "X-Powered-By": "huggingface-moon",
            "X-Request-Id": f"Root=1-{len(self.requests):08x}",
            "Access-Control-Expose-Headers": _EXPOSED,
            **response.headers,
        }
        response.headers = {name: value for name, value in response.headers.items() if value}
        return response

    def _answer_storage(self, request: Request, record: RequestRecord) -> Response:
        return self.faults.apply(request, lambda: self._files.stored(request))

    def _route(self, request: Request) -> Response:
        try:
            return self._dispatch(request)
        except Moved as moved:
            message = f"Temporary Redirect. Redirecting to {moved.location}"
            return text_response(message, status=307, headers={"Location": moved.location})
        except Refusal as refusal:
            return _refused(request, refusal)

    def _dispatch(self, request: Request) -> Response:
        if request.kind == "git":
            return smart_http.answer(self.store, request)
        if request.path.startswith("/api/resolve-cache/models/"):
            return self._files.cached(request)
        if request.kind == "api":
            return self._api.answer(request)
        match request.raw_path.split("/"):
            case ["", _, _, "resolve", _, *_]:
                return self._files.resolve(request)
            case ["", _, _, "raw", _, *_]:
                return self._files.raw(request)
        raise Refusal(404, "Sorry, we can't find the page you are looking for.")


def _kind(path: str) -> str:
    if path.startswith("/api/"):
        return "resolve" if path.startswith("/api/resolve-cache/") else "api"
    if smart_http.is_git(path):
        return "git"
    parts = path.split("/")
    return "resolve" if len(parts) > 4 and parts[3] in {"resolve", "raw"} else "other"


def _spent(allowance: Allowance) -> Response:
    minutes = allowance.window // 60
    message = (
        f"We had to rate limit you, you hit the quota of {allowance.quota} {allowance.bucket} requests per "
        f"{minutes} minutes period."
    )
    return json_response({"error": message}, status=429)


def _refused(request: Request, refusal: Refusal) -> Response:
    headers = {"X-Error-Message": refusal.message} | ({"X-Error-Code": refusal.code} if refusal.code else {})
    if request.kind == "api":
        return json_response({"error": refusal.message}, status=refusal.status, headers=headers)
    answer = text_response(refusal.message, status=refusal.status, headers=headers)
    if refusal.status == 401:
        scheme = "Basic" if request.kind == "git" else "Bearer"
        answer.headers["WWW-Authenticate"] = f'{scheme} realm="Authentication required", charset="UTF-8"'
    return answer
