"""The ready-made CI files are valid and call the command line as it is."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from click.testing import CliRunner

from advisories.audit.find.kinds import kind_of
from tracker.cli import cli

CI = Path(__file__).parents[3] / "deploy" / "ci"


def options() -> set[str]:
    shown = CliRunner().invoke(cli, ["audit", "--help"]).output
    return set(re.findall(r"--[a-z-]+", shown))


def test_the_workflow_uploads_and_fails_by_the_exit_code() -> None:
    workflow = yaml.safe_load((CI / "hubwatch-audit.yml").read_text())
    job = workflow["jobs"]["audit"]
    assert job["permissions"] == {"contents": "read", "security-events": "write"}
    assert "pull_request" in workflow[True]  # YAML 1.1 reads the key `on` as a truth value
    steps = job["steps"]
    assert any("upload-sarif" in step.get("uses", "") for step in steps)
    script = next(step["run"] for step in steps if step.get("id") == "audit")
    used = {
        flag for line in script.splitlines() if "hubwatch audit" in line for flag in re.findall(r"--[a-z-]+", line)
    }
    assert used <= options()
    assert "${{" not in script  # nothing from outside is pasted into a script


def test_the_hook_runs_for_every_kind_of_file_that_is_read() -> None:
    (hook,) = yaml.safe_load((CI / "pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert {arg for arg in hook["args"] if arg.startswith("-")} <= options()
    pattern = re.compile(hook["files"])
    names = [
        "a.py",
        "x/n.ipynb",
        "v.yaml",
        "v.yml",
        "p.toml",
        "c.json",
        "r.sh",
        ".env",
        "d/.env.prod",
        "Dockerfile",
    ]
    for name in [*names, "Makefile", "unit.service", "Modelfile"]:
        assert kind_of(Path(name).name) is not None, name
        assert pattern.search(name), name
    assert not pattern.search("README.md")
