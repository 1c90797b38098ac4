"""An export in a process of its own, so that making many documents holds up nobody who is being answered.

The child gets what to do as one line of JSON on its standard input, which never shows in a process list. It ends
when that pipe is closed: it never outlives whoever asked.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path

from advisories.export import ExportReport, export
from storage.database import Database
from storage.errors import HubwatchError, StorageError

_NICE = 10  # answers come first


def export_apart(
    database: Database, folder: Path, *, public_only: bool = False, archives: bool = True
) -> ExportReport:
    """As `advisories.export.export`, in a child process. Raises StorageError when that fails."""
    asked = {
        "url": database.url,
        "folder": str(folder),
        "public_only": public_only,
        "archives": archives,
    }
    with subprocess.Popen(  # noqa: S603 - this module
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None and child.stdout is not None  # noqa: S101, PT018 - they are pipes
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(json.dumps(asked) + "\n")
            child.stdin.flush()
        answer = child.stdout.read()
    try:
        told = json.loads(answer)
    except ValueError:
        raise StorageError(
            f"the export of {folder} ended with status {child.returncode}", help="see the log above; try again"
        ) from None
    if "error" in told:
        raise StorageError(told["error"], help=told["help"])
    return ExportReport(**told)


def _child() -> int:
    asked = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    database = Database.open(asked.pop("url"))
    try:
        told = asdict(export(database, Path(asked.pop("folder")), **asked))
    except HubwatchError as error:
        told = {"error": error.message, "help": error.help}
    finally:
        database.dispose()
    sys.stdout.write(json.dumps(told))
    return 0


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(_child())
