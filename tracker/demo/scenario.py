"""What happens upstream in the demo: four small models, and six things that hurt people downstream.

Everything here is made up, and small enough to read: the point is what hubwatch says about it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from tracker.demo.files import LargeFile, safetensors
from tracker.demo.hub import LoopbackHub
from tracker.demo.repos import Content, GitRepo

PICKLE = LargeFile(b"cos\nsystem\n(S'true'\ntR.", 1_300_000)
"""Names a function that runs a command, as a hostile pickle would; nothing here ever loads it."""
IDENTITY = "https://hub.demo.hubwatch.invalid"
"""The demo's repos are nobody's: their advisories can never be mistaken for real ones."""

CHAT = "acme/tiny-chat"
SAFE = "acme/safe-weights"
SWAPPED = "birch/stories-1m"
MOVED = "cedar/old-name"
MOVED_TO = "cedar-labs/new-name"

_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>\n{{ message.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
_THINKING = _TEMPLATE.replace("<|assistant|>\n{% endif %}", "<|assistant|>\n<think>\n{% endif %}")


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens upstream: what a bystander would call it, and the repo to look at."""

    repo: str
    told: str
    act: Callable[[], object]


@dataclass(slots=True)
class Scenario:
    """The demo's upstream, from before the watch began to the last thing that happens."""

    hub: LoopbackHub
    folder: Path
    start: datetime

    def set_up(self) -> list[str]:
        """Create the repos with the history they have when the watch begins; returns their names."""
        chat = self._repo(CHAT)
        chat.commit(
            {".gitattributes": "*.safetensors filter=lfs\n"}, title="initial commit", date=self._ago(days=40)
        )
        chat.commit(_model(hidden=256, layers=4), title="Upload model", date=self._ago(days=39))
        chat.commit(_tokenizer(_TEMPLATE), title="Upload tokenizer", date=self._ago(days=39, minutes=-9))
        chat.commit({"README.md": _card("Tiny chat", "apache-2.0")}, title="Model card", date=self._ago(days=38))
        safe = self._repo(SAFE)
        safe.commit(
            _model(hidden=128, layers=2) | {"README.md": _card("Safe weights", "mit")},
            title="First release",
            author="nora",
            date=self._ago(days=20),
        )
        swapped = self._repo(SWAPPED)
        swapped.commit(
            _model(hidden=64, layers=2), title="First release", author="birch", date=self._ago(days=300)
        )
        swapped.commit(
            {"README.md": _card("Stories", "mit")}, title="Add a card", author="birch", date=self._ago(days=299)
        )
        swapped.commit(
            {"generation_config.json": _json({"eos_token_id": 2, "temperature": 0.7})},
            title="Sampling defaults",
            author="birch",
            date=self._ago(days=280),
        )
        moved = self._repo(MOVED)
        moved.commit(_model(hidden=96, layers=2), title="First release", author="cedar", date=self._ago(days=100))
        return [CHAT, SAFE, SWAPPED, MOVED]

    def steps(self) -> Iterator[Step]:
        """What happens next, in order."""
        yield Step(
            CHAT,
            "the chat template opens a <think> tag",
            self._commit(CHAT, _tokenizer(_THINKING), "Fix template"),
        )
        yield Step(
            SAFE,
            "a pickle appears beside the safetensors",
            self._commit(SAFE, {"pytorch_model.bin": PICKLE}, "Add PyTorch weights", "nora"),
        )
        yield Step(
            SWAPPED,
            "the weights are replaced, by somebody new",
            self._commit(
                SWAPPED,
                {"model.safetensors": _weights(hidden=64, layers=2, salt="other")},
                "Update model",
                "xX_helper_Xx",
            ),
        )
        yield Step(MOVED, f"the repo is renamed to {MOVED_TO}", lambda: self.hub.rename(MOVED, MOVED_TO))
        yield Step(
            CHAT,
            "three commits at once: longer context, another layer, new sampling defaults",
            self._several(CHAT),
        )
        yield Step(
            CHAT, "the chat template is put back", self._commit(CHAT, _tokenizer(_TEMPLATE), "Revert the template")
        )

    def _repo(self, name: str) -> GitRepo:
        repo = GitRepo(self.folder / f"{name.replace('/', '--')}.git")
        self.hub.add(name, repo, created_at=self._ago(days=301))
        return repo

    def _commit(
        self, name: str, files: Mapping[str, Content], title: str, author: str = "alice"
    ) -> Callable[[], object]:
        return lambda: self.hub.repo(name).commit(
            files, title=title, author=author, date=datetime.now(self.start.tzinfo)
        )

    def _several(self, name: str) -> Callable[[], object]:
        changes: list[tuple[Mapping[str, Content], str]] = [
            ({"config.json": _json(_config(256, 4) | {"max_position_embeddings": 8192})}, "Longer context"),
            (
                _model(hidden=256, layers=5)
                | {"config.json": _json(_config(256, 5) | {"max_position_embeddings": 8192})},
                "One layer more",
            ),
            ({"generation_config.json": _json({"eos_token_id": 2, "temperature": 1.2})}, "Sampling defaults"),
        ]

        def act() -> None:
            for files, title in changes:
                self._commit(name, files, title)()

        return act

    def _ago(self, **span: float) -> datetime:
        return self.start - timedelta(**span)


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


def _config(hidden: int, layers: int) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": hidden * 3,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 64,
        "max_position_embeddings": 2048,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-05,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "bfloat16",
    }


def _weights(*, hidden: int, layers: int, salt: str = "") -> LargeFile:
    """The tensors a Llama of this shape has, so that the derived count can be held against them."""
    key_value = hidden // 2
    block = {
        "self_attn.q_proj": (hidden, hidden),
        "self_attn.k_proj": (key_value, hidden),
        "self_attn.v_proj": (key_value, hidden),
        "self_attn.o_proj": (hidden, hidden),
        "mlp.gate_proj": (hidden * 3, hidden),
        "mlp.up_proj": (hidden * 3, hidden),
        "mlp.down_proj": (hidden, hidden * 3),
        "input_layernorm": (hidden,),
        "post_attention_layernorm": (hidden,),
    }
    tensors = {
        f"model.layers.{layer}.{name}.weight": ("BF16", shape)
        for layer in range(layers)
        for name, shape in block.items()
    }
    tensors |= {
        "model.embed_tokens.weight": ("BF16", (64, hidden)),
        "model.norm.weight": ("BF16", (hidden,)),
        "lm_head.weight": ("BF16", (64, hidden)),
    }
    return safetensors(tensors, metadata={"format": "pt"}, salt=salt)


def _model(*, hidden: int, layers: int) -> dict[str, Content]:
    return {
        "config.json": _json(_config(hidden, layers)),
        "model.safetensors": _weights(hidden=hidden, layers=layers),
    }


def _tokenizer(template: str) -> dict[str, Content]:
    special = ["<unk>", "<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>"]
    words = [*special, *(chr(code) for code in range(ord("a"), ord("z") + 1)), "hello", "world"]
    vocabulary = {word: index for index, word in enumerate(words)}
    return {
        "tokenizer.json": _json(
            {
                "version": "1.0",
                "added_tokens": [
                    {
                        "id": index,
                        "content": word,
                        "single_word": False,
                        "lstrip": False,
                        "rstrip": False,
                        "normalized": False,
                        "special": True,
                    }
                    for index, word in enumerate(special)
                ],
                "normalizer": None,
                "pre_tokenizer": {"type": "Whitespace"},
                "post_processor": None,
                "decoder": None,
                "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
            }
        ),
        "tokenizer_config.json": _json(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": "<s>",
                "eos_token": "</s>",
                "unk_token": "<unk>",
                "model_max_length": 2048,
                "chat_template": template,
            }
        ),
    }


def _card(title: str, licence: str) -> str:
    return f"---\nlicense: {licence}\npipeline_tag: text-generation\n---\n# {title}\n\nA model of the demo.\n"
