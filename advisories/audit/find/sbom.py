"""Model references in SBOMs: ``pkg:huggingface/`` in CycloneDX (JSON, XML) and SPDX (2 and 3, tag-value)."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from packageurl import PackageURL

from advisories.audit.find.tree_nodes import Mapping, Node, Scalar, read_json, walk
from advisories.audit.legacy import LEGACY
from advisories.audit.model import Place, Reading, Reference, Unreadable, is_sha
from advisories.osv import PURL_TYPE
from storage.errors import UsageError
from storage.model import DEFAULT_IDENTITY, RepoRef

_PURL_KEYS = ("purl", "referenceLocator", "software_packageUrl", "packageUrl", "identifier")
_VERSION_KEYS = ("version", "versionInfo", "software_packageVersion", "packageVersion")
_IN_TEXT = re.compile(
    r"(?:<(?:\w+:)?(?:purl|packageUrl|referenceLocator)>\s*|\bpurl[\s=]+\"?)(pkg:huggingface/[^\s\"'<>]{1,1000})"
)
_SIGNS = re.compile(r'"bomFormat"|"spdxVersion"|"SPDXID"|spdx\.org|cyclonedx\.org|SPDXVersion:|"@context"')


def is_sbom(text: str) -> bool:
    """Whether a text looks like an SBOM."""
    return _SIGNS.search(text) is not None


def find(text: str) -> Reading:
    """The references of an SBOM, in whichever of its forms; raises Unreadable for anything else."""
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        root = read_json(text.lstrip("\ufeff"))
        if not is_sbom(text):
            raise Unreadable("parse_error", "neither CycloneDX nor SPDX")
        found = list(_in_nodes(root))
    elif is_sbom(text):
        found = list(_in_lines(text))
    else:
        raise Unreadable("parse_error", "neither CycloneDX nor SPDX")
    return Reading(references=tuple(dict.fromkeys(found)))


def _in_nodes(root: Node) -> Iterator[Reference]:
    for node in walk(root):
        if not isinstance(node, Mapping):
            continue
        version = node.text(*_VERSION_KEYS)
        for key, line, value in node.entries:
            if key in _PURL_KEYS and isinstance(value, Scalar):
                made = reference(value.text, line, version)
                if made is not None:
                    yield made


def _in_lines(text: str) -> Iterator[Reference]:
    for number, line in enumerate(text.split("\n"), 1):
        for found in _IN_TEXT.finditer(line[:20_000]):
            made = reference(html.unescape(found.group(1)), number, None)
            if made is not None:
                yield made


def reference(text: str, line: int, version: str | None) -> Reference | None:
    """The repo that a package URL names; ``version`` is that of the component, where the URL has none."""
    if not text.startswith(f"pkg:{PURL_TYPE}/"):
        return None
    try:
        purl = PackageURL.from_string(text)
        owner = purl.namespace or LEGACY.get(purl.name, "")
        repo = RepoRef.parse(f"{owner}/{purl.name}")
    except (ValueError, UsageError):
        return None
    qualifiers = purl.qualifiers if isinstance(purl.qualifiers, dict) else {}
    endpoint = str(qualifiers.get("repository_url") or "").rstrip("/") or None
    revision = purl.version or version
    lowered = revision.lower() if revision else None
    return Reference(
        repo=repo.id,
        endpoint=None if endpoint == DEFAULT_IDENTITY else endpoint,
        revision=lowered if is_sha(lowered) else revision,
        place=Place(line=line),
        via="purl",
    )
