"""Settings: defaults, then ``hubwatch.toml``, then ``HUBWATCH_*``, then flags; the later wins.

``HF_ENDPOINT`` and ``HF_TOKEN`` are honoured as everywhere in the Hub's own tools.
"""

from __future__ import annotations

import os
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import platformdirs
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from advisories.notify.interface import CHAT_SCHEMES
from storage.errors import UsageError
from storage.model import DEFAULT_IDENTITY
from tracker.spans import parse_span

CONFIG_FILE = "hubwatch.toml"


def _span(value: object) -> object:
    try:
        return parse_span(value) if isinstance(value, str) and not value.startswith(("P", "-")) else value
    except UsageError as error:
        raise ValueError(error) from None


Span = Annotated[timedelta, BeforeValidator(_span)]


class HubSettings(BaseModel):
    """How the Hub is reached, and under which name its repos are known.

    ``endpoint`` is transport (a mirror, a proxy); ``identity`` stands in package names, links and ids and
    must not differ between installations that share advisories.
    """

    model_config = ConfigDict(extra="forbid")

    endpoint: str = DEFAULT_IDENTITY
    identity: str = DEFAULT_IDENTITY
    token: SecretStr | None = None
    deadline_seconds: float = Field(default=120.0, gt=0, description="for one call, redirects and body included")

    @field_validator("endpoint", "identity")
    @classmethod
    def _url(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError("must start with http:// or https://")
        return value.rstrip("/")


class PollSettings(BaseModel):
    """How often repos are asked. Intervals adapt to how often a repo moves, within floor and ceiling."""

    model_config = ConfigDict(extra="forbid")

    floor: Span = timedelta(minutes=5)
    default: Span = timedelta(minutes=30)
    ceiling: Span = timedelta(hours=24)
    threads: int = Field(default=4, ge=1, le=64)
    gone_after: int = Field(default=3, ge=1, description="how many times in a row before a repo is called gone")
    gone_within: Span = Field(default=timedelta(0), description="and over at least this long")


class NotifySettings(BaseModel):
    """How subscribers are told. ``schemes`` are the apprise schemes that may be used."""

    model_config = ConfigDict(extra="forbid")

    schemes: tuple[str, ...] = CHAT_SCHEMES
    threads: int = Field(default=16, ge=1, le=256, description="how many subscriptions are sent to at once")


class Settings(BaseSettings):
    """Everything that can be set."""

    model_config = SettingsConfigDict(
        env_prefix="HUBWATCH_",
        env_nested_delimiter="_",
        env_nested_max_split=1,
        extra="ignore",
        env_ignore_empty=True,
    )

    database_url: str = ""
    host: str = "127.0.0.1"
    port: int = Field(default=8600, ge=0, le=65535)
    allowed_hosts: tuple[str, ...] = Field(
        default=(), description="names the pages may be asked under, beside loopback"
    )
    hub: HubSettings = HubSettings()
    poll: PollSettings = PollSettings()
    notify: NotifySettings = NotifySettings()

    @property
    def database(self) -> str:
        """The database URL; SQLite in the platform's data folder when none is set."""
        if self.database_url:
            return self.database_url
        folder = Path(platformdirs.user_data_dir("hubwatch", appauthor=False))
        return f"sqlite:///{folder / 'hubwatch.db'}"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, environment, file: the earlier in this tuple wins."""
        path = Path(os.environ.get("HUBWATCH_CONFIG", CONFIG_FILE))
        return (
            init_settings,
            env_settings,
            _HubEnvironment(settings_cls),
            TomlConfigSettingsSource(settings_cls, path),
        )


class _HubEnvironment(PydanticBaseSettingsSource):
    """``HF_ENDPOINT`` and ``HF_TOKEN``, weaker than our own variables and stronger than the file."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        names = {"endpoint": "HF_ENDPOINT", "token": "HF_TOKEN"}
        hub = {key: os.environ[name] for key, name in names.items() if os.environ.get(name)}
        return {"hub": hub} if hub else {}


def load_settings(**flags: Any) -> Settings:
    """Read all sources; raises UsageError that names the setting and what is wrong with it."""
    try:
        return Settings(**{key: value for key, value in flags.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"setting {name}: {first['msg']}", help=f"correct it in {CONFIG_FILE} or in the environment"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{CONFIG_FILE}: {error}", help="correct the file") from None
