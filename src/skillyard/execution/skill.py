"""What execution needs to know of a skill; the catalog's skills fit, and so does anything of this shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

__all__ = ["RunnableSkill"]


class DeclaredResources(Protocol):
    """The files a skill names."""

    @property
    def entry(self) -> str | None:
        """The script to run, relative to the skill."""


class DeclaredMetadata(Protocol):
    """The fields of a front matter that decide how a skill runs."""

    @property
    def security(self) -> object:
        """What the skill asks to be allowed; see `Policy.from_security`."""

    @property
    def resources(self) -> DeclaredResources:
        """The files it names."""

    @property
    def input_schema(self) -> Mapping[str, object] | None:
        """The JSON Schema of its parameters."""

    @property
    def output_schema(self) -> Mapping[str, object] | None:
        """The JSON Schema of its output."""

    @property
    def config(self) -> Mapping[str, object]:
        """Its settings, given to `execute`."""

    @property
    def protocol(self) -> str:
        """`vcp` or `abp`."""


class FencedCode(Protocol):
    """A code block of a SKILL.md."""

    @property
    def language(self) -> str:
        """The language of the fence, in lower case."""


class RunnableDocument(Protocol):
    """A parsed SKILL.md."""

    @property
    def metadata(self) -> DeclaredMetadata:
        """Its typed front matter."""

    @property
    def code_blocks(self) -> Sequence[FencedCode]:
        """The code blocks of its body."""


class RunnableSkill(Protocol):
    """One skill that may run."""

    @property
    def id(self) -> str:
        """Its unique id."""

    @property
    def kind(self) -> str:
        """How it is executed: direct, service, distributed, static, preprocessor or internal."""

    @property
    def directory(self) -> str:
        """Its folder, absolute."""

    def document(self) -> RunnableDocument:
        """Its SKILL.md, read now."""
