"""The tools that skills declare for the ABP protocol, as functions of their own: which there are, and how one is called."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skillyard.errors import AmbiguousSkill, InvalidInput, NotExecutable, SkillNotFound, SkillyardError
from skillyard.reserved_files import refuse_reserved
from skillyard.text import quoted, shorten, single_line
from skillyard.tools.definition import ToolDefinition
from skillyard.tools.result import clean
from skillyard.tools.schemas import service_schema

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.execution import AbpTool, Run
    from skillyard.tools.tool import Caller, ToolContext

__all__ = ["DeclaredTool", "DeclaredTools", "find_declared", "gather", "run_declared"]

_LONGEST_NAME: Final = 64  # what every API takes
_DESCRIPTION: Final = 1024
_HEAD: Final = 256 * 1024
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]+")


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """One tool of one skill; `function` is its name for APIs that take letters, digits, `_` and `-` only."""

    function: str
    tool: AbpTool
    skill: Skill

    def definition(self) -> ToolDefinition:
        """The tool as it is advertised to a model, with nothing invisible in what the skill wrote."""
        description = shorten(single_line(self.tool.description), _DESCRIPTION)
        return ToolDefinition(
            self.function,
            shorten(single_line(self.tool.name), _LONGEST_NAME),
            description or self.skill.label,
            read_only=False,
            category="skill",
            input_schema=service_schema(clean(self.tool.schema())),
        )


@dataclass(frozen=True, slots=True)
class DeclaredTools:
    """Every declared tool, by its function and by its own name."""

    by_function: Mapping[str, DeclaredTool] = field(default_factory=dict)
    by_name: Mapping[str, tuple[DeclaredTool, ...]] = field(default_factory=dict)


def gather(skills: Collection[Skill], *, reserved: Collection[str]) -> DeclaredTools:
    """The tools of those of `skills` that speak ABP; no function gets a name of `reserved` or of another one."""
    from skillyard.execution import abp_tool_definitions

    by_function: dict[str, DeclaredTool] = {}
    by_name: dict[str, tuple[DeclaredTool, ...]] = {}
    for skill in skills:
        for tool in abp_tool_definitions(skill) if _speaks_abp(skill) else ():
            function = _function_name(tool.name, skill, {*reserved, *by_function})
            declared = DeclaredTool(function, tool, skill)
            by_function[function] = declared
            by_name[tool.name] = (*by_name.get(tool.name, ()), declared)
    return DeclaredTools(by_function, by_name)


def find_declared(context: ToolContext, name: str, action: str = "") -> DeclaredTool:
    """The tool that a model means by `name`: a declared one, else the skill of that name or display name (document 000, 2.2).

    A skill with several tools is asked for the one that `action` names.

    Raises:
        SkillNotFound: there is no such tool or skill.
        AmbiguousSkill: several skills declare it.
        InvalidInput: the skill has several tools.
    """
    known = context.declared()
    if found := known.by_name.get(name):
        return _only(found, name)
    if name in known.by_function:
        return known.by_function[name]
    skill = context.access.find(name)
    if name.casefold() not in {text.casefold() for text in (skill.name, skill.display_name or "", skill.slug, skill.id)}:
        raise SkillNotFound(f"There is no tool {quoted(name)}")  # a part of a name is enough to read, not to run
    return _of_skill(skill, action)


async def run_declared(
    context: ToolContext, declared: DeclaredTool, given: Mapping[str, object], caller: Caller, *, action: str = ""
) -> Run:
    """Run the skill of a tool, with the parameters filled in and checked; the skill reads in its context what was called.

    Raises:
        InvalidInput: a parameter does not fit.
        SkillyardError: the skill may not be used, or cannot be started.
    """
    from skillyard.execution import fill_parameters

    skill = context.access.find(declared.skill.id)
    if context.engine is None:
        raise NotExecutable("Running skills is switched off here", hint="do the task by the skill's instructions instead")
    input_schema = skill.document().metadata.input_schema
    parameters = fill_parameters(declared.tool, given, input_schema=input_schema, preferences=context.preferences)
    await _check(declared, given, parameters)
    consent = await context.approve(skill, caller)
    called = {"tool": declared.tool.name, "action": action or declared.tool.kind}
    told: dict[str, object] = context.run_context(caller) | {"abp": called}
    if caller.call_id:
        told["callId"] = caller.call_id
    return await context.engine.run(skill, parameters, context=told, digest=consent.digest, **context.desk((), caller))


async def _check(declared: DeclaredTool, given: Mapping[str, object], parameters: Mapping[str, object]) -> None:
    from skillyard.execution.schema import UnusableSchema, schema_problems

    schema = declared.tool.schema()
    if declared.tool.synthetic:
        return  # it is the skill's own input_schema, which every run checks
    named = {parameter.name for parameter in declared.tool.parameters}
    own = {name: value for name, value in parameters.items() if name in named or name in given}
    try:
        problems = await schema_problems(schema, own)
    except UnusableSchema:
        return  # what a skill declares badly cannot be held against who calls it
    if problems:
        raise InvalidInput("; ".join(problems), hint=f"{declared.tool.name} takes: {', '.join(sorted(named)) or 'nothing'}")


def _of_skill(skill: Skill, action: str) -> DeclaredTool:
    from skillyard.execution import abp_tool_definitions

    tools = abp_tool_definitions(skill)
    meant = [tool for tool in tools if tool.name == action] or list(tools)
    if len(meant) > 1:
        names = ", ".join(shorten(single_line(tool.name), _LONGEST_NAME) for tool in meant[:20])
        raise InvalidInput(f"The skill {skill.label!r} has several tools", hint=f"call one of: {names}")
    return DeclaredTool(meant[0].name, meant[0], skill)


def _only(found: tuple[DeclaredTool, ...], name: str) -> DeclaredTool:
    if len(found) == 1:
        return found[0]
    functions = [declared.function for declared in found]
    raise AmbiguousSkill(
        f"More than one skill declares the tool {quoted(name)}",
        hint=f"call one of: {', '.join(functions)}",
        candidates=[declared.skill.id for declared in found],
    )


def _speaks_abp(skill: Skill) -> bool:
    """Whether the skill declares the protocol; most do not mention it, and those need not be parsed."""
    try:
        refuse_reserved(skill.path)
        with open(skill.path, "rb") as file:  # noqa: PTH123 # thousands of skills
            if b"abp" not in file.read(_HEAD).lower():
                return False
        return skill.document().metadata.protocol == "abp"
    except (SkillyardError, OSError):
        return False


def _function_name(name: str, skill: Skill, taken: Collection[str]) -> str:
    plain = _NOT_IN_NAMES.sub("_", name).strip("_")[:_LONGEST_NAME]
    if plain and plain == name and plain not in taken:
        return plain
    longer = f"{skill.slug[:30]}_{plain}".rstrip("_")[:_LONGEST_NAME]
    if plain and longer not in taken:
        return longer
    mark = hashlib.sha256(f"{skill.id}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{longer[: _LONGEST_NAME - 9]}_{mark}"
