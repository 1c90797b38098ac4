from __future__ import annotations

import json
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from advisories.audit import match
from advisories.audit.cyclonedx import to_cyclonedx
from advisories.audit.find import sbom
from advisories.audit.find.tree import read_tree
from advisories.audit.model import Audit, Gap, Holding, Notice, Place, Reading, Reference
from advisories.audit.names import Names
from advisories.audit.sarif import to_sarif
from advisories.audit.sources import LocalSource
from storage.database import Database
from storage.model import Severity
from tests.advisories.landing import Kept
from tests.advisories.story import REPO, sha

NOW = datetime(2026, 11, 30, 18, tzinfo=UTC)
HOSTILE = "x\u202e<script>\x1b]0;a\x07 \ud800 " + "y" * 3000


@pytest.fixture
def audited(sqlite_database: Database, tmp_path: Path) -> Audit:
    kept = Kept(sqlite_database).rope("A", "B", "C")
    source = f"AutoModel.from_pretrained('{REPO.id}')\n"
    source += f"x = AutoModel.from_pretrained('{REPO.id}', revision='{sha(1)}')\n"
    (tmp_path / "a b.py").write_text(source)
    (tmp_path / "c.sh").write_text("vllm serve acme/unknown\n")
    return match.audit(
        read_tree(tmp_path, Names()), LocalSource(kept.database).know([REPO.id]), base=str(tmp_path)
    )


@pytest.fixture
def hostile() -> Audit:
    """An audit of names and documents made to hurt."""
    reference = Reference(
        repo="acme/x",
        revision=HOSTILE,
        place=Place(line=1, column=5, end_column=5),
        via=HOSTILE,
        file=f"a/{HOSTILE}.py",
    )
    document = {
        "id": "x_1",
        "details": HOSTILE,
        "published": "yesterday",
        "modified": 5,
        "references": [{"url": "http://[::1"}, {"url": HOSTILE}, 7],
        "database_specific": {"cwe_ids": ["CWE-502", "CWE-x", 3], "severity_reason": [], "advice": HOSTILE},
    }
    notice = Notice(id="x_1", severity=Severity.HIGH, cls="no.such_class", summary=HOSTILE, document=document)
    holding = Holding(reference=reference, sha="a" * 40, affected=(notice,), facts={"model_type": HOSTILE})
    return Audit(
        holdings=(holding,), gaps=(Gap(reason="x", detail=HOSTILE, file=HOSTILE, line=3),), base="/tmp/x y"
    )


def well_formed(log: dict[str, Any]) -> None:
    """What the SARIF standard asks of the parts that are used here."""
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in {"none", "note", "warning", "error"}
        assert result["message"]["text"].endswith((".", "…"))
        for location in result["locations"]:
            place = location["physicalLocation"]
            assert place["artifactLocation"]["uriBaseId"] in run["originalUriBaseIds"]
            assert " " not in place["artifactLocation"]["uri"]
            region = place["region"]
            assert region["startLine"] >= 1
            assert region.get("endColumn", 2**31) > region.get("startColumn", 1) >= 1
    assert run["originalUriBaseIds"]["SRCROOT"]["uri"].endswith("/")


def test_sarif(audited: Audit, tmp_path: Path) -> None:
    log = to_sarif(audited)
    well_formed(log)
    results = log["runs"][0]["results"]
    places = [result["locations"][0]["physicalLocation"] for result in results]
    assert [(place["artifactLocation"]["uri"], place["region"]) for place in places] == [
        ("a%20b.py", {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 27 + len(REPO.id) + 3}),
        ("a%20b.py", {"startLine": 2, "startColumn": 5, "endLine": 2, "endColumn": 32 + len(REPO.id) + 55}),
    ]
    assert len({result["partialFingerprints"]["hubwatchFinding/v1"] for result in results}) == 2
    notes = log["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert [note["descriptor"]["id"] for note in notes] == ["not_watched"]
    (rule,) = log["runs"][0]["tool"]["driver"]["rules"]
    assert rule["help"]["text"]
    assert 0 < float(rule["properties"]["security-severity"]) <= 10


def test_hostile_text_stays_harmless_in_sarif(hostile: Audit) -> None:
    log = to_sarif(hostile)
    well_formed(log)
    json.dumps(log, ensure_ascii=False).encode("utf-8")  # raises for what no strict reader takes
    assert "\u202e" not in json.dumps(log["runs"][0]["results"][0]["message"], ensure_ascii=False)


def test_sarif_is_read_by_sarif_tools(audited: Audit, hostile: Audit, tmp_path: Path) -> None:
    loader = pytest.importorskip("sarif.loader")
    for number, one in enumerate((audited, hostile)):
        path = tmp_path / f"{number}.sarif"
        path.write_text(json.dumps(to_sarif(one)))
        found = loader.load_sarif_file(str(path))
        assert found.get_result_count() == len(one.findings)


def test_sarif_is_accepted_by_sarif_multitool(audited: Audit, tmp_path: Path) -> None:
    tool = shutil.which("sarif-multitool") or shutil.which("Sarif.Multitool")
    if tool is None:
        pytest.skip("needs sarif-multitool: npm install --global @microsoft/sarif-multitool")
    path, out = tmp_path / "x.sarif", tmp_path / "report.sarif"
    path.write_text(json.dumps(to_sarif(audited)))
    subprocess.run([tool, "validate", str(path), "--output", str(out)], check=True, timeout=120)
    report = json.loads(out.read_text(encoding="utf-8-sig"))
    assert [item for item in report["runs"][0]["results"] if item.get("level") == "error"] == []


def test_cyclonedx(audited: Audit) -> None:
    text = to_cyclonedx(audited, now=NOW)
    assert JsonStrictValidator(SchemaVersion.V1_7).validate_str(text) is None
    bom = json.loads(text)
    assert bom["specVersion"] == "1.7"
    models = {item["purl"]: item for item in bom["components"]}
    assert set(models) == {
        f"pkg:huggingface/{REPO.id}@{sha(2)}",
        f"pkg:huggingface/{REPO.id}@{sha(1)}",
        "pkg:huggingface/acme/unknown",
    }
    held = models[f"pkg:huggingface/{REPO.id}@{sha(1)}"]
    assert held["type"] == "machine-learning-model"
    assert held["version"] == sha(1)
    assert held["evidence"]["occurrences"][0]["line"] == 2
    named = {item["id"]: item for item in bom["vulnerabilities"]}
    assert {notice.id for _, notice in audited.findings} == set(named)
    for _, notice in audited.findings:
        assert named[notice.id]["ratings"][0]["severity"] == notice.severity.label
    refs = {item["bom-ref"] for item in bom["components"]}
    assert all(target["ref"] in refs for item in named.values() for target in item["affects"])
    assert to_cyclonedx(audited, now=NOW) == text


def test_a_bom_of_ours_is_found_again(audited: Audit) -> None:
    reading: Reading = sbom.find(to_cyclonedx(audited, now=NOW))
    assert {(item.repo, item.revision) for item in reading.references} == {
        (REPO.id, sha(1)),
        (REPO.id, sha(2)),
        ("acme/unknown", None),
    }


def test_hostile_text_gives_a_valid_bom(hostile: Audit) -> None:
    text = to_cyclonedx(hostile, now=NOW, identity="http://127.0.0.1:1")
    assert JsonStrictValidator(SchemaVersion.V1_7).validate_str(text) is None
    (component,) = json.loads(text)["components"]
    assert component["modelCard"]["modelParameters"]["architectureFamily"]
    assert "repository_url" in component["purl"]
