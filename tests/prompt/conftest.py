"""Skills for the prompt tests: plain values that answer as a skill of the catalog does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from skillyard.text import is_label


@dataclass(frozen=True)
class File:
    name: str


@dataclass(frozen=True)
class Inventory:
    script_files: tuple[str, ...] = ()
    reference_files: tuple[str, ...] = ()
    template_files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Document:
    body: str


@dataclass(frozen=True)
class FakeSkill:
    name: str
    description: str = "Does one thing well."
    source: str = "user"
    directory: str = ""
    status: str = "ok"
    reason: str | None = None
    model_invocable: bool = True
    state: str = "automatic"
    body: str = "# Steps\n\n1. Do it."
    file_names: Sequence[str] = ()
    classes: Inventory = field(default_factory=Inventory)
    given_id: str | None = None

    @property
    def id(self) -> str:
        return self.given_id or f"{self.source}:{self.name}"

    @property
    def reference(self) -> str:
        return self.id

    @property
    def label(self) -> str:
        return self.name if is_label(self.name) else self.reference

    @property
    def location(self) -> str:
        return self.directory

    @property
    def offered(self) -> bool:
        return self.status == "ok" and self.model_invocable

    def files(self) -> tuple[File, ...]:
        return tuple(File(name) for name in self.file_names)

    def inventory(self) -> Inventory:
        return self.classes

    def document(self) -> Document:
        return Document(self.body)


@pytest.fixture(scope="session")
def skill() -> type[FakeSkill]:
    """The class of fake skills: `skill("pdf", "Reads PDF files")`."""
    return FakeSkill


@pytest.fixture(scope="session")
def inventory() -> type[Inventory]:
    """The class of fake inventories."""
    return Inventory
