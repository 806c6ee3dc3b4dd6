"""Whether a folder is a valid package, for which protocols, and which clients load the skill in it, under which name.

Also the program `python -m skillyard.interop PACKAGE …`. The rules about clients are what those programs did with skills of
every kind in their folders, each in the version that is named; those of Cursor and of the API are of their documentation.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args

from skillyard.document import DESCRIPTION_LIMIT, DOCUMENT_LIMIT, NAME_LIMIT, is_name, parse_document, read_front_matter
from skillyard.document.spelling import SPEC_FIELDS
from skillyard.errors import FileProblem, InvalidInput, InvalidManifest, SkillyardError
from skillyard.files import read_limited
from skillyard.interop.agent_plugins import PLUGIN_JSON, PluginCheck, check_plugin, is_agent_plugin, plugin_lines
from skillyard.interop.manifest import validate_manifest
from skillyard.interop.manifest_conversion import (
    convert_codex_to_semibot,
    infer_entry,
    manifest_differences,
    parse_object,
    read_manifest_file,
)
from skillyard.packages import package_refusals, tree_entries
from skillyard.paths import read_inside
from skillyard.text import shorten, single_line
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.document import Document


_DOCUMENT_LIMIT: Final = 1024 * 1024
_REFUSALS: Final = 10  # of one package, so many are reported


@dataclass(frozen=True, slots=True)
class PackageDetails(WireForm, camel_case=True):
    """What a package's folder holds; sizes in bytes, `entry_file` relative to the folder."""

    has_skill_md: bool
    has_manifest_json: bool
    has_scripts: bool
    has_references: bool
    has_assets: bool
    entry_file: str | None = field(metadata=wire(omit_empty=True))
    file_count: int
    total_size_bytes: int


@dataclass(frozen=True, slots=True)
class PackageStructure(WireForm, also=("valid",)):
    """The check of a package's folder: what is wrong with it, and what it holds."""

    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    details: PackageDetails

    @property
    def valid(self) -> bool:
        """Whether there is no error; a missing manifest.json is none."""
        return not self.errors


@dataclass(frozen=True, slots=True)
class ProtocolCompatibility(WireForm):
    """Which protocols a package can be offered in, and what each of the others lacks."""

    anthropic: bool
    codex: bool
    semibot: bool
    issues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PackageCheck(WireForm):
    """The check of one package: its structure, its manifest as Semibot would have it, its compatibility."""

    path: str
    structure: PackageStructure = field(metadata=wire(inline=True))
    manifest: Mapping[str, object]
    compatibility: ProtocolCompatibility

    @property
    def ok(self) -> bool:
        """Whether the package can be used."""
        return self.structure.valid


@dataclass(frozen=True, slots=True)
class ManifestCheck(WireForm, also=("valid",)):
    """The check of a manifest without a package: what is wrong with it, and its compatibility."""

    path: str
    errors: tuple[str, ...]
    manifest: Mapping[str, object]
    compatibility: ProtocolCompatibility

    @property
    def valid(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    @property
    def ok(self) -> bool:
        """Whether the manifest can be used."""
        return self.valid


def validate_package_structure(folder: str | Path) -> PackageStructure:
    """What the folder of a package holds and lacks; nothing in it is changed and no link is followed.

    What an install refuses is an error here too: fields of SKILL.md that are not written, links, sizes, names of files.

    Raises:
        InvalidInput: there is no such folder.
    """
    path = Path(folder)
    if not path.is_dir():
        raise InvalidInput(f"{path} is not a folder", hint="name the folder of a package, with a SKILL.md")
    sizes = [entry.size for entry in tree_entries(path, lenient=True) if entry.kind in ("f", "x")]
    has_scripts = (path / "scripts").is_dir()
    entry = infer_entry(path) if has_scripts else None
    has_skill_md, errors, warnings = _document(path)
    has_manifest, problem = _manifest(path)
    warnings += _differing(path) if has_manifest and has_skill_md and problem is None else []
    errors += [problem] if problem else []
    warnings += [] if has_manifest else ["Missing recommended file: manifest.json"]
    warnings += ["No entry file found in scripts/ directory"] if has_scripts and not entry else []
    errors += _refusals(path)
    return PackageStructure(
        errors=tuple(errors),
        warnings=tuple(warnings),
        details=PackageDetails(
            has_skill_md=has_skill_md,
            has_manifest_json=has_manifest,
            has_scripts=has_scripts,
            has_references=(path / "references").is_dir(),
            has_assets=(path / "assets").is_dir(),
            entry_file=entry,
            file_count=len(sizes),
            total_size_bytes=sum(sizes),
        ),
    )


def _document(folder: Path) -> tuple[bool, list[str], list[str]]:
    """Whether there is a SKILL.md, with the errors and warnings about it."""
    if not os.path.lexists(folder / "SKILL.md"):
        return False, ["Missing required file: SKILL.md"], []
    try:
        data = read_inside(folder, "SKILL.md", limit=_DOCUMENT_LIMIT)
    except FileProblem as error:
        return False, [f"Unreadable file: {error.message}"], []
    if not data.strip():
        return True, ["SKILL.md is empty"], []
    refusal = parse_document(data, directory_name=folder.resolve().name).install_refusal
    texts = read_front_matter(data).texts
    missing = [name for name in ("skill_id", "version") if not texts.get(name)]
    return True, [refusal] if refusal else [], [f"SKILL.md front matter has no {name}" for name in missing]


def _refusals(folder: Path) -> list[str]:
    """For what in the folder no install takes it."""
    try:
        return [error.message for error in islice(package_refusals(folder), _REFUSALS)]
    except OSError as error:
        return [f"Unreadable folder: {error.strerror}"]


def _manifest(folder: Path) -> tuple[bool, str | None]:
    if not os.path.lexists(folder / "manifest.json"):
        return False, None
    try:
        validate_manifest(read_manifest_file(folder))
    except (FileProblem, InvalidManifest) as error:
        return True, f"Invalid manifest.json: {error.message}"
    return True, None


def _differing(folder: Path) -> list[str]:
    """What the manifest of a package says otherwise than its SKILL.md."""
    document = parse_document(read_inside(folder, "SKILL.md", limit=_DOCUMENT_LIMIT), directory_name=folder.name)
    return list(manifest_differences("manifest.json", read_manifest_file(folder), document.metadata))


def check_protocol_compatibility(manifest: Mapping[str, object], *, has_skill_md: bool = True) -> ProtocolCompatibility:
    """Which protocols a manifest can be offered in; `has_skill_md=False` says that the package has no SKILL.md.

    Codex wants a SKILL.md and its fields, `description` among them; that is not what Semibot wants.
    """
    required = all(manifest.get(name) for name in ("skill_id", "name", "version"))
    anthropic = required and bool(manifest.get("anthropic") or manifest.get("container"))
    codex = required and has_skill_md and bool(manifest.get("description"))
    issues = [] if anthropic else ["Missing Anthropic compatibility fields (anthropic or container)"]
    issues += [] if codex else ["Missing Codex compatibility fields"]
    issues += [] if required else ["Missing Semibot required fields"]
    return ProtocolCompatibility(anthropic, codex, required, tuple(issues))


def check_package(folder: str | Path) -> PackageCheck | ManifestCheck | PluginCheck:
    """All three checks on one folder: its structure, its manifest, its compatibility; of a file `*.json` the last two.

    A folder with a `plugin.json` is checked as a plugin of Agent Plugins, unless it is a skill of its own.

    Raises:
        InvalidInput: there is no such folder.
    """
    path = Path(folder)
    if path.suffix.lower() == ".json" and path.is_file():
        return _check_manifest(path)
    if os.path.lexists(path / PLUGIN_JSON) and (is_agent_plugin(path) or not os.path.lexists(path / "SKILL.md")):
        return check_plugin(path)
    structure = validate_package_structure(folder)
    try:
        manifest = convert_codex_to_semibot(folder, skill_md_first=True)
    except SkillyardError:  # the structure reports what is wrong
        manifest = {}
    compatibility = check_protocol_compatibility(manifest, has_skill_md=structure.details.has_skill_md)
    return PackageCheck(str(folder), structure, manifest, compatibility)


def _check_manifest(path: Path) -> ManifestCheck:
    manifest: dict[str, object] = {}
    errors: tuple[str, ...] = ()
    try:
        manifest = parse_object(read_limited(path, _DOCUMENT_LIMIT), path.name)
        validate_manifest(manifest)
    except (FileProblem, InvalidManifest) as error:
        errors = (error.message,)
    return ManifestCheck(str(path), errors, manifest, check_protocol_compatibility(manifest))


_FRAME: Final = "=" * 60


def report_lines(check: PackageCheck | ManifestCheck | PluginCheck) -> Iterator[str]:
    """The report on one package, for people."""
    structure = check.structure if isinstance(check, PackageCheck) else None
    problems = check.structure.errors if isinstance(check, PackageCheck) else check.errors
    yield _FRAME
    yield f"{check.path}: {'valid' if check.ok else 'not valid'}"
    yield _FRAME
    yield from (f"error: {message}" for message in problems)
    if isinstance(check, PluginCheck):
        yield from plugin_lines(check.plugin)
        return
    compatibility = check.compatibility
    yield from (f"warning: {message}" for message in (structure.warnings if structure else ()))
    yield from (f"note: {message}" for message in compatibility.issues)
    answers = {"anthropic": compatibility.anthropic, "codex": compatibility.codex, "semibot": compatibility.semibot}
    yield "protocols: " + ", ".join(f"{name} {'yes' if fits else 'no'}" for name, fits in answers.items())
    if structure:
        held = structure.details
        yield f"{held.file_count:,} files, {held.total_size_bytes:,} bytes, entry {held.entry_file or 'none'}"


def closing_line(checks: Sequence[PackageCheck | ManifestCheck | PluginCheck]) -> str:
    """How many of the packages can be used."""
    noun = "package is" if len(checks) == 1 else "packages are"
    return f"{sum(check.ok for check in checks)} of {len(checks)} {noun} valid"


ClientName = Literal[
    "claude", "codex", "gemini", "opencode", "qwen", "copilot", "cline", "continue", "pi", "kilo", "vibe", "openhands",
    "cursor", "api",
]  # fmt: skip
CLIENTS: Final[tuple[ClientName, ...]] = get_args(ClientName)
_TAG: Final = re.compile(r"<[^>]")
_RESERVED: Final = ("anthropic", "claude")


@dataclass(frozen=True, slots=True)
class ClientCompatibility(WireForm, also=("loads",)):
    """What one client makes of a skill: the `name` and `description` it shows, `problems` that keep it out, and `notes`."""

    client: ClientName
    name: str
    description: str
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def loads(self) -> bool:
        """Whether the client offers the skill."""
        return not self.problems


@dataclass(frozen=True, slots=True)
class _Skill:
    """What the rules check: the folder's name, the fields as a proper YAML reader sees them, and the document."""

    folder: str
    fields: Mapping[str, object]
    exact: bool
    document: Document

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        return value.strip() if isinstance(value, str) else ""


def check_clients(
    folder: str | Path, clients: tuple[ClientName, ...] = CLIENTS, *, name: str | None = None
) -> tuple[ClientCompatibility, ...]:
    """What each of the clients makes of the skill in `folder`, when that is called `name` (absent: as it is called now).

    Raises:
        InvalidInput: there is no SKILL.md in it.
        FileTooLarge: it is longer than any SKILL.md may be.
    """
    path = Path(folder)
    path = path.parent if path.name == "SKILL.md" else path
    try:
        data = read_limited(path / "SKILL.md", DOCUMENT_LIMIT)
    except OSError as error:
        raise InvalidInput(f"{path}/SKILL.md cannot be read: {error.strerror}", hint="name the folder of a skill") from None
    front = read_front_matter(data)
    name = name or path.resolve().name
    skill = _Skill(name, front.texts, front.exact, parse_document(data, directory_name=name))
    return tuple(_api(skill) if client == "api" else _load(client, skill) for client in clients)


@dataclass(frozen=True, slots=True)
class _ClientRules:
    """What a client does with a skill of its folder; `source` says how that is known.

    `reads` is how much of improper YAML it recovers: nothing, what one more pair of quotes makes proper, each line by itself;
    or it shows a skill whatever its header is. Without a name it is left out, or the folder names it (`unnamed`); without a
    description it is left out, or its title or first paragraph replaces it, or nothing (`undescribed`). `names` is a pattern of
    the names it takes, with words for it; `over` the length of a description that keeps a skill out, `cut` what is shown of
    one; `unsafe` characters of a name become dashes. `manual`: it keeps from the model what is only for the user; `by_folder`:
    a skill is called as its folder, which with `same_folder` is its name; `names_alone`: descriptions are not shown;
    `kinds`: fields that keep a skill out when they are of another kind.
    """

    source: str
    reads: Literal["proper", "quotes", "lines", "anything"] = "proper"
    unnamed: Literal["out", "folder"] = "out"
    undescribed: Literal["out", "title", "paragraph", "nothing"] = "out"
    names: tuple[re.Pattern[str], str] | None = None
    longest_name: int = 0
    over: int = 0
    cut: int = 0
    unsafe: re.Pattern[str] | None = None
    manual: bool = False
    by_folder: bool = False
    same_folder: bool = False
    names_alone: bool = False
    kinds: tuple[tuple[str, type], ...] = ()


_KINDS: Final[Mapping[type, str]] = {str: "one text", list: "a list", dict: "a mapping"}
_SPEC_KINDS: Final = (("license", str), ("compatibility", str), ("metadata", dict))
_STRICT_NAME: Final = (re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*"), "small letters, digits and single dashes")
_FOLDERS: Final[Mapping[ClientName, _ClientRules]] = {
    "claude": _ClientRules(
        "Claude Code 2.1.330, tried", "anything", "folder", "title", cut=1536, manual=True, by_folder=True
    ),
    "codex": _ClientRules("Codex 0.169.0, tried", "quotes", "folder", longest_name=NAME_LIMIT, cut=DESCRIPTION_LIMIT),
    "gemini": _ClientRules("Gemini CLI 0.61.0, tried", "lines", unsafe=re.compile(r'[:\\/<>*?"|]')),
    "opencode": _ClientRules("OpenCode 1.18.33, tried", "quotes"),
    "qwen": _ClientRules(
        "Qwen Code 0.24.4, tried", "lines",
        names=(re.compile(r"[\w:.-]+"), "letters, digits, dashes, dots, colons and low lines"), manual=True,
    ),
    "copilot": _ClientRules(
        "GitHub Copilot CLI 1.0.102, tried", "proper", "folder", "paragraph",
        names=(re.compile(r"[A-Za-z0-9 _:.-]+"), "Latin letters, digits, spaces, dashes, dots, colons and low lines"),
        longest_name=NAME_LIMIT, over=DESCRIPTION_LIMIT, unsafe=re.compile(" "), manual=True,
    ),
    "cline": _ClientRules("Cline 3.0.65, tried", "proper", "folder", "nothing", names_alone=True),
    "continue": _ClientRules("Continue 1.5.47, tried"),
    "pi": _ClientRules("Pi 0.73.1, tried", "proper", "folder", manual=True),
    "kilo": _ClientRules("Kilo 7.7.7, tried", "quotes"),
    "vibe": _ClientRules(
        "Mistral Vibe 3.0.2, tried", names=_STRICT_NAME, longest_name=NAME_LIMIT,
        over=DESCRIPTION_LIMIT, manual=True, kinds=_SPEC_KINDS,
    ),
    "openhands": _ClientRules(
        "OpenHands 1.16.0, tried", "proper", "folder", "nothing", _STRICT_NAME,
        longest_name=NAME_LIMIT, cut=DESCRIPTION_LIMIT, same_folder=True,
        kinds=(*_SPEC_KINDS, ("triggers", list), ("inputs", list)),
    ),
    "cursor": _ClientRules(
        "its documentation; not tried", names=(re.compile(r"[a-z0-9-]+"), "small letters, digits and dashes"), same_folder=True
    ),
}  # fmt: skip


def _load(client: ClientName, skill: _Skill) -> ClientCompatibility:
    """What a client with folders of its own makes of a skill."""
    rules = _FOLDERS[client]
    problems, notes = _readable(rules, skill)
    skill = skill if rules.reads != "anything" or not _begins(skill, "\"'") else replace(skill, fields={})
    name = skill.text("name")
    problems += _named(rules, name, skill.folder)
    problems += [
        f"the field {field} must be {_KINDS[kind]}"
        for field, kind in rules.kinds
        if (value := skill.fields.get(field)) is not None and not isinstance(value, kind)
    ]
    description = skill.text("description")
    if not description and rules.undescribed == "out":
        problems.append("it has no description")
    elif not description and rules.undescribed != "nothing":
        description = _stand_in(rules, skill.document.body)
        what = "title or first line" if rules.undescribed == "title" else "first paragraph"
        notes.append(f"it has no description: the {what} is used instead")
    if rules.over and len(description) > rules.over:
        problems.append(f"the description has {len(description)} characters, at most {rules.over} are allowed")
    if rules.cut and len(description) > rules.cut:
        notes.append(f"the description is cut at {rules.cut} characters")
        description = shorten(single_line(description), rules.cut)
    if rules.manual and skill.document.metadata.disable_model_invocation:
        notes.append("only the user can start it: disable-model-invocation")
    if rules.names_alone:
        notes.append("the model is shown names without descriptions")
    if rules.by_folder and name and name != skill.folder:
        notes.append("it is called as its folder, and its name is shown behind that")
    shown = skill.folder if rules.by_folder else name or skill.folder
    if rules.unsafe is not None and (safe := rules.unsafe.sub("-", shown)) != shown:
        shown = safe
        notes.append("characters of the name became dashes")
    return ClientCompatibility(client, shown, single_line(description), tuple(problems), tuple(notes))


def _readable(rules: _ClientRules, skill: _Skill) -> tuple[list[str], list[str]]:
    """The problems and notes about a front matter that is not proper YAML."""
    if skill.exact:
        return [], []
    quotes = bool(skill.fields) and not _begins(skill, "\"'@`*&!%{[")
    recovers = {"proper": False, "quotes": quotes, "lines": True, "anything": True}[rules.reads]
    if not recovers:
        return ["its front matter is not proper YAML; `skillyard check --fix` fixes it"], []
    return [], ["its front matter is not proper YAML: what can be read of it is recovered"]


def _begins(skill: _Skill, marks: str) -> bool:
    """Whether its front matter had to be recovered, and a field begins with one of these, as what is not proper does."""
    return not skill.exact and any(skill.text(field)[:1] in marks for field in skill.fields if skill.text(field))


def _named(rules: _ClientRules, name: str, folder: str) -> list[str]:
    """The problems of a name."""
    if not name:
        return ["it has no name"] if rules.unnamed == "out" else []
    problems = []
    if rules.longest_name and len(name) > rules.longest_name:
        problems.append(f"the name has {len(name)} characters, at most {rules.longest_name} are allowed")
    if rules.names is not None and rules.names[0].fullmatch(name) is None:
        problems.append(f"the name may have {rules.names[1]} only")
    if rules.same_folder and name != folder:
        problems.append(f"the name is not that of its folder, {folder}")
    return problems


def _stand_in(rules: _ClientRules, body: str) -> str:
    """What a client shows in place of a description: the first line, with a title's text, or the first that is no title."""
    lines = (line.strip() for line in body.splitlines())
    return next((line.lstrip("# ") for line in lines if line and (rules.undescribed == "title" or line[0] != "#")), "")


def _api(skill: _Skill) -> ClientCompatibility:
    """The Skills API of Anthropic: the specification to the letter, no tags, no reserved words, folder and name the same."""
    name, description = skill.text("name"), skill.text("description")
    problems = _proper(skill) + _described(skill)
    if not name or not is_name(name):
        problems.append("the name may have small letters, digits and single dashes only, at most 64")
    elif name != skill.folder:
        problems.append(f"the name is not that of its folder, {skill.folder}")
    problems += [f"the name may not contain {word!r}" for word in _RESERVED if word in name.lower()]
    if _has_tag(name) or _has_tag(description):
        problems.append("name and description may not contain tags")
    unknown = sorted(skill.fields.keys() - SPEC_FIELDS)
    if unknown:
        problems.append(f"fields that the specification does not know: {', '.join(unknown[:8])}")
    return ClientCompatibility("api", name or skill.folder, single_line(description), tuple(problems))


def _proper(skill: _Skill) -> list[str]:
    return [] if skill.exact else ["its front matter is not proper YAML; `skillyard check --fix` fixes it"]


def _described(skill: _Skill) -> list[str]:
    description = skill.text("description")
    if not description:
        return ["it has no description"]
    over = len(description) - DESCRIPTION_LIMIT
    return [f"the description is {over} characters over {DESCRIPTION_LIMIT}"] if over > 0 else []


def _has_tag(text: str) -> bool:
    opening = _TAG.search(text)
    return opening is not None and text.find(">", opening.end()) >= 0
