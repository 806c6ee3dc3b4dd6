"""Which skills and commands may be used: rules by pattern, approvals bound to content, and what `allowed-tools` permit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from skillyard.permissions.approval_store import ApprovalRecord, ApprovalStore, MemoryApprovalStore
    from skillyard.permissions.approval_tables import SqlSessionApprovals
    from skillyard.permissions.approvals import (
        ApprovalAnswer,
        ApprovalRequest,
        Approvals,
        Approver,
        CommandApprover,
        Decision,
        PolicyApprover,
        SqlApprovalStore,
        approving_command,
    )
    from skillyard.permissions.command_policy import (
        ALWAYS_PERMITTED,
        AllowedTools,
        CommandPolicy,
        CommandRequest,
        CommandRuling,
        LevelDecision,
        ListedRule,
        RuleLevel,
        question_lines,
    )
    from skillyard.permissions.command_rules import CommandRules, LevelRuling
    from skillyard.permissions.gate import (
        CommandGate,
        PermissionGate,
        SkillAccess,
        SkillConsent,
        ToolVerdict,
        unusable_skill,
    )
    from skillyard.permissions.origins import InstalledOrigins, OriginLookup
    from skillyard.permissions.permission_rules import PermissionRuling, Rules, without_denied
    from skillyard.permissions.tool_rules import (
        SKILL_TOOL_NAMES,
        WORKSPACE_TOOL_NAMES,
        SkillToolName,
        ToolRule,
        WorkspaceToolName,
        check_tool_permissions,
        parse_tool_rule,
        tool_kind,
    )

__all__ = [
    "ALWAYS_PERMITTED",
    "SKILL_TOOL_NAMES",
    "WORKSPACE_TOOL_NAMES",
    "AllowedTools",
    "ApprovalAnswer",
    "ApprovalRecord",
    "ApprovalRequest",
    "ApprovalStore",
    "Approvals",
    "Approver",
    "CommandApprover",
    "CommandGate",
    "CommandPolicy",
    "CommandRequest",
    "CommandRules",
    "CommandRuling",
    "Decision",
    "InstalledOrigins",
    "LevelDecision",
    "LevelRuling",
    "ListedRule",
    "MemoryApprovalStore",
    "OriginLookup",
    "PermissionGate",
    "PermissionRuling",
    "PolicyApprover",
    "RuleLevel",
    "Rules",
    "SkillAccess",
    "SkillConsent",
    "SkillToolName",
    "SqlApprovalStore",
    "SqlSessionApprovals",
    "ToolRule",
    "ToolVerdict",
    "WorkspaceToolName",
    "approving_command",
    "check_tool_permissions",
    "parse_tool_rule",
    "question_lines",
    "tool_kind",
    "unusable_skill",
    "without_denied",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "approvals": (
            "ApprovalAnswer",
            "ApprovalRequest",
            "Approvals",
            "Approver",
            "CommandApprover",
            "Decision",
            "PolicyApprover",
            "SqlApprovalStore",
            "approving_command",
        ),
        "command_policy": (
            "ALWAYS_PERMITTED",
            "AllowedTools",
            "CommandPolicy",
            "CommandRequest",
            "CommandRuling",
            "LevelDecision",
            "ListedRule",
            "RuleLevel",
            "question_lines",
        ),
        "command_rules": (
            "CommandRules",
            "LevelRuling",
        ),
        "gate": (
            "CommandGate",
            "PermissionGate",
            "SkillAccess",
            "SkillConsent",
            "ToolVerdict",
            "unusable_skill",
        ),
        "origins": (
            "InstalledOrigins",
            "OriginLookup",
        ),
        "permission_rules": (
            "PermissionRuling",
            "Rules",
            "without_denied",
        ),
        "approval_tables": ("SqlSessionApprovals",),
        "approval_store": (
            "ApprovalRecord",
            "ApprovalStore",
            "MemoryApprovalStore",
        ),
        "tool_rules": (
            "SKILL_TOOL_NAMES",
            "WORKSPACE_TOOL_NAMES",
            "SkillToolName",
            "ToolRule",
            "WorkspaceToolName",
            "check_tool_permissions",
            "parse_tool_rule",
            "tool_kind",
        ),
    },
)
