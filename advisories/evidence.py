"""What an advisory carries beside its changes: what the probes say of the step. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from advisories.view import capped
from storage.model import Finding, Json, ProbeOutcome, ProbeResult

_MOST = 24  # probes listed
_ORDER = (ProbeOutcome.DIFFERENT, ProbeOutcome.GAP, ProbeOutcome.EQUAL)


def probe_context(
    findings: Iterable[Finding], probes: Mapping[str, Sequence[ProbeResult]]
) -> dict[str, dict[str, Json]]:
    """By class, the results of the probes of its changes: the ``context_by_class`` of `ledger.advance`."""
    by_class: dict[str, dict[str, None]] = {}
    for finding in findings:
        if probes.get(finding.change.facet):
            by_class.setdefault(finding.cls, {})[finding.change.facet] = None
    return {
        cls: {"probes": probes_json(result for facet in facets for result in probes[facet])}
        for cls, facets in by_class.items()
    }


def probes_json(probes: Iterable[ProbeResult]) -> list[dict[str, Json]]:
    """Probe results: those that differ first, then those that could not run; equal ones carry no texts."""
    ranked = sorted(probes, key=lambda probe: (_ORDER.index(probe.outcome), probe.probe))
    return [_probe(probe) for probe in ranked[:_MOST]]


def _probe(probe: ProbeResult) -> dict[str, Json]:
    shown: dict[str, Json] = {"probe": probe.probe, "outcome": probe.outcome.value}
    if probe.outcome is not ProbeOutcome.EQUAL:
        texts = {
            "before": probe.before,
            "after": probe.after,
            "before_error": probe.before_error,
            "after_error": probe.after_error,
        }
        shown.update((name, capped(text)) for name, text in texts.items() if text is not None)
    return shown
