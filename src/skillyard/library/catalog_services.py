"""The services that work on a catalog: rules and approvals, records, registry, engine; each is opened when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard import catalog as room
from skillyard.timing import DEFAULT_TIMING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Self

    from skillyard.agent_definitions import AgentStore
    from skillyard.engine import PoolEngine, Records, Schedule, ScheduleOwners, Scheduler, Schedules, Slots, StartedRun, Worker
    from skillyard.execution import Executor
    from skillyard.memory import SqlMemoryService
    from skillyard.permissions import Approvals, Approver, PermissionGate, Rules
    from skillyard.registry import Registry
    from skillyard.scanner import Suppression
    from skillyard.timing import Timing


class CatalogServices(room.SkillCatalog):
    """A catalog with the rooms that work on its skills, as its configuration says."""

    timing: Timing = DEFAULT_TIMING
    """How long its services wait; set before they are first used."""
    _recorded: Records | None = None
    _engine: PoolEngine | None = None
    _slots: Slots | None = None
    _approvals: Approvals | None = None

    def rules(self) -> Rules:
        """The permission rules of the configuration; without any, everything is allowed."""
        from skillyard.permissions import Rules

        return Rules.for_catalog(self)

    def gate(self, approver: Approver | None = None) -> PermissionGate:
        """The check before each use of a skill: the configured rules, and the approver where they say `ask`."""
        from skillyard.permissions import PermissionGate

        return PermissionGate(self.rules(), self.approvals().asking(approver))

    def approvals(self) -> Approvals:
        """What was agreed to: for a session as long as this catalog lives, for the workspace until it is taken back."""
        from skillyard.permissions import Approvals, SqlApprovalStore

        if self._approvals is None:
            records = self.records()
            self._approvals = Approvals(store=SqlApprovalStore(lambda: records.database, self.project_root))
        return self._approvals

    def suppressions(self, *, user_only: bool = False) -> tuple[Suppression, ...]:
        """The findings that the configuration lets pass, each until a day; with `user_only` not those a project lets pass.

        Raises:
            InvalidConfiguration: an entry cannot be understood.
        """
        from skillyard.scanner import read_suppressions

        settings = self.configuration
        tables = ((settings.user_scan, settings.user_file), (settings.scan, settings.file))
        return tuple(entry for table, file in tables[: 1 if user_only else 2] for entry in read_suppressions(table, file or ""))

    def records(self) -> Records:
        """The runs and memories of this home, opened when first used."""
        from skillyard.engine import Records

        if self._recorded is None:
            self._recorded = Records.of(self, timing=self.timing)
        return self._recorded

    def memory(self) -> SqlMemoryService:
        """The memories of this home, kept with the runs."""
        from skillyard.memory import SqlMemoryService

        records = self.records()
        return SqlMemoryService(lambda: records.database)

    def agents(self) -> AgentStore:
        """The agents that were defined for this home, kept with the runs."""
        from skillyard.agent_definitions import AgentStore

        records = self.records()
        return AgentStore(lambda: records.database)

    def registry(self) -> Registry:
        """The registry of this home, which installs, updates and rolls back; `refresh()` shows this catalog what it did."""
        from skillyard.registry import Registry

        return Registry.of(self)

    def executor(self, *, timeout_ms: int | None = None, install: bool = False, prewarm: int | None = None) -> Executor:
        """The executor of skills, within the `[sandbox]` tables of the configuration, at most `timeout_ms` milliseconds each.

        With `install` packages that scripts ask for are downloaded, whatever the table says. `prewarm` sandboxes stand ready
        for each Python skill that has run (absent: as many as the user's table says).

        Raises:
            InvalidPolicy: the table says something that cannot be meant.
            InvalidConfiguration: so does the table of an MCP server.
        """
        from skillyard.execution import Executor

        return Executor.from_configuration(self.configuration, timeout_ms=timeout_ms, install=install, prewarm=prewarm)

    def engine(self, *, record: bool = True) -> PoolEngine:
        """The engine that executes and records runs, shared by all runs of this catalog; with `record=False` it keeps nothing.

        A skill that names a worker pool goes to that pool, every other one works in this process, or in the pool of all runs
        where `[engine]` of the configuration says `procrastinate`.

        Raises:
            InvalidConfiguration: the table `[engine]` says something that cannot be meant.
        """
        from skillyard.engine import PoolEngine

        if self._engine is None:
            self._engine = PoolEngine.of(
                self.configuration, self.executor(), self.records(), slots=self._turns(), organisation=self.data_directory
            )
        return self._engine if record else self._engine.unrecorded()

    async def stop_waiting(self) -> None:
        """Stop waiting for the runs that continue without this process: those in the queue, or with a worker."""
        if self._engine is not None:
            await self._engine.leave()

    def _turns(self) -> Slots:
        """The turns of this process, which the catalogs of its organisations take together."""
        from skillyard.engine import EngineSettings

        if self._slots is None:
            self._slots = EngineSettings.of(self.configuration).slots()
        return self._slots

    def for_organisation(self, data: str, database_url: str) -> Self:
        """As `skillyard.catalog.SkillCatalog`; its runs take turns with those of this catalog."""
        catalog = super().for_organisation(data, database_url)
        catalog._slots, catalog.timing = self._turns(), self.timing
        return catalog

    def worker(self, *pools: str, concurrency: int = 1, slots: Slots | None = None) -> Worker:
        """The worker for worker pools with the skills of this catalog: `await catalog.worker("gpu").serve(stop)`.

        Without a name it works for the pool of all runs. With `slots` several workers of one process take turns. It runs only
        the requested content, and nothing that a rule denies here.

        Raises:
            InvalidInput: no pool, a name that is none, or a concurrency below 1.
            DatabaseUnavailable: the records are not in PostgreSQL, or cannot be reached.
        """
        from skillyard.engine import EngineSettings, Worker
        from skillyard.execution import Executor
        from skillyard.registry import skill_with_content

        settings = EngineSettings.of(self.configuration)
        pools = pools or (settings.pool,)

        def runner(timeout_ms: int) -> Executor:
            return Executor.from_configuration(self.configuration, timeout_ms=timeout_ms, prewarm=0, pools=pools)

        return Worker(
            self.records().database,
            pools,
            find=lambda skill_id, digest: skill_with_content(self, self.gate(), skill_id, digest),
            runner=runner,
            concurrency=concurrency,
            slots=slots,
            organisation=self.data_directory,
            settings=settings,
        )

    def schedules(self) -> Schedules:
        """Which skills run when, kept with the runs."""
        from skillyard.engine import Schedules

        records = self.records()
        return Schedules(lambda: records.database)

    def scheduler(
        self,
        begin: Callable[[Awaitable[StartedRun]], Awaitable[StartedRun]] | None = None,
        makers: ScheduleOwners | None = None,
    ) -> Scheduler:
        """The scheduler, which starts the runs that are due: `await catalog.scheduler().begin_due()`.

        `begin` receives the start of each run, for a host that keeps track of them. Where keys are used, `makers` knows
        whose are still valid.
        """
        from skillyard.engine import Scheduler, begin_scheduled

        records = self.records()

        def engine() -> PoolEngine:
            return self.engine().through(self.executor(prewarm=0))

        async def one(schedule: Schedule, run_id: str) -> StartedRun:
            going = begin_scheduled(schedule, run_id, find=self.get, gate=self.gate(), engine=engine)
            return await (begin(going) if begin is not None else going)

        return Scheduler(self.schedules(), lambda: records.journal, one, makers)
