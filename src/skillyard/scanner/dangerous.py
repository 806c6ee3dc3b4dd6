"""Dangerous calls: text that becomes code or a command. Patterns for JavaScript, shell and PowerShell; Python is read as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skillyard.scanner.matching import find, pattern
from skillyard.scanner.rule import Rule
from skillyard.scanner.source import Hit, Source

__all__ = ["CALL_RULES", "look_for_dangerous_calls"]

CALL_RULES: Final = (
    Rule("runs-input-as-code", "dangerous calls", "what somebody typed or passed is run as code",
         "Whoever chooses the input chooses what runs.", "read the value with a parser of its own, such as `ast.literal_eval`", "high", "low"),
    Rule("runs-text-as-code", "dangerous calls", "text that is put together when it runs is run as code",
         "No review can see what will run.", "call functions by a table of names, or parse the value", "medium", "info"),
    Rule("shell-from-input", "dangerous calls", "a shell is given what somebody typed or passed",
         "A semicolon in the input is a second command.", "give the program and its arguments as a list, without a shell", "medium", "info"),
    Rule("shell-from-data", "dangerous calls", "a shell is given a command that is put together from values",
         "A value with a semicolon or a quote is a second command.", "give the program and its arguments as a list, without a shell", "low", "info"),
    Rule("unpickles", "dangerous calls", "data is read in a format that can run code",
         "A file of this format runs what its maker wrote, the moment it is read.", "use JSON, `yaml.safe_load` or `weights_only=True`", "low", "info"),
    Rule("unpickles-from-network", "dangerous calls", "data from the network is read in a format that can run code",
         "Whoever answers runs code here.", "use JSON", "high", "low"),
    Rule("path-from-input", "dangerous calls", "a path is put together from a fixed folder and a name that is not checked",
         "A name with `..` in it leaves the folder.", "resolve the path, and check that it is inside the folder with `is_relative_to`", "low", "info"),
    Rule("sql-from-text", "dangerous calls", "a query is put together from text and values",
         "A value with a quote becomes part of the query.", "pass the values as parameters of the query", "medium", "info"),
)  # fmt: skip

_JAVASCRIPT: Final = (
    pattern("runs-text-as-code", r"(?<![\w.$])eval\((?!\s{0,3}[\"'`][^\"'`$]{0,200}[\"'`]\s{0,3}\))", "eval("),
    pattern("runs-text-as-code", r"\bnew Function\((?!\s{0,3}\))", "new function("),
    pattern("runs-text-as-code", r"\bvm\.(?:runIn\w{3,20}|Script)\(", "vm."),
    pattern("shell-from-data", r"\b(?:execSync|exec)\(\s{0,3}(?:`[^`\n]{0,300}?\$\{|[\"'][^\"'\n]{0,200}[\"']\s{0,3}\+)", "exec"),
    pattern("shell-from-data", r"\bspawn(?:Sync)?\([^\n]{0,200}?shell:\s{0,3}true", "spawn"),
    pattern("sql-from-text", r"\.(?:query|execute|raw)\(\s{0,3}`\s{0,3}(?:SELECT|INSERT|UPDATE|DELETE)\b[^`]{0,300}?\$\{", "select", "insert", "update", "delete"),
)  # fmt: skip
_SHELL: Final = (
    pattern("runs-input-as-code", r"(?:^|[;&|]\s{0,3})eval\s{1,3}[\"']?\$(?:\{)?[@*1-9]", "eval"),
    pattern("runs-text-as-code", r"(?:^|[;&|]\s{0,3})eval\s{1,3}[\"']?\$\{?(?!SHELL\b)[A-Za-z_]\w{0,60}", "eval"),
    pattern("runs-input-as-code", r"\b(?:ba|z)?sh -c {1,3}[\"']?\$[@*1-9]", "sh -c"),
)  # fmt: skip
_POWERSHELL: Final = (pattern("runs-text-as-code", r"\b(?:Invoke-Expression|iex)\s{1,3}[\"'(]?\$", "invoke-expression", "iex"),)
_BY_LANGUAGE: Final = {"javascript": _JAVASCRIPT, "shell": _SHELL, "powershell": _POWERSHELL}


def look_for_dangerous_calls(source: Source) -> Iterator[Hit]:
    """Calls in a script or an example."""
    yield from find(source, _BY_LANGUAGE.get(source.language, ()))
