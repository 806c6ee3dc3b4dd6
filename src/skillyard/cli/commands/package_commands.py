"""Skills as packages: `pack`, `verify`, `key`, `sign`; from and for other systems: `convert`, `migrate`."""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict

from skillyard.cli.install_support import draw_lock_states, open_lock, open_registry
from skillyard.cli.screen import FAILURE, OK, counted, require_existing
from skillyard.errors import InvalidInput, NoSkillInside, UsageProblem
from skillyard.paths import real_path
from skillyard.text import single_line

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.interop import MigrationReport, MigrationResult
    from skillyard.packages.model_signature import PinnedKey


DEFAULT_KEY: Final = "default"
_MODEL: Final = "oms"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def key_path(name: str) -> Path:
    """The file of the key with that name; what has a slash in it is a file already.

    Raises:
        UsageProblem: it is no name.
    """
    if os.sep in name:
        return Path(name)
    if not _NAME.fullmatch(name):
        raise UsageProblem(f"{name!r} is not a name for a key", hint="letters, digits, dot, dash and underscore")
    return _key_folder() / f"{name}.pem"


def key_paths() -> list[Path]:
    """Every key, by name."""
    return sorted(_key_folder().glob("*.pem"))


def _key_folder() -> Path:
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
    target = arguments.output or f"{Path(real_path(folder)).name}.{suffix}"
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
    parser.add_argument(
        "package",
        nargs="?",
        metavar="PACKAGE",
        help="an archive, or the folder of a skill; without one, every installed skill and the project's lock",
    )
    parser.add_argument(
        "--digest", metavar="SHA256", help="the expected digest of the skill or of the file, as `pack` prints them"
    )
    parser.add_argument(
        "--signer", metavar="KEY", help="who must have signed it: ed25519:…, or a PEM file with a public key or certificate"
    )
    parser.add_argument(
        "--upstream", action="store_true", help="also check whether the content at the addresses of kept links has changed"
    )


def verify_command(arguments: argparse.Namespace) -> int:
    """Unpack it into a private folder, and compare; 1 when it differs."""
    from skillyard.packages import is_signer

    screen: Screen = arguments.screen
    if arguments.package is None:
        return _verify_installed(arguments)
    if arguments.upstream:
        raise UsageProblem("--upstream is about installed skills", hint="skillyard verify --upstream, without a package")
    path = Path(require_existing(arguments.package, hint="name an archive, or the folder of a skill"))
    pins: tuple[PinnedKey, ...] = ()
    if arguments.signer and not is_signer(arguments.signer):
        if not Path(arguments.signer).is_file():
            raise UsageProblem(
                f"{arguments.signer!r} is not a key of a signer",
                hint="one is ed25519: and 44 characters of base64, as `skillyard key` and `skillyard verify` print it",
            )
        from skillyard.packages.model_signature import PinnedKey

        pins = (PinnedKey.read(Path(arguments.signer)),)
    verified = _verify_folder(path, pins) if path.is_dir() else _verify_archive(path, pins)
    expected = arguments.digest and f"sha256:{arguments.digest.lower().removeprefix('sha256:')}"
    right = not expected or expected in (verified["digest"], verified["archive_sha256"])
    good = right and (not arguments.signer or set(verified["signers"]) == {pins[0].signer if pins else arguments.signer})
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


def _verify_installed(arguments: argparse.Namespace) -> int:
    """Compare the files of every installed skill with the lock, and those that are not locked with what was installed."""
    if arguments.digest or arguments.signer:
        raise UsageProblem("verify what?", hint="skillyard verify PACKAGE --digest SHA256")
    screen: Screen = arguments.screen
    lock, registry = open_lock(arguments), open_registry(arguments)
    locked = {entry.skill_id for entry in lock.entries()}
    states = lock.verify(registry)
    links = registry.kept_links(upstream=arguments.upstream)
    good = draw_lock_states(screen, states, locked=locked, links=links)
    for version in registry.storage.records.read.withdrawn():
        screen.note(f"warning: {version.skill_id}: {single_line(version.withdrawn or '')}")
    if not states:
        screen.note("nothing is installed, and nothing is locked")
    elif any(state.state != "ok" for state in states):
        screen.note("`skillyard sync --force` installs again what is locked, `skillyard update NAME --force` what is not")
    return OK if good else FAILURE


def _style(good: bool) -> str:
    return "ok" if good else "error"


def _signer_of(folder: Path, pins: tuple[PinnedKey, ...]) -> str | None:
    """Who signed a skill, as far as that is proven; with `pins` one of these, or nobody."""
    from skillyard.packages import verify_tree
    from skillyard.packages.model_signature import verify_model

    signature, model = verify_tree(folder), verify_model(folder, pins)
    if pins:
        return model.signer if model else None
    return signature.key if signature else None


def _verify_folder(path: Path, pins: tuple[PinnedKey, ...]) -> _Verified:
    from skillyard.packages import pack

    with tempfile.TemporaryDirectory(prefix="skillyard-") as scratch:
        package = pack(path, f"{scratch}/package.zip")
    hidden = [name for name in package.entries if name.startswith(".") or "/." in name]
    return {
        "digest": package.digest,
        "archive_sha256": None,
        "skills": [path.resolve().name],
        "flagged": hidden,
        "signers": [_signer_of(path, pins)],
    }


def _verify_archive(path: Path, pins: tuple[PinnedKey, ...]) -> _Verified:
    """What is in an archive; with one skill the digest is that skill's, wherever in the archive it is."""
    from skillyard.packages import choose_skills, digest_of, extract, find_skills, tree_digest

    with tempfile.TemporaryDirectory(prefix="skillyard-") as scratch:
        extracted = extract(path, scratch)
        skills = choose_skills(find_skills(extracted.tree))
        digest = tree_digest(skills[0].directory) if len(skills) == 1 else extracted.digest
        signers = [_signer_of(skill.directory, pins) for skill in skills]
    names = [skill.name for skill in skills]
    return {
        "digest": digest,
        "archive_sha256": digest_of(path.read_bytes()),
        "skills": names,
        "flagged": list(extracted.flagged),
        "signers": signers,
    }


def add_key_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `key`."""
    parser.add_argument("action", nargs="?", choices=("list", "new"), default="list", help="list (the default) or new")
    parser.add_argument("name", nargs="?", metavar="NAME", help="for new: its name (default: default, or oms)")
    _add_signature_format(parser)


def key_command(arguments: argparse.Namespace) -> int:
    """List the keys, or make one."""
    from skillyard.packages import SigningKey

    screen: Screen = arguments.screen
    if arguments.action == "new":
        if arguments.format == _MODEL:
            return _new_model_key(arguments)
        key, path = SigningKey.new(), key_path(arguments.name or DEFAULT_KEY)
        key.write(path)
        if screen.as_json:
            screen.data({"name": path.stem, "path": str(path), "public": key.public})
        else:
            screen.line(f"created {path}", style="ok")
            screen.line(f"public key: {key.public}")
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


def _new_model_key(arguments: argparse.Namespace) -> int:
    from skillyard.packages.model_signature import ModelSigningKey

    screen: Screen = arguments.screen
    key, path = ModelSigningKey.new(), key_path(arguments.name or _MODEL)
    public = key.write(path)
    if screen.as_json:
        screen.data({"name": path.stem, "path": str(path), "public": key.signer, "public_path": str(public)})
        return OK
    screen.line(f"created {path}", style="ok")
    screen.line(f"others verify with {public}")
    return OK


def _public(path: Path) -> tuple[str | None, str | None]:
    """The public half of a key, or why it cannot be had."""
    from skillyard.packages import SigningKey
    from skillyard.packages.model_signature import ModelSigningKey

    try:
        return SigningKey.read(path).public, None
    except InvalidInput as error:
        try:
            return ModelSigningKey.read(path).signer, None
        except InvalidInput:
            return None, error.message


def add_sign_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `sign`."""
    parser.add_argument("folder", metavar="FOLDER", help="the folder of one skill")
    parser.add_argument("--key", metavar="NAME", help="the key: a name, or a file (default: default, or oms)")
    _add_signature_format(parser)
    parser.add_argument(
        "--certificate", action="append", default=[], metavar="FILE",
        help="with --format oms: the key's certificate, then those above it; may be repeated",
    )  # fmt: skip


def _add_signature_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format", choices=("skillyard", _MODEL), default="skillyard",
        help="skillyard (the default), or oms: OpenSSF Model Signing, skill.oms.sig",
    )  # fmt: skip


def sign_command(arguments: argparse.Namespace) -> int:
    """Write `skillyard.sig` or `skill.oms.sig` into the folder."""
    from skillyard.packages import SIGNATURE_FILE, SigningKey, sign_tree

    folder = Path(require_existing(arguments.folder, hint="name the folder of one skill"))
    if not (folder / "SKILL.md").is_file():
        raise NoSkillInside(f"{folder} has no file SKILL.md", hint="name the folder of one skill")
    screen: Screen = arguments.screen
    if arguments.format == _MODEL:
        return _sign_as_model(arguments, folder)
    if arguments.certificate:
        raise UsageProblem("certificates are for --format oms", hint="skillyard sign FOLDER --format oms --certificate FILE")
    signature = sign_tree(folder, SigningKey.read(key_path(arguments.key or DEFAULT_KEY)))
    if screen.as_json:
        screen.data({"path": str(folder / SIGNATURE_FILE), **signature.to_dict()})
    else:
        screen.line(f"signed {folder}: {signature.digest}", style="ok")
        screen.line(f"by {signature.key}", indent=2)
        screen.note("sign again after every edit; `skillyard pack` includes the signature")
    return OK


def _sign_as_model(arguments: argparse.Namespace, folder: Path) -> int:
    from skillyard.packages.model_signature import OMS_FILE, ModelSigningKey

    screen: Screen = arguments.screen
    chain = [Path(require_existing(file, hint="name a PEM file")) for file in arguments.certificate]
    key = ModelSigningKey.read(key_path(arguments.key or _MODEL), chain)
    digest = key.sign(folder)
    if screen.as_json:
        screen.data({"path": str(folder / OMS_FILE), "digest": digest, "key": key.signer})
        return OK
    screen.line(f"signed {folder}: {digest}", style="ok")
    screen.line(f"by {key.signer}", indent=2)
    screen.note("sign again after every edit; `skillyard sign` comes after this: it covers skill.oms.sig too")
    return OK


def add_convert_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `convert`."""
    from skillyard.interop import FORMATS, WELL_KNOWN

    formats = (*FORMATS, WELL_KNOWN)
    parser.add_argument(
        "source", metavar="SOURCE", help="the folder of a skill, of several, of a plugin, an archive, or a manifest.json"
    )
    parser.add_argument("--to", required=True, choices=formats, metavar="FORMAT", help=f"one of: {', '.join(formats)}")
    parser.add_argument("--out", default="converted", metavar="DIR", help="write below this folder (default: %(default)s)")
    parser.add_argument(
        "--skill", action="append", default=[], metavar="NAME", help="only this skill of the source; may be repeated"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing folder")


def convert_command(arguments: argparse.Namespace) -> int:
    """Convert and report what was written, and what the format cannot express."""
    from skillyard.interop import WELL_KNOWN, convert, write_site

    screen: Screen = arguments.screen
    source = require_existing(arguments.source, hint="name the folder of a skill, a plugin, or an archive")
    if arguments.to == WELL_KNOWN:
        done = [write_site(source, arguments.out, skills=arguments.skill)]
    else:
        done = list(convert(source, arguments.out, arguments.to, skills=arguments.skill, force=arguments.force))
    if screen.as_json:
        screen.data({"converted": [one.to_dict() for one in done]})
        return OK
    for one in done:
        screen.line(f"{one.path}: {', '.join(one.skills)}, {one.before} to {one.after}", style="ok")
        for note in one.notes:
            screen.line(f"- {note}", indent=2)
    return OK


_MIGRATION_STYLES: Final = {"migrated": "ok", "validated": "ok", "skipped": "dim", "failed": "error"}


def add_migrate_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `migrate`."""
    from skillyard.interop import FOREIGN_FORMATS

    parser.add_argument("source", nargs="?", metavar="SOURCE", help="with --from: a file, or the folder of a project")
    parser.add_argument(
        "--skill-dir", metavar="DIR", help="a folder of old skills, or one of them (default: $SKILLS_DIR, else skills)"
    )
    parser.add_argument(
        "--from", dest="form", choices=FOREIGN_FORMATS, help="make skills out of what another program keeps in SOURCE"
    )
    parser.add_argument(
        "--to", metavar="DIR", default=".agents/skills", help="with --from: where they go (default: %(default)s)"
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")
    parser.add_argument(
        "--validate", action="store_true", help="change nothing; check each skill as `check --profile full` does"
    )
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="HOST",
        help="what skills that want the network but name no host may reach",
    )
    parser.add_argument(
        "--no-backup", action="store_true", help="keep a copy of an old file only where something of it would be lost"
    )


def migrate_command(arguments: argparse.Namespace) -> int:
    """Migrate or validate; 1 when a skill failed."""
    screen: Screen = arguments.screen
    report = _migration_report(arguments)
    if screen.as_json:
        screen.data(report.to_dict())
    else:
        for result in report.results:
            _draw_migration(screen, result, diff=arguments.dry_run)
        _draw_migration_total(screen, report, dry_run=arguments.dry_run)
    return OK if report.ok else FAILURE


def _migration_report(arguments: argparse.Namespace) -> MigrationReport:
    from skillyard.interop import adopt_skills, migrate_skills, validate_skills

    if arguments.form is None:
        if arguments.source is not None:
            raise UsageProblem(
                "name the format of SOURCE",
                hint="--skill-dir DIR for old skills, --from FORM SOURCE for those of other programs",
            )
        folder = arguments.skill_dir or os.environ.get("SKILLS_DIR") or "skills"
        if arguments.validate:
            return validate_skills(folder)
        return migrate_skills(folder, dry_run=arguments.dry_run, backup=not arguments.no_backup, hosts=arguments.host)
    if arguments.skill_dir or arguments.validate or arguments.no_backup or arguments.host:
        raise UsageProblem("--from takes SOURCE and --to only", hint=f"skillyard migrate --from {arguments.form} . --to DIR")
    return adopt_skills(arguments.form, arguments.source or ".", arguments.to, dry_run=arguments.dry_run)


def _draw_migration(screen: Screen, result: MigrationResult, *, diff: bool) -> None:
    screen.line(f"{result.status} {result.skill_name}", style=_MIGRATION_STYLES[result.status])
    for detail in result.details:
        screen.line(single_line(detail), indent=2)
    for issue in result.issues:
        screen.line(f"- {single_line(issue)}", indent=2)
    if diff and result.before != result.after:
        from difflib import unified_diff

        lines = unified_diff(result.before.splitlines(), result.after.splitlines(), "SKILL.md", "SKILL.md", lineterm="", n=1)
        for line in lines:
            screen.line(line, indent=4, style={"+": "ok", "-": "error"}.get(line[:1], ""))


def _draw_migration_total(screen: Screen, report: MigrationReport, *, dry_run: bool) -> None:
    counts = report.to_dict()
    words = [f"{counts[name]} {name}" for name in ("migrated", "validated", "skipped", "failed") if counts[name]]
    screen.note(
        f"{counted(len(report.results), 'skill')}: {', '.join(words) or 'none'}" + ("; nothing was written" if dry_run else "")
    )
