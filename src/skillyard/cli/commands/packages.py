"""`skillyard pack`, `verify`, `key` and `sign`: archives of skills, and the keys and signatures that vouch for them."""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict

from skillyard.cli.failures import FAILURE, OK, UsageProblem, require_existing
from skillyard.cli.screen import counted
from skillyard.errors import InvalidInput, NoSkillInside

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen


DEFAULT_KEY: Final = "default"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def key_path(name: str) -> Path:
    """The file of the key with that name; what has a slash in it is a file already.

    Raises:
        UsageProblem: it is no name.
    """
    if os.sep in name:
        return Path(name)
    if not _NAME.fullmatch(name):
        raise UsageProblem(f"{name!r} is no name for a key", hint="letters, digits, dot, dash and underscore")
    return _folder_key_file() / f"{name}.pem"


def key_paths() -> list[Path]:
    """Every key, by name."""
    return sorted(_folder_key_file().glob("*.pem"))


def _folder_key_file() -> Path:
    from skillyard.catalog import home_directory

    return Path(home_directory()) / "keys"


def add_pack_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `pack`."""
    parser.add_argument("folder", metavar="FOLDER", help="the folder of one skill")
    parser.add_argument("-o", "--output", metavar="FILE", help="write here (default: NAME.zip in this folder)")
    parser.add_argument(
        "--format", choices=("zip", "tar.gz", "skill"), help="what to write (default: what FILE is called, else zip)"
    )


def pack_command(arguments: argparse.Namespace) -> int:
    """Write the archive and report its digests."""
    from skillyard.packages import pack

    screen: Screen = arguments.screen
    folder = Path(require_existing(arguments.folder, hint="name the folder of one skill"))
    suffix = arguments.format or "zip"
    target = arguments.output or f"{folder.resolve().name}.{suffix}"
    package = pack(folder, target, format=arguments.format)
    if screen.as_json:
        data = {"path": str(package.path), "digest": package.digest, "archive_sha256": package.archive_sha256}
        screen.data({**data, "size": package.size, "entries": package.entries, "ignored": package.ignored})
    else:
        screen.line(f"packed {package.path}: {counted(len(package.entries), 'file')}, {package.size:,} bytes", style="ok")
        screen.line(f"digest of the skill: {package.digest}")
        screen.line(f"digest of the file:  {package.archive_sha256}")
        if package.ignored:
            screen.note(f"left out: {', '.join(package.ignored)}")
    return OK


class _Verified(TypedDict):
    digest: str
    archive_sha256: str | None
    skills: list[str]
    flagged: list[str]
    signers: list[str | None]


def add_verify_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `verify`."""
    parser.add_argument("package", metavar="PACKAGE", help="an archive, or the folder of a skill")
    parser.add_argument(
        "--digest", metavar="SHA256", help="what it must be: the digest of the skill or of the file, as `pack` tells them"
    )
    parser.add_argument("--signer", metavar="KEY", help="who must have signed it: ed25519:…")


def verify_command(arguments: argparse.Namespace) -> int:
    """Unpack it into a private folder, and compare; 1 when it differs."""
    from skillyard.packages import is_signer

    screen: Screen = arguments.screen
    path = Path(require_existing(arguments.package, hint="name an archive, or the folder of a skill"))
    if arguments.signer and not is_signer(arguments.signer):
        raise UsageProblem(
            f"{arguments.signer!r} is no key of a signer",
            hint="one is ed25519: and 44 characters of base64, as `skillyard key` and `skillyard verify` tell it",
        )
    verified = _folder_verify(path) if path.is_dir() else _archive(path)
    expected = arguments.digest and f"sha256:{arguments.digest.lower().removeprefix('sha256:')}"
    right = not expected or expected in (verified["digest"], verified["archive_sha256"])
    good = right and (not arguments.signer or set(verified["signers"]) == {arguments.signer})
    if screen.as_json:
        screen.data({"ok": good, **verified})
        return OK if good else FAILURE
    names = ", ".join(verified["skills"])
    screen.line(
        f"{path}: {counted(len(verified['skills']), 'skill')}: {names}" if right else f"{path} is not {expected}",
        style=_style(right),
    )
    if right and not good:
        screen.line(f"it is not signed by {arguments.signer}", style="error")
    for name, signer in zip(verified["skills"], verified["signers"], strict=True):
        screen.line(f"{name} is signed by {signer}" if signer else f"{name} is not signed")
    screen.line(f"digest of the skill: {verified['digest']}")
    if verified["archive_sha256"]:
        screen.line(f"digest of the file:  {verified['archive_sha256']}")
    if verified["flagged"]:
        screen.note(f"hidden files, which some programs read by themselves: {', '.join(verified['flagged'])}")
    return OK if good else FAILURE


def _style(good: bool) -> str:
    return "ok" if good else "error"


def _folder_verify(path: Path) -> _Verified:
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


def add_key_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `key`."""
    parser.add_argument("action", nargs="?", choices=("list", "new"), default="list", help="list (the default) or new")
    parser.add_argument("name", nargs="?", default=DEFAULT_KEY, metavar="NAME", help="for new: its name (default: default)")


def key_command(arguments: argparse.Namespace) -> int:
    """List the keys, or make one."""
    from skillyard.packages import SigningKey

    screen: Screen = arguments.screen
    if arguments.action == "new":
        key, path = SigningKey.new(), key_path(arguments.name)
        key.write(path)
        if screen.as_json:
            screen.data({"name": path.stem, "path": str(path), "public": key.public})
        else:
            screen.line(f"created {path}", style="ok")
            screen.line(f"others know you as {key.public}")
            screen.note("keep a copy of the file in a safe place: without it nobody can publish the next version in your name")
        return OK
    keys = [(path.stem, *_public(path)) for path in key_paths()]
    if screen.as_json:
        screen.data({"keys": [{"name": name, "public": public, "problem": problem} for name, public, problem in keys]})
    elif keys:
        screen.table([(name, public or problem or "") for name, public, problem in keys], header=("KEY", "PUBLIC"))
    else:
        screen.note("no keys; `skillyard key new` makes one")
    return OK


def _public(path: object) -> tuple[str | None, str | None]:
    """The public half of a key, or why it cannot be had."""
    from pathlib import Path

    from skillyard.packages import SigningKey

    try:
        return SigningKey.read(Path(str(path))).public, None
    except InvalidInput as error:
        return None, error.message


def add_sign_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `sign`."""
    parser.add_argument("folder", metavar="FOLDER", help="the folder of one skill")
    parser.add_argument("--key", default=DEFAULT_KEY, metavar="NAME", help="the key: a name, or a file (default: %(default)s)")


def sign_command(arguments: argparse.Namespace) -> int:
    """Write `skillyard.sig` into the folder."""
    from skillyard.packages import SIGNATURE_FILE, SigningKey, sign_tree

    folder = Path(require_existing(arguments.folder, hint="name the folder of one skill"))
    if not (folder / "SKILL.md").is_file():
        raise NoSkillInside(f"{folder} has no file SKILL.md", hint="name the folder of one skill")
    signature = sign_tree(folder, SigningKey.read(key_path(arguments.key)))
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data({"path": str(folder / SIGNATURE_FILE), **signature.to_dict()})
    else:
        screen.line(f"signed {folder}: {signature.digest}", style="ok")
        screen.line(f"by {signature.key}", indent=2)
        screen.note("sign again after every edit; `skillyard pack` takes the signature along")
    return OK
