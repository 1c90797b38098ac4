"""A model in a few lines to share: Markdown, or an SVG that needs no stylesheet, font or script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import escape

from advisories.text import code_span, one_line
from advisories.text import markdown as escaped
from tracker.web.pages import figures

if TYPE_CHECKING:
    from tracker.web.pages.model import Seen

WIDTH, HEIGHT = 640, 276
_BACK, _INK, _QUIET, _ACCENT = "#fbfbfd", "#16181d", "#565d6b", "#0b5fad"


def rows(seen: Seen) -> list[tuple[str, str]]:
    """What a card says, as label and figure."""
    estimate = seen.estimate
    memory = figures.part(estimate, "memory")
    counts = figures.part(estimate, "parameters")
    full, tuned = figures.smallest_card(estimate), figures.smallest_card(estimate, "lora_batch")
    made = [
        ("Parameters", figures.count(counts.get("total"))),
        ("Full fine-tune", _with_card(figures.gigabytes(memory.get("full_finetune_bytes")), full)),
        ("LoRA", _with_card(figures.gigabytes(memory.get("lora_bytes")), tuned)),
        ("KV cache, one sequence", figures.gigabytes(memory.get("kv_cache_bytes"))),
        ("Downloads in a month", figures.count(seen.downloads)),
        ("Open advisories", str(seen.known.open_advisories) if seen.is_head else "see the page"),
    ]
    return [(label, figure) for label, figure in made if figure != "–"]


def _with_card(figure: str, card: str | None) -> str:
    return f"{figure}, fits {card}" if card and figure != "–" else figure


def _title(seen: Seen) -> str:
    kind = (seen.estimate.architecture or seen.estimate.model_type) if seen.estimate else None
    return one_line(kind, 60) if kind else "no config.json"


def markdown(seen: Seen, address: str) -> str:
    """The card as Markdown: a heading, a table, and the revision it is about."""
    sha = seen.row.revision.sha
    lines = [
        f"### [{escaped(seen.repo.id)}]({address})",
        "",
        f"{escaped(_title(seen))}, revision {code_span(sha[:12])} of {seen.row.revision.committed_at:%Y-%m-%d}",
        "",
        "| | |",
        "|---|---|",
        *(f"| {escaped(label)} | {escaped(figure)} |" for label, figure in rows(seen)),
        "",
        f"Figures by hubwatch from config.json alone ({seen.estimate.estimator if seen.estimate else 'none'}).",
    ]
    return "\n".join(lines) + "\n"


def svg(seen: Seen) -> str:
    """The card as SVG: text in system fonts, colours as attributes."""
    sha = seen.row.revision.sha
    about = f"{_title(seen)}, revision {sha[:12]} of {seen.row.revision.committed_at:%Y-%m-%d}"
    told = rows(seen)
    spoken = "; ".join(f"{label}: {figure}" for label, figure in told)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t d" font-family="system-ui, sans-serif">'
    )
    parts = [
        opening,
        f'<title id="t">{escape(seen.repo.id)}</title><desc id="d">{escape(f"{about}. {spoken}")}</desc>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="{_BACK}" stroke="#c8ccd4"/>',
        _text(24, 44, seen.repo.id, size=22, fill=_INK, weight=600, most=46),
        _text(24, 70, about, size=14, fill=_QUIET, most=84),
    ]
    for index, (label, figure) in enumerate(told):
        y = 106 + 26 * index
        parts += [
            _text(24, y, label, size=15, fill=_QUIET),
            _text(220, y, figure, size=15, fill=_INK, weight=600, most=50),
        ]
    parts += [_text(WIDTH - 24, HEIGHT - 14, "hubwatch", size=12, fill=_ACCENT, anchor="end"), "</svg>\n"]
    return "".join(parts)


def _text(
    x: int, y: int, text: str, *, size: int, fill: str, weight: int = 400, anchor: str = "start", most: int = 60
) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{fill}" text-anchor="{anchor}">'
        f"{escape(one_line(text, most))}</text>"
    )
