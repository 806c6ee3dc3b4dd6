"""What a user changes about skills: their states, the set in use; and a skill's folder made, shown on the desktop, deleted.

`settings.json` in Skillyard's own folder has the states and sets. The shape is `{"enableSkills": true, "skills": {"user:pdf":
{"enabled": true, "state": "pinned"}}, "sets": {"/home/me/site": "backend"}}`. A skill of a project or of a
configured folder is written with its folder, `deploy@/home/me/site/.claude/skills`: a namesake elsewhere is another skill. An
entry of an older version, `project:deploy`, holds in every project until one of them enables its skill. Keys that are unknown
here are kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from skillyard.errors import DeleteRefused, FileTooLarge, InvalidConfiguration, InvalidInput, SkillExists
from skillyard.paths import real_path, refuse_reserved

if TYPE_CHECKING:
    from skillyard.catalog.catalog_rows import SkillState
    from skillyard.catalog.skill import Skill

_FILE: Final = "settings.json"
_PLACED: Final = ("project", "config")
"""The sources whose roots differ from one working folder to another; the others are the same everywhere."""


_NO_SETS: Final[Mapping[str, str]] = MappingProxyType({})
_NO_STATES: Final[Mapping[str, SkillState]] = MappingProxyType({})
_NO_COPIES: Final[Mapping[str, InstalledCopy]] = MappingProxyType({})
_KEPT_STATES: Final = ("pinned", "name-only", "manual")


class DisabledSkill(NamedTuple):
    """One disabled skill: its id, or its slug and the `root` it is in; `skill` may be of every project."""

    skill: str
    root: str | None = None

    @property
    def command(self) -> str:
        """The command that enables it, from any folder."""
        import shlex

        named = f" --root {shlex.quote(self.root)}" if self.root else ""
        return f"skillyard enable {shlex.quote(self.skill)}{named}"

    @property
    def everywhere(self) -> bool:
        """Whether an older version wrote it down, for the skills of that name in every project."""
        return self.root is None and self.skill.partition(":")[0] in _PLACED


class InstalledCopy(NamedTuple):
    """A copy of an installed skill in a folder of coding agents: of which, and the digest it was made with."""

    skill_id: str
    digest: str


class SkillSettings(NamedTuple):
    """The switches: one for all skills, the keys of those that are disabled, and of those that are enabled.

    `states` has the other states that a user gave to skills, by key, and `sets` the set of skills that each project uses. Where
    one is in use, `set_name` is its name, and `chosen` has the slugs and ids of its skills: no others are offered. `copies` are
    those of installed skills in folders of coding agents, by real path.
    """

    enable_skills: bool = True
    disabled: frozenset[str] = frozenset()
    enabled: frozenset[str] = frozenset()
    states: Mapping[str, SkillState] = _NO_STATES
    sets: Mapping[str, str] = _NO_SETS
    set_name: str = ""
    chosen: frozenset[str] | None = None
    copies: Mapping[str, InstalledCopy] = _NO_COPIES

    def state(self, source: str, slug: str, root: str) -> SkillState:
        """What the user wants of the skill with this slug below `root` while it is on."""
        return self.states.get(switch_key(source, slug, root), "automatic")

    def reason(self, source: str, slug: str, root: str) -> str | None:
        """Why the skill with this slug below `root` is not offered; None when it is not disabled."""
        if not self.enable_skills:
            return "all skills are disabled; `skillyard enable --all` offers them again"
        key, old = switch_key(source, slug, root), f"{source}:{slug}"
        if key in self.disabled:
            disabled = _disabled_skill(key)
            where = f" in {disabled.root}" if disabled.root else ""
            return f"disabled{where}; `{disabled.command}` enables it"
        if old in self.disabled and key not in self.enabled:
            command = DisabledSkill(slug, real_path(root)).command
            return f"disabled in every project; `{command}` enables it in this one"
        if self.chosen is not None and not self.chosen & {slug, old}:
            return f"not in the set {self.set_name!r}, which is in use here; `skillyard use --none` offers all skills"
        return None

    def kept_out(self, source: str, slug: str, root: str) -> str | None:
        """Why agents that offer all that is in their folders are not to have this skill; None when they may."""
        if reason := self.reason(source, slug, root):
            return reason
        manual = self.state(source, slug, root) == "manual"
        return f"manual, for people only; `skillyard state {source}:{slug} automatic` offers it" if manual else None

    def switched_off(self) -> tuple[DisabledSkill, ...]:
        """Every skill that is disabled one by one, in order, also where it cannot be seen from here."""
        return tuple(sorted((_disabled_skill(key) for key in self.disabled), key=lambda one: (one.skill, one.root or "")))


def switch_key(source: str, slug: str, root: str) -> str:
    """Under what a skill is switched: its id where its source is the same everywhere, else its slug and its root."""
    return f"{slug}@{real_path(root)}" if source in _PLACED else f"{source}:{slug}"


def _disabled_skill(key: str) -> DisabledSkill:
    skill, at, root = key.partition("@")
    return DisabledSkill(skill, root) if at else DisabledSkill(key)


def load_settings(data: str) -> SkillSettings:
    """The switches kept in the folder `data`; all on when there is no file.

    Raises:
        InvalidConfiguration: the file is there and cannot be understood.
    """
    values = _load(f"{data}/{_FILE}")
    skills = values.get("skills")
    skills = skills if isinstance(skills, dict) else {}
    entries = {key: value.get("enabled") for key, value in skills.items() if isinstance(value, dict)}
    off, on = (frozenset(key for key, value in entries.items() if value is word) for word in (False, True))
    given = ((key, value.get("state")) for key, value in skills.items() if isinstance(value, dict))
    states = {key: state for key, state in given if state in _KEPT_STATES}
    sets = values.get("sets")
    used = {project: name for project, name in sets.items() if isinstance(name, str)} if isinstance(sets, dict) else {}
    return SkillSettings(values.get("enableSkills") is not False, off, on, states, used)


_LINKS: Final = "agent-links.json"
"""What `coding_agents.SkillLinks` writes; only this much of it is read here, by itself: every list is shown with it."""
_LARGEST_LINKS: Final = 16 * 1024 * 1024


def load_copies(data: str) -> dict[str, InstalledCopy]:
    """The copies of installed skills in folders of coding agents, by real path; none where the list cannot be understood."""
    path = f"{data}/{_LINKS}"
    if not os.path.lexists(path):
        return {}
    from skillyard.files import read_limited
    from skillyard.plain_json import read_json

    try:
        values = read_json(read_limited(path, _LARGEST_LINKS).decode())
    except (OSError, ValueError, FileTooLarge):
        return {}
    listed = values.get("links") if isinstance(values, dict) else None
    copies: dict[str, InstalledCopy] = {}
    for one in listed if isinstance(listed, list) else ():
        if not isinstance(one, dict) or one.get("withdrawn"):
            continue
        match one.get("path"), one.get("skill_id"), one.get("digest"):
            case str(place), str(skill_id), str(digest):
                copies[real_place(place)] = InstalledCopy(skill_id, digest)
    return copies


def real_place(path: str) -> str:
    """A path whose folder is its real one, and whose last part is as it is, also where that is a link."""
    folder, name = os.path.split(path)
    return f"{real_path(folder).rstrip('/')}/{name}"


Withdrawal = Literal["deprecated", "withdrawn", "yanked"]
_WITHDRAWN: Final = "cache/withdrawn.json"
"""What the records say of current versions, beside them: lists are shown without opening a database."""
_LARGEST_WITHDRAWN: Final = 4 * 1024 * 1024


def load_withdrawn(data: str) -> dict[str, str]:
    """A sentence for each installed skill, by its id, whose current version was deprecated or yanked."""
    path = f"{data}/{_WITHDRAWN}"
    if not os.path.lexists(path):
        return {}
    from skillyard.files import read_limited
    from skillyard.plain_json import read_json

    try:
        values = read_json(read_limited(path, _LARGEST_WITHDRAWN).decode())
    except (OSError, ValueError, FileTooLarge):
        return {}
    shape = values if isinstance(values, dict) else {}
    return {name: sentence for name, sentence in shape.items() if isinstance(sentence, str)}


def withdrawal(sentence: str) -> Withdrawal:
    """Which of the three such a sentence says."""
    return "yanked" if " was yanked" in sentence else "withdrawn" if " no longer approved" in sentence else "deprecated"


def save_withdrawn(data: str, sentences: Mapping[str, str]) -> None:
    """Keep these sentences for `load_withdrawn`. Raises OSError: they cannot be written."""
    if load_withdrawn(data) != sentences:
        import json

        from skillyard.files import replace_file

        os.makedirs(f"{data}/cache", mode=0o700, exist_ok=True)
        replace_file(f"{data}/{_WITHDRAWN}", json.dumps(sentences, ensure_ascii=False).encode(), durable=False)


def save_enabled(data: str, key: str, *, enabled: bool) -> None:
    """Switch the skill with this `switch_key` on or off; the file is replaced in one step and all else in it is kept."""

    def change(values: dict[str, object]) -> dict[str, object]:
        skills = values.get("skills")
        skills = dict(skills) if isinstance(skills, dict) else {}
        entry = skills.get(key)
        skills[key] = {**(entry if isinstance(entry, dict) else {}), "enabled": enabled}
        return {"enableSkills": True, **values, "skills": skills}

    _change_file(data, change)


def save_state(data: str, key: str, state: SkillState) -> None:
    """Give the skill with this `switch_key` a state; one that is off is switched off and forgets the one it had."""

    def change(values: dict[str, object]) -> dict[str, object]:
        skills = values.get("skills")
        skills = dict(skills) if isinstance(skills, dict) else {}
        entry = skills.get(key)
        kept = {name: value for name, value in entry.items() if name != "state"} if isinstance(entry, dict) else {}
        skills[key] = {**kept, "enabled": state != "off", **({"state": state} if state in _KEPT_STATES else {})}
        return {"enableSkills": True, **values, "skills": skills}

    _change_file(data, change)


def save_chosen_set(data: str, project: str, name: str | None) -> None:
    """Note which set of skills a project uses, or that it uses none."""

    def change(values: dict[str, object]) -> dict[str, object]:
        sets = values.get("sets")
        others = {key: value for key, value in sets.items() if key != project} if isinstance(sets, dict) else {}
        return {"enableSkills": True, **values, "sets": others if name is None else {**others, project: name}}

    _change_file(data, change)


def save_enable_skills(data: str, *, enabled: bool) -> None:
    """Switch all skills on or off; what is said of single ones is kept."""
    _change_file(data, lambda values: {**values, "enableSkills": enabled})


def _change_file(data: str, change: Callable[[dict[str, object]], dict[str, object]]) -> None:
    import json

    from skillyard.files import locked, replace_file

    path = f"{data}/{_FILE}"
    os.makedirs(data, mode=0o700, exist_ok=True)
    with locked(path):
        values = change(_load(path))
        replace_file(path, json.dumps(values, indent=2, ensure_ascii=False).encode() + b"\n")


def _load(path: str) -> dict[str, object]:
    try:
        refuse_reserved(path)
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidConfiguration(
            f"{path} cannot be read: {error.strerror}",
            hint="check HOME and the folder, or point SKILLYARD_HOME somewhere else",
            file=path,
        ) from None
    import json

    try:
        values = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidConfiguration(f"{path} is not JSON: {error}", hint="fix or remove the file", file=path) from None
    if not isinstance(values, dict):
        raise InvalidConfiguration(f"{path} must hold an object", hint="fix or remove the file", file=path)
    return values


def create_folder(root: str, name: str, description: str, instructions: str, *, source: str) -> str:
    """Write `root/name/SKILL.md` and return the folder; the root is created when it does not exist.

    Raises:
        InvalidInput: the name or description breaks the rule.
        SkillExists: there is something of that name already; it is left as it is.
    """
    from skillyard.document import new_document  # only who makes a skill writes one

    _check(name, description)
    text = new_document(name, description.strip(), instructions)
    folder = f"{root}/{name}"
    os.makedirs(root, exist_ok=True)
    try:
        os.mkdir(folder)
    except FileExistsError:
        raise SkillExists(
            f'Skill "{name}" already exists in {source} skills', hint=f"choose another name, or see {folder}"
        ) from None
    with open(f"{folder}/SKILL.md", "x", encoding="utf-8", newline="\n") as file:
        file.write(text)
    return folder


def _check(name: str, description: str) -> None:
    from skillyard.document import DESCRIPTION_LIMIT, NAME_LIMIT, is_name

    if not is_name(name):
        raise InvalidInput(
            f"{name!r} cannot be the name of a skill",
            hint=f"use lower-case letters, digits and single hyphens, at most {NAME_LIMIT}: for example report-writer",
        )
    if not 1 <= len(description.strip()) <= DESCRIPTION_LIMIT:
        raise InvalidInput(
            f"a description has 1 to {DESCRIPTION_LIMIT} characters, this one has {len(description.strip())}",
            hint="describe what the skill does and when to use it",
        )


def check_deletable(skill: Skill) -> None:
    """Refuse a skill that `delete_folder` would not delete, before anybody is asked about it.

    Raises:
        DeleteRefused: not a user skill, reached through a link, or not a folder of its own below its root.
    """
    directory, root = skill.directory, skill.root.path
    if skill.source != "user":
        ways = {"installed": f"`skillyard uninstall {skill.slug}`", "builtin": f"`skillyard disable {skill.id}`"}
        way = ways.get(skill.source, f"if you are sure, delete {skill.location} yourself")
        raise DeleteRefused("Can only delete user skills", hint=way, id=skill.id)
    below = directory[len(root.rstrip("/")) + 1 :]
    if not below or real_path(directory) != f"{real_path(root).rstrip('/')}/{below}":
        raise DeleteRefused(
            f"{skill.location} is reached through a link or is the root itself",
            hint="remove the link, or delete the folder it leads to, by hand",
            id=skill.id,
        )
    if not os.path.lexists(skill.path):
        raise DeleteRefused(f"{skill.location} has no SKILL.md any more", hint="refresh the catalog", id=skill.id)


def delete_folder(skill: Skill) -> None:
    """Delete the folder a user's skill was found in (the stored one, never one computed from the id).

    Raises:
        DeleteRefused: as `check_deletable`.
    """
    import shutil

    check_deletable(skill)
    shutil.rmtree(skill.directory)


def has_desktop() -> bool:
    """Whether there is a desktop here with a program that shows folders."""
    return _opener() is not None


def open_folder(folder: str) -> bool:
    """Start the desktop's own opener in the background; False if there is no desktop."""
    import subprocess

    opener = _opener()
    if opener is None:
        return False
    quiet = subprocess.DEVNULL
    subprocess.Popen([*opener, folder], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)  # noqa: S603
    return True


def _opener() -> list[str] | None:
    """The command that shows a folder; macOS reveals it, since plain ``open`` starts a folder that is an app."""
    import shutil
    import sys

    mac = sys.platform == "darwin"
    desktop = mac or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    program = shutil.which("open" if mac else "xdg-open") if desktop else None
    return None if program is None else [program, "-R"] if mac else [program]
