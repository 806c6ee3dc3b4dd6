"""Tool calls in the text of a model that has no function calling.

::

    [[ABP_TOOL:getWeather]]
    {"action": "query", "parameters": {"location": "上海"}}
    [[END_ABP_TOOL]]

Text outside the blocks is the model's answer. JSON with one of three small faults (a closing quote, closing brackets or commas
missing) is repaired; a block that cannot be read for certain is a problem that is reported to the model, never a call.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from skillyard.wire import WireForm, wire

# A text that never ends goes to the end, so that no quote is looked at twice.
_TOKEN: Final = re.compile(r'"(?>[^"\\]+|\\.)*+(?:"|\\?\Z)|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_BRACE_OR_TEXT: Final = re.compile(r'"(?>[^"\\]+|\\.)*+(?:"|\\?\Z)|[{}]', re.DOTALL)
_WHOLE_TEXT: Final = re.compile(r'"(?>[^"\\]+|\\.)*+"', re.DOTALL)
_AT_END: Final = " \t\r\n}]"
_CLOSER: Final = {"{": "}", "[": "]"}
_DEEPEST: Final = 500
_STARTS: Final = 5  # how often a stray brace is passed over, and how many invalid objects are repaired


@dataclass(frozen=True, slots=True)
class ExtractedObject:
    """One JSON object, and whether it had to be repaired."""

    value: dict[str, object]
    repaired: bool = False


def extract_json_object(text: str) -> ExtractedObject | None:
    """The last valid JSON object that is not inside another one; without any, the last that can be repaired; else None.

    When an object never ends and cannot be repaired, it may be a stray brace in prose: the search continues behind it.
    """
    start = 0
    for _ in range(_STARTS):
        spans, endless = _outermost(text, start)
        for begin, end in reversed(spans):
            if (value := _read(text[begin:end])) is not None:
                return ExtractedObject(value)
        unfinished = [text[endless:]] if endless >= 0 else []
        for piece in [*unfinished, *(text[begin:end] for begin, end in spans[: -_STARTS - 1 : -1])]:
            fixed = _repair(piece)
            if fixed is not None and (value := _read(fixed)) is not None:
                return ExtractedObject(value, repaired=True)
        if endless < 0:
            break
        start = endless + 1
    return None


def _outermost(text: str, start: int) -> tuple[list[tuple[int, int]], int]:
    """Where the outermost objects from `start` on begin and end, and where one begins that never ends (-1: none does)."""
    spans: list[tuple[int, int]] = []
    opening = text.find("{", start)
    while opening >= 0:
        end = _end_of_object(text, opening)
        if end < 0:
            return spans, opening
        spans.append((opening, end))
        opening = text.find("{", end)
    return spans, -1


def _end_of_object(text: str, opening: int) -> int:
    depth = 0
    for match in _BRACE_OR_TEXT.finditer(text, opening):
        sign = match[0]
        if sign == "{":
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth == 0:
                return match.end()
    return -1


def _read(text: str) -> dict[str, object] | None:
    try:
        value = json.loads(text, strict=False, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refused(name: str) -> object:
    raise ValueError(name)


def _repair(text: str) -> str | None:
    """`text` with what is missing put in; None when brackets do not match or nest too deeply."""
    parts: list[str] = []
    open_brackets: list[str] = []
    before = ""
    for match in _TOKEN.finditer(text):
        sign = match[0]
        if sign in "{[":
            open_brackets.append(_CLOSER[sign])
        elif sign in "}]" and (not open_brackets or open_brackets.pop() != sign):
            return None
        elif sign[0] == '"' and not _WHOLE_TEXT.fullmatch(sign):
            return _closed_text(parts, before, sign, open_brackets)
        if len(open_brackets) > _DEEPEST:
            return None
        parts += [",", sign] if _needs_comma(before, sign) else [sign]
        before = sign
        if not open_brackets:
            break
    return "".join(parts) + "".join(reversed(open_brackets))


def _closed_text(parts: list[str], before: str, sign: str, open_brackets: list[str]) -> str:
    """The end of an object whose last text has no closing quote.

    Brackets at the very end that are just those still open belong to the object, not to the text.
    """
    expected = "".join(reversed(open_brackets))
    inside = sign.rstrip(_AT_END)
    if "".join(sign[len(inside) :].split()) == expected:
        sign = inside
    comma = "," if _needs_comma(before, sign) else ""
    return f'{"".join(parts)}{comma}{_without_half_escape(sign)}"{expected}'


def _without_half_escape(sign: str) -> str:
    slashes = len(sign) - len(sign.rstrip("\\"))
    return sign[:-1] if slashes % 2 else sign


def _needs_comma(before: str, sign: str) -> bool:
    """Whether both are values, or the end of one and the beginning of the next."""
    ends = bool(before) and before not in "{[,:"
    return ends and sign not in ("}", "]", ",", ":")


ProblemCode = Literal["missing_end", "missing_start", "nested", "no_json", "incomplete", "ambiguous_end", "too_many"]

_MARKER: Final = re.compile(r"\[\[(?:ABP_TOOL:([^\[\]\r\n]{1,200})|END_ABP_TOOL)\]\]")
_NO_END: Final = "has no end marker: close it with [[END_ABP_TOOL]]"
_MOST_CALLS: Final = 32
_MOST_PROBLEMS: Final = 32
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class AbpCall(WireForm):
    """One call: its id (`abp_call_<milliseconds>_<number>`), the tool's name, the action, the parameters.

    `repaired` says that the JSON was not valid as it was written.
    """

    id: str
    tool: str
    action: str
    parameters: Mapping[str, object] = field(hash=False)
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class AbpProblem(WireForm):
    """A block that is no call: a stable code, the tool it names (empty when it names none), and a sentence for the model."""

    code: ProblemCode
    tool: str
    message: str


@dataclass(frozen=True, slots=True)
class AbpText(WireForm, also=("success",)):
    """What a model's text holds: its calls in order, the blocks that are none, and the text around the blocks.

    `fallback` is `plain-text` when there is no block at all: the text is an ordinary answer.
    """

    calls: tuple[AbpCall, ...]
    problems: tuple[AbpProblem, ...]
    text: str
    fallback: Literal["plain-text"] | None = field(default=None, init=False, metadata=wire(omit_none=True))

    def __post_init__(self) -> None:
        if not self.calls and not self.problems:
            object.__setattr__(self, "fallback", "plain-text")

    @property
    def success(self) -> bool:
        """Whether there is a call."""
        return bool(self.calls)


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
        if len(calls) < _MOST_CALLS:
            read = _call(block, stamp)
        else:
            read = _problem("too_many", block.tool, f"was not read: at most {_MOST_CALLS} calls in one message")
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
        problems.append(_nested(names[0]) if nested else _problem("missing_end", names[0], _NO_END))
    else:
        outside.append(text[cursor:])
    return blocks, problems, "".join(outside).strip()


def _call(block: _Block, stamp: int) -> AbpCall | AbpProblem:
    extracted = extract_json_object(block.body.strip())
    if extracted is None:
        return _problem("no_json", block.tool, "holds no JSON object")
    action, parameters = extracted.value.get("action"), extracted.value.get("parameters")
    if not isinstance(action, str) or not action.strip() or not isinstance(parameters, dict):
        return _problem("incomplete", block.tool, 'needs "action" with a text and "parameters" with an object')
    if extracted.repaired and block.unsure:
        return _problem("ambiguous_end", block.tool, "ends twice: write the end marker once, and not inside a text")
    return AbpCall(f"abp_call_{stamp}_{next(_numbers)}", block.tool, action.strip(), parameters, extracted.repaired)


def _problem(code: ProblemCode, tool: str, what: str) -> AbpProblem:
    return AbpProblem(code, tool, f"the block of {tool!r} {what}" if tool else what)


def _stray_end(blocks: list[_Block]) -> AbpProblem:
    if blocks:
        blocks[-1].unsure = True  # the end before it may have stood inside a text
    return _problem("missing_start", "", "there is an end marker without a block before it")


def _nested(tool: str) -> AbpProblem:
    return _problem("nested", tool, "has another block inside, or lacks its end marker: close each block before the next")
