"""A source tree with thirty model references in ten notations, and much that only looks like one."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

A, B, C, D = "a1" * 20, "b2" * 20, "c3" * 20, "d4" * 20

FILES = {
    "src/serve.py": f'''\
        """Loads acme/docstring, see AutoModel.from_pretrained("acme/docstring")."""
        import torch
        from datasets import load_dataset
        from huggingface_hub import hf_hub_download, snapshot_download
        from sentence_transformers import CrossEncoder, SentenceTransformer
        from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

        OWNER = "acme"
        CHAT = f"{{OWNER}}/chat"
        MODELS = {{"small": "acme/small", "large": "acme/large"}}


        class Settings:
            embedder: str = "acme/embedder"
            embedder_revision = "{A}"


        model = AutoModelForCausalLM.from_pretrained(CHAT, torch_dtype=torch.bfloat16)
        tokenizer = AutoTokenizer.from_pretrained(
            "acme/chat",
            revision="{B}",
        )
        small = pipeline("text-generation", model=MODELS["small"])
        encoder = SentenceTransformer(Settings.embedder, revision=Settings.embedder_revision)
        ranker = CrossEncoder("acme/ranker")
        folder = snapshot_download(repo_id="acme/whole", revision="v1.0")
        data = snapshot_download("acme/data", repo_type="dataset")
        config = hf_hub_download("acme/part", "config.json")
        rows = load_dataset("acme/rows")
        state = torch.load("hf://acme/state@{C}/model.bin")
        hub = torch.hub.load("pytorch/vision", "resnet18")
        local = AutoModelForCausalLM.from_pretrained("./models/mine")
        beside = AutoModelForCausalLM.from_pretrained("weights/mine")
        kind = "text/html"
        print("acme/printed")
    ''',
    "src/vllm_batch.py": """\
        from vllm import LLM

        llm = LLM(model="acme/batch", tokenizer="acme/batch-tokenizer")
    """,
    "notebooks/try.ipynb": json.dumps(
        {
            "cells": [
                {"cell_type": "markdown", "metadata": {}, "source": ["# from_pretrained('acme/markdown')\n"]},
                {"cell_type": "code", "source": ["!pip install x/y\n", "MODEL = 'acme/notebook'\n"]},
                {
                    "cell_type": "code",
                    "source": ["%time\n", "AutoModel.from_pretrained(MODEL)\n", "!hf download acme/cell"],
                },
            ],
            "nbformat": 4,
            "nbformat_minor": 5,
        },
        indent=1,
    ),
    "deploy/values.yaml": f"""\
        image: acme/image:latest
        model:
          name: acme/values
          revision: {D}
        embeddingModel: acme/values-embedder
        contentType: application/json
        dataset: acme/rows
        storageUri: hf://acme/stored
    """,
    "deploy/compose.yaml": """\
        services:
          llm:
            image: vllm/vllm-openai:v0.9
            command: ["--model", "acme/composed", "--served-model-name", "acme/alias"]
          tgi:
            image: ghcr.io/huggingface/text-generation-inference:3
            environment:
              - MODEL_ID=acme/tgi
              - REVISION=main
    """,
    "pyproject.toml": """\
        [tool.app]
        base-model = "acme/toml"
        repository = "acme/app"
    """,
    "config/app.json": """\
        {"models": [
          "acme/json-one",
          {"id": "acme/json-two", "revision": "refs/pr/1"}],
         "homepage": "https://huggingface.co/acme/homepage",
         "dependencies": {"@acme/ui": "1.0"}}
    """,
    ".env": """\
        # MODEL=acme/comment
        LLM_MODEL=acme/dotenv
        IMAGE=acme/image
    """,
    "Dockerfile": """\
        FROM acme/base:1
        ARG MODEL=acme/baked
        RUN pip install huggingface_hub && \\
            hf download ${MODEL} --local-dir /models/baked
        RUN python -c "from transformers import AutoModel; AutoModel.from_pretrained('acme/inline')"
        CMD ["text-embeddings-router", "--model-id", "acme/tei"]
    """,
    "run.sh": f"""\
        #!/bin/sh
        set -e
        vllm serve acme/served \\
          --revision {A}
        llama-server -hf acme/quantized:Q4_K_M --port 8080
        huggingface-cli download acme/fetched --revision v2
        hf download acme/rows --repo-type dataset
        docker run -v acme/volume:/x acme/image
    """,
    "bom.cdx.json": json.dumps(
        {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "components": [
                {"type": "library", "name": "requests", "purl": "pkg:pypi/requests@2.0"},
                {"type": "machine-learning-model", "name": "sbom", "purl": f"pkg:huggingface/acme/sbom@{B}"},
            ],
            "dependencies": [{"ref": f"pkg:huggingface/acme/sbom@{B}"}],
        },
        indent=1,
    ),
    ".github/workflows/ci.yml": """\
        on: push
        jobs:
          test:
            steps:
              - uses: actions/checkout@v4
              - run: echo acme/echoed
    """,
    "package.json": '{"name": "@acme/site", "repository": "acme/site", '
    '"dependencies": {"acme/models": "github:acme/models"}}',
    "weights/mine/config.json": "{}",
    "README.md": "`AutoModel.from_pretrained('acme/readme')`\n",
}

EXPECTED = {
    ("src/serve.py", 18, "acme/chat", None),
    ("src/serve.py", 19, "acme/chat", B),
    ("src/serve.py", 23, "acme/small", None),
    ("src/serve.py", 24, "acme/embedder", A),
    ("src/serve.py", 25, "acme/ranker", None),
    ("src/serve.py", 26, "acme/whole", "v1.0"),
    ("src/serve.py", 28, "acme/part", None),
    ("src/serve.py", 30, "acme/state", C),
    ("src/vllm_batch.py", 3, "acme/batch", None),
    ("src/vllm_batch.py", 3, "acme/batch-tokenizer", None),
    ("notebooks/try.ipynb", 21, "acme/notebook", None),
    ("notebooks/try.ipynb", 22, "acme/cell", None),
    ("deploy/values.yaml", 3, "acme/values", D),
    ("deploy/values.yaml", 5, "acme/values-embedder", None),
    ("deploy/values.yaml", 8, "acme/stored", None),
    ("deploy/compose.yaml", 4, "acme/composed", None),
    ("deploy/compose.yaml", 8, "acme/tgi", "main"),
    ("pyproject.toml", 2, "acme/toml", None),
    ("config/app.json", 2, "acme/json-one", None),
    ("config/app.json", 3, "acme/json-two", "refs/pr/1"),
    (".env", 2, "acme/dotenv", None),
    ("Dockerfile", 4, "acme/baked", None),
    ("Dockerfile", 5, "acme/inline", None),
    ("Dockerfile", 6, "acme/tei", None),
    ("run.sh", 3, "acme/served", A),
    ("run.sh", 5, "acme/quantized", None),
    ("run.sh", 6, "acme/fetched", "v2"),
    ("bom.cdx.json", 13, "acme/sbom", B),
    ("models--acme--cached/refs/main", 1, "acme/cached", C),
    ("models--acme--cached/snapshots/" + D, 1, "acme/cached", D),
}
NOTATIONS = {"python", "notebook", "yaml", "toml", "json", "env", "dockerfile", "shell", "sbom", "hub_cache"}


def write(root: Path) -> None:
    """Write the tree."""
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    cached(root, "acme/cached", refs={"main": C}, snapshots=(C, D))


def cached(root: Path, repo: str, *, refs: dict[str, str], snapshots: tuple[str, ...]) -> None:
    """Write what a Hub cache has of a repo."""
    folder = root / f"models--{repo.replace('/', '--')}"
    for name, sha in refs.items():
        path = folder / "refs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(sha)
    for sha in snapshots:
        (folder / "snapshots" / sha).mkdir(parents=True)
