"""Changes on a terminal and in a pipe."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from tracker.cli import lines
from tracker.cli.tables import print_estimate

LONG = "model.safetensors: 0 tensor names gone, 9 new, " + "x" * 200 + " end"
CHANGE: dict[str, Any] = {"severity": "MODERATE", "class": "weights.keys", "summary": LONG}


def terminal(width: int, *, colour: bool = True) -> Console:
    return Console(
        file=io.StringIO(),
        width=width,
        force_terminal=True,
        color_system="standard" if colour else None,
        highlight=False,
        no_color=not colour,
    )


def pipe() -> Console:
    return Console(file=io.StringIO(), width=2000, force_terminal=False, highlight=False)


def text(out: Console) -> str:
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_a_change_in_a_pipe_is_one_plain_line() -> None:
    for cut in (True, False):
        out = pipe()
        lines.print_changes(out, [CHANGE], indent="    ", cut=cut)
        assert text(out) == f"    medium   weights.keys                 {LONG}\n"


@pytest.mark.parametrize("width", [40, 60, 100, 200])
def test_a_change_on_a_terminal_keeps_within_it(width: int) -> None:
    out = terminal(width, colour=False)
    lines.print_changes(out, [CHANGE], indent="    ", cut=True)
    (line,) = text(out).splitlines()
    assert len(line) <= width
    assert line.endswith("…")
    whole = terminal(width, colour=False)
    lines.print_changes(whole, [CHANGE], indent="    ", cut=False)
    rows = text(whole).splitlines()
    assert all(len(row) <= width for row in rows)
    assert "".join("".join(rows).split()).endswith("xend")
    assert all(row.startswith("    ") for row in rows)


def test_severities_are_coloured_on_a_terminal_alone() -> None:
    coloured, plain = terminal(100), terminal(100, colour=False)
    for out in (coloured, plain):
        lines.print_changes(out, [CHANGE | {"severity": "HIGH"}], cut=True)
    assert "\x1b[31mhigh" in text(coloured)
    assert "\x1b[3" not in text(plain)


def test_a_revert_stands_out() -> None:
    out = terminal(100)
    events = [{"action": name, "advisory": f"id-{name}"} for name in ("opened", "fixed", "reintroduced")]
    lines.print_events(out, events, indent="  ")
    assert "id-opened" not in text(out)
    assert "\x1b[1;32mfixed" in text(out)
    assert "put back: closes id-fixed" in text(out)
    assert "back again: reopens id-reintroduced" in text(out)


def estimate(total: int, memory: int | None, version: str = "1") -> dict[str, Any]:
    return {
        "estimator": "exact",
        "version": version,
        "parameters": {"total": total, "active": total},
        "memory": {"full_finetune_bytes": memory, "kv_cache_bytes": 10},
    }


def test_figures_that_moved_are_said_with_by_how_much() -> None:
    before, after = estimate(1000, 2_000_000), estimate(1500, 3_000_000)
    assert lines.moved_line(before, after) == (
        "parameters 1,000 -> 1,500 (+50.0%); full fine-tune 2.00 MB -> 3.00 MB (+50.0%)"
    )
    assert lines.moved_line(before, before) is None
    assert lines.moved_line(before, estimate(1500, 3_000_000, version="2")) is None
    assert lines.moved_line(None, after) is None
    assert lines.moved_line(estimate(1000, None), after) == (
        "parameters 1,000 -> 1,500 (+50.0%); full fine-tune - -> 3.00 MB"
    )
    out = pipe()
    lines.print_moved(out, before, after)
    assert text(out).splitlines() == [
        "parameters        1,000 ->   1,500  (+50.0%)",
        "full fine-tune  2.00 MB -> 3.00 MB  (+50.0%)",
    ]


def test_an_estimate_wraps_below_its_figures() -> None:
    out = terminal(50, colour=False)
    print_estimate(
        out,
        {
            "status": "partial",
            "source": "closed_form",
            "architecture": "Llama[bold]ForCausalLM",
            "model_type": "llama",
            "checkpoint": {"total": 5, "source": "headers", "explanation": "much to say " * 6},
            "findings": [{"level": "error", "message": "wrong [red] thing", "fix": None}],
        },
    )
    rows = text(out).splitlines()
    assert all(len(row) <= 50 for row in rows)
    assert [row[:17] for row in rows if "much" in row][1:] == [" " * 17] * 2
    assert "wrong [red] thing" in text(out)
