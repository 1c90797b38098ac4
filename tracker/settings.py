"""Settings: defaults, then ``hubwatch.toml``, then ``HUBWATCH_*``, then flags; the later wins.

``HF_ENDPOINT`` and ``HF_TOKEN`` are honoured as everywhere in the Hub's own tools.
"""

from __future__ import annotations

import os
import re
import tomllib
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import platformdirs
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from advisories.notify.interface import CHAT_SCHEMES
from advisories.policy import Action, Policy, PolicyRule
from storage.errors import UsageError
from storage.model import DEFAULT_IDENTITY, Severity
from tracker.spans import parse_span

CONFIG_FILE = "hubwatch.toml"
MAX_SECRET = 4096
"""Bytes of a file that holds a secret."""


def _span(value: object) -> object:
    try:
        return parse_span(value) if isinstance(value, str) and not value.startswith(("P", "-")) else value
    except UsageError as error:
        raise ValueError(error) from None


def _secret_in(path: Path) -> str:
    """The secret that a file holds, without the line's end. Raises ValueError that does not show it."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SECRET + 1)
        secret = data.decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ValueError(f"{path} cannot be read: {reason}") from None
    if not secret or len(data) > MAX_SECRET:
        raise ValueError(f"{path} holds no secret of 1 to {MAX_SECRET} bytes")
    return secret


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
    token_file: Path | None = Field(default=None, description="holds the token, where none is set by itself")
    budget_share: float = Field(
        default=0.8, gt=0, le=1, description="how much of the Hub's rate limit is used, by all processes together"
    )
    webhook_secret: SecretStr | None = Field(
        default=None, description="what the Hub sends along with its web hooks; without one they are not taken"
    )
    webhook_secret_file: Path | None = Field(default=None, description="holds that secret, likewise")
    deadline_seconds: float = Field(default=120.0, gt=0, description="for one call, redirects and body included")
    git: Literal["auto", "off"] = Field(default="auto", description="off: history is read by the API alone")
    git_from: int = Field(default=20, ge=1, description="new revisions from which on history is read by git")

    @field_validator("endpoint", "identity")
    @classmethod
    def _url(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError("must start with http:// or https://")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _read_secrets(self) -> Self:
        if self.token is None and self.token_file is not None:
            self.token = SecretStr(_secret_in(self.token_file))
        if self.webhook_secret is None and self.webhook_secret_file is not None:
            self.webhook_secret = SecretStr(_secret_in(self.webhook_secret_file))
        return self


class PollSettings(BaseModel):
    """How often repos are asked. Intervals adapt to how often a repo moves, within floor and ceiling."""

    model_config = ConfigDict(extra="forbid")

    floor: Span = timedelta(minutes=5)
    default: Span = timedelta(minutes=30)
    ceiling: Span = timedelta(hours=24)
    threads: int = Field(default=4, ge=1, le=64)
    dispatch: Literal["auto", "threads", "queue"] = Field(
        default="auto",
        description="auto: by a queue on PostgreSQL, by the threads of this process on SQLite",
    )
    refs_every: Span = Field(
        default=timedelta(hours=6),
        description="how often branches, tags, pull requests and repos that a model names are read, beside the "
        "first check and every check at which the followed ref moved",
    )
    gone_after: int = Field(default=3, ge=1, description="how many times in a row before a repo is called gone")
    gone_within: Span = Field(default=timedelta(0), description="and over at least this long")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.floor <= self.default <= self.ceiling:
            raise ValueError("floor, default and ceiling must not be in another order")
        return self


class NotifySettings(BaseModel):
    """How subscribers are told. ``schemes`` are the apprise schemes that may be used."""

    model_config = ConfigDict(extra="forbid")

    schemes: tuple[str, ...] = CHAT_SCHEMES
    threads: int = Field(default=16, ge=1, le=256, description="how many subscriptions are sent to at once")


class WebSettings(BaseModel):
    """Who may read what is served, and how much may be written.

    ``read`` open: everybody, but for what was read from the Hub with a token; token: only who has one of ours.
    """

    model_config = ConfigDict(extra="forbid")

    read: Literal["open", "token"] = "open"
    writes_per_minute: int = Field(default=60, ge=1, le=100_000, description="for one client")
    cache: Path | None = Field(default=None, description="folder for the OSV bulk files that are served")


class EstimateSettings(BaseModel):
    """How models are counted. ``transformers`` off: never by building a class of that library."""

    model_config = ConfigDict(extra="forbid")

    transformers: Literal["auto", "off"] = Field(
        default="auto",
        description="auto: a type without a closed form is counted by the installed transformers, in a child",
    )


_SIZES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def _size(value: object) -> object:
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,3})?) ?([A-Za-z]{0,2})", value.strip())
    if match is None or match[2].upper() not in _SIZES:
        raise ValueError("write a number and a unit: 500MB, 20GB")
    return int(float(match[1]) * _SIZES[match[2].upper()])


class RetentionSettings(BaseModel):
    """How long contents and logs are kept, and in how much room; what an advisory needs always is."""

    model_config = ConfigDict(extra="forbid")

    keep: Span | None = Field(default=None, description="such as 400d; without it for ever")
    disk: Annotated[int, BeforeValidator(_size), Field(gt=0)] | None = Field(
        default=None, description="bytes of the whole database, such as 20GB; the oldest contents go first"
    )


class LogSettings(BaseModel):
    """What is logged to stderr, and in which shape."""

    model_config = ConfigDict(extra="forbid")

    level: Literal["error", "warning", "info", "debug"] = Field(
        default="warning", description="-v raises it to info, -vv to debug"
    )
    format: Literal["auto", "json", "console"] = Field(
        default="auto", description="auto: JSON lines unless stderr is a terminal"
    )


class MetricsSettings(BaseModel):
    """Where Prometheus reads. The pages serve /metrics under the read access of ``web.read`` in any case."""

    model_config = ConfigDict(extra="forbid")

    port: int | None = Field(
        default=None, ge=0, le=65535, description="of a server of /metrics, /healthz, /readyz alone; asks no token"
    )
    host: str = Field(default="127.0.0.1", description="its address")
    open: bool = Field(default=False, description="let everybody read /metrics on the pages' port")


class PolicySettings(BaseModel):
    """One ``[[policy]]`` rule: what is silenced, raised or lowered where advisories are shown (docs/policy.md)."""

    model_config = ConfigDict(extra="forbid")

    action: Action
    owner: str = Field(min_length=1, description="who answers for it")
    reason: str = Field(min_length=1, description="why, in words")
    expires: date = Field(description="the last day on which it applies")
    repo: str = Field(default="*", description="pattern for owner/name")
    change_class: str = Field(default="*", alias="class", description="pattern for the change class")
    path: str | None = Field(default=None, description="pattern for paths")
    to: str | None = Field(default=None, description="the severity to raise or lower to; one step without it")

    @field_validator("to")
    @classmethod
    def _severity(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                Severity.parse(value)
            except UsageError as error:
                raise ValueError(error) from None
        return value

    @property
    def rule(self) -> PolicyRule:
        """The rule as `advisories.policy` has it. Raises UsageError."""
        return PolicyRule(
            action=self.action,
            owner=self.owner,
            reason=self.reason,
            expires=self.expires,
            repo=self.repo,
            cls=self.change_class,
            path=self.path,
            to=Severity.parse(self.to) if self.to is not None else None,
        )


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
    database_url_file: Path | None = Field(default=None, description="holds the URL, where none is set by itself")
    host: str = "127.0.0.1"
    port: int = Field(default=8600, ge=0, le=65535)
    allowed_hosts: tuple[str, ...] = Field(
        default=(), description="names the pages may be asked under, beside loopback"
    )
    hub: HubSettings = HubSettings()
    poll: PollSettings = PollSettings()
    notify: NotifySettings = NotifySettings()
    web: WebSettings = WebSettings()
    estimate: EstimateSettings = EstimateSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
    retention: RetentionSettings = RetentionSettings()

    policy: tuple[PolicySettings, ...] = Field(default=(), description="rules of the house, see docs/policy.md")

    @model_validator(mode="after")
    def _read_database_url(self) -> Self:
        if not self.database_url and self.database_url_file is not None:
            self.database_url = _secret_in(self.database_url_file)
        return self

    @property
    def house_policy(self) -> Policy:
        """The rules of the house, to be applied wherever advisories are shown or sent. Raises UsageError."""
        return Policy(tuple(item.rule for item in self.policy))

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
        path = config_file()
        return (
            init_settings,
            env_settings,
            _HubEnvironment(settings_cls),
            TomlConfigSettingsSource(settings_cls, path),
        )


def config_file() -> Path:
    """The settings file; one that is named by ``HUBWATCH_CONFIG`` must be there."""
    named = os.environ.get("HUBWATCH_CONFIG")
    if named and not Path(named).is_file():
        raise UsageError(f"HUBWATCH_CONFIG names {named}, which is not a file", help="correct or unset it")
    return Path(named or CONFIG_FILE)


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
        if first["type"] == "extra_forbidden":
            raise UsageError(
                f"there is no setting {name}", help="hubwatch config show lists all: correct the name"
            ) from None
        raise UsageError(
            f"setting {name}: {first['msg']}", help=f"correct it in {CONFIG_FILE} or in the environment"
        ) from None
    except SettingsError as error:
        raise UsageError(str(error), help='lists are written as JSON: ["name"]') from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{CONFIG_FILE}: {error}", help="correct the file") from None
