from __future__ import annotations

import subprocess
import sys

from tests.support.command import wait_for
from tracker.leases import is_dead, new_holder


def test_the_holder_of_a_living_process_is_not_dead() -> None:
    assert not is_dead(new_holder())
    assert new_holder() != new_holder()


def test_the_holder_of_a_process_that_ended_is_dead() -> None:
    script = "from tracker.leases import new_holder; print(new_holder())"
    holder = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert is_dead(holder)


def test_a_process_that_was_killed_and_not_yet_waited_for_is_dead() -> None:
    script = "from tracker.leases import new_holder; print(new_holder(), flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    holder = child.stdout.readline().strip()
    assert not is_dead(holder)
    child.kill()
    child.stdout.read()  # ends as the process goes; it stays a zombie until it is waited for
    wait_for(lambda: is_dead(holder), seconds=20, what="the end of the killed process")
    child.wait()
    if child.stdin:
        child.stdin.close()
    child.stdout.close()


def test_a_holder_of_another_machine_is_never_called_dead() -> None:
    assert not is_dead("elsewhere|1|2|3")
    assert not is_dead("")
    assert not is_dead("nonsense")
