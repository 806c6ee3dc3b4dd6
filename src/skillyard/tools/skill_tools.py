"""The tools of one catalog for a model: their calls, definitions and sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, overload

from skillyard.errors import InvalidInput
from skillyard.permissions import AllowedTools, Approvals, CommandPolicy, Rules, SkillAccess, SqlApprovalStore, without_denied
from skillyard.prompt import IndexOptions, write_index
from skillyard.tools.tool_context import Repeat, ToolCaller, ToolContext, WorkspaceSource
from skillyard.tools.tool_definitions import WORDINGS, Language
from skillyard.tools.tool_dispatch import TOOLS, ToolDispatcher, ToolOffer
from skillyard.tools.tool_results import (
    TextAnswer,
    ToolResult,
    problem_block,
    text_tools_prompt,
)
from skillyard.tools.workspace_tools import WORKSPACE_TOOLS

if TYPE_CHECKING:
    from anthropic.types import Message, MessageParam, ToolParam
    from openai.types.chat import (
        ChatCompletionFunctionToolParam,
        ChatCompletionMessage,
        ChatCompletionToolMessageParam,
    )

    from skillyard.catalog import AllowedToolsMode, Permission, Skill, SkillCatalog
    from skillyard.engine import Engine, Records
    from skillyard.execution import AbpCall, AbpText, Executor, Preprocessed, Run, RunOrigin, RunRequest
    from skillyard.permissions import Approver
    from skillyard.prompt import Index, Style
    from skillyard.tools.tool_definitions import Dialect, ToolDefinition
    from skillyard.workspace import CommandListener, Workspace


class SkillTools:
    """Tools over the skills of `catalog`, for any model.

    `permissions` maps patterns of skill names to `allow`, `ask` or `deny`; left out, those of the catalog's configuration hold.
    `approver` is called where a rule says `ask`; without one such skills are refused. `allowed_tools` says how the list of
    a skill is used: `off`, `advise` (informs the model) or `enforce` (`permits` and `filter` apply); absent, the
    configuration decides. `executor` runs scripts; left out, within the configuration's `[sandbox]`. Runs are recorded, unless
    `record` is False; an `engine` replaces both. `context` is what runs receive about the user of these tools,
    such as `{"userId": "ada"}`: without it what skills want remembered belongs to nobody and is not kept. `run_skills=False`
    takes `run_skill` away. `repeat` says what a second load of an unchanged skill in one session gives: a short `note`, or the
    `text` again (for interfaces that cannot distinguish conversations). `preferences` are the user's: a tool that a skill
    declares gets them for parameters that are absent and have no default. `opened` are the records to use instead of opening
    them again. With a `workspace` its tools are offered too, also where there is no skill: one that all sessions work in, or a
    function that gives that of a session by its name (`Workspaces.get`), so that each has its own. Who gives it closes it.
    `policy` has the rules about what these are called with, and which tools are taken away; left out, the configuration's hold.
    Where they say `ask`, an `approver` that has `ask_command` is called.

    ::

        tools = SkillTools(catalog, permissions={"internal-*": "deny", "deploy": "ask"})
        functions = tools.definitions("openai")
        result = await tools.call("skill", {"skill": "pdf"})

    Raises:
        InvalidInput: an unknown language or mode, or a permission that is none.
        UnreachableRule: a permission rule can never apply.
        InvalidPolicy: the configuration's `[sandbox]` says something that cannot be meant.
    """

    def __init__(
        self,
        catalog: SkillCatalog,
        *,
        permissions: Mapping[str, Permission] | Rules | None = None,
        approver: Approver | None = None,
        allowed_tools: AllowedToolsMode | None = None,
        executor: Executor | None = None,
        engine: Engine | None = None,
        record: bool = True,
        context: Mapping[str, object] | None = None,
        run_skills: bool = True,
        language: Language = "en",
        session: str = "default",
        repeat: Repeat = "note",
        preferences: Mapping[str, object] | None = None,
        opened: Records | None = None,
        workspace: Workspace | WorkspaceSource | None = None,
        policy: CommandPolicy | None = None,
        origin: RunOrigin | None = None,
    ) -> None:
        if language not in WORDINGS:
            raise InvalidInput(f"no language {language!r}", hint=f"choose one of: {', '.join(WORDINGS)}")
        records = cache(lambda: opened or _records(catalog))
        approvals = Approvals(approver, store=SqlApprovalStore(lambda: records().database, catalog.project_root))
        access = SkillAccess(catalog, _rules(catalog, permissions), approvals)
        mode = allowed_tools or catalog.configuration.allowed_tools
        runner = (engine or _engine(catalog, executor, records if record else lambda: None)) if run_skills else None
        self._context = ToolContext(
            access, WORDINGS[language], mode, runner, repeat, dict(context or {}), dict(preferences or {}),
            (*TOOLS, *(WORKSPACE_TOOLS if workspace is not None else ())), language, workspace,
            CommandPolicy.of(catalog.configuration) if policy is None else policy, origin,
        )  # fmt: skip
        self._language: Language = language
        self._session = session
        self._offer = ToolOffer(self._context)
        self._calling = ToolDispatcher(self._context, self._offer)

    @property
    def access(self) -> SkillAccess:
        """Which skills a model may see through these tools, and the gate before each use."""
        return self._context.access

    @property
    def workspace(self) -> Workspace | None:
        """The workspace of all sessions; None without one, and if each session has its own."""
        workspace = self._context.workspace
        return None if callable(workspace) else workspace

    def skill_folder(self, skill: Skill) -> str:
        """The folder of a skill as models see it: its path in the workspace of all sessions, or its location."""
        return self.workspace.skill_folder(skill) if self.workspace is not None else skill.location

    def name_with(self, prefix: str) -> None:
        """Use this prefix for the names of tools in the texts of results, as the client knows them."""
        self._context.tool_prefix = prefix

    def names(self) -> tuple[str, ...]:
        """The names of the offered tools; none when there is no skill."""
        return self._offer.names()

    def define(self, name: str) -> ToolDefinition:
        """The current definition of one tool, offered or not.

        Raises:
            InvalidInput: no such tool.
        """
        return self._offer.define(name)

    @overload
    def definitions(
        self, dialect: Literal["openai"] = "openai", *, abp_tools: bool = False, index: bool = True
    ) -> list[ChatCompletionFunctionToolParam]: ...

    @overload
    def definitions(self, dialect: Literal["anthropic"], *, abp_tools: bool = False, index: bool = True) -> list[ToolParam]: ...

    @overload
    def definitions(self, dialect: Literal["mcp"], *, abp_tools: bool = False, index: bool = True) -> list[dict[str, Any]]: ...

    def definitions(self, dialect: Dialect = "openai", *, abp_tools: bool = False, index: bool = True) -> Any:
        """The offered tools as the list of `tools` for an API: `openai`, `anthropic` or `mcp`.

        With `abp_tools` the tools that skills declare for the ABP protocol are among them, as functions of their own. Without
        `index` the description of `skill` does not list the skills: for a model whose system prompt has `prompt()`. Ask
        again each turn: the tools and the names in them follow the catalog. They have the types of the packages `openai` and
        `anthropic` where those are installed.
        """
        if dialect not in ("openai", "anthropic", "mcp"):
            raise InvalidInput(f"no dialect {dialect!r}", hint="choose one of: openai, anthropic, mcp")
        self._offer.with_declared |= abp_tools
        return [definition.to_dict(dialect, listing=index) for definition in self._offer.all(declared=abp_tools)]

    async def call(
        self,
        name: str,
        arguments: Mapping[str, object] | str | None = None,
        *,
        session: str | None = None,
        message_id: str | None = None,
        call_id: str | None = None,
        user: str | None = None,
        listener: CommandListener | None = None,
    ) -> ToolResult:
        """Execute a model's tool call and return its result; never raises.

        `arguments` is the object the model sent, or its JSON text. `session` names the conversation; `message_id` and `call_id`
        go to the approver with a question, so that a dialog can stand beside the call it is about. `user` is whose
        run it is, where several users share these tools: it replaces the `userId` of `context`. `listener` gets what a command
        of the workspace writes while it runs.
        """
        caller = replace(self._caller(session, message_id, call_id, user), listener=listener)
        return await self._calling.call(name, arguments, caller)

    @overload
    async def answer(
        self, message: ChatCompletionMessage, *, session: str | None = None, user: str | None = None
    ) -> list[ChatCompletionToolMessageParam]: ...

    @overload
    async def answer(self, message: Message, *, session: str | None = None, user: str | None = None) -> list[MessageParam]: ...

    @overload
    async def answer(
        self, message: Mapping[str, Any], *, session: str | None = None, user: str | None = None
    ) -> list[dict[str, Any]]: ...

    async def answer(self, message: object, *, session: str | None = None, user: str | None = None) -> Any:
        """Execute all tool calls of a model's message, and return the messages to append to the conversation.

        `message` is one of OpenAI's chat completions (`answer.choices[0].message`) or the whole answer of Anthropic's client,
        or one of them as a dictionary. A call that fails is answered with what is to be done instead. A message without calls
        gives no messages: then the turn is over.

        Raises:
            InvalidInput: it is no such message.
        """
        from skillyard.tools.tool_results import MessageCall, answer_calls

        async def call(one: MessageCall) -> ToolResult:
            return await self.call(one.name, one.arguments, session=session, call_id=one.id, user=user)

        return await answer_calls(message, call)

    def prompt(
        self,
        budget: int | None = 2000,
        style: Style = "compact",
        *,
        request: str | None = None,
        pinned: Collection[str] = (),
        description_chars: int | None = None,
        session: str | None = None,
    ) -> Index:
        """The index for a system prompt, as `Catalog.prompt`, without the skills that the rules of these tools deny.

        With a `session` it continues from the index that this conversation was shown last: what was there stays where it is.

        Raises:
            InvalidInput: unknown style, or a negative limit.
        """
        offered = self.access.offered()
        kept = self._context.sessions.get(session) if session else None
        before, previous = kept.shown if kept and kept.shown else ((), None)
        same = before is offered or previous is None
        index = write_index(
            without_denied(self.access.catalog, self.access.rules),
            IndexOptions(
                style=style,
                budget=budget,
                pinned=pinned,
                description_chars=description_chars,
                previous=previous,
                workspace=self._context.workspace is not None,
                installed=() if same else {skill.id for skill in offered} - {skill.id for skill in before},
            ),
            request=request,
            search_index=self._context.index() if request else None,
        )
        if kept:
            kept.shown = (offered, replace(index, omitted=()))  # thousands of omissions are not worth keeping
        return index

    def text_prompt(self, *, abp_tools: bool = True) -> str:
        """The paragraph for the system prompt of a model that cannot call functions: how to call tools in text, and which.

        Empty when no tool is offered.
        """
        return text_tools_prompt(self._offer.all(declared=abp_tools), self._language)

    def text_calls(self, text: str) -> AbpText:
        """Parse a model's text: its tool calls, invalid blocks, and the text around them; executes nothing."""
        from skillyard.execution import parse_abp_calls

        return parse_abp_calls(text)

    async def answer_text(self, text: str, *, session: str | None = None, message_id: str | None = None) -> TextAnswer:
        """Execute the calls in a model's text one after the other, and return the blocks to send back; never raises.

        A block names a tool of ours, a tool that a skill declares, or a skill by its name or display name, in this order.
        """
        parsed = self.text_calls(text)
        results: list[ToolResult] = []
        blocks: list[str] = []
        for call in parsed.calls:
            result, shown = await self.answer_call(call, session=session, message_id=message_id)
            results.append(result)
            blocks.append(shown)
        blocks += [problem_block(problem) for problem in parsed.problems]
        return TextAnswer("\n\n".join(blocks), parsed.text, parsed.calls, tuple(results), parsed.problems)

    async def preprocess(
        self, request: str, *, session: str | None = None, message_id: str | None = None
    ) -> list[Preprocessed]:
        """Run the `preprocessor` skills that match a request, before the model is called; return their runs, best first.

        Skills that the rules deny do not run; where a rule says `ask`, the approver decides. A failure of one is in its run.
        """
        from skillyard.execution.intent_runs import run_preprocessors

        engine, caller = self._context.engine, self._caller(session, message_id)
        if engine is None:
            return []

        async def run(skill: Skill, given: Mapping[str, object]) -> Run:
            consent = await self._context.approve(skill, caller)
            request = self._context.run_request(skill, given, caller, digest=consent.digest)
            return await engine.run(replace(request, workspace=None))  # its answer comes before the work on the files

        return await run_preprocessors(without_denied(self.access.catalog, self.access.rules), request, run=run)

    def may_have_written(self, skill: Skill, *, session: str | None = None) -> bool:
        """Whether commands of the session can write the skill's folder; then its use needs approval, whatever the rules are."""
        return self._context.may_have_written(skill, self._caller(session, None).session)

    def permits(self, tool: str, argument: str | None = None, *, session: str | None = None) -> bool:
        """Whether the host may let the model call `tool`; with `enforce`, by the skills this session has loaded.

        Several skills add up: what one of them asks for works. Skills that ask for nothing neither add nor take away.
        """
        return self._offer.is_ours(tool) or self._restrictions(session).permits(tool, argument)

    def filter(self, names: Iterable[str], *, session: str | None = None) -> list[str]:
        """Those of the host's tools `names` that the model may be offered; the skill tools always stay."""
        candidates = list(names)
        kept = set(self._restrictions(session).filter(candidates))
        return [name for name in candidates if name in kept or self._offer.is_ours(name)]

    def work_in(self, session: str, folder: str | None) -> None:
        """Let the scripts of that conversation work on a copy of the files in `folder`; their changes are copied back."""
        self._context.sessions.get(session).workspace = folder

    def session_state(self, session: str) -> dict[str, object]:
        """What that conversation was shown and has loaded, as plain data for `restore_session` in another process."""
        return self._context.sessions.get(session).to_dict()

    def restore_session(self, session: str, state: Mapping[str, Any]) -> None:
        """Continue a conversation from its `session_state`: what it has loaded is not sent again."""
        self._context.sessions.get(session).restore(state, self.access.offered())

    async def answer_call(
        self,
        call: AbpCall,
        *,
        session: str | None = None,
        message_id: str | None = None,
        listener: CommandListener | None = None,
    ) -> tuple[ToolResult, str]:
        """Execute one call that a model wrote in text (see `text_calls`), and return the block to send back; never raises."""
        caller = replace(self._caller(session, message_id, call.id), listener=listener)
        return await self._calling.call_in_text(call, caller)

    def end_session(self, session: str) -> None:
        """Forget what that conversation loaded, and what was approved for it."""
        self._context.sessions.end(session)
        self._context.access.end_session(session)

    def _caller(
        self, session: str | None, message_id: str | None = None, call_id: str | None = None, user: str | None = None
    ) -> ToolCaller:
        return ToolCaller(self._context.sessions.get(session or self._session), message_id, call_id, user)

    def _restrictions(self, session: str | None) -> AllowedTools:
        return self._context.restrictions(self._context.sessions.get(session or self._session))


def _rules(catalog: SkillCatalog, permissions: Mapping[str, Permission] | Rules | None) -> Rules:
    if isinstance(permissions, Rules):
        return permissions
    return Rules.for_catalog(catalog, permissions)


def _records(catalog: SkillCatalog) -> Records:
    from skillyard.engine import Records  # loaded by who may run something, or must ask about something

    return Records.of(catalog)


def _engine(catalog: SkillCatalog, executor: Executor | None, records: Callable[[], Records | None]) -> Engine:
    from skillyard.execution import Executor

    runner = executor or Executor.from_configuration(catalog.configuration, data=catalog.data_directory)

    def open_engine() -> Engine:
        from skillyard.engine import PoolEngine

        return PoolEngine.of(catalog.configuration, runner, records(), organisation=catalog.data_directory)

    if catalog.configuration.engine or catalog.configuration.database_url:
        return open_engine()  # it may have workers, or a table that cannot be meant
    return _EngineOnDemand(runner, cache(open_engine))


class _EngineOnDemand:
    """An engine of this process alone, which is imported when something runs: that takes half a second."""

    def __init__(self, runner: Executor, open_engine: Callable[[], Engine]) -> None:
        self._runner = runner
        self._open = open_engine

    def can_run(self, skill: Skill) -> bool:
        return self._runner.can_run(skill)

    async def run(self, request: RunRequest) -> Run:
        await asyncio.to_thread(import_module, "skillyard.engine")
        return await self._open().run(request)

    async def cancel(self, run_id: str) -> bool:
        return await self._open().cancel(run_id)
