"""Skills that are made of a few files and a few fields, without a catalog."""

from __future__ import annotations

import shutil
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest


@dataclass(frozen=True)
class Resources:
    entry: str | None = None


@dataclass(frozen=True)
class Metadata:
    security: object = None
    resources: Resources = field(default_factory=Resources)
    input_schema: Mapping[str, object] | None = None
    output_schema: Mapping[str, object] | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    protocol: str = "vcp"


@dataclass(frozen=True)
class Block:
    language: str


@dataclass(frozen=True)
class Document:
    metadata: Metadata
    code_blocks: tuple[Block, ...] = ()


@dataclass(frozen=True)
class Skill:
    """What the executor asks of a skill, and nothing more."""

    directory: str
    kind: str = "direct"
    fields: Metadata = field(default_factory=Metadata)
    fences: tuple[str, ...] = ()
    id: str = "user:example"
    has_entry: bool = True
    source: str = "user"

    def document(self, *, copy: str | None = None) -> Document:
        return Document(self.fields, tuple(Block(language) for language in self.fences))


class WriteSkill(Protocol):
    """Writes a skill's files and gives the skill."""

    def __call__(
        self,
        files: Mapping[str, str] | str,
        *,
        kind: str = ...,
        entry: str | None = ...,
        fences: tuple[str, ...] = ...,
        **fields: object,
    ) -> Skill: ...


@pytest.fixture
def write_skill() -> Iterator[WriteSkill]:
    """Give a function that writes `files` (text alone is `scripts/execute.py`) and returns the skill."""
    folder = Path(tempfile.mkdtemp(prefix="skill-"))

    def write(
        files: Mapping[str, str] | str,
        *,
        kind: str = "direct",
        entry: str | None = None,
        fences: tuple[str, ...] = (),
        **fields: object,
    ) -> Skill:
        named = {"scripts/execute.py": files} if isinstance(files, str) else files
        for relative, text in named.items():
            target = folder / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(textwrap.dedent(text), encoding="utf-8")
        metadata = Metadata(resources=Resources(entry), **fields)
        return Skill(str(folder), kind, metadata, fences)

    yield write
    shutil.rmtree(folder, ignore_errors=True)
