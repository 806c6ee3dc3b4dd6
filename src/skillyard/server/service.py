"""What the routes share: the catalog, the registry, and how a request gets at them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from skillyard.catalog import Skill
from skillyard.errors import PermissionDenied, SkillUnusable
from skillyard.library import Catalog
from skillyard.permissions import PolicyApprover
from skillyard.registry import InstalledSkill, Registry
from skillyard.server.callers import Caller
from skillyard.server.changing import Changing
from skillyard.server.desk import RunDesk
from skillyard.server.installs import InstallDesk
from skillyard.server.prepared import PreparedPages
from skillyard.server.questions import Questions

__all__ = ["Served", "Service", "nobody"]


@dataclass(frozen=True, slots=True)
class Service:
    """The rooms below, as one application uses them; `changing` is held while the catalog is changed.

    `runs` and `installs` go on after their request was answered, `questions` wait for somebody to answer them.
    """

    catalog: Catalog
    registry: Registry
    changing: Changing = field(init=False)
    runs: RunDesk = field(default_factory=RunDesk)
    questions: Questions = field(default_factory=Questions)
    installs: InstallDesk = field(default_factory=InstallDesk)
    pages: PreparedPages = field(default_factory=PreparedPages)

    @property
    def busy(self) -> bool:
        """Whether something goes on that was asked for by a request that is answered."""
        return self.runs.busy or self.installs.busy

    async def close(self, grace_s: float) -> None:
        """Let what goes on come to its end, runs for at most `grace_s` seconds; nothing new may be asked for."""
        await self.installs.close()
        await self.runs.close(grace_s)

    def __post_init__(self) -> None:
        object.__setattr__(self, "changing", Changing(self.catalog.data_directory))

    async def follow(self) -> None:
        """See what other processes that serve the same folder have changed."""
        if self.changing.elsewhere():
            await run_in_threadpool(self.changing.look, self.catalog.refresh)

    def owner(self, caller: Caller) -> str:
        """Whose memories and sessions a caller's are."""
        return f"{caller.organisation}/{caller.name}"

    def refresh(self) -> dict[str, list[str]]:
        """Look at the folders again; give the ids that are `added`, `changed` and `removed`."""
        with self.changing:
            changes = self.catalog.refresh()
        return {"added": list(changes.added), "changed": list(changes.changed), "removed": list(changes.removed)}

    def admit(self, skill: Skill) -> None:
        """Return when the rules let the files of a skill be read; where they say `ask`, only what the workspace agreed to.

        Raises:
            PermissionDenied: a rule denies it.
            ApprovalRejected: it would have to be asked for.
        """
        gate = self.catalog.gate(nobody())
        with contextlib.suppress(SkillUnusable):  # what may not be used may still be looked at
            gate.check(skill)
        if self.catalog.rules().decide(skill) == "ask":
            asyncio.run(gate.consent(skill, session="http"))

    def admit_installed(self, skill: InstalledSkill) -> None:
        """The same for an installed skill, which this catalog need not see."""
        known_as = (skill.name, skill.skill_id, f"installed:{skill.skill_id}")
        said = {self.catalog.rules().decide(name) for name in known_as}
        if "deny" in said:
            raise PermissionDenied(f"a rule denies the skill {skill.skill_id}", hint="the rule is in the configuration")
        if "ask" in said:
            self.admit(self.catalog.get(f"installed:{skill.skill_id}"))


def nobody() -> PolicyApprover:
    """Who answers over HTTP where a rule says `ask`."""
    return PolicyApprover("reject", "nobody can be asked over HTTP")


async def _service(request: Request) -> Service:
    found = request.app.state.service
    assert isinstance(found, Service)  # noqa: S101 # the application puts it there
    await found.follow()
    return found


Served = Annotated[Service, Depends(_service)]
