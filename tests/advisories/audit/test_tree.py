from __future__ import annotations

import os
from pathlib import Path

import pytest

from advisories.audit.find.cache import default_cache, read
from advisories.audit.find.kinds import SBOM
from advisories.audit.find.tree import Limits, read_file, read_tree
from advisories.audit.names import Names
from storage.errors import UsageError
from tests.advisories.audit import thirty


def test_thirty_references_in_ten_notations_and_no_false_one(tmp_path: Path) -> None:
    thirty.write(tmp_path)
    reading = read_tree(tmp_path, Names())
    found = {(item.file, item.line, item.repo, item.revision) for item in reading.references}
    assert len(thirty.EXPECTED) == 30
    assert found == thirty.EXPECTED
    assert len(reading.references) == 30
    assert {item.notation.value for item in reading.references} == thirty.NOTATIONS
    assert reading.gaps == ()


def test_the_same_tree_from_one_file(tmp_path: Path) -> None:
    thirty.write(tmp_path)
    reading = read_tree(tmp_path / "run.sh", Names())
    assert [(item.file, item.line) for item in reading.references] == [("run.sh", 3), ("run.sh", 5), ("run.sh", 6)]


def test_nothing_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_tree(tmp_path / "absent", Names())


def test_what_cannot_be_read_is_a_gap_and_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("AutoModel.from_pretrained('acme/a')\n")
    (tmp_path / "broken.py").write_text("def (:\n")
    (tmp_path / "binary.json").write_bytes(b"\0\1\2model")
    (tmp_path / "large.py").write_text("#" * 5000)
    (tmp_path / "broken.json").write_text('{"model": ')
    (tmp_path / "deep.yaml").write_text("model: " + "[" * 5000)
    (tmp_path / "items.yaml").write_text("model: x\n" + "- " * 5000)
    (tmp_path / "broken.toml").write_text("model = ")
    (tmp_path / "link.py").symlink_to(tmp_path / "a.py")
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.py")
    reading = read_tree(tmp_path, Names(), Limits(file_bytes=4000, settings_bytes=20_000))
    assert [item.repo for item in reading.references] == ["acme/a"]
    assert {(gap.file, gap.reason) for gap in reading.gaps} == {
        ("broken.py", "syntax"),
        ("binary.json", "binary"),
        ("large.py", "too_large"),
        ("broken.json", "parse_error"),
        ("deep.yaml", "too_deep"),
        ("items.yaml", "too_deep"),
        ("broken.toml", "parse_error"),
    }


def test_depth_entries_and_references_are_bounded(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(6):
        folder /= "d"
        folder.mkdir()
        (folder / "m.py").write_text("AutoModel.from_pretrained('acme/a')\nAutoModel.from_pretrained('acme/b')\n")
    deep = read_tree(tmp_path, Names(), Limits(depth=3))
    assert len(deep.references) == 6
    assert [gap.reason for gap in deep.gaps] == ["too_deep"]
    assert [gap.reason for gap in read_tree(tmp_path, Names(), Limits(entries=3)).gaps] == ["too_large"]
    assert [gap.reason for gap in read_tree(tmp_path, Names(), Limits(references=3)).gaps] == ["too_large"]
    assert [gap.reason for gap in read_tree(tmp_path, Names(), Limits(total_bytes=10)).gaps] == ["too_large"]


def test_environments_and_dependencies_are_left_alone(tmp_path: Path) -> None:
    for name in (".git", "node_modules", "site-packages", "env"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "m.py").write_text("AutoModel.from_pretrained('acme/a')\n")
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    assert read_tree(tmp_path, Names()).references == ()


def test_a_repo_that_is_known_settles_what_is_doubtful(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("AutoModel.from_pretrained('models/bert')\n")
    (tmp_path / "b.yaml").write_text("llm_path_of_ours: x\nsomething: acme/tiny\nimage: acme/tiny\n")
    assert read_tree(tmp_path, Names()).references == ()
    known = read_tree(tmp_path, Names(known=frozenset({"models/bert", "acme/tiny"})))
    assert [(item.file, item.line) for item in known.references] == [("a.py", 1), ("b.yaml", 2)]


def test_scripts_without_an_ending_are_known_by_their_first_line(tmp_path: Path) -> None:
    (tmp_path / "serve").write_text("#!/usr/bin/env bash\nvllm serve acme/a\n")
    (tmp_path / "load").write_text("#!/usr/bin/env python3\nAutoModel.from_pretrained('acme/b')\n")
    (tmp_path / "other").write_text("vllm serve acme/c\n")
    assert [item.repo for item in read_tree(tmp_path, Names()).references] == ["acme/b", "acme/a"]


# --- the Hub cache -------------------------------------------------------------------------------


def test_a_cache_names_the_sha_it_holds(tmp_path: Path) -> None:
    thirty.cached(
        tmp_path, "acme/tiny", refs={"main": thirty.A, "refs/pr/1": thirty.B}, snapshots=(thirty.A, thirty.C)
    )
    thirty.cached(tmp_path, "acme/half", refs={"main": thirty.D}, snapshots=())
    (tmp_path / "models--gpt2" / "refs").mkdir(parents=True)
    (tmp_path / "models--gpt2" / "refs" / "main").write_text(thirty.B)
    (tmp_path / "datasets--acme--rows" / "refs").mkdir(parents=True)
    (tmp_path / "version.txt").write_text("1")
    reading = read(tmp_path)
    assert [(item.repo, item.revision, item.file) for item in reading.references] == [
        ("acme/half", thirty.D, "models--acme--half/refs/main"),
        ("acme/tiny", thirty.A, "models--acme--tiny/refs/main"),
        ("acme/tiny", thirty.B, "models--acme--tiny/refs/refs/pr/1"),
        ("acme/tiny", thirty.C, f"models--acme--tiny/snapshots/{thirty.C}"),
        ("openai-community/gpt2", thirty.B, "models--gpt2/refs/main"),
    ]
    assert all(item.pinned and item.line == 1 for item in reading.references)


def test_a_hostile_cache_gives_gaps(tmp_path: Path) -> None:
    refs = tmp_path / "models--acme--tiny" / "refs"
    refs.mkdir(parents=True)
    (refs / "main").write_bytes(b"\xff" * 1000)
    (refs / "link").symlink_to("/etc/passwd")
    os.mkfifo(refs / "pipe")
    (tmp_path / "models--..--x").mkdir()
    (tmp_path / "models--link--x").symlink_to(refs.parent)
    reading = read(tmp_path)
    assert reading.references == ()
    assert {gap.reason for gap in reading.gaps} == {"parse_error"}


def test_where_the_cache_is(tmp_path: Path) -> None:
    assert default_cache({"HF_HUB_CACHE": "/c"}) == Path("/c")
    assert default_cache({"HF_HOME": "/h"}) == Path("/h/hub")
    assert default_cache({"XDG_CACHE_HOME": "/x"}) == Path("/x/huggingface/hub")
    with pytest.raises(UsageError):
        read(tmp_path / "absent")
    thirty.cached(tmp_path / "hub", "acme/tiny", refs={"main": thirty.A}, snapshots=(thirty.A,))
    assert read(tmp_path).references[0].revision == thirty.A
    assert read(tmp_path / "hub" / "models--acme--tiny").references[0].repo == "acme/tiny"


# --- SBOMs ---------------------------------------------------------------------------------------

SBOMS = {
    "cyclonedx.json": '{"bomFormat": "CycloneDX",\n "components": [\n'
    f'{{"purl": "pkg:huggingface/acme/x@{thirty.A}"}}]}}',
    "cyclonedx.xml": '<bom xmlns="http://cyclonedx.org/schema/bom/1.6">\n\n'
    f"<purl>pkg:huggingface/acme/x@{thirty.A}</purl></bom>",
    "spdx2.json": '{"spdxVersion": "SPDX-2.3", "packages": [{"externalRefs": [\n\n'
    f'{{"referenceType": "purl", "referenceLocator": "pkg:huggingface/acme/x@{thirty.A}"}}]}}]}}',
    "spdx3.json": '{"@context": "https://spdx.org/rdf/3.0.1/spdx-context.jsonld",\n "@graph": [\n'
    f'{{"type": "ai_AIPackage", "software_packageUrl": "pkg:huggingface/acme/x@{thirty.A}"}}]}}',
    "tags.spdx": f"SPDXVersion: SPDX-2.3\n\nExternalRef: PACKAGE-MANAGER purl pkg:huggingface/acme/x@{thirty.A}\n",
    "version.json": '{"bomFormat": "CycloneDX",\n "components": [\n'
    f'{{"purl": "pkg:huggingface/acme/x", "version": "{thirty.A}"}}]}}',
}


@pytest.mark.parametrize("name", SBOMS)
def test_every_form_of_sbom(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(SBOMS[name])
    reading = read_file(tmp_path / name, SBOM, Names())
    assert [(item.repo, item.revision, item.line) for item in reading.references] == [("acme/x", thirty.A, 3)]


def test_no_sbom_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("hello")
    (tmp_path / "y.json").write_text('{"hello": "world"}')
    for name in ("x.json", "y.json", "absent.json"):
        with pytest.raises(UsageError):
            read_file(tmp_path / name, SBOM, Names())
