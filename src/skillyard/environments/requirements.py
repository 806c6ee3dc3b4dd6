"""What a skill requires: `requires` in its front matter, or in the words of other clients below `metadata`.

::

    requires:
      bins: [git]                  # every one
      any_bins: [docker, podman]   # at least one
      env: [API_TOKEN]
      python: ">=3.11"
      packages: ["openpyxl>=3.1"]
      mcp_servers: [tickets]
      skills: ["pdf@^1.2", docx]
      any_skills: [pdf, pdf-tools]

`metadata.openclaw` (also `clawdbot`, `clawdis`) has the same with `anyBins` and `envVars`. A version range is written
`pdf@^1.2` or `pdf>=1,<2`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.document import Document


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
    "skills": "skills", "anyskills": "any_skills",
}  # fmt: skip
_MOST: Final = 200  # items of one list
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
    skills: tuple[str, ...] = field(default=(), metadata=_IF_ANY)
    any_skills: tuple[str, ...] = field(default=(), metadata=_IF_ANY)


def read_requirements(document: Document) -> Requirements:
    """What the front matter requires; what it writes in a form that cannot be meant is left out."""
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
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
