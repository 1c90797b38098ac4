"""The comparison as the small table that ships, for the page on how well estimates did."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.accuracy.report import GROUPS, of_group, reason_for, tally
from tests.accuracy.runs import Row, Run, jobs
from tracker.estimate.exact import ESTIMATOR


def results(runs: Sequence[Run], left: Sequence[tuple[Row, str]]) -> dict[str, Any]:
    """Every run with its figures and verdicts, what was left out, and the totals; sizes in bytes."""
    return {
        "estimator": f"{ESTIMATOR.name} {ESTIMATOR.version}",
        "groups": [_group(name, of_group(runs, methods)) for name, methods in GROUPS.items()],
        "runs": [_row(run) for run in runs],
        "left_out": dict(Counter(reason for _, reason in left).most_common()),
    }


def _group(name: str, runs: Sequence[Run]) -> dict[str, Any]:
    caught, misfits, alarms, fits = tally(jobs(runs))
    return {"name": name, "caught": caught, "misfits": misfits, "alarms": alarms, "fits": fits, "runs": len(runs)}


def _row(run: Run) -> dict[str, Any]:
    row, found = run.row, jobs([run])
    return {
        "model": row["model"],
        "method": row["method"],
        "batch": row["batch"],
        "seq": row["seq"],
        "precision": run.options.precision,
        "checkpointing": run.options.gradient_checkpointing,
        "source": str(row["source"]).split()[0],
        "card": row["gpu_gb"],
        "measured": run.measured,
        "expected": round(run.expected),
        "needed": run.needed,
        "missed": [job.gb for job in found if not job.fits and not job.flagged()],
        "alarmed": [job.gb for job in found if job.fits and job.flagged()],
        "misfits": sum(not job.fits for job in found),
        "fits": sum(job.fits for job in found),
        "why": reason_for(run) if any(job.flagged() is job.fits for job in found) else None,
    }


def text(runs: Sequence[Run], left: Sequence[tuple[Row, str]]) -> str:
    """The file: one run a line, so that a change of one figure is a change of one line."""
    made = results(runs, left)
    rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in made.pop("runs"))
    return json.dumps(made, ensure_ascii=False)[:-1] + f', "runs": [\n{rows}\n]}}\n'
