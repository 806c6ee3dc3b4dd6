"""`skillyard verify`: whether a package keeps every rule, and is the one that was promised."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from skillyard.cli.failures import FAILURE, OK, UsageProblem, existing
from skillyard.cli.screen import counted

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


class _Verified(TypedDict):
    digest: str
    archive_sha256: str | None
    skills: list[str]
    flagged: list[str]
    signers: list[str | None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `verify` takes."""
    parser.add_argument("package", metavar="PACKAGE", help="an archive, or the folder of a skill")
    parser.add_argument(
        "--digest", metavar="SHA256", help="what it must be: the digest of the skill or of the file, as `pack` tells them"
    )
    parser.add_argument("--signer", metavar="KEY", help="who must have signed it: ed25519:…")


def run(arguments: argparse.Namespace) -> int:
    """Unpack it where nobody uses it, and compare; 1 when it is another one."""
    from skillyard.packages import is_signer

    screen: Screen = arguments.screen
    path = Path(existing(arguments.package, hint="name an archive, or the folder of a skill"))
    if arguments.signer and not is_signer(arguments.signer):
        raise UsageProblem(
            f"{arguments.signer!r} is no key of a signer",
            hint="one is ed25519: and 44 characters of base64, as `skillyard key` and `skillyard verify` tell it",
        )
    found = _folder(path) if path.is_dir() else _archive(path)
    wanted = arguments.digest and f"sha256:{arguments.digest.lower().removeprefix('sha256:')}"
    right = not wanted or wanted in (found["digest"], found["archive_sha256"])
    good = right and (not arguments.signer or set(found["signers"]) == {arguments.signer})
    if screen.as_json:
        screen.data({"ok": good, **found})
        return OK if good else FAILURE
    names = ", ".join(found["skills"])
    screen.line(
        f"{path}: {counted(len(found['skills']), 'skill')}: {names}" if right else f"{path} is not {wanted}",
        style=_style(right),
    )
    if right and not good:
        screen.line(f"it is not signed by {arguments.signer}", style="error")
    for name, signer in zip(found["skills"], found["signers"], strict=True):
        screen.line(f"{name} is signed by {signer}" if signer else f"{name} is not signed")
    screen.line(f"digest of the skill: {found['digest']}")
    if found["archive_sha256"]:
        screen.line(f"digest of the file:  {found['archive_sha256']}")
    if found["flagged"]:
        screen.note(f"hidden files, which some programs read by themselves: {', '.join(found['flagged'])}")
    return OK if good else FAILURE


def _style(good: bool) -> str:
    return "ok" if good else "error"


def _folder(path: Path) -> _Verified:
    from skillyard.packages import pack, verify_tree

    with tempfile.TemporaryDirectory(prefix="skillyard-") as scratch:
        package = pack(path, f"{scratch}/package.zip")
    signature = verify_tree(path)
    hidden = [name for name in package.entries if name.startswith(".") or "/." in name]
    return {
        "digest": package.digest,
        "archive_sha256": None,
        "skills": [path.resolve().name],
        "flagged": hidden,
        "signers": [signature.key if signature else None],
    }


def _archive(path: Path) -> _Verified:
    """What is in an archive; with one skill the digest is that skill's, wherever in the archive it is."""
    from skillyard.packages import choose_skills, digest_of, extract, find_skills, tree_digest, verify_tree

    with tempfile.TemporaryDirectory(prefix="skillyard-") as scratch:
        extracted = extract(path, scratch)
        skills = choose_skills(find_skills(extracted.tree))
        digest = tree_digest(skills[0].directory) if len(skills) == 1 else extracted.digest
        signatures = [verify_tree(skill.directory) for skill in skills]
    names = [skill.name for skill in skills]
    return {
        "digest": digest,
        "archive_sha256": digest_of(path.read_bytes()),
        "skills": names,
        "flagged": list(extracted.flagged),
        "signers": [signature.key if signature else None for signature in signatures],
    }
