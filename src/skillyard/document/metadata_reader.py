"""From the tree of a front matter to typed `Metadata`, with a finding for every value that could not be used."""

from __future__ import annotations

from typing import Any, Final, cast

from skillyard.document.fields import FieldReader
from skillyard.document.metadata import Abp, Filesystem, Metadata, Network, Resources, Security, ToolDeclaration, Triggers
from skillyard.document.rules import Findings
from skillyard.document.spelling import KINDS, SPELLINGS, split_tools, tool_parts
from skillyard.document.yaml_reader import Mapping, Node, Scalar, Sequence, as_data, as_text
from skillyard.errors import PathRefused
from skillyard.paths import safe_relative
from skillyard.text import without_user

_ABP_KINDS: Final = ("action", "query", "transform", "validate", "stream", "schedule")
_SECURITY_KEYS: Final = frozenset(
    {"timeout_ms", "memory_mb", "network", "network_allowlist", "filesystem", "requires_filesystem", "environment"}
)
_FILESYSTEMS: Final = {
    "none": "none",
    "read": "read-only",
    "read-only": "read-only",
    "readonly": "read-only",
    "read-write": "read-write",
}
_DAY_MS: Final = 24 * 3600 * 1000
_MEMORY_MB: Final = 1024 * 1024


def read_triggers(reader: FieldReader) -> Triggers:
    """`triggers` as a block or as a list of phrases, and the older `triggerPatterns`."""
    patterns = _patterns(reader.node("trigger_patterns"))
    node = reader.node("triggers")
    if isinstance(node, Sequence):
        return Triggers(phrases=_patterns(node) + patterns)
    if isinstance(node, Scalar):
        return Triggers(phrases=reader.words("triggers") + patterns)
    if node is None:
        return Triggers(phrases=patterns)
    block = FieldReader(node, reader.findings, prefix="triggers.")
    priority = block.number("priority", low=0, high=1, whole=False)
    return Triggers(
        intents=block.words("intents", commas=False),
        phrases=block.words("phrases", commas=False) + patterns,
        event_types=block.words("event_types"),
        priority=None if priority is None else float(priority),
    )


def _patterns(node: Node | None) -> tuple[str, ...]:
    """The texts of a list whose items are texts or mappings with a `pattern` or `phrase`."""
    texts: list[str] = []
    for item in node.items if isinstance(node, Sequence) else ():
        if isinstance(item, Mapping):
            item = item.entries.get("pattern") or item.entries.get("phrase") or Scalar("", True, item.line)
        if isinstance(item, Scalar) and item.text.strip():
            texts.append(item.text.strip())
    return tuple(dict.fromkeys(texts))


def read_security(reader: FieldReader) -> Security:
    """`security`; without it, the older `permissions`."""
    block = reader.block("security")
    if block is None:
        return _legacy(reader)
    fields = FieldReader(block, reader.findings, prefix="security.", rule="security-invalid")
    for key in fields.unknown(_SECURITY_KEYS):
        fields.findings.add("security-invalid", line=block.key_lines[key], message=f"`security.{key}` is not a known setting")
    network = _network(fields)
    allowlist = fields.words("network_allowlist")
    if network == "allowlist" and not allowlist:
        fields.findings.add("network-hosts-missing", line=fields.line("network"))
    filesystem, requires = _filesystem(fields), fields.flag("requires_filesystem")
    if requires and filesystem == "none":
        message = "`security.requires_filesystem` is true, but `filesystem` is `none`: the skill could never run"
        fix = "write `filesystem: read-only` or `read-write`, or `requires_filesystem: false`"
        fields.findings.add("security-invalid", line=fields.line("requires_filesystem"), message=message, fix=fix)
    return Security(
        timeout_ms=cast("int | None", fields.number("timeout_ms", low=1, high=_DAY_MS)),
        memory_mb=cast("int | None", fields.number("memory_mb", low=1, high=_MEMORY_MB)),
        network=network,
        network_allowlist=allowlist,
        filesystem=filesystem or ("none" if requires is False else None),
        requires_filesystem=requires,
        environment=_environment(fields),
    )


def _network(fields: FieldReader) -> Network | None:
    if fields.node("network") is None:
        return None
    word = fields.choice("network", ("none", "allowlist"), rule="security-invalid")
    return "allowlist" if word == "allowlist" else "none"


def _filesystem(fields: FieldReader) -> Filesystem | None:
    if fields.node("filesystem") is None:
        return None
    word = fields.choice("filesystem", _FILESYSTEMS, rule="security-invalid")
    return cast("Filesystem", _FILESYSTEMS.get(word or "", "none"))


def _environment(fields: FieldReader) -> dict[str, str]:
    block = fields.block("environment")
    values = block.entries.items() if block else ()
    return {key: value.text for key, value in values if isinstance(value, Scalar)}


def _legacy(reader: FieldReader) -> Security:
    node = reader.node("permissions")
    if not isinstance(node, Mapping):
        return Security()
    reader.findings.add("permissions-legacy", line=reader.line("permissions"))
    fields = FieldReader(node, reader.findings, prefix="permissions.", rule="security-invalid")
    hosts = fields.words("external_apis")
    network: Network | None = None
    if fields.node("network") is not None:
        network = "allowlist" if fields.flag("network") else "none"
    return Security(
        network=network,
        network_allowlist=hosts if network == "allowlist" else (),
        filesystem=_filesystem(fields),
        environment=_environment(fields),
    )


def read_resources(reader: FieldReader) -> Resources:
    """`resources`, every path relative to the skill; `entry` may also stand outside."""
    outer = _paths(reader, "entry", (reader.text("entry") or "",))
    block = reader.block("resources")
    if block is None:
        return Resources(entry=next(iter(outer), None))
    fields = FieldReader(block, reader.findings, prefix="resources.")
    entry = _paths(fields, "entry", (fields.text("entry") or "",)) + outer
    return Resources(
        entry=next(iter(entry), None),
        helpers=_paths(fields, "helpers", fields.words("helpers", commas=False)),
        references=_paths(fields, "references", fields.words("references", commas=False)),
        assets=_paths(fields, "assets", fields.words("assets", commas=False)),
    )


def _paths(fields: FieldReader, name: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """The paths that stay inside the skill; the others are reported and dropped."""
    safe: list[str] = []
    for path in paths:
        try:
            if path:
                safe.append(safe_relative(path))
        except PathRefused:
            message = f"`{fields.written(name)}` names `{path[:80]}`, which is not a path inside the skill"
            fields.findings.add("resource-outside", line=fields.line(name), message=message)
    return tuple(safe)


def read_abp(reader: FieldReader) -> Abp | None:
    """`abp`; None when neither a kind nor a tool in it can be used."""
    block = reader.block("abp")
    if block is None:
        return None
    fields = FieldReader(block, reader.findings, prefix="abp.")
    kind = fields.choice("kind", _ABP_KINDS)
    tools = fields.node("tools")
    if tools is not None and not isinstance(tools, Sequence):
        fields.wrong("tools", "a list of tools")
    named = [tool for tool in (tools.items if isinstance(tools, Sequence) else ()) if _tool_name(tool)]
    if isinstance(tools, Sequence) and len(named) < len(tools.items):
        fields.wrong("tools", "a list of tools, each with a name", rule="field-value")
    declared = tuple(cast("dict[str, object]", as_data(tool)) for tool in named)
    return Abp(kind, declared) if kind or declared else None


def _tool_name(node: Node) -> str:
    name = node.entries.get("name") if isinstance(node, Mapping) else None
    return name.text.strip() if isinstance(name, Scalar) else ""


def read_tools(reader: FieldReader) -> tuple[ToolDeclaration, ...]:
    """`tools`: mappings with a name, or names alone."""
    node = reader.node("tools")
    if not isinstance(node, Sequence):
        return tuple(ToolDeclaration(name) for name in reader.words("tools"))
    return tuple(tool for item in node.items if (tool := _declaration(item)))


def _declaration(item: Node) -> ToolDeclaration | None:
    if isinstance(item, Scalar):
        return ToolDeclaration(item.text.strip()) if item.text.strip() else None
    name = _tool_name(item)
    if not name or not isinstance(item, Mapping):
        return None
    kind = item.entries.get("type")
    config = item.entries.get("config")
    data = as_data(config) if isinstance(config, Mapping) else {}
    return ToolDeclaration(name, str(as_text(kind)) if isinstance(kind, Scalar) else None, cast("dict[str, object]", data))


_KNOWN: Final = frozenset(SPELLINGS.values())
_TTL_LIMIT: Final = 10 * 365 * 24 * 3600
_TOKEN_LIMIT: Final = 10_000_000
_TOOL_PROBLEMS: Final = 10
# fmt: off
_TEXTS: Final = (
    "license", "compatibility", "display_name", "version", "category", "created_at", "updated_at", "skill_id",
    "author", "homepage", "documentation", "icon_url", "repository", "entry", "model",
)
# fmt: on
_ADDRESSES: Final = ("homepage", "documentation", "icon_url", "repository")
_LISTS: Final = ("tags", "keywords", "trigger_keywords")
_BLOCKS: Final = frozenset(
    {"triggers", "trigger_patterns", "security", "permissions", "resources", "entry", "tools", "abp", "protocol", "config"}
)
_DATA: Final = ("input_schema", "output_schema", "permissions", "container", "anthropic")


def read_metadata(mapping: Mapping, findings: Findings, *, directory_name: str = "") -> Metadata:
    """The typed fields of a front matter; the name falls back to the folder's."""
    if not mapping.entries:
        return Metadata(name=directory_name)
    reader = FieldReader(mapping, findings)
    declared = reader.declared()
    values: dict[str, Any] = {name: reader.text(name) for name in _TEXTS if name in declared}
    values |= {name: without_user(value) for name in _ADDRESSES if (value := values.get(name))}
    values |= {name: reader.words(name) for name in _LISTS if name in declared}
    values |= {name: reader.data(name) for name in _DATA if name in declared}
    values |= _settings(reader)
    if not declared.isdisjoint(_BLOCKS):
        values |= _blocks(reader)
    values["name"] = _scalar(reader, "name") or directory_name
    values["description"] = _scalar(reader, "description")
    values["capabilities"] = reader.words("capabilities", commas=False)
    values["allowed_tools"] = _allowed_tools(reader)
    values["metadata"] = as_text(block) if (block := reader.block("metadata")) else None
    values["argument_hint"] = _argument_hint(reader)
    values["extra"] = reader.unknown(_KNOWN)
    kind = reader.choice("type", KINDS, rule="type-unknown")
    if kind:
        values["kind"] = kind
        declared |= {"kind"}
    return Metadata(declared=declared, **{name: value for name, value in values.items() if value is not None})


def _blocks(reader: FieldReader) -> dict[str, object]:
    abp = read_abp(reader)
    protocol = reader.choice("protocol", ("vcp", "abp"))
    return {
        "triggers": read_triggers(reader),
        "security": read_security(reader),
        "resources": read_resources(reader),
        "tools": read_tools(reader),
        "abp": abp,
        "protocol": protocol or ("abp" if abp else "vcp"),
        "config": reader.data("config"),
    }


def _settings(reader: FieldReader) -> dict[str, object]:
    return {
        "domain": reader.text("domain"),
        "cacheable": reader.flag("cacheable"),
        "ttl": reader.number("ttl", low=1, high=_TTL_LIMIT),
        "loading_priority": reader.choice("loading_priority", ("low", "normal", "high")),
        "estimated_tokens": reader.number("estimated_tokens", low=0, high=_TOKEN_LIMIT),
        "disable_model_invocation": reader.flag("disable_model_invocation"),
        "user_invocable": reader.flag("user_invocable"),
    }


def _scalar(reader: FieldReader, name: str) -> str:
    """A text without a finding: name and description have rules of their own."""
    node = reader.node(name)
    return node.text.strip() if isinstance(node, Scalar) else ""


def _allowed_tools(reader: FieldReader) -> tuple[str, ...]:
    node = reader.node("allowed_tools")
    tools: tuple[str, ...] = ()
    if isinstance(node, Scalar):
        tools = split_tools(node.text)
    elif isinstance(node, Sequence):
        tools = tuple(dict.fromkeys(tool for item in reader.words("allowed_tools") for tool in split_tools(item)))
    elif node is not None:
        reader.wrong("allowed_tools", "a list of tools")
    for problem in list(filter(None, map(_tool_problem, tools)))[:_TOOL_PROBLEMS]:
        reader.findings.add("allowed-tools-grammar", line=reader.line("allowed_tools"), message=problem)
    return tools


def _tool_problem(tool: str) -> str:
    """Why an entry of `allowed-tools` names no tool; empty when it does."""
    try:
        tool_parts(tool)
    except ValueError as error:
        return str(error)
    return ""


def _argument_hint(reader: FieldReader) -> str | None:
    """`argument-hint: [file]` is YAML for a list, but means the text."""
    node = reader.node("argument_hint")
    if isinstance(node, Sequence):
        return " ".join(f"[{word}]" for word in reader.words("argument_hint")) or None
    return reader.text("argument_hint")
