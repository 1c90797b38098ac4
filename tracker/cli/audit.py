"""``hubwatch audit``: which models a tree, a Hub cache or an SBOM uses, and which advisories touch them."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from advisories.audit import match, report
from advisories.audit.find import cache, tree
from advisories.audit.find.kinds import SBOM
from advisories.audit.model import Audit, Notice, Pinning, Reading
from advisories.audit.names import Names, hosts_of
from advisories.audit.pins import pins
from advisories.audit.sources import ExportSource, LocalSource, ServerSource, Source
from storage.errors import UsageError
from storage.model import Severity
from tracker.cli.context import console, json_option, limit_option, limited, now, opened, printable, settings_of
from tracker.cli.context import show_json as emit
from tracker.cli.tables import severity_text
from tracker.settings import Settings

_NEVER = "never"
_DEFAULT_CACHE = "\0default"


@click.command()
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option(
    "--hub-cache",
    is_flag=False,
    flag_value=_DEFAULT_CACHE,
    metavar="[DIR]",
    help="Audit what a Hub cache holds; without DIR the one that the Hub's tools use here.",
)
@click.option(
    "--sbom", type=click.Path(path_type=Path), metavar="FILE", help="Audit a CycloneDX or SPDX document."
)
@click.option(
    "--fail-on", default="high", show_default=True, metavar="S", help="Exit 1 for a finding this grave; or never."
)
@click.option("--format", "form", type=click.Choice(["table", "json", "sarif", "cyclonedx"]), default="table")
@click.option("--fix", is_flag=True, help="Print the pins that would hold what floats.")
@click.option("--server", metavar="URL", help="Ask a hubwatch server; its token in HUBWATCH_TOKEN.")
@click.option(
    "--export", "folder", type=click.Path(path_type=Path), metavar="DIR", help="Use an OSV export folder."
)
@json_option
@limit_option
@click.pass_context
def audit(
    ctx: click.Context,
    path: Path | None,
    hub_cache: str | None,
    sbom: Path | None,
    fail_on: str,
    form: str,
    fix: bool,
    server: str | None,
    folder: Path | None,
    as_json: bool,
    limit: int | None,
) -> int:
    """Find the models that PATH uses and hold them against the advisories.

    Nothing found is run or downloaded. Exit codes: 0 nothing as grave as --fail-on, 1 something, 2 it could
    not be done.
    """
    if sum(item is not None for item in (path, hub_cache, sbom)) != 1:
        raise UsageError("audit takes one thing", help="give PATH, --hub-cache [DIR] or --sbom FILE")
    if server and folder:
        raise UsageError("--server and --export exclude each other", help="give one of them")
    lowest = _lowest(fail_on)
    settings = settings_of(ctx)
    with _source(settings, server, folder) as source:
        names = Names(known=source.repos(), hosts=hosts_of(settings.hub.identity))
        reading, base = _read(names, path, hub_cache, sbom)
        own = [
            item
            for item in reading.references
            if (item.endpoint or settings.hub.identity) == settings.hub.identity
        ]
        known = source.know(dict.fromkeys(item.repo for item in own))
    foreign = {item.repo for item in reading.references} - {item.repo for item in own}
    ours = {name: item for name, item in known.items() if name not in foreign}
    found = match.audit(reading, ours, str(base), policy=settings.house_policy)
    _show(found, "json" if as_json else form, fix=fix, limit=limit, settings=settings)
    return 1 if report.failing(found, lowest) else 0


@contextmanager
def _source(settings: Settings, server: str | None, folder: Path | None) -> Iterator[Source]:
    identity = settings.hub.identity
    with ExitStack() as stack:
        if server:
            from advisories.client import Client

            yield ServerSource(stack.enter_context(Client(server)), identity)
        elif folder is not None:
            yield ExportSource(folder, identity)
        else:
            yield LocalSource(stack.enter_context(opened(settings)), identity)


def _read(names: Names, path: Path | None, hub_cache: str | None, sbom: Path | None) -> tuple[Reading, Path]:
    if hub_cache is not None:
        place = cache.default_cache() if hub_cache == _DEFAULT_CACHE else Path(hub_cache)
        return cache.read(place), place.absolute()
    if sbom is not None:
        return tree.read_file(sbom, SBOM, names), sbom.absolute().parent
    if path is None:
        raise UsageError("audit takes one thing", help="give PATH, --hub-cache [DIR] or --sbom FILE")
    return tree.read_tree(path, names), path.absolute() if path.is_dir() else path.absolute().parent


def _show(found: Audit, form: str, *, fix: bool, limit: int | None, settings: Settings) -> None:
    if form == "json":
        emit(
            {key: rows if limit is None else rows[:limit] for key, rows in report.to_json(found, fix=fix).items()}
        )
    elif form == "sarif":
        from advisories.audit.sarif import to_sarif

        emit(to_sarif(found))
    elif form == "cyclonedx":
        from advisories.audit.cyclonedx import to_cyclonedx

        click.echo(to_cyclonedx(found, identity=settings.hub.identity, now=now()))
    else:
        _tables(found, fix=fix, limit=limited(False, limit))


def _lowest(word: str) -> Severity | None:
    """The severity that fails; None when nothing does. Raises UsageError."""
    if word.lower() == _NEVER:
        return None
    try:
        return Severity.parse(word)
    except UsageError as error:
        raise UsageError(error.message, help=f"{error.help}, or {_NEVER}") from None


def _tables(found: Audit, *, fix: bool, limit: int | None) -> None:
    out = console()
    _findings(out, found, limit)
    _held(out, found, limit)
    if fix:
        _pins(out, found)
    _gaps(out, found, limit)
    pinned = sum(item.pinned for item in found.references)
    unknown = sum(item.pinning is Pinning.UNKNOWN for item in found.references)
    counts = f"{_count(found.references, 'reference')}, {pinned} pinned"
    counts += f", {unknown} of unknown pin" if unknown else ""
    out.print(f"{counts}; {_count(found.findings, 'finding')}, {_count(found.gaps, 'gap')}")


def _count(items: Sized, word: str) -> str:
    return f"{len(items)} {word}" if len(items) == 1 else f"{len(items)} {word}s"


def _findings(out: Console, found: Audit, limit: int | None) -> None:
    if not found.findings:
        return
    table = Table("where", "model", "severity", "advisory", "what", box=None, pad_edge=False)
    # the gravest first: what is cut off is to be what matters least
    for holding, notice in sorted(found.findings, key=lambda item: -item[1].severity)[:limit]:
        reference = holding.reference
        table.add_row(
            _where(reference.file, reference.line),
            escape(_model(reference.repo, holding.sha)),
            severity_text(notice.severity.label),
            escape(printable(notice.id)),
            escape(printable(_short(notice, reference.repo), 100)),
        )
    out.print(table)
    _more(out, len(found.findings), limit)


def _held(out: Console, found: Audit, limit: int | None) -> None:
    """What is held and what an update would bring, where there is something to say."""
    shown = [item for item in found.holdings if item.behind or item.gained or item.lost]
    for item in shown[:limit]:
        reference = item.reference
        behind = (
            ""
            if item.behind is None
            else f", {item.behind} revisions behind {item.head[:10] if item.head else ''}"
        )
        out.print(f"{_where(reference.file, reference.line)}  {escape(_model(reference.repo, item.sha))}{behind}")
        for word, notices in (("update brings", item.gained), ("update ends", item.lost)):
            for notice in notices[:10]:
                summary = escape(printable(_short(notice, reference.repo), 100))
                out.print(
                    f"    {word}: {severity_text(notice.severity.label)} {escape(printable(notice.id))} {summary}"
                )
    _more(out, len(shown), limit)


def _pins(out: Console, found: Audit) -> None:
    for pin in pins(found):
        where = _where(pin.reference.file, pin.reference.line)
        text = pin.write or (f"{pin.sha} ({pin.how})" if pin.sha else f"({pin.how})")
        text = printable(text, 600)
        worst = f"  # open there: {', '.join(item.id for item in pin.worries[:3])}" if pin.worries else ""
        out.print(f"{where}  {escape(pin.reference.repo)}  {escape(text + worst)}", soft_wrap=True)


def _gaps(out: Console, found: Audit, limit: int | None) -> None:
    for gap in found.gaps[:limit]:
        what = f"{gap.repo}: " if gap.repo else ""
        where = _where(gap.file, gap.line) if gap.file else ""
        out.print(
            f"gap: {where} {escape(printable(what + gap.detail, 200))} ({gap.reason})", soft_wrap=True, style="dim"
        )
    _more(out, len(found.gaps), limit)


def _where(file: str, line: int | None) -> str:
    return escape(printable(f"{file}:{line}" if line else file, 100))


def _model(repo: str, sha: str | None) -> str:
    return f"{repo}@{sha[:10]}" if sha else repo


def _short(notice: Notice, repo: str) -> str:
    return notice.summary.removeprefix(f"{repo}: ")


def _more(out: Console, count: int, limit: int | None) -> None:
    if limit is not None and count > limit:
        out.print(f"... and {count - limit} more (--limit)")
