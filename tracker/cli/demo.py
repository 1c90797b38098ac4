"""``hubwatch demo``: an upstream on this machine, the daemon, its pages; things happen, advisories land."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
from rich.markup import escape

from storage import schema, watches
from storage.database import Database
from storage.model import Advisory, AdvisoryAction, AdvisoryEvent, Landing, RepoRef
from tracker.assembly import Services, assemble
from tracker.cli.context import console, now, printable
from tracker.cli.tables import severity_text
from tracker.daemon import running
from tracker.demo.hub import LoopbackHub
from tracker.demo.scenario import IDENTITY, Scenario, Step
from tracker.settings import HubSettings, PollSettings, Settings

PAUSE = 6.0
"""Seconds between two things that happen, so that a person can read along."""


@click.command()
@click.option("--once", is_flag=True, help="Run through without waiting, then exit.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=None,
    envvar="HUBWATCH_PORT",
    help="Port of the pages; default HUBWATCH_PORT, or a free one.",
)
def demo(once: bool, port: int | None) -> None:
    """Show what hubwatch does, on this machine alone: nothing is sent anywhere, nothing is kept."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C: the folder goes with it
    with tempfile.TemporaryDirectory(prefix="hubwatch-demo-") as folder, _upstream(Path(folder)) as scenario:
        names = scenario.set_up()
        settings = Settings(
            database_url=f"sqlite:///{folder}/demo.db",
            port=port or 0,
            hub=HubSettings(endpoint=scenario.hub.url, identity=IDENTITY),
            poll=PollSettings(floor=timedelta(seconds=2)),
        )
        database = Database.open(settings.database)
        schema.require_current(database)
        printer = _Printer()
        with assemble(settings, database) as services:
            services.worker.on_landed = printer.landed
            services.worker.states.on_changed = printer.changed
            _watch(database, names, every=None if once else timedelta(seconds=2))
            if once:
                _run_through(services, scenario, names)
            else:
                _run_live(services, scenario)
        database.dispose()
    printer.sum_up()


@contextmanager
def _upstream(folder: Path) -> Iterator[Scenario]:
    with LoopbackHub() as hub:
        yield Scenario(hub, folder / "upstream", datetime.now(UTC))


def _watch(database: Database, names: list[str], *, every: timedelta | None) -> None:
    with database.transaction() as tx:
        for name in names:
            repo = RepoRef.parse(name, endpoint=IDENTITY)
            watches.add(tx, repo, ref="main", since=None, from_head=False, every=every, public=False, now=now())


def _run_through(services: Services, scenario: Scenario, names: list[str]) -> None:
    def poll(only: list[str]) -> None:
        with services.database.snapshot() as tx:
            chosen = [watch for watch in watches.list_all(tx) if watch.repo.id in only]
        for watch in chosen:
            outcome = services.worker.check(watch)
            if outcome.error:
                click.echo(f"          {outcome.status}: {printable(outcome.error, 300)}")

    click.echo(f"Watching {', '.join(names)}: reading their history first.")
    poll(names)
    for step in scenario.steps():
        _tell(step)
        step.act()
        poll([step.repo])


def _run_live(services: Services, scenario: Scenario) -> None:
    with running(services) as url:
        click.echo(f"pages and feeds: {url}   (Ctrl-C ends the demo)")
        click.echo(f"its Hub, for a second terminal: {_as_settings(services.settings)}")
        click.echo("Reading history first; then things happen upstream.")
        stop = threading.Event()
        try:
            for step in scenario.steps():
                stop.wait(PAUSE)
                _tell(step)
                step.act()
            stop.wait(PAUSE)
            click.echo(f"\nThat was all. Look around at {url}; Ctrl-C ends the demo.")
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            click.echo("")


def _as_settings(settings: Settings) -> str:
    """What another installation sets to follow the same Hub."""
    return f"HF_ENDPOINT={settings.hub.endpoint} HUBWATCH_HUB_IDENTITY={settings.hub.identity}"


def _tell(step: Step) -> None:
    click.echo(f"\n{step.repo}: {step.told}")


class _Printer:
    """Prints each revision and what it does to advisories, as it lands."""

    def __init__(self) -> None:
        self._out = console()
        self._lock = threading.Lock()
        self._revisions = 0
        self._opened = 0
        self._closed = 0

    def landed(self, landing: Landing, number: int, total: int) -> None:
        """Print one revision."""
        with self._lock:
            self._revisions += 1
            revision = landing.revision
            title = escape(printable(revision.title, 60))
            self._out.print(
                f"  {landing.repo.id} {revision.sha[:7]} {escape(revision.author)}: {title}", style="dim"
            )
            self._tell(landing.advisories, landing.events)

    def changed(self, advisories: Iterable[Advisory], events: Iterable[AdvisoryEvent]) -> None:
        """Print what a new state of a repo did."""
        with self._lock:
            self._tell(advisories, events)

    def _tell(self, advisories: Iterable[Advisory], events: Iterable[AdvisoryEvent]) -> None:
        known = {advisory.id: advisory for advisory in advisories}
        for event in events:
            advisory = known[event.advisory_id]
            opened = event.action in {AdvisoryAction.OPENED, AdvisoryAction.REINTRODUCED}
            self._opened += opened
            self._closed += not opened
            what = escape(printable(advisory.findings[0].finding.change.summary, 110))
            mark = severity_text(advisory.severity.label) if opened else f"{event.action:<8}"
            self._out.print(f"    {advisory.id}  {mark} {what}", soft_wrap=True)

    def sum_up(self) -> None:
        """Print the totals and what to do next."""
        click.echo(
            f"\n{self._revisions} revisions read, {self._opened} advisories published, {self._closed} closed."
            "\nOn real models: hubwatch watch add owner/name, hubwatch poll, hubwatch history owner/name"
        )
