"""Who may ask a server: API keys with scopes, the sessions of pages, organisations, and the trail of who did what.

Keys are of no use to who reads the database: only hashes are kept. What a scope lets somebody do is the interface's to say.
"""

from __future__ import annotations

from skillyard.access.hashing import hash_of
from skillyard.access.keys import KEY_MARK, SCOPES, ApiKey, Keys, KeyState, Scope
from skillyard.access.moving import CopiedRecords, move_records
from skillyard.access.naming import DEFAULT
from skillyard.access.organisations import Organisation, Organisations
from skillyard.access.sessions import Sessions
from skillyard.access.trail import Actor, Event, Outcome, Trail, about, acting, actor_name, record

__all__ = [
    "DEFAULT",
    "KEY_MARK",
    "SCOPES",
    "Actor",
    "ApiKey",
    "CopiedRecords",
    "Event",
    "KeyState",
    "Keys",
    "Organisation",
    "Organisations",
    "Outcome",
    "Scope",
    "Sessions",
    "Trail",
    "about",
    "acting",
    "actor_name",
    "hash_of",
    "move_records",
    "record",
]
