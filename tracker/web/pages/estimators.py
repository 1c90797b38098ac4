"""``/estimators``: how figures are made, and how well they did against measured runs."""

from __future__ import annotations

from fastapi import APIRouter, Response

from tracker.estimate import classic, exact
from tracker.estimate.cards import catalogue
from tracker.web import charts
from tracker.web.access import Reader
from tracker.web.pages.measured import accuracy
from tracker.web.pages.render import PageRoute, html

# What an estimator says of every model alike (headroom, how sure it is) stands in each estimate.
_EXAMPLE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 256,
    "max_position_embeddings": 2048,
}

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/estimators")
def estimators(_: Reader) -> Response:
    """How figures come about, on which cards, and what is known of how right they are."""
    known = accuracy()
    dots = [
        charts.Dot(
            x=run.expected,
            y=run.measured,
            kind="missed" if run.missed else "alarm" if run.alarmed else "right",
            told=f"{run.model} {run.method} {run.batch} x {run.seq}: {run.verdict}",
        )
        for run in known.runs
        if run.measured
    ]
    return html(
        "estimators.html",
        cards=catalogue(),
        exact=exact.ESTIMATOR.estimate(_EXAMPLE),
        classic=classic.ESTIMATOR.estimate(_EXAMPLE),
        known=known,
        drawing=charts.scatter(dots, identity="runs"),
    )
