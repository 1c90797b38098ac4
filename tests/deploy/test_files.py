"""Image, compose, units and manifests: hardened, consistent, and with settings that exist."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.test_example_settings import names
from tracker.cli import cli
from tracker.daemon import ROLES
from tracker.settings import Settings

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())
OURS = [name for name in COMPOSE["services"] if name != "postgres"]
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS: list[dict[str, Any]] = [
    document
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
    if document
]
PODS = {
    item["metadata"]["name"]: item["spec"]["template"]
    for item in MANIFESTS
    if item["kind"] in {"Deployment", "Job"}
}
FILES = [path for path in sorted(DEPLOY.rglob("*")) if path.is_file() and "ci" not in path.parts]
VARIABLES = {f"HUBWATCH_{name.replace('.', '_').upper()}" for name in names(Settings)} | {"HUBWATCH_CONFIG"}
# for compose itself: which image, how much memory
_OF_COMPOSE = {"HUBWATCH_IMAGE", "HUBWATCH_MEMORY"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_variable_is_a_setting(path: Path) -> None:
    named = set(re.findall(r"\bHUBWATCH_[A-Z_]+[A-Z]", path.read_text()))
    assert named <= VARIABLES | (_OF_COMPOSE if path.name == "compose.yaml" else set())


def commands() -> list[tuple[str, list[str]]]:
    found = [(name, COMPOSE["services"][name]["command"]) for name in OURS]
    found += [(name, pod["spec"]["containers"][0]["args"]) for name, pod in PODS.items()]
    for unit in UNITS:
        for line in re.findall(r"^Exec\w+=/opt/hubwatch/bin/hubwatch (.+)$", unit.read_text(), re.MULTILINE):
            found.append((unit.name, line.split()))
    return found


def test_every_command_is_one() -> None:
    found = commands()
    assert len(found) == len(OURS) + len(PODS) + len(UNITS) + 1
    for where, words in found:
        if words[0] == "run":
            assert words[1:2] in ([], ["--roles"]), where
            assert set(words[2:]) <= set(ROLES), where
        else:
            assert words == ["db", "upgrade"], where
    assert cli.get_command(None, "run") is not None  # type: ignore[arg-type]


@pytest.mark.parametrize("name", OURS)
def test_services_of_ours_may_do_little(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert "database_url" in service["secrets"]
    assert service["mem_limit"]
    assert not any("@" in str(value) for value in service["environment"].values())


def test_services_wait_for_the_schema_and_the_schema_for_the_database() -> None:
    services = COMPOSE["services"]
    assert services["migrate"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert services["postgres"]["healthcheck"]
    for name in ("scheduler", "worker", "web"):
        assert services[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    assert services["web"]["ports"] == ["127.0.0.1:8600:8600"]
    assert "ports" not in services["postgres"]


@pytest.mark.parametrize("name", PODS)
def test_pods_satisfy_the_restricted_standard(name: str) -> None:
    pod = PODS[name]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_selectors_find_their_pods_and_probes_their_ports() -> None:
    labels = {name: pod["metadata"]["labels"] for name, pod in PODS.items()}
    for item in MANIFESTS:
        selector = item.get("spec", {}).get("selector") or item.get("spec", {}).get("podSelector")
        if selector is None:
            continue
        wanted = selector.get("matchLabels", selector).items()
        assert any(wanted <= found.items() for found in labels.values()), item["metadata"]["name"]
    for name, pod in PODS.items():
        container = pod["spec"]["containers"][0]
        ports = {port["name"] for port in container.get("ports", ())}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in container:
                assert container[probe]["httpGet"]["port"] in ports, name


def test_the_image_runs_as_nobody_and_keeps_no_tools() -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    final = text[text.rindex("\nFROM ") :]
    assert re.search(r"^USER 10001:10001$", final, re.MULTILINE)
    assert "pip uninstall" in final
    assert "HEALTHCHECK" in final
    assert "curl" not in final
    assert "constraints.txt" in text
    for source in re.findall(r"^COPY (?!--from)(?:--\S+ )*(.+) \S+$", text, re.MULTILINE):
        assert all((DEPLOY.parent / name).exists() for name in source.split())


def test_the_image_is_made_from_files_that_docker_gets() -> None:
    let_in = {
        line[1:] for line in (DEPLOY.parent / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    copied = {
        name
        for source in re.findall(r"^COPY (?!--from)(?:--\S+ )*(.+) \S+$", text, re.MULTILINE)
        for name in source.split()
    }
    assert copied == let_in


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_hardened(unit: Path) -> None:
    read = configparser.ConfigParser(strict=False, interpolation=None, comment_prefixes=("#",))
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read_string(unit.read_text())
    service = read["Service"]
    for name in ("DynamicUser", "NoNewPrivileges", "PrivateTmp", "PrivateDevices", "RestrictNamespaces"):
        assert service[name] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""
    assert service["MemoryMax"]
    # the probes' child needs setrlimit, which is of @resources
    assert "@resources" not in service["SystemCallFilter"]


@pytest.mark.parametrize(
    "command",
    [
        ("docker-compose", "-f", "docker/compose.yaml", "config", "--quiet"),
        ("hadolint", "docker/Dockerfile"),
        ("kubectl", "kustomize", "kubernetes"),
        ("promtool", "check", "config", "prometheus/prometheus.yml"),
    ],
    ids=lambda command: command[0],
)
def test_tools_that_are_here_find_nothing(command: tuple[str, ...]) -> None:
    program = shutil.which(command[0])
    if program is None:
        pytest.skip(f"no {command[0]}")
    done = subprocess.run(
        [program, *command[1:]], cwd=DEPLOY, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
