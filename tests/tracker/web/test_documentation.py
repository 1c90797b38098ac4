"""docs/api.md names every operation and every setting of the web."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tracker.web.conftest import Site
from tracker.settings import WebSettings

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "api.md").read_text()


def test_every_operation_is_documented(site: Site) -> None:
    for path in site.get("/openapi.json")["paths"]:
        short = path.removeprefix("/api/v1").replace("{vuln_id}", "<id>").replace(".{kind}", "")
        shown = re.sub(r"^/repos/\{owner\}/\{name\}/", ".../", short)
        names = {shown, shown.replace("<id>", "{id}"), shown.replace("{advisory_id}", "{id}")}
        in_groups = short.startswith("/osv/GIT/")
        assert in_groups or any(name in TEXT for name in names), path


def test_every_setting_is_documented() -> None:
    for name in WebSettings.model_fields:
        assert f"`web.{name}`" in TEXT
        assert f"`HUBWATCH_WEB_{name.upper()}`" in TEXT
