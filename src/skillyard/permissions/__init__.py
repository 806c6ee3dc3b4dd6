"""Which skills may be used: rules by pattern, approvals bound to content, and what `allowed-tools` permit."""

from __future__ import annotations

from skillyard.permissions.allowed import ALWAYS_PERMITTED, AllowedTools
from skillyard.permissions.approvals import Approvals
from skillyard.permissions.asking import (
    ApprovalAnswer,
    ApprovalRequest,
    ApprovalRequestShape,
    Approver,
    Decision,
    PolicyApprover,
)
from skillyard.permissions.gate import Consent, Gate, unusable
from skillyard.permissions.rules import Rules, Ruling, visible
from skillyard.permissions.sessions import SqlSessionApprovals
from skillyard.permissions.store import ApprovalStore, Approved, MemoryApprovalStore, SqlApprovalStore
from skillyard.permissions.toolrules import ToolRule, parse_tool_rule

__all__ = [
    "ALWAYS_PERMITTED",
    "AllowedTools",
    "ApprovalAnswer",
    "ApprovalRequest",
    "ApprovalRequestShape",
    "ApprovalStore",
    "Approvals",
    "Approved",
    "Approver",
    "Consent",
    "Decision",
    "Gate",
    "MemoryApprovalStore",
    "PolicyApprover",
    "Rules",
    "Ruling",
    "SqlApprovalStore",
    "SqlSessionApprovals",
    "ToolRule",
    "parse_tool_rule",
    "unusable",
    "visible",
]
