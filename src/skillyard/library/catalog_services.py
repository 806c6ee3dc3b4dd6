"""The services of a catalog: records, approvals, the engine and its workers; each is opened at its first use."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from skillyard.catalog import Skill
from skillyard.engine import EngineSettings, PoolEngine, Records
from skillyard.errors import NotExecutable, RecordExists
from skillyard.permissions import Approvals, PermissionGate, Rules, SqlApprovalStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from skillyard.agent_definitions import AgentStore
    from skillyard.catalog import Permission, SkillCatalog
    from skillyard.engine import (
        Event,
        FiredEvent,
        Schedule,
        ScheduleOwners,
        Scheduler,
        Schedules,
        Slots,
        StartedRun,
        Worker,
    )
    from skillyard.engine.journal import Journal
    from skillyard.engine.run_call import RunCall
    from skillyard.environments import SkillGrants
    from skillyard.execution import Executor, Run, RunOrigin, Trial
    from skillyard.execution.skill_call import Interface
    from skillyard.memory import SqlMemoryService
    from skillyard.permissions import Approver
    from skillyard.search import DescriptionChange, Match, TriggerCase, TriggerResult
    from skillyard.times import Timing
    from skillyard.workspace import WorkspaceOptions

    _Work = Callable[[RunCall, Journal], Awaitable[Run | None]]


class CatalogServices:
    """The services of one catalog, as its configuration says; `slots` are shared with the catalogs of its organisations.

    With a `parent` its records and its engine are used: it is the same home, seen from another folder.

    Everything here is over the same records: nothing is opened before one of them is read or written. The catalog holds its
    services and not the other way round, so that its records are closed as soon as nobody has it any more.
    """

    def __init__(
        self, catalog: SkillCatalog, timing: Timing, slots: Slots | None = None, *, parent: CatalogServices | None = None
    ) -> None:
        self._owner = weakref.ref(catalog)
        self._engine: PoolEngine | None = None
        self._slots = slots
        self._parent = parent
        self.records: Records = parent.records if parent is not None else Records.of(catalog, timing=timing)
        records = self.records
        self.approvals = Approvals(store=SqlApprovalStore(lambda: records.database, catalog.project_root))

    @property
    def _catalog(self) -> SkillCatalog:
        catalog = self._owner()
        if catalog is None:
            raise RuntimeError("the catalog of these services is closed")
        return catalog

    @property
    def slots(self) -> Slots:
        """The turns of this process."""
        if self._parent is not None:
            return self._parent.slots
        if self._slots is None:
            self._slots = EngineSettings.of(self._catalog.configuration).slots()
        return self._slots

    def gate(self, approver: Approver | None = None) -> PermissionGate:
        """The check before each use of a skill, with the approvals of this catalog."""
        return PermissionGate(Rules.for_catalog(self._catalog), self.approvals.asking(approver))

    def executor(
        self,
        *,
        timeout_ms: int | None = None,
        install: bool = False,
        requests_grant: bool = False,
        prewarm: int | None = None,
        pools: Collection[str] = (),
    ) -> Executor:
        """The executor of the catalog's skills, as `Executor.from_configuration` makes it."""
        from skillyard.execution import Executor

        catalog = self._catalog
        return Executor.from_configuration(
            catalog.configuration,
            timeout_ms=timeout_ms,
            install=install,
            requests_grant=requests_grant,
            prewarm=prewarm,
            pools=pools,
            data=catalog.data_directory,
        )

    def grants(self) -> SkillGrants:
        """What the catalog's skills are granted."""
        from skillyard.environments import SkillGrants

        return SkillGrants.configured(self._catalog.configuration, self._catalog.data_directory)

    def workspace_options(
        self,
        permissions: Mapping[str, Permission] | Rules | None,
        packages: Sequence[str],
        writable: Sequence[str] = (),
    ) -> WorkspaceOptions:
        """What workspaces over the catalog may do and are given. Blocks."""
        from skillyard.environments import SkillGrant
        from skillyard.workspace import catalog_options

        catalog = self._catalog
        environment = self.grants().environment(SkillGrant.from_words(packages))
        rules = permissions if isinstance(permissions, Rules) else Rules.for_catalog(catalog, permissions)
        return catalog_options(catalog, rules, environment=environment, writable=writable)

    def memory(self) -> SqlMemoryService:
        """The memories, kept with the runs."""
        from skillyard.memory import SqlMemoryService

        records = self.records
        return SqlMemoryService(lambda: records.database)

    def agents(self) -> AgentStore:
        """The definitions of agents, kept with the runs."""
        from skillyard.agent_definitions import AgentStore

        records = self.records
        return AgentStore(lambda: records.database, match=self._catalog.configuration.permission_match)

    def schedules(self) -> Schedules:
        """The schedules, kept with the runs."""
        from skillyard.engine import Schedules

        records = self.records
        return Schedules(lambda: records.database)

    def engine(self, *, record: bool) -> PoolEngine:
        """The engine of all runs of the catalog."""
        catalog, engine = self._catalog, self._engine
        if engine is None and self._parent is not None:
            engine = self._engine = self._parent.engine(record=True).through(self.executor())
        elif engine is None:
            engine = self._engine = PoolEngine.of(
                catalog.configuration, self.executor(), self.records, slots=self.slots, organisation=catalog.data_directory
            )
        return engine if record else engine.unrecorded()

    async def stop_waiting(self) -> None:
        """Stop waiting for the runs that continue without this process."""
        if self._engine is not None:
            await self._engine.leave()

    def worker(self, pools: tuple[str, ...], *, concurrency: int, slots: Slots | None) -> Worker:
        """A worker with the skills of the catalog, for these pools or the pool of all runs."""
        from skillyard.engine import Worker
        from skillyard.registry import skill_with_content

        catalog = self._catalog
        settings = EngineSettings.of(catalog.configuration)
        pools = pools or (settings.pool,)

        def runner(timeout_ms: int) -> Executor:
            return self.executor(timeout_ms=timeout_ms, prewarm=0, pools=pools)

        return Worker(
            self.records.database,
            pools,
            find=lambda skill_id, digest: skill_with_content(catalog, self.gate(), skill_id, digest),
            runner=runner,
            concurrency=concurrency,
            slots=slots,
            organisation=catalog.data_directory,
            settings=settings,
        )

    def _scheduled_skill(self, skill_id: str, digest: str | None) -> Skill:
        """The skill; of an installed one the version with that digest, where it is kept."""
        from skillyard.registry import version_with_content

        skill = self._catalog.get(skill_id)
        if digest is None or not skill.id.startswith("installed:") or skill.digest() == digest:
            return skill
        return version_with_content(self._catalog, skill.id, digest) or skill

    def tests(self) -> CatalogTests:
        """What tries skills of the catalog out and records it."""
        return CatalogTests(self, self._catalog)

    def events(self) -> CatalogEvents:
        """What fires events for the skills of the catalog."""
        return CatalogEvents(self, self._catalog)

    def scheduler(
        self, begin: Callable[[Awaitable[StartedRun]], Awaitable[StartedRun]] | None, makers: ScheduleOwners | None
    ) -> Scheduler:
        """A scheduler of the catalog's schedules."""
        from skillyard.engine import Event, Scheduler, begin_scheduled
        from skillyard.execution import RunOrigin

        def engine() -> PoolEngine:
            return self.engine(record=True).through(self.executor(prewarm=0))

        async def start(schedule: Schedule, run_id: str) -> tuple[StartedRun, ...]:
            if schedule.event is not None:
                event = Event(schedule.event, schedule.parameters, id=run_id, source=f"schedule {schedule.name}")
                return (await self.events().begin(event, context=schedule.context, origin=RunOrigin("schedule"), begin=begin))[
                    1
                ]
            starting = begin_scheduled(
                schedule, run_id, schedules=self.schedules(), find=self._scheduled_skill, gate=self.gate(), engine=engine
            )
            return (await (begin(starting) if begin is not None else starting),)

        return Scheduler(self.schedules(), lambda: self.records.journal, start, makers)


class PromptSearch(Protocol):
    """The part of a catalog that evaluations of prompts need."""

    def all(self) -> Sequence[Skill]:
        """Every skill."""

    def search(self, text: str, limit: int = 10, *, min_confidence: float = 0.0) -> list[Match]:
        """The skills nearest to a text."""

    def suggest_descriptions(self, cases: Iterable[TriggerCase], *, only: str | None = None) -> list[DescriptionChange]:
        """Descriptions with which a skill is found for more of its own prompts."""


class CatalogTests:
    """Tests skills, and records each test as a run: its steps are the trials, its output the report.

    Tests are of the interface `test`, prompts of `eval`; insights count neither. Such a run ends between two trials when
    somebody has cancelled it in another process.
    """

    def __init__(self, services: CatalogServices, catalog: SkillCatalog) -> None:
        self._services, self._catalog = services, catalog

    async def begin(
        self,
        skill: Skill,
        *,
        context: Mapping[str, object] | None = None,
        digest: str | None = None,
        timeout_ms: int | None = None,
        install: bool = False,
    ) -> StartedRun:
        """Start a test of a skill in the background; the output of the run is a `TrialReport` as plain data.

        Raises:
            PermissionDenied, SkillUnusable: it may not be used.
            DatabaseUnavailable: it cannot be recorded; nothing was begun.
        """
        executor = self._services.executor(timeout_ms=timeout_ms, install=install, prewarm=0)
        return await self._begin(skill, "test", context, digest, lambda call, journal: self._tried(call, journal, executor))

    async def begin_triggers(
        self, skill: Skill, searched: PromptSearch, *, context: Mapping[str, object] | None = None
    ) -> StartedRun:
        """Start a check in the background whether the prompts in `evals/` find a skill; its scripts are not run.

        Each prompt is a step, with what was found for it. The output of the run is an `Evaluation` as plain data, with
        `suggestions` for its description where a prompt does not find it first.

        Raises:
            PermissionDenied, SkillUnusable: it may not be used.
            DatabaseUnavailable: it cannot be recorded; nothing was begun.
        """
        return await self._begin(skill, "eval", context, None, lambda call, journal: self._searched(call, journal, searched))

    async def _begin(
        self, skill: Skill, interface: Interface, context: Mapping[str, object] | None, digest: str | None, work: _Work
    ) -> StartedRun:
        import asyncio

        from skillyard.engine import StartedRun
        from skillyard.engine.run_call import new_call
        from skillyard.execution import RunOrigin, RunRequest

        self._services.gate().check(skill)
        call = new_call(RunRequest(skill, {}, context or {}, digest=digest, origin=RunOrigin(interface)))
        records = self._services.records
        journal = await asyncio.to_thread(lambda: records.journal)
        await asyncio.to_thread(lambda: journal.queue(call.record()))
        return StartedRun(call.run_id, asyncio.create_task(self._run(call, journal, work)))

    async def _run(self, call: RunCall, journal: Journal, work: _Work) -> Run:
        import asyncio

        from skillyard.engine.journal import INTERRUPTED
        from skillyard.engine.run_lifecycle import CANCELLED, run_error
        from skillyard.execution import Run

        run_id = call.run_id
        try:
            run = await work(call, journal)
        except asyncio.CancelledError:  # who cancelled it has recorded that; a server that stops has not
            await asyncio.to_thread(journal.stop, run_id, "interrupted", INTERRUPTED)
            raise
        except BaseException as error:
            await asyncio.to_thread(journal.stop, run_id, "failed", run_error(error))
            raise
        if run is None:
            return Run(run_id, call.skill.id, status="killed", error=CANCELLED)
        await asyncio.to_thread(journal.finish, run)
        return run

    async def _tried(self, call: RunCall, journal: Journal, executor: Executor) -> Run | None:
        """The run; None when somebody has ended it."""
        import asyncio
        import time

        from skillyard.document import declared_data
        from skillyard.execution import Run, RunError, StepTrace, try_skill

        skill, begin = call.skill, time.monotonic()
        steps: list[StepTrace] = []

        async def tell(trial: Trial) -> None:
            output = {
                "kind": trial.kind,
                "passed": trial.passed,
                "expected": trial.expected,
                "got": trial.got,
                "log": trial.log,
            }
            error = None if trial.passed else trial.message
            steps.append(StepTrace(str(len(steps) + 1), trial.name, trial.input, output, float(trial.duration_ms), error))
            if not await asyncio.to_thread(journal.note_step, call.run_id, steps[-1]):
                raise _Ended

        if not await asyncio.to_thread(journal.start, call.run_id):
            return None
        declared = declared_data(await asyncio.to_thread(skill.document), "examples")
        try:
            report = await try_skill(skill, executor, name=skill.name, declared=declared, digest=call.request.digest, tell=tell)
        except _Ended:
            return None
        why = f"{report.failed} of {len(report.trials)} failed" if report.trials else "there is nothing to test"
        return Run(
            call.run_id,
            skill.id,
            status="ok" if report.ok else "error",
            output=report.to_dict(),
            error=None if report.ok else RunError("TESTS_FAILED", why),
            steps=tuple(steps),
            warnings=report.notes,
            duration_ms=round((time.monotonic() - begin) * 1000),
            format="object",
            message=f"{report.passed} of {len(report.trials)} passed",
        )

    async def _searched(self, call: RunCall, journal: Journal, catalog: PromptSearch) -> Run | None:
        """The run; None when somebody has ended it."""
        import asyncio
        import time

        from skillyard.execution import Run, RunError, StepTrace
        from skillyard.search import evaluation_of, skill_trigger_cases, try_trigger

        skill, begin = call.skill, time.monotonic()
        if not await asyncio.to_thread(journal.start, call.run_id):
            return None
        cases, notes = await asyncio.to_thread(skill_trigger_cases, skill)
        results: list[TriggerResult] = []
        steps: list[StepTrace] = []
        for number, case in enumerate(cases, 1):
            begun = time.monotonic()
            result = await asyncio.to_thread(
                try_trigger, case, lambda text, limit: catalog.search(text, limit, min_confidence=0.0)
            )
            results.append(result)
            output = {"kind": "prompt", "passed": result.passed, "rank": result.rank, "expected": bool(case.expected)}
            output["found"] = [
                {"id": match.skill.id, "name": match.skill.name, "confidence": match.confidence, "matched": list(match.matched)}
                for match in result.found[:_FOUND]
            ]
            took = (time.monotonic() - begun) * 1000
            steps.append(StepTrace(str(number), case.prompt, None, output, took, result.message or None))
            if not await asyncio.to_thread(journal.note_step, call.run_id, steps[-1]):
                return None
        suggestions = []
        if any(result.case.expected and result.rank != 1 for result in results):
            suggestions = await asyncio.to_thread(self._suggested, skill, cases, catalog)
        failed = sum(not result.passed for result in results)
        report = evaluation_of(results).to_dict() | {"suggestions": [change.to_dict() for change in suggestions]}
        why = f"{failed} of {len(results)} failed" if results else "there is nothing to test"
        ok = bool(results) and not failed
        return Run(
            call.run_id,
            skill.id,
            status="ok" if ok else "error",
            output=report,
            error=None if ok else RunError("TESTS_FAILED", why),
            steps=tuple(steps),
            warnings=tuple(notes),
            duration_ms=round((time.monotonic() - begin) * 1000),
            format="object",
            message=f"{len(results) - failed} of {len(results)} passed",
        )

    @staticmethod
    def _suggested(skill: Skill, own: Sequence[TriggerCase], catalog: PromptSearch) -> list[DescriptionChange]:
        """Other descriptions for the skill; the prompts of its neighbours, as far as they have some, must lose nothing."""
        from skillyard.search import skill_trigger_cases

        cases = list(own)
        for other in catalog.all():
            if other.id != skill.id and other.status == "ok" and len(cases) < _NEIGHBOURS:
                cases += skill_trigger_cases(other)[0]
        return catalog.suggest_descriptions(cases[: max(_NEIGHBOURS, len(own))], only=skill.id)


_FOUND: Final = 5  # matches of one prompt that are kept
_NEIGHBOURS: Final = 300  # prompts in all that a suggestion is held against


class _Ended(Exception):
    """Nothing more of it is tried."""


class CatalogEvents:
    """Fires events: the skills that declare the type of an event run."""

    def __init__(self, services: CatalogServices, catalog: SkillCatalog) -> None:
        self._services, self._catalog = services, catalog

    async def fire(
        self, event: Event, *, context: Mapping[str, object] | None = None, approver: Approver | None = None
    ) -> FiredEvent:
        """Run every skill that declares the type of the event, the highest priority first; return when all have ended.

        Each gets the event's data as parameters, and `event` in its context. An event of the same id runs a skill once. Where a
        rule says `ask` the `approver` decides; without one the skill is reported as `needs_approval`, and does not run.

        Raises:
            DatabaseUnavailable: the records cannot be used.
        """
        from skillyard.engine import ended_event

        return await ended_event(*await self.begin(event, context=context, approver=approver))

    async def begin(
        self,
        event: Event,
        *,
        context: Mapping[str, object] | None = None,
        approver: Approver | None = None,
        asker: Callable[[str], Approver] | None = None,
        origin: RunOrigin | None = None,
        begin: Callable[[Awaitable[StartedRun]], Awaitable[StartedRun]] | None = None,
    ) -> tuple[FiredEvent, tuple[StartedRun, ...]]:
        """As `fire`, without waiting; returns the started runs too.

        With an `asker`, which gives an approver for the id of a run, a run that must be approved waits in the queue for the
        answer. `begin` receives the start of each run, for a host that keeps track of them.
        """
        import asyncio

        from skillyard.engine import begin_event, record_event, waiting_skills
        from skillyard.execution import RunOrigin, RunRequest

        catalog, services = self._catalog, self._services
        executor = services.executor(prewarm=0)
        engine = services.engine(record=True).through(executor)

        async def start(skill: Skill, run_id: str) -> StartedRun:
            services.gate().check(skill)
            if not await asyncio.to_thread(executor.can_run, skill):
                raise NotExecutable("nothing of it can run here: models read its instructions")
            if await asyncio.to_thread(services.records.journal.states, [run_id]):
                raise RecordExists("the event has started this run before")
            request = RunRequest(
                skill, event.data, {**(context or {}), "event": event.about}, run_id=run_id, origin=origin or RunOrigin("event")
            )
            consent = None
            if services.gate().rules.decide(skill) == "ask":
                gate = services.gate(asker(run_id) if asker else approver)

                async def agreed() -> str | None:
                    return (await gate.consent(skill, session=event.id)).digest

                if asker is None:
                    request = replace(request, digest=await agreed())
                else:
                    consent = agreed
            starting = engine.begin(request, consent=consent)
            return await (begin(starting) if begin is not None else starting)

        matches = await asyncio.to_thread(waiting_skills, catalog.all(), event.type)
        fired, begun = await begin_event(event, matches, start, owner=str((context or {}).get("userId") or ""))
        await asyncio.to_thread(record_event, services.records.database, event, fired)
        return fired, begun
