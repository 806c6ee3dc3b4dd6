"""Skillyard: find agent skills, check them, describe them to any model, run their scripts in a sandbox.

::

    from skillyard import Catalog, SkillTools

    catalog = Catalog.discover()
    tools = SkillTools(catalog)
    system = "You are a helpful agent. " + catalog.prompt(budget=2000).text

Each name is imported from its component when it is first used, so that `import skillyard` itself costs next to nothing.
"""

from typing import TYPE_CHECKING

from skillyard._version import __version__
from skillyard.lazy_exports import lazy_exports

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

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
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
    },
)
