"""The typed fields of a front matter, one spelling and one type for each, whatever was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

Kind = Literal["direct", "service", "distributed", "static", "preprocessor", "internal"]
"""How a skill is executed."""
Network = Literal["none", "allowlist"]
Filesystem = Literal["none", "read-only", "read-write"]


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
class Security:
    """The permissions a skill requests; None where it declares nothing, the strictest value where a value is invalid."""

    timeout_ms: int | None = None
    memory_mb: int | None = None
    network: Network | None = None
    network_allowlist: tuple[str, ...] = ()
    filesystem: Filesystem | None = None
    requires_filesystem: bool | None = None
    """True: it does not run where no files may be shown to it. False: `filesystem` is `none` unless it is declared."""
    environment: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """Only what was declared, with the field names of `security`."""
        values = ((item.name, getattr(self, item.name)) for item in fields(self))
        return {name: value for name, value in values if value not in (None, (), {})}


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
