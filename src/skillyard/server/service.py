"""What the routes share: the catalog, the registry, and how a request gets at them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from skillyard.access import DEFAULT
from skillyard.catalog import Changes, Skill
from skillyard.errors import PermissionDenied, SkillUnusable
from skillyard.library import Catalog
from skillyard.permissions import SqlSessionApprovals
from skillyard.registry import InstalledSkill, Registry
from skillyard.server.callers import Caller
from skillyard.server.changing import Changing
from skillyard.server.chat_desk import ChatDesk
from skillyard.server.desk import RunDesk
from skillyard.server.installs import InstallDesk
from skillyard.server.noticing import Noticed
from skillyard.server.prepared import PreparedPages
from skillyard.server.questions import Questions, nobody
from skillyard.server.toolboxes import Toolboxes

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from skillyard.server.homes import Homes

__all__ = ["Housing", "Served", "Service"]

_SETTLED_MS: Final = 150  # changes of files that come closer together are looked at once


@dataclass(frozen=True, slots=True)
class Service:
    """The rooms below, as one application uses them; `changing` is held while the catalog is changed.

    `runs`, `installs` and the turns of `chats` go on after their request was answered, `questions` wait for somebody to answer
    them.
    """

    catalog: Catalog
    registry: Registry
    changing: Changing = field(init=False)
    runs: RunDesk = field(default_factory=RunDesk)
    questions: Questions = field(init=False)
    installs: InstallDesk = field(init=False)
    chats: ChatDesk = field(default_factory=ChatDesk)
    pages: PreparedPages = field(default_factory=PreparedPages)
    tools: Toolboxes = field(init=False)
    noticed: Noticed = field(default_factory=Noticed)

    @property
    def busy(self) -> bool:
        """Whether something goes on that was asked for by a request that is answered."""
        return self.runs.busy or self.installs.busy or self.chats.busy

    async def close(self, grace_s: float) -> None:
        """Let what goes on come to its end, runs for at most `grace_s` seconds; nothing new may be asked for."""
        self.questions.close()
        await self.chats.close()
        await self.installs.close()
        await self.catalog.stop_waiting()
        await self.runs.close(grace_s)

    def __post_init__(self) -> None:
        object.__setattr__(self, "changing", Changing(self.catalog.data_directory))
        records = self.catalog.records()
        questions = Questions(lambda: records.database, self.catalog.project_root)
        object.__setattr__(self, "questions", questions)
        object.__setattr__(self, "tools", Toolboxes(lambda: records.database))
        object.__setattr__(self, "installs", InstallDesk(lambda: records.database))
        self.catalog.approvals().share(SqlSessionApprovals(lambda: records.database))

    async def catch_up(self) -> None:
        """See what other processes that serve the same folder have changed."""
        if self.changing.elsewhere():
            await run_in_threadpool(self.changing.look, self._look)

    def owner(self, caller: Caller) -> str:
        """Whose memories and sessions a caller's are."""
        return f"{caller.organisation}/{caller.name}"

    async def follow(self) -> None:
        """Let the catalog follow what others do to its folders, for as long as this is awaited."""
        await run_in_threadpool(self.registry.root.mkdir, parents=True, exist_ok=True)  # what is not there is not watched
        async for _ in self.catalog.watch(debounce_ms=_SETTLED_MS, refresh=self.look):
            pass

    def look(self) -> Changes:
        """Look at the folders again; what is different is remembered for who asks."""
        with self.changing.held():
            changes = self._look()
            if changes.any:
                self.changing.tell()
        return changes

    def _look(self) -> Changes:
        changes = self.catalog.refresh()
        self.noticed.add(changes.added, changes.changed, changes.removed)
        return changes

    def refresh(self) -> dict[str, list[str]]:
        """Look at the folders again; give the ids that are `added`, `changed` and `removed` since the last time."""
        self.look()
        return self.noticed.tell()

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
        rules, folder = self.catalog.rules(), f"{self.registry.root}/{skill.skill_id}/current"
        said = {rules.rule_installed((name,), folder).permission for name in known_as}
        if "deny" in said:
            raise PermissionDenied(f"a rule denies the skill {skill.skill_id}", hint="the rule is in the configuration")
        if "ask" in said:
            self.admit(self.catalog.get(f"installed:{skill.skill_id}"))


class Housing:
    """Keeps the rooms that a request asks for open until it has been answered; those of the default one are always."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on."""
        if scope["type"] != "http" or scope["state"]["caller"].organisation == DEFAULT:
            await self._app(scope, receive, send)
            return
        async with contextlib.AsyncExitStack() as held:
            scope["state"]["held"] = held
            await self._app(scope, receive, send)


async def _service(request: Request) -> Service:
    homes: Homes = request.app.state.homes
    caller: Caller = request.state.caller
    at_home = caller.organisation == DEFAULT
    service = homes.main if at_home else await request.state.held.enter_async_context(homes.of(caller.organisation))
    request.state.with_aliases = service.catalog.with_aliases
    await service.catch_up()
    return service


Served = Annotated[Service, Depends(_service)]
"""The rooms below, as the caller's organisation sees them."""
