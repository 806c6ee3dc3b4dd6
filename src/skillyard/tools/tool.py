"""What a tool is, and what every tool works with."""

from __future__ import annotations

from collections import Counter
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
from skillyard.permissions import AllowedTools
from skillyard.prompt.fence import fence
from skillyard.search import SearchIndex
from skillyard.text import LABEL_LIMIT, shorten, single_line
from skillyard.tools.arguments import InvalidArguments
from skillyard.tools.declared import DeclaredTools, gather
from skillyard.tools.result import ToolResult, failure
from skillyard.tools.session import Session, Sessions

if TYPE_CHECKING:
    from skillyard.catalog import AllowedToolsMode, Skill
    from skillyard.engine import Engine
    from skillyard.permissions import Consent
    from skillyard.tools.access import Access
    from skillyard.tools.arguments import Arguments
    from skillyard.tools.definition import ToolDefinition
    from skillyard.tools.wording import Wording

__all__ = ["ENUM_LIMIT", "Caller", "Repeat", "Tool", "ToolContext", "about", "any_skill", "names_of", "refusal"]

Repeat = Literal["note", "text"]
# Over this many names an enum costs more tokens than it saves, and some model APIs refuse it.
ENUM_LIMIT: Final = 250
_NAMED_ON_A_MISS: Final = 40
_TOOLS: Final = 50  # of the tools a skill asks for
_REASON: Final = 12_000  # characters of why something did not work
_Value = TypeVar("_Value")


@dataclass(slots=True)
class _Derived(Generic[_Value]):
    """Something that is worked out from the offered skills, and again only when they are others."""

    value: _Value
    source: tuple[Skill, ...] = ()

    def of(self, source: tuple[Skill, ...], make: Callable[[tuple[Skill, ...]], _Value]) -> _Value:
        """What `make` gives for `source`."""
        if source is not self.source:
            self.value = make(source)
            self.source = source
        return self.value


@dataclass(slots=True)
class ToolContext:
    """Everything the tools of one `SkillTools` share."""

    access: Access
    wording: Wording
    allowed_tools: AllowedToolsMode
    engine: Engine | None
    repeat: Repeat
    context: Mapping[str, object] = field(default_factory=dict)
    preferences: Mapping[str, object] = field(default_factory=dict)
    reserved: Collection[str] = ()
    sessions: Sessions = field(default_factory=Sessions)
    _declared: _Derived[DeclaredTools] = field(default_factory=lambda: _Derived(DeclaredTools()))
    _runnable: _Derived[tuple[Skill, ...]] = field(default_factory=lambda: _Derived(()))
    _index: _Derived[SearchIndex] = field(default_factory=lambda: _Derived(SearchIndex(())))

    async def approve(self, skill: Skill, caller: Caller) -> Consent:
        """Ask for consent where a rule wants it.

        Raises:
            ApprovalRejected: the answer was no.
        """
        return await self.access.approve(
            skill, session=caller.session.name, message_id=caller.message_id, call_id=caller.call_id
        )

    def desk(self, arguments: tuple[str, ...], caller: Caller) -> dict[str, Any]:
        """What a run is given beside its parameters: a command line and the session's files; nothing where there is neither."""
        given: dict[str, Any] = {"arguments": arguments} if arguments else {}
        return given | ({"workspace": caller.session.workspace} if caller.session.workspace else {})

    def run_context(self, caller: Caller) -> dict[str, object]:
        """What a run is told of whom it is for."""
        user = {"userId": caller.user} if caller.user is not None else {}
        return {**self.context, **user, "sessionId": caller.session.name}

    def runnable(self) -> tuple[Skill, ...]:
        """The offered skills that have something to run here."""
        engine = self.engine
        if engine is None:
            return ()
        return self._runnable.of(self.access.offered(), lambda skills: tuple(s for s in skills if engine.can_run(s)))

    def declared(self) -> DeclaredTools:
        """The tools that the skills which can run here declare for themselves; reads files when the skills are others."""
        return self._declared.of(self.runnable(), lambda skills: gather(skills, reserved=self.reserved))

    def index(self) -> SearchIndex:
        """The offered skills, ready to be searched."""
        cache = self.access.catalog.search_directory
        return self._index.of(self.access.offered(), lambda skills: SearchIndex(skills, cache=cache))


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: the conversation, and where the host knows them the message and the call in it, and the `user`."""

    session: Session
    message_id: str | None = None
    call_id: str | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: when to offer it, how to advertise it, what it does, how it says no."""

    name: str
    offered: Callable[[ToolContext], bool]
    define: Callable[[ToolContext], ToolDefinition]
    call: Callable[[ToolContext, Arguments, Caller], Awaitable[ToolResult]]
    refuse: Callable[[ToolContext, SkillyardError, str], ToolResult]


def any_skill(context: ToolContext) -> bool:
    """Whether there is anything to load, list or read."""
    return bool(context.access.offered())


def names_of(skills: tuple[Skill, ...]) -> tuple[str, ...]:
    """What a schema offers as choices: each name when it is unique, else the id (rule C-9); nothing when there are too many.

    A name that is more than a plain one gives way to the id as well.
    """
    if len(skills) > ENUM_LIMIT:
        return ()
    count = Counter(skill.name for skill in skills)
    return tuple(skill.label if count[skill.name] == 1 else skill.reference for skill in skills)


def about(skill: Skill) -> dict[str, object]:
    """What a list in JSON says of a skill (rows 004-10, 004-11): each text on one line and cut, tools as understood."""
    return {
        "id": skill.reference,
        "name": shorten(single_line(skill.name), LABEL_LIMIT),
        "description": shorten(single_line(skill.description), DESCRIPTION_LIMIT),
        "allowedTools": [str(rule) for rule in AllowedTools(skill.allowed_tools).rules[:_TOOLS]],
    }


def refusal(context: ToolContext, error: SkillyardError, wanted: str, *, prefix: str = "") -> ToolResult:
    """An error about the skill `wanted` as an answer with the title of row 001-16.

    What may quote a skill, or names its files, stands in a fence.
    """
    name = shorten(single_line(wanted), LABEL_LIMIT)
    said = [error.message, *([error.hint] if error.hint else [])]
    match error:
        case SkillNotFound():
            title, lines = f"Skill not found: {name}", [*said, *_available(context)]
        case AmbiguousSkill():
            title, lines = f"Ambiguous skill: {name}", said
        case ApprovalRejected():
            title, lines = f"Skill rejected: {name}", said
        case PermissionDenied():
            title, lines = f"Skill denied: {name}", said
        case InvalidArguments():
            title, lines = error.message, said
        case SkillUnusable():
            title = f"Skill unavailable: {name}"
            lines = ["That skill cannot be used. Why:", _fenced(said)]
        case InvalidInput():
            title = f"Invalid input: {name}"
            lines = ["The input cannot be used. Why:", _fenced(said)]
        case _:
            title = f"Failed to read skill: {name}"
            lines = ["That did not work. Why:", _fenced(said)]
    return failure(error.code, title, prefix + "\n".join(lines), **error.details)


def _fenced(lines: Sequence[str]) -> str:
    return fence("skill_text", shorten("\n".join(lines), _REASON))


def _available(context: ToolContext) -> list[str]:
    skills = context.access.offered()
    if not skills:
        return ["No skill is available."]
    names = ", ".join(names_of(skills[:_NAMED_ON_A_MISS]))
    more = len(skills) - _NAMED_ON_A_MISS
    return [f"Available skills: {names}" + (f", and {more} more" if more > 0 else "")]
