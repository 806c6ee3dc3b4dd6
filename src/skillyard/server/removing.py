"""Taking a skill, or one of its versions, away on the word of another protocol."""

from __future__ import annotations

from skillyard.server.numbering import Numbered
from skillyard.server.offered import one_offered, usable_versions
from skillyard.server.service import Service

__all__ = ["let_serve", "remove_skill", "remove_version"]


def remove_skill(service: Service, skill_id: str) -> None:
    """Uninstall a skill. One whose last version was deleted is gone already, and that is no error.

    Raises:
        SkillNotFound: there is none.
        PermissionDenied: a rule denies it.
    """
    known = one_offered(service, skill_id, installed=False)
    if known.active or usable_versions(service, skill_id):
        service.registry.uninstall(skill_id)
        service.refresh()


def remove_version(service: Service, one: Numbered) -> None:
    """Delete a version for good. When it serves, the newest other one does so first; the last one takes the skill along.

    Raises:
        VersionUnusable: an agent is locked to it, or somebody reads it now.
        LocalEdits: it was changed by hand.
    """
    skill_id = one.version.skill_id
    if one.version.current:
        others = [other for other in usable_versions(service, skill_id) if not other.version.current]
        if others:
            let_serve(service, others[0])
        else:
            service.registry.uninstall(skill_id)
    service.registry.discard(skill_id, one.version.version)
    service.refresh()


def let_serve(service: Service, one: Numbered) -> None:
    """Let this version serve; that it was left once for another one does not stand in the way.

    Raises:
        VersionUnusable: somebody deprecated it for a reason, or its files are gone.
    """
    skill_id, version = one.version.skill_id, one.version.version
    if (one.version.deprecated_reason or "").startswith("rolled back to "):
        service.registry.deprecate(skill_id, version, undo=True)
    service.registry.rollback(skill_id, version)
    service.refresh()
