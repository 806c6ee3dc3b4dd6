"""The skills a client may see, each at its address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillyard.document import NAME_LIMIT, is_name
from skillyard.errors import FileMissing
from skillyard.mcp.addresses import MAIN_FILE, address, segments
from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from skillyard.catalog import FileContent, Skill

__all__ = ["FILE_LIMIT", "FILE_NAME_LIMIT", "PublishedSkill", "PublishedSkills"]

FILE_LIMIT: Final = 16 * 1024 * 1024
FILE_NAME_LIMIT: Final = 200
"""Characters of the name that a list gives to a file; its address has all of it."""
_TITLE: Final = 100


@dataclass(frozen=True, slots=True)
class PublishedSkill:
    """One skill, the segments of its address, and the address of its SKILL.md."""

    path: tuple[str, ...]
    skill: Skill
    uri: str

    @property
    def title(self) -> str:
        """What the skill is called on a screen, on one line of at most 100 characters."""
        return shorten(single_line(self.skill.display_name or self.skill.name), _TITLE)

    def address(self, file: str = "") -> str:
        """The address of one of its files, or of its folder."""
        return address(self.path, file)

    def files(self) -> tuple[str, ...]:
        """Its files by the path they are published at, SKILL.md first; an address can only name what is UTF-8."""
        names = (file.name for file in self.skill.files())
        return MAIN_FILE, *(name for name in names if _is_utf8(name))

    def read(self, file: str) -> FileContent:
        """One of its files, at most 16 MiB.

        Raises:
            FileProblem: there is no such file, or it may not be read.
        """
        real = self.skill.path.rpartition("/")[2] if file == MAIN_FILE else file
        return self.skill.read_file(real, limit=FILE_LIMIT)


class PublishedSkills:
    """The offered skills of a catalog, sorted by address."""

    def __init__(self, skills: tuple[Skill, ...]) -> None:
        self.skills = skills
        published = sorted(_published(skills), key=lambda each: each.uri)
        self._by_path = {each.path: each for each in published}

    def __iter__(self) -> Iterator[PublishedSkill]:
        return iter(self._by_path.values())

    def main(self, uri: str) -> PublishedSkill:
        """The skill whose SKILL.md has this address.

        Raises:
            FileMissing: no skill is published there.
        """
        published, file = self.locate(uri)
        if file != MAIN_FILE:
            raise FileMissing(f"{uri!r} is not the address of a skill", hint="a skill's address ends in /SKILL.md")
        return published

    def locate(self, uri: str) -> tuple[PublishedSkill, str]:
        """The skill an address leads to, and the path of the file or folder in it (empty for the skill's own folder).

        Raises:
            FileProblem: no skill is published there, or the address is unsafe.
        """
        parts = segments(uri)
        for length in (2, 1):  # a skill with its source in front comes first
            if published := self._by_path.get(parts[:length]):
                return published, "/".join(parts[length:])
        raise FileMissing(f"no skill is published at {uri!r}", hint="list the skills to see their addresses")

    def children(self, uri: str) -> list[tuple[str, bool]]:
        """Address and whether it is a folder, of everything directly in the folder `uri`.

        Raises:
            FileMissing: it is not a folder of a published skill.
        """
        published, folder = self.locate(uri)
        prefix = f"{folder}/" if folder else ""
        below = [name.removeprefix(prefix) for name in published.files() if name.startswith(prefix)]
        if not below:
            raise FileMissing(f"{uri!r} is not a folder of a skill", hint="read a file with resources/read")
        names = {name.split("/", 1)[0]: "/" in name for name in below}
        return sorted((published.address(prefix + name), is_folder) for name, is_folder in names.items())


def _published(skills: tuple[Skill, ...]) -> Iterator[PublishedSkill]:
    names = [(_published_name(skill), skill) for skill in skills]
    count = Counter(name for name, _ in names)
    taken: set[tuple[str, ...]] = set()
    for name, skill in names:
        path = (name,) if count[name] == 1 else (skill.source, name)
        number = 2
        while path in taken:  # two of one source: only when both names were cut or folded to the same
            path = (*path[:-1], f"{name[:58]}-{number}")
            number += 1
        taken.add(path)
        yield PublishedSkill(path, skill, address(path, MAIN_FILE))


def _published_name(skill: Skill) -> str:
    """The name itself where the specification allows it, else its slug, cut to 64 characters."""
    return skill.name if is_name(skill.name) else skill.slug[:NAME_LIMIT].rstrip("-")


def _is_utf8(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
