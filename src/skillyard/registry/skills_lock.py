"""`skills-lock.json`: the lock that `npx skills` keeps in a project, read, checked against and written beside ours.

For each skill it has where it came from and one hash over the paths and bytes of its files, in the order in which JavaScript
compares texts. What it has that is not understood here stays as it is. Modes, links and empty folders are not in its hash, and
a git source is named by its branch: `skillyard.lock` is the stricter one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from skillyard.errors import InvalidConfiguration, SkillyardError
from skillyard.packages import Source, resolve
from skillyard.paths import is_inside, refuse_reserved, safe_relative, slug
from skillyard.plain_json import read_json

SKILLS_LOCK_FILE: Final = "skills-lock.json"
_VERSION: Final = 1
_MAX_BYTES: Final = 4 * 1024 * 1024
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_SHORT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}")
_UNSEEN: Final = (".git", "node_modules")
_KEPT_FIELDS: Final = ("subagents",)  # where the program puts the skill: says nothing of its content
_GITHUB: Final = "https://github.com/"
# The order of ICU for what is in the names of files; letters are compared without their case first.
_ORDER: Final = {character: place for place, character in enumerate(" _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789")}


@dataclass(frozen=True, slots=True)
class ForeignEntry:
    """One skill of the file: its `name` there, its id here, its source, and the hash of its files."""

    name: str
    skill_id: str
    source: Source
    folder_hash: str


class SkillsLock:
    """The file `skills-lock.json` of the project in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / SKILLS_LOCK_FILE

    def exists(self) -> bool:
        """Whether the project has one."""
        return self.path.is_file()

    def entries(self) -> tuple[ForeignEntry, ...]:
        """Its skills, by id; none when there is no file.

        Raises:
            InvalidConfiguration: it cannot be understood.
        """
        entries: dict[str, ForeignEntry] = {}
        for name, value in sorted(self._read()["skills"].items()):
            try:
                entry = self._entry(name, value)
            except SkillyardError as error:
                raise self._refusal(f"the source of {name!r} cannot be used: {error.message}") from None
            except (ValueError, KeyError, TypeError) as error:
                why = f"{name!r} lacks {error}" if isinstance(error, KeyError) else f"of {name!r}, {error}"
                raise self._refusal(why) from None
            if entry.skill_id in entries:
                raise self._refusal(f"{entries[entry.skill_id].name!r} and {name!r} are one skill here, {entry.skill_id}")
            entries[entry.skill_id] = entry
        return tuple(entries.values())

    def write(
        self, results: Mapping[str, tuple[str, Mapping[str, str], Path]], *, dropped: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Add or replace skills (name, origin and folder, by id) and take others out; gives the ids it has no words for.

        The caller holds the lock of the folder.
        """
        from skillyard.files import replace_file

        data = self._read()
        names = {slug(name): name for name in data["skills"]}
        left_out = []
        for skill_id, (name, origin, tree) in results.items():
            source = self._source_fields(origin)
            if source is None:
                left_out.append(skill_id)
                continue
            before = data["skills"].get(names.get(skill_id, name), {})
            kept = {key: before[key] for key in _KEPT_FIELDS if key in before}
            data["skills"][names.get(skill_id, name)] = source | {"computedHash": folder_hash(tree)} | kept
        for skill_id in dropped:
            data["skills"].pop(names.get(skill_id, skill_id), None)
        data["skills"] = dict(sorted(data["skills"].items()))
        replace_file(self.path, json.dumps(data, indent=2, ensure_ascii=False).encode() + b"\n", mode=0o644)
        return tuple(left_out)

    def _read(self) -> dict[str, Any]:
        if not self.path.exists():
            return {"version": _VERSION, "skills": {}}
        try:
            refuse_reserved(self.path)
            data = read_json(self.path.read_bytes()[:_MAX_BYTES].decode("utf-8-sig"))
        except (OSError, ValueError, RecursionError, SkillyardError) as error:
            raise self._refusal(str(error)) from None
        if not isinstance(data, dict) or not isinstance(data.get("skills"), dict):
            raise self._refusal("it is not the object with `version` and `skills` that such a lock is")
        if data.get("version") != _VERSION:
            raise self._refusal(f"its version is {data.get('version')!r}, and only {_VERSION} is known here")
        return data

    def _refusal(self, why: str) -> InvalidConfiguration:
        return InvalidConfiguration(
            f"{self.path} cannot be understood: {why}",
            hint="take it from version control again, or add the skills with `npx skills add` once more",
            file=str(self.path),
        )

    def _entry(self, name: str, value: Mapping[str, Any]) -> ForeignEntry:
        if not isinstance(value, dict):
            raise ValueError("its content is not an object")
        if not isinstance(value["computedHash"], str) or not _HASH.fullmatch(value["computedHash"]):
            raise ValueError("`computedHash` is not a SHA-256 of 64 hex digits: somebody has changed it")
        fields = {key: value.get(key) or "" for key in ("source", "sourceUrl", "sourceType", "skillPath", "ref")}
        if wrong := [key for key, text in fields.items() if not isinstance(text, str)]:
            raise ValueError(f"`{wrong[0]}` is not text")
        return ForeignEntry(name, slug(name), self._source(name, **fields), value["computedHash"])

    def _source(self, name: str, source: str, sourceUrl: str, sourceType: str, skillPath: str, ref: str) -> Source:  # noqa: N803
        path = skillPath.removesuffix("SKILL.md").rstrip("/")
        path = safe_relative(path) if path else ""
        if sourceType == "local":
            return Source("folder", os.path.normpath(self._folder / source / path))
        if sourceType == "node_modules":
            modules = self._folder / "node_modules"
            folder = os.path.normpath(modules / source / path)
            if not is_inside(folder, modules):
                raise ValueError("its package is not one of node_modules")
            return Source("folder", folder)
        address = sourceUrl or source
        if sourceType == "well-known":
            return resolve(address, names=(name,))
        if _SHORT.fullmatch(address):
            if sourceType not in ("github", ""):
                raise ValueError("`sourceUrl` is missing, and `source` alone does not name the host")
            address = _GITHUB + address
        if sourceType in ("github", "gitlab", "git"):
            address = address if address.startswith(("git@", "ssh://")) else f"git+{address.removeprefix('git+')}"
            address = f"{address}#{ref}" if ref else address
        found = resolve(address)
        if found.kind in ("folder", "archive"):
            raise ValueError(f"`source` is not an address, and `sourceType` {sourceType!r} is not `local`")
        return replace(found, path=path or found.path)

    def _source_fields(self, origin: Mapping[str, str]) -> dict[str, str] | None:
        """Where a skill came from as the file says it; None for what it has no words for."""
        address, path, ref = origin["address"], origin.get("path", ""), origin.get("ref", "")
        path = "" if path == "." else path
        file = {"skillPath": f"{path}/SKILL.md" if path else "SKILL.md"}
        match origin.get("kind"):
            case "folder":
                relative = Path(os.path.relpath(Path(address) / path, self._folder.resolve())).as_posix()
                return {"source": relative if relative.startswith("..") else f"./{relative}", "sourceType": "local"}
            case "git" if _SHORT.fullmatch(short := address.removeprefix(_GITHUB).removesuffix(".git")):
                return {"source": short} | ({"ref": ref} if ref else {}) | {"sourceType": "github"} | file
            case "git":
                return {"source": address, "sourceUrl": address} | ({"ref": ref} if ref else {}) | {"sourceType": "git"} | file
            case "well-known":
                host = urlsplit(address).hostname or ""
                return {"source": f"wellknown/{host}", "sourceUrl": address, "sourceType": "well-known"}
        return None


def folder_hash(directory: Path) -> str:
    """64 hex digits over the path and bytes of every file of a skill, as `npx skills` computes them.

    Links, empty folders, modes, and what is in `.git` and `node_modules` do not count.
    """
    paths = []
    for folder, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if name not in _UNSEEN]
        whole = (Path(folder) / name for name in files)
        paths += [path.relative_to(directory).as_posix() for path in whole if not path.is_symlink() and path.is_file()]
    digest = hashlib.sha256()
    for path in sorted(paths, key=_collation_key):
        digest.update(os.fsencode(path))
        digest.update((directory / path).read_bytes())
    return digest.hexdigest()


def _collation_key(text: str) -> tuple[list[tuple[int, str]], list[str], list[bool], str]:
    """The place of a text where JavaScript compares it with `localeCompare`: letters, then accents, then case."""
    letters: list[tuple[int, str]] = []
    accents: list[str] = []
    upper: list[bool] = []
    for character in unicodedata.normalize("NFD", text):
        if unicodedata.combining(character):
            accents[-1:] = [(accents[-1] if accents else "") + character]
        else:
            place = _ORDER.get(character)
            letters.append((len(_ORDER), character.casefold()) if place is None else (place, ""))
            accents.append("")
            upper.append(character.isupper())
    return letters, accents, upper, text
