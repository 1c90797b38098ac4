"""``make bench``: run every bench_*.py of this folder (or those named) and print what they measured."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table


def main(wanted: list[str]) -> int:
    """Run the benchmarks whose name holds one of these words; all without any."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("bench_*.py"))
    chosen = [name for name in names if not wanted or any(word in name for word in wanted)]
    missed = False
    for name in chosen:
        table = Table("what", "measured", "aim", title=name.removeprefix("bench_"), box=None, pad_edge=False)
        for what, measured, aim, met in importlib.import_module(f"tests.bench.{name}").main():
            missed |= not met
            table.add_row(what, measured if met else f"{measured}  (missed)", aim)
        Console(width=120).print(table)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
