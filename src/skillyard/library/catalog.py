"""The catalog as a program uses it: skills are discovered, shown to a model, searched and run through one object.

::

    catalog = Catalog.discover()
    system = base_prompt + catalog.prompt(budget=2000).text
    best = catalog.search("fill in a PDF form")[0].skill
    outcome = await catalog.run("text-statistics", {"text": "One fish. Two fish."})

Every method is a short way to a room below: `search`, `prompt`, `permissions` and `execution` do the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillyard.errors import ApprovalRejected, NotExecutable, PermissionDenied
from skillyard.library.catalog_services import CatalogServices
from skillyard.text import single_line

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Self

    from skillyard.catalog import Permission, Skill
    from skillyard.document import Profile
    from skillyard.execution import IntentRun, Preprocessed, Run, TrialReport
    from skillyard.permissions import Approver, Rules
    from skillyard.prompt import Index, Style
    from skillyard.scanner import Report
    from skillyard.search import Match, Reranker, SearchIndex


_RERANKED: Final = 30  # matches that a reranker is shown


class Catalog(CatalogServices):
    """Every skill an agent can see, with methods to describe them to a model, to search and to run them.

    Rules of the configuration that deny a skill already hold: it has the status `denied` and is not described, matched or run.
    """

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
        return catalog.with_permissions(catalog.rules()) if catalog.configuration.permissions else catalog

    def with_permissions(self, permissions: Mapping[str, Permission] | Rules) -> Self:
        """This catalog with every skill that the rules deny marked `denied`."""
        from skillyard.permissions import Rules, without_denied

        if not isinstance(permissions, Rules):
            permissions = Rules.for_catalog(self, permissions)
        return without_denied(self, permissions)

    def search(
        self,
        text: str,
        limit: int = 10,
        *,
        min_confidence: float = 0.15,
        source: str | None = None,
        tag: str | None = None,
        domain: str | None = None,
        permission: Permission | None = None,
        reranker: Reranker | None = None,
    ) -> list[Match]:
        """The usable skills that fit `text`, best first; each match has `skill`, `confidence` (0 to 1) and what `matched`.

        With `source`, `tag` (or keyword), `domain` and `permission` only skills that have them count. A `reranker` looks at the
        best thirty once more.

        Raises:
            InvalidInput: a limit below 1, or a confidence outside 0 to 1.
        """
        from skillyard.search import rerank, search_skills, skill_filter

        only = skill_filter(source, tag, domain, permission=permission, permission_of=self.rules().decide)
        many = limit if reranker is None else max(limit, _RERANKED)
        matches = search_skills(self._search_index(), text, limit=many, min_confidence=min_confidence, only=only)
        return rerank(text, matches, reranker)[:limit] if reranker else matches

    def find_relevant_skills(
        self,
        intent: str,
        *,
        limit: int = 3,
        min_confidence: float = 0.15,
        domain: str | None = None,
        required_keywords: Collection[str] = (),
    ) -> list[Match]:
        """The skills whose declared triggers, keywords and description `intent` meets, the surest first.

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
        style: Style = "compact",
        *,
        request: str | None = None,
        named: Collection[str] = (),
        pinned: Collection[str] = (),
        description_chars: int | None = 200,
        previous: Index | None = None,
    ) -> Index:
        """The index for a system prompt: `text`, `tokens`, and what was `kept`, `shortened` and `omitted`.

        At most `budget` tokens (None: no limit). Without a `request` the order is the catalog's, so that prompt caches hold;
        with the text of a request the skills it names come first, then those that fit it best. `pinned` skills are listed
        before the others. With the `previous` index of a conversation what it showed stays where it is; what is new is
        appended, and `added`, `dropped` and `unchanged` list the difference.

        Raises:
            InvalidInput: unknown style, or a negative limit.
        """
        from skillyard.prompt import IndexOptions, write_index

        return write_index(
            self,
            IndexOptions(
                style=style, budget=budget, description_chars=description_chars, named=named, pinned=pinned, previous=previous
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
        timeout_ms: int | None = None,
        digest: str | None = None,
        record: bool = True,
        fresh: bool = False,
        install: bool = False,
        approver: Approver | None = None,
        priority: int = 0,
    ) -> Run:
        """Run a skill's script in the sandbox, within what the configuration allows and at most `timeout_ms` milliseconds.

        With `digest` nothing runs but exactly that content; with `install` packages that the script asks for are downloaded
        when they are not there yet. A script that fails is no exception: the run says so in `status` and `error`. The run is
        recorded and its memories are kept, unless `record` is False. A result that is kept for a skill that allows it is given
        again, unless `fresh`. Of the runs that wait one with a higher `priority` (-100 to 100) goes first. Where a rule says
        `ask`, the `approver` decides, and nothing runs but what it approved; without one the caller is taken to have agreed:
        who writes this call decides.

        Raises:
            ApprovalRejected: the approver refused.
            DatabaseUnavailable: the run cannot be recorded; nothing was started.
            SkillNotFound: no skill of that name.
            PermissionDenied: a rule denies the skill.
            SkillUnusable: it is broken, disabled or shadowed.
            NotExecutable: it has nothing that can run.
            RuntimeUnavailable: this machine has no interpreter for the script.
            SandboxUnavailable: no sandbox here can enforce its policy.
        """
        from skillyard.execution import RunRequest

        resolved = self.get(skill) if isinstance(skill, str) else skill
        gate = self.gate(approver)
        gate.check(resolved)
        if approver is not None:
            agreed = (await gate.consent(resolved, session="library")).digest
            if digest is not None and agreed is not None and digest != agreed:
                message = f"the skill {single_line(resolved.name)!r} is not the content that the call names"
                raise PermissionDenied(message, hint="look at it, and call with its digest as it is now")
            digest = digest or agreed
        engine = self.engine(record=record).through(self.executor(timeout_ms=timeout_ms, install=install, prewarm=0))
        return await engine.run(
            RunRequest(resolved, parameters or {}, context or {}, entry, digest, fresh=fresh, priority=priority)
        )

    async def test(
        self, skill: Skill | str, *, timeout_ms: int | None = None, digest: str | None = None, install: bool = False
    ) -> TrialReport:
        """Try a skill out in the sandbox: its `tests/`, the examples it declares, and what can be checked of its evals.

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
        """Run the skill that fits `intent` best, of at most `limit`; the answer has its `run`, `confidence` and `matched`.

        Another one is only tried when nothing of a better one was started. Skills for which a rule requires approval are
        passed over.

        Raises:
            InvalidInput: a limit below 1, or a confidence outside 0.15 to 1.
            SkillNotFound: no skill fits.
            NotExecutable: skills fit, and none of them could be started.
        """
        from skillyard.execution.intent_runs import run_first_match

        rules = self.rules()

        async def run(skill: Skill, given: Mapping[str, object]) -> Run:
            if rules.decide(skill) == "ask":
                raise NotExecutable("a rule requires approval first")
            return await self.run(skill, given, context=context)

        return await run_first_match(
            self._search_index(), intent, parameters or {}, limit=limit, min_confidence=min_confidence, run=run
        )

    async def preprocess(self, request: str, *, context: Mapping[str, object] | None = None) -> list[Preprocessed]:
        """Run the skills of kind `preprocessor` that fit a request, before a model is called; give their runs, the best first.

        Their results are never kept. A failure of one is in its run and keeps nothing else back. Skills for which a rule
        requires approval do not run here: `SkillTools.preprocess` asks.
        """
        from skillyard.execution.intent_runs import run_preprocessors

        rules = self.rules()

        async def run(skill: Skill, given: Mapping[str, object]) -> Run:
            if rules.decide(skill) == "ask":
                raise ApprovalRejected("a rule requires approval first")
            return await self.run(skill, given, context=context)

        return await run_preprocessors(self, request, run=run)

    def scan(self, skill: Skill | str) -> Report:
        """Scan a skill's files for security risks: findings with file, line, reason and fix; nothing of the skill runs.

        What the configuration suppresses (`[[scan.suppress]]`) is in `findings` with `allowed`, and not in `open`.

        Raises:
            SkillNotFound: no skill of that name.
            InvalidConfiguration: a suppression cannot be understood.
            OSError: the folder cannot be read.
        """
        from skillyard.scanner import scan_skill

        resolved = self.get(skill) if isinstance(skill, str) else skill
        return scan_skill(resolved.directory, suppressions=self.suppressions())

    def _search_index(self) -> SearchIndex:
        """The skills ready to be searched; made again only when they are others."""
        from skillyard.search import SearchIndex

        skills = self.all()  # the same tuple until something has changed
        if self._searched is None or self._searched[0] is not skills:
            before = self._searched[1] if self._searched else None
            self._searched = (skills, SearchIndex(skills, cache=self.search_directory, before=before))
        return self._searched[1]
