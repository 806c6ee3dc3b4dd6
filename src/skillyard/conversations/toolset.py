"""Skills as a toolset for pydantic-ai: the index as instructions, the tools, approvals as deferred calls."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.messages import BinaryContent, InstructionPart, ToolReturn
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_core import SchemaValidator, core_schema

from skillyard.conversations.conversation_tools import ApprovalDecision, DeferredApprover, decision_in_context, pending_question
from skillyard.permissions import ApprovalAnswer
from skillyard.text import single_line
from skillyard.tools import SkillTools

if TYPE_CHECKING:
    from skillyard.catalog import AllowedToolsMode, Permission, Skill
    from skillyard.execution import Executor
    from skillyard.library import Catalog
    from skillyard.permissions import Approver, Rules
    from skillyard.tools import Language, WorkspaceSource
    from skillyard.workspace import Workspace


_ANY: Final = SchemaValidator(core_schema.dict_schema())
_ARGUMENTS: Final = ("command", "cmd", "script", "file_path", "path", "filename", "url", "address")
_TRIES: Final = 5


class SkillToolset(AbstractToolset[Any]):
    """The skills of a catalog for a pydantic-ai agent.

    The index of skills goes into the instructions, ranked for the prompt and kept stable within a conversation; `budget` is its
    limit in tokens. With `live` the folders are rescanned before each step, so that new and changed skills are there at once.
    Where a rule is `ask` and there is no `approver`, the call is deferred: the run ends with `DeferredToolRequests`, and its
    `metadata` has the question. Give it back with the answer, so that the approval is bound to the content it was given for;
    `"decision"` in it may be `once` (the default), `session` or `workspace`. With a `workspace` its tools are offered too; with
    `catalog.workspaces().get` each conversation of pydantic-ai has a workspace of its own, by its id. Pictures that `file_read`
    gives are sent to the model unless `pictures` is False. Everything else is as in `SkillTools`.

    ::

        agent = Agent("openai:gpt-5", toolsets=[SkillToolset(Catalog.discover())])
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        permissions: Mapping[str, Permission] | Rules | None = None,
        approver: Approver | None = None,
        allowed_tools: AllowedToolsMode | None = None,
        executor: Executor | None = None,
        record: bool = True,
        context: Mapping[str, object] | None = None,
        run_skills: bool = True,
        language: Language = "en",
        budget: int | None = 2000,
        pinned: Collection[str] = (),
        live: bool = True,
        workspace: Workspace | WorkspaceSource | None = None,
        pictures: bool = True,
        id: str = "skills",  # noqa: A002 # the word of pydantic-ai
    ) -> None:
        self.tools = SkillTools(
            catalog,
            permissions=permissions,
            approver=approver or DeferredApprover(lambda skill_id: _by_id(catalog, skill_id)),
            allowed_tools=allowed_tools,
            executor=executor,
            record=record,
            context=context,
            run_skills=run_skills,
            language=language,
            workspace=workspace,
        )
        self._catalog = catalog
        self._pictures = pictures
        self._budget = budget
        self._pinned = tuple(pinned)
        self._live = live
        self._id = id

    @property
    def id(self) -> str:
        """The name of this toolset in an agent."""
        return self._id

    async def for_run_step(self, ctx: RunContext[Any]) -> Self:
        """Rescan the folders."""
        if self._live:
            await asyncio.to_thread(self._catalog.refresh)
        return self

    async def get_instructions(self, ctx: RunContext[Any]) -> InstructionPart | None:
        """The index, ranked for the prompt, continuing the one that this conversation was shown last."""
        request = ctx.prompt if isinstance(ctx.prompt, str) else None
        index = await asyncio.to_thread(
            self.tools.prompt, self._budget, request=request, pinned=self._pinned, session=_session(ctx)
        )
        return InstructionPart(index.text, dynamic=True, name="index") if index.text else None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The tools that can be used now."""
        shapes = await asyncio.to_thread(self._definitions)
        return {
            shape.name: ToolsetTool(toolset=self, tool_def=shape, max_retries=_TRIES, args_validator=_ANY) for shape in shapes
        }

    def _definitions(self) -> list[ToolDefinition]:
        definitions = [self.tools.define(name) for name in self.tools.names()]
        return [
            ToolDefinition(
                name=tool.name,
                parameters_json_schema=tool.schema(),
                description=tool.summary,
                metadata={"title": tool.title},
                strict=False,  # what a script takes is open, and a strict schema is closed
            )
            for tool in definitions
        ]

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> ToolReturn[Any]:
        """Call a tool; an error becomes a text for the model, and pictures come after the text.

        Raises:
            ApprovalRequired: an approval is needed first.
        """
        with decision_in_context(_decision(ctx)):
            result = await self.tools.call(name, tool_args, session=_session(ctx), call_id=ctx.tool_call_id)
        if (question := pending_question(result)) is not None:
            raise ApprovalRequired(metadata=question)
        shown = {"title": result.title, "ok": result.ok, "code": result.code}
        pictures = [BinaryContent(image.data, media_type=image.media_type) for image in result.images if self._pictures]
        return ToolReturn([result.text, *pictures] if pictures else result.text, metadata=shown)

    def limited(self, others: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Your own tools, held to the `allowed-tools` of the loaded skills where the mode is `enforce`."""
        return _Limited(others, self)


@dataclass
class _Limited(WrapperToolset[Any]):
    """Tools of the host as far as the loaded skills let them be used."""

    skills: SkillToolset

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        tools = await super().get_tools(ctx)
        return {name: tools[name] for name in self.skills.tools.filter(tools, session=_session(ctx))}

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]) -> Any:
        if not self.skills.tools.permits(name, argument_of(tool_args), session=_session(ctx)):
            return f"The skills that are loaded do not allow this call of {single_line(name)}. Do what they allow."
        return await super().call_tool(name, tool_args, ctx, tool)


def argument_of(arguments: Mapping[str, object]) -> str | None:
    """The part of a host's tool call that `allowed-tools` match: its command, path or address."""
    named = [arguments[name] for name in _ARGUMENTS if isinstance(arguments.get(name), str)]
    texts = named or [value for value in arguments.values() if isinstance(value, str)]
    return str(texts[0]) if len(texts) == 1 or named else None


def _by_id(catalog: Catalog, skill_id: str) -> Skill | None:
    return next((skill for skill in catalog.all() if skill.id == skill_id), None)


def _session(ctx: RunContext[Any]) -> str:
    return ctx.conversation_id or "default"


def _decision(ctx: RunContext[Any]) -> ApprovalDecision | None:
    """The decision that the run was given for this call; without the digest of its content it decides nothing."""
    if not ctx.tool_call_approved or not isinstance(ctx.tool_call_metadata, Mapping):
        return None
    metadata = ctx.tool_call_metadata
    answer = ApprovalAnswer.parse(str(metadata.get("decision", "once")))
    return ApprovalDecision(answer, str(metadata.get("digest", "")))
