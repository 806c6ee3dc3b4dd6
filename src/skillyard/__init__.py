"""Skillyard: find agent skills, check them, tell any model about them, run their scripts in a sandbox.

::

    from skillyard import Catalog, SkillTools

    catalog = Catalog.discover()
    tools = SkillTools(catalog)
    system = "You are a helpful agent. " + catalog.prompt(budget=2000).text

Each name is imported from its room when it is first used, so that `import skillyard` itself costs next to nothing.
"""

from typing import TYPE_CHECKING

from skillyard._version import __version__

if TYPE_CHECKING:
    from skillyard.catalog import Changes, Root, Skill
    from skillyard.document import Diagnostic, Document, check_document, fix_document, parse_document
    from skillyard.errors import (
        AmbiguousSkill,
        ApprovalRejected,
        ExecutionProblem,
        FileProblem,
        InvalidInput,
        InvalidSkill,
        PermissionDenied,
        SandboxUnavailable,
        SkillExists,
        SkillNotFound,
        SkillUnusable,
        SkillyardError,
    )
    from skillyard.execution import Executor, Run, RunRequest
    from skillyard.library import Catalog
    from skillyard.permissions import ApprovalAnswer, ApprovalRequest, Approver, Rules
    from skillyard.prompt import Index
    from skillyard.registry import Registry
    from skillyard.sandbox import Policy
    from skillyard.search import Match
    from skillyard.tools import SkillTools, ToolResult

__all__ = [
    "AmbiguousSkill",
    "ApprovalAnswer",
    "ApprovalRejected",
    "ApprovalRequest",
    "Approver",
    "Catalog",
    "Changes",
    "Diagnostic",
    "Document",
    "ExecutionProblem",
    "Executor",
    "FileProblem",
    "Index",
    "InvalidInput",
    "InvalidSkill",
    "Match",
    "PermissionDenied",
    "Policy",
    "Registry",
    "Root",
    "Rules",
    "Run",
    "RunRequest",
    "SandboxUnavailable",
    "Skill",
    "SkillExists",
    "SkillNotFound",
    "SkillTools",
    "SkillUnusable",
    "SkillyardError",
    "ToolResult",
    "__version__",
    "check_document",
    "fix_document",
    "parse_document",
]

_ROOMS = {
    "catalog": ("Changes", "Root", "Skill"),
    "document": ("Diagnostic", "Document", "check_document", "fix_document", "parse_document"),
    "errors": (
        "AmbiguousSkill",
        "ApprovalRejected",
        "ExecutionProblem",
        "FileProblem",
        "InvalidInput",
        "InvalidSkill",
        "PermissionDenied",
        "SandboxUnavailable",
        "SkillExists",
        "SkillNotFound",
        "SkillUnusable",
        "SkillyardError",
    ),
    "execution": ("Executor", "Run", "RunRequest"),
    "library": ("Catalog",),
    "permissions": ("ApprovalAnswer", "ApprovalRequest", "Approver", "Rules"),
    "prompt": ("Index",),
    "registry": ("Registry",),
    "sandbox": ("Policy",),
    "search": ("Match",),
    "tools": ("SkillTools", "ToolResult"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> object:
    room = _ROOM_OF.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{room}"), name)
    globals()[name] = value  # the next use finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
