"""From what a person names to the skills that are scanned: folders, archives, a SKILL.md, names of the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.cli.failures import UsageProblem
from skillyard.cli.opening import discover, open_catalog
from skillyard.errors import SkillNotFound

if TYPE_CHECKING:
    import argparse

    from skillyard.library import Catalog
    from skillyard.scanner import Report

__all__ = ["scan_targets"]

_KNOWN: Final = "name a skill, a folder with skills, a SKILL.md, or an archive (.zip, .skill, .tar.gz)"


def scan_targets(arguments: argparse.Namespace) -> Iterator[Report]:
    """A report for each skill that the targets hold; without targets for each skill of the catalog.

    Raises:
        UsageProblem: a target is neither there nor a skill's name, or is no archive.
        SkillNotFound: there is no skill in it.
        ArchiveRefused: an archive breaks a rule.
    """
    if not arguments.targets:
        catalog = open_catalog(arguments)
        yield from (catalog.scan(skill) for skill in catalog.all())
        return
    settings = discover(arguments, roots=())
    for target in arguments.targets:
        path = Path(target)
        if path.is_dir():
            yield from _in_tree(path, target, settings)
        elif path.name.lower() == "skill.md" and path.is_file():
            yield _scanned(path.parent, str(path.parent), settings)
        elif path.exists():
            yield from _in_archive(path, settings)
        else:
            yield _named(target, arguments)


def _in_tree(tree: Path, shown: str, settings: Catalog) -> Iterator[Report]:
    from skillyard.packages import find_skills

    found = find_skills(tree)
    if not found:
        raise SkillNotFound(f"there is no SKILL.md at or below {shown}", hint=_KNOWN)
    for skill in found:
        where = shown if skill.path == "." else f"{shown.rstrip('/')}/{skill.path}"
        yield _scanned(skill.directory, where, settings)


def _in_archive(archive: Path, settings: Catalog) -> Iterator[Report]:
    import tempfile

    from skillyard.packages import extract, sniff

    if not archive.is_file():
        raise UsageProblem(f"{archive} is neither a file nor a folder", hint=_KNOWN)
    with archive.open("rb") as file:
        if sniff(file.read(512)) is None:
            raise UsageProblem(f"{archive} is no archive", hint=_KNOWN)
    with tempfile.TemporaryDirectory(prefix="skillyard-") as scratch:
        yield from _in_tree(extract(archive, scratch).tree, str(archive), settings)


def _named(name: str, arguments: argparse.Namespace) -> Report:
    catalog = open_catalog(arguments)
    try:
        return catalog.scan(catalog.get(name))
    except SkillNotFound as error:
        raise SkillNotFound(error.message, hint=error.hint or _KNOWN, **error.details) from None


def _scanned(directory: Path, shown: str, settings: Catalog) -> Report:
    from skillyard.scanner import scan_skill

    return replace(scan_skill(directory, suppressions=settings.suppressions()), folder=shown)
