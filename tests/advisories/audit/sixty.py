"""A source tree with more than sixty model references in every notation, and much that only looks like one.

Notations are those that the tools themselves document: vLLM, text-generation-inference, text-embeddings-inference,
llama.cpp, SGLang, the Hub's command line and libraries, compose, Kubernetes, GitHub's workflows, CycloneDX, SPDX.
"""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

from tests.advisories.audit.thirty import cached

A, B, C, D = "1a" * 20, "2b" * 20, "3c" * 20, "4d" * 20
FLOATING, UNKNOWN = None, "unknown"

FILES = {
    "src/load.py": f'''\
        """Prose that says from_pretrained("acme/prose") and hf://acme/prose."""
        import os
        from datasets import load_dataset
        from diffusers import DiffusionPipeline, StableDiffusionPipeline
        from huggingface_hub import hf_hub_download, snapshot_download
        from sentence_transformers import SentenceTransformer
        from transformers import AutoModel, AutoTokenizer, pipeline

        BASE = "acme/base"
        REV = "{A}"
        PATHS = ["hf://acme/base/extra.bin",
                 "hf://acme/base@{B}/other.bin"]

        base = AutoModel.from_pretrained(BASE)
        pinned = AutoTokenizer.from_pretrained("acme/pinned", revision=REV)
        either = AutoModel.from_pretrained("acme/unsure", revision=pick())
        spread = AutoModel.from_pretrained("acme/spread", **options())
        closed = AutoModel.from_pretrained("acme/closed", **{{"torch_dtype": "auto"}})
        chosen = AutoModel.from_pretrained(pick())  # gap
        typed = AutoModel.from_pretrained(input())  # gap


        def load(name, revision=None):
            return AutoModel.from_pretrained(name, revision=revision)  # gap


        tag = pipeline("text-generation", "acme/pipe", revision="v2.1")
        art = DiffusionPipeline.from_pretrained("acme/art", vae=None)
        art.load_lora_weights("acme/art-lora")
        embed = SentenceTransformer("all-MiniLM-L6-v2")
        whole = snapshot_download(repo_id=os.getenv("REPO", "acme/whole"))
        part = hf_hub_download(
            repo_id="acme/part",
            filename="model.gguf",
            revision="{C}",
        )
        rows = load_dataset("acme/rows")
        rows = snapshot_download("acme/rows", repo_type="dataset")
        here = AutoModel.from_pretrained("./checkpoints/last")
        out = AutoModel.from_pretrained(os.path.join(root, "model"))
        mime = {{"Content-Type": "application/json", "Accept": "text/html"}}
        when, image = "2024/05", "acme/image"
        link = "https://huggingface.co/acme/page"
        data = "hf://datasets/acme/rows/x.parquet"
        AutoModel.push_to_hub("acme/pushed")
    ''',
    "src/batch.py": f"""\
        from vllm import LLM, EngineArgs

        llm = LLM("acme/engine", tokenizer="acme/engine-tok", tokenizer_revision="{A}")
        args = EngineArgs(model="acme/args", revision="{B}", tokenizer_revision="{B}")
    """,
    "src/commands.py": f"""\
        import os, subprocess, sys
        from langchain_huggingface import HuggingFaceEmbeddings

        embed = HuggingFaceEmbeddings(model_name="acme/kwargs", model_kwargs={{"revision": "{C}"}})
        subprocess.run(["hf", "download", "acme/listed-command", "--revision", "{D}"], check=True)
        os.system("vllm serve acme/texted --port 80")
        subprocess.run(f"hf download acme/formed --revision {{wanted}}", shell=True)
        subprocess.run([sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", wanted])  # gap
        subprocess.run(["docker", "pull", "acme/image"])
        subprocess.run(["git", "clone", "https://github.com/acme/code"])
        app.run("acme/route host")
    """,
    "notebooks/try.ipynb": json.dumps(
        {
            "cells": [
                {"cell_type": "markdown", "source": ["AutoModel.from_pretrained('acme/told')\n"]},
                {
                    "cell_type": "code",
                    "source": ["!hf download acme/shelled --revision v3\n", "NAME = 'acme/celled'\n"],
                },
                {"cell_type": "code", "source": ["%%bash\n", "vllm serve acme/magic\n"]},
                {
                    "cell_type": "code",
                    "source": ["m = AutoModel.from_pretrained(NAME)\n"],
                    "outputs": ["acme/out"],
                },
            ],
            "nbformat": 4,
            "nbformat_minor": 5,
        },
        indent=1,
    ),
    "deploy/compose.yaml": f"""\
        services:
          tgi:
            image: ghcr.io/huggingface/text-generation-inference:3.3
            command: --model-id acme/tgi-words --revision {A}
            volumes: ["acme/volume:/data"]
          mapped:
            image: acme/mapped-image
            environment:
              MODEL_ID: acme/mapped
              REVISION: {B}
          listed:
            environment:
              - EMBED_REPO=acme/listed
              - EMBED_REVISION={C}
              - GIT_REPO=acme/git
              - GIT_REVISION={C}
          outside:
            environment:
              - MODEL_ID=acme/outside
              - MODEL_REVISION
          vllm:
            image: vllm/vllm-openai:v0.11.0
            command: ["acme/vllm-image", "--served-model-name", "acme/alias", "--revision", "{D}"]
          llama:
            image: ghcr.io/ggml-org/llama.cpp:server
            command:
              - -hf
              - acme/llama-GGUF:Q4_K_M
            environment:
              LLAMA_ARG_HF_REPO: acme/llama-env-GGUF:Q8_0
          given:
            environment:
              MODEL_ID: ${{GIVEN_MODEL}}  # gap
    """,
    "deploy/pod.yaml": f"""\
        spec:
          containers:
            - name: acme/container
              image: docker.io/acme/server:1
              args: ["--model", "acme/pod", "--revision", "abc1234"]
              env:
                - name: RERANK_MODEL_ID
                  value: acme/reranker
                - name: RERANK_REVISION
                  value: {A}
            - name: tei
              command: ["text-embeddings-router"]
              args:
                - --model-id=acme/tei
                - --port=80
    """,
    "config/models.yaml": f"""\
        models: [acme/flow-one, acme/flow-two]
        embedding_models:
          - acme/block-one
          - name: acme/block-two
            revision: {D}
        draft_model: acme/draft
        created: 2024/05
        image: acme/image
        mime: application/json
        path: data/train
        maintainer: acme/team
    """,
    "config/roles.yaml": f"""\
        models:
          chat: {{repo: acme/role-chat, revision: {A}}}
          embed: acme/role-embed
          folder: models/local
        modelSpec:
          - repository: acme/server-image
            modelURL: acme/stack
        predictor:
          args: [--model_id=acme/kserve, --model_name=acme/alias]
        repos:
          - repo: https://github.com/acme/hooks
            rev: v1
        datasets: [acme/rows]
    """,
    "config/app.toml": f"""\
        [llm]
        model = "acme/toml"
        model_revision = "{A}"
        [embed]
        model_id = "acme/toml-embed"
        fallbacks = ["acme/unlisted"]
        models = [
          "acme/toml-list",
        ]
        [project]
        repository = "acme/app"
    """,
    "config/app.json": f"""\
        {{
          "reranker": {{"model": "acme/json", "revision": "{B}"}},
          "modelIds": ["acme/json-list"],
          "baseModel": {{"name": "acme/json-base"}},
          "repository": "acme/app",
          "license": "Apache/2.0"
        }}
    """,
    ".env": f"""\
        MODEL_ID=acme/env
        MODEL_REVISION={A}
        RERANK_MODEL="acme/env-rerank"
        EMBED_MODEL_ID=acme/env-embed
        EMBED_REVISION={B}
        DOCKER_IMAGE=acme/image
        GITHUB_REPO=acme/app
        GITHUB_REVISION={B}
        TZ=Europe/Berlin
    """,
    "Dockerfile": f"""\
        FROM acme/base-image:1
        LABEL org.opencontainers.image.source=acme/app
        ARG REV={C}
        ENV HF_MODEL_ID=acme/docker HF_REVISION={A}
        RUN hf download acme/docker-run --revision ${{REV}} --local-dir /models
        RUN python3 -c "from transformers import AutoModel as M; M.from_pretrained('acme/docker-py')"
        ENTRYPOINT ["vllm", "serve"]
        CMD ["acme/docker-cmd", "--port", "80"]
    """,
    "run.sh": f"""\
        #!/usr/bin/env bash
        set -eu
        vllm serve acme/served --tokenizer acme/served-tok --tokenizer-revision {D} --revision "$REV"
        vllm serve acme/spec --speculative-config '{{"model": "acme/spec-draft", "num_speculative_tokens": 4}}'
        vllm serve acme/lora --enable-lora --lora-modules sql=acme/lora-sql
        python -m sglang.launch_server --model-path acme/sglang --port 30000
        llama-server -hf acme/gguf:Q5_K_M -hfd acme/gguf-draft:Q4_0
        llama-cli -mu https://huggingface.co/acme/linked/resolve/{A}/x.gguf
        docker run -e MODEL_ID=acme/ran -e REVISION={B} -v acme/v:/x text-embeddings-inference:1.8
        hf download acme/many a.bin b.bin --include "*.json" --revision {C}
        hf download acme/rows --repo-type dataset
        hf download acme/rows --type dataset
        hf download "$WANTED"  # gap
        docker model run hf.co/acme/docker-model-GGUF:Q4_K_M
        git clone https://huggingface.co/acme/cloned
        git clone https://github.com/acme/code && docker pull acme/image && npm i acme/pkg
        lm_eval --model hf --model_args pretrained=acme/evaled,revision={D} --tasks hellaswag
        curl -H "Accept: application/json" https://example.org/acme/curl
    """,
    ".github/workflows/ci.yml": f"""\
        on: push
        env:
          MODEL_ID: acme/flow-env
          MODEL_REVISION: {C}
        jobs:
          test:
            container: acme/container
            steps:
              - uses: acme/action@v4
              - uses: actions/checkout@{A}
                with:
                  repository: acme/other
              - run: |
                  pip install huggingface_hub
                  huggingface-cli download acme/flow-run --revision {D}
    """,
    "bom.cdx.json": json.dumps(
        {
            "bomFormat": "CycloneDX",
            "specVersion": "1.7",
            "components": [
                {"type": "library", "name": "acme/lib", "purl": "pkg:github/acme/lib@1"},
                {"type": "machine-learning-model", "name": "bom", "purl": f"pkg:huggingface/acme/bom@{A}"},
            ],
        },
        indent=1,
    ),
    "sbom.spdx.json": json.dumps(
        {
            "spdxVersion": "SPDX-2.3",
            "packages": [
                {
                    "name": "acme/spdx",
                    "versionInfo": B,
                    "externalRefs": [
                        {"referenceType": "purl", "referenceLocator": "pkg:huggingface/acme/spdx@" + B}
                    ],
                }
            ],
        },
        indent=1,
    ),
    "tags.spdx": f"""\
        SPDXVersion: SPDX-2.3
        PackageName: acme/tagged
        ExternalRef: PACKAGE-MANAGER purl pkg:huggingface/acme/tagged@{C}
    """,
}

EXPECTED: list[tuple[str, str, str, str | None]] = [
    # file, what stands in its line, repo, revision
    ("src/load.py", "hf://acme/base/extra", "acme/base", FLOATING),
    ("src/load.py", "hf://acme/base@", "acme/base", B),
    ("src/load.py", "from_pretrained(BASE)", "acme/base", FLOATING),
    ("src/load.py", "acme/pinned", "acme/pinned", A),
    ("src/load.py", "acme/unsure", "acme/unsure", UNKNOWN),
    ("src/load.py", "acme/spread", "acme/spread", UNKNOWN),
    ("src/load.py", "acme/closed", "acme/closed", FLOATING),
    ("src/load.py", "acme/pipe", "acme/pipe", "v2.1"),
    ("src/load.py", '"acme/art"', "acme/art", FLOATING),
    ("src/load.py", "acme/art-lora", "acme/art-lora", FLOATING),
    ("src/load.py", "all-MiniLM", "sentence-transformers/all-MiniLM-L6-v2", FLOATING),
    ("src/load.py", "acme/whole", "acme/whole", FLOATING),
    ("src/load.py", "hf_hub_download(", "acme/part", C),
    ("src/batch.py", "LLM(", "acme/engine", FLOATING),
    ("src/batch.py", "LLM(", "acme/engine-tok", A),
    ("src/batch.py", "acme/args", "acme/args", B),
    ("src/commands.py", "acme/kwargs", "acme/kwargs", C),
    ("src/commands.py", "acme/listed-command", "acme/listed-command", D),
    ("src/commands.py", "acme/texted", "acme/texted", FLOATING),
    ("src/commands.py", "acme/formed", "acme/formed", UNKNOWN),
    ("notebooks/try.ipynb", "acme/shelled", "acme/shelled", "v3"),
    ("notebooks/try.ipynb", "acme/magic", "acme/magic", FLOATING),
    ("notebooks/try.ipynb", "from_pretrained(NAME)", "acme/celled", FLOATING),
    ("deploy/compose.yaml", "acme/tgi-words", "acme/tgi-words", A),
    ("deploy/compose.yaml", "MODEL_ID: acme/mapped", "acme/mapped", B),
    ("deploy/compose.yaml", "acme/listed", "acme/listed", C),
    ("deploy/compose.yaml", "acme/outside", "acme/outside", UNKNOWN),
    ("deploy/compose.yaml", "acme/vllm-image", "acme/vllm-image", D),
    ("deploy/compose.yaml", "- -hf", "acme/llama-GGUF", FLOATING),
    ("deploy/compose.yaml", "acme/llama-env-GGUF", "acme/llama-env-GGUF", FLOATING),
    ("deploy/pod.yaml", "acme/pod", "acme/pod", "abc1234"),
    ("deploy/pod.yaml", "value: acme/reranker", "acme/reranker", A),
    ("deploy/pod.yaml", "acme/tei", "acme/tei", FLOATING),
    ("config/models.yaml", "acme/flow-one", "acme/flow-one", FLOATING),
    ("config/models.yaml", "acme/flow-two", "acme/flow-two", FLOATING),
    ("config/models.yaml", "acme/block-one", "acme/block-one", FLOATING),
    ("config/models.yaml", "acme/block-two", "acme/block-two", D),
    ("config/models.yaml", "acme/draft", "acme/draft", FLOATING),
    ("config/roles.yaml", "acme/role-chat", "acme/role-chat", A),
    ("config/roles.yaml", "acme/role-embed", "acme/role-embed", FLOATING),
    ("config/roles.yaml", "acme/stack", "acme/stack", FLOATING),
    ("config/roles.yaml", "acme/kserve", "acme/kserve", FLOATING),
    ("config/app.toml", '"acme/toml"', "acme/toml", A),
    ("config/app.toml", "acme/toml-embed", "acme/toml-embed", FLOATING),
    ("config/app.toml", "acme/toml-list", "acme/toml-list", FLOATING),
    ("config/app.json", '"acme/json"', "acme/json", B),
    ("config/app.json", "acme/json-list", "acme/json-list", FLOATING),
    ("config/app.json", "acme/json-base", "acme/json-base", FLOATING),
    (".env", "=acme/env\n", "acme/env", A),
    (".env", "acme/env-rerank", "acme/env-rerank", FLOATING),
    (".env", "acme/env-embed", "acme/env-embed", B),
    ("Dockerfile", "=acme/docker ", "acme/docker", A),
    ("Dockerfile", "acme/docker-run", "acme/docker-run", C),
    ("Dockerfile", "acme/docker-py", "acme/docker-py", FLOATING),
    ("Dockerfile", "acme/docker-cmd", "acme/docker-cmd", FLOATING),
    ("run.sh", "acme/served ", "acme/served", UNKNOWN),
    ("run.sh", "acme/served ", "acme/served-tok", D),
    ("run.sh", "acme/spec ", "acme/spec", FLOATING),
    ("run.sh", "acme/spec ", "acme/spec-draft", FLOATING),
    ("run.sh", "acme/lora ", "acme/lora", FLOATING),
    ("run.sh", "acme/lora ", "acme/lora-sql", FLOATING),
    ("run.sh", "acme/sglang", "acme/sglang", FLOATING),
    ("run.sh", "acme/gguf:", "acme/gguf", FLOATING),
    ("run.sh", "acme/gguf:", "acme/gguf-draft", FLOATING),
    ("run.sh", "acme/linked", "acme/linked", A),
    ("run.sh", "acme/ran", "acme/ran", B),
    ("run.sh", "acme/many", "acme/many", C),
    ("run.sh", "acme/docker-model", "acme/docker-model-GGUF", FLOATING),
    ("run.sh", "acme/cloned", "acme/cloned", FLOATING),
    ("run.sh", "acme/evaled", "acme/evaled", D),
    (".github/workflows/ci.yml", "acme/flow-env", "acme/flow-env", C),
    (".github/workflows/ci.yml", "acme/flow-run", "acme/flow-run", D),
    ("bom.cdx.json", "acme/bom@", "acme/bom", A),
    ("sbom.spdx.json", "acme/spdx@", "acme/spdx", B),
    ("tags.spdx", "acme/tagged@", "acme/tagged", C),
]
IN_CACHE = {
    ("hub/models--acme--cached/refs/main", 1, "acme/cached", A),
    (f"hub/models--acme--cached/snapshots/{B}", 1, "acme/cached", B),
}
GAP = "# gap"
"""Marks the lines that name a model which cannot be told from the file."""


def write(root: Path) -> None:
    """Write the tree."""
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    cached(root / "hub", "acme/cached", refs={"main": A}, snapshots=(A, B))


def expected() -> set[tuple[str, int, str, str | None]]:
    """Every reference: file, line, repo, and its revision or what is unknown of it."""
    return {(name, line_of(name, part), repo, revision) for name, part, repo, revision in EXPECTED} | IN_CACHE


def gaps() -> set[tuple[str, int]]:
    """Every gap: file and line."""
    lines = ((name, number, line) for name in FILES for number, line in enumerate(lines_of(name), 1))
    return {(name, number) for name, number, line in lines if GAP in line}


def line_of(name: str, part: str) -> int:
    """The one line of a file that holds a text."""
    (found,) = [number for number, line in enumerate(lines_of(name), 1) if part in line]
    return found


def lines_of(name: str) -> list[str]:
    """The lines of a file, with their ends."""
    return dedent(FILES[name]).splitlines(keepends=True)
