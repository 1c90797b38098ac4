"""The tables. Private to `storage`: other packages speak model types to the functions beside this module.

The history of a ref is a chain of revisions by ``position``. ``fork`` is NULL for a revision of the current
chain. When history is rewritten, the revisions that fell off get a ``fork``: the position of the last
revision that they share with the current chain (-1: none).
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from storage.columns import Duration, HostileText, JsonText, Moment, Size

# SQLite counts row ids by itself only for a column that is declared INTEGER.
Id = BigInteger().with_variant(Integer, "sqlite")

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

repos = Table(
    "repos",
    metadata,
    Column("id", Id, primary_key=True),
    Column("endpoint", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("ref", HostileText, nullable=False),  # the ref that is followed, or was last
    Column("hub_id", HostileText),
    Column("canonical", HostileText),
    Column("created_at", Moment),  # on the Hub
    Column("state", Text, nullable=False),
    Column("gated", HostileText),
    Column("private", Boolean, nullable=False),
    Column("public", Boolean, nullable=False),  # a person's choice: show what was read with a token
    Column("restricted", Boolean, nullable=False),  # read with a token while private or gated
    Column("downloads", Size),  # in a month, as the Hub last said
    UniqueConstraint("endpoint", "owner", "name"),
    Index(None, "owner", "name"),
)

watches = Table(
    "watches",
    metadata,
    Column("id", Id, primary_key=True),
    Column("repo_id", Id, ForeignKey("repos.id"), nullable=False),
    Column("every", Duration),
    Column("since", Moment),
    Column("from_head", Boolean, nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("backfill_target", Text),
    Column("head", Text),
    Column("checked_at", Moment),
    Column("next_check_at", Moment),
    Column("errors", Integer, nullable=False),
    Column("last_error", HostileText),
    Column("missing_since", Moment),
    Column("missing_count", Integer, nullable=False),
    Column("lease_holder", Text),
    Column("lease_until", Moment),
    Column("urgency", Integer, nullable=False, server_default="0"),
    UniqueConstraint("repo_id"),
    Index(None, "next_check_at"),
    sqlite_autoincrement=True,  # a lease must never outlive its watch into another one of the same id
)

owner_watches = Table(
    "owner_watches",
    metadata,
    Column("id", Id, primary_key=True),
    Column("endpoint", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("every", Duration),
    Column("since", Moment),
    Column("from_head", Boolean, nullable=False),
    Column("public", Boolean, nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("known", JsonText, nullable=False),  # null until the first listing was read
    Column("checked_at", Moment),
    Column("next_check_at", Moment),
    Column("errors", Integer, nullable=False),
    Column("last_error", HostileText),
    UniqueConstraint("endpoint", "owner"),
)

revisions = Table(
    "revisions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("repo_id", Id, ForeignKey("repos.id"), nullable=False),
    Column("ref", HostileText, nullable=False),
    Column("sha", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("fork", Integer),
    Column("predecessor_id", Id, ForeignKey("revisions.id")),
    Column("parents", JsonText, nullable=False),
    Column("parents_unknown", Boolean, nullable=False),
    Column("committed_at", Moment, nullable=False),
    Column("author", HostileText, nullable=False),
    Column("title", HostileText, nullable=False),
    Column("observed_at", Moment, nullable=False),
    Column("backfill", Boolean, nullable=False),
    Column("manifest_digest", Text, nullable=False),
    UniqueConstraint("repo_id", "ref", "sha"),
    Index(
        None,
        "repo_id",
        "ref",
        "position",
        unique=True,
        sqlite_where=text("fork IS NULL"),
        postgresql_where=text("fork IS NULL"),
    ),
    Index(None, "sha"),
    Index(None, "repo_id", "manifest_digest"),
    Index(None, "observed_at"),
)

# A path can be longer than an index entry may be, so its hash stands for it in keys.
file_changes = Table(
    "file_changes",
    metadata,
    Column("revision_id", Id, ForeignKey("revisions.id"), primary_key=True),
    Column("path_key", Text, primary_key=True),
    Column("repo_id", Id, ForeignKey("repos.id"), nullable=False),
    Column("path", HostileText, nullable=False),
    Column("removed", Boolean, nullable=False),
    Column("size", Size),
    Column("blob_id", HostileText),
    Column("lfs_sha256", HostileText),
    Index(None, "repo_id", "path_key"),
)

# The tree at the head of the chain: what the next revision's tree is compared with.
head_files = Table(
    "head_files",
    metadata,
    Column("repo_id", Id, ForeignKey("repos.id"), primary_key=True),
    Column("ref", HostileText, primary_key=True),
    Column("path_key", Text, primary_key=True),
    Column("path", HostileText, nullable=False),
    Column("size", Size, nullable=False),
    Column("blob_id", HostileText, nullable=False),
    Column("lfs_sha256", HostileText),
)

gaps = Table(
    "gaps",
    metadata,
    Column("revision_id", Id, ForeignKey("revisions.id"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("path", HostileText, nullable=False),
    Column("reason", HostileText, nullable=False),
    Column("detail", HostileText, nullable=False),
    Column("last_readable", HostileText),
)

blobs = Table(
    "blobs",
    metadata,
    Column("key", Text, primary_key=True),
    Column("size", Size, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

changes = Table(
    "changes",
    metadata,
    Column("revision_id", Id, ForeignKey("revisions.id"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("cls", Text, nullable=False),
    Column("severity", Integer, nullable=False),
    Column("reason", HostileText, nullable=False),
    Column("path", HostileText, nullable=False),
    Column("pointer", HostileText),
    Column("before", JsonText, nullable=False),
    Column("after", JsonText, nullable=False),
    Column("summary", HostileText, nullable=False),
    Column("facet", HostileText, nullable=False),
    Column("before_digest", HostileText),
    Column("after_digest", HostileText),
    Column("facts", JsonText, nullable=False),
    Index(None, "cls", "revision_id"),
)

estimates = Table(
    "estimates",
    metadata,
    Column("repo_id", Id, ForeignKey("repos.id"), primary_key=True),
    Column("sha", Text, primary_key=True),
    Column("estimator", Text, primary_key=True),
    Column("version", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("model_type", HostileText),
    Column("architecture", HostileText),
    Column("reason", HostileText),
    Column("body", JsonText, nullable=False),
)

advisories = Table(
    "advisories",
    metadata,
    Column("id", Text, primary_key=True),
    Column("repo_id", Id, ForeignKey("repos.id"), nullable=False),
    Column("cls", Text, nullable=False),
    Column("severity", Integer, nullable=False),
    Column("reason", HostileText, nullable=False),
    Column("introduced", Text, nullable=False),
    Column("predecessor", Text),
    Column("ref", HostileText, nullable=False),
    Column("open", Boolean, nullable=False),
    Column("findings", JsonText, nullable=False),  # read only together with their advisory
    Column("published", Moment, nullable=False),
    Column("modified", Moment, nullable=False),
    Column("withdrawn", Moment),
    Column("superseded_by", Text),
    Column("related", JsonText, nullable=False),
    Column("context", JsonText, nullable=False),
    Index(None, "repo_id", "published", "id"),
    Index(None, "published", "id"),
    Index(None, "open", "published", "id"),
    Index(None, "cls", "published", "id"),
    Index(None, "severity", "published", "id"),
    Index(None, "modified", "id"),
)

# ``first`` and ``until`` are the span's shas as positions on the current chain, until exclusive; ``first``
# is NULL where the span does not touch it. They are worked out again whenever the chain itself changes.
spans = Table(
    "spans",
    metadata,
    Column("advisory_id", Text, ForeignKey("advisories.id"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("repo_id", Id, ForeignKey("repos.id"), nullable=False),
    Column("ref", HostileText, nullable=False),
    Column("introduced", Text, nullable=False),
    Column("fixed", Text),
    Column("last_affected", Text),
    Column("first", Integer),
    Column("until", Integer, nullable=False),
    Index(None, "repo_id", "ref", "first", "until"),
)

# ``sha`` is '' for repo state; there ``moment`` tells one occurrence from the next, elsewhere it is 0.
advisory_events = Table(
    "advisory_events",
    metadata,
    Column("id", Id, primary_key=True),
    Column("advisory_id", Text, ForeignKey("advisories.id"), nullable=False),
    Column("action", Text, nullable=False),
    Column("sha", Text, nullable=False),
    Column("moment", BigInteger, nullable=False),
    Column("repo_id", Id, ForeignKey("repos.id"), nullable=False),
    Column("at", Moment, nullable=False),
    UniqueConstraint("advisory_id", "action", "sha", "moment"),
    Index(None, "repo_id", "sha"),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", Id, primary_key=True),
    Column("key", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("repo_id", Id, ForeignKey("repos.id"), nullable=False),
    Column("payload", JsonText, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("done_at", Moment),
    UniqueConstraint("key"),
    Index(None, "done_at", "id"),
    sqlite_autoincrement=True,  # ids are the order of sending, also after old items were deleted
)

subscriptions = Table(
    "subscriptions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("url", HostileText, nullable=False),
    Column("secret", HostileText),
    Column("min_severity", Integer, nullable=False),
    Column("classes", JsonText, nullable=False),
    Column("repos", JsonText, nullable=False),
    Column("digest", Text, nullable=False),
    Column("settle", Duration, nullable=False),
    Column("quiet", JsonText, nullable=False),
    Column("timezone", Text, nullable=False),
    Column("allow_private", Boolean, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("disabled_at", Moment),
    Column("disabled_reason", HostileText),
    Column("lease_holder", Text),
    Column("lease_until", Moment),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Id, primary_key=True),
    Column("subscription_id", Text, ForeignKey("subscriptions.id"), nullable=False),
    Column("message_id", Text, nullable=False),
    Column("lane", HostileText, nullable=False),
    Column("body", JsonText, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("next_at", Moment, nullable=False),
    Column("done_at", Moment),
    Column("status", Integer),
    Column("error", HostileText),
    UniqueConstraint("message_id"),
    Index(None, "subscription_id", "state", "lane", "id"),
    Index(None, "done_at"),
    sqlite_autoincrement=True,  # ids are the order of sending within a lane
)

delivery_attempts = Table(
    "delivery_attempts",
    metadata,
    Column("id", Id, primary_key=True),
    Column("delivery_id", Id, ForeignKey("deliveries.id"), nullable=False),
    Column("at", Moment, nullable=False),
    Column("delivered", Boolean, nullable=False),
    Column("status", Integer),
    Column("error", HostileText),
    Column("milliseconds", Integer, nullable=False),
    Index(None, "delivery_id", "id"),
)

# What a subscription is still to be told: copies of outbox items, until they are part of a delivery.
notices = Table(
    "notices",
    metadata,
    Column("subscription_id", Text, ForeignKey("subscriptions.id"), primary_key=True),
    Column("number", Id, primary_key=True),  # outbox.id
    Column("key", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("repo_id", Id, ForeignKey("repos.id"), nullable=False),
    Column("payload", JsonText, nullable=False),
    Column("created_at", Moment, nullable=False),
)

pauses = Table(
    "pauses",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("until", Moment, nullable=False),
    Column("reason", HostileText, nullable=False),
)

# What every process that asks the same upstream as the same user has spent of its quotas in their windows.
budgets = Table(
    "budgets",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("limit", Integer, nullable=False),
    Column("window_s", Integer, nullable=False),
    Column("window_ends", Moment, nullable=False),
    Column("spent", Integer, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", HostileText, nullable=False),
    Column("digest", Text, nullable=False),  # SHA-256 of the secret; the secret itself is kept nowhere
    Column("scopes", JsonText, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("last_used_at", Moment),
    Column("revoked_at", Moment),
    UniqueConstraint("digest"),
    sqlite_autoincrement=True,  # the journal names tokens by id: one id is never two tokens
)

journal = Table(
    "journal",
    metadata,
    Column("id", Id, primary_key=True),
    Column("at", Moment, nullable=False),
    Column("actor", HostileText, nullable=False),
    Column("client", HostileText, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", HostileText, nullable=False),
    Column("detail", JsonText, nullable=False),
    sqlite_autoincrement=True,
)

# Branches, tags and pull-request refs where they stood when last read.
repo_refs = Table(
    "repo_refs",
    metadata,
    Column("repo_id", Id, ForeignKey("repos.id"), primary_key=True),
    Column("name", HostileText, primary_key=True),
    Column("sha", Text, nullable=False),
)

# Other repos that a repo names (its code, its base model), as they were when last looked at.
related_repos = Table(
    "related_repos",
    metadata,
    Column("repo_id", Id, ForeignKey("repos.id"), primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("target", HostileText, primary_key=True),
    Column("hub_id", HostileText),
    Column("head", Text),
)

# What is read at a slower pace than heads: when it is due again, and which head it was last read at.
slow_reads = Table(
    "slow_reads",
    metadata,
    Column("repo_id", Id, ForeignKey("repos.id"), primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("due_at", Moment, nullable=False),
    Column("head", Text),
    Column("errors", Integer, nullable=False),
)

meta = Table(
    "meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", JsonText, nullable=False),
)
