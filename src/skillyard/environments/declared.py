"""What a skill itself declares that it needs, in the files that package managers know and in its front matter.

`# /// script` of one Python script; `requirements.txt` and `pyproject.toml` (`[project] dependencies`), `package.json`
(`dependencies`), in the skill's folder and in `scripts/`; `requires.packages` and `requires.bins` in SKILL.md. What is written
there in a form that names no package (an address, a path, an option) is left out and reported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from skillyard.environments.grants import NO_GRANT, SkillGrant, npm_package, program_name, python_package
from skillyard.environments.program_table import PROGRAMS
from skillyard.environments.script_block import ScriptBlock, read_script_block
from skillyard.errors import FileMissing, FileProblem, InvalidInput
from skillyard.paths import read_inside

_SCRIPT_LIMIT: Final = 20 * 1024 * 1024
_FILE_LIMIT: Final = 256 * 1024
_FOLDERS: Final = ("", "scripts/")
_MOST: Final = 200
_LONGEST_LINE: Final = 1_000


@dataclass(frozen=True, slots=True)
class DeclaredNeeds:
    """What the files of a skill declare; `ignored` has one sentence for each entry that names no package."""

    grant: SkillGrant = NO_GRANT
    ignored: tuple[str, ...] = ()


def script_block(directory: str, entry: str) -> ScriptBlock:
    """The `# /// script` block of the entry; an empty one where there is none.

    Raises:
        NotExecutable: it cannot be understood.
        FileProblem: the file cannot be read; a missing one has no block.
    """
    if not entry.endswith(".py"):
        return ScriptBlock()
    try:
        return read_script_block(read_inside(directory, entry, limit=_SCRIPT_LIMIT))
    except FileMissing:
        return ScriptBlock()  # the run itself says so


def declared_needs(directory: str | os.PathLike[str]) -> DeclaredNeeds:
    """What the files in the skill's folder declare, not counting what stands in single scripts."""
    collected: dict[str, list[str]] = {"packages": [], "npm": [], "programs": []}
    ignored: list[str] = []
    for file, kind, written in _written(os.fspath(directory)):
        try:
            collected[kind].append(_CHECKS[kind](written))
        except InvalidInput as error:
            ignored.append(f"{file}: {error.message}")
    lists = {kind: tuple(dict.fromkeys(items))[:_MOST] for kind, items in collected.items()}
    return DeclaredNeeds(SkillGrant(lists["packages"], lists["npm"], lists["programs"]), tuple(ignored))


_CHECKS: Final = {"packages": python_package, "npm": npm_package, "programs": program_name}


def _written(directory: str) -> Iterator[tuple[str, str, str]]:
    """File, kind and text of everything that is declared."""
    for folder in _FOLDERS:
        for name, kind, read in _READERS:
            file = folder + name
            if (data := _read(directory, file)) is not None:
                yield from ((file, kind, item) for item in read(data))
    data = _read(directory, "SKILL.md")
    if data is not None and b"requires" in data:
        yield from _front_matter(data)


def _read(directory: str, file: str) -> bytes | None:
    if not os.path.lexists(f"{directory}/{file}"):
        return None
    try:
        return read_inside(directory, file, limit=_FILE_LIMIT)
    except FileProblem:
        return None


def requirement_lines(data: bytes) -> Iterator[str]:
    """The requirements of a `requirements.txt`: comments, options and hashes are left out, continued lines joined."""
    text = data.decode("utf-8-sig", "replace").replace("\\\r\n", " ").replace("\\\n", " ")
    for line in text.splitlines():
        item = line[:_LONGEST_LINE].partition(" #")[0].partition(" --")[0].strip()
        if item and not item.startswith(("#", "-")):
            yield item


def _project_dependencies(data: bytes) -> Iterator[str]:
    import tomllib  # only for skills that have such a file

    try:
        project = tomllib.loads(data.decode("utf-8-sig")).get("project")
    except (ValueError, RecursionError):
        return
    listed = project.get("dependencies") if isinstance(project, Mapping) else None
    yield from (item for item in (listed if isinstance(listed, list) else ()) if isinstance(item, str))


def _package_dependencies(data: bytes) -> Iterator[str]:
    try:
        listed = json.loads(data.decode("utf-8-sig")).get("dependencies")
    except (ValueError, RecursionError, AttributeError):
        return
    for name, versions in (listed if isinstance(listed, dict) else {}).items():
        if isinstance(versions, str):
            yield name if versions.strip() in ("", "*", "latest") else f"{name}@{versions.strip()}"


_READERS: Final = (
    ("requirements.txt", "packages", requirement_lines),
    ("pyproject.toml", "packages", _project_dependencies),
    ("package.json", "npm", _package_dependencies),
)


def _front_matter(data: bytes) -> Iterator[tuple[str, str, str]]:
    """`requires.packages`, and those of `requires.bins` that can be granted."""
    from skillyard.document import parse_document
    from skillyard.environments.requirements import read_requirements

    required = read_requirements(parse_document(data))
    yield from (("SKILL.md", "packages", text.replace("@", " ")) for text in required.packages)
    yield from (("SKILL.md", "programs", name) for name in required.bins if name in PROGRAMS)
