"""``hubwatch estimate``: what is asked for is shown, the card can be pasted, unknown names are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tracker.cli.estimate import estimate

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
}


def run(tmp_path: Path, *arguments: str, config: dict[str, Any] | None = None) -> tuple[int, str]:
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config or CONFIG), "utf-8")
    result = CliRunner().invoke(
        estimate, [str(folder), *arguments], obj={}, env={"HUBWATCH_ESTIMATE_TRANSFORMERS": "off"}
    )
    return result.exit_code, result.output if result.exit_code == 0 else f"{result.output}{result.exception}"


def test_the_card_in_markdown(tmp_path: Path) -> None:
    code, card = run(tmp_path, "--format", "markdown")
    assert code == 0
    assert "`LlamaForCausalLM`: **exact** (closed_form)" in card
    for part in (
        "| Parameters | ",
        "| Layers | 4 |",
        "| Will it forward-pass | yes |",
        "| Priced on | ",
        "| Cost | ",
    ):
        assert part in card
    for part in (
        "| full fine-tune |",
        "| LoRA |",
        "| QLoRA |",
        "| T4 16 GB |",
        "Verifier: ",
        "`model.layers.*.mlp`",
    ):
        assert part in card


def test_what_a_repo_wrote_cannot_write_markdown(tmp_path: Path) -> None:
    hostile = {"model_type": "</details><script>`@me`|[x](http://e.vil)", "architectures": ["`|<b>\n# A"]}
    code, card = run(tmp_path, "--format", "markdown", config=hostile)
    assert code == 0
    assert "\n# A" not in card
    reason = next(line for line in card.splitlines() if "no architecture" in line)
    assert "<script>" not in reason.replace("\\<", "")
    assert "](http://" not in reason


def test_one_method_and_one_card(tmp_path: Path) -> None:
    _, shown = run(tmp_path, "--method", "lora", "--card", "L40S")
    assert "L40S" in shown
    assert "T4 16 GB" not in shown
    assert "full fine-tune" not in shown


def test_options_move_the_figures(tmp_path: Path) -> None:
    def memory(*arguments: str) -> dict[str, Any]:
        code, text = run(tmp_path, "--json", *arguments)
        assert code == 0
        return json.loads(text)["memory"]

    plain = memory()
    assert memory("--precision", "bf16-true")["full_finetune_bytes"] < plain["full_finetune_bytes"]
    assert memory("--gradient-checkpointing")["activation_bytes"] < plain["activation_bytes"]
    assert memory("--lora-r", "64")["lora_bytes"] > plain["lora_bytes"]
    assert memory("--lora-targets", "q_proj, v_proj")["lora_bytes"] < plain["lora_bytes"]
    assert memory("--batch", "2", "--seq", "128")["activation_bytes"] < plain["activation_bytes"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--card", "Voodoo 2"),
        ("--precision", "fp3"),
        ("--optimizer", "magic"),
        ("--method", "wish"),
        ("--lora-r", "0"),
        ("--batch", "-1"),
    ],
)
def test_names_nobody_knows_are_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, _ = run(tmp_path, *arguments)
    assert code != 0
