"""What one revision is, held against another: changes, probes, estimate, findings. No I/O but the probes' child.

Used for the revisions of a history, one after the other, and for any two that a person asks about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from advisories.rules.interface import Context
from advisories.rules.judge import judge
from storage.model import Change, DocumentKind, Estimate, Finding, Json, ProbeResult, Snapshot
from tracker.diff.registry import compare
from tracker.diff.template import free_variables
from tracker.estimate.interface import Estimator
from tracker.estimating import estimate_delta, estimate_snapshot, inputs_digest
from tracker.probe import tokenize
from tracker.probe.judge import PROVISIONAL, refine
from tracker.probe.process import Allowance
from tracker.probe.render import TOTAL_SECONDS, Prober
from tracker.snapshot.template import templates
from tracker.snapshot.tokenizer import special_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """All that was found out about ``after``."""

    before: Snapshot | None
    after: Snapshot
    findings: tuple[Finding, ...]
    estimate: Estimate | None
    estimate_before: Estimate | None
    probes: Mapping[str, tuple[ProbeResult, ...]]

    def context(self) -> dict[str, Json]:
        """What advisories of this revision carry beside their findings: what the estimate moved."""
        moved = estimate_delta(self.estimate_before, self.estimate)
        return {"estimate": moved} if moved else {}


MANY = 20
"""Revisions among which there will be something to try out."""


@dataclass(slots=True)
class Examiner:
    """Compares, tries out, estimates and judges."""

    prober: Prober
    estimator: Estimator

    def expect(self, revisions: int) -> None:
        """Prepare for so many revisions."""
        if revisions >= MANY:
            self.prober.start()

    def examine(
        self,
        before: Snapshot | None,
        after: Snapshot,
        *,
        estimate_before: Estimate | None = None,
        extra: tuple[Change, ...] = (),
        known_authors: frozenset[str] = frozenset(),
        position: int = 0,
        rewritten: bool = False,
        horizon: bool = False,
        had_model: bool = False,
    ) -> Examination:
        """Compare ``after`` with ``before`` (None: the first revision read) and judge what is found.

        ``horizon`` says that ``after`` is where a cut history starts: older revisions exist, unread;
        ``had_model`` that some earlier revision had model files, even if ``before`` has none.
        """
        changes, probes = self._probe(before, after, compare(before, after, horizon=horizon, had_model=had_model))
        if estimate_before is None and before is not None:
            estimate_before = self.estimate(before)
        if before is not None and inputs_digest(before) == inputs_digest(after):
            estimate = estimate_before
        else:
            estimate = self.estimate(after)
        context = Context(
            before=before,
            after=after,
            changes=(*changes, *extra),
            estimates=(estimate_before, estimate),
            probes=probes,
            known_authors=known_authors,
            position=position,
            rewritten=rewritten,
        )
        return Examination(
            before=before,
            after=after,
            findings=judge(context),
            estimate=estimate,
            estimate_before=estimate_before,
            probes=probes,
        )

    def estimate(self, snapshot: Snapshot) -> Estimate | None:
        """The estimate of a snapshot; None where there is no config.json."""
        return estimate_snapshot(self.estimator, snapshot)

    def _probe(
        self, before: Snapshot | None, after: Snapshot, changes: tuple[Change, ...]
    ) -> tuple[tuple[Change, ...], dict[str, tuple[ProbeResult, ...]]]:
        """Try out what can be tried, and let the outcome name the class.

        All probes of a revision share one allowance of time: what is left over when it is spent is a gap.
        """
        if before is None:
            return changes, {}
        allowance = Allowance(TOTAL_SECONDS)
        refined: list[Change] = []
        probes: dict[str, tuple[ProbeResult, ...]] = {}
        for change in changes:
            results = self._try_template(change, before, after, allowance)
            if results:
                probes[change.facet] = results
            refined.extend(refine(change, results))
        for path, old, new in tokenize.pairs(before, after):
            if any(_is_of_tokenizer(change, path) for change in refined):
                texts = tokenize.texts_for(before, after, path)
                seen = self.prober.tokenizers(old, new, texts.values(), allowance=allowance)
                refined = _with_tokenizer(refined, path, tuple(texts), seen, probes)
        return tuple(refined), probes

    def _try_template(
        self, change: Change, before: Snapshot, after: Snapshot, allowance: Allowance
    ) -> tuple[ProbeResult, ...]:
        """Render a changed template's prompts with both texts; nothing for any other change."""
        if change.cls != PROVISIONAL:
            return ()
        name = change.facts["template"]
        old, new = templates(before).get(name), templates(after).get(name)
        if old is None or new is None or not (old.examined and new.examined):
            return ()
        return self.prober.templates(
            old.text,
            new.text,
            special_tokens_before=_special_tokens(before),
            special_tokens_after=_special_tokens(after),
            extra_variables=free_variables(old.text, new.text),
            allowance=allowance,
        )


def _is_of_tokenizer(change: Change, path: str) -> bool:
    return change.path == path and change.cls.startswith("tokenizer.")


def _with_tokenizer(
    changes: list[Change],
    path: str,
    names: tuple[str, ...],
    seen: tokenize.Encodings,
    probes: dict[str, tuple[ProbeResult, ...]],
) -> list[Change]:
    """The changes, those of this tokenizer with what its probes showed; ``probes`` learns the results.

    The results stand under one facet of each class, so that no advisory lists them twice.
    """
    found, results = tokenize.facts(names, seen), tokenize.results(names, seen)
    told: set[str] = set()
    for change in changes:
        if _is_of_tokenizer(change, path) and change.cls not in told:
            told.add(change.cls)
            probes.setdefault(change.facet, results)
    return [tokenize.told(change, found) if _is_of_tokenizer(change, path) else change for change in changes]


# What a template is given where no file of the repo names any special token: a loader would take them from a
# tokenizer that is not here, and a template must not seem to fail for the lack of them.
_STAND_INS: Mapping[str, str] = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
}


def _special_tokens(snapshot: Snapshot) -> Mapping[str, str]:
    """The tokens a template may name, as loaders hand them over: ``bos_token`` and so on."""
    if not snapshot.by_kind(DocumentKind.TOKENIZER_CONFIG, DocumentKind.SPECIAL_TOKENS):
        return _STAND_INS
    return {f"{role}_token": text for role, text in special_tokens(snapshot).items()}
