"""Counts a model class that transformers has, in a child process of its own; nothing of the repo runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tracker.probe.process import Sandbox

START_SECONDS: Final = 120.0  # torch and transformers take their time to come up on a busy machine
SECONDS: Final = 45.0  # for one class
RANK: Final = 16
# No network, no cache, no home: the libraries look at these names.
ENVIRONMENT: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HOME": "/nonexistent",
    "HOME": "/nonexistent",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "USE_TF": "0",
}
NEEDED: Final = ("torch", "transformers")


def available() -> bool:
    """Whether the optional libraries are there."""
    return all(find_spec(name) is not None for name in NEEDED)


class MetaCounter:
    """Asks one child, started at the first question and kept. Threads take turns."""

    def __init__(self, seconds: float = SECONDS) -> None:
        """Nothing is started yet."""
        self._seconds = seconds
        self._lock = threading.Lock()
        self._sandbox = Sandbox(
            "models",
            script=Path(__file__).with_name("meta_child.py"),
            start_seconds=START_SECONDS,
            environment=ENVIRONMENT,
        )

    def count(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The child's answer: figures, ``{"error": sentence}`` or ``{"gap": word}``."""
        with self._lock:
            return self._sandbox.ask({"config": config, "rank": RANK}, seconds=self._seconds)

    def close(self) -> None:
        """End the child."""
        with self._lock:
            self._sandbox.close()

    def __enter__(self) -> MetaCounter:
        """Count inside the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the child."""
        self.close()
