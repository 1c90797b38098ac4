"""``python -m tests.accuracy [--write]``: every measured run beside its estimate, as docs/accuracy.md."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.accuracy.report import band, document, write
from tests.accuracy.rows import text
from tests.accuracy.runs import load

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str]) -> int:
    """Print the document; with ``--write`` bring it, the uncertainty band and the runs that ship up to date."""
    corpus = Path(os.environ.get("HUBWATCH_CORPUS") or ROOT.parent / "shared")
    if not (corpus / "reference" / "estimators" / "measured.jsonl").is_file():
        print("no corpus of measured runs: set HUBWATCH_CORPUS", file=sys.stderr)
        return 2
    runs, left = load(corpus)
    if "--write" in arguments:
        data = ROOT / "tracker" / "estimate" / "data"
        (data / "uncertainty.json").write_text(json.dumps(band(runs), indent=1) + "\n", "utf-8")
        (data / "accuracy.json").write_text(text(runs, left), "utf-8")
        write(ROOT, runs, left)
    else:
        sys.stdout.write(document(runs, left))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
