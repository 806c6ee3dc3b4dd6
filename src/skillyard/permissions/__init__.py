"""Which skills may be used: rules by pattern, approvals bound to content, and what `allowed-tools` permit."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from skillyard.permissions.origins import InstalledOrigins, OriginLookup
from skillyard.permissions.rules import Rules, Ruling, visible
from skillyard.permissions.sql_store import SqlApprovalStore
from skillyard.permissions.store import ApprovalStore, Approved, MemoryApprovalStore
from skillyard.permissions.toolrules import ToolRule, parse_tool_rule

if TYPE_CHECKING:
    from skillyard.permissions.sessions import SqlSessionApprovals

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
    "InstalledOrigins",
    "MemoryApprovalStore",
    "OriginLookup",
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


def __getattr__(name: str) -> object:
    """Import what speaks to the database when it is named."""
    if name != "SqlSessionApprovals":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from skillyard.permissions.sessions import SqlSessionApprovals

    return SqlSessionApprovals
