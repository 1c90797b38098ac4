from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from advisories.rules.interface import Context
from advisories.rules.judge import judge
from advisories.rules.rating import KNOWN_BOTS
from storage.model import (
    Change,
    Document,
    DocumentKind,
    Estimate,
    EstimateStatus,
    Finding,
    Gap,
    Json,
    Manifest,
    ProbeOutcome,
    ProbeResult,
    Revision,
    Severity,
    Snapshot,
    Tensor,
    TensorFile,
)

LOW, MEDIUM, HIGH, CRITICAL = Severity.LOW, Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL
FACET = "template:tokenizer_config.json#/chat_template"


def snapshot(*, author: str = "ann", documents: Sequence[Document] = (), **options: Json) -> Snapshot:
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    return Snapshot(
        revision=Revision(sha="b" * 40, committed_at=moment, author=author, title="a commit"),
        manifest=Manifest(files={}),
        documents={document.path: document for document in documents},
        **options,
    )


def change(cls: str, facet: str = FACET, **facts: Json) -> Change:
    return Change(
        cls=cls, path="a", summary="a value changed", facet=facet, before_digest="1", after_digest="2", facts=facts
    )


def estimate(**memory: int) -> Estimate:
    return Estimate(
        estimator="exact",
        version="1",
        status=EstimateStatus.EXACT,
        source="closed_form",
        model_type="llama",
        architecture="LlamaForCausalLM",
        body={"parameters": {"total": 7}, "memory": memory},
    )


def rated(*changes: Change, author: str = "ann", after: Snapshot | None = None, **options: Json) -> Finding:
    """The first change, as rated."""
    options.setdefault("before", snapshot())
    context = Context(after=after or snapshot(author=author), changes=changes, **options)
    return next(finding for finding in judge(context) if finding.change.cls == changes[0].cls)


class TestRaising:
    def test_a_new_author_raises_from_the_third_commit_on(self) -> None:
        for position, severity in [(0, HIGH), (1, HIGH), (2, CRITICAL), (9, CRITICAL)]:
            finding = rated(
                change("weights.replaced"), author="eve", position=position, known_authors=frozenset({"ann"})
            )
            assert finding.severity is severity
            assert ("the author is new to the repo" in finding.reason) == (severity is CRITICAL)

    @pytest.mark.parametrize("author", ["ann", *sorted(KNOWN_BOTS)])
    def test_earlier_authors_and_known_bots_do_not(self, author: str) -> None:
        finding = rated(change("tokens.eos"), author=author, position=5, known_authors=frozenset({"ann"}))
        assert (finding.severity, finding.reason) == (HIGH, "class severity")

    @pytest.mark.parametrize(
        ("companion", "why"),
        [
            ("code.changed", "code changed in the same commit"),
            ("code.auto_map_added", "code changed in the same commit"),
            ("weights.pickle_added", "a pickle was added in the same commit"),
        ],
    )
    def test_code_or_a_pickle_in_the_same_commit_raises_the_rest(self, companion: str, why: str) -> None:
        finding = rated(change("config.rename"), change(companion))
        assert finding.severity is CRITICAL
        assert finding.reason == f"class severity (high), raised one step: {why}"

    def test_but_not_itself(self) -> None:
        assert rated(change("code.changed"), change("code.changed", "code:b.py")).severity is HIGH

    def test_removed_code_raises_nothing(self) -> None:
        assert rated(change("tokens.eos"), change("code.removed")).severity is HIGH

    def test_rewritten_history_raises_what_it_brings_but_not_itself(self) -> None:
        assert rated(change("tokens.eos"), rewritten=True).severity is CRITICAL
        assert rated(change("history.rewritten"), rewritten=True).severity is HIGH

    def test_by_one_step_in_all_with_every_reason_named(self) -> None:
        finding = rated(
            change("config.other"),
            change("code.changed"),
            change("weights.pickle_added"),
            author="eve",
            position=4,
            rewritten=True,
        )
        assert finding.severity is MEDIUM
        for why in ("author is new", "code changed", "pickle was added", "history was rewritten"):
            assert why in finding.reason

    def test_never_from_info(self) -> None:
        finding = rated(change("card.only"), change("code.changed"), author="eve", position=4, rewritten=True)
        assert (finding.severity, finding.reason) == (Severity.INFO, "class severity")

    def test_critical_stays_and_says_so(self) -> None:
        finding = rated(change("tokenizer.vocab_remap"), change("code.changed"))
        assert finding.severity is CRITICAL
        assert "already the highest" in finding.reason

    def test_the_first_revision_read_is_not_raised(self) -> None:
        assert rated(change("template.hidden_chars"), change("code.changed"), before=None).severity is HIGH


EQUAL = ProbeResult(probe="one turn", outcome=ProbeOutcome.EQUAL, before="a", after="a")
REFUSED = ProbeResult(probe="one turn", outcome=ProbeOutcome.EQUAL, before_error="x", after_error="x")
DIFFERENT = ProbeResult(probe="tools", outcome=ProbeOutcome.DIFFERENT, before="a", after="b")
GAP = ProbeResult(probe="long", outcome=ProbeOutcome.GAP)
HEADER = TensorFile(
    path="model.safetensors",
    content_key="sha256:1",
    format="safetensors",
    tensors=(Tensor(name="w", dtype="BF16", shape=(2, 2)),),
)


class TestLowering:
    def lowered(self, cls: str = "template.semantic", **options: Json) -> Finding:
        options = {"probes": {FACET: (EQUAL, EQUAL)}, **options}
        return rated(change(cls), **options)

    @pytest.mark.parametrize(
        ("cls", "severity"),
        [
            ("template.semantic", MEDIUM),
            ("template.moved", LOW),
            ("config.rename", MEDIUM),
            ("config.context", LOW),
        ],
    )
    def test_by_one_step_when_everything_tried_is_equal(self, cls: str, severity: Severity) -> None:
        finding = self.lowered(cls)
        assert finding.severity is severity
        assert finding.reason.endswith("lowered one step: probes, headers and estimates are equal")

    @pytest.mark.parametrize("cls", ["config.other", "config.dtype", "config.known_bad"])
    def test_never_below_low(self, cls: str) -> None:
        assert self.lowered(cls).severity is LOW

    @pytest.mark.parametrize(
        "cls",
        [
            "code.changed",
            "weights.pickle_added",
            "template.unsafe",
            "template.hidden_chars",
            "weights.replaced",
            "licence.changed",
            "repo.gated",
            "history.rewritten",
            "template.tools",
            "tokenizer.normalizer",
        ],
    )
    def test_never_for_other_classes(self, cls: str) -> None:
        assert self.lowered(cls).reason == "class severity"

    @pytest.mark.parametrize("probes", [(), (EQUAL, GAP), (EQUAL, DIFFERENT), (REFUSED,)])
    def test_not_without_probes_nor_with_a_gap_nor_with_a_difference(
        self, probes: tuple[ProbeResult, ...]
    ) -> None:
        assert self.lowered(probes={FACET: probes}).severity is HIGH

    def test_the_probes_of_another_value_are_no_evidence(self) -> None:
        assert self.lowered(probes={"template:other": (EQUAL,)}).severity is HIGH

    def test_not_when_the_figures_differ_or_only_one_side_has_any(self) -> None:
        assert self.lowered(estimates=(estimate(kv=1), estimate(kv=1))).severity is MEDIUM
        assert self.lowered(estimates=(estimate(kv=1), estimate(kv=2))).severity is HIGH
        assert self.lowered(estimates=(estimate(kv=1), None)).severity is HIGH
        other = replace(estimate(kv=1), version="2")
        assert self.lowered(estimates=(estimate(kv=1), other)).severity is HIGH

    def test_not_when_headers_differ(self) -> None:
        before = snapshot(tensor_files={HEADER.path: HEADER})
        for header, severity in [(HEADER, MEDIUM), (replace(HEADER, content_key="sha256:2"), HIGH)]:
            after = snapshot(tensor_files={HEADER.path: header})
            assert self.lowered(before=before, after=after).severity is severity

    def test_not_when_anything_could_not_be_read(self) -> None:
        gap = Gap(path="model.safetensors", reason="header", detail="too long")
        assert self.lowered(after=snapshot(gaps=(gap,))).severity is HIGH
        assert self.lowered(before=snapshot(gaps=(gap,))).severity is HIGH

    def test_not_when_something_would_raise_it(self) -> None:
        assert (
            rated(change("template.semantic"), change("code.changed"), probes={FACET: (EQUAL,)}).severity
            is CRITICAL
        )


class TestConditions:
    @pytest.mark.parametrize(
        ("made", "severity", "reason"),
        [
            (change("code.changed", dangerous=["subprocess.run"]), CRITICAL, "connects or writes: subprocess.run"),
            (change("code.changed", dangerous=[]), HIGH, "class severity"),
            (change("licence.changed", stricter=True), HIGH, "allows less"),
            (change("licence.changed", stricter=False), MEDIUM, "class severity"),
            (change("weights.keys", load_succeeds=True), CRITICAL, "random values"),
            (change("config.other", bookkeeping=True), Severity.INFO, "read by nothing"),
            (change("config.rope", default_equal=True), Severity.INFO, "its class takes anyway"),
        ],
    )
    def test_where_a_class_names_one(self, made: Change, severity: Severity, reason: str) -> None:
        finding = rated(made)
        assert finding.severity is severity
        assert reason in finding.reason

    def test_many_dangers_are_counted(self) -> None:
        assert rated(change("code.changed", dangerous=[f"os.f{n}" for n in range(9)])).reason.endswith(
            "and 4 more"
        )


class TestBirth:
    def test_the_context_marks_standing_dangers(self) -> None:
        born = Context(
            before=None,
            after=snapshot(),
            changes=(change("repo.first_files"), change("weights.pickle_added")),
            since_first=True,
        )
        first, pickle = judge(born)
        assert not first.change.facts
        assert pickle.change.facts == {"since_first": True}
        assert pickle.severity is MEDIUM
        assert "since the first model files" in pickle.reason

    def test_it_never_raises_what_is_low(self) -> None:
        assert rated(change("config.known_bad", since_first=True)).severity is LOW


def card(**metadata: Json) -> Document:
    return Document(
        path="README.md",
        kind=DocumentKind.CARD,
        content_key="git:1",
        data={"metadata": metadata, "body": ""},
    )


class TestEmbeddingSpace:
    MODULES = Document(path="modules.json", kind=DocumentKind.EMBEDDING, content_key="git:2", data=[])

    def derived(self, *changes: Change, documents: Sequence[Document]) -> list[Finding]:
        after = snapshot(documents=documents)
        found = judge(Context(before=snapshot(), after=after, changes=changes))
        return [finding for finding in found if finding.cls == "embedding.space_changed"]

    @pytest.mark.parametrize(
        "document",
        [
            card(pipeline_tag="sentence-similarity"),
            card(pipeline_tag="feature-extraction"),
            card(pipeline_tag="text-ranking"),
            card(tags=["pytorch", "sentence-transformers"]),
            MODULES,
        ],
    )
    def test_a_tokenizer_or_weight_change_moves_the_space(self, document: Document) -> None:
        trigger = change("tokenizer.normalizer", "tokenizer:normalizer")
        (finding,) = self.derived(trigger, documents=[document])
        assert finding.severity is HIGH
        assert (finding.change.facet, finding.change.path) == (trigger.facet, trigger.path)
        assert (finding.change.before_digest, finding.change.after_digest) == ("1", "2")
        assert finding.change.facts == {"because": "tokenizer.normalizer"}

    def test_once_a_value(self) -> None:
        changes = change("weights.replaced", "w"), change("weights.dtype", "w"), change("weights.keys", "v")
        assert len(self.derived(*changes, documents=[self.MODULES])) == 2

    @pytest.mark.parametrize("cls", ["card.only", "weights.resharded", "weights.format_added", "config.rope"])
    def test_other_changes_do_not(self, cls: str) -> None:
        assert not self.derived(change(cls), documents=[self.MODULES])

    @pytest.mark.parametrize("metadata", [{}, {"tags": "x"}, {"tags": [1, None]}, {"pipeline_tag": ["a"]}])
    def test_nor_in_other_repos(self, metadata: dict[str, Json]) -> None:
        assert not self.derived(change("weights.replaced"), documents=[card(**metadata)])

    def test_a_card_that_is_no_object_is_no_embedding_repo(self) -> None:
        odd = replace(card(), data="text")
        assert not self.derived(change("weights.replaced"), documents=[odd])


def test_findings_come_in_the_order_of_the_changes() -> None:
    changes = [change(cls, cls) for cls in ("weights.replaced", "card.only", "config.rope", "card.only")]
    found = judge(Context(before=snapshot(), after=snapshot(), changes=changes))
    assert [finding.change for finding in found] == changes
