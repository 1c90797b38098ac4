"""deploy/hubwatch.example.toml: every setting, at its default."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tracker.settings import PolicySettings, Settings, load_settings

TEXT = (Path(__file__).resolve().parents[2] / "deploy" / "hubwatch.example.toml").read_text()


@pytest.fixture(autouse=True)
def _nothing_else_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HF_ENDPOINT", "HF_TOKEN", "HUBWATCH_CONFIG", "HUBWATCH_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)


def uncommented(mark: str) -> dict[str, Any]:
    """The file with the lines of one kind taken into force."""
    return tomllib.loads(re.sub(rf"^{mark}(?=[a-z\[])", "", TEXT, flags=re.MULTILINE))


def names(model: type[BaseModel]) -> set[str]:
    """Every setting by its dotted name."""
    found: set[str] = set()
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found |= {f"{name}.{key}" for key in names(inner)}
        else:
            found.add(name)
    return found


def dotted(values: dict[str, Any]) -> set[str]:
    return {
        f"{key}.{inner}" if isinstance(value, dict) else key
        for key, value in values.items()
        for inner in (value if isinstance(value, dict) else [""])
    }


def test_as_it_is_it_changes_nothing() -> None:
    Path("hubwatch.toml").write_text(TEXT)
    assert load_settings() == Settings()


def test_every_default_is_the_default() -> None:
    defaults = load_settings()
    Path("hubwatch.toml").write_text(re.sub(r"^#(?=[a-z])", "", TEXT, flags=re.MULTILINE))
    assert load_settings() == defaults


def test_every_setting_is_named_and_no_other() -> None:
    named = dotted(uncommented("#")) | dotted(examples())
    assert named - {"policy"} == names(Settings) - {"policy"}
    (rule,) = examples()["policy"]
    assert set(rule) == {field.alias or name for name, field in PolicySettings.model_fields.items()}


def test_the_examples_are_settings(tmp_path: Path) -> None:
    for name in ("database_url", "hf_token", "webhook_secret"):
        (tmp_path / name).write_text("x\n")
    text = toml_of_examples().replace("/run/secrets", str(tmp_path))
    Path("hubwatch.toml").write_text(text)
    settings = load_settings()
    assert settings.metrics.port == 9600
    assert settings.retention.disk == 20 * 10**9
    assert settings.policy[0].repo == "acme/*"


def toml_of_examples() -> str:
    # the database's URL is shown twice: once as a default, once as an example
    return re.sub(r"^#: ", "", TEXT, flags=re.MULTILINE)


def examples() -> dict[str, Any]:
    return tomllib.loads(toml_of_examples())
