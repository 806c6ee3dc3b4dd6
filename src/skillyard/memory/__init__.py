"""Memory: what skills and people want remembered, kept for its owner and recalled by its words.

`MemoryService` is the port: `SqlMemoryService` keeps memories with the runs, and a host may bring a service of its own.
"""

from __future__ import annotations

from skillyard.memory.model import OWNERS, TYPES, Memory, Recalled
from skillyard.memory.service import MemoryService, PersonalMemory
from skillyard.memory.sql import SqlMemoryService
from skillyard.memory.suggestions import Suggestion, keep_suggestions

__all__ = [
    "OWNERS",
    "TYPES",
    "Memory",
    "MemoryService",
    "PersonalMemory",
    "Recalled",
    "SqlMemoryService",
    "Suggestion",
    "keep_suggestions",
]
