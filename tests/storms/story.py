"""What happens upstream in every storm: a model that is uploaded, changed, force-pushed and cleaned up."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.models import TEMPLATE, THINKING, llama, tokenizer_config, weights
from tracker.demo.files import LfsFile
from tracker.demo.hub import LoopbackHub
from tracker.demo.repos import Content, GitRepo

STORMY, STEADY = "acme/stormy", "other/steady"

_FIRST: list[dict[str, Content | None]] = [
    {
        "README.md": "---\nlicense: mit\n---\n# A model\n",
        "config.json": llama(),
        "model.safetensors": weights(),
        "tokenizer.json": LfsFile(b'{"version": "1.0", "model": {"vocab": {"a": 0, "b": 1}}}'),
        "tokenizer_config.json": tokenizer_config(TEMPLATE),
    },
    {"generation_config.json": '{"eos_token_id": 2}\n', "notes/a.txt": "a\n", "notes/b.txt": "b\n"},
]
_THEN: list[list[dict[str, Content | None]]] = [
    [
        {"tokenizer_config.json": tokenizer_config(THINKING)},
        {"pytorch_model.bin": b"not a pickle", "config.json": llama(rope_theta=50000.0)},
    ],
    [
        {"generation_config.json": None, "notes/a.txt": None},
        {"model.safetensors": weights(salt="other"), "config.json": llama(num_hidden_layers=3)},
    ],
]
_AFTER_THE_FORCE_PUSH: list[dict[str, Content | None]] = [
    {"tokenizer_config.json": tokenizer_config(THINKING), "net.py": "import os\n"},
    {"config.json": llama(eos_token_id=7)},
]


@dataclass(slots=True)
class Story:
    """One repository in which everything has happened; ``ends`` is where main stood after each stage."""

    repo: GitRepo
    ends: list[str] = field(default_factory=list)
    stage: int = 0

    def tell(self, stage: int) -> None:
        """Let the upstream stand where it stood after a stage."""
        self.stage = stage
        self.repo.reset("main", self.ends[stage])

    @property
    def so_far(self) -> list[str]:
        """Where main stood after each stage until now."""
        return self.ends[: self.stage + 1]


def written(hub: LoopbackHub) -> Story:
    """Make the repository, and a second one that no storm touches."""
    story = Story(hub.create(STORMY))
    _push(story, _FIRST, "start")
    fork = story.ends[0]
    for number, commits in enumerate(_THEN):
        _push(story, commits, f"stage {number}")
    story.repo.reset("main", fork)
    _push(story, _AFTER_THE_FORCE_PUSH, "again")
    story.tell(0)
    hub.create(STEADY).commit({"config.json": llama()}, title="start")
    return story


def _push(story: Story, commits: list[dict[str, Content | None]], title: str) -> None:
    for number, files in enumerate(commits):
        story.repo.commit(files, title=f"{title} {number}", author=("alice", "bob")[number % 2])
    story.ends.append(story.repo.log("main")[0])
