"""What a tool is, and what every tool works with: the context of one `SkillTools`, the caller, the session, declared tools.

Tools that skills declare for the ABP protocol are functions of their own: which there are, and under which names, is gathered
here. Sessions never share anything: two agents over one `SkillTools`, or two `SkillTools` in one process, do not see each
other's state.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from skillyard.document import DESCRIPTION_LIMIT
from skillyard.errors import (
    AmbiguousSkill,
    ApprovalRejected,
    InvalidInput,
    PermissionDenied,
    SkillNotFound,
    SkillUnusable,
    SkillyardError,
)
from skillyard.paths import is_inside, refuse_reserved
from skillyard.permissions import AllowedTools, CommandGate, CommandPolicy
from skillyard.prompt.fence import fence
from skillyard.search import SearchIndex
from skillyard.text import LABEL_LIMIT, shorten, single_line
from skillyard.tools.tool_arguments import InvalidArguments
from skillyard.tools.tool_definitions import ToolDefinition, service_schema
from skillyard.tools.tool_results import ToolResult, failure, sanitize_value
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.catalog import AllowedToolsMode, Skill
    from skillyard.engine import Engine
    from skillyard.execution import AbpTool, RunOrigin, RunRequest
    from skillyard.permissions import SkillAccess, SkillConsent
    from skillyard.prompt import Index
    from skillyard.tools.tool_arguments import Arguments
    from skillyard.tools.tool_definitions import Language, Wording
    from skillyard.workspace import CommandListener, Workspace

FUNCTION_NAME_LIMIT: Final = 64  # what every API takes
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
            shorten(single_line(self.tool.name), FUNCTION_NAME_LIMIT),
            description or self.skill.label,
            read_only=False,
            category="skill",
            input_schema=service_schema(sanitize_value(self.tool.schema())),
        )


@dataclass(frozen=True, slots=True)
class DeclaredTools:
    """Every declared tool, by its function and by its own name."""

    by_function: Mapping[str, DeclaredTool] = field(default_factory=dict)
    by_name: Mapping[str, tuple[DeclaredTool, ...]] = field(default_factory=dict)


def gather_declared(skills: Collection[Skill], *, reserved: Collection[str]) -> DeclaredTools:
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
    plain = _NOT_IN_NAMES.sub("_", name).strip("_")[:FUNCTION_NAME_LIMIT]
    if plain and plain == name and plain not in taken:
        return plain
    longer = f"{skill.slug[:30]}_{plain}".rstrip("_")[:FUNCTION_NAME_LIMIT]
    if plain and longer not in taken:
        return longer
    mark = hashlib.sha256(f"{skill.id}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{longer[: FUNCTION_NAME_LIMIT - 9]}_{mark}"


WorkspaceSource = Callable[[str], "Workspace"]
"""Gives the workspace of a session by the session's name: `Workspaces.get`."""

_KEPT: Final = 1024
NO_RULES: Final = CommandPolicy()


@dataclass(frozen=True, slots=True)
class LoadedSkill(WireForm):
    """One skill that a session has read.

    `fingerprint` is of the text it was given, empty when only files were read; `allowed_tools` is what the skill asks for.
    """

    fingerprint: str
    allowed_tools: tuple[str, ...]


@dataclass(slots=True)
class ToolSession(WireForm):
    """One conversation, by the name its host gave it; `shown` is the index it was shown last, of the skills of that time.

    `workspace` is the folder whose files its scripts work on. Its plain data is what another process needs to continue it.
    """

    name: str = field(metadata=wire(hidden=True))
    loaded: dict[str, LoadedSkill] = field(default_factory=dict)
    shown: tuple[tuple[Skill, ...], Index] | None = field(
        default=None, metadata=wire(name="index", write=lambda shown: shown[1].to_dict())
    )
    workspace: str | None = field(default=None, metadata=wire(hidden=True))

    def remember(self, skill_id: str, allowed_tools: tuple[str, ...], fingerprint: str = "") -> None:
        """Note that `skill_id` was read; a fingerprint once noted stays when only a file was read since."""
        before = self.loaded.get(skill_id)
        self.loaded[skill_id] = LoadedSkill(fingerprint or (before.fingerprint if before else ""), allowed_tools)

    def restore(self, values: Mapping[str, Any], offered: tuple[Skill, ...]) -> None:
        """Take up what `to_dict` gave; `offered` are the skills that there are now."""
        from skillyard.prompt import Index

        for skill, it in dict(values.get("loaded") or {}).items():
            self.loaded[skill] = LoadedSkill(str(it["fingerprint"]), tuple(it["allowed_tools"]))
        if values.get("index"):
            self.shown = (offered, Index.from_dict(values["index"]))

    def has(self, skill_id: str, fingerprint: str) -> bool:
        """Whether the session was already given exactly this text of the skill."""
        before = self.loaded.get(skill_id)
        return before is not None and before.fingerprint == fingerprint


class ToolSessions:
    """The sessions of one `SkillTools`; beyond 1024 the one longest unused is forgotten."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, ToolSession] = OrderedDict()

    def get(self, name: str) -> ToolSession:
        """The session of that name, begun when it is new."""
        session = self._sessions.setdefault(name, ToolSession(name))
        self._sessions.move_to_end(name)
        while len(self._sessions) > _KEPT:
            self._sessions.popitem(last=False)
        return session

    def end(self, name: str) -> None:
        """Forget what that session loaded."""
        self._sessions.pop(name, None)


Repeat = Literal["note", "text"]
# Over this many names an enum costs more tokens than it saves, and some model APIs refuse it.
ENUM_LIMIT: Final = 250
_NAMED_ON_A_MISS: Final = 40
_TOOLS: Final = 50  # of the tools a skill asks for
_REASON: Final = 12_000  # characters of why something did not work
_Value = TypeVar("_Value")


@dataclass(slots=True)
class _CachedPerCatalog(Generic[_Value]):
    """Something that is worked out from the offered skills, and again only when they are others; any thread may ask."""

    kept: tuple[tuple[Skill, ...], _Value]
    """The skills and what was worked out from them, replaced together."""

    def of(self, source: tuple[Skill, ...], make: Callable[[tuple[Skill, ...]], _Value]) -> _Value:
        """What `make` gives for `source`."""
        known, value = self.kept
        if source is not known:
            value = make(source)
            self.kept = source, value
        return value


@dataclass(slots=True)
class ToolContext:
    """Everything the tools of one `SkillTools` share."""

    access: SkillAccess
    wording: Wording
    allowed_tools: AllowedToolsMode
    engine: Engine | None
    repeat: Repeat
    context: Mapping[str, object] = field(default_factory=dict)
    preferences: Mapping[str, object] = field(default_factory=dict)
    reserved: Collection[str] = ()
    language: Language = "en"
    workspace: Workspace | WorkspaceSource | None = None
    policy: CommandPolicy = NO_RULES
    origin: RunOrigin | None = None
    sessions: ToolSessions = field(default_factory=ToolSessions)
    tool_prefix: str = ""
    """What stands before the names of the tools where the client was given them so; the texts name them so too."""
    _declared: _CachedPerCatalog[DeclaredTools] = field(default_factory=lambda: _CachedPerCatalog(((), DeclaredTools())))
    _runnable: _CachedPerCatalog[tuple[Skill, ...]] = field(default_factory=lambda: _CachedPerCatalog(((), ())))
    _index: _CachedPerCatalog[SearchIndex] = field(default_factory=lambda: _CachedPerCatalog(((), SearchIndex(()))))

    async def approve(self, skill: Skill, caller: ToolCaller) -> SkillConsent:
        """Ask for consent where a rule wants it, and about a skill that lies where the session can write.

        Raises:
            ApprovalRejected: the answer was no.
        """
        return await self.access.approve(
            skill,
            session=caller.session.name,
            message_id=caller.message_id,
            call_id=caller.call_id,
            written=self.may_have_written(skill, caller.session),
        )

    def may_have_written(self, skill: Skill, session: ToolSession) -> bool:
        """Whether the folder of a skill is one that commands or scripts of a session can write."""
        workspace = self.workspace_of(session)
        if workspace is not None and workspace.may_write(skill.directory):
            return True
        return session.workspace is not None and is_inside(skill.directory, session.workspace)

    def workspace_of(self, session: ToolSession) -> Workspace | None:
        """The workspace of a session, if there is one: every session has its own where a source of them was given.

        Raises:
            PathRefused: the name of the session cannot be the id of a workspace.
        """
        if self.workspace is None:
            return None
        return self.workspace(session.name) if callable(self.workspace) else self.workspace

    def restrictions(self, session: ToolSession) -> AllowedTools:
        """What the skills that a session has loaded ask for."""
        names = [name for skill in session.loaded.values() for name in skill.allowed_tools]
        return AllowedTools(names, mode=self.allowed_tools)

    def gate(self, caller: ToolCaller, policy: Callable[[], CommandPolicy] | None = None) -> CommandGate:
        """What decides about the uses of tools by this caller: the rules of every level, and a person where they say `ask`."""
        workspace, session = self.workspace_of(caller.session), caller.session

        def rules() -> CommandPolicy:
            return self.policy.following(self.restrictions(session).command_rules())

        return CommandGate(
            policy or rules,
            self.access.approvals,
            lambda: workspace.path if workspace is not None else "/",
            session.name,
            lambda: self._labels(session),
            caller.message_id,
            caller.call_id,
        )

    def _labels(self, session: ToolSession) -> tuple[str, ...]:
        return tuple(skill.label for skill in self.access.offered() if skill.id in session.loaded)

    def run_request(
        self, skill: Skill, parameters: Mapping[str, object], caller: ToolCaller, *, digest: str | None
    ) -> RunRequest:
        """The request of a caller to run a skill on the files of the session; its context says whom the run is for."""
        from skillyard.execution import RunOrigin, RunRequest

        user = {"userId": caller.user} if caller.user is not None else {}
        context = {**self.context, **user, "sessionId": caller.session.name}
        origin = self.origin or RunOrigin()
        return RunRequest(skill, parameters, context, digest=digest, workspace=caller.session.workspace or None, origin=origin)

    def runnable(self) -> tuple[Skill, ...]:
        """The offered skills that have something to run here."""
        engine = self.engine
        if engine is None:
            return ()
        return self._runnable.of(self.access.offered(), lambda skills: tuple(s for s in skills if engine.can_run(s)))

    def declared(self) -> DeclaredTools:
        """The tools that the skills which can run here declare for themselves; reads files when the skills are others."""
        return self._declared.of(self.runnable(), lambda skills: gather_declared(skills, reserved=self.reserved))

    def index(self) -> SearchIndex:
        """The offered skills, ready to be searched."""
        cache = self.access.catalog.search_directory
        _, before = self._index.kept
        return self._index.of(self.access.offered(), lambda skills: SearchIndex(skills, cache=cache, before=before))


@dataclass(frozen=True, slots=True)
class ToolCaller:
    """The caller: the conversation, and where the host knows them the message and the call in it, and the `user`.

    `listener` gets what a command of a workspace writes while it runs.
    """

    session: ToolSession
    message_id: str | None = None
    call_id: str | None = None
    user: str | None = None
    listener: CommandListener | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: when to offer it, how to advertise it, what it does, how it says no."""

    name: str
    offered: Callable[[ToolContext], bool]
    define: Callable[[ToolContext], ToolDefinition]
    call: Callable[[ToolContext, Arguments, ToolCaller], Awaitable[ToolResult]]
    refuse: Callable[[ToolContext, SkillyardError, str], ToolResult]


def any_skill(context: ToolContext) -> bool:
    """Whether there is anything to load, list or read."""
    return bool(context.access.offered())


def schema_choices(skills: tuple[Skill, ...]) -> tuple[str, ...]:
    """What a schema offers as choices: each name when it is unique, else the id; nothing when there are too many.

    A name that is more than a plain one gives way to the id as well.
    """
    if len(skills) > ENUM_LIMIT:
        return ()
    count = Counter(skill.name for skill in skills)
    return tuple(skill.label if count[skill.name] == 1 else skill.reference for skill in skills)


def skill_summary(skill: Skill) -> dict[str, object]:
    """What a list in JSON says of a skill: each text on one line and cut, tools as understood."""
    return {
        "id": skill.reference,
        "name": shorten(single_line(skill.name), LABEL_LIMIT),
        "description": shorten(single_line(skill.description), DESCRIPTION_LIMIT),
        "allowedTools": [str(rule) for rule in AllowedTools(skill.allowed_tools).rules[:_TOOLS]],
    }


def refusal(context: ToolContext, error: SkillyardError, requested: str, *, prefix: str = "") -> ToolResult:
    """An error about the skill `requested` as an answer with a title.

    What may quote a skill, or names its files, is fenced.
    """
    name = shorten(single_line(requested), LABEL_LIMIT)
    reasons = [error.message, *([error.hint] if error.hint else [])]
    match error:
        case SkillNotFound():
            title, lines = f"Skill not found: {name}", [*reasons, *_available(context)]
        case AmbiguousSkill():
            title, lines = f"Ambiguous skill: {name}", reasons
        case ApprovalRejected():
            title, lines = f"Skill rejected: {name}", reasons
        case PermissionDenied():
            title, lines = f"Skill denied: {name}", reasons
        case InvalidArguments():
            title, lines = error.message, reasons
        case SkillUnusable():
            title = f"Skill unavailable: {name}"
            lines = ["That skill cannot be used. Why:", _fenced(reasons)]
        case InvalidInput():
            title = f"Invalid input: {name}"
            lines = ["The input cannot be used. Why:", _fenced(reasons)]
        case _:
            title = f"Failed to read skill: {name}"
            lines = ["That did not work. Why:", _fenced(reasons)]
    return failure(error.code, title, prefix + "\n".join(lines), **error.details)


def _fenced(lines: Sequence[str]) -> str:
    return fence("skill_text", shorten("\n".join(lines), _REASON))


def _available(context: ToolContext) -> list[str]:
    skills = context.access.offered()
    if not skills:
        return ["No skill is available."]
    names = ", ".join(schema_choices(skills[:_NAMED_ON_A_MISS]))
    more = len(skills) - _NAMED_ON_A_MISS
    return [f"Available skills: {names}" + (f", and {more} more" if more > 0 else "")]
