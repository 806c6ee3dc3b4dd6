"""The catalog as a program uses it: skills are discovered, shown to a model, searched and run through one object.

::

    catalog = Catalog.discover()
    system = base_prompt + catalog.prompt(budget=2000).text
    best = catalog.search("fill in a PDF form")[0].skill
    outcome = await catalog.run("text-statistics", {"text": "One fish. Two fish."})
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.catalog import SkillCatalog
from skillyard.errors import ApprovalRejected, NotExecutable, PermissionDenied, SkillyardError
from skillyard.text import single_line
from skillyard.times import DEFAULT_TIMING

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
    from typing import Self

    from skillyard.agent_definitions import AgentStore
    from skillyard.catalog import Permission, Skill
    from skillyard.document import Profile
    from skillyard.engine import PoolEngine, Records, ScheduleOwners, Scheduler, Schedules, Slots, StartedRun, Worker
    from skillyard.environments import SkillGrants
    from skillyard.execution import Executor, IntentRun, Preprocessed, Run, RunOrigin, TrialReport, WorkFile
    from skillyard.insights import Insights
    from skillyard.library.catalog_services import CatalogEvents, CatalogServices, CatalogTests
    from skillyard.memory import SqlMemoryService
    from skillyard.permissions import Approvals, Approver, PermissionGate, Rules
    from skillyard.prompt import Index, Style
    from skillyard.registry import Registry
    from skillyard.scanner import Report, Suppression
    from skillyard.search import DescriptionChange, Match, Reranker, SearchIndex, TriggerCase
    from skillyard.times import Timing
    from skillyard.workspace import ToolAuthorizer, Workspace, Workspaces


class Catalog(SkillCatalog):
    """Every skill an agent can see, with methods to describe them to a model, to search and to run them.

    Rules of the configuration that deny a skill already hold: it has the status `denied` and is not described, matched or run.
    """

    timing: Timing = DEFAULT_TIMING
    """How long its services wait; set before they are first used."""
    _opened: CatalogServices | None = None
    _seen_from: Catalog | None = None  # the one whose records and engine are used, so that it stays open
    _searched: tuple[tuple[Skill, ...], SearchIndex] | None = None  # kept until the skills are others

    @classmethod
    def discover(
        cls,
        *,
        roots: Sequence[str | os.PathLike[str]] | str | os.PathLike[str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        home: str | os.PathLike[str] | None = None,
        environ: Mapping[str, str] | None = None,
        profile: Profile | None = None,
        cache: bool = True,
        progress: Callable[[int, int], object] | None = None,
        installed: bool = False,
    ) -> Self:
        """Find the skills for work in the folder `cwd`; `roots` means exactly those folders (see `SkillCatalog`).

        Raises:
            InvalidConfiguration: a settings file cannot be understood.
            UnreachableRule: a permission rule of the configuration can never apply.
        """
        catalog = super().discover(
            roots=roots,
            cwd=cwd,
            home=home,
            environ=environ,
            profile=profile,
            cache=cache,
            progress=progress,
            installed=installed,
        )
        return catalog._with_configured_permissions()

    def _with_configured_permissions(self) -> Self:
        settings = self.configuration
        denying = settings.permissions or settings.extensions.of_kind("permission")
        return self.with_permissions(self.rules()) if denying else self

    def with_permissions(self, permissions: Mapping[str, Permission] | Rules) -> Self:
        """This catalog with every skill that the rules deny marked as `denied`."""
        from skillyard.permissions import Rules, without_denied

        if not isinstance(permissions, Rules):
            permissions = Rules.for_catalog(self, permissions)
        return without_denied(self, permissions)

    def search(
        self,
        text: str,
        limit: int = 10,
        *,
        min_confidence: float = 0.0,
        source: str | None = None,
        tag: str | None = None,
        domain: str | None = None,
        permission: Permission | None = None,
        reranker: Reranker | None = None,
    ) -> list[Match]:
        """The usable skills nearest to `text`, best first; each match has `skill`, `confidence` (0 to 1), `sure` and `matched`.

        The first matches may all be unsure: then perhaps no skill is meant for this. `min_confidence` leaves out those below.
        With `source`, `tag` (or keyword), `domain` and `permission` only skills that have them count. A `reranker` looks at the
        best thirty once more.

        Raises:
            InvalidInput: a limit below 1, or a confidence outside 0 to 1.
        """
        from skillyard.search import RERANKED, rerank, search_skills, skill_filter

        only = skill_filter(
            source, tag, domain, permission=permission, permission_of=self.rules().decide if permission else None
        )
        many = limit if reranker is None else max(limit, RERANKED)
        matches = search_skills(self._search_index(), text, limit=many, min_confidence=min_confidence, only=only)
        return rerank(text, matches, reranker)[:limit] if reranker else matches

    def prepare_search(self, progress: Callable[[int, int], object] | None = None) -> None:
        """Build the search index now, before the first search; `progress(done, total)` gets numbers of skills."""
        self._search_index().prepare(progress)

    def suggest_descriptions(self, cases: Iterable[TriggerCase], *, only: str | None = None) -> list[DescriptionChange]:
        """Descriptions with which skills are found for more of their own prompts, and no other skill for fewer.

        Every second prompt of a skill is held out and decides; skills with fewer than four prompts get no suggestion.
        `only` is the id of a skill: just for that one.
        """
        from skillyard.search import search_skills, suggest_descriptions

        return suggest_descriptions(cases, self.all(), search_skills, index=self._search_index(), only=only)

    def find_relevant_skills(
        self,
        intent: str,
        *,
        limit: int = 3,
        min_confidence: float = 0.15,
        domain: str | None = None,
        required_keywords: Collection[str] = (),
    ) -> list[Match]:
        """The skills whose declared triggers, keywords and description match `intent`, best first.

        Unlike `search` this reads nothing but front matter, and its scores are fixed sums: docs/search.md has them.

        Raises:
            InvalidInput: a limit below 1, or a confidence outside 0 to 1.
        """
        from skillyard.search import find_relevant_skills

        return find_relevant_skills(
            self.all(),
            intent,
            limit=limit,
            min_confidence=min_confidence,
            domain=domain,
            required_keywords=required_keywords,
        )

    def match_event(self, event: str, *, limit: int = 10) -> list[Match]:
        """The skills that declare the event type `event` among their triggers, the highest priority first.

        Raises:
            InvalidInput: an empty event, or a limit below 1.
        """
        from skillyard.search import match_event

        return match_event(self.all(), event, limit=limit)

    def prompt(
        self,
        budget: int | None = 2000,
        style: Style | str = "compact",
        *,
        request: str | None = None,
        named: Collection[str] = (),
        pinned: Collection[str] = (),
        description_chars: int | None = None,
        previous: Index | None = None,
        workspace: bool = False,
    ) -> Index:
        """The index for a system prompt: `text`, `tokens`, and what was `kept`, `shortened` and `omitted`.

        `style` is one of the six, or one that an extension brings. At most `budget` tokens (None: no limit). Without a
        `request` the order is the catalog's, so that prompt caches hold; with the text of a request the skills it names come
        first, then those that fit it best. `pinned` skills are listed before the others. Descriptions lose words only when not
        all fit, or after `description_chars` characters when that is given. With the `previous` index of a conversation what it
        showed stays where it is; what is new is appended, and `added`, `dropped` and `unchanged` list the difference.
        `workspace` says that the model has the tools of a workspace: then `xml-index` names `bash`.

        Raises:
            InvalidInput: unknown style, or a negative limit.
            ExtensionFailed: the extension whose style it is failed.
        """
        from skillyard.prompt import IndexOptions, write_index

        return write_index(
            self,
            IndexOptions(
                style=style,
                budget=budget,
                description_chars=description_chars,
                named=named,
                pinned=pinned,
                previous=previous,
                workspace=workspace,
                extensions=self.configuration.extensions,
            ),
            request=request,
            search_index=self._search_index() if request else None,
        )

    async def run(
        self,
        skill: Skill | str,
        parameters: Mapping[str, object] | None = None,
        *,
        context: Mapping[str, object] | None = None,
        entry: str | None = None,
        arguments: Sequence[str] = (),
        packages: Sequence[str] = (),
        files: Sequence[WorkFile] = (),
        work: str | os.PathLike[str] | None = None,
        timeout_ms: int | None = None,
        digest: str | None = None,
        record: bool = True,
        fresh: bool = False,
        install: bool = False,
        approver: Approver | None = None,
        priority: int = 0,
        origin: RunOrigin | None = None,
    ) -> Run:
        """Run a skill's script in the sandbox, within what the configuration allows and at most `timeout_ms` milliseconds.

        `entry` is another script of the skill, by its path or as `package.module`; `arguments` are its command line and
        `packages` what it gets beside what was granted to the skill: `pypdf`, `npm:docx`, `program:qpdf`. It begins in a copy
        of the folder `work`, where what it writes returns, or in an empty one with `files`, and what it makes there is in
        `Run.made`.

        With `digest` nothing runs but exactly that content. Of packages that are not there yet `packages` are downloaded, and
        with `install` those that the skill declares. A script that fails is no exception: the run says so in `status` and
        `error`. The run is recorded and its memories are kept, unless `record` is False. A result that is kept for a skill that
        allows it is given again, unless `fresh`. Of the runs that wait one with a higher `priority` (-100 to 100) goes first.
        Where a rule says `ask`, the `approver` decides, and nothing runs but what it approved; without one the caller is taken
        to have agreed: who writes this call decides. `origin`, which is recorded, says through which interface and for
        whom it is asked for.

        Raises:
            ApprovalRejected: the approver refused.
            DatabaseUnavailable: the run cannot be recorded; nothing was started.
            InvalidInput: an argument, a package or a file cannot be one.
            FileMissing: there is no folder `work`.
            SkillNotFound: no skill of that name.
            PermissionDenied: a rule denies the skill.
            SkillUnusable: it is broken, disabled or shadowed.
            NotExecutable: it has nothing that can run.
            RuntimeUnavailable: this machine has no interpreter for the script.
            SandboxUnavailable: no sandbox here can enforce its policy.
        """
        from skillyard.execution import RunOrigin, RunRequest

        resolved = self.get(skill) if isinstance(skill, str) else skill
        gate = self.gate(approver)
        gate.check(resolved)
        if approver is not None:
            agreed = (await gate.consent(resolved, session="library")).digest
            if digest is not None and agreed is not None and digest != agreed:
                message = f"the skill {single_line(resolved.name)!r} is not the content that the call names"
                raise PermissionDenied(message, hint="look at it, and call with its digest as it is now")
            digest = digest or agreed
        executor = self.executor(timeout_ms=timeout_ms, install=install, requests_grant=True, prewarm=0)
        engine = self.engine(record=record).through(executor)
        request = RunRequest(
            resolved, parameters or {}, context or {}, entry, digest, tuple(arguments), tuple(packages), tuple(files),
            None if work is None else str(work), fresh=fresh, priority=priority, origin=origin or RunOrigin(),
        )  # fmt: skip
        return await engine.run(request)

    def tests(self) -> CatalogTests:
        """Tests of skills in the background, as `test`, with results recorded by version among the runs."""
        return self._services().tests()

    async def test(
        self, skill: Skill | str, *, timeout_ms: int | None = None, digest: str | None = None, install: bool = False
    ) -> TrialReport:
        """Test a skill in the sandbox: its `tests/`, its examples, and the format of its evals.

        Raises:
            SkillNotFound, PermissionDenied, SkillUnusable: as `run`.
        """
        from skillyard.document import declared_data
        from skillyard.execution import try_skill

        resolved = self.get(skill) if isinstance(skill, str) else skill
        self.gate().check(resolved)
        executor = self.executor(timeout_ms=timeout_ms, install=install, prewarm=0)
        declared = declared_data(resolved.document(), "examples")
        return await try_skill(resolved, executor, name=resolved.name, declared=declared, digest=digest)

    async def execute_by_intent(
        self,
        intent: str,
        parameters: Mapping[str, object] | None = None,
        *,
        limit: int = 5,
        min_confidence: float = 0.15,
        context: Mapping[str, object] | None = None,
    ) -> IntentRun:
        """Run the skill that matches `intent` best, of at most `limit`; the result has its `run`, `confidence` and `matched`.

        Another one is only tried when nothing of a better one was started. Skills for which a rule requires approval are
        passed over.

        Raises:
            InvalidInput: a limit below 1, or a confidence outside 0.15 to 1.
            SkillNotFound: no skill fits.
            NotExecutable: skills fit, and none of them could be started.
        """
        from skillyard.execution.intent_runs import run_first_match

        run = self._run_unasked(context, NotExecutable)
        return await run_first_match(
            self._search_index(), intent, parameters or {}, limit=limit, min_confidence=min_confidence, run=run
        )

    async def preprocess(self, request: str, *, context: Mapping[str, object] | None = None) -> list[Preprocessed]:
        """Run the skills of kind `preprocessor` that match a request, before a model is called; return their runs, best first.

        Their results are never cached. A failure of one is in its run and does not stop the others. Skills for which a rule
        requires approval do not run here: `SkillTools.preprocess` asks.
        """
        from skillyard.execution.intent_runs import run_preprocessors

        run = self._run_unasked(context, ApprovalRejected)
        return await run_preprocessors(self, request, run=run)

    def _run_unasked(
        self, context: Mapping[str, object] | None, refusal: type[SkillyardError]
    ) -> Callable[[Skill, Mapping[str, object]], Awaitable[Run]]:
        """Runs a skill, or raises `refusal` for one that needs approval."""
        rules = self.rules()

        async def run(skill: Skill, parameters: Mapping[str, object]) -> Run:
            if rules.decide(skill) == "ask":
                raise refusal("a rule requires approval first")
            return await self.run(skill, parameters, context=context)

        return run

    def scan(self, skill: Skill | str, *, run: bool = False, again: bool = False) -> Report:
        """Scan a skill's files for security risks: findings with file, line, reason and fix.

        What the configuration suppresses (`[[scan.suppress]]`) is in `findings` with `allowed`, and not in `open`. Nothing of
        the skill runs, unless with `run`: then its scripts and commands are run in a sandbox with made-up secrets and a made-up
        network, and what they did is among the findings and in `watched`. The same bytes are watched once, unless `again`.

        Raises:
            SkillNotFound: no skill of that name.
            InvalidConfiguration: a suppression cannot be understood.
            SandboxUnavailable: it is to be run, and bubblewrap does not hold on this machine.
            OSError: the folder cannot be read.
        """
        from skillyard.scanner import scan_skill, watch_skill

        resolved = self.get(skill) if isinstance(skill, str) else skill
        watched = watch_skill(resolved.directory, again=again) if run else None
        return scan_skill(resolved.directory, suppressions=self.suppressions(), watched=watched)

    def rules(self) -> Rules:
        """The permission rules of the configuration; without any, everything is allowed."""
        from skillyard.permissions import Rules

        return Rules.for_catalog(self)

    def gate(self, approver: Approver | None = None) -> PermissionGate:
        """The check before each use of a skill: the configured rules, and the approver where they say `ask`."""
        return self._services().gate(approver)

    def suppressions(self, *, user_only: bool = False) -> tuple[Suppression, ...]:
        """The findings that the configuration suppresses, each until a date; with `user_only` without those of a project.

        Raises:
            InvalidConfiguration: an entry cannot be understood.
        """
        from skillyard.scanner import read_suppressions

        settings = self.configuration
        tables = ((settings.user_scan, settings.user_file), (settings.scan, settings.file))
        return tuple(entry for table, file in tables[: 1 if user_only else 2] for entry in read_suppressions(table, file or ""))

    def executor(
        self,
        *,
        timeout_ms: int | None = None,
        install: bool = False,
        requests_grant: bool = False,
        prewarm: int | None = None,
    ) -> Executor:
        """The executor of skills, within the `[sandbox]` tables of the configuration, at most `timeout_ms` milliseconds each.

        With `install` packages that skills declare are downloaded, whatever the table says, and with `requests_grant` a request
        grants what it names. `prewarm` sandboxes stand ready for each Python skill that has run (absent: as many as the user's
        table says).

        Raises:
            InvalidPolicy: the table has an invalid value.
            InvalidConfiguration: so has the table of an MCP server.
        """
        from skillyard.execution import Executor  # without the services, which load the database

        return Executor.from_configuration(
            self.configuration,
            timeout_ms=timeout_ms,
            install=install,
            requests_grant=requests_grant,
            prewarm=prewarm,
            data=self.data_directory,
        )

    def grants(self) -> SkillGrants:
        """The packages and programs granted to skills, by `[skills.NAME]` of the user's settings and by recorded consents.

        Raises:
            InvalidConfiguration: a table names something that is no package or program.
        """
        from skillyard.environments import SkillGrants  # without the engine, which who only looks does not need

        return SkillGrants.configured(self.configuration, self.data_directory)

    def workspace(
        self,
        folder: str | os.PathLike[str],
        *,
        packages: Sequence[str] = (),
        permissions: Mapping[str, Permission] | Rules | None = None,
        authorizer: ToolAuthorizer | None = None,
        writable: Sequence[str] = (),
    ) -> Workspace:
        """A workspace for an existing folder, according to the configuration, with the skills visible beside it.

        Its sessions see the skills that `permissions` (as for `SkillTools`) allow without asking, and what `packages` grants:
        `pypdf`, `npm:docx`, `program:qpdf`. The `authorizer` decides about calls, such as a `CommandGate` by the rules
        about commands; `SkillTools` brings its own. `writable` names places of the project that are held back otherwise, such
        as `.vscode`. Close it at the end. Blocks for as long as downloading takes.

        Raises:
            PathRefused: the folder is missing, or one of the system's.
            InvalidConfiguration, InvalidPolicy: the table `[workspace]` cannot be understood.
            DependenciesUnavailable: packages cannot be installed.
        """
        from skillyard.workspace import Workspace

        options = self._services().workspace_options(permissions, packages, writable)
        return Workspace(folder, options=options, authorizer=authorizer)

    def workspaces(
        self,
        *,
        packages: Sequence[str] = (),
        permissions: Mapping[str, Permission] | Rules | None = None,
        authorizer: ToolAuthorizer | None = None,
    ) -> Workspaces:
        """The workspaces of this home, one for each id, as `workspace` creates them; pass its `get` to `SkillTools`.

        Raises:
            InvalidConfiguration, InvalidPolicy, DependenciesUnavailable: as `workspace`.
        """
        from skillyard.workspace import Workspaces

        options = self._services().workspace_options(permissions, packages)
        return Workspaces(self.data_directory, options=options, authorizer=authorizer)

    def registry(self) -> Registry:
        """The registry of this home, which installs, updates and rolls back; call `refresh()` afterwards."""
        from skillyard.registry import Registry

        return Registry.of(self)

    def memory(self) -> SqlMemoryService:
        """The memories of this home, stored with the runs."""
        return self._services().memory()

    def agents(self) -> AgentStore:
        """The defined agents of this home, stored with the runs."""
        return self._services().agents()

    def schedules(self) -> Schedules:
        """The schedules of this home, stored with the runs."""
        return self._services().schedules()

    def events(self) -> CatalogEvents:
        """Events for the skills that subscribe to them: `await catalog.events().fire(Event("calendar.reminder", data))`."""
        return self._services().events()

    def records(self) -> Records:
        """The runs and memories of this home."""
        return self._services().records

    def insights(self) -> Insights:
        """Usage of skills by day: `catalog.insights().report(by="skill")`.

        Raises:
            InvalidConfiguration: the table `[insights]` has an invalid value.
        """
        from skillyard.insights import Insights, InsightSettings

        return Insights(self.records().database, InsightSettings.of(self.configuration))

    def approvals(self) -> Approvals:
        """The approvals: for a session as long as this catalog lives, for the workspace until they are revoked."""
        return self._services().approvals

    def engine(self, *, record: bool = True) -> PoolEngine:
        """The engine that executes and records runs, shared by all runs of this catalog; with `record=False` it keeps nothing.

        A skill that names a worker pool goes to that pool, every other one works in this process, or in the pool of all runs
        where `[engine]` of the configuration says `procrastinate`.

        Raises:
            InvalidConfiguration: the table `[engine]` has an invalid value.
        """
        return self._services().engine(record=record)

    async def stop_waiting(self) -> None:
        """Stop waiting for the runs that continue without this process: those in the queue, or with a worker."""
        if self._opened is not None:
            await self._opened.stop_waiting()

    def worker(self, *pools: str, concurrency: int = 1, slots: Slots | None = None) -> Worker:
        """The worker for worker pools with the skills of this catalog: `await catalog.worker("gpu").serve(stop)`.

        Without a name it works for the pool of all runs. With `slots` several workers of one process take turns. It runs only
        the requested content, and nothing that a rule denies here.

        Raises:
            InvalidInput: no pool, an invalid name, or a concurrency below 1.
            DatabaseUnavailable: the records are not in PostgreSQL, or cannot be reached.
        """
        return self._services().worker(pools, concurrency=concurrency, slots=slots)

    def scheduler(
        self,
        begin: Callable[[Awaitable[StartedRun]], Awaitable[StartedRun]] | None = None,
        makers: ScheduleOwners | None = None,
    ) -> Scheduler:
        """The scheduler, which starts the runs that are due: `await catalog.scheduler().begin_due()`.

        `begin` receives the start of each run, for a host that keeps track of them. Where keys are used, `makers` knows
        whose are still valid.
        """
        return self._services().scheduler(begin, makers)

    def for_organisation(self, data: str, database_url: str) -> Self:
        """As `skillyard.catalog.SkillCatalog`; its runs take turns with those of this catalog."""
        from skillyard.library.catalog_services import CatalogServices

        catalog = super().for_organisation(data, database_url)
        catalog.timing = self.timing
        catalog._opened = CatalogServices(catalog, self.timing, self._services().slots)
        return catalog

    def in_folder(self, folder: str | os.PathLike[str]) -> Self:
        """As `skillyard.catalog.SkillCatalog`, over the same records and engine; consent for a workspace is that folder's."""
        from skillyard.library.catalog_services import CatalogServices

        catalog = super().in_folder(folder)._with_configured_permissions()
        catalog.timing = self.timing
        catalog._opened = CatalogServices(catalog, self.timing, parent=self._services())
        catalog._seen_from = self
        return catalog

    def _services(self) -> CatalogServices:
        from skillyard.library.catalog_services import CatalogServices

        if self._opened is None:
            self._opened = CatalogServices(self, self.timing)
        return self._opened

    def _search_index(self) -> SearchIndex:
        """The skills ready to be searched; made again, from what it was, only after another scan."""
        from skillyard.search import SearchIndex

        skills = self.all()  # the same tuple until then
        if self._searched is None or self._searched[0] is not skills:
            before = self._searched[1] if self._searched else None
            self._searched = (skills, SearchIndex(skills, cache=self.search_directory, before=before))
        return self._searched[1]
