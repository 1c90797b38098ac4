"""An audit as a CycloneDX 1.7 BOM: the models as components, the advisories as their vulnerabilities."""

from __future__ import annotations

import json
import re
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from importlib.metadata import version
from typing import Any

from cyclonedx.exception import CycloneDxException
from cyclonedx.model import ExternalReference, ExternalReferenceType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.component_evidence import ComponentEvidence, Occurrence
from cyclonedx.model.impact_analysis import ImpactAnalysisAffectedStatus
from cyclonedx.model.vulnerability import (
    BomTarget,
    BomTargetVersionRange,
    Vulnerability,
    VulnerabilityAdvisory,
    VulnerabilityRating,
    VulnerabilityScoreSource,
    VulnerabilitySeverity,
    VulnerabilitySource,
)
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from advisories.audit.model import Audit, Holding, Notice
from advisories.osv import PURL_TYPE
from advisories.text import visible
from storage.errors import HubwatchError
from storage.model import DEFAULT_IDENTITY

_URL = re.compile(
    r"https?://[A-Za-z0-9.-]{1,253}(?::\d{1,5})?(?:/(?:[A-Za-z0-9/._~!$&'()*+,;=:@?-]|%[0-9A-F]{2}){0,2000})?"
)
_CWE = re.compile(r"CWE-(\d{1,6})")
_MOST_OCCURRENCES = 1000


def to_cyclonedx(audit: Audit, *, identity: str = DEFAULT_IDENTITY, now: datetime) -> str:
    """The BOM as JSON: one component a repo and commit, with every place that uses it.

    A reference whose commit is unknown stands without a version. The serial number is drawn from the content,
    so that one audit gives one BOM.
    """
    groups: dict[tuple[str, str | None, str], list[Holding]] = defaultdict(list)
    for holding in audit.holdings:
        endpoint = holding.reference.endpoint or identity
        groups[(holding.reference.repo, holding.sha, endpoint)].append(holding)
    components = {
        key: _component(*key, held) for key, held in sorted(groups.items(), key=lambda item: str(item[0]))
    }
    bom = Bom(components=components.values(), vulnerabilities=_vulnerabilities(groups))
    bom.metadata.timestamp = now
    bom.metadata.tools.components.add(
        Component(name="hubwatch", version=version("hubwatch"), type=ComponentType.APPLICATION)
    )
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, "\n".join(sorted(_ref(*key) for key in groups)))
    try:
        text = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_7).output_as_string()
    except CycloneDxException as error:
        raise HubwatchError(f"the BOM cannot be written: {error}") from error
    document: dict[str, Any] = json.loads(text)
    cards = {_ref(*key): _card(held) for key, held in groups.items()}
    for component in document.get("components", ()):
        card = cards.get(component.get("bom-ref"))
        if card:
            component["modelCard"] = card
    return json.dumps(document, indent=2, ensure_ascii=True)


def _purl(repo: str, sha: str | None, endpoint: str) -> PackageURL:
    owner, _, name = repo.partition("/")
    qualifiers = {} if endpoint == DEFAULT_IDENTITY else {"repository_url": endpoint}
    return PackageURL(PURL_TYPE, owner, name, sha, qualifiers=qualifiers)


def _ref(repo: str, sha: str | None, endpoint: str) -> str:
    return _purl(repo, sha, endpoint).to_string()


def _component(repo: str, sha: str | None, endpoint: str, held: Iterable[Holding]) -> Component:
    owner, _, name = repo.partition("/")
    places = sorted({(item.reference.file, item.reference.line, item.reference.via) for item in held})
    return Component(
        type=ComponentType.MACHINE_LEARNING_MODEL,
        bom_ref=_ref(repo, sha, endpoint),
        group=owner,
        name=name,
        version=sha,
        purl=_purl(repo, sha, endpoint),
        external_references=[
            ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=XsUri(f"{endpoint}/{repo}"))
        ],
        evidence=ComponentEvidence(
            occurrences=[
                Occurrence(location=_text(file, 1000), line=line, symbol=_text(via, 100))
                for file, line, via in places[:_MOST_OCCURRENCES]
            ]
        ),
        properties=[
            Property(name="hubwatch:pinned", value=str(all(item.reference.pinned for item in held)).lower())
        ],
    )


def _card(held: Iterable[Holding]) -> dict[str, Any]:
    """The part of a model card that the advisories' source knows: what kind of model it is."""
    facts: Mapping[str, Any] = next((item.facts for item in held if item.facts), {})
    parameters = {
        key: str(facts[name])[:200]
        for key, name in (("architectureFamily", "model_type"), ("modelArchitecture", "architecture"))
        if facts.get(name)
    }
    return {"modelParameters": parameters} if parameters else {}


def _vulnerabilities(groups: Mapping[tuple[str, str | None, str], Iterable[Holding]]) -> list[Vulnerability]:
    touched: dict[str, tuple[Notice, set[tuple[str, str | None, str]]]] = {}
    for key, held in groups.items():
        for holding in held:
            for notice in holding.affected:
                touched.setdefault(notice.id, (notice, set()))[1].add(key)
    return [_vulnerability(notice, keys) for _, (notice, keys) in sorted(touched.items())]


def _vulnerability(notice: Notice, keys: Iterable[tuple[str, str | None, str]]) -> Vulnerability:
    document = notice.document
    found = document.get("database_specific")
    specific: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    cwes = [int(match.group(1)) for item in _texts(specific.get("cwe_ids")) if (match := _CWE.fullmatch(item))]
    references = document.get("references")
    urls = [
        item["url"]
        for item in (references if isinstance(references, list) else ())
        if isinstance(item, Mapping) and isinstance(item.get("url"), str) and _URL.fullmatch(item["url"])
    ]
    return Vulnerability(
        bom_ref=notice.id,
        id=notice.id,
        source=VulnerabilitySource(name="hubwatch"),
        ratings=[
            VulnerabilityRating(
                severity=VulnerabilitySeverity(notice.severity.label),
                method=VulnerabilityScoreSource.OTHER,
                justification=_text(specific.get("severity_reason"), 1000) or None,
            )
        ],
        cwes=cwes,
        description=_text(notice.summary, 500),
        detail=_text(document.get("details"), 20_000) or None,
        recommendation=_text(specific.get("advice"), 1000) or None,
        advisories=[VulnerabilityAdvisory(url=XsUri(url)) for url in urls[:20]],
        published=_time(document.get("published")),
        updated=_time(document.get("modified")),
        affects=[
            BomTarget(
                ref=_ref(*key),
                versions=[BomTargetVersionRange(version=key[1], status=ImpactAnalysisAffectedStatus.AFFECTED)]
                if key[1]
                else [],
            )
            for key in sorted(keys, key=str)
        ],
        properties=[Property(name="hubwatch:class", value=notice.cls)],
    )


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _text(value: Any, limit: int) -> str:
    return visible(value[:limit], keep="\n\t") if isinstance(value, str) else ""


def _time(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
