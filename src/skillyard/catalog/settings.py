"""Which skills are switched off: `settings.json` in Skillyard's own folder (row 001-24).

The shape is `{"enableSkills": true, "skills": {"user:pdf": {"enabled": false}}}`. Keys this room does not know are kept.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

from skillyard.errors import InvalidConfiguration

__all__ = ["Settings", "home_directory", "load_settings", "save_enabled"]

_FILE: Final = "settings.json"


class Settings(NamedTuple):
    """The switches: one for all skills, and the ids of those that are off."""

    enable_skills: bool = True
    disabled: frozenset[str] = frozenset()


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


def load_settings(data: str) -> Settings:
    """The switches kept in the folder `data`; all on when there is no file.

    Raises:
        InvalidConfiguration: the file is there and cannot be understood.
    """
    values = _load(f"{data}/{_FILE}")
    skills = values.get("skills")
    off = {key for key, value in skills.items() if _is_off(value)} if isinstance(skills, dict) else set()
    return Settings(values.get("enableSkills") is not False, frozenset(off))


def _is_off(value: object) -> bool:
    return isinstance(value, dict) and value.get("enabled") is False


def save_enabled(data: str, skill_id: str, *, enabled: bool) -> None:
    """Switch one skill on or off; the file is replaced in one step and everything else in it is kept."""
    import json

    from skillyard.files import locked, replace_file

    path = f"{data}/{_FILE}"
    os.makedirs(data, mode=0o700, exist_ok=True)
    with locked(path):
        values = _load(path)
        skills = values.get("skills")
        skills = dict(skills) if isinstance(skills, dict) else {}
        entry = skills.get(skill_id)
        skills[skill_id] = {**(entry if isinstance(entry, dict) else {}), "enabled": enabled}
        values = {"enableSkills": True, **values, "skills": skills}
        replace_file(path, json.dumps(values, indent=2, ensure_ascii=False).encode() + b"\n")


def _load(path: str) -> dict[str, object]:
    try:
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
        raise InvalidConfiguration(f"{path} is not JSON: {error}", hint="mend or remove the file", file=path) from None
    if not isinstance(values, dict):
        raise InvalidConfiguration(f"{path} must hold an object", hint="mend or remove the file", file=path)
    return values
