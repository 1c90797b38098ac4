"""``make fuzz``: every target in turn, with new examples each time round, until the time is over.

    make fuzz                                       all of them, 300 seconds
    make fuzz FUZZ_SECONDS=3600 ARGS="json history" these, an hour

A failure is shrunk and printed with the input that made it; the others go on. Exit code 1 if there was one.
"""

from __future__ import annotations

import os
import sys
import time
import traceback

from hypothesis import seed

from tests.fuzz.profiles import LONG
from tests.fuzz.targets import TARGETS, Target


def main(names: list[str]) -> int:
    """Run the targets of these names (none: all) for FUZZ_SECONDS."""
    chosen = [target for target in TARGETS if not names or target.name in names]
    if unknown := set(names) - {target.name for target in TARGETS}:
        print(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(t.name for t in TARGETS)}")
        return 2
    until = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "300"))
    number = int.from_bytes(os.urandom(4), "big")
    print(f"seed {number}")
    failed: set[str] = set()
    rounds = 0
    while time.monotonic() < until and len(failed) < len(chosen):
        for target in chosen:
            if target.name not in failed and time.monotonic() < until and not _run(target, number + rounds):
                failed.add(target.name)
        rounds += 1
    print(f"{rounds} rounds; failed: {', '.join(sorted(failed)) or 'none'}")
    return 1 if failed else 0


def _run(target: Target, number: int) -> bool:
    try:
        seed(number)(target.test(LONG))()
    except Exception:  # noqa: BLE001 - whatever a parser lets out is what is looked for
        print(f"\n{target.name}:", flush=True)
        traceback.print_exc()
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
