"""What a skill suggests to remember (rows 000-41 and 000-43).

A suggestion is only that: it is checked here, and a memory service decides. A bad one is dropped with the reason and never
spoils the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["MemoryWrite", "read_memory_writes"]

_OWNER_TYPES: Final = ("user", "household", "task", "group")
_TYPES: Final = ("preference", "fact", "event", "summary")
_CONTEXT_KEYS: Final = {"user": "userId", "household": "householdId", "task": "taskId", "group": "groupId"}
MOST_WRITES: Final = 100


@dataclass(frozen=True, slots=True)
class MemoryWrite:
    """One suggestion; `importance` as the skill gave it, `normalized_importance` from 0 to 1."""

    owner_type: str
    owner_id: str
    type: str
    importance: float
    normalized_importance: float
    content: str
    metadata: Mapping[str, object] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, object]:
        """The suggestion as plain data, with the field names of the document."""
        return {
            "ownerType": self.owner_type,
            "ownerId": self.owner_id,
            "type": self.type,
            "importance": self.importance,
            "normalizedImportance": self.normalized_importance,
            "content": self.content,
            "metadata": dict(self.metadata),
        }


class _Refused(ValueError):
    """Why a suggestion cannot be kept."""


def read_memory_writes(
    value: object, *, protocol: str, context: Mapping[str, object]
) -> tuple[tuple[MemoryWrite, ...], tuple[str, ...]]:
    """The good suggestions in `memoryWrites`, and a warning with the reason for each that was dropped.

    The scale of `importance` follows the skill's protocol (row C-7), never the number itself: `vcp` from 1 to 5, `abp` from 0
    to 1. An owner that the context knows differently is refused; an `abp` suggestion without owner is the context user's.
    """
    if value is None:
        return (), ()
    if not isinstance(value, list):
        return (), ("memoryWrites is not a list and was dropped",)
    writes: list[MemoryWrite] = []
    warnings: list[str] = []
    for index, item in enumerate(value[:MOST_WRITES]):
        try:
            writes.append(_write(item, protocol, context))
        except _Refused as reason:
            warnings.append(f"memoryWrites[{index}] was dropped: {reason}")
    if len(value) > MOST_WRITES:
        warnings.append(f"only the first {MOST_WRITES} of {len(value)} memory writes were read")
    return tuple(writes), tuple(warnings)


def _write(item: object, protocol: str, context: Mapping[str, object]) -> MemoryWrite:
    if not isinstance(item, Mapping):
        raise _Refused("it is not an object")
    owner_type, owner_id = _owner(item, protocol, context)
    importance = item.get("importance")
    metadata = item.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise _Refused("metadata is not an object")
    return MemoryWrite(
        owner_type=owner_type,
        owner_id=owner_id,
        type=_choice(item.get("type"), _TYPES, "type"),
        importance=_number(importance),
        normalized_importance=_normalized(_number(importance), protocol),
        content=_text(item.get("content"), "content"),
        metadata=metadata,
    )


def _owner(item: Mapping[str, object], protocol: str, context: Mapping[str, object]) -> tuple[str, str]:
    owner_type = item.get("ownerType", item.get("owner_type"))
    owner_id = item.get("ownerId", item.get("owner_id"))
    if protocol == "abp" and not owner_type and not owner_id:
        if not context.get("userId"):
            raise _Refused("it names no owner and the run has no user")
        owner_type, owner_id = "user", context["userId"]
    kind, name = _choice(owner_type, _OWNER_TYPES, "ownerType"), _text(owner_id, "ownerId")
    known = context.get(_CONTEXT_KEYS[kind])
    if known is not None and str(known) != name:
        raise _Refused(f"its {kind} is not the one of this run")
    return kind, name


def _choice(value: object, known: tuple[str, ...], name: str) -> str:
    if value not in known:
        raise _Refused(f"{name} must be one of {', '.join(known)}")
    return str(value)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _Refused(f"{name} is missing")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < math.inf:
        raise _Refused("importance must be a number")
    return value


def _normalized(importance: float, protocol: str) -> float:
    least, most, scale = (0, 1, 1) if protocol == "abp" else (1, 5, 5)
    if not least <= importance <= most:
        raise _Refused(f"importance must be from {least} to {most}")
    return importance / scale
