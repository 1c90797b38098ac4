"""Model configuration."""

from __future__ import annotations

from advisories.rules.conditions import equals, first_of, when
from advisories.rules.interface import Rule
from storage.model import Severity

_DEFAULT = when("default_equal", Severity.INFO, "the key was set to what its class takes anyway")
_BOOKKEEPING = when("bookkeeping", Severity.INFO, "a note of the tool that wrote the file, read by nothing")
_TRAINING = when("training", Severity.INFO, "read in training alone: the published weights answer as before")

RULES = (
    Rule(
        cls="config.arch_shape",
        title="architecture changed shape",
        severity=Severity.CRITICAL,
        effect="The model of this config has other shapes than cached weights: loading fails or mixes two models.",
        advice="Fetch code, config and weights again at one commit; never mix files of {before} and {after}.",
        cwe=("CWE-1288",),
        lowerable=True,
        base=first_of(
            _DEFAULT,
            when("shapeless", Severity.HIGH, "the shapes stay, what is computed between them does not"),
            equals("absent", "before", Severity.HIGH, "stated for the first time: readers had to assume a value"),
        ),
    ),
    Rule(
        cls="config.rope",
        title="rotary position settings changed",
        severity=Severity.HIGH,
        effect="Positions are encoded otherwise: quality is lost in silence at long context, converters fail.",
        advice="Pin {before} until your converter and engine take the new values, then convert again.",
        cwe=("CWE-440",),
        lowerable=True,
        base=_DEFAULT,
    ),
    Rule(
        cls="config.context",
        title="context length changed",
        severity=Severity.MEDIUM,
        effect="The KV cache at full context takes other memory; engines cap at another length.",
        advice="Plan memory again before moving to {after}, or set the maximum length yourself.",
        cwe=("CWE-440", "CWE-770"),
        lowerable=True,
        base=_DEFAULT,
    ),
    Rule(
        cls="config.attention_window",
        title="attention window changed",
        severity=Severity.HIGH,
        effect="Attention sees another span: the KV cache grows or shrinks, readers may fail on null.",
        advice="Plan memory again and check that your engine takes the new value, or pin {before}.",
        cwe=("CWE-440", "CWE-770"),
        lowerable=True,
        base=_DEFAULT,
    ),
    Rule(
        cls="config.rename",
        title="config keys or model type renamed",
        severity=Severity.HIGH,
        effect="Older readers do not know the new names and fall back to defaults in silence, or refuse to load.",
        advice="Pin {before}, or upgrade to library versions that know the new names.",
        cwe=("CWE-440",),
        lowerable=True,
        base=when("first", Severity.LOW, "named for the first time: nothing that was read before is gone"),
    ),
    Rule(
        cls="config.quant",
        title="quantization settings changed",
        severity=Severity.HIGH,
        effect="Layers are read as quantized that are not, or the other way round; a side-car file may be gone.",
        advice="Pin {before} for every file you load until the exclusion list of {after} fits the tensor names.",
        cwe=("CWE-1288", "CWE-440"),
        lowerable=True,
        base=_DEFAULT,
    ),
    Rule(
        cls="config.component_class",
        title="pipeline component class changed",
        severity=Severity.HIGH,
        effect="Released libraries may not know the class and fail to load the pipeline.",
        advice="Pin {before}, or upgrade to a library version that has the class.",
        cwe=("CWE-440",),
        lowerable=True,
    ),
    Rule(
        cls="config.known_bad",
        title="a value known to be wrong is still there",
        severity=Severity.LOW,
        effect="A mistake that is known for this model misleads runtimes that trust the file.",
        advice="Override the value in your own code, or in a copy of the file, wherever it is read.",
        cwe=("CWE-440",),
        lowerable=True,
        standing=True,
    ),
    Rule(
        cls="config.dtype",
        title="default data type changed",
        severity=Severity.LOW,
        effect="Loading with the repo's default takes other memory and rounds otherwise; the key may be renamed.",
        advice="Name the data type you load with (dtype=), so that the repo's default does not count.",
        cwe=("CWE-440",),
        lowerable=True,
        base=_DEFAULT,
    ),
    Rule(
        cls="config.other",
        title="config changed",
        severity=Severity.LOW,
        effect="A key changed that is not known to matter for loading.",
        advice="Know it; look at the value if your own code reads it.",
        lowerable=True,
        base=first_of(_DEFAULT, _BOOKKEEPING, _TRAINING),
    ),
)
