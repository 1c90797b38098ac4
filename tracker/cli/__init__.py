"""The command line. One file a command group, loaded only when its command is called."""

from __future__ import annotations

import gc
import importlib
import sys
from typing import Any

import click

from storage.errors import HubwatchError

COMMANDS = {
    "advisories": "tracker.cli.advisories:advisories",
    "audit": "tracker.cli.audit:audit",
    "blame": "tracker.cli.reading:blame",
    "config": "tracker.cli.config:config",
    "db": "tracker.cli.db:db",
    "demo": "tracker.cli.demo:demo",
    "diff": "tracker.cli.reading:diff",
    "doctor": "tracker.cli.doctor:doctor",
    "estimate": "tracker.cli.estimate:estimate",
    "export": "tracker.cli.export:export",
    "history": "tracker.cli.reading:history",
    "poll": "tracker.cli.poll:poll",
    "reassess": "tracker.cli.reassess:reassess",
    "run": "tracker.cli.run:run",
    "show": "tracker.cli.reading:show",
    "subscribe": "tracker.cli.subscribe:subscribe",
    "token": "tracker.cli.token:token",
    "watch": "tracker.cli.watch:watch",
}


class _LazyGroup(click.Group):
    """Knows its commands by name and imports a command's module only to run it or show its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        target = COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, _, name = target.partition(":")
        # What a command is made of stays: no collection has to go through it, now or later.
        gc.disable()
        try:
            command: click.Command = getattr(importlib.import_module(module), name)
        finally:
            gc.freeze()
            gc.enable()
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="hubwatch", prog_name="hubwatch")
@click.option("--database-url", metavar="URL", help="SQLite or PostgreSQL; also HUBWATCH_DATABASE_URL.")
@click.option("-v", "--verbose", count=True, help="Log to stderr what is done; twice: every request.")
@click.pass_context
def cli(ctx: click.Context, database_url: str | None, verbose: int) -> None:
    """Follow model repos on the Hugging Face Hub; an OSV advisory for every change.

    \b
    hubwatch watch add owner/name      follow a repo
    hubwatch poll                      look now
    hubwatch history owner/name        what changed, revision by revision
    hubwatch run                       the daemon
    """  # noqa: D301 - \b keeps click from filling the paragraph
    from tracker.log import configure_logging, louder

    configure_logging(louder("warning", verbose))  # until the settings are read, see `context.settings_of`
    ctx.obj = {"database_url": database_url, "verbose": verbose}


def main() -> None:
    """Entry point: errors become one line on stderr and exit code 2, never a traceback."""
    sys.exit(execute(sys.argv[1:]))


def execute(arguments: list[str]) -> int:
    """Run one command line; returns its exit code."""
    try:
        result: Any = cli.main(arguments, prog_name="hubwatch", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as shown:
        click.echo(shown.format_message(), err=True)
        return 2
    except click.ClickException as error:
        asked = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "hubwatch"
        told = " ".join(error.format_message().split()).rstrip(".")
        click.echo(f"hubwatch: {told}: see {asked} --help", err=True)
        return 2
    except click.exceptions.Exit as wish:
        return wish.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        return 130
    except HubwatchError as error:
        click.echo(f"hubwatch: {error}".replace("\n", " "), err=True)
        return 2
    except BrokenPipeError:
        # The reader went away (`| head`): nothing more to say, and nothing is wrong.
        sys.stderr.close()
        return 0
    return result if isinstance(result, int) else 0
