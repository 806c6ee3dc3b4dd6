"""The ApexBridge format: legacy skills (SKILL.md with METADATA.yml) read, and the canonical front matter and headings written.

SKILL.md counts before METADATA.yml, and that before METADATA.yaml, field by field; differences are reported, nothing is
dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from skillyard.document import Section, new_document, parse_document, read_front_matter
from skillyard.document.spelling import SPELLINGS
from skillyard.errors import FileProblem
from skillyard.paths import read_inside

_ORDER: Final = (
    "name", "display_name", "description", "version", "type", "domain", "category", "keywords", "tags", "capabilities",
    "triggers", "input_schema", "output_schema", "security", "resources", "cacheable", "ttl", "protocol", "permissions", "abp",
    "config",
)  # fmt: skip
"""The order of the fields; unknown ones follow as they were written."""

_WRITTEN: Final = {
    "display_name": "displayName", "allowed_tools": "allowed-tools", "argument_hint": "argument-hint",
    "disable_model_invocation": "disable-model-invocation", "user_invocable": "user-invocable",
}  # fmt: skip
_OPEN: Final[Mapping[str, object]] = {"type": "object", "properties": {}, "additionalProperties": True}
_ANYTHING: Final[Mapping[str, object]] = {"properties": {}, "additionalProperties": True}
"""What a skill gives that does not say: an object of any kind, or the text that its script prints."""
_TIMEOUT_MS: Final = 3000
_MEMORY_MB: Final = 128
_FILESYSTEMS: Final = {"read": "read-only", "readonly": "read-only", "write": "read-write", "readwrite": "read-write"}
_IDEOGRAPH: Final = re.compile(r"[\u3400-\u9fff]")
_HEADINGS: Final = (
    ("描述", "Description"), ("输入", "Input"), ("输出", "Output"), ("执行步骤", "Steps"), ("执行脚本", "Script"),
    ("示例", "Examples"), ("安全", "Safety"),
)  # fmt: skip
_HEADING_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    "Description": ("描述", "description", "overview", "简介", "概述"),
    "Input": ("输入", "参数", "input", "inputs", "parameters", "arguments"),
    "Output": ("输出", "output", "outputs", "returns", "返回"),
    "Steps": ("执行步骤", "步骤", "steps", "workflow", "instructions", "流程"),
    "Script": ("执行脚本", "脚本", "代码", "script", "scripts", "code"),
    "Examples": ("示例", "例子", "example", "examples"),
    "Safety": ("安全", "合规", "安全/合规提示", "safety", "security", "compliance"),
}


def canonical_fields(
    fields: Mapping[str, object], *, folder: str, entry: str | None, hosts: Sequence[str] = ()
) -> dict[str, object]:
    """The fields of the canonical form with its defaults, in its order.

    `entry` is the script that runs, `hosts` are what it may reach where the skill wants the network and names none.
    """
    name = str(fields.get("name") or folder)
    shown = str(fields.get("display_name") or name)
    keywords = _words(fields.get("keywords"))
    about = keywords or _words(fields.get("tags")) or [part for part in re.split(r"[-_\s]+", name.lower()) if part]
    filled: dict[str, object] = {
        **fields,
        "name": name,
        "display_name": shown,
        "version": _three_numbers(str(fields.get("version") or "1.0.0")),
        "type": fields.get("type") or "direct",
        "domain": fields.get("domain") or "general",
        "triggers": _triggers(fields, shown, keywords),
        "input_schema": fields.get("input_schema") or _OPEN,
        "output_schema": fields.get("output_schema") or _ANYTHING,
        "security": _security(fields, hosts),
        "keywords": keywords or about,
        "tags": _words(fields.get("tags")) or about,
        "capabilities": _words(fields.get("capabilities")) or _tool_names(fields) or about,
        "resources": _resources(fields, entry),
    }
    if displaced := _displaced(fields, entry):
        filled["metadata"] = {**_mapping(fields.get("metadata")), "legacy": displaced}
    ordered = {key: filled[key] for key in _ORDER if filled.get(key) not in (None, "", [])}
    return ordered | {key: value for key, value in filled.items() if key not in _ORDER}


def canonical_text(fields: Mapping[str, object], body: str) -> str:
    """The text of SKILL.md with these fields."""
    written = {_WRITTEN.get(key, key): value for key, value in fields.items()}
    name, description = str(written.pop("name")), str(written.pop("description", ""))
    shown = {"displayName": written.pop("displayName")} if "displayName" in written else {}
    text = new_document(name, description, body.strip("\n") + "\n", extra=shown | written)
    return text if description else text.replace("description: ''\n", "", 1)


def missing_headings(body: str, sections: tuple[Section, ...], fields: Mapping[str, object]) -> str:
    """What is put around a body that lacks parts: a title in front, headings with the metadata after it."""
    chinese = bool(_IDEOGRAPH.search(body + str(fields.get("description", ""))))
    titles = {section.title.strip("0123456789.、 :：").lower() for section in sections}
    parts = []
    for own, english in _HEADINGS:
        if not titles & {word.lower() for word in _HEADING_SYNONYMS[english]} and (
            text := _heading_text(english, fields, chinese=chinese)
        ):
            parts.append(f"## {own if chinese else english}\n\n{text}\n")
    title = "" if re.match(r"\s*# ", body) else f"# {fields['display_name']}\n\n"
    return title + "\n".join(part for part in (body.strip("\n") + "\n", *parts) if part.strip())


def _heading_text(heading: str, fields: Mapping[str, object], *, chinese: bool) -> str:
    entry = fields["resources"].get("entry") if isinstance(fields.get("resources"), Mapping) else None  # type: ignore[attr-defined]
    if heading == "Description":
        return str(fields.get("description", ""))
    if heading in ("Input", "Output"):
        return _schema_list(fields["input_schema" if heading == "Input" else "output_schema"], chinese=chinese)
    if heading == "Examples":
        given = json.dumps(_example(fields), ensure_ascii=False, indent=2)
        return f"{'输入' if chinese else 'Input'}:\n\n```json\n{given}\n```"
    if heading == "Safety":
        return _safety(_mapping(fields["security"]), chinese=chinese)
    if heading == "Steps" and not entry:
        return "1. 按说明收集参数。\n2. 执行并返回结果。" if chinese else "1. Collect the parameters.\n2. Give the result back."
    if not entry:
        return ""
    if heading == "Steps" and chinese:
        return "1. 按 `input_schema` 检查参数。\n2. 运行脚本。\n3. 返回结果。"
    if heading == "Steps":
        return "1. Check the parameters against `input_schema`.\n2. Run the script.\n3. Give its result back."
    return f"`{str(entry).removeprefix('./')}`"


def _schema_list(schema: object, *, chinese: bool) -> str:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not properties:
        return "任意对象。" if chinese else "Any object."
    lines = []
    for name, about in properties.items():
        words = about.get("description") if isinstance(about, Mapping) else None
        kind = about.get("type") if isinstance(about, Mapping) else None
        lines.append(f"- `{name}`" + (f" ({kind})" if isinstance(kind, str) else "") + (f": {words}" if words else ""))
    return "\n".join(lines)


_EXAMPLES: Final[Mapping[object, object]] = {
    "number": 1, "integer": 1, "boolean": True, "array": [], "object": {}, "string": "…",
}  # fmt: skip


def _example(fields: Mapping[str, object]) -> dict[str, object]:
    """Parameters of the right types: the defaults, else one value of each type."""
    properties = _mapping(_mapping(fields["input_schema"]).get("properties"))
    if not properties:
        tools = _mapping(fields.get("abp")).get("tools")
        first = next(iter(tools), None) if isinstance(tools, list | tuple) else None
        properties = _mapping(_mapping(first).get("parameters"))
    return {
        name: _mapping(about).get("default", _EXAMPLES.get(_mapping(about).get("type"), "…"))
        for name, about in properties.items()
    }


def _safety(security: Mapping[str, object], *, chinese: bool) -> str:
    hosts = ", ".join(f"`{host}`" for host in _words(security.get("network_allowlist")))
    files = f"`{security['filesystem']}`"
    if chinese:
        return f"在沙箱中运行。网络：{hosts or '无'}。文件系统：{files}。不要在参数中传递密码或密钥。"
    return f"Runs in a sandbox. Network: {hosts or 'none'}. File system: {files}. Give no passwords or keys as parameters."


def _three_numbers(version: str) -> str:
    """A version of one or two numbers, or with a `v` in front, as three numbers; any other as it is."""
    bare = version.strip().removeprefix("v")
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9}){0,2}", bare):
        return version
    return bare + ".0" * (2 - bare.count("."))


def _tool_names(fields: Mapping[str, object]) -> list[str]:
    tools = _mapping(fields.get("abp")).get("tools")
    names = [_mapping(tool).get("name") for tool in tools] if isinstance(tools, list | tuple) else []
    return [name for name in names if isinstance(name, str) and name]


def _triggers(fields: Mapping[str, object], shown: str, keywords: list[str]) -> object:
    if fields.get("triggers") or fields.get("trigger_patterns"):
        return fields.get("triggers")
    return {"intents": [], "phrases": list(dict.fromkeys([shown, *keywords])), "event_types": []}


def _security(fields: Mapping[str, object], given: Sequence[str]) -> dict[str, object]:
    """What it may do: as declared, else as the older `permissions` allow, else nothing; without a host there is no network."""
    declared = dict(_mapping(fields.get("security")))
    older = _mapping(fields.get("permissions"))
    hosts = _words(older.get("externalApis") or older.get("external_apis")) or _endpoint(fields) or list(given)
    wants = older.get("network")
    for key, value in (
        ("timeout_ms", _respelled(declared, "timeout_ms", "timeoutMs") or _TIMEOUT_MS),
        ("memory_mb", _respelled(declared, "memory_mb", "memoryMb", "memoryMB") or _MEMORY_MB),
        ("network", "allowlist" if wants not in (None, False, "none", "false") else "none"),
        ("filesystem", older.get("filesystem") or "none"),
        ("environment", older.get("environment")),
    ):
        if declared.get(key) in (None, "") and value is not None:
            declared[key] = value
    spelled = next(
        (name for name in ("network_allowlist", "networkAllowlist", "network-allowlist") if declared.get(name)), None
    )
    if declared["network"] == "allowlist" and spelled is None:
        declared |= {"network_allowlist": hosts} if hosts else {"network": "none"}
    filesystem = str(declared["filesystem"])
    declared["filesystem"] = _FILESYSTEMS.get(filesystem.replace("_", "").replace("-", "").lower(), filesystem)
    return declared


def _endpoint(fields: Mapping[str, object]) -> list[str]:
    """The host of the service that the skill names."""
    config = _mapping(fields.get("config"))
    address = config.get("endpoint") or config.get("url")
    try:
        parts = urlsplit(address) if isinstance(address, str) else None
    except ValueError:
        parts = None
    return (
        [f"{parts.scheme}://{parts.netloc}"] if parts and parts.scheme in ("http", "https") and "@" not in parts.netloc else []
    )


def _respelled(declared: dict[str, object], name: str, *spellings: str) -> object:
    """The value under an older spelling, taken away from there; one beside the name of today stays where it is."""
    written = next((spelling for spelling in spellings if declared.get(spelling)), None)
    return declared.pop(written) if written and declared.get(name) in (None, "") else None


def _resources(fields: Mapping[str, object], entry: str | None) -> dict[str, object]:
    declared = dict(_mapping(fields.get("resources")))
    declared.pop("entry", None)
    return ({"entry": f"./{entry}"} if entry else {}) | declared


def _displaced(fields: Mapping[str, object], entry: str | None) -> dict[str, object]:
    """What was declared in a shape that the canonical form cannot hold; it is kept below `metadata`."""
    displaced = {key: fields[key] for key in ("security", "resources") if not isinstance(fields.get(key, {}), Mapping)}
    displaced |= {
        key: fields[key] for key in ("tags", "capabilities") if not isinstance(fields.get(key, []), str | list | tuple)
    }
    declared = _mapping(fields.get("resources")).get("entry")
    if declared is not None and (entry is None or str(declared).removeprefix("./") != entry.removeprefix("./")):
        displaced["resources"] = {"entry": declared}
    if displaced and not isinstance(fields.get("metadata", {}), Mapping):
        displaced["metadata"] = fields["metadata"]
    return displaced


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _words(value: object) -> list[str]:
    from skillyard.document.spelling import split_words

    if isinstance(value, str):
        return list(split_words(value))
    return [str(word) for word in value] if isinstance(value, list | tuple) else []


METADATA_FILES: Final = ("METADATA.yml", "METADATA.yaml")
_LIMIT: Final = 1024 * 1024
_TEXTS: Final = frozenset({
    "name", "description", "display_name", "version", "type", "domain", "category", "protocol", "license", "author", "skill_id",
})  # fmt: skip
"""Fields that are text whatever they look like: a version `1.10` is no number."""
_OPENING: Final = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*---[ \t]*(?:\n|$)")
_CLOSING: Final = re.compile(r"(?:^|\n)(?:---|\.\.\.)\s*\Z")
_COMMENT: Final = re.compile(r"^\s*#|^[^\"']*\s#")
_LINE: Final = re.compile(r"\bline (\d+)")
_COMMENTS: Final = "comments between the fields of {} are only in its backup"


@dataclass(frozen=True, slots=True)
class LegacySkill:
    """What was read: `fields` by their one name, or as they were written where they are unknown; `body` behind the fence.

    `original` are the bytes of SKILL.md, `metadata_files` the names of the METADATA files that are there, `doubts` what could
    not be carried over or is doubtful, one sentence each. `lossy` names the files with content that is not in `fields`.
    """

    folder: Path
    original: bytes
    fields: Mapping[str, object]
    body: str
    metadata_files: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    lossy: frozenset[str] = frozenset()


@dataclass(slots=True)
class _LegacyFields:
    """The fields so far, and from which file each came."""

    fields: dict[str, object] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    lossy: set[str] = field(default_factory=set)

    def doubt(self, file: str, sentence: str) -> None:
        """Note what is not carried over from `file`."""
        self.doubts.append(sentence)
        self.lossy.add(file)

    def add(self, file: str, key: str, value: object) -> None:
        """Take a field over, unless an earlier file, or this one, has another value."""
        if key not in self.fields:
            self.fields[key], self.origins[key] = value, file
        elif self.fields[key] != value and (first := self.origins[key]) == file:
            self.doubt(file, f"{key} is written twice in {file}; the first counts")
        elif self.fields[key] != value:
            self.doubt(file, f"{key}: {first} and {file} differ; what {first} says was kept")


def read_legacy(folder: Path) -> LegacySkill:
    """Read the skill in `folder`.

    Raises:
        FileProblem: SKILL.md or a METADATA file cannot be read, is not text, or has fields that no reader understands.
    """
    original = read_inside(folder, "SKILL.md", limit=_LIMIT)
    text, reading = _text(original, "SKILL.md"), _LegacyFields()
    headed = text.startswith("---")
    if headed:
        _add_fields(reading, "SKILL.md", original, lines_before=0)
    names = tuple(name for name in METADATA_FILES if (folder / name).exists())
    for name in names:
        _add_metadata(reading, name, _text(read_inside(folder, name, limit=_LIMIT), name))
    body = parse_document(original, directory_name=folder.name).body if headed else text
    return LegacySkill(folder, original, reading.fields, body, names, tuple(reading.doubts), frozenset(reading.lossy))


def _add_metadata(reading: _LegacyFields, name: str, text: str) -> None:
    """A METADATA file is one YAML document, perhaps between the fences of a front matter."""
    opening = _OPENING.match(text)
    header = _CLOSING.sub("", text[opening.end() if opening else 0 :]).rstrip()
    if opening and "#" in opening[0]:
        reading.doubt(name, _COMMENTS.format(name))
    before = text[: opening.end()].count("\n") if opening else 0
    lines = header.splitlines()
    if all(not line.strip() or line.lstrip().startswith("#") for line in lines):
        reading.lossy |= {name} if header else set()
        return
    if (second := next((number for number, line in enumerate(lines, before + 1) if line.rstrip() in ("---", "...")), 0)) > 0:
        raise FileProblem(f"{name}, line {second}: a second YAML document begins", hint="make one document of them")
    _add_fields(reading, name, f"---\n{header}\n---\n".encode(), lines_before=before - 1)


def _add_fields(reading: _LegacyFields, name: str, data: bytes, *, lines_before: int) -> None:
    """The fields of a front matter; `lines_before` is what a line in `data` lacks to its line in the file."""
    front = read_front_matter(data)
    if not front.values and not front.exact:
        raise FileProblem(_why_unreadable(name, data, lines_before), hint="fix the line, then migrate again")
    if not front.exact:
        reading.doubt(name, f"{name} is not proper YAML; its fields were recovered")
    if any(_COMMENT.search(line) for line in _header_lines(data)):
        reading.doubt(name, _COMMENTS.format(name))
    for key, value in _canonical_names(front.texts, front.values):
        reading.add(name, key, value)


def _why_unreadable(name: str, data: bytes, lines_before: int) -> str:
    """The reader's own words, with the line of the file."""
    error = next((one for one in parse_document(data).diagnostics if one.severity == "error"), None)
    if error is None:
        return f"the fields of {name} cannot be read"
    message = _LINE.sub(lambda line: f"line {int(line[1]) + lines_before}", error.message)
    return f"{name}, line {max(error.line + lines_before, 1)}: {message}"


def _canonical_names(texts: Mapping[str, object], values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for written, value in values.items():
        name = SPELLINGS.get(written, written)
        chosen = texts[written] if name in _TEXTS else value
        if chosen is not None and chosen != "":
            yield name, chosen


def _header_lines(data: bytes) -> list[str]:
    text = data.decode("utf-8-sig").replace("\r\n", "\n")
    return text.removeprefix("---").partition("\n---")[0].splitlines()


def _text(data: bytes, name: str) -> str:
    """The text of a file, whatever its line ends. Raises FileProblem: it is not UTF-8."""
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileProblem(f"{name}, line {line}: the file is not UTF-8", hint="save it as UTF-8") from None
