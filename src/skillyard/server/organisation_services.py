"""What the routes share: the catalog, registry and background work of each organisation, and how a request gets at them.

The services of the default organisation are open as long as the server; those of others are opened when somebody of them first
asks, and closed when long unused.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from skillyard.access import DEFAULT_ORGANISATION, Organisations
from skillyard.catalog import Changes, Skill
from skillyard.database import Database
from skillyard.errors import PermissionDenied, SkillUnusable
from skillyard.library import Catalog
from skillyard.permissions import SqlSessionApprovals
from skillyard.registry import InstalledSkill, Registry
from skillyard.server.authorization import Caller
from skillyard.server.background.approval_questions import ApprovalQuestions, rejecting_approver
from skillyard.server.background.catalog_changes import CatalogChangeLock, PageCache, PendingChanges
from skillyard.server.background.model_sessions import CallerToolSessions, LazyChat
from skillyard.server.background.running_work import BackgroundInstalls, BackgroundRuns

if TYPE_CHECKING:
    pass


_SETTLED_MS: Final = 150  # changes of files that come closer together are looked at once


@dataclass(frozen=True, slots=True)
class OrganisationServices:
    """The rooms below, as one application uses them; `changing` is held while the catalog is changed.

    `runs`, `installs` and the turns of `chats` go on after their request was answered, `questions` wait for somebody to answer
    them.
    """

    catalog: Catalog
    registry: Registry
    changing: CatalogChangeLock = field(init=False)
    runs: BackgroundRuns = field(default_factory=BackgroundRuns)
    questions: ApprovalQuestions = field(init=False)
    installs: BackgroundInstalls = field(init=False)
    chats: LazyChat = field(default_factory=LazyChat)
    pages: PageCache = field(default_factory=PageCache)
    tools: CallerToolSessions = field(init=False)
    noticed: PendingChanges = field(default_factory=PendingChanges)

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
        object.__setattr__(self, "changing", CatalogChangeLock(self.catalog.data_directory))
        records = self.catalog.records()
        questions = ApprovalQuestions(lambda: records.database, self.catalog.project_root)
        object.__setattr__(self, "questions", questions)
        object.__setattr__(self, "tools", CallerToolSessions(lambda: records.database))
        object.__setattr__(self, "installs", BackgroundInstalls(lambda: records.database))
        self.catalog.approvals().share(SqlSessionApprovals(lambda: records.database))

    async def catch_up(self) -> None:
        """See what other processes that serve the same folder have changed."""
        if self.changing.changed_elsewhere():
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
        gate = self.catalog.gate(rejecting_approver())
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


async def _current_services(request: Request) -> OrganisationServices:
    homes: OrganisationPool = request.app.state.homes
    caller: Caller = request.state.caller
    at_home = caller.organisation == DEFAULT_ORGANISATION
    service = homes.main if at_home else await request.state.held.enter_async_context(homes.of(caller.organisation))
    request.state.with_aliases = service.catalog.with_aliases
    await service.catch_up()
    return service


CurrentServices = Annotated[OrganisationServices, Depends(_current_services)]
"""The rooms below, as the caller's organisation sees them."""
_KEPT: Final = 16


@dataclass(slots=True)
class _OpenOrganisation:
    service: OrganisationServices
    users: int = 0
    following: asyncio.Task[None] | None = None

    async def close(self, grace_s: float) -> None:
        """Let go of everything; what goes on may go on for `grace_s` seconds."""
        if self.following is not None:
            await _cancel(self.following)
        await self.service.close(grace_s)
        await run_in_threadpool(self.service.registry.close)
        await run_in_threadpool(self.service.catalog.records().close)


class OrganisationPool:
    """Gives the `Service` of an organisation; that of the default one is the server's own, `main`.

    At most `kept` others stay open beside those that are in use.
    """

    def __init__(self, main: OrganisationServices, *, kept: int = _KEPT) -> None:
        self._main = _OpenOrganisation(main)
        self._kept = kept
        self._open: OrderedDict[str, _OpenOrganisation] = OrderedDict()
        self._lock = threading.Lock()  # held for moments only
        self._opening = threading.Lock()

    @property
    def main(self) -> OrganisationServices:
        """The rooms of the default organisation."""
        return self._main.service

    @contextlib.asynccontextmanager
    async def running(self, grace_s: Callable[[], float]) -> AsyncIterator[None]:
        """Let the catalog of `main` follow what others do to its folders; at the end let go of every home.

        What goes on then may go on for `grace_s` seconds, asked when it is time.
        """
        following = asyncio.create_task(self.main.follow())
        yield
        await _cancel(following)
        await self.close(grace_s())

    def close_questions(self) -> None:
        """Close the questions that are put from here: a server that stops would wait for their answers in vain."""
        with self._lock:
            homes = [*self._open.values(), self._main]
        for home in homes:
            home.service.questions.close()

    @property
    def organisations(self) -> Organisations:
        """Which there are."""
        return Organisations(self.database)

    def database(self) -> Database:
        """The server's main database: keys, sessions and organisations are in it."""
        return self.main.catalog.records().database

    @contextlib.asynccontextmanager
    async def of(self, organisation: str) -> AsyncIterator[OrganisationServices]:
        """The rooms of an organisation, open as long as the block lasts.

        Raises:
            RecordNotFound: there is no such organisation.
            DatabaseUnavailable: its records cannot be opened.
        """
        if organisation == DEFAULT_ORGANISATION:
            yield self.main
            return
        while (home := self._taken(organisation)) is None:
            await run_in_threadpool(self._opened, organisation)  # not counted there: the caller may have gone meanwhile
        if home.following is None or home.following.done():
            home.following = asyncio.create_task(home.service.follow())
        try:
            yield home.service
        finally:
            for unused in self._given_back(home):
                await unused.close(0)

    async def close(self, grace_s: float) -> None:
        """Let go of every home; what goes on there may go on for `grace_s` seconds."""
        with self._lock:
            homes = [*self._open.values(), self._main]
            self._open.clear()
        await asyncio.gather(*(home.close(grace_s) for home in homes))

    def _taken(self, organisation: str) -> _OpenOrganisation | None:
        """The home, counted as in use; None when it is not open."""
        with self._lock:
            home = self._open.get(organisation)
            if home is not None:
                home.users += 1
                self._open.move_to_end(organisation)
            return home

    def _opened(self, organisation: str) -> None:
        with self._opening:
            if organisation not in self._open:
                made = _OpenOrganisation(self._service(organisation))
                with self._lock:
                    self._open[organisation] = made

    def _service(self, name: str) -> OrganisationServices:
        catalog = self.organisations.catalog(name, self.main.catalog)
        registry = self.main.registry.for_catalog(catalog)
        _ = registry.records  # what a killed server left there is put in order
        return OrganisationServices(catalog, registry)

    def _given_back(self, home: _OpenOrganisation) -> list[_OpenOrganisation]:
        """Count a home as used by one less; what is to be let go of for that."""
        with self._lock:
            home.users -= 1
            idle = [name for name, other in self._open.items() if not (other.users or other.service.busy)]
            return [self._open.pop(name) for name in idle[: max(0, len(self._open) - self._kept)]]


async def _cancel(following: asyncio.Task[None]) -> None:
    if not following.done():
        following.cancel()
        await asyncio.wait([following])
