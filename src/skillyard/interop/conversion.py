"""Skills converted from one format to another: each into a folder of its own, or all into a plugin or a marketplace.

The source is not changed. Everything is made in a scratch folder first; then each folder is moved to its target in one step.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from typing import Final, Literal, cast, get_args

from skillyard.document import DOCUMENT_LIMIT, parse_document
from skillyard.errors import InvalidInput, InvalidManifest, SkillExists
from skillyard.files import locked_scratch, move_folder, read_limited
from skillyard.interop.manifest import validate_manifest
from skillyard.interop.manifest_conversion import (
    ManifestFormat,
    convert_manifest,
    format_of_manifest,
    json_bytes,
    parse_object,
)
from skillyard.interop.originals import ORIGINALS_FILE, ContainingPackage, Originals, PreservedFile
from skillyard.interop.plugin_packages import (
    PLUGIN_FILES,
    PLUGIN_FORMATS,
    PluginFormat,
    SkillGroup,
    group_skills,
    plugin_name,
    redundant_plugin_file,
    remaining_files,
    remove_redundant,
    write_plugin_files,
)
from skillyard.interop.skill_formats import SKILL_FORMATS, SkillFormat, convert_in_place, format_of_skill
from skillyard.packages import IGNORED, FoundSkill, choose_skills, copy_tree, digest_of, extract, find_skills, pack
from skillyard.paths import slug
from skillyard.wire import WireForm, wire

PackageFormatName = Literal[
    "agent-skills", "anthropic", "codex", "semibot", "apexbridge", "claude-plugin", "claude-marketplace", "agent-plugin"
]
FORMATS: Final[tuple[PackageFormatName, ...]] = get_args(PackageFormatName)
_SCRATCH: Final = ".converting-"


@dataclass(frozen=True, slots=True)
class ConversionResult(WireForm):
    """One folder that was written: the skills in it, the format they had, and notes on the conversion."""

    path: Path
    skills: tuple[str, ...]
    before: str = field(metadata=wire(name="from"))
    after: str = field(metadata=wire(name="to"))
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _ConvertedFolder:
    """A folder that is ready, before it is moved to the target under the name `name`."""

    folder: Path
    name: str
    skills: tuple[str, ...]
    before: str
    notes: tuple[str, ...]


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    to: PackageFormatName,
    *,
    skills: Sequence[str] = (),
    force: bool = False,
) -> tuple[ConversionResult, ...]:
    """Convert the skills in `source`, a folder or an archive, into folders below `target`.

    A manifest, a file whose name ends with `.json`, becomes a manifest of one of the three formats that have them, in a folder.

    Raises:
        NoSkillInside: there is none, or none of a name in `skills`.
        SkillExists: a folder is there already, and no `force`.
        InvalidSkill: the front matter of one cannot be read.
        InvalidManifest: a manifest cannot be understood.
        ArchiveRefused: the archive, or a folder, breaks a rule of packages.
    """
    source_path = Path(source)
    if not source_path.exists():
        raise InvalidInput(f"there is no {source_path}", hint="name the folder of a skill, a plugin, or an archive")
    out = Path(target)
    out.mkdir(parents=True, exist_ok=True)
    with locked_scratch(out, _SCRATCH) as scratch:
        if source_path.suffix.lower() == ".json" and source_path.is_file():
            made = [_converted_manifest(source_path, to, Path(scratch))]
        else:
            made = list(_unique(_convert_all(source_path, out, to, skills, Path(scratch))))
        if not force and (there := next((out / one.name for one in made if os.path.lexists(out / one.name)), None)):
            raise SkillExists(f"{there} already exists", hint="choose another folder with --out, or replace it with --force")
        for one in made:
            move_folder(one.folder, out / one.name)
    return tuple(ConversionResult(out / one.name, one.skills, one.before, to, one.notes) for one in made)


WELL_KNOWN: Final = "well-known"
"""What `write_site` writes: a site with an index of skills, from which nothing is converted back."""
_INDEX_FOLDER: Final = ".well-known/agent-skills"
_INDEX_SCHEMA: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
_SEMANTIC: Final = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:-([0-9A-Za-z.-]{1,60}))?(?:\+[0-9A-Za-z.-]{1,60})?", re.ASCII)


def write_site(
    source: str | os.PathLike[str], target: str | os.PathLike[str], *, skills: Sequence[str] = ()
) -> ConversionResult:
    """Write the skills in `source`, as they are, into the folder `site` below `target`, which any web server may give out.

    It has the index 0.2.0 at `.well-known/agent-skills/`, and each version for itself as pull request 380 of agentskills
    proposes. Of a site that is there already the earlier versions stay; it is replaced in one step.

    Raises:
        NoSkillInside: there is none, or none of a name in `skills`.
        InvalidInput: two skills have one id, or a version was written before with other content.
        ArchiveRefused: an archive, or a folder, breaks a rule of packages.
    """
    source_path, out = Path(source), Path(target)
    out.mkdir(parents=True, exist_ok=True)
    with locked_scratch(out, _SCRATCH) as scratch:
        tree = (source_path if source_path.is_dir() else extract(source_path, scratch).tree).resolve()
        site, before = Path(scratch, "site"), out / "site" / _INDEX_FOLDER
        index = site / _INDEX_FOLDER
        index.mkdir(parents=True)
        for earlier in _version_folders(before):
            copy_tree(earlier, Path(scratch)).rename(index / earlier.name)
        candidates = [one for one in find_skills(tree) if not _is_written_here(one, tree, out.resolve())]
        chosen = choose_skills(candidates, skills)
        if twice := sorted({one.skill_id for one in chosen if [other.skill_id for other in chosen].count(one.skill_id) > 1}):
            raise InvalidInput(f"two skills are called {twice[0]}", hint="name one of them with --skill and its path")
        entries = [_published(one, index) for one in chosen]
        _write_index(index, entries)
        versions = sorted((path.name[1:] for path in _version_folders(index)), key=_version_order)
        if versions:
            current = {str(one.get("version")) for one in entries}
            latest = next((one for one in reversed(versions) if one in current), versions[-1])
            (index / "versions.json").write_bytes(json_bytes({"latest": latest, "versions": versions}))
        move_folder(site, out / "site")
    return ConversionResult(out / "site", tuple(one.name for one in chosen), "agent-skills", WELL_KNOWN)


def _published(skill: FoundSkill, index: Path) -> dict[str, object]:
    """Write one skill beside the index, and into the index of its version if it has one; its entry."""
    alone = sorted(path.name for path in skill.directory.iterdir() if path.name not in IGNORED) == ["SKILL.md"]
    where = f"{skill.skill_id}/SKILL.md" if alone else f"{skill.skill_id}.zip"
    text = read_limited(skill.directory / "SKILL.md", DOCUMENT_LIMIT)
    (index / where).parent.mkdir(exist_ok=True)
    if alone:
        (index / where).write_bytes(text)
    else:
        pack(skill.directory, index / where)
    data = (index / where).read_bytes()
    description = parse_document(text, directory_name=skill.skill_id).metadata.description
    entry: dict[str, object] = {"name": skill.skill_id, "type": "skill-md" if alone else "archive", "description": description}
    entry |= {"url": where, "digest": digest_of(data)}
    if skill.version is None or not _SEMANTIC.fullmatch(skill.version):
        return entry
    entry["version"] = skill.version
    at = index / f"v{skill.version}"
    there: list[dict[str, object]] = []
    if (at / "index.json").is_file():
        listed = parse_object(read_limited(at / "index.json", DOCUMENT_LIMIT), f"{at.name}/index.json").get("skills")
        there = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    for one in there:
        if one.get("name") == skill.skill_id and one.get("digest") != entry["digest"]:
            raise InvalidInput(
                f"{skill.skill_id} {skill.version} is in that site with other content",
                hint="give it a higher version: what was published under one does not change",
            )
    (at / where).parent.mkdir(parents=True, exist_ok=True)
    (at / where).write_bytes(data)
    _write_index(at, [*(one for one in there if one.get("name") != skill.skill_id), entry])
    return entry


def _write_index(folder: Path, entries: Sequence[Mapping[str, object]]) -> None:
    skills = sorted(entries, key=lambda one: str(one.get("name")))
    (folder / "index.json").write_bytes(json_bytes({"$schema": _INDEX_SCHEMA, "skills": skills}))


def _version_folders(index: Path) -> list[Path]:
    """The folders of single versions; there are others, as that of a skill called `v1`."""
    there = sorted(index.iterdir()) if index.is_dir() else []
    return [path for path in there if path.name.startswith("v") and _SEMANTIC.fullmatch(path.name[1:])]


def _version_order(version: str) -> tuple[tuple[int, ...], bool, str]:
    """A version before those that are higher; one that is being prepared before the one that it becomes."""
    match = _SEMANTIC.fullmatch(version)
    return (tuple(map(int, match.groups()[:3])), match[4] is None, match[4] or "") if match else ((), False, version)


def _converted_manifest(source: Path, to: PackageFormatName, scratch: Path) -> _ConvertedFolder:
    """A manifest without a package, valid before and afterwards."""
    if to not in get_args(ManifestFormat):
        formats = ", ".join(get_args(ManifestFormat))
        raise InvalidInput(f"a manifest alone cannot become {to}", hint=f"one of {formats}; or name the skill's folder")
    manifest = validate_manifest(parse_object(read_limited(source, DOCUMENT_LIMIT), source.name))
    converted = validate_manifest(convert_manifest(manifest, cast("ManifestFormat", to)))
    folder = scratch / "manifest"
    folder.mkdir()
    (folder / "manifest.json").write_bytes(json_bytes(converted))
    before = format_of_manifest(manifest)
    lost = ", ".join(sorted(manifest.keys() - converted.keys()))
    notes = [f"it has the format {to} already"] if before == to else []
    notes += [f"left out, because the format has no fields for them: {lost}"] if lost else []
    name = str(manifest["name"])
    return _ConvertedFolder(folder, slug(str(manifest["skill_id"]), name), (name,), before, tuple(notes))


def _convert_all(
    source: Path, out: Path, to: PackageFormatName, skills: Sequence[str], scratch: Path
) -> Iterator[_ConvertedFolder]:
    tree = (source if source.is_dir() else extract(source, scratch).tree).resolve()
    name = tree.name if source.is_dir() else source.name.partition(".")[0]
    candidates = [skill for skill in find_skills(tree) if not _is_written_here(skill, tree, out.resolve())]
    for group in group_skills(tree, name, choose_skills(candidates, skills), candidates, out.resolve()):
        if to in SKILL_FORMATS:
            yield from _convert_separately(group, to, scratch)
        elif to in PLUGIN_FORMATS:
            here = group.formats and not _is_taken_out(group)
            yield _rewrapped(group, to, scratch) if here else _wrapped(group, to, scratch)


def _is_written_here(skill: FoundSkill, tree: Path, out: Path) -> bool:
    """Whether a skill is what an earlier conversion wrote into a folder of the source, or what one is about to write."""
    earlier = out != tree and out.is_relative_to(tree) and skill.directory.is_relative_to(out)
    return earlier or any(part.startswith(_SCRATCH) for part in skill.directory.relative_to(tree).parts)


def _convert_separately(group: SkillGroup, to: SkillFormat, scratch: Path) -> Iterator[_ConvertedFolder]:
    """Each skill in a folder of its own; each records the package that it was in."""
    package_notes: list[str] = []
    around = remaining_files(group, package_notes) if group.formats else {}
    spare = redundant_plugin_file(group, to)
    made = spare is not None and len(group.formats) == 1
    if spare is not None and not made:
        for path in remove_redundant(group, spare, to, scratch / "no-package"):
            around.pop(path, None)
    for skill in group.skills:
        folder = _copy(skill, scratch)
        if spare is not None and group.path_of(skill) == ".":  # the copy is one of the package too
            remove_redundant(group, spare, to, folder)
        before, depth = format_of_skill(folder), len(Originals.read(folder).past)
        notes = [*convert_in_place(folder, to), *package_notes]
        if group.formats:
            _record_package(folder, ContainingPackage(group.path_of(skill), before, around, depth, made or not around))
        yield _ConvertedFolder(folder, folder.name, (skill.name,), before, tuple(notes))


def _record_package(folder: Path, envelope: ContainingPackage) -> None:
    """Note the package in the skill; one that can be made again only when the skill has become something else."""
    originals = Originals.read(folder)
    inside = envelope.at == "." and any(
        one.at == "." for one in originals.envelopes[-1:]
    )  # it is still what it was taken out of
    if not inside and (not envelope.made or len(originals.past) > envelope.depth):
        originals.envelopes.append(envelope)
        originals.write(folder)


def _is_taken_out(group: SkillGroup) -> bool:
    """Whether a package is a skill itself that was converted since."""
    root = group.skills[0].directory
    return group.path_of(group.skills[0]) == "." and any(one.at == "." for one in Originals.read(root).envelopes[-1:])


def _rewrapped(group: SkillGroup, to: PluginFormat, scratch: Path) -> _ConvertedFolder:
    """A package as another kind of package: every file stays where it is, the JSON file of `to` is there besides."""
    left: list[str] = []

    def without(path: str, entry: os.DirEntry[str]) -> bool:
        here = group.root / path
        if entry.name in IGNORED or entry.name.startswith(_SCRATCH) or entry.is_symlink():
            if any(here.is_relative_to(skill.directory) for skill in group.skills):
                return False
            left.append(path)
            return True
        return here in group.others

    package = copy_tree(group.root, scratch, without=without)
    skill_folders = {group.path_of(skill): package / group.path_of(skill) for skill in group.skills}
    if spare := redundant_plugin_file(group, to):
        remove_redundant(group, spare, to, package)
    notes = [f"left out: {', '.join(left)}"] if left else []
    return _finished(package, group, to, skill_folders, group.formats[0], notes)


def _wrapped(group: SkillGroup, to: PluginFormat, scratch: Path) -> _ConvertedFolder:
    """Skills in a package: in the one that they record, else in a new one."""
    folders = [(skill, _copy(skill, scratch)) for skill in group.skills]
    before = format_of_skill(folders[0][1])
    recorded = [Originals.read(folder).envelopes[-1:] for _, folder in folders]
    kept = next((one[0] for one in recorded if one), None)
    package = scratch / os.urandom(6).hex()
    if kept is not None and kept.at == "." and len(folders) == 1:
        _unwrap(folders[0][1])
        folders[0][1].rename(package)
        return _finished(package, group, to, {".": package}, before, [])
    package.mkdir(0o755)
    skill_folders: dict[str, Path] = {}
    for (skill, folder), one in zip(folders, recorded, strict=True):
        at = _path_in_package(
            skill, skill_folders, one[0].at if one and kept is not None and one[0].files == kept.files else ""
        )
        if one and at == one[0].at:
            _unwrap(folder)
        (package / at).parent.mkdir(parents=True, exist_ok=True)
        skill_folders[at] = folder.rename(package / at)
    if kept is not None and kept.made and PLUGIN_FILES[to] not in kept.files:  # another kind is made anew, under that name
        names = [plugin_name(file.data) for file in kept.files.values() if file is not None]
        group, kept = replace(group, name=next(filter(None, names), group.name)), None
    back = _put_around(package, kept.files, skill_folders) if kept is not None else []
    notes = [f"restored with it: {', '.join(back)}"] if back else []
    return _finished(package, group, to, skill_folders, before, notes)


def _unwrap(folder: Path) -> None:
    """Convert a skill back to what it was in the package that it recorded last, and drop that record."""
    originals = Originals.read(folder)
    envelope = originals.envelopes.pop()
    if envelope.skill not in SKILL_FORMATS:
        raise InvalidManifest(f"unknown format {envelope.skill!r} of the skill", hint=f"delete {ORIGINALS_FILE}")
    originals.write(folder)
    convert_in_place(folder, envelope.skill)


def _path_in_package(skill: FoundSkill, taken: Mapping[str, Path], preferred: str) -> str:
    """The path of a skill in a package: the previous one, else one below `skills`; never in the folder of another skill."""

    def is_free(path: str) -> bool:
        return not any(f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/") for other in taken)

    if preferred not in ("", ".") and is_free(preferred):
        return preferred
    return next(path for path in _numbered(f"skills/{_folder_name(skill)}") if is_free(path))


def _put_around(package: Path, files: Mapping[str, PreservedFile | None], skill_folders: Mapping[str, Path]) -> list[str]:
    """Write the other files of a package; these replace no file of a skill."""
    written = []
    for path, file in files.items():
        if any(f"{path}/".startswith(f"{at}/") or f"{at}/".startswith(f"{path}/") for at in skill_folders):
            continue
        if file is None:
            (package / path).mkdir(parents=True, exist_ok=True)
            continue
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        (package / path).write_bytes(file.data)
        (package / path).chmod(0o755 if file.executable else 0o644)
        written.append(path)
    return written


def _finished(
    package: Path, group: SkillGroup, to: PluginFormat, skill_folders: Mapping[str, Path], before: str, notes: Sequence[str]
) -> _ConvertedFolder:
    path = package / PLUGIN_FILES[to]
    there = {at: package / at for at in skill_folders}
    more = write_plugin_files(package, to, there, group.name)
    name = slug(plugin_name(read_limited(path, DOCUMENT_LIMIT)) or group.name, "plugin")
    return _ConvertedFolder(package, name, tuple(skill.name for skill in group.skills), before, (*notes, *more))


def _unique(made: Iterator[_ConvertedFolder]) -> Iterator[_ConvertedFolder]:
    """Each under a name of its own: two skills of one name would be one folder."""
    names: set[str] = set()
    for one in made:
        name = next(name for name in _numbered(one.name) if name not in names)
        names.add(name)
        more = () if name == one.name else (f"another one is called {one.name} too: this one is in {name}",)
        yield _ConvertedFolder(one.folder, name, one.skills, one.before, one.notes + more)


def _numbered(name: str) -> Iterator[str]:
    """`name`, then `name-2` and so on."""
    return chain((name,), (f"{name}-{number}" for number in count(2)))


def _copy(skill: FoundSkill, scratch: Path) -> Path:
    folder = scratch / os.urandom(6).hex() / _folder_name(skill)
    folder.parent.mkdir()
    return copy_tree(skill.directory, scratch).rename(folder)


def _folder_name(skill: FoundSkill) -> str:
    return slug(skill.name, skill.skill_id)
