"""An advisory as an OSV document: strict, deterministic, nothing outside ``*_specific`` that OSV does not know.

Shape and fields are described in docs/advisories.md; `advisories.osv_model` has them as types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from packageurl import PackageURL

from advisories.advice import advice
from advisories.details import details
from advisories.rules.registry import rule_of
from advisories.text import one_line
from advisories.view import CAP, bounded, changes_json, clipped, plain
from storage.model import DEFAULT_IDENTITY, Advisory, Change, Json, RepoRef, Span

SCHEMA_VERSION = "1.8.0"
ECOSYSTEM = "GIT"
PURL_TYPE = "huggingface"
SUMMARY = 200  # characters
PATHS = 100  # paths listed
REFERENCE_TYPES = frozenset(
    {
        "ADVISORY",
        "ARTICLE",
        "DETECTION",
        "DISCUSSION",
        "REPORT",
        "FIX",
        "INTRODUCED",
        "GIT",
        "PACKAGE",
        "EVIDENCE",
        "WEB",
    }
)
# Context that has a place of its own, or that a document names otherwise.
_PLACED = frozenset({"references", "state"})


def document(
    advisory: Advisory, *, versions: Sequence[str] = (), versions_changed_at: datetime | None = None
) -> dict[str, Any]:
    """The OSV document of an advisory.

    Args:
        advisory: The advisory as it stands.
        versions: The full shas of the commits at which it is open, oldest first.
        versions_changed_at: When the newest of them was observed: a longer list moves ``modified``.

    """
    moved = max(advisory.modified, versions_changed_at or advisory.modified)
    made: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "id": advisory.id,
        "published": timestamp(advisory.published),
        "modified": timestamp(moved),
    }
    if advisory.withdrawn is not None:
        made["withdrawn"] = timestamp(advisory.withdrawn)
    related = sorted(set(advisory.related) - {advisory.id})
    if related:
        made["related"] = related
    made |= {
        "summary": summary(advisory),
        "details": details(advisory),
        "affected": [_affected(advisory, versions)],
        "references": list(_references(advisory)),
        "credits": [{"name": "hubwatch", "type": "TOOL"}],
        "database_specific": _database_specific(advisory),
    }
    return made


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC with ``Z``; fractions only where there are any."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


@lru_cache(maxsize=1024)
def purl(repo: RepoRef) -> str:
    """The package URL of a repo, without a version; another hub than the public one is its ``repository_url``."""
    qualifiers = {} if repo.endpoint == DEFAULT_IDENTITY else {"repository_url": repo.endpoint}
    return PackageURL(PURL_TYPE, repo.owner, repo.name, qualifiers=qualifiers).to_string()


def summary(advisory: Advisory) -> str:
    """One line of at most 200 characters: ``owner/name: what (short sha)`` and how it ended."""
    head, tail = f"{advisory.repo.id}: ", _ending(advisory)
    return head + one_line(_what(advisory), max(SUMMARY - len(head) - len(tail), 20)) + tail


def status(advisory: Advisory) -> str:
    """Where an advisory stands: ``open``, ``closed``, ``ended`` (a state of the repo) or ``withdrawn``."""
    if advisory.withdrawn is not None:
        return "ended" if advisory.context.get("ended_at") else "withdrawn"
    return "open" if advisory.open else "closed"


def _what(advisory: Advisory) -> str:
    changes = [item.finding.change for item in advisory.findings]
    if len(changes) == 1 and changes[0].summary.strip():
        return changes[0].summary.removeprefix(f"{advisory.repo.id} ")  # the line begins with it already
    count = f" ({len(changes)} changes)" if len(changes) > 1 else ""
    return rule_of(advisory.cls).title + count


def _ending(advisory: Advisory) -> str:
    if not advisory.spans:
        return ", ended" if advisory.context.get("ended_at") else ""
    last = advisory.spans[-1]
    before = "before " if advisory.spans[0].introduced == "0" else ""
    began = f" ({before}{advisory.introduced[:7]})"
    if last.fixed:
        return f"{began}, restored ({last.fixed[:7]})"
    if last.last_affected:
        return f"{began}, changed again after {last.last_affected[:7]}"
    return f"{began}, back again ({last.introduced[:7]})" if len(advisory.spans) > 1 else began


def _affected(advisory: Advisory, versions: Sequence[str]) -> dict[str, Any]:
    repo = advisory.repo
    about: dict[str, Any] = {"ref": _full_ref(advisory.ref)}
    if advisory.predecessor:
        about = {"last_known_before": advisory.predecessor, **about}
    affected: dict[str, Any] = {
        "package": {"ecosystem": ECOSYSTEM, "name": repo.url, "purl": purl(repo)},
        "ranges": [
            {"type": "GIT", "repo": repo.url, "events": events, "database_specific": dict(about)}
            for events in _ranges(advisory.spans)
        ],
    }
    if versions:
        affected["versions"] = list(versions)
    paths = sorted({path for item in advisory.findings for path in _paths(item.finding.change)} - {""})
    shown = [clipped(path, CAP) for path in paths[:PATHS]]
    affected["database_specific"] = {"change_class": advisory.cls, "paths": shown}
    return affected


def _paths(change: Change) -> Iterator[str]:
    """The path of a change, and the others that tell it (a template's old place, a token's other files)."""
    yield change.path
    others = change.facts.get("paths")
    yield from (path for path in others if isinstance(path, str)) if isinstance(others, list | tuple) else ()


def _ranges(spans: Sequence[Span]) -> list[list[dict[str, str]]]:
    """The events of each range: one for what is open or was fixed, one for each span that was superseded."""
    if not spans:
        return [[{"introduced": "0"}]]
    main = [event for span in spans if not span.last_affected for event in _events(span)]
    return ([main] if main else []) + [list(_events(span)) for span in spans if span.last_affected]


def _events(span: Span) -> Iterator[dict[str, str]]:
    yield {"introduced": span.introduced}
    if span.fixed:
        yield {"fixed": span.fixed}
    elif span.last_affected:
        yield {"last_affected": span.last_affected}


def _references(advisory: Advisory) -> Iterator[dict[str, str]]:
    repo, spans = advisory.repo, advisory.spans
    found = [("INTRODUCED", _commit(repo, span.introduced)) for span in spans if span.introduced != "0"]
    found += [("FIX", _commit(repo, span.fixed)) for span in spans if span.fixed]
    found += list(_given(advisory.context.get("references")))
    found.append(("PACKAGE", repo.url))
    yield from ({"type": kind, "url": url} for kind, url in dict.fromkeys(found))


def _given(references: Json) -> Iterable[tuple[str, str]]:
    for item in references if isinstance(references, list | tuple) else ():
        if not isinstance(item, Mapping):
            continue
        kind, url = item.get("type", "WEB"), item.get("url")
        if isinstance(url, str) and url.startswith(("https://", "http://")):
            yield (kind if kind in REFERENCE_TYPES else "WEB"), url


def _commit(repo: RepoRef, sha: str) -> str:
    return f"{repo.url}/commit/{sha}"


def _full_ref(ref: str) -> str:
    return ref if ref.startswith("refs/") else f"refs/heads/{ref}"


def _database_specific(advisory: Advisory) -> dict[str, Any]:
    rule = rule_of(advisory.cls)
    changes = changes_json(advisory)
    made: dict[str, Any] = {
        "severity": advisory.severity.osv,
        "severity_reason": clipped(advisory.reason),
        "change_class": advisory.cls,
        "title": rule.title,
        "cwe_ids": list(rule.cwe),
        "atlas_ids": list(rule.atlas),
        "status": status(advisory),
        "changes": changes,
        "changes_total": len(advisory.findings),
        "advice": advice(advisory),
    }
    if len(advisory.findings) == 1:
        made |= {"before": changes[0]["before"], "after": changes[0]["after"]}
    if advisory.superseded_by:
        made["superseded_by"] = advisory.superseded_by
    if "state" in advisory.context:
        made["repo_state"] = plain(advisory.context["state"])
    extra = {key: bounded(value) for key, value in sorted(advisory.context.items()) if key not in _PLACED}
    return {**extra, **made}
