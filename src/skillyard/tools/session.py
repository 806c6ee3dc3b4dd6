"""What one conversation has loaded so far.

Sessions never share anything: two agents over one `SkillTools`, or two `SkillTools` in one process, do not see each other's
state (defect D-28).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.prompt import Index

__all__ = ["Loaded", "Session", "Sessions"]

_KEPT: Final = 1024


@dataclass(frozen=True, slots=True)
class Loaded:
    """One skill that a session has read.

    `fingerprint` is of the text it was given, empty when only files were read; `allowed_tools` is what the skill asks for.
    """

    fingerprint: str
    allowed_tools: tuple[str, ...]


@dataclass(slots=True)
class Session:
    """One conversation, by the name its host gave it; `shown` is the index it was shown last, of the skills of that time.

    `workspace` is the folder whose files its scripts work on.
    """

    name: str
    loaded: dict[str, Loaded] = field(default_factory=dict)
    shown: tuple[tuple[Skill, ...], Index] | None = None
    workspace: str | None = None

    def remember(self, skill_id: str, allowed_tools: tuple[str, ...], fingerprint: str = "") -> None:
        """Note that `skill_id` was read; a fingerprint once noted stays when only a file was read since."""
        before = self.loaded.get(skill_id)
        self.loaded[skill_id] = Loaded(fingerprint or (before.fingerprint if before else ""), allowed_tools)

    def to_dict(self) -> dict[str, object]:
        """What has to be known again when the conversation goes on in another process, as plain data."""
        loaded = {
            skill: {"fingerprint": it.fingerprint, "allowed_tools": list(it.allowed_tools)} for skill, it in self.loaded.items()
        }
        return {"loaded": loaded, "index": self.shown[1].to_dict() if self.shown else None}

    def restore(self, values: Mapping[str, Any], offered: tuple[Skill, ...]) -> None:
        """Take up what `to_dict` gave; `offered` are the skills that there are now."""
        from skillyard.prompt import Index

        for skill, it in dict(values.get("loaded") or {}).items():
            self.loaded[skill] = Loaded(str(it["fingerprint"]), tuple(it["allowed_tools"]))
        if values.get("index"):
            self.shown = (offered, Index.from_dict(values["index"]))

    def has(self, skill_id: str, fingerprint: str) -> bool:
        """Whether the session was already given exactly this text of the skill."""
        before = self.loaded.get(skill_id)
        return before is not None and before.fingerprint == fingerprint


class Sessions:
    """The sessions of one `SkillTools`; beyond 1024 the one longest unused is forgotten."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def get(self, name: str) -> Session:
        """The session of that name, begun when it is new."""
        session = self._sessions.setdefault(name, Session(name))
        self._sessions.move_to_end(name)
        while len(self._sessions) > _KEPT:
            self._sessions.popitem(last=False)
        return session

    def end(self, name: str) -> None:
        """Forget what that session loaded."""
        self._sessions.pop(name, None)
