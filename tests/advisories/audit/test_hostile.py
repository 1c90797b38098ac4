"""No finder raises anything but Unreadable, whatever bytes it reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from advisories.audit.find import dockerfile, env, kinds, notebook, python, sbom, shell
from advisories.audit.find import settings as settings_files
from advisories.audit.model import Reading, Unreadable
from advisories.audit.names import Names

NAMES = Names(known=frozenset({"acme/a"}))
FINDERS: dict[str, Callable[[bytes, str], Reading]] = {
    "python": lambda data, _: python.find(data, NAMES),
    "shell": lambda _, text: shell.find(text, NAMES),
    "make": lambda _, text: shell.find(text, NAMES, make=True),
    "yaml": lambda _, text: settings_files.find_yaml(text, NAMES),
    "json": lambda _, text: settings_files.find_json(text, NAMES),
    "toml": lambda _, text: settings_files.find_toml(text, NAMES),
    "env": lambda _, text: env.find(text, NAMES),
    "unit": lambda _, text: env.find_unit(text, NAMES),
    "dockerfile": lambda _, text: dockerfile.find(text, NAMES),
    "modelfile": lambda _, text: dockerfile.find_modelfile(text, NAMES),
    "notebook": lambda _, text: notebook.find(text, NAMES),
    "sbom": lambda _, text: sbom.find(text),
}
PIECES = st.sampled_from(
    """
    model: acme/a|revision=|"model"|{|}|[|]|:|,|\n|\\\n| |'|"|#|$M|${M:-acme/a}|$(|)|M=acme/a|hf download|
    vllm serve|    --model|--revision|-hf|&&|;|<<EOF|EOF|FROM x|RUN |CMD ["|ENV A |- |? |&a |*a|!x |---
    |from_pretrained(|acme/a|
    for m in |def f(m):|class A:|self.m|.items()|f'{m}'|%|@|hf://acme/a|hf://|
    https://huggingface.co/acme/a/resolve/|
    pkg:huggingface/acme/a@|purl|"cells":|"source":|"cell_type":"code"|!|%%bash|=|[a]|\t|\r\n|
    \x00|\ud800|é|_|0x|1e999
    """.strip("\n").split("|")
)


@pytest.mark.parametrize("name", sorted(FINDERS))
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(PIECES, max_size=60).map("".join)
    | st.text(max_size=200)
    | st.binary(max_size=200).map(lambda b: b.decode("latin-1"))
)
@example("${" * 3000)
@example("[" * 50_000)
@example('{"a":' * 3000)
@example("a=\n" * 3)
@example("- " * 3000)
@example("'" * 3001)
@example("\\")
@example("$(" * 500)
@example("hf://a/b@refs/pr/\nhttps://[/x")
@example("a: &a\n  b: *a\nmodel: *a\n")
def test_it_never_raises(name: str, text: str) -> None:
    data = text.encode("utf-8", "replace")
    try:
        reading = FINDERS[name](data, data.decode("utf-8"))
    except Unreadable:
        return
    lines = data.decode("utf-8").replace("\r", "\n").count("\n") + 1
    for item in reading.references:
        assert 1 <= item.line <= lines
        assert item.repo.count("/") == 1


@settings(max_examples=200)
@given(st.text(max_size=300) | st.lists(PIECES, max_size=8).map("".join))
def test_names_never_raise(text: str) -> None:
    for spec in (NAMES.loaded(text), NAMES.loaded(text, sentence=True, tag=True), NAMES.located(text, page=True)):
        assert spec is None or spec.repo.count("/") == 1


@given(st.text(min_size=1, max_size=60))
def test_any_name_has_a_kind_or_none(name: str) -> None:
    kind = kinds.kind_of(name)
    assert kind is None or kind.notation
