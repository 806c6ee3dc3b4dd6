"""Tool calls in the text of a model that has no function calling (row 000-33).

::

    [[ABP_TOOL:getWeather]]
    {"action": "query", "parameters": {"location": "上海"}}
    [[END_ABP_TOOL]]

Text outside the blocks is the model's answer. A block that cannot be read for certain is a problem the model is told about,
never a call.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from skillyard.execution.abp.objects import find_object

__all__ = ["AbpCall", "AbpProblem", "AbpText", "parse_abp_calls"]

ProblemCode = Literal["missing_end", "missing_start", "nested", "no_json", "incomplete", "ambiguous_end", "too_many"]

_MARKER: Final = re.compile(r"\[\[(?:ABP_TOOL:([^\[\]\r\n]{1,200})|END_ABP_TOOL)\]\]")
_MOST_CALLS: Final = 32
_MOST_PROBLEMS: Final = 32
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class AbpCall:
    """One call: its id (`abp_call_<milliseconds>_<number>`), the tool's name, the action, the parameters.

    `repaired` says that the JSON was not valid as it was written.
    """

    id: str
    tool: str
    action: str
    parameters: Mapping[str, object] = field(hash=False)
    repaired: bool = False

    def to_dict(self) -> dict[str, object]:
        """The call as plain data."""
        return {
            "id": self.id,
            "tool": self.tool,
            "action": self.action,
            "parameters": dict(self.parameters),
            "repaired": self.repaired,
        }


@dataclass(frozen=True, slots=True)
class AbpProblem:
    """A block that is no call: a stable code, the tool it names (empty when it names none), and a sentence for the model."""

    code: ProblemCode
    tool: str
    message: str

    def to_dict(self) -> dict[str, str]:
        """The problem as plain data."""
        return {"code": self.code, "tool": self.tool, "message": self.message}


@dataclass(frozen=True, slots=True)
class AbpText:
    """What a model's text holds: its calls in order, the blocks that are none, and the text around the blocks."""

    calls: tuple[AbpCall, ...]
    problems: tuple[AbpProblem, ...]
    text: str

    @property
    def success(self) -> bool:
        """Whether there is a call."""
        return bool(self.calls)

    @property
    def fallback(self) -> Literal["plain-text"] | None:
        """`plain-text` when there is no block at all: the text is an ordinary answer."""
        return None if self.calls or self.problems else "plain-text"

    def to_dict(self) -> dict[str, object]:
        """The same as plain data: `{"success", "calls", "problems", "text", "fallback"?}`."""
        shape: dict[str, object] = {
            "success": self.success,
            "calls": [call.to_dict() for call in self.calls],
            "problems": [problem.to_dict() for problem in self.problems],
            "text": self.text,
        }
        return shape | {"fallback": self.fallback} if self.fallback else shape


@dataclass(slots=True)
class _Block:
    """The text between two markers; `unsure` when an end marker without a beginning follows it."""

    tool: str
    body: str
    unsure: bool = False


def parse_abp_calls(text: str) -> AbpText:
    """The calls in `text`, at most 32; takes time in proportion to the length of the text, whatever it holds."""
    blocks, problems, outside = _split(text)
    calls: list[AbpCall] = []
    stamp = int(time.time() * 1000)
    for block in blocks:
        read = _too_many(block) if len(calls) >= _MOST_CALLS else _call(block, stamp)
        if isinstance(read, AbpCall):
            calls.append(read)
        else:
            problems.append(read)
    return AbpText(tuple(calls), tuple(problems[:_MOST_PROBLEMS]), outside)


def _split(text: str) -> tuple[list[_Block], list[AbpProblem], str]:
    """The blocks whose borders are certain, what is wrong with the others, and the text outside all of them."""
    blocks: list[_Block] = []
    problems: list[AbpProblem] = []
    outside: list[str] = []
    names: list[str] = []  # of the blocks that are open, the outermost first
    nested = False
    begin = cursor = 0
    for marker in _MARKER.finditer(text):
        if marker[1] is not None:
            if not names:
                outside.append(text[cursor : marker.start()])
                begin, nested = marker.end(), False
            nested = nested or bool(names)
            names.append(marker[1].strip())
        elif not names:
            outside.append(text[cursor : marker.start()])
            cursor = marker.end()
            problems.append(_stray_end(blocks))
        else:
            name = names.pop()
            if not names:
                cursor = marker.end()
                if nested:
                    problems.append(_nested(name))
                else:
                    blocks.append(_Block(name, text[begin : marker.start()]))
    if names:
        problems.append(_nested(names[0]) if nested else _missing_end(names[0]))
    else:
        outside.append(text[cursor:])
    return blocks, problems, "".join(outside).strip()


def _call(block: _Block, stamp: int) -> AbpCall | AbpProblem:
    found = find_object(block.body.strip())
    if found is None:
        return _problem("no_json", block.tool, "holds no JSON object")
    action, parameters = found.value.get("action"), found.value.get("parameters")
    if not isinstance(action, str) or not action.strip() or not isinstance(parameters, dict):
        return _problem("incomplete", block.tool, 'needs "action" with a text and "parameters" with an object')
    if found.repaired and block.unsure:
        return _problem("ambiguous_end", block.tool, "ends twice: write the end marker once, and not inside a text")
    return AbpCall(f"abp_call_{stamp}_{next(_numbers)}", block.tool, action.strip(), parameters, found.repaired)


def _problem(code: ProblemCode, tool: str, what: str) -> AbpProblem:
    return AbpProblem(code, tool, f"the block of {tool!r} {what}" if tool else what)


def _stray_end(blocks: list[_Block]) -> AbpProblem:
    if blocks:
        blocks[-1].unsure = True  # the end before it may have stood inside a text
    return _problem("missing_start", "", "there is an end marker without a block before it")


def _missing_end(tool: str) -> AbpProblem:
    return _problem("missing_end", tool, "has no end marker: close it with [[END_ABP_TOOL]]")


def _nested(tool: str) -> AbpProblem:
    return _problem("nested", tool, "has another block inside, or lacks its end marker: close each block before the next")


def _too_many(block: _Block) -> AbpProblem:
    return _problem("too_many", block.tool, f"was not looked at: at most {_MOST_CALLS} calls in one message")
