"""The typed fields of a front matter, one spelling and one type for each; and how they are read from its tree.

A value that could not be used gives a finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from skillyard.document.document_rules import Findings
from skillyard.document.fields import FieldReader
from skillyard.document.spelling import KINDS, SPELLINGS, split_tools, tool_parts
from skillyard.document.yaml_reader import Mapping as MappingNode
from skillyard.document.yaml_reader import Node, Scalar, as_data, as_text
from skillyard.document.yaml_reader import Sequence as SequenceNode
from skillyard.errors import PathRefused
from skillyard.paths import safe_relative
from skillyard.text import without_user
from skillyard.times import MAX_RUN_MS
from skillyard.wire import WireForm, wire

Kind = Literal["direct", "service", "distributed", "static", "preprocessor", "internal"]
"""How a skill is executed."""
Network = Literal["none", "allowlist"]
Filesystem = Literal["none", "read-only", "read-write"]
_IF_DECLARED: Final = wire(omit_empty=True)


@dataclass(frozen=True, slots=True)
class Triggers:
    """When a skill offers itself."""

    intents: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    """Phrases a person may say; the patterns of the older `triggerPatterns` are among them."""
    event_types: tuple[str, ...] = ()
    priority: float | None = None
    """From 0 to 1; it only decides between skills that match."""


@dataclass(frozen=True, slots=True)
class Security(WireForm):
    """The permissions a skill requests; None where it declares nothing, the strictest value where a value is invalid."""

    timeout_ms: int | None = field(default=None, metadata=_IF_DECLARED)
    memory_mb: int | None = field(default=None, metadata=_IF_DECLARED)
    network: Network | None = field(default=None, metadata=_IF_DECLARED)
    network_allowlist: tuple[str, ...] = field(default=(), metadata=_IF_DECLARED)
    filesystem: Filesystem | None = field(default=None, metadata=_IF_DECLARED)
    requires_filesystem: bool | None = field(default=None, metadata=_IF_DECLARED)
    """True: it does not run where no files may be shown to it. False: `filesystem` is `none` unless it is declared."""
    environment: Mapping[str, str] = field(default_factory=dict, metadata=_IF_DECLARED)


@dataclass(frozen=True, slots=True)
class Resources:
    """The files a skill names: POSIX paths relative to its folder, such as `scripts/main.py`."""

    entry: str | None = None
    helpers: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    assets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Abp:
    """The tools a skill declares for the ABP protocol, as written."""

    kind: str | None = None
    """One of action, query, transform, validate, stream, schedule."""
    tools: tuple[Mapping[str, object], ...] = ()
    """Each with a `name`; parameters and results are left to the client that runs it."""


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """One entry of `tools`."""

    name: str
    type: str | None = None
    """`function` or `mcp`; None when only a name was written."""
    config: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Metadata:
    """Every field a front matter may have, with its default where it is absent or unusable.

    Keys may be written in camelCase, snake_case or kebab-case. Unknown keys are in `extra`, as written.
    """

    # Agent Skills specification
    name: str = ""
    """As written, without surrounding space; the folder's name when there is none."""
    description: str = ""
    license: str | None = None
    compatibility: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    """As written: every scalar is text, nested values are kept."""
    allowed_tools: tuple[str, ...] = ()

    # The rich format
    display_name: str | None = None
    version: str | None = None
    kind: Kind = "direct"
    capabilities: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    triggers: Triggers = field(default_factory=Triggers)
    domain: str = "general"
    category: str | None = None
    keywords: tuple[str, ...] = ()
    input_schema: Mapping[str, object] | None = None
    output_schema: Mapping[str, object] | None = None
    protocol: Literal["vcp", "abp"] = "vcp"
    abp: Abp | None = None
    security: Security = field(default_factory=Security)
    resources: Resources = field(default_factory=Resources)
    cacheable: bool = True
    ttl: int = 3600
    """Seconds a result may be kept."""
    permissions: Mapping[str, object] | None = None
    """The older form of `security`, as written; what it means is in `security` unless that is declared."""
    config: Mapping[str, object] = field(default_factory=dict)
    loading_priority: Literal["low", "normal", "high"] = "normal"
    estimated_tokens: int | None = None
    created_at: str | None = None
    updated_at: str | None = None

    # The package manifest
    skill_id: str | None = None
    trigger_keywords: tuple[str, ...] = ()
    author: str | None = None
    homepage: str | None = None
    documentation: str | None = None
    icon_url: str | None = None
    repository: str | None = None
    entry: str | None = None
    tools: tuple[ToolDeclaration, ...] = ()
    container: Mapping[str, object] | None = None
    anthropic: Mapping[str, object] | None = None

    # Fields of well-known clients
    disable_model_invocation: bool = False
    user_invocable: bool = True
    argument_hint: str | None = None
    model: str | None = None

    declared: frozenset[str] = frozenset()
    """The fields that were written, by their attribute names here (`type` for `kind`)."""
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def search_words(self) -> tuple[str, ...]:
        """Keywords, trigger keywords and tags without repeats."""
        return tuple(dict.fromkeys((*self.keywords, *self.trigger_keywords, *self.tags)))

    @property
    def model_invocable(self) -> bool:
        """Whether a model may pick the skill."""
        return not self.disable_model_invocation and self.kind != "internal"

    @property
    def has_entry(self) -> bool:
        """Whether the skill declares something to run."""
        return self.resources.entry is not None or self.kind_declared

    @property
    def runs_a_script(self) -> bool:
        """Whether a `type` was written that runs a script of the skill's own."""
        return self.kind_declared and self.kind in ("direct", "preprocessor", "internal")

    @property
    def kind_declared(self) -> bool:
        """Whether a known `type` was written."""
        return "kind" in self.declared


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
_MEMORY_MB: Final = (16, 65_536)  # what a sandbox can be given


def read_triggers(reader: FieldReader) -> Triggers:
    """`triggers` as a block or as a list of phrases, and the older `triggerPatterns`."""
    patterns = _patterns(reader.node("trigger_patterns"))
    node = reader.node("triggers")
    if isinstance(node, SequenceNode):
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
    for item in node.items if isinstance(node, SequenceNode) else ():
        if isinstance(item, MappingNode):
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
        timeout_ms=cast("int | None", fields.number("timeout_ms", low=1, high=MAX_RUN_MS)),
        memory_mb=cast("int | None", fields.number("memory_mb", low=_MEMORY_MB[0], high=_MEMORY_MB[1])),
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
    if not isinstance(node, MappingNode):
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
    if tools is not None and not isinstance(tools, SequenceNode):
        fields.wrong("tools", "a list of tools")
    named = [tool for tool in (tools.items if isinstance(tools, SequenceNode) else ()) if _tool_name(tool)]
    if isinstance(tools, SequenceNode) and len(named) < len(tools.items):
        fields.wrong("tools", "a list of tools, each with a name", rule="field-value")
    declared = tuple(cast("dict[str, object]", as_data(tool)) for tool in named)
    return Abp(kind, declared) if kind or declared else None


def _tool_name(node: Node) -> str:
    name = node.entries.get("name") if isinstance(node, MappingNode) else None
    return name.text.strip() if isinstance(name, Scalar) else ""


def read_tools(reader: FieldReader) -> tuple[ToolDeclaration, ...]:
    """`tools`: mappings with a name, or names alone."""
    node = reader.node("tools")
    if not isinstance(node, SequenceNode):
        return tuple(ToolDeclaration(name) for name in reader.words("tools"))
    return tuple(tool for item in node.items if (tool := _declaration(item)))


def _declaration(item: Node) -> ToolDeclaration | None:
    if isinstance(item, Scalar):
        return ToolDeclaration(item.text.strip()) if item.text.strip() else None
    name = _tool_name(item)
    if not name or not isinstance(item, MappingNode):
        return None
    kind = item.entries.get("type")
    config = item.entries.get("config")
    data = as_data(config) if isinstance(config, MappingNode) else {}
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


def read_metadata(mapping: MappingNode, findings: Findings, *, directory_name: str = "") -> Metadata:
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
    elif isinstance(node, SequenceNode):
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
    if isinstance(node, SequenceNode):
        return " ".join(f"[{word}]" for word in reader.words("argument_hint")) or None
    return reader.text("argument_hint")
