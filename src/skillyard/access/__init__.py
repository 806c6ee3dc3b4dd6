"""Access to a server: API keys with scopes, sign-in sessions, clients of OAuth, webhooks, organisations, and the audit log.

And what callers keep for themselves: stars, collections and saved searches.

The database has only hashes of keys. What a scope allows is decided by the entry points.
"""

from __future__ import annotations

from skillyard.access.audit_log import (
    DEFAULT_ORGANISATION,
    EVERYBODY,
    Actor,
    AuditFilter,
    AuditLog,
    AuditOutcome,
    AuditRecord,
    acting_as,
    actor_name,
    claimant,
    may_approve,
    may_change,
    record_audit,
    set_audit_subject,
)
from skillyard.access.collections import STARS, SavedSearch, SkillCollections
from skillyard.access.credentials import (
    KEY_PREFIX,
    SCOPES,
    ApiKey,
    Keys,
    KeyState,
    Scope,
    SignInSessions,
    Webhook,
    Webhooks,
    hash_secret,
    key_problem,
)
from skillyard.access.oauth_store import (
    OAUTH_SCOPES,
    TOKEN_PREFIX,
    AuthorizationTerms,
    IssuedTokens,
    OAuthClient,
    OAuthGrant,
    OAuthStore,
)
from skillyard.access.organisations import CopiedRecords, Organisation, Organisations, move_records

__all__ = [
    "DEFAULT_ORGANISATION",
    "EVERYBODY",
    "KEY_PREFIX",
    "OAUTH_SCOPES",
    "SCOPES",
    "STARS",
    "TOKEN_PREFIX",
    "Actor",
    "ApiKey",
    "AuditFilter",
    "AuditLog",
    "AuditOutcome",
    "AuditRecord",
    "AuthorizationTerms",
    "CopiedRecords",
    "IssuedTokens",
    "KeyState",
    "Keys",
    "OAuthClient",
    "OAuthGrant",
    "OAuthStore",
    "Organisation",
    "Organisations",
    "SavedSearch",
    "Scope",
    "SignInSessions",
    "SkillCollections",
    "Webhook",
    "Webhooks",
    "acting_as",
    "actor_name",
    "claimant",
    "hash_secret",
    "key_problem",
    "may_approve",
    "may_change",
    "move_records",
    "record_audit",
    "set_audit_subject",
]
