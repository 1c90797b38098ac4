from __future__ import annotations

import json
from textwrap import dedent

import pytest

from advisories.audit.find import dockerfile, env, notebook, settings, shell
from advisories.audit.find.settings_keys import is_model_key
from advisories.audit.model import Reading, Unreadable
from advisories.audit.names import Names

SHA = "0123456789abcdef0123456789abcdef01234567"
Row = tuple[int, str, str | None]


def rows(reading: Reading) -> list[Row]:
    return sorted((item.line, item.repo, item.revision) for item in reading.references)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vllm serve acme/a", [(1, "acme/a", None)]),
        ("vllm serve --port 80 --enable-x acme/a --revision v1", [(1, "acme/a", "v1")]),
        ("python -m vllm.entrypoints.openai.api_server --model=acme/a", [(1, "acme/a", None)]),
        ("python -m sglang.launch_server \\\n --model-path acme/a \\\n --revision v1", [(2, "acme/a", "v1")]),
        ("text-generation-launcher --model-id acme/a --revision " + SHA, [(1, "acme/a", SHA)]),
        ("llama-server -hf acme/a:Q8_0", [(1, "acme/a", None)]),
        ("llama-cli --hf-repo acme/a --hf-file x.gguf", [(1, "acme/a", None)]),
        ("hf download acme/a x.bin --local-dir models/x", [(1, "acme/a", None)]),
        ("hf download --revision v1 acme/a", [(1, "acme/a", "v1")]),
        ('M=acme/a\nhf download "$M"', [(2, "acme/a", None)]),
        ("M=${1:-acme/a}\nhf download $M", [(2, "acme/a", None)]),
        ("hf download ${M:-acme/a}", [(1, "acme/a", None)]),
        ("export MODEL_ID=acme/a MODEL_REVISION=v1", [(1, "acme/a", "v1")]),
        ("MODEL_ID=acme/a ./run", [(1, "acme/a", None)]),
        ("docker run -e MODEL_ID=acme/a image", [(1, "acme/a", None)]),
        ("docker run vllm/vllm-openai:latest acme/a", [(1, "acme/a", None)]),
        ("x=$(hf download acme/a)", [(1, "acme/a", None)]),
        ("cd x && hf download acme/a; true", [(1, "acme/a", None)]),
        ("if true; then hf download acme/a; fi", [(1, "acme/a", None)]),
        ("lm_eval --model hf --model_args pretrained=acme/a,revision=v1", [(1, "acme/a", "v1")]),
        ("git clone https://huggingface.co/acme/a", [(1, "acme/a", None)]),
        ("curl -LO https://huggingface.co/acme/a/resolve/v1/x", [(1, "acme/a", "v1")]),
        ("ollama run hf.co/acme/a:Q4_K_M", [(1, "acme/a", None)]),
        ("python -c 'AutoModel.from_pretrained(\"acme/a\")'", [(1, "acme/a", None)]),
        ("python <<EOF\nx = 1\nAutoModel.from_pretrained('acme/a')\nEOF", [(3, "acme/a", None)]),
        (
            "vllm serve a/b --tokenizer acme/t --tokenizer-revision v2 --revision v1",
            [(1, "a/b", "v1"), (1, "acme/t", "v2")],
        ),
        # and what is none
        ("# hf download acme/a", []),
        ("echo acme/a", []),
        ("hf download acme/a --repo-type dataset", []),
        ("vllm serve ./acme/a", []),
        ("vllm serve $UNKNOWN", []),
        ("docker run -v acme/a:/x acme/b", []),
        ("git clone https://github.com/acme/a", []),
        ("aider --model openai/gpt-4o", []),
        ("ollama run acme/a", []),
        ("cat <<EOF\nhf download acme/a\nEOF", []),
        ("hf upload acme/a .", []),
        ("npm install @acme/a acme/b", []),
        ("vllm serve x --served-model-name acme/a", []),
        ("M=acme/a", [(1, "acme/a", None)][:0]),
    ],
)
def test_shell(text: str, expected: list[Row]) -> None:
    assert rows(shell.find(text, Names())) == expected


def test_makefiles() -> None:
    text = "MODEL ?= acme/a\nrun:\n\t@vllm serve $(MODEL) --revision v1\n"
    assert rows(shell.find(text, Names(), make=True)) == [(3, "acme/a", "v1")]


def test_columns_of_a_flag_and_its_value() -> None:
    (reference,) = shell.find("vllm serve \\\n  --model acme/a\n", Names()).references
    assert (reference.line, reference.place.column, reference.place.end_column) == (2, 3, 17)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model: acme/a", [(1, "acme/a", None)]),
        ("modelId: 'acme/a'\nrevision: v1", [(1, "acme/a", "v1")]),
        ("model: acme/a\nmodel_revision: v1\nembedding_model: acme/b", [(1, "acme/a", "v1"), (3, "acme/b", None)]),
        ("model:\n  name_or_path: acme/a\n  revision: v1", [(2, "acme/a", "v1")]),
        ("models:\n- acme/a\n- id: acme/b", [(2, "acme/a", None), (3, "acme/b", None)]),
        ("args:\n- --model\n- acme/a\n- --revision=v1", [(2, "acme/a", "v1")]),
        ("command: vllm serve acme/a", [(1, "acme/a", None)]),
        ("image: vllm/vllm-openai:1\ncommand: acme/a", [(2, "acme/a", None)]),
        ("run: |\n  true\n  hf download acme/a", [(3, "acme/a", None)]),
        ("env:\n- name: MODEL_ID\n  value: acme/a", [(3, "acme/a", None)]),
        ("environment:\n- MODEL_ID=acme/a", [(2, "acme/a", None)]),
        ("model: ${MODEL:-acme/a}", [(1, "acme/a", None)]),
        ("x: &a {model: acme/a}\ny: *a", [(1, "acme/a", None)]),
        ("a: 1\n---\nmodel: acme/a", [(3, "acme/a", None)]),
        ("model: !custom acme/a", [(1, "acme/a", None)]),
        ("storageUri: hf://acme/a:v1", [(1, "acme/a", "v1")]),
        ("{{ if x }}\nmodel: acme/a\n{{ end }}", [(2, "acme/a", None)]),
        ("repo_id: acme/a\nrepo_type: dataset", []),
        ("image: acme/a\nuses: acme/b@v1\ntype: text/html\ndataset: acme/c\nrepo: https://github.com/a/b", []),
        ("model: openai/gpt-4o\nllm: anthropic/claude\nbase_model: ./x/y\ntokenizer: models/x", []),
        ("model: acme/a:latest", []),
    ],
)
def test_yaml(text: str, expected: list[Row]) -> None:
    assert rows(settings.find_yaml(text, Names())) == expected


def test_aliases_cannot_blow_up() -> None:
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40))
    assert settings.find_yaml(bomb + "model: acme/a\n", Names()).references[0].line == 41


def test_json_and_toml() -> None:
    data = {"model": "acme/a", "nested": {"tokenizerName": "acme/b"}, "auto_map": {"AutoModel": "acme/c--m.M"}}
    assert rows(settings.find_json(json.dumps(data, indent=1), Names())) == [
        (2, "acme/a", None),
        (4, "acme/b", None),
        (7, "acme/c", None),
    ]
    assert rows(settings.find_json('// x\n{"model": "acme\\/a",}', Names())) == [(2, "acme/a", None)]
    text = dedent("""\
        model = "acme/a" # acme/x
        [other]
        model = "acme/a"
        revision = "v1"
        models = [
          "acme/b",
        ]
        inline = {model_id = "acme/c"}
    """)
    assert rows(settings.find_toml(text, Names())) == [
        (1, "acme/a", None),
        (3, "acme/a", "v1"),
        (6, "acme/b", None),
        (8, "acme/c", None),
    ]


def test_env() -> None:
    text = "A=1\nMODEL_ID='acme/a' # acme/x\nMODEL_REVISION=v1\n"
    text += "export EMBED_MODEL=acme/b\n# MODEL=acme/c\nIMAGE=acme/d\n"
    assert rows(env.find(text, Names())) == [(2, "acme/a", "v1"), (4, "acme/b", None)]
    unit = "[Service]\nEnvironment=MODEL_ID=acme/a\nExecStart=/usr/bin/vllm serve acme/b \\\n  --revision v1\n"
    assert rows(env.find_unit(unit, Names())) == [(2, "acme/a", None), (3, "acme/b", "v1")]


def test_dockerfile() -> None:
    text = dedent("""\
        # syntax=docker/dockerfile:1
        FROM vllm/vllm-openai:latest AS x
        ARG REV=v1
        ENV MODEL_ID acme/a
        RUN --mount=type=cache,target=/c \\
            # a remark
            hf download acme/b --revision ${REV}
        RUN <<EOF
        hf download acme/skipped
        EOF
        RUN python3 <<EOF
        AutoModel.from_pretrained("acme/c")
        EOF
        COPY acme/x /y
        CMD ["acme/d", \\
          "--tokenizer", "acme/e"]
    """)
    assert rows(dockerfile.find(text, Names())) == [
        (4, "acme/a", None),
        (7, "acme/b", "v1"),
        (12, "acme/c", None),
        (15, "acme/d", None),
        (16, "acme/e", None),
    ]
    assert rows(dockerfile.find_modelfile("FROM hf.co/acme/a:Q4\nFROM llama3\n", Names())) == [(1, "acme/a", None)]


def test_notebooks() -> None:
    cells = [
        {"cell_type": "code", "source": "M = 'acme/a'\nAutoModel.from_pretrained(M)"},
        {"cell_type": "code", "source": ["%%bash\n", "hf download acme/b\n"]},
        {"cell_type": "code", "source": ["%%html\n", "<b>\n"]},
        {"cell_type": "code", "source": ["print this\n"]},
        {"cell_type": "code", "source": ["x = !ls\n", "if x:\n", "    !hf download acme/c\n"]},
        {"cell_type": "raw", "source": ["AutoModel.from_pretrained('acme/d')"]},
    ]
    reading = notebook.find(json.dumps({"cells": cells}, indent=0), Names())
    assert [item.repo for item in reading.references] == ["acme/a", "acme/b", "acme/c"]
    assert [gap.reason for gap in reading.gaps] == ["syntax"]
    with pytest.raises(Unreadable):
        notebook.find("[]", Names())


@pytest.mark.parametrize(
    "key", ["model", "MODEL_ID", "embeddingModel", "hf_repo_id", "model_name_or_path", "tokenizer-path"]
)
def test_keys_that_name_models(key: str) -> None:
    assert is_model_key(key)


@pytest.mark.parametrize(
    "key", ["image", "name", "path", "model_type", "served_model_name", "repository", "url", "", "model_dir"]
)
def test_keys_that_do_not(key: str) -> None:
    assert not is_model_key(key)
