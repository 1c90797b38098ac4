"""Stories kept in a real database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from advisories.ledger import Step
from storage import advisories, history
from storage.database import Database
from storage.model import Landing, Manifest
from tests.advisories.story import REPO, Story, revision


class Kept:
    """A story whose revisions are landed."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.story = Story()

    def land(self, values: Mapping[str, str | None], **options: object) -> Step:
        number = self.story.position
        step = self.story.land(values, **options)
        with self.database.transaction() as tx:
            history.land(
                tx,
                Landing(
                    repo=REPO,
                    ref="main",
                    revision=revision(number),
                    observed_at=self.story.clock(number),
                    backfill=False,
                    manifest=Manifest(files={}),
                    gaps=(),
                    findings=(),
                    estimate=None,
                    advisories=step.advisories,
                    events=step.events,
                ),
            )
        return step

    def rope(self, *chain: str | None) -> Kept:
        for value in chain:
            self.land({"config:rope": value})
        return self

    def keep(self, step: Step, *, now: datetime) -> None:
        """Keep what happened beside the commits."""
        with self.database.transaction() as tx:
            for advisory in step.advisories:
                advisories.save(tx, advisory)
            advisories.record_events(tx, REPO, step.events, now=now)
        self.story.state = step.apply(self.story.state)
