from __future__ import annotations

from pathlib import Path

import pytest

from storage.errors import UsageError
from tracker.settings import load_settings


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HF_ENDPOINT", "HF_TOKEN", "HUBWATCH_HUB_ENDPOINT", "HUBWATCH_DATABASE_URL", "HUBWATCH_PORT"):
        monkeypatch.delenv(name, raising=False)


def test_file_then_environment_then_flags_the_later_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("hubwatch.toml").write_text(
        'port = 1001\nhost = "127.0.0.2"\n[hub]\nendpoint = "https://mirror.example/"\n'
    )
    assert load_settings().port == 1001
    assert load_settings().hub.endpoint == "https://mirror.example"
    monkeypatch.setenv("HUBWATCH_PORT", "1002")
    assert load_settings().port == 1002
    assert load_settings(port=1003).port == 1003
    assert load_settings(port=1003).host == "127.0.0.2"


def test_the_hubs_own_variables_are_honoured_and_do_not_change_the_identity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9/")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    settings = load_settings()
    assert settings.hub.endpoint == "http://127.0.0.1:9"
    assert settings.hub.identity == "https://huggingface.co"
    assert settings.hub.token is not None
    assert "hf_secret" not in repr(settings)


def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBWATCH_PORT", "many")
    with pytest.raises(UsageError, match="port"):
        load_settings()


def test_a_broken_file_is_named() -> None:
    Path("hubwatch.toml").write_text("port = \n")
    with pytest.raises(UsageError, match=r"hubwatch\.toml"):
        load_settings()
