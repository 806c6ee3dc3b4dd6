"""Tools switched by name: for each whether it is there, is asked about at every call, or is taken away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

from skillyard.catalog import Permission
from skillyard.errors import InvalidInput
from skillyard.text import nearest, quoted

SkillToolName = Literal["skill", "skills_list", "skills_load", "read_skill_file", "run_skill", "search_skills"]
WorkspaceToolName = Literal["bash", "code_run", "file_read", "file_write", "file_edit", "file_list", "file_search"]
SKILL_TOOL_NAMES: Final[tuple[SkillToolName, ...]] = get_args(SkillToolName)
"""The tools over the skills of a catalog."""
WORKSPACE_TOOL_NAMES: Final[tuple[WorkspaceToolName, ...]] = get_args(WorkspaceToolName)
"""The tools of a workspace; `tool_kind` says what each does, and `skillyard.tools` how it is called."""


def check_tool_permissions(values: Mapping[str, Any]) -> Mapping[str, Permission]:
    """What settings say of single tools, such as `{"bash": "deny", "file_write": "ask"}`; given back as it is.

    Raises:
        InvalidInput: a tool that there is not, or something else than `allow`, `ask` and `deny`.
    """
    known = (*WORKSPACE_TOOL_NAMES, *SKILL_TOOL_NAMES)
    for name, permission in values.items():
        if name not in known:
            meant = nearest(str(name), {one: one for one in known}, limit=1)
            hint = f"did you mean {meant[0]}? " if meant else ""
            raise InvalidInput(
                f"tool_permissions: there is no tool {quoted(str(name)[:40])}", hint=f"{hint}the tools are: {', '.join(known)}"
            )
        if permission not in get_args(Permission):
            raise InvalidInput(
                f"tool_permissions: {name} cannot be {str(permission)[:40]!r}", hint="use 'allow', 'ask' or 'deny'"
            )
    return values
