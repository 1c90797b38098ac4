"""The Hub's ``/api``: model info, commits, trees, refs, listings, whoami."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from urllib.parse import parse_qsl, unquote

from tracker.demo.cards import safetensors_header
from tracker.demo.describe import commit_json, entries_json, model_json
from tracker.demo.objects import TREE_MODE, TreeItem
from tracker.demo.paging import Pages, cursor_page, numbered_page, whole_number
from tracker.demo.store import ANONYMOUS, Model, Refusal, Store, commit_of
from tracker.demo.wire import Request, Response, json_response

_EXPANDABLE = frozenset({
    "author", "baseModels", "cardData", "childrenModelCount", "config", "createdAt", "disabled", "downloads",
    "downloadsAllTime", "evalResults", "gated", "gguf", "inference", "inferenceProviderMapping", "lastModified",
    "library_name", "likes", "mask_token", "model-index", "pipeline_tag", "private", "resourceGroup",
    "safetensors", "securityStatus", "sha", "siblings", "spaces", "tags", "transformersInfo", "trendingScore",
    "usedStorage", "widgetData", "xetEnabled",
})  # fmt: skip
_NOT_IN_FULL = frozenset({"downloadsAllTime", "trendingScore", "xetEnabled"})
_LISTED = ("private", "createdAt", "downloads", "likes", "library_name", "pipeline_tag", "tags")


class Api:
    """Answers requests below ``/api``."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.pages = Pages()
        self._routes: dict[str, Callable[[Request, Model, Sequence[str]], Response]] = {
            "commits": self.commits,
            "tree": self.tree,
            "refs": self.refs,
            "paths-info": self.paths_info,
            "safetensors-metadata": self.safetensors_metadata,
            "xet-read-token": self.xet_read_token,
        }

    def answer(self, request: Request) -> Response:
        """Answer a request; raises Refusal or Moved."""
        parts = [unquote(part, errors="replace") for part in request.raw_path.strip("/").split("/")[1:]]
        match parts:
            case ["whoami-v2"]:
                return self.whoami(request)
            case ["models"]:
                return self.models(request)
            case ["models", owner, name]:
                return self.model_info(request, self.store.visible(request, f"{owner}/{name}"), None)
            case ["models", owner, name, "revision", *rest] if rest:
                model = self.store.visible(request, f"{owner}/{name}")
                return self.model_info(request, model, "/".join(rest))
            case ["models", owner, name, route, *rest] if route in self._routes:
                return self._routes[route](request, self.store.readable(request, f"{owner}/{name}"), rest)
        raise Refusal(404, "Sorry, we can't find the page you are looking for.")

    # --- the routes --------------------------------------------------------------------------------

    def whoami(self, request: Request) -> Response:
        """``/api/whoami-v2``."""
        caller = self.store.caller(request)
        if caller.token is None:
            raise Refusal(401, ANONYMOUS)
        access = {"displayName": "poller", "role": "read", "createdAt": "2026-01-01T00:00:00.000Z"}
        user = {
            "type": "user", "id": "61d2f90c3c2083e1c08af22d", "name": "acme", "fullname": "Acme",
            "email": "acme@example.org", "emailVerified": True, "canPay": False, "isPro": False,
            "billingMode": "postpaid", "periodEnd": None, "avatarUrl": "/avatars/x.svg", "orgs": [],
            "auth": {"type": "access_token", "accessToken": access},
        }  # fmt: skip
        return json_response(user)

    def model_info(self, request: Request, model: Model, revision: str | None) -> Response:
        """``/api/models/{id}[/revision/{rev}]``."""
        if revision is None:
            sha = request.pins.get("main") or model.repo.resolve("main")
        else:
            sha = commit_of(model, revision, request.pins)
        expand = _expand(request)
        info = model_json(model, sha, keys=expand or None, blobs=request.first("blobs") in {"true", "True", "1"})
        if expand:
            return json_response({key: info[key] for key in ("_id", "id", *expand) if key in info})
        return json_response({key: value for key, value in info.items() if key not in _NOT_IN_FULL})

    def models(self, request: Request) -> Response:
        """``/api/models``: filtered, sorted, paged by an opaque cursor."""
        expand = _expand(request)
        found = [model for model in self.store.listed(request) if _wanted(request, model)]
        keys = ("_id", "id", *expand) if expand else ("_id", "id", "modelId", *_LISTED)
        if not expand and request.first("full") == "true":
            keys = (*keys, "author", "sha", "lastModified", "gated", "disabled", "siblings")
        rows = [model_json(model, model.repo.resolve("main"), keys=keys) for model in found]
        sort = request.first("sort")
        if sort in {"lastModified", "createdAt", "downloads", "likes", "trendingScore"}:
            # a second key, so that pages stay the same from call to call
            rows.sort(key=lambda row: row["id"])
            rows.sort(key=lambda row: row.get(sort) or "", reverse=request.first("direction") != "1")
        size = whole_number(request.first("limit"), self.pages.models, most=self.pages.models)
        page, link = cursor_page(request, rows, size)
        return json_response([{key: row[key] for key in keys if key in row} for row in page], headers=link)

    def commits(self, request: Request, model: Model, rest: Sequence[str]) -> Response:
        """``.../commits/{rev}``: newest first, numbered pages."""
        shas = model.repo.log(commit_of(model, "/".join(rest) or "main", request.pins))
        size = whole_number(request.first("limit"), self.pages.commits, most=self.pages.commits_most)
        page, link = numbered_page(request, shas, size)
        formatted = "formatted" in request.every("expand")
        rows = [commit_json(model.repo.commit_info(sha), formatted=formatted) for sha in page]
        return json_response(rows, headers={"X-Total-Count": str(len(shas))} | link)

    def tree(self, request: Request, model: Model, rest: Sequence[str]) -> Response:
        """``.../tree/{rev}[/{path}]``: folders and files, paged by an opaque cursor."""
        revision, path = (rest[0], "/".join(rest[1:]).strip("/")) if rest else ("main", "")
        sha = commit_of(model, revision, request.pins)
        repo = model.repo
        folder = repo.find(sha, path) if path else TreeItem("", TREE_MODE, repo.commit_info(sha).tree)
        if folder is None or not folder.folder:
            raise Refusal(404, f'{path} does not exist on "{revision}"', "EntryNotFound")
        recursive, expand = (request.first(name) in {"true", "True", "1"} for name in ("recursive", "expand"))
        prefix = f"{path}/" if path else ""
        entries = list(repo.entries(folder.sha, prefix, recursive=recursive))
        most = self.pages.tree_expanded if expand else self.pages.tree
        page, link = cursor_page(request, entries, whole_number(request.first("limit"), most, most=most))
        return json_response(entries_json(model, sha, page, expand=expand), headers=link)

    def refs(self, request: Request, model: Model, rest: Sequence[str]) -> Response:
        """``.../refs``: branches, tags, conversions, and pull requests where asked for."""
        groups = {"branches": "refs/heads/", "tags": "refs/tags/", "converts": "refs/convert/"}
        if request.first("include_prs") in {"1", "true"}:
            groups["pullRequests"] = "refs/pr/"
        refs = sorted(model.repo.refs.items())
        answer = {
            group: [
                {"name": ref.removeprefix(prefix), "ref": ref, "targetCommit": model.repo.peeled(sha)}
                for ref, sha in refs
                if ref.startswith(prefix)
            ]
            for group, prefix in groups.items()
        }
        return json_response(answer)

    def paths_info(self, request: Request, model: Model, rest: Sequence[str]) -> Response:
        """``.../paths-info/{rev}``: the named paths that are there."""
        sha = commit_of(model, "/".join(rest) or "main", request.pins)
        paths, expand = _paths_form(request)
        found = [(path, model.repo.find(sha, path)) for path in paths]
        entries = [(path, item) for path, item in found if item is not None]
        return json_response(entries_json(model, sha, entries, expand=expand))

    def safetensors_metadata(self, request: Request, model: Model, rest: Sequence[str]) -> Response:
        """``.../safetensors-metadata/{index}``: every shard's header, of main."""
        sha = commit_of(model, "main", request.pins)
        try:
            index = json.loads(model.repo.content(sha, "/".join(rest)) or b"")
            shards = sorted({str(shard) for shard in index["weight_map"].values()})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise Refusal(404, "Entry not found", "EntryNotFound") from None
        headers = {}
        for shard in shards:
            header = safetensors_header(model.repo.content(sha, shard) or b"")
            if header is None:
                raise Refusal(404, "Entry not found", "EntryNotFound")
            headers[shard] = header
        return json_response({"index": {"metadata": index.get("metadata", {})}, "headers": headers})

    def xet_read_token(self, request: Request, model: Model, rest: Sequence[str]) -> Response:
        """``.../xet-read-token/{rev}``: a token for a Xet server that is not there; plain ranges always work."""
        commit_of(model, "/".join(rest) or "main", request.pins)
        token = {"casUrl": f"{request.origin}/xet", "accessToken": "loopback", "exp": 4102444800}
        headers = {
            "X-Xet-Cas-Url": str(token["casUrl"]),
            "X-Xet-Access-Token": str(token["accessToken"]),
            "X-Xet-Token-Expiration": str(token["exp"]),
        }
        return json_response(token, headers=headers)


def _expand(request: Request) -> list[str]:
    fields = request.every("expand")
    unknown = [name for name in fields if name not in _EXPANDABLE]
    if unknown:
        raise Refusal(400, f'"expand" must be one of [{", ".join(sorted(_EXPANDABLE))}]')
    return fields


def _wanted(request: Request, model: Model) -> bool:
    author, search = request.first("author"), request.first("search")
    owner = model.id.partition("/")[0]
    if author is not None and owner.lower() != author.lower():
        return False
    if search is not None and search.lower() not in model.id.lower():
        return False
    tags = model.fields.get("tags", [])
    return all(tag in tags for tag in request.every("filter"))


def _paths_form(request: Request) -> tuple[list[str], bool]:
    if (request.header("content-type") or "").startswith("application/json"):
        try:
            form = json.loads(request.body)
        except ValueError:
            raise Refusal(400, "Invalid JSON") from None
        paths = form.get("paths", []) if isinstance(form, dict) else []
        return [str(path) for path in paths], bool(isinstance(form, dict) and form.get("expand"))
    pairs = parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True)
    expand = any(key == "expand" and value in {"true", "True", "1"} for key, value in pairs)
    return [value for key, value in pairs if key == "paths"], expand
