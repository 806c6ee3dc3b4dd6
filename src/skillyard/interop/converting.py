"""Skills from one format into another: each into a folder of its own, or all of them into a plugin or a marketplace.

Nothing of the source is changed. A target is made beside its place and moved there in one step.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from skillyard.document import parse_document
from skillyard.errors import InvalidInput, SkillExists
from skillyard.interop.manifest import manifest_version
from skillyard.interop.originals import Envelope, Originals
from skillyard.interop.reshaping import SKILL_FORMATS, SkillFormat, format_of_skill, reshape
from skillyard.packages import FoundSkill, choose_skills, extract, find_skills, pack
from skillyard.paths import read_inside, slug

__all__ = ["FORMATS", "Converted", "PackageFormatName", "convert"]

PackageFormatName = Literal[
    "agent-skills", "anthropic", "codex", "semibot", "apexbridge", "claude-plugin", "claude-marketplace"
]
FORMATS: Final[tuple[PackageFormatName, ...]] = get_args(PackageFormatName)
_AROUND: Final[Mapping[PackageFormatName, str]] = {
    "claude-plugin": ".claude-plugin/plugin.json",
    "claude-marketplace": ".claude-plugin/marketplace.json",
}
_CARRIED: Final = 256 * 1024  # bytes of a plugin's other files that are carried along


@dataclass(frozen=True, slots=True)
class Converted:
    """One folder that was written: the skills in it, the format they had, and what there is to say."""

    path: Path
    skills: tuple[str, ...]
    before: str
    after: PackageFormatName
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """The outcome as plain data."""
        return {
            "path": str(self.path),
            "skills": list(self.skills),
            "from": self.before,
            "to": self.after,
            "notes": list(self.notes),
        }


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    to: PackageFormatName,
    *,
    skills: Sequence[str] = (),
    force: bool = False,
) -> tuple[Converted, ...]:
    """Convert the skills in `source`, a folder or an archive, into folders below `target`.

    Raises:
        NoSkillInside: there is none, or none of a name in `skills`.
        SkillExists: a folder is there already, and `force` does not say to replace it.
        InvalidManifest: a manifest cannot be understood.
        ArchiveRefused: the archive breaks a rule.
    """
    place = Path(source)
    if not place.exists():
        raise InvalidInput(f"there is no {place}", hint="name the folder of a skill, a plugin, or an archive")
    Path(target).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".converting-", dir=target) as scratch:
        tree = place if place.is_dir() else extract(place, scratch).tree
        found = choose_skills(find_skills(tree), skills)
        around = _around(tree, found)
        if to in SKILL_FORMATS:
            done = [_one(skill, Path(target), to, Path(scratch), around, force=force) for skill in found]
            return tuple(done)
        return (_together(found, Path(target), to, Path(scratch), tree, force=force),)


def _one(skill: FoundSkill, target: Path, to: SkillFormat, scratch: Path, around: Envelope | None, *, force: bool) -> Converted:
    folder = _copy(skill, scratch)
    before = format_of_skill(folder)
    notes = [*reshape(folder, to)]
    if around is not None:
        carried = Originals.read(folder)
        carried.envelope = Envelope(around.format, skill.path, around.files)
        carried.write(folder)
    return Converted(_place(folder, target / _folder_name(skill), force=force), (skill.name,), before, to, tuple(notes))


def _together(
    found: Sequence[FoundSkill], target: Path, to: PackageFormatName, scratch: Path, tree: Path, *, force: bool
) -> Converted:
    """A plugin or a marketplace with all the skills: as it was when it is one that they carry, else a new one."""
    package = scratch / "package"
    before = format_of_skill(found[0].directory)
    places = []
    kept: Envelope | None = None
    for skill in found:
        folder = _copy(skill, scratch)
        carried = Originals.read(folder)
        envelope, carried.envelope = carried.envelope, None
        carried.write(folder)
        same = envelope is not None and envelope.format == to
        kept = envelope if same else kept
        at = envelope.at if same and envelope is not None else ""
        if not at or (package / at).exists():
            at = f"skills/{_folder_name(skill)}"
        (package / at).parent.mkdir(parents=True, exist_ok=True)
        folder.rename(package / at)
        places.append(at)
    files = {_AROUND[to]: _described(to, found, places, tree), **(kept.files if kept is not None else {})}
    for path, data in files.items():
        if any(path == at or path.startswith(f"{at}/") for at in places):
            continue  # what is carried along replaces no file of a skill
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        (package / path).write_bytes(data)
    name = slug(_name_in(files[_AROUND[to]]) or tree.name, "plugin")
    names = tuple(skill.name for skill in found)
    back = sorted(kept.files) if kept is not None else []
    notes = (f"came back with it: {', '.join(back)}",) if back else ()
    return Converted(_place(package, target / name, force=force), names, before, to, notes)


def _name_in(data: bytes) -> str:
    """The name that a plugin.json or marketplace.json gives, empty when it gives none."""
    try:
        shape = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    return str(shape.get("name") or "") if isinstance(shape, dict) else ""


def _described(to: PackageFormatName, found: Sequence[FoundSkill], places: Sequence[str], tree: Path) -> bytes:
    """The plugin.json or marketplace.json of these skills."""
    first = parse_document((found[0].directory / "SKILL.md").read_bytes(), directory_name=found[0].directory.name)
    name = _folder_name(found[0]) if len(found) == 1 else slug(tree.resolve().name, "skills")
    about = {
        "name": name,
        "version": manifest_version(first.metadata.version),
        "description": first.metadata.description if len(found) == 1 else f"Skills: {', '.join(s.name for s in found)}",
    }
    more = {key: value for key in ("license", "homepage", "repository") if (value := getattr(first.metadata, key))}
    author = {"author": {"name": first.metadata.author}} if first.metadata.author else {}
    keywords = {"keywords": list(first.metadata.search_words)} if first.metadata.search_words else {}
    plugin: dict[str, object] = {**about, **author, **more, **keywords}
    if to == "claude-marketplace":
        entry = {**plugin, "source": "./", "strict": False, "skills": [f"./{place}" for place in places]}
        plugin = {"name": name, "owner": {"name": first.metadata.author or name}, "plugins": [entry]}
    return (json.dumps(plugin, indent=2, ensure_ascii=False) + "\n").encode()


def _around(tree: Path, found: Sequence[FoundSkill]) -> Envelope | None:
    """The plugin or marketplace that the skills were in, with its other files as far as they are small."""
    format_ = next((name for name, path in _AROUND.items() if (tree / path).is_file()), None)
    if format_ is None:
        return None
    inside = [skill.directory for skill in found]
    files: dict[str, bytes] = {}
    size = 0
    for path in sorted(tree.rglob("*")):
        relative = path.relative_to(tree)
        hidden = any(part.startswith(".") for part in relative.parts if part != ".claude-plugin")
        if path.is_symlink() or not path.is_file() or hidden or any(path.is_relative_to(folder) for folder in inside):
            continue
        size += path.stat().st_size
        if size <= _CARRIED or relative.parts[0] == ".claude-plugin":
            files[relative.as_posix()] = read_inside(tree, relative.as_posix(), limit=_CARRIED)
    if files == {_AROUND[format_]: _described(format_, found, [skill.path for skill in found], tree)}:
        return None  # as it would be made again
    if size > _CARRIED:
        files = {path: data for path, data in files.items() if path.startswith(".claude-plugin/")}
    return Envelope(format_, "", files)


def _copy(skill: FoundSkill, scratch: Path) -> Path:
    """A copy of the skill's folder by the rules of packages: no links, no specials, safe names."""
    archive = scratch / f"{os.urandom(6).hex()}.zip"
    pack(skill.directory, archive, whole=True)
    tree = extract(archive, scratch).tree
    folder = scratch / os.urandom(6).hex() / _folder_name(skill)
    folder.parent.mkdir()
    Path(tree).rename(folder)
    archive.unlink()
    return folder


def _folder_name(skill: FoundSkill) -> str:
    return slug(skill.name, skill.skill_id)


def _place(folder: Path, target: Path, *, force: bool) -> Path:
    """Move a finished folder into its place."""
    if os.path.lexists(target):
        if not force:
            raise SkillExists(f"{target} is there already", hint="choose another folder with --out, or replace it with --force")
        aside = folder.with_name(f"replaced-{os.urandom(6).hex()}")
        target.rename(aside)
        folder.rename(target)
        shutil.rmtree(aside)
        return target
    folder.chmod(0o755)
    folder.rename(target)
    return target
