"""Memory: what skills and people want remembered, kept for its owner and recalled by its words.

`MemoryService` is the port: `SqlMemoryService` keeps memories with the runs, and a host may bring a service of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.lazy_exports import lazy_exports
from skillyard.memory.memory_service import (
    OWNERS,
    TYPES,
    Memory,
    MemoryMatch,
    MemoryService,
    Owner,
    PersonalMemory,
    Suggestion,
    keep_suggestions,
    owners_of,
    read_owner,
)

if TYPE_CHECKING:
    from skillyard.memory.sql_memory import SqlMemoryService

__all__ = [
    "OWNERS",
    "TYPES",
    "Memory",
    "MemoryMatch",
    "MemoryService",
    "Owner",
    "PersonalMemory",
    "SqlMemoryService",
    "Suggestion",
    "keep_suggestions",
    "owners_of",
    "read_owner",
]

__getattr__, __dir__ = lazy_exports(__name__, {"sql_memory": ("SqlMemoryService",)})
