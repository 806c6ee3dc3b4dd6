"""Slash commands: a person starts a skill with `/name some arguments`; `$ARGUMENTS`, `$1` and `${SKILL_DIR}` are filled in."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillyard.errors import SkillNotFound, SkillUnusable, SkillyardError
from skillyard.permissions import PermissionGate, PolicyApprover, unusable_skill
from skillyard.text import nearest, shorten, single_line
from skillyard.tools.load_tools import render_skill, skill_fingerprint

if TYPE_CHECKING:
    from skillyard.catalog import Skill, SkillCatalog
    from skillyard.permissions import Rules
    from skillyard.tools import SkillTools


_COMMAND: Final = re.compile(r"/(?P<name>[^\s/]{1,200})(?:\s+(?P<arguments>.*))?", re.DOTALL)
_PLACE: Final = re.compile(r"\\?\$(?:ARGUMENTS(?:\[(\d{1,2})\])?|([1-9]\d?))(?![\w$])")
_NEAR: Final = 3
_LONGEST_HINT: Final = 200


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A skill that a person starts, with what they wrote after its name; `text` is what the model is given."""

    skill: Skill
    arguments: str
    text: str
    mark: str


@dataclass(frozen=True, slots=True)
class InvocableSkill:
    """A skill that a person may start: the name to write after the `/`, and its author's hint for the arguments."""

    id: str
    name: str
    description: str
    arguments: str | None


def invocable_skills(catalog: SkillCatalog, rules: Rules, text: str, *, limit: int) -> tuple[InvocableSkill, ...]:
    """The skills that may be started and whose name contains `text`; those that begin with it first. Blocks."""
    part = text.casefold()
    fitting = [skill for skill in catalog.all() if skill.status == "ok" and part in skill.name.casefold()]
    listed: list[InvocableSkill] = []
    for skill in sorted(fitting, key=lambda one: (not one.name.casefold().startswith(part), one.name.casefold())):
        if len(listed) == limit:
            break
        if rules.decide(skill) == "deny":
            continue
        try:
            metadata = skill.document().metadata
        except (SkillyardError, OSError):  # removed, or broken since it was listed
            continue
        if metadata.user_invocable:
            name = skill.name if _COMMAND.fullmatch(f"/{skill.name}") and " " not in skill.name else skill.slug
            listed.append(InvocableSkill(skill.id, name, single_line(skill.description), _hint(metadata.argument_hint)))
    return tuple(listed)


def _hint(written: str | None) -> str | None:
    return shorten(single_line(written), _LONGEST_HINT) if written else None


def parse_command(request: str, tools: SkillTools) -> SlashCommand | None:
    """The skill that a request starts; None for a request that is none.

    The skill's own rules hold: what a rule denies, what is broken or switched off, and what its author keeps from people
    (`user-invocable: false`) cannot be started. Where a rule is `ask`, starting it counts as approval, this once.

    Raises:
        SkillNotFound: there is no skill of that name; `candidates` names near ones.
        PermissionDenied, SkillUnusable: it may not be started.
    """
    parsed = _COMMAND.fullmatch(request.strip())
    if parsed is None:
        return None
    skill = _named(parsed["name"], tools)
    PermissionGate(tools.access.rules, tools.access.approvals_of(PolicyApprover("once"))).check(skill)
    document = skill.document()
    if not document.usable:
        raise unusable_skill(
            skill, "broken", "; ".join(item.message for item in document.diagnostics if item.severity == "error")
        )
    if not document.metadata.user_invocable:
        raise SkillUnusable(
            f"the skill {skill.label!r} cannot be started by a person",
            hint="ask for what you want in your own words: the model may use it",
            status=skill.status,
            reason="user-invocable: false",
        )
    arguments = (parsed["arguments"] or "").strip()
    files = tuple(file.name for file in skill.files())
    folder = tools.skill_folder(skill)
    text = render_skill(skill, fill_arguments(document.body, arguments), files, folder=folder)
    introduction = f"The user starts the skill /{skill.label}" + (f" with: {arguments}" if arguments else ".")
    return SlashCommand(skill, arguments, f"{introduction}\n\n{text}", skill_fingerprint(skill, document.body, files))


def fill_arguments(body: str, arguments: str) -> str:
    r"""`body` with its placeholders replaced by the arguments; placeholders inside arguments are not replaced.

    `$ARGUMENTS` is all of them, `$1` and `$ARGUMENTS[0]` the first; `\$1` stays as it is written. Where the text has no place
    for them they are added at its end.
    """
    words = _words(arguments)
    used = False

    def place(match: re.Match[str]) -> str:
        nonlocal used
        if match[0].startswith("\\"):
            return match[0][1:]
        used = True
        number = int(match[2]) - 1 if match[2] else int(match[1]) if match[1] else None
        if number is None:
            return arguments
        return words[number] if number < len(words) else ""

    text = _PLACE.sub(place, body)
    return text if used or not arguments else f"{text.rstrip()}\n\nArguments: {arguments}\n"


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # a quote that is not closed
        return arguments.split()


def _named(name: str, tools: SkillTools) -> Skill:
    """The usable skill with exactly that name, slug or id."""
    folded = name.casefold()
    skills = tools.access.catalog.all()
    matches = [
        skill for skill in skills if folded in (one.casefold() for one in (skill.name, skill.slug, skill.id, skill.reference))
    ]
    usable = [skill for skill in matches if skill.status == "ok"]
    if not matches:
        labels = {skill.name: skill.label for skill in skills if skill.status == "ok"}
        near = [labels[label] for label in nearest(name, labels, limit=_NEAR)]
        hint = f"did you mean /{', /'.join(near)}?" if near else "`skillyard list` lists the skills"
        raise SkillNotFound(f"there is no skill /{single_line(name)[:80]}", hint=hint, candidates=near)
    return tools.access.pinned_version((usable or matches)[0])
