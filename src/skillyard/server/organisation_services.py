"""What the routes share: the services of each organisation, how a request gets them, and the clock of their schedules.

The services of the default organisation are open as long as the server; those of others are opened when somebody of them first
asks, and closed when long unused. Every server process watches the schedules: that a run of one is begun once is in its id, so
none has to know of another. How long to wait is measured without the wall clock, which may be set back while one waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from skillyard.access import DEFAULT_ORGANISATION, AuditLog, Keys, Organisations, SkillCollections
from skillyard.catalog import Changes, Skill
from skillyard.database import Database
from skillyard.engine import ScheduleOwners
from skillyard.errors import DatabaseDamaged, DatabaseUnavailable, PermissionDenied, SkillUnusable, SkillyardError
from skillyard.library import Catalog
from skillyard.permissions import SqlSessionApprovals
from skillyard.registry import InstalledSkill, Registry
from skillyard.server.authorization import Caller
from skillyard.server.background.approval_questions import ApprovalQuestions, RequestApprover
from skillyard.server.background.caller_sessions import CallerToolSessions, CallerWorkspaces, LazyChat, SessionSlots
from skillyard.server.background.catalog_changes import CatalogChangeLock, PageCache, PendingChanges, RecentUses, ScanReports
from skillyard.server.background.running_work import BackgroundInstalls, BackgroundRuns, NotificationSources
from skillyard.times import utc_now

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


_SETTLED_MS: Final = 150  # changes of files that come closer together are looked at once


class OrganisationServices:
    """The catalog, registry and background work of one organisation; `change_lock` is held while the catalog is changed.

    `runs`, `installs` and the turns of `chat` go on after their request was answered, `questions` wait for somebody to answer
    them. The `sessions` of workspaces are counted over all organisations.
    """

    def __init__(self, catalog: Catalog, registry: Registry, sessions: SessionSlots) -> None:
        self.catalog = catalog
        self.registry = registry
        self.change_lock = CatalogChangeLock(catalog.data_directory)
        self.pending_changes = PendingChanges()
        self.page_cache = PageCache()
        self.scans = ScanReports()
        self.uses = RecentUses(self.database)
        self.runs = BackgroundRuns()
        self.installs = BackgroundInstalls(self.database)
        self.questions = ApprovalQuestions(self.database, catalog.project_root)
        self.chat = LazyChat()
        self.workspaces = CallerWorkspaces(catalog, sessions)
        self.tool_sessions = CallerToolSessions(self.database)
        self.audit_log = AuditLog(self.database)
        self.collections = SkillCollections(self.database)
        catalog.approvals().share(SqlSessionApprovals(self.database))

    def database(self) -> Database:
        """The database of the organisation's records, opened at its first use."""
        return self.catalog.records().database

    @property
    def busy(self) -> bool:
        """Whether background work of an answered request is in progress."""
        return self.runs.busy or self.installs.busy or self.chat.busy or self.workspaces.busy

    async def close(self, grace_s: float) -> None:
        """Wait for background work to end, runs for at most `grace_s` seconds; no new work is accepted."""
        self.questions.close()
        await self.chat.close()
        await self.workspaces.close()
        await self.installs.close()
        await self.catalog.stop_waiting()
        await self.runs.close(grace_s)

    async def catch_up(self) -> None:
        """See what other processes that serve the same folder have changed."""
        if self.change_lock.changed_elsewhere():
            await run_in_threadpool(self.change_lock.refresh_if_changed, self._refresh)

    def owner(self, caller: Caller) -> str:
        """Whose memories and sessions a caller's are."""
        return f"{caller.organisation}/{caller.name}"

    async def follow(self) -> None:
        """Watch the folders of the catalog for as long as this is awaited."""
        await run_in_threadpool(self.registry.root.mkdir, parents=True, exist_ok=True)  # a missing folder is not watched
        async for _ in self.catalog.watch(debounce_ms=_SETTLED_MS, refresh=self.refresh_catalog):
            pass

    def refresh_catalog(self) -> Changes:
        """Rescan the folders; the changes are kept for the next request for them."""
        with self.change_lock.held():
            changes = self._refresh()
            if changes.any:
                self.change_lock.announce()
        return changes

    def refresh_after_change(self) -> None:
        """Rescan the folders after a change of this process, and announce it.

        It is announced even where the scan finds nothing new: a request that scanned meanwhile has announced nothing.
        """
        with self.change_lock:
            self._refresh()

    def _refresh(self) -> Changes:
        changes = self.catalog.refresh()
        self.pending_changes.add(changes.added, changes.changed, changes.removed)
        return changes

    def refresh(self) -> dict[str, list[str]]:
        """Rescan the folders; give the ids that were `added`, `changed` and `removed` since the last time."""
        self.refresh_catalog()
        return self.pending_changes.take()

    def agreed_digest(self, skill: Skill) -> str | None:
        """The digest of a skill that the workspace approved; None where no rule requires an approval. Blocks.

        Raises:
            ApprovalRejected: it would have to be asked for.
        """
        if self.catalog.rules().decide(skill) != "ask":
            return None
        return asyncio.run(self.catalog.gate(RequestApprover()).consent(skill, session="http")).digest

    def require_installed_readable(self, skill: InstalledSkill) -> None:
        """Return when the rules permit giving an installed skill to programs; with `ask` only content that was approved.

        The catalog need not see the skill.

        Raises:
            PermissionDenied: a rule denies it.
            ApprovalRejected: it would have to be asked for.
        """
        names = (skill.name, skill.skill_id, f"installed:{skill.skill_id}")
        rules, folder = self.catalog.rules(), f"{self.registry.root}/{skill.skill_id}/current"
        permissions = {rules.rule_installed((name,), folder).permission for name in names}
        if "deny" in permissions:
            raise PermissionDenied(f"a rule denies the skill {skill.skill_id}", hint="the rule is in the configuration")
        if "ask" in permissions:
            found = self.catalog.get(f"installed:{skill.skill_id}")
            with contextlib.suppress(SkillUnusable):  # an unusable skill may still be read
                self.catalog.gate().check(found)
            self.agreed_digest(found)


async def _current_services(request: Request) -> OrganisationServices:
    pool: OrganisationPool = request.app.state.pool
    caller: Caller = request.state.caller
    at_home = caller.organisation == DEFAULT_ORGANISATION
    service = pool.main if at_home else await request.state.held.enter_async_context(pool.of(caller.organisation))
    request.state.with_aliases = service.catalog.with_aliases
    await service.catch_up()
    return service


CurrentServices = Annotated[OrganisationServices, Depends(_current_services)]
"""The services of the caller's organisation."""
_KEPT: Final = 16


@dataclass(slots=True)
class _OpenOrganisation:
    service: OrganisationServices
    users: int = 0
    following: asyncio.Task[None] | None = None

    async def close(self, grace_s: float) -> None:
        """Close everything; background work has `grace_s` seconds to end."""
        if self.following is not None:
            await _cancel(self.following)
        await self.service.close(grace_s)
        await run_in_threadpool(self.service.registry.close)
        await run_in_threadpool(self.service.catalog.records().close)


class OrganisationPool:
    """Gives the services of an organisation; those of the default one are the server's own, `main`.

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
        """The services of the default organisation."""
        return self._main.service

    @contextlib.asynccontextmanager
    async def running(self, grace_s: Callable[[], float]) -> AsyncIterator[None]:
        """Watch the folders of `main`'s catalog; at the end close every organisation.

        Background work then has `grace_s` seconds, evaluated at that time.
        """
        following = asyncio.create_task(self.main.follow())
        yield
        await _cancel(following)
        await self.close(grace_s())

    def close_questions(self) -> None:
        """Close the questions that are put from here: a server that stops would wait for answers that never come."""
        with self._lock:
            opened = [*self._open.values(), self._main]
        for each in opened:
            each.service.questions.close()

    @property
    def organisations(self) -> Organisations:
        """The organisations of this server."""
        return Organisations(self.database)

    def database(self) -> Database:
        """The server's main database: keys, sessions and organisations are in it."""
        return self.main.catalog.records().database

    @contextlib.asynccontextmanager
    async def of(self, organisation: str) -> AsyncIterator[OrganisationServices]:
        """The services of an organisation, open as long as the block lasts.

        Raises:
            RecordNotFound: there is no such organisation.
            DatabaseUnavailable: its records cannot be opened.
        """
        if organisation == DEFAULT_ORGANISATION:
            yield self.main
            return
        while (opened := self._taken(organisation)) is None:
            await run_in_threadpool(self._opened, organisation)  # not counted there: the caller may be cancelled meanwhile
        if opened.following is None or opened.following.done():
            opened.following = asyncio.create_task(opened.service.follow())
        try:
            yield opened.service
        finally:
            for unused in self._given_back(opened):
                await unused.close(0)

    @contextlib.asynccontextmanager
    async def sources(self, organisation: str) -> AsyncIterator[NotificationSources]:
        """Where the news of an organisation come from, for as long as the block lasts; raises as `of`."""
        async with self.of(organisation) as service:
            database = await run_in_threadpool(service.database)
            yield NotificationSources(service.questions, service.registry, database)

    async def close(self, grace_s: float) -> None:
        """Close every organisation; background work there has `grace_s` seconds to end."""
        with self._lock:
            opened = [*self._open.values(), self._main]
            self._open.clear()
        await asyncio.gather(*(each.close(grace_s) for each in opened))

    def _taken(self, organisation: str) -> _OpenOrganisation | None:
        """The organisation, counted as in use; None when it is not open."""
        with self._lock:
            opened = self._open.get(organisation)
            if opened is not None:
                opened.users += 1
                self._open.move_to_end(organisation)
            return opened

    def _opened(self, organisation: str) -> None:
        with self._opening:
            if organisation not in self._open:
                made = _OpenOrganisation(self._service(organisation))
                with self._lock:
                    self._open[organisation] = made

    def _service(self, name: str) -> OrganisationServices:
        catalog = self.organisations.catalog(name, self.main.catalog)
        registry = self.main.registry.for_catalog(catalog)
        _ = registry.records  # recovers what a killed server left there
        return OrganisationServices(catalog, registry, self.main.workspaces.slots)

    def _given_back(self, opened: _OpenOrganisation) -> list[_OpenOrganisation]:
        """Count an organisation as used by one less; those that are to be closed for that."""
        with self._lock:
            opened.users -= 1
            idle = [name for name, other in self._open.items() if not (other.users or other.service.busy)]
            return [self._open.pop(name) for name in idle[: max(0, len(self._open) - self._kept)]]


async def _cancel(following: asyncio.Task[None]) -> None:
    if not following.done():
        following.cancel()
        await asyncio.wait([following])


class OrganisationScope:
    """Middleware: the services that a request uses stay open until it was answered; those of the default one always are."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on."""
        if scope["type"] != "http" or scope["state"]["caller"].organisation == DEFAULT_ORGANISATION:
            await self._app(scope, receive, send)
            return
        async with contextlib.AsyncExitStack() as held:
            scope["state"]["held"] = held
            await self._app(scope, receive, send)


_log = logging.getLogger(__name__)


class ScheduleClock:
    """Begins the runs of all schedules of one server."""

    def __init__(self, pool: OrganisationPool) -> None:
        self._pool, self._timing = pool, pool.main.catalog.timing
        self._looks: dict[str, float] = {}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Check the schedules inside the block; a check that has begun is finished before it ends."""
        leaving = asyncio.Event()
        going = asyncio.create_task(self._go(leaving))
        yield
        leaving.set()
        await asyncio.wait([going])

    async def _go(self, leaving: asyncio.Event) -> None:
        while not leaving.is_set():
            try:
                for name in await asyncio.to_thread(self._names):
                    if self._looks.get(name, 0.0) <= time.monotonic() and not leaving.is_set():
                        await self._look(name)
            except DatabaseDamaged as error:
                _log.error("looking at the schedules failed: %s", error.sentence)  # Skillyard's own errors need no traceback
            except DatabaseUnavailable:
                pass  # `readyz` reports it
            except Exception:
                _log.exception("looking at the schedules failed")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timing.schedules_tick_s):
                    await leaving.wait()

    def wake(self, organisation: str) -> None:
        """Check the schedules of an organisation at the next tick: they have been changed."""
        self._looks[organisation] = 0.0

    def _names(self) -> list[str]:
        if self._looks and min(self._looks.values()) > time.monotonic():
            return []
        return [organisation.name for organisation in self._pool.organisations.all()]

    async def _look(self, name: str) -> None:
        """Begin what has come due in one organisation."""
        self._looks[name] = time.monotonic() + self._timing.schedules_look_s
        try:
            async with self._pool.of(name) as service:
                scheduler = service.catalog.scheduler(service.runs.begin, ScheduleOwners(Keys(self._pool.database), name))
                await scheduler.begin_due()
                following = await scheduler.next_at()
        except DatabaseUnavailable:
            raise
        except SkillyardError as error:
            if name == DEFAULT_ORGANISATION:
                _log.warning("the schedules of %s: %s", name, error.message)
            return
        if following is not None:
            self._looks[name] = min(self._looks[name], time.monotonic() + (following - utc_now()).total_seconds())
