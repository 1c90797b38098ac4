"""Who holds a lease: a name that tells, on the same machine, whether its process still lives.

A process that was killed leaves its leases behind. Elsewhere they run out by themselves; here they are taken
over at once, because the holder's name says which process it was.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from uuid import uuid4


def new_holder() -> str:
    """A name for one check of this process: machine, process id, process start, check."""
    pid = os.getpid()
    return f"{_machine()}|{pid}|{_stat(pid)[1]}|{uuid4().hex[:12]}"


def is_dead(holder: str) -> bool:
    """Whether a holder was a process of this machine that is gone; False whenever that cannot be known."""
    machine, _, rest = holder.partition("|")
    pid, _, rest = rest.partition("|")
    started, _, _ = rest.partition("|")
    if machine != _machine() or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    # A zombie holds nothing, and the number may belong to a younger process by now.
    state, began = _stat(int(pid))
    return state == "Z" or started != began


def _machine() -> str:
    """This machine in this boot: after a restart, process ids mean other processes."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8]
    except OSError:
        boot = ""
    return f"{socket.gethostname()}{boot}".replace("|", "")


def _stat(pid: int) -> tuple[str, str]:
    """A process's state letter and its start in clock ticks since boot, where /proc tells."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", ""
    fields = stat.rpartition(")")[2].split()
    return (fields[0], fields[19]) if len(fields) > 19 else ("", "")
