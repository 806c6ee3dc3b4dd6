"""Which skills a model may see, and the gates it passes before each use.

Four gates, always in this order: the skill exists; no rule denies it; it can be used (not broken, disabled, shadowed or kept
for people); when a rule says `ask`, someone has agreed to exactly this content.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.errors import AmbiguousSkill, SkillNotFound
from skillyard.permissions import PermissionGate, SkillConsent
from skillyard.text import nearest, quoted, single_line

if TYPE_CHECKING:
    from skillyard.catalog import Skill, SkillCatalog
    from skillyard.permissions import Approvals, Approver, Rules, SqlSessionApprovals


_SUGGESTIONS: Final = 5
_ECHOED: Final = 200  # characters of an unknown name


class SkillAccess:
    """The catalog as one agent may use it."""

    def __init__(self, catalog: SkillCatalog, rules: Rules, approvals: Approvals) -> None:
        self.catalog = catalog
        self.rules = rules
        self._approvals = approvals
        self._gate = PermissionGate(rules, approvals, for_models=True)
        self._everyone: tuple[Skill, ...] = ()
        self._offered: tuple[Skill, ...] = ()
        self._held: dict[str, str] = {}

    @property
    def approvals(self) -> Approvals:
        """What was approved, and who is asked."""
        return self._approvals

    def hold(self, skill_id: str, version: str) -> None:
        """Use an installed skill in that version from now on, as long as its folder is there, whatever is installed later."""
        self._held[skill_id] = version

    def offered(self) -> tuple[Skill, ...]:
        """The skills that may be listed to a model, in the catalog's order."""
        everyone = self.catalog.all()
        if everyone is not self._everyone:  # the catalog gives the same tuple until something has changed
            self._offered = tuple(skill for skill in everyone if skill.offered and not self._denied(skill))
            self._everyone = everyone
        return self._offered

    def find(self, name: str) -> Skill:
        """The skill with that id, name or unique part of a name, if it may be used.

        Raises:
            SkillNotFound: no such skill; `candidates` names near ones.
            AmbiguousSkill: more than one fits; `candidates` are their ids.
            PermissionDenied: a rule denies it.
            SkillUnusable: it is broken, disabled, shadowed or not for models; `status` and `reason` say which.
        """
        skill = self._look_up(name)
        self._gate.check(skill)
        return self.pinned_version(skill)

    def pinned_version(self, skill: Skill) -> Skill:
        """The skill in the version that is held, when one is and its folder is still there."""
        version = self._held.get(skill.id)
        if version is None or skill.source != "installed" or not skill.directory.endswith("/current"):
            return skill
        folder = f"{skill.directory.removesuffix('current')}{version}"
        return skill.located(folder[len(skill.root.path.rstrip("/")) + 1 :]) if Path(folder, "SKILL.md").is_file() else skill

    async def approve(
        self,
        skill: Skill,
        *,
        session: str,
        message_id: str | None = None,
        call_id: str | None = None,
        written: bool = False,
    ) -> SkillConsent:
        """Ask for consent when a rule wants it, or a model may have `written` it; bound to the content as it is now.

        Raises:
            ApprovalRejected: the approver refused, or there is none.
        """
        return await self._gate.consent(skill, session=session, message_id=message_id, call_id=call_id, written=written)

    def confirm(self, skill: Skill, consent: SkillConsent) -> None:
        """Make sure that what was just read is what was agreed to.

        Raises:
            ApprovalRejected: the skill changed in between.
        """
        self._gate.confirm(skill, consent)

    def approvals_of(self, approver: Approver) -> Approvals:
        """The same approvals with another approver."""
        return self._approvals.asking(approver)

    def share(self, sessions: SqlSessionApprovals) -> None:
        """Keep what is approved for conversations there, where it holds over a restart and in other processes."""
        self._approvals.share(sessions)

    def end_session(self, session: str) -> None:
        """Forget what was approved for that conversation."""
        self._approvals.end_session(session)

    def suggestions(self, name: str) -> tuple[str, ...]:
        """Names near to `name` among the offered skills, nearest first."""
        labels = {skill.name: skill.label for skill in self.offered()}
        return tuple(labels[near] for near in nearest(name, labels, limit=_SUGGESTIONS))

    def _look_up(self, name: str) -> Skill:
        try:
            skill = self.catalog.get(name)
        except AmbiguousSkill:
            return self._only_offered(name)
        except SkillNotFound:
            raise self._missing(name) from None
        if self._denied(skill) and not _is_named(skill, name):
            raise self._missing(name)  # a guess must not reveal that a hidden skill exists
        return skill

    def _only_offered(self, name: str) -> Skill:
        """The one offered skill among several that fit; hidden ones neither win nor show."""
        fitting = [skill for skill in self.offered() if _is_named(skill, name)]
        fitting = fitting or [skill for skill in self.offered() if name.casefold() in skill.name.casefold()]
        if len(fitting) == 1:
            return fitting[0]
        if not fitting:
            raise self._missing(name)
        candidates = [skill.reference for skill in fitting]
        raise AmbiguousSkill(
            f"More than one skill fits {quoted(name)}: {', '.join(candidates[:10])}",
            hint="name one of them by its id",
            candidates=candidates,
        )

    def _denied(self, skill: Skill) -> bool:
        return self._gate.denies(skill)

    def _missing(self, name: str) -> SkillNotFound:
        near = list(self.suggestions(name))
        hint = f"Did you mean: {', '.join(near)}?" if near else None
        return SkillNotFound(f"Unknown skill: {single_line(name[:_ECHOED])}", hint=hint, candidates=near)


def _is_named(skill: Skill, requested: str) -> bool:
    return requested.casefold() in {name.casefold() for name in (skill.id, skill.reference, skill.slug, skill.name)}
