"""Which skills are switched off: `settings.json` in Skillyard's own folder (row 001-24).

The shape is `{"enableSkills": true, "skills": {"user:pdf": {"enabled": false}}}`. A skill of a project or of a configured
folder is written with its place, `deploy@/home/me/site/.claude/skills`: a namesake elsewhere is another skill. An entry of an
older version, `project:deploy`, holds in every project until one of them switches its skill on. Keys this room does not know
are kept.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

from skillyard.errors import InvalidConfiguration
from skillyard.paths import real_path
from skillyard.reserved_files import refuse_reserved

_FILE: Final = "settings.json"
_PLACED: Final = ("project", "config", "env")
"""The sources whose roots differ from one working folder to another; the others are the same everywhere."""


class DisabledSkill(NamedTuple):
    """One skill that is switched off: its id, or its slug and the `root` it is in; `skill` may be of every project."""

    skill: str
    root: str | None = None

    @property
    def command(self) -> str:
        """The command that switches it on, from any folder."""
        import shlex

        named = f" --root {shlex.quote(self.root)}" if self.root else ""
        return f"skillyard enable {shlex.quote(self.skill)}{named}"

    @property
    def everywhere(self) -> bool:
        """Whether an older version wrote it down, for the skills of that name in every project."""
        return self.root is None and self.skill.partition(":")[0] in _PLACED


class SkillSettings(NamedTuple):
    """The switches: one for all skills, the keys of those that are off, and of those that are on."""

    enable_skills: bool = True
    disabled: frozenset[str] = frozenset()
    enabled: frozenset[str] = frozenset()

    def reason(self, source: str, slug: str, root: str) -> str | None:
        """Why the skill with this slug below `root` is not offered; None when it is not switched off."""
        if not self.enable_skills:
            return "all skills are switched off in settings.json"
        key, old = switch_key(source, slug, root), f"{source}:{slug}"
        if key in self.disabled:
            found = _disabled_skill(key)
            where = f" in {found.root}" if found.root else ""
            return f"switched off{where}; `{found.command}` switches it on"
        if old in self.disabled and key not in self.enabled:
            command = DisabledSkill(slug, real_path(root)).command
            return f"switched off in every project; `{command}` switches it on in this one"
        return None

    def switched_off(self) -> tuple[DisabledSkill, ...]:
        """Every skill that is switched off one by one, in order, also where it cannot be seen from here."""
        return tuple(sorted((_disabled_skill(key) for key in self.disabled), key=lambda one: (one.skill, one.root or "")))


def switch_key(source: str, slug: str, root: str) -> str:
    """Under what a skill is switched: its id where its source is the same everywhere, else its slug and its root."""
    return f"{slug}@{real_path(root)}" if source in _PLACED else f"{source}:{slug}"


def _disabled_skill(key: str) -> DisabledSkill:
    skill, at, root = key.partition("@")
    return DisabledSkill(skill, root) if at else DisabledSkill(key)


def home_directory(environ: Mapping[str, str] | None = None) -> str:
    """Skillyard's own folder: `$SKILLYARD_HOME`, or the platform's place for a user's data."""
    environ = os.environ if environ is None else environ
    if own := environ.get("SKILLYARD_HOME", "").strip():
        return os.path.abspath(os.path.expanduser(own))
    return f"{_user_folder(environ, 'XDG_DATA_HOME', '.local/share', 'user_data_dir')}"


def configuration_directory(environ: Mapping[str, str]) -> str:
    """Where the user's own `skillyard.toml` is: the platform's place for a user's configuration."""
    return _user_folder(environ, "XDG_CONFIG_HOME", ".config", "user_config_dir")


def _user_folder(environ: Mapping[str, str], variable: str, below_home: str, function: str) -> str:
    if sys.platform == "linux":  # what platformdirs says too, without the cost of importing it
        base = environ.get(variable, "").strip()
        home = environ.get("HOME") or os.path.expanduser("~")
        return f"{base if os.path.isabs(base) else f'{home}/{below_home}'}/skillyard"
    import platformdirs

    return str(getattr(platformdirs, function)("skillyard", appauthor=False))


def load_settings(data: str) -> SkillSettings:
    """The switches kept in the folder `data`; all on when there is no file.

    Raises:
        InvalidConfiguration: the file is there and cannot be understood.
    """
    values = _load(f"{data}/{_FILE}")
    skills = values.get("skills")
    said = (
        {key: value.get("enabled") for key, value in skills.items() if isinstance(value, dict)}
        if isinstance(skills, dict)
        else {}
    )
    off, on = (frozenset(key for key, value in said.items() if value is word) for word in (False, True))
    return SkillSettings(values.get("enableSkills") is not False, off, on)


def save_enabled(data: str, key: str, *, enabled: bool) -> None:
    """Switch the skill with this `switch_key` on or off; the file is replaced in one step and all else in it is kept."""
    import json

    from skillyard.files import locked, replace_file

    path = f"{data}/{_FILE}"
    os.makedirs(data, mode=0o700, exist_ok=True)
    with locked(path):
        values = _load(path)
        skills = values.get("skills")
        skills = dict(skills) if isinstance(skills, dict) else {}
        entry = skills.get(key)
        skills[key] = {**(entry if isinstance(entry, dict) else {}), "enabled": enabled}
        values = {"enableSkills": True, **values, "skills": skills}
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
