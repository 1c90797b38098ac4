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


def test_secrets_may_come_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, secret in (("token", "hf_one\n"), ("hook", "two"), ("url", "sqlite:////somewhere/x.db\n")):
        (tmp_path / name).write_text(secret)
    monkeypatch.setenv("HUBWATCH_HUB_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("HUBWATCH_HUB_WEBHOOK_SECRET_FILE", str(tmp_path / "hook"))
    monkeypatch.setenv("HUBWATCH_DATABASE_URL_FILE", str(tmp_path / "url"))
    monkeypatch.setenv("HUBWATCH_DATABASE_URL", "")
    settings = load_settings()
    assert settings.hub.token is not None
    assert settings.hub.webhook_secret is not None
    assert settings.hub.token.get_secret_value() == "hf_one"
    assert settings.hub.webhook_secret.get_secret_value() == "two"
    assert settings.database == "sqlite:////somewhere/x.db"
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    nearer = load_settings().hub.token
    assert nearer is not None
    assert nearer.get_secret_value() == "hf_other"


@pytest.mark.parametrize(
    "content", [b"", b" \n", b"\xff\xfe", b"x" * 5000], ids=["empty", "blank", "bytes", "long"]
)
def test_a_file_that_holds_no_secret_is_refused_without_showing_it(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_bytes(content)
    monkeypatch.setenv("HUBWATCH_HUB_TOKEN_FILE", str(tmp_path / "token"))
    with pytest.raises(UsageError, match="token") as refused:
        load_settings()
    assert "xxxx" not in str(refused.value)
    monkeypatch.setenv("HUBWATCH_HUB_TOKEN_FILE", str(tmp_path / "absent"))
    with pytest.raises(UsageError, match="cannot be read"):
        load_settings()
