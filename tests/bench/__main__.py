"""``make bench``: run every bench_*.py of this folder (or those named) and print what they measured."""

from __future__ import annotations

import importlib
import logging
import sys
from pathlib import Path

import structlog

_WHAT, _MEASURED = 56, 68  # characters of a column


def main(wanted: list[str]) -> int:
    """Run the benchmarks whose name holds one of these words; all without any. 1 when an aim was missed."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("bench_*.py"))
    chosen = [name for name in names if not wanted or any(word in name for word in wanted)]
    if not chosen:
        print(f"no benchmark is called so; there are: {', '.join(names)}", file=sys.stderr)
        return 2
    # requests are logged by a daemon, too, but not to the terminal that this table is printed on
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    missed = False
    for name in chosen:
        print(f"\n{name.removeprefix('bench_')}", flush=True)
        for what, measured, aim, met in importlib.import_module(f"tests.bench.{name}").main():
            missed |= not met
            figures = measured if met else f"{measured}  (missed)"
            print(f"  {what:<{_WHAT}}{figures:<{_MEASURED}}{aim}", flush=True)  # some take minutes: one by one
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
