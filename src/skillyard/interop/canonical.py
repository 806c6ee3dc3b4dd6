"""The canonical form of a skill of document 000: its front matter in one order with defaults, and the headings of its text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from skillyard.document import Section, new_document

__all__ = ["REQUIRED", "canonical_fields", "canonical_text", "missing_headings"]

_ORDER: Final = (
    "name", "display_name", "description", "version", "type", "domain", "category", "keywords", "tags", "capabilities",
    "triggers", "input_schema", "output_schema", "security", "resources", "cacheable", "ttl", "protocol", "permissions", "abp",
    "config",
)  # fmt: skip
"""The order of the fields (row 000-49); those that nobody knows follow as they were written."""

REQUIRED: Final = (
    "name", "description", "version", "type", "domain", "triggers", "input_schema", "output_schema", "security", "resources",
)  # fmt: skip
"""The fields that a validated skill has (row 000-55)."""

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
)  # fmt: skip
_SAME: Final[Mapping[str, tuple[str, ...]]] = {
    "Description": ("描述", "description", "overview", "简介", "概述"),
    "Input": ("输入", "参数", "input", "inputs", "parameters", "arguments"),
    "Output": ("输出", "output", "outputs", "returns", "返回"),
    "Steps": ("执行步骤", "步骤", "steps", "workflow", "instructions", "流程"),
    "Script": ("执行脚本", "脚本", "代码", "script", "scripts", "code"),
}


def canonical_fields(fields: Mapping[str, object], *, folder: str, entry: str | None) -> dict[str, object]:
    """The fields of document 000 with its defaults, in its order; `entry` is the script that runs, as `scripts/execute.ts`."""
    name = str(fields.get("name") or folder)
    shown = str(fields.get("display_name") or name)
    keywords = _words(fields.get("keywords"))
    filled: dict[str, object] = {
        **fields,
        "name": name,
        "display_name": shown,
        "version": fields.get("version") or "1.0.0",
        "type": fields.get("type") or "direct",
        "domain": fields.get("domain") or "general",
        "triggers": _triggers(fields, shown, keywords),
        "input_schema": fields.get("input_schema") or _OPEN,
        "output_schema": fields.get("output_schema") or _ANYTHING,
        "security": _security(fields),
        "resources": _resources(fields, entry),
    }
    for name_of_list in ("tags", "capabilities"):
        filled[name_of_list] = _words(fields.get(name_of_list)) or keywords
    if displaced := _displaced(fields, entry):
        filled["metadata"] = {**_mapping(fields.get("metadata")), "legacy": displaced}
    known = {key: filled[key] for key in _ORDER if filled.get(key) not in (None, "", [])}
    return known | {key: value for key, value in filled.items() if key not in _ORDER}


def canonical_text(fields: Mapping[str, object], body: str) -> str:
    """The text of SKILL.md with these fields."""
    written = {_WRITTEN.get(key, key): value for key, value in fields.items()}
    name, description = str(written.pop("name")), str(written.pop("description", ""))
    shown = {"displayName": written.pop("displayName")} if "displayName" in written else {}
    text = new_document(name, description, body.strip("\n") + "\n", extra=shown | written)
    return text if description else text.replace("description: ''\n", "", 1)


def missing_headings(body: str, sections: tuple[Section, ...], fields: Mapping[str, object]) -> str:
    """What is put around a body that lacks parts (row 000-53): a title in front, headings with what is known behind."""
    chinese = bool(_IDEOGRAPH.search(body + str(fields.get("description", ""))))
    titles = {section.title.strip("0123456789.、 :：").lower() for section in sections}
    parts = []
    for own, english in _HEADINGS:
        if not titles & {word.lower() for word in _SAME[english]} and (text := _about(english, fields, chinese=chinese)):
            parts.append(f"## {own if chinese else english}\n\n{text}\n")
    title = "" if re.match(r"\s*# ", body) else f"# {fields['display_name']}\n\n"
    return title + "\n".join(part for part in (body.strip("\n") + "\n", *parts) if part.strip())


def _about(heading: str, fields: Mapping[str, object], *, chinese: bool) -> str:
    entry = fields["resources"].get("entry") if isinstance(fields.get("resources"), Mapping) else None  # type: ignore[attr-defined]
    if heading == "Description":
        return str(fields.get("description", ""))
    if heading in ("Input", "Output"):
        return _schema_list(fields["input_schema" if heading == "Input" else "output_schema"], chinese=chinese)
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


def _triggers(fields: Mapping[str, object], shown: str, keywords: list[str]) -> object:
    if fields.get("triggers") or fields.get("trigger_patterns"):
        return fields.get("triggers")
    return {"intents": [], "phrases": list(dict.fromkeys([shown, *keywords])), "event_types": []}


def _security(fields: Mapping[str, object]) -> dict[str, object]:
    """What it may do: as declared, else as the older `permissions` allow, else nothing (defect D-22)."""
    declared = dict(_mapping(fields.get("security")))
    older = _mapping(fields.get("permissions"))
    hosts = older.get("externalApis") or older.get("external_apis") or []
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
    if declared["network"] == "allowlist" and hosts and not declared.get("network_allowlist"):
        declared.setdefault("network_allowlist", hosts)
    filesystem = str(declared["filesystem"])
    declared["filesystem"] = _FILESYSTEMS.get(filesystem.replace("_", "").replace("-", "").lower(), filesystem)
    return declared


def _respelled(declared: dict[str, object], name: str, *spellings: str) -> object:
    """The value under an older spelling, taken away from there; one beside the name of today stays where it is."""
    written = next((spelling for spelling in spellings if declared.get(spelling)), None)
    return declared.pop(written) if written and declared.get(name) in (None, "") else None


def _resources(fields: Mapping[str, object], entry: str | None) -> dict[str, object]:
    declared = dict(_mapping(fields.get("resources")))
    declared.pop("entry", None)
    return ({"entry": f"./{entry}"} if entry else {}) | declared


def _displaced(fields: Mapping[str, object], entry: str | None) -> dict[str, object]:
    """What was declared in a shape that the canonical form has no place for; it is kept below `metadata` (defect D-22)."""
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
