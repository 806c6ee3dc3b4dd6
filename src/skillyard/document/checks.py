"""Everything that a profile finds wrong with one SKILL.md: manifest, complete format, files and instructions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, NoReturn
from urllib.parse import unquote

from skillyard.document.document import Document, read_opened
from skillyard.document.document_rules import Diagnostic, Findings, Profile
from skillyard.document.fields import FieldReader
from skillyard.document.front_matter import CODE_LANGUAGES, open_document
from skillyard.document.metadata import Metadata
from skillyard.errors import ExtensionFailed, PathRefused, WorkProblem
from skillyard.paths import safe_relative
from skillyard.text import single_line

if TYPE_CHECKING:
    from skillyard.extensions import Extensions


_VERSION: Final = re.compile(r"\d+\.\d+\.\d+(-[a-zA-Z0-9.]+)?")
"""The form of a version: three numbers and an optional suffix."""
_SKILL_ID: Final = re.compile(r"[a-zA-Z0-9._:/-]+")
_ADDRESS: Final = re.compile(r"https?://[^\s/?#]\S*", re.IGNORECASE)
_LENGTHS: Final = {
    "skill_id": 120, "name": 100, "version": 50, "description": 1000, "author": 100, "category": 50, "license": 50,
    "entry": 200,
}  # fmt: skip
_LISTS: Final = {"trigger_keywords": (20, 50), "tags": (10, 30)}
_ADDRESSES: Final = ("homepage", "documentation", "icon_url", "repository")
_TOOL_NAME_LIMIT: Final = 100
_READ_AT_ONCE: Final = 1_500
"""The weight up to which a schema is read in this process, which takes some milliseconds."""
_REQUIRED: Final = (
    "version", "type", "capabilities", "tags", "triggers", "input_schema", "output_schema", "security", "resources",
)  # fmt: skip
"""The required fields beyond name and description, which every profile but `minimal` requires."""
_METADATA_WORDS: Final = 50


def _check_manifest(metadata: Metadata, fields: FieldReader, findings: Findings) -> None:
    for name in ("skill_id", "version"):
        if not getattr(metadata, name):
            findings.add("manifest-field-missing", line=fields.line(name), message=f"`{name}` is missing")
    _check_lengths(metadata, fields, findings)
    _check_forms(metadata, fields, findings)
    _check_tools(metadata, fields, findings)


def _check_version(metadata: Metadata, fields: FieldReader, findings: Findings) -> None:
    if metadata.version and not _VERSION.fullmatch(metadata.version):
        message = f"the version `{metadata.version[:60]}` is not three numbers"
        findings.add("version-format", line=fields.line("version"), message=message)


def _check_lengths(metadata: Metadata, fields: FieldReader, findings: Findings) -> None:
    for name, limit in _LENGTHS.items():
        value = getattr(metadata, name) or ""
        if len(value) > limit:
            message = f"`{fields.written(name)}` has {len(value):,} characters, a manifest allows {limit:,}"
            findings.add("manifest-limit", line=fields.line(name), message=message)
    for name, (count, length) in _LISTS.items():
        words = getattr(metadata, name)
        if len(words) > count:
            message = f"`{fields.written(name)}` has {len(words)} items, a manifest allows {count}"
            findings.add("manifest-limit", line=fields.line(name), message=message, fix=f"keep the {count} best")
        if any(len(word) > length for word in words):
            message = f"an item of `{fields.written(name)}` is over {length} characters"
            findings.add("manifest-limit", line=fields.line(name), message=message)


def _check_forms(metadata: Metadata, fields: FieldReader, findings: Findings) -> None:
    skill_id = metadata.skill_id or ""
    if skill_id and (not _SKILL_ID.fullmatch(skill_id) or any(part in ("", ".", "..") for part in skill_id.split("/"))):
        message = "`skill_id` holds more than letters, digits and `. _ : / -`, or is a path"
        findings.add("manifest-format", line=fields.line("skill_id"), message=message, fix="write it like `acme/pdf-tools`")
    for name in _ADDRESSES:
        value = getattr(metadata, name)
        if value and not _ADDRESS.fullmatch(value):
            message = f"`{fields.written(name)}` is not an address"
            findings.add("manifest-format", line=fields.line(name), message=message, fix="write the whole address: https://…")


def _check_tools(metadata: Metadata, fields: FieldReader, findings: Findings) -> None:
    for tool in metadata.tools:
        if tool.type not in ("function", "mcp") or len(tool.name) > _TOOL_NAME_LIMIT:
            message = (
                f"the tool `{tool.name[:60]}` needs a `type` (`function` or `mcp`) and at most {_TOOL_NAME_LIMIT} characters"
            )
            fix = "write each tool as `name:`, `type: function` or `type: mcp`, and an optional `config:`"
            findings.add("manifest-format", line=fields.line("tools"), message=message, fix=fix)


def _check_complete(metadata: Metadata, fields: FieldReader, findings: Findings) -> None:
    for name in _REQUIRED:
        if name not in metadata.declared:
            fix = f"add `{name}:`" + ("; `permissions` is its older form" if name == "security" else "")
            findings.add("field-required", line=fields.mapping.line, message=f"`{name}` is missing", fix=fix)
    if "resources" in metadata.declared and metadata.resources.entry is None and metadata.runs_a_script:
        message, fix = "`resources.entry` is missing, so nothing can be run", "name the entry script: entry: ./scripts/main.py"
        findings.add("field-required", line=fields.line("resources"), message=message, fix=fix)
    words = sum(len(text.split()) for text in (metadata.name, metadata.description, *metadata.tags, *metadata.capabilities))
    if words > _METADATA_WORDS:
        message = f"name, description, tags and capabilities have {words} words, more than {_METADATA_WORDS}"
        findings.add("metadata-too-long", line=fields.line("description"), message=message)


def _check_schema(schema: Mapping[str, object] | None, name: str, fields: FieldReader, findings: Findings) -> None:
    if schema is None:
        if fields.node(name) is not None:
            message = f"`{fields.written(name)}` is not JSON Schema: a schema is `key: value` lines"
            findings.add("schema-invalid", line=fields.line(name), message=message)
        return
    from skillyard.document.schema_bounds import UnusableSchema, schema_weight

    try:
        weight = schema_weight(schema)
        if weight is not None and weight <= _READ_AT_ONCE:
            reason = schema_problem(dict(schema))
        else:
            from skillyard.offload import WorkLimits, run_in_helper

            reason = run_in_helper(schema_problem, dict(schema), subject=f"the schema `{name}`", limits=WorkLimits())
    except (UnusableSchema, WorkProblem) as error:
        reason = str(error)
    if reason:
        findings.add("schema-invalid", line=fields.line(name), message=f"`{fields.written(name)}` is not JSON Schema: {reason}")


def schema_problem(schema: dict[str, object]) -> str:
    """Why a schema is none; nothing when it is one."""
    import jsonschema_rs  # 5 ms that only this profile needs

    try:
        jsonschema_rs.validator_for(schema, retriever=_refuse)
    except Exception as error:
        return str(error).partition("\n")[0][:240] or type(error).__name__
    return ""


def _refuse(address: str) -> NoReturn:
    """Never fetch a schema from elsewhere: checking an untrusted file must not use the network."""
    raise ValueError(f"`$ref` to {address} leaves the file")


def _check_files(metadata: Metadata, fields: FieldReader, findings: Findings, files: Collection[str]) -> None:
    if "manifest.json" in files:
        findings.add("manifest-json-ignored")
    resources = metadata.resources
    line = fields.line("resources" if "resources" in metadata.declared else "entry")
    for path in (resources.entry, *resources.helpers, *resources.references, *resources.assets):
        if path and path not in files and not any(file.startswith(path + "/") for file in files):
            findings.add("resource-missing", line=line, message=f"the file `{path[:120]}` is not there")
    if (metadata.runs_a_script or resources.entry) and not any(file.startswith("scripts/") for file in files):
        findings.add("scripts-missing", line=fields.line("type"))
    if outside := sorted(file for file in files if _is_stray_code(file)):
        more = f" and {len(outside) - _NAMED} more" if len(outside) > _NAMED else ""
        message = f"code outside scripts/ is not run: {', '.join(file[:120] for file in outside[:_NAMED])}{more}"
        findings.add("code-outside-scripts", line=line, message=message)


_NAMED: Final = 5
_CODE: Final = re.compile(r"\.(?:py|[mc]?ts|tsx|[mc]?js|jsx|(?:ba|z|fi)?sh|rb|pl|php|lua|ps1|bat|cmd)", re.IGNORECASE)
"""The endings of files that are programs."""
_HELD_ELSEWHERE: Final = frozenset({"tests", "test", "evals", "assets", "templates"})
"""Folders whose code is no script of the skill: what tests it, and what it gives to others."""


def is_in_scripts(path: str) -> bool:
    """Whether a path relative to the skill is inside a folder `scripts`, from which alone code of a skill is run."""
    return "scripts" in PurePosixPath(path).parts[:-1]


def _is_stray_code(path: str) -> bool:
    file = PurePosixPath(path)
    return bool(_CODE.fullmatch(file.suffix)) and not is_in_scripts(path) and _HELD_ELSEWHERE.isdisjoint(file.parts[:-1])


_LONGEST_LINK: Final = 300
_MOST_LINKS: Final = 20
_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{0,30}:")


def _check_links(document: Document, findings: Findings, files: Collection[str]) -> None:
    """Check that each relative link of the instructions leads to a file of the skill; the first 20 that do not."""
    known = {document.file, *files}
    folded = {path.lower(): path for path in known}
    seen: set[str] = set()
    for line, target in _links(document):
        if len(seen) >= _MOST_LINKS:
            return
        try:
            path = safe_relative(target)
        except PathRefused:
            path, message, fix = "", f"the link to `{target[:120]}` leads out of the skill", "link to a file of the skill"
        else:
            if not path or path in known or any(file.startswith(path + "/") for file in known):
                continue
            message, fix = f"the file `{path[:120]}` that is linked to is not there", ""
            if other := folded.get(path.lower()):
                message, fix = f"the link says `{path[:120]}`, the file is called `{other[:120]}`", f"write `{other[:120]}`"
        if target not in seen:
            seen.add(target)
            findings.add("link-broken", line=line, message=message, fix=fix)


def _links(document: Document) -> Iterator[tuple[int, str]]:
    """The line and the path of each relative link outside of code; links to places in the same file are left out."""
    code = [(block.line, block.line + block.text.count("\n") + 1) for block in document.code_blocks]
    block = 0
    for number, line in enumerate(document.body.splitlines(), document.body_line):
        while block < len(code) and code[block][1] < number:
            block += 1
        if "](" not in line or (block < len(code) and code[block][0] <= number):
            continue
        for prose in line.split("`")[::2]:
            for part in prose.split("](")[1:]:
                if path := _relative_path(part[:_LONGEST_LINK]):
                    yield number, path


def _relative_path(text: str) -> str:
    """The path in what follows `](`; empty when it is an address, an anchor, a placeholder or no link."""
    target, closed, _ = text.partition(")")
    target = target.strip()
    target = target[1:].partition(">")[0] if target.startswith("<") else target.partition(" ")[0]
    target = unquote(target.partition("#")[0].partition("?")[0])
    if not closed or _SCHEME.match(target) or target.startswith(("/", "~")) or any(sign in target for sign in "{}<>$*|…\\"):
        return ""
    return target if "." in target.strip("./") or ("/" in target.strip("/")) else ""


_WORD_LIMIT: Final = 5000
_SECTIONS: Final = (
    ("描述 / Description", ("描述", "description", "overview", "概述")),
    ("参数 / Parameters", ("参数", "输入", "parameter", "input", "argument")),
    ("输出 / Output", ("输出", "output", "result", "returns")),
    ("执行步骤 / Steps", ("执行步骤", "步骤", "step", "workflow", "procedure", "instructions")),
    ("示例 / Examples", ("示例", "例子", "example")),
    ("安全 / Safety", ("安全", "合规", "safety", "security", "compliance")),
)
"""The required sections: how a finding names each, and the words of which its heading has one."""


def check_document(
    data: bytes,
    *,
    file: str = "SKILL.md",
    directory_name: str = "",
    profile: Profile = "standard",
    files: Collection[str] | None = None,
    extensions: Extensions | None = None,
) -> tuple[Diagnostic, ...]:
    """Everything the profile finds wrong, notes included, in the order of the file's lines.

    `files` are the POSIX paths of the skill's files relative to its folder; without them other files are not checked. Fields
    that `extensions` define are checked by them.
    """
    findings = Findings(file, profile)
    opened = open_document(data, findings)
    document = read_opened(opened, findings, directory_name)
    _check_body(document, findings)
    if opened.readable:
        fields = FieldReader(opened.mapping, Findings(file, profile))
        _check_more(document, fields, findings, files)
        _check_extended(document.metadata, fields, findings, extensions)
    return findings.sorted()


def _check_more(document: Document, fields: FieldReader, findings: Findings, files: Collection[str] | None) -> None:
    """The checks of the richer profiles, which a list never makes."""
    metadata = document.metadata
    if findings.profile in ("manifest", "full"):
        _check_version(metadata, fields, findings)
    if findings.profile == "manifest":
        _check_manifest(metadata, fields, findings)
    if findings.profile == "full":
        _check_complete(metadata, fields, findings)
        _check_sections(document, findings)
    if findings.checks("schema-invalid"):
        for name in ("input_schema", "output_schema"):
            _check_schema(getattr(metadata, name), name, fields, findings)
    if files is not None:
        _check_files(metadata, fields, findings, files)
        if findings.checks("link-broken"):
            _check_links(document, findings, files)


def _check_extended(metadata: Metadata, fields: FieldReader, findings: Findings, extensions: Extensions | None) -> None:
    """Check the fields that extensions define; one that fails is named, and the others are checked all the same."""
    for extension in extensions.of_kind("field") if extensions and metadata.extra else ():
        written = next((key for key in metadata.extra if key.replace("-", "_") == extension.name.replace("-", "_")), None)
        if written is None:
            continue
        line = fields.mapping.key_lines.get(written, 1)
        try:
            problem = extension.load()(metadata.extra[written])
            message = f"`{written}`: {single_line(str(problem))[:240]}" if problem else ""
        except ExtensionFailed as error:
            findings.add("extension-failed", line=line, message=error.message, fix=error.hint or "")
        except Exception as error:  # whatever an extension raises
            failed = extension.failed(error)
            findings.add("extension-failed", line=line, message=failed.message, fix=failed.hint or "")
        else:
            if message:
                findings.add("field-of-extension", line=line, message=message, fix=f"{extension.package} defines the field")


def _check_body(document: Document, findings: Findings) -> None:
    """Check the length of the instructions, and that code to be run is not hidden in them."""
    words = len(document.body.split())
    if words > _WORD_LIMIT:
        message = f"the instructions have {words:,} words, more than {_WORD_LIMIT:,}"
        findings.add("body-too-long", line=document.body_line, message=message)
    metadata = document.metadata
    if metadata.runs_a_script and metadata.resources.entry is None:
        code = next((block for block in document.code_blocks if block.language in CODE_LANGUAGES), None)
        if code:
            findings.add("code-in-body", line=code.line)


def _check_sections(document: Document, findings: Findings) -> None:
    """Check that each required section is there, by a word in a `##` or `###` heading."""
    titles = [section.title.lower() for section in document.sections]
    for shown, words in _SECTIONS:
        if not any(word in title for title in titles for word in words):
            fix = f"add a heading `## {shown.split(' / ')[0]}` or `## {shown.split(' / ')[1]}`"
            findings.add("section-missing", line=document.body_line, message=f"there is no section {shown}", fix=fix)
