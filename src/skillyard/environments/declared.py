"""What a skill itself declares that it needs, in the files that package managers know and in its front matter.

`# /// script` of one Python script; `requirements.txt` and `pyproject.toml` (`[project] dependencies`), `package.json`
(`dependencies`), in the skill's folder and in `scripts/`; `requires.packages` and `requires.bins` in SKILL.md. What is written
there in a form that names no package (an address, a path, an option) is left out and reported.

The block of a script (PEP 723) is located by one pass over the lines, and what it lists is parsed by `packaging`, the library
that pip itself uses. Only the canonical form of what was parsed is used further, never the text that a stranger wrote.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skillyard.environments.grants import (
    LONGEST_REQUIREMENT,
    NO_GRANT,
    UNSAFE_CHARACTERS,
    SkillGrant,
    canonical_requirement,
    npm_package,
    program_name,
    python_package,
)
from skillyard.environments.program_table import PROGRAMS
from skillyard.errors import FileMissing, FileProblem, InvalidInput, NotExecutable
from skillyard.paths import read_inside
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.document import Document

SOURCE_LIMIT: Final = 2 * 1024 * 1024
"""The bytes of a script in which its block is looked for."""
_BLOCK_LIMIT: Final = 32 * 1024  # characters of one block
_MARK: Final = b"# /// script"
_OPENING: Final = re.compile(r"# /// [a-zA-Z0-9-]+")
_HINT: Final = "see packaging.python.org, inline script metadata: dependencies is a list of requirements by name"
_SCRIPT_LIMIT: Final = 20 * 1024 * 1024
_FILE_LIMIT: Final = 256 * 1024
_FOLDERS: Final = ("", "scripts/")
_MOST: Final = 200
_LONGEST_LINE: Final = 1_000


@dataclass(frozen=True, slots=True)
class ScriptBlock:
    """The packages a script needs, in the canonical form of their requirements, and which Pythons it is for (empty: any)."""

    dependencies: tuple[str, ...] = ()
    requires_python: str = ""

    def allows(self, version: tuple[int, int, int]) -> bool:
        """Whether a Python of this version fits `requires-python`.

        Raises:
            NotExecutable: `requires-python` is not a list of version specifiers (PEP 440).
        """
        if not self.requires_python:
            return True
        from packaging.specifiers import InvalidSpecifier, SpecifierSet  # only for scripts with a block

        try:
            return SpecifierSet(self.requires_python).contains(".".join(map(str, version)), prereleases=True)
        except InvalidSpecifier:
            raise NotExecutable(
                f"requires-python {self.requires_python!r} cannot be understood", hint="for example >=3.11"
            ) from None


def read_script_block(source: bytes) -> ScriptBlock:
    """The block of type `script` in a Python file; an empty one when there is none.

    Raises:
        NotExecutable: there are several, one lies behind the first `SOURCE_LIMIT` bytes or is over 32 KiB, it is not TOML, or
            it requires something other than packages by name.
    """
    if _MARK not in source:
        return ScriptBlock()
    if source.find(_MARK, SOURCE_LIMIT - len(_MARK)) >= 0:
        raise NotExecutable(
            f"a `# /// script` block lies behind the first {SOURCE_LIMIT >> 20} MiB of the script",
            hint="put it at the beginning",
        )
    blocks = _blocks(source[:SOURCE_LIMIT].decode("utf-8", "replace"))
    if not blocks:
        return ScriptBlock()
    if len(blocks) > 1:
        raise NotExecutable("the script has several `# /// script` blocks", hint="keep one")
    if len(blocks[0]) > _BLOCK_LIMIT:
        raise NotExecutable(f"the `# /// script` block is over {_BLOCK_LIMIT // 1024} KiB", hint="name fewer packages")
    return _parsed(blocks[0])


def _blocks(source: str) -> list[str]:
    """The TOML of every block of type `script`: from its first line to the last `# ///` of the same run of comment lines."""
    lines = source.replace("\r\n", "\n").split("\n")
    blocks: list[str] = []
    at = 0
    while at < len(lines):
        if not _OPENING.fullmatch(lines[at]):
            at += 1
            continue
        end, closing = at + 1, 0
        while end < len(lines) and (lines[end] == "#" or lines[end].startswith("# ")):
            if lines[end] == "# ///" and end > at + 1:
                closing = end
            end += 1
        if closing and lines[at] == "# /// script":
            blocks.append("\n".join(line[2:] for line in lines[at + 1 : closing]))
        at = closing + 1 if closing else end  # no block that begins further on in this run has an end either
    return blocks


def _parsed(text: str) -> ScriptBlock:
    import tomllib  # only for scripts with a block

    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits is a plain ValueError
        raise NotExecutable(f"the `# /// script` block is not TOML: {error}", hint=_HINT) from None
    required, python = data.get("dependencies", []), data.get("requires-python", "")
    if not isinstance(required, list) or not all(isinstance(item, str) for item in required) or not isinstance(python, str):
        raise NotExecutable("the `# /// script` block does not list its dependencies as text", hint=_HINT)
    if len(required) > _MOST:
        raise NotExecutable(f"the `# /// script` block names {len(required)} packages", hint=f"name at most {_MOST}")
    if len(python) > LONGEST_REQUIREMENT or UNSAFE_CHARACTERS.search(python):
        raise NotExecutable(f"requires-python {python[:100]!r} cannot be understood", hint="for example >=3.11")
    return ScriptBlock(tuple(canonical_requirement(item.strip(" \t")) for item in required), python.strip())


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
    """What the files in the skill's folder declare, without those of single scripts."""
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

    required = read_requirements(parse_document(data))
    yield from (("SKILL.md", "packages", text.replace("@", " ")) for text in required.packages)
    yield from (("SKILL.md", "programs", name) for name in required.bins if name in PROGRAMS)


_ALIASES: Final = ("openclaw", "clawdbot", "clawdis")
_NAMES: Final[Mapping[str, str]] = {
    "bins": "bins", "binaries": "bins",
    "anybins": "any_bins", "anybinaries": "any_bins",
    "env": "env", "envvars": "env", "environment": "env",
    "anyenv": "any_env",
    "python": "python", "pythonversion": "python",
    "packages": "packages", "pythonpackages": "packages",
    "mcp": "mcp_servers", "mcpservers": "mcp_servers", "servers": "mcp_servers",
    "anymcpservers": "any_mcp_servers",
    "tools": "tools", "anytools": "any_tools",
    "skills": "skills", "anyskills": "any_skills",
}  # fmt: skip
_IF_ANY: Final = wire(omit_empty=True)


@dataclass(frozen=True, slots=True)
class Requirements(WireForm):
    """Everything a skill requires; in each list all, in the lists called `any_…` at least one."""

    bins: tuple[str, ...] = field(default=(), metadata=_IF_ANY)
    any_bins: tuple[str, ...] = field(default=(), metadata=_IF_ANY)
    env: tuple[str, ...] = field(default=(), metadata=_IF_ANY)
    any_env: tuple[str, ...] = field(default=(), metadata=_IF_ANY)
    python: tuple[str, ...] = field(default=(), metadata=_IF_ANY)
    packages: tuple[str, ...] = field(default=(), metadata=_IF_ANY)
    mcp_servers: tuple[str, ...] = field(default=(), metadata=_IF_ANY)
    any_mcp_servers: tuple[str, ...] = field(default=(), metadata=_IF_ANY)
    tools: tuple[str, ...] = field(default=(), metadata=_IF_ANY)
    any_tools: tuple[str, ...] = field(default=(), metadata=_IF_ANY)
    skills: tuple[str, ...] = field(default=(), metadata=_IF_ANY)
    any_skills: tuple[str, ...] = field(default=(), metadata=_IF_ANY)


def read_requirements(document: Document) -> Requirements:
    """What the front matter requires; what it writes in a form that cannot be meant is left out.

    ::

        requires:
          bins: [git]                  # every one
          any_bins: [docker, podman]   # at least one
          env: [API_TOKEN]
          python: ">=3.11"
          packages: ["openpyxl>=3.1"]
          mcp_servers: [tickets]
          tools: [mcp__tickets__search]   # of an MCP server, or a program
          skills: ["pdf@^1.2", docx]
          any_skills: [pdf, pdf-tools]

    `metadata.openclaw` (also `clawdbot`, `clawdis`) has the same with `anyBins` and `envVars`. A version range is written
    `pdf@^1.2` or `pdf>=1,<2`.
    """
    from skillyard.document import declared_data

    collected: dict[str, list[str]] = {}
    _gather(declared_data(document, "requires"), collected)
    declared = declared_data(document, "metadata")
    for name in _ALIASES:
        block = declared.get(name) if isinstance(declared, Mapping) else None
        if isinstance(block, str):
            block = _json(block)
        if isinstance(block, Mapping):
            _gather(block.get("requires"), collected)
            _gather({"env": block.get("envVars")}, collected)
    return Requirements(**{name: tuple(dict.fromkeys(items))[:_MOST] for name, items in collected.items()})


def _gather(block: object, collected: dict[str, list[str]]) -> None:
    if isinstance(block, Mapping):
        for key, value in block.items():
            if name := _NAMES.get(str(key).replace("_", "").replace("-", "").lower()):
                collected.setdefault(name, []).extend(_items(value))


def _items(value: object) -> Iterator[str]:
    """Texts, or objects with a `name`, perhaps a `version`; what is marked optional is not required."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str) and item.strip():
            yield item.strip()
        elif isinstance(item, Mapping) and isinstance(item.get("name"), str) and item.get("required") is not False:
            version = item.get("version")
            yield item["name"] + (f"@{version}" if isinstance(version, str) and version else "")


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
