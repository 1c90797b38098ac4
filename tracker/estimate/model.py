"""What an architecture file declares, and what it makes of a config."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tracker.estimate.reader import Config
from tracker.estimate.structure import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One class, built for one config.

    ``head`` is the path of the output layer in ``root`` (None: the class has none). ``generates`` is
    whether it keeps a cache while generating; ``head_adapted`` whether PEFT adapts the classifier too (it
    spares those of text classification only). ``outer`` names the activation formula of what stands
    outside the layers.
    """

    root: Node
    hidden: int
    layers: int
    vocabulary: int = 0
    context: int | None = None
    head: Node | None = None
    head_tied: bool | None = None
    head_adapted: bool = False
    generates: bool = False
    outer: str = "llama"
    encoder_decoder: bool = False
    encoder_tokens: int | None = None


Builder = Callable[[Config], Model]


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A model type and the classes that it can be loaded as.

    ``classes`` maps the name in a config's ``architectures`` to what builds it. ``base`` is the class
    counted, with a partial status, when a config names none or one that is not listed.
    """

    model_type: str
    classes: Mapping[str, Builder]
    base: str
    aliases: Mapping[str, str] = field(default_factory=dict)
