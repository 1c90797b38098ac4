"""Registry clients, as they are, against the served API. They match their own ecosystem only."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from advisories.query import DocumentSource
from tests.advisories.landing import Kept
from tests.tracker.web.conftest import Site
from tracker.settings import Settings
from tracker.web.app import create_app
from tracker.web.server import running_app

ADVISORY = {
    "schema_version": "1.7.0",
    "id": "PYSEC-2026-1",
    "published": "2026-01-01T00:00:00Z",
    "modified": "2026-01-02T00:00:00Z",
    "aliases": ["CVE-2026-0001"],
    "summary": "tiny is not to be trusted",
    "details": "It does more than it says.",
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "tiny", "purl": "pkg:pypi/tiny"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.2"}]}],
            "versions": ["1.0", "1.1"],
        }
    ],
    "references": [{"type": "WEB", "url": "https://example.org/tiny"}],
}


@pytest.fixture
def url(kept: Kept) -> Iterator[str]:
    """The address of an application whose OSV answers come from one advisory of a Python package."""
    app = create_app(
        Settings(database_url="sqlite:///unused.db"),
        kept.database,
        source=lambda _, __: DocumentSource([ADVISORY]),
    )
    with running_app(app, "127.0.0.1", 0) as address:
        yield address.rstrip("/")


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_pip_audit(url: str, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("tiny==1.1\nother==3.0\n")
    done = run(
        tmp_path, sys.executable, "-m", "pip_audit", "-r", "requirements.txt", "--no-deps", "--disable-pip",
        "-s", "osv", "--osv-url", f"{url}/v1/query", "-f", "json", "--cache-dir", str(tmp_path / "cache"),
        "--progress-spinner", "off",
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    found = {item["name"]: item["vulns"] for item in json.loads(done.stdout)["dependencies"]}
    assert [(item["id"], item["fix_versions"]) for item in found["tiny"]] == [("PYSEC-2026-1", ["1.2"])]
    assert found["other"] == []


def test_uv_audit(url: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "app"\nversion = "0.1"\nrequires-python = ">=3.11"\ndependencies = ["tiny"]\n'
    )
    (tmp_path / "uv.lock").write_text(
        'version = 1\nrequires-python = ">=3.11"\n\n'
        '[[package]]\nname = "app"\nversion = "0.1"\nsource = { virtual = "." }\n'
        'dependencies = [{ name = "tiny" }]\n\n'
        '[package.metadata]\nrequires-dist = [{ name = "tiny" }]\n\n'
        '[[package]]\nname = "tiny"\nversion = "1.1"\nsource = { registry = "https://example.org/simple" }\n'
        'sdist = { url = "https://example.org/tiny-1.1.tar.gz", hash = "sha256:%s" }\n' % ("0" * 64)
    )
    uv = str(Path(sys.executable).with_name("uv"))
    done = run(
        tmp_path, uv, "audit", "--frozen", "--preview-features", "audit-command", "--service-url", url,
        "--no-python-downloads", "--cache-dir", str(tmp_path / "cache"),
    )  # fmt: skip
    told = done.stdout + done.stderr
    assert done.returncode == 1, told
    assert "PYSEC-2026-1" in told or "CVE-2026-0001" in told, told
    assert "tiny" in told


def test_osv_utils_reads_what_is_served(site: Site) -> None:
    types = pytest.importorskip("osvutils.types.osv")
    rows: list[dict[str, Any]] = site.get("/osv/all.json")
    for row in rows:
        made = types.OSV.model_validate(site.get(f"/v1/vulns/{row['id']}"))
        assert made.id == row["id"]
