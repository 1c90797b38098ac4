from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisories.audit import pins, report
from advisories.audit.match import audit, hold, is_open
from advisories.audit.model import Audit, Knowledge, Notation, Place, Reading, Reference
from advisories.audit.sources import ExportSource, LocalSource, from_documents
from advisories.export import export
from storage.database import Database
from storage.errors import UsageError
from storage.model import Severity
from tests.advisories.landing import Kept
from tests.advisories.story import REPO, sha


def reference(revision: str | None = None, **more: Any) -> Reference:
    return Reference(
        **{
            "repo": REPO.id,
            "revision": revision,
            "place": Place(line=3),
            "via": "from_pretrained",
            "file": "a.py",
            **more,
        }
    )


@pytest.fixture
def kept(sqlite_database: Database) -> Kept:
    """A value that became B, stayed, became C, and was put back to B."""
    return Kept(sqlite_database).rope("A", "B", "B", "C", "B")


@pytest.fixture
def known(kept: Kept) -> Knowledge:
    return LocalSource(kept.database).know([REPO.id])[REPO.id]


def ids(*notices: Any) -> list[str]:
    return [notice.id for group in notices for notice in group]


def test_a_floating_reference_is_held_against_the_newest_head(kept: Kept, known: Knowledge) -> None:
    for revision in (None, "main"):
        holding, gap = hold(reference(revision), known)
        assert gap is None
        assert (holding.sha, holding.head, holding.behind) == (sha(4), sha(4), 0)
        assert ids(holding.affected) == [kept.story.of("B").id]
        assert (holding.gained, holding.lost, holding.since) == ((), (), ())


def test_a_pin_is_held_against_those_that_list_it(kept: Kept, known: Knowledge) -> None:
    b, c = kept.story.of("B").id, kept.story.of("C").id
    before, _ = hold(reference(sha(0)), known)
    assert (ids(before.affected), ids(before.gained), ids(before.lost), before.behind) == ([], [b], [], 4)
    assert sorted(ids(before.since)) == sorted([b, c])
    inside, _ = hold(reference(sha(3)), known)
    assert (ids(inside.affected), ids(inside.gained), ids(inside.lost), inside.behind) == ([c], [b], [c], 1)
    same, _ = hold(reference(sha(1)), known)
    assert (ids(same.affected), ids(same.gained), ids(same.lost)) == ([b], [], [])


def test_a_short_sha_that_is_certain_is_followed(known: Knowledge) -> None:
    full = sha(3)
    if sum(item.startswith(full[:12]) for item in known.read) == 1:
        holding, gap = hold(reference(full[:12]), known)
        assert (holding.sha, gap) == (full, None)


@pytest.mark.parametrize("revision", ["f" * 40, "v1.0", "refs/pr/1", "ffffffff"])
def test_a_revision_that_was_not_read_is_a_gap(known: Knowledge, revision: str) -> None:
    holding, gap = hold(reference(revision), known)
    assert gap is not None
    assert gap.reason == "revision_not_read"
    assert holding.affected == holding.gained == ()


def test_a_repo_that_is_not_watched_is_a_gap(known: Knowledge) -> None:
    other = reference(repo="acme/other")
    found = audit(Reading(references=(other, reference())), {REPO.id: known})
    assert [(gap.reason, gap.repo, gap.line) for gap in found.gaps] == [("not_watched", "acme/other", 3)]
    assert len(found.findings) == 1


def test_info_and_withdrawn_are_left_out(known: Knowledge) -> None:
    hidden = [dict(document) for document in known.documents]
    for document in hidden:
        document["withdrawn"] = "2026-01-01T00:00:00Z"
    assert hold(reference(), from_documents(REPO.id, hidden))[0].affected == ()
    for document in hidden:
        del document["withdrawn"]
        document["database_specific"] = {**document["database_specific"], "severity": "INFO"}
    assert hold(reference(), from_documents(REPO.id, hidden))[0].affected == ()


def test_an_export_says_the_same(kept: Kept, known: Knowledge, tmp_path: Path) -> None:
    export(kept.database, tmp_path)
    source = ExportSource(tmp_path)
    assert source.repos() == {REPO.id} == LocalSource(kept.database).repos()
    exported = source.know([REPO.id.upper(), "acme/other"])
    assert set(exported) == {REPO.id.upper()}
    for revision in (None, sha(0), sha(1), sha(3)):
        here, _ = hold(reference(revision), known)
        there, gap = hold(reference(revision), exported[REPO.id.upper()])
        assert gap is None
        assert (here.affected, here.gained, here.lost, here.head) == (
            there.affected,
            there.gained,
            there.lost,
            there.head,
        )


def test_a_folder_without_advisories_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    (tmp_path / "y.json").write_text("[" * 100_000)
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UsageError):
            ExportSource(folder)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([{"introduced": "0"}], True),
        ([{"introduced": "a"}, {"fixed": "b"}], False),
        ([{"introduced": "a"}, {"fixed": "b"}, {"introduced": "c"}], True),
        ([{"introduced": "a"}, {"last_affected": "b"}], False),
        (["x", None], False),
    ],
)
def test_documents_of_others_are_open_by_their_ranges(events: list[Any], expected: bool) -> None:
    assert is_open({"affected": [{"ranges": [{"events": events}]}]}) is expected


def test_the_json_keys_of_the_contract(kept: Kept, known: Knowledge) -> None:
    found = audit(Reading(references=(reference(), reference(sha(3)))), {REPO.id: known})
    made = report.to_json(found, fix=True)
    assert {"references", "findings", "gaps", "held", "pins"} == set(made)
    first = made["references"][0]
    assert {key: first[key] for key in ("repo", "revision", "pinned", "file", "line")} == {
        "repo": REPO.id,
        "revision": None,
        "pinned": False,
        "file": "a.py",
        "line": 3,
    }
    assert made["references"][1]["pinned"] is True
    finding = made["findings"][0]
    assert finding["advisory"] == kept.story.of("B").id
    assert {"repo", "revision", "advisory", "severity", "file", "line"} <= set(finding)
    assert [(pin["line"], pin["write"]) for pin in made["pins"]] == [(3, f'revision="{sha(4)}"')]


@pytest.mark.parametrize(
    ("notation", "via", "text"),
    [
        (Notation.PYTHON, "from_pretrained", 'revision="{}"'),
        (Notation.SHELL, "--model", "--revision {}"),
        (Notation.SHELL, "hf download", "--revision {}"),
        (Notation.SHELL, "-hf", None),
        (Notation.SHELL, "git clone", None),
        (Notation.SHELL, "from_pretrained", 'revision="{}"'),
        (Notation.NOTEBOOK, "hf download", "--revision {}"),
        (Notation.NOTEBOOK, "pipeline", 'revision="{}"'),
        (Notation.YAML, "model", "revision: {}"),
        (Notation.JSON, "model_id", '"revision": "{}"'),
        (Notation.TOML, "model", 'revision = "{}"'),
        (Notation.ENV, "MODEL_ID", "MODEL_REVISION={}"),
        (Notation.PYTHON, "hf://", f"hf://{REPO.id}@{{}}"),
        (Notation.SBOM, "purl", f"pkg:huggingface/{REPO.id}@{{}}"),
    ],
)
def test_a_pin_is_written_in_its_notation(
    known: Knowledge, notation: Notation, via: str, text: str | None
) -> None:
    found = audit(Reading(references=(reference(notation=notation, via=via),)), {REPO.id: known})
    (pin,) = pins.pins(found)
    assert pin.write == (text.format(sha(4)) if text else None)


def test_what_fails(known: Knowledge) -> None:
    found = audit(Reading(references=(reference(),)), {REPO.id: known})
    worst = found.worst
    assert worst is not None
    assert report.failing(found, worst)
    assert not report.failing(found, None)
    assert not report.failing(found, Severity(worst + 1)) if worst < Severity.CRITICAL else True
    assert not report.failing(Audit(holdings=(), gaps=()), Severity.INFO)
