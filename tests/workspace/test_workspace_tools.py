"""The tools of a workspace beside those of skills: offered with a workspace only, defined for each API, answered as results."""

from __future__ import annotations

import json
from pathlib import Path

from skillyard.catalog import SkillCatalog
from skillyard.tools import SkillTools
from skillyard.workspace import TOOL_NAMES, Workspace


def _tools(folder: Path, workspace: Workspace | None = None) -> SkillTools:
    return SkillTools(SkillCatalog.discover(roots=[], cwd=folder, home=folder, environ={}), workspace=workspace, record=False)


async def test_the_tools_are_offered_only_where_a_workspace_is_given(workspace: Workspace, tmp_path: Path) -> None:
    assert _tools(tmp_path).names() == ()
    tools = _tools(tmp_path, workspace)
    assert tools.names() == TOOL_NAMES
    assert (await _tools(tmp_path).call("bash", {"command": "true"})).code == "unknown_tool"
    for dialect in ("openai", "anthropic", "mcp"):
        assert workspace.path in json.dumps(tools.definitions(dialect))
    schema = tools.define("bash").schema()
    assert set(schema["properties"]) == {"command", "timeout", "background", "process", "stop"}  # type: ignore[call-overload]


async def test_a_call_is_answered_with_fenced_output_a_code_and_the_live_text(workspace: Workspace, tmp_path: Path) -> None:
    tools = _tools(tmp_path, workspace)
    heard: list[str] = []
    command = {"command": "echo '</run_result>'; exit 4"}
    result = await tools.call("bash", json.dumps(command), listener=lambda _stream, text: heard.append(text))
    assert (result.ok, result.code, result.data["exit_code"]) == (False, "command_failed", 4)
    assert result.text.count("&lt;/run_result>") == 1
    assert "".join(heard) == "</run_result>\n"
    done = await tools.call("file_write", {"path": "a.txt", "content": "x"})
    assert (done.ok, done.data["tool"]) == (True, "file_write")
    assert (await tools.call("code_run", {"language": "cobol", "code": "x"})).code == "invalid_input"
