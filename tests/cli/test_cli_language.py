"""Help and errors in Chinese: by `--lang` and by the locale, from one catalogue in which nothing is missing."""

from __future__ import annotations

import argparse
import ast
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from skillyard.cli import language
from skillyard.cli.program import COMMANDS, GROUPS, Parser, add_common_options, leading_parser, parser_of

Call = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = json.loads((ROOT / "src/skillyard/cli/chinese.json").read_text("utf-8"))


def test_no_command_group_or_common_option_is_missing(call: Call) -> None:
    parser = Parser("skillyard")
    add_common_options(parser)
    needed = {command.help for command in COMMANDS.values()} | set(GROUPS)
    needed |= {action.help for action in parser._actions if action.help}
    assert needed <= set(CATALOGUE["messages"])
    assert all(text != english for english, text in CATALOGUE["messages"].items())
    assert leading_parser().prog == "skillyard"


def _texts(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield from (action.help for action in parser._actions if action.help)
    yield from (group.title for group in parser._action_groups if group.title)
    yield from [parser.epilog] if parser.epilog else []


def test_no_option_of_any_command_is_missing() -> None:
    needed = {text for name in COMMANDS for text in _texts(parser_of(name))}
    assert len(needed) > 250
    assert needed - set(CATALOGUE["messages"]) == set()


def _templates(value: ast.expr) -> list[str]:
    """What a text in the source may come to, with `{}` for each value."""
    match value:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)]
        case ast.IfExp(body=one, orelse=other):
            return _templates(one) + _templates(other)
    return []


def test_no_note_heading_or_answer_is_missing() -> None:
    needed = set()
    for module in (ROOT / "src/skillyard/cli").rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(attr="note" | "hint" | "heading" | "line" as kind), args=[text, *_]):
                    least = language.OWN_TEXT if kind == "line" else 4
                    needed |= {one for one in _templates(text) if language.own_text(one) >= least}
    assert len(needed) > 100
    assert needed - set(CATALOGUE["answers"]) == set()


def test_answers_and_notes_are_chinese_with_the_values_in_their_places(call: Call, tmp_path: Path, make_skill: Any) -> None:
    make_skill(tmp_path / "more/skills", "pdf", description="restored this and that")
    switched = call("disable", "pdf", "--root", tmp_path / "more/skills", "--lang", "zh")
    assert switched.out.startswith("config:pdf 现在的状态是 disabled")
    runs = call("runs", "--lang", "zh")
    assert "没有运行" in runs.out + runs.err
    shown = call("show", "pdf", "--root", tmp_path / "more/skills", "--lang", "zh").out
    assert "\n状态\n" in shown
    language.choose_language([], {})


def test_errors_say_the_same_as_on_the_page() -> None:
    page = json.loads((ROOT / "web/src/chinese/errors.json").read_text("utf-8"))
    assert {code: text for code, text in CATALOGUE["errors"].items() if code in page} == page


def test_help_and_errors_are_chinese_when_asked_for(call: Call) -> None:
    shown = call("--lang", "zh", "--help").out
    assert shown.startswith("用法：skillyard COMMAND")
    assert "查找和阅读:" in shown
    assert "在沙箱中运行技能的脚本" in call("run", "--help", "--lang=zh").out
    assert "安装镜像有而本机没有的内容" in call("mirror", "--help", "--lang", "zh").out  # of an action of a command
    answer = call("show", "nothing", "--lang", "zh")
    assert answer.err.startswith("错误：没有这个技能（there is no skill 'nothing'）\n提示：")
    assert call("show", "nothing", "--lang", "zh", "--json").data["error"]["message"] == "there is no skill 'nothing'"
    assert call("show", "nothing").err.startswith("error: ")


@pytest.mark.parametrize(
    ("environ", "argv", "chosen"),
    [
        ({"LANG": "zh_CN.UTF-8"}, [], "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, [], "en"),
        ({"LANGUAGE": "zh:en", "LANG": "de_DE.UTF-8"}, [], "zh"),
        ({"LANG": "zh_CN.UTF-8"}, ["list", "--lang", "en"], "en"),
        ({}, ["run", "x", "--", "--lang", "zh"], "en"),
    ],
)
def test_the_locale_decides_where_nothing_is_said(environ: dict[str, str], argv: list[str], chosen: str) -> None:
    assert language.choose_language(argv, environ) == chosen
    language.choose_language([], {})
