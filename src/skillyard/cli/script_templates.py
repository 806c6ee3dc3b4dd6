"""The script and the front matter of `skillyard new --with-script`, in each language: it counts words, and runs as it is."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class ScriptTemplate(NamedTuple):
    """The path of a new script and its text; `{name}` stands for the skill."""

    path: str
    text: str


_PYTHON: Final = '''\
"""The script of {name}; try it with: skillyard run {name} --input '{{"text": "hello world"}}'."""

from __future__ import annotations


def execute(parameters: dict, context: dict | None = None) -> dict:
    words = parameters["text"].split()
    return {{"output": {{"words": len(words)}}, "status": "success"}}
'''

_JAVASCRIPT: Final = """\
// The script of {name}; try it with: skillyard run {name} --input '{{"text": "hello world"}}'

export async function execute(parameters, context) {{
  const words = parameters.text.split(/\\s+/).filter(Boolean);
  return {{ output: {{ words: words.length }}, status: 'success' }};
}}
"""

_TYPESCRIPT: Final = """\
// The script of {name}; try it with: skillyard run {name} --input '{{"text": "hello world"}}'

interface Parameters {{
  text: string;
}}

export async function execute(parameters: Parameters, context?: {{ userId?: string }}) {{
  const words = parameters.text.split(/\\s+/).filter(Boolean);
  return {{ output: {{ words: words.length }}, status: 'success' }};
}}
"""

_SHELL: Final = """\
#!/usr/bin/env bash
# The script of {name}; try it with: skillyard run {name} --input '{{"text": "hello world"}}'
# Standard input is {{"input": {{...}}, "context": {{...}}}}; what is printed is the output, as JSON where it is JSON.
set -euo pipefail

text=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["input"]["text"])')
printf '{{"words": %d}}\\n' "$(wc -w <<< "$text")"
"""

SCRIPT_TEMPLATES: Final[Mapping[str, ScriptTemplate]] = MappingProxyType(
    {
        "python": ScriptTemplate("scripts/execute.py", _PYTHON),
        "javascript": ScriptTemplate("scripts/execute.mjs", _JAVASCRIPT),
        "typescript": ScriptTemplate("scripts/execute.ts", _TYPESCRIPT),
        "shell": ScriptTemplate("scripts/execute.sh", _SHELL),
    }
)


def script_fields(language: str) -> dict[str, object]:
    """The front matter that makes a skill with a script in this language runnable."""
    return {
        "version": "1.0.0",
        "type": "direct",
        "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        "security": {"timeout_ms": 10000, "memory_mb": 128, "network": "none", "filesystem": "read-only"},
        "resources": {"entry": f"./{SCRIPT_TEMPLATES[language].path}"},
    }
