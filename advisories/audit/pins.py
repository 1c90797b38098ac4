"""What to write so that a reference that floats holds a commit, in the reference's own notation."""

from __future__ import annotations

from dataclasses import dataclass

from advisories.audit.find.descriptions import DESCRIBING
from advisories.audit.find.python_loaders import LOADERS
from advisories.audit.model import Audit, Form, Holding, Notation, Notice, Pinning, Reference

_CALLS = frozenset({Notation.PYTHON, Notation.NOTEBOOK})
_WITHOUT_REVISION = (
    "-hf",
    "--hf-repo",
    "ollama",
    "ramalama",
    "model run",
    "model pull",
    "FROM",
    "ADAPTER",
    "LLAMA_ARG_",
)
_IN_LINKS = {
    "hf://": "hf://{repo}@{sha}",
    "hf-hub:": "hf-hub:{repo}@{sha}",
    "purl": "pkg:huggingface/{repo}@{sha}",
}
_VARIABLES = frozenset({Form.VARIABLE, Form.ASSIGNMENT, Form.ENTRY, Form.RECORD})
_COMMANDS = frozenset({"hf download", "vllm serve", "vllm chat", "sglang serve", "transformers serve"})
_LISTS = {
    Notation.YAML: "- {{repo: {repo}, revision: {sha}}}",
    Notation.JSON: '{{"repo": "{repo}", "revision": "{sha}"}}',
    Notation.TOML: '{{repo = "{repo}", revision = "{sha}"}}',
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What to write so that a reference holds a commit.

    Attributes:
        reference: The reference.
        sha: The commit to hold; None where its revision is not known here, so that nothing was judged.
        write: The text for its notation; None where there is nothing to write (``how`` then says what to do).
        how: What to do with the text, or instead of it.
        worries: The advisories open at that commit, the gravest first; empty where nothing was judged.

    """

    reference: Reference
    sha: str | None
    write: str | None
    how: str
    worries: tuple[Notice, ...] = ()


def pins(audit: Audit) -> list[Pin]:
    """A pin for every reference that is not pinned and whose repo is known: at the commit it holds now."""
    made = (_pin(holding) for holding in audit.holdings if not holding.reference.pinned)
    return [pin for pin in made if pin is not None]


def _pin(holding: Holding) -> Pin | None:
    reference = holding.reference
    if holding.unjudged is not None:
        said = f"revision {reference.revision[:60]!r}" if reference.revision else "its revision"
        how = f"{said} was not judged: {holding.unjudged}. Find its full sha and write that"
        return Pin(reference=reference, sha=None, write=None, how=how)
    if reference.pinning is Pinning.UNKNOWN:
        if holding.head is None:
            return None
        return Pin(
            reference=reference, sha=holding.head, write=None, how=_unsure(reference), worries=holding.affected
        )
    if holding.sha is None:
        return None
    write = written(reference, holding.sha)
    how = _how(reference)
    return Pin(reference=reference, sha=holding.sha, write=write, how=how, worries=holding.affected)


def _unsure(reference: Reference) -> str:
    if reference.pin_key is None:
        spread = reference.via in LOADERS
        what = (
            "what is spread into the call may hold a revision" if spread else "its revision comes from elsewhere"
        )
    else:
        what = f"its revision comes from elsewhere ({reference.pin_key})"
    return f"{what}: no edit here is safe. See that what is passed is a full sha"


def written(reference: Reference, sha: str) -> str | None:
    """The text that pins a reference to a commit in its notation; None where that has no place for one."""
    via, form, key = reference.via, reference.form, reference.pin_key
    if via in _IN_LINKS:
        return _IN_LINKS[via].format(repo=reference.repo, sha=sha)
    if via == "url":
        return f"resolve/{sha}"
    if (
        form in {Form.ITEM, Form.PART}
        or via in DESCRIBING
        or via in {"auto_map", "git clone"}
        or via.startswith(_WITHOUT_REVISION)
    ):
        return None
    if via in {"pretrained", "peft"}:
        return f"revision={sha}"
    if form in _VARIABLES or (via.isupper() and via not in LOADERS):
        return _variable(reference, key or f"{_stem(via).upper()}_REVISION", sha)
    if via in LOADERS:  # also Python inside a shell script
        return f'{key or "revision"}="{sha}"'
    if via.startswith("--") or via in _COMMANDS:
        flag = key or _flag(via)
        return f'"{flag}", "{sha}"' if form is Form.WORDS else f"{flag} {sha}"
    if reference.notation in _CALLS:
        return f'{key or "revision"}="{sha}"'
    name = key or _beside(via)
    if reference.notation is Notation.JSON:
        return f'"{name}": "{sha}"'
    return f'{name} = "{sha}"' if reference.notation is Notation.TOML else f"{name}: {sha}"


def _variable(reference: Reference, name: str, sha: str) -> str:
    if reference.form is Form.RECORD:
        shape = (
            '{{"name": "{}", "value": "{}"}}'
            if reference.notation is Notation.JSON
            else "- {{name: {}, value: {}}}"
        )
        return shape.format(name, sha)
    if reference.form is Form.ENTRY:
        return f'"{name}={sha}"' if reference.notation in {Notation.JSON, Notation.TOML} else f"- {name}={sha}"
    if reference.form is Form.VARIABLE:
        shape = {Notation.JSON: '"{}": "{}"', Notation.TOML: '{} = "{}"'}.get(reference.notation, "{}: {}")
        return shape.format(name, sha)
    return f"ENV {name}={sha}" if reference.notation is Notation.DOCKERFILE else f"{name}={sha}"


def _stem(variable: str) -> str:
    for ending in ("_NAME_OR_PATH", "_REPO_ID", "_ID", "_NAME", "_PATH", "_REPO"):
        variable = variable.removesuffix(ending)
    return variable


def _flag(via: str) -> str:
    return "--tokenizer-revision" if via == "--tokenizer" else "--revision"


def _beside(key: str) -> str:
    return "tokenizer_revision" if key == "tokenizer" else "revision"


def _how(reference: Reference) -> str:
    via = reference.via
    if via.startswith(_WITHOUT_REVISION):
        return "this notation has no revision: download the commit and name the file"
    if via in DESCRIBING:
        return "its own revision stands in its description, where that takes one; else download the commit"
    if via == "git clone":
        return "check the commit out after cloning"
    if via == "auto_map":
        return "pass code_revision where the model is loaded"
    if reference.form is Form.PART:
        return (
            "the revision of this call is the model's: load this part by itself, with its own revision, and pass "
            "what was loaded"
        )
    if via in LOADERS and reference.pin_key == "tokenizer_revision":
        return "write it as tokenizer_revision: revision is the model's own"
    if reference.form is Form.ITEM:
        entry = _LISTS.get(reference.notation, _LISTS[Notation.YAML])
        shown = entry.format(repo=reference.repo, sha="<sha>")
        return f"a list of names has no place for a pin: make it entries, {shown}, if what reads it can take them"
    if reference.revision is not None:
        return "write it in place of the revision that stands there"
    if reference.form in _VARIABLES or (via.isupper() and via not in LOADERS):
        return (
            "write it beside; it pins only if what loads the model reads it (text-generation-inference: REVISION)"
        )
    if reference.pin_key is not None:
        return "write it in place of what stands there"
    return "write it beside the repo"
