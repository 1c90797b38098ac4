"""Which texts name a model repo: ids, old names without an owner, ``hf://`` paths, the Hub's URLs.

Everything that looks like a path, an image, a package, a media type or another service's model is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from advisories.audit.legacy import LEGACY, SENTENCE_TRANSFORMERS
from storage.errors import UsageError
from storage.model import DEFAULT_IDENTITY, RepoRef

_LONGEST = 400  # characters that any notation of a repo can have
_HUB_HOSTS = frozenset({"huggingface.co", "www.huggingface.co", "hf.co"})
_OTHER_KINDS = frozenset(
    {"datasets", "spaces", "buckets", "kernels", "api", "docs", "blog", "papers", "collections"}
)
_NOT_OWNERS = _OTHER_KINDS | {"tasks", "models", "learn", "join", "login", "settings", "pricing", "chat", "new"}
# First segments of relative paths and of made-up names in examples.
_FOLDERS = frozenset(
    [
        "model",
        "models",
        "checkpoint",
        "checkpoints",
        "ckpt",
        "ckpts",
        "output",
        "outputs",
        "out",
        "result",
        "results",
        "run",
        "runs",
        "data",
        "dataset",
        "datasets",
        "weight",
        "weights",
        "saved",
        "saved_model",
        "saved_models",
        "log",
        "logs",
        "tmp",
        "temp",
        "cache",
        "asset",
        "assets",
        "artifact",
        "artifacts",
        "local",
        "build",
        "dist",
        "src",
        "lib",
        "bin",
        "app",
        "experiment",
        "experiments",
        "trained",
        "pretrained",
        "pretrained_models",
        "finetuned",
        "path",
        "dir",
        "folder",
        "home",
        "usr",
        "opt",
        "mnt",
        "var",
        "etc",
        "root",
        "workspace",
        "content",
        "work",
        "test",
        "tests",
        "config",
        "configs",
        "scripts",
        "examples",
        "docs",
        "your-org",
        "your-username",
        "your_username",
        "your_org",
        "username",
        "user-name",
        "organization",
    ]
)
_MEDIA = frozenset({"application", "text", "image", "audio", "video", "font", "message", "multipart"})
# Services that other tools put before a model's name; none of them is an owner of open models on the Hub.
_SERVICES = frozenset(
    [
        "anthropic",
        "azure",
        "azure_ai",
        "bedrock",
        "vertex_ai",
        "gemini",
        "ollama",
        "ollama_chat",
        "openrouter",
        "groq",
        "together_ai",
        "replicate",
        "fireworks_ai",
        "litellm",
        "litellm_proxy",
        "hosted_vllm",
        "lm_studio",
        "vllm_hosted",
        "perplexity",
        "sagemaker",
        "watsonx",
        "cloudflare",
        "databricks",
        "xai",
    ]
)
_OPENAI_SERVICE = re.compile(r"(?:gpt-[345]|gpt-4|o[1-9]|chatgpt|text-embedding|text-davinci|dall-e|tts|codex)")
_FILE_ENDINGS = re.compile(
    r"\.(?:gguf|bin|safetensors|pt|pth|onnx|json|jsonl|ya?ml|toml|py|txt|model|ckpt|h5|npz|npy|csv|tsv|parquet|zip|"
    r"gz|tgz|tar|sh|md|html?|js|ts|png|jpe?g|wav|mp3|mp4|ipynb|pkl|joblib|xml|pb|tflite|engine|plan)",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(r"(?:your|my-?org|path-?to|some-?org)(?:[-_].*)?|path_to_.*", re.IGNORECASE)
_HF_PATH = re.compile(r"(?:hf://|hf[-_]hub:)(.+)", re.DOTALL)
_SPECIAL_REF = re.compile(r"(refs/(?:pr|convert|heads|tags)/[^/]+)(?:/|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A repo as it was named, and the revision that the name itself carries."""

    repo: str
    revision: str | None = None
    endpoint: str | None = None
    form: str | None = None  # "hf://", "url", "@" where the revision stands in the text itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Decides what a text names.

    Attributes:
        known: Repo ids that the source of advisories holds; they settle what is doubtful.
        hosts: Host names under which repos have URLs.
        exists: Whether a relative path is there on disk: a loader takes the folder, not the repo.

    """

    known: frozenset[str] = frozenset()
    hosts: frozenset[str] = _HUB_HOSTS
    exists: Callable[[str], bool] = lambda _: False

    def loaded(self, text: str, *, sentence: bool = False, tag: bool = False) -> Spec | None:
        """What a text names that is handed to something that loads models.

        ``sentence``: old names without an owner are those of sentence-transformers.
        ``tag``: a ``:`` and what follows chooses files within the repo, as in ``owner/name:Q4_K_M``.
        """
        text = text.strip()
        if not text or len(text) > _LONGEST:
            return None
        if (spec := self.located(text)) is not None or "://" in text:
            return spec
        for host in ("hf.co/", "huggingface.co/", "huggingface/"):
            if text.startswith(host) and text.count("/") >= 2:
                text = text.removeprefix(host)
        if tag:
            text = text.partition(":")[0]
        name, at, revision = text.partition("@")
        return self._named(name, revision if at and revision else None, sentence)

    def located(self, text: str, *, page: bool = False) -> Spec | None:
        """What an ``hf://`` path or a URL of the Hub names; with ``page`` also a URL that is a repo's page."""
        text = text.strip()
        if len(text) > _LONGEST * 5:
            return None
        found = _HF_PATH.match(text)
        if found:
            return self._hf_path(found.group(1), text[: found.start(1)])
        if text.startswith(("https://", "http://")):
            return self._url(text, page)
        return None

    def is_known(self, text: str) -> bool:
        """Whether a text is exactly the id of a repo that the source holds."""
        return text in self.known

    def _named(self, name: str, revision: str | None, sentence: bool) -> Spec | None:
        form = "@" if revision else None
        if "/" not in name:
            owner = LEGACY.get(name) or (SENTENCE_TRANSFORMERS if sentence and "-" in name else None)
            if owner is None or not self._plausible(f"{owner}/{name}") or self.exists(name):
                return None
            return Spec(repo=f"{owner}/{name}", revision=revision, form=form)
        if not self._plausible(name) or (self.exists(name) and name not in LEGACY):
            return None
        return Spec(repo=name, revision=revision, form=form)

    def _plausible(self, name: str) -> bool:
        if not name.isascii():
            return False
        try:
            repo = RepoRef.parse(name)
        except UsageError:
            return False
        if name in self.known:
            return True
        owner, short = repo.owner.lower(), repo.name.lower()
        return not (
            owner in _FOLDERS
            or owner in _MEDIA
            or owner in _SERVICES
            or owner in _NOT_OWNERS
            or _PLACEHOLDER.fullmatch(owner)
            or (owner == "openai" and _OPENAI_SERVICE.match(short))
            or _FILE_ENDINGS.fullmatch(_ending(short))
        )

    def _hf_path(self, rest: str, form: str) -> Spec | None:
        rest = rest.removeprefix("models/") if rest.count("/") >= 2 else rest
        owner, _, tail = rest.partition("/")
        if owner in _OTHER_KINDS or not tail:
            return None
        name = re.split(r"[/@:]", tail, maxsplit=1)[0]
        mark = tail[len(name) : len(name) + 1]
        revision = _revision(tail[len(name) + 1 :]) if mark in {"@", ":"} else None
        return self._spec(owner, name, revision, None, "hf://" if form == "hf://" else "hf-hub:")

    def _url(self, text: str, page: bool) -> Spec | None:
        try:
            parts = urlsplit(text)
            host = (parts.hostname or "").lower()
            place = host if parts.port is None else f"{host}:{parts.port}"
        except ValueError:
            return None
        if place not in self.hosts:
            return None
        segments = [unquote(part) for part in parts.path.split("/") if part]
        if len(segments) < 2 or segments[0] in _NOT_OWNERS:
            return None
        owner, name = segments[0], segments[1].removesuffix(".git")
        endpoint = None if host in _HUB_HOSTS else f"{parts.scheme}://{place}"
        if len(segments) > 3 and segments[2] in {"resolve", "raw", "blob"}:
            return self._spec(owner, name, _revision("/".join(segments[3:])), endpoint, "url")
        if page and len(segments) > 3 and segments[2] == "tree":
            return self._spec(owner, name, _revision("/".join(segments[3:])), endpoint, "url")
        return self._spec(owner, name, None, endpoint, "url") if page and len(segments) == 2 else None

    def _spec(self, owner: str, name: str, revision: str | None, endpoint: str | None, form: str) -> Spec | None:
        try:
            repo = RepoRef.parse(f"{owner}/{name}")
        except UsageError:
            return None
        return Spec(repo=repo.id, revision=revision, endpoint=endpoint, form=form)


def hosts_of(identity: str) -> frozenset[str]:
    """The host names under which repos of a hub have URLs."""
    if identity == DEFAULT_IDENTITY:
        return _HUB_HOSTS
    return _HUB_HOSTS | {urlsplit(identity).netloc.lower()}


def _revision(path: str) -> str | None:
    """The revision at the start of a path: a special ref has slashes of its own."""
    special = _SPECIAL_REF.match(unquote(path))
    revision = special.group(1) if special else unquote(path.partition("/")[0])
    return revision or None


def _ending(name: str) -> str:
    stem, dot, ending = name.rpartition(".")
    return dot + ending if stem else ""
