"""`skillyard login` and `logout`; `publish` a skill to a server of a team; `owners` of its name; `approve` its versions."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.cli.command_options import open_home, open_skill
from skillyard.cli.confirmation import confirm
from skillyard.cli.install_support import add_accept_options, add_finding_option, make_scanner, open_registry, power_lines
from skillyard.cli.screen import FAILURE, OK, counted
from skillyard.errors import ConsentRequired, FileTooLarge, InvalidInput, InvalidSkill, UsageProblem
from skillyard.files import read_limited
from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.registry.candidate import Candidate
    from skillyard.registry.logins import Logins
    from skillyard.registry.registry_values import ListedApproval
    from skillyard.registry.remote_server import PublishPreview, RemoteServer

_SERVER: Final = "SKILLYARD_SERVER"
_KEY: Final = "SKILLYARD_KEY"
_ACCEPTED: Final = {"accept_source": "source_changed", "accept_signer": "signer_changed"}
_SHOWN: Final = 10
_LARGEST_KEY_FILE: Final = 4096


def add_server_options(parser: argparse.ArgumentParser, option: str, *, says: str, optional: bool = False) -> None:
    """The options that name a server and the key for it; where the server is `optional`, the command is about this machine."""
    if optional:
        parser.add_argument(option, dest="server", nargs="?", const="", metavar="SERVER", help=says)
    else:
        parser.add_argument(option, dest="server", metavar="SERVER", default="", help=says)
    parser.add_argument(
        "--key-file",
        metavar="FILE",
        help=f"read the key from this file, - for standard input (default: ${_KEY}, then the login)",
    )


def open_server(arguments: argparse.Namespace) -> RemoteServer:
    """The server that the options name, else `$SKILLYARD_SERVER`, else the only one that the user is logged in to.

    Raises:
        UsageProblem: none is named, or several could be meant.
    """
    from skillyard.registry.remote_server import RemoteServer

    home = open_home(arguments)
    logins = _logins(arguments)
    address = arguments.server or os.environ.get(_SERVER, "").strip()
    key = _key_given(arguments)
    if not address:
        known = logins.all()
        if len(known) != 1:
            servers = ", ".join(login.server for login in known)
            raise UsageProblem("which server?", hint=f"name one of {servers}" if known else "`skillyard login SERVER` first")
        address, key = known[0].server, key or known[0].key
    if not key and (login := logins.find(address)) is not None:
        key = login.key
    return RemoteServer(address, key, allow_plain=home.configuration.private_hosts)


def _logins(arguments: argparse.Namespace) -> Logins:
    from skillyard.registry.logins import Logins

    return Logins(open_home(arguments).data_directory)


def _key_given(arguments: argparse.Namespace) -> str:
    """The key of the options or the environment; empty without one."""
    if arguments.key_file == "-":
        return sys.stdin.readline(_LARGEST_KEY_FILE).strip()
    if arguments.key_file is not None:
        try:
            return read_limited(arguments.key_file, _LARGEST_KEY_FILE).decode("ascii").strip()
        except (OSError, ValueError, FileTooLarge) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not a file of a key"
            raise UsageProblem(
                f"{arguments.key_file} cannot be read: {reason}", hint="name a file with the key alone"
            ) from None
    return os.environ.get(_KEY, "").strip()


def add_login_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `login`."""
    parser.add_argument(
        "server", nargs="?", default="", metavar="SERVER", help="the address of `skillyard serve` (default: list the logins)"
    )
    parser.add_argument(
        "--key-file", metavar="FILE", help=f"read the key from this file (default: ${_KEY}, else it is asked for)"
    )


def login_command(arguments: argparse.Namespace) -> int:
    """Ask for a key, check it with the server, and keep it; without a server list what is kept."""
    from skillyard.registry.remote_server import RemoteServer

    screen: Screen = arguments.screen
    logins = _logins(arguments)
    if not arguments.server:
        return _list_logins(screen, logins)
    key = _key_given(arguments) or _ask_key(arguments.server)
    allow_plain = open_home(arguments).configuration.private_hosts
    login = RemoteServer(arguments.server, key, allow_plain=allow_plain).login()
    logins.save(login)
    if screen.as_json:
        screen.data({"login": login.to_dict()})
        return OK
    screen.line(f"logged in to {login.server} as {login.caller} of {login.organisation}", style="ok")
    screen.note(f"the key is in {logins.path}, for you alone to read; `skillyard logout {login.server}` forgets it")
    return OK


def _ask_key(server: str) -> str:
    """The key that is typed, without echo at a terminal; the first line of standard input elsewhere."""
    if not sys.stdin.isatty():
        return sys.stdin.readline(_LARGEST_KEY_FILE).strip()
    from getpass import getpass

    try:
        return getpass(f"Key for {single_line(server)}: ").strip()
    except EOFError:
        return ""


def _list_logins(screen: Screen, logins: Logins) -> int:
    known = logins.all()
    if screen.as_json:
        screen.data({"logins": [login.to_dict() for login in known]})
    elif known:
        rows = [(login.server, login.caller, login.organisation) for login in known]
        screen.table(rows, header=("SERVER", "AS", "ORGANISATION"), stretch=0)
    else:
        screen.note("no logins; `skillyard login SERVER` makes one")
    return OK


def add_logout_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `logout`."""
    parser.add_argument("server", metavar="SERVER", help="the address that was logged in to")


def logout_command(arguments: argparse.Namespace) -> int:
    """Forget the key; 1 when there was none."""
    from skillyard.registry.logins import server_address

    screen: Screen = arguments.screen
    server = server_address(arguments.server)
    removed = _logins(arguments).remove(server)
    if screen.as_json:
        screen.data({"server": server, "removed": removed})
    elif removed:
        screen.line(f"the key for {server} was deleted here", style="ok")
        screen.note("it is still valid: `skillyard keys revoke ID` on the server revokes it")
    else:
        screen.note(f"there is no login for {server}; `skillyard login` lists them")
    return OK if removed else FAILURE


def add_publish_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `publish`."""
    parser.add_argument("skill", metavar="SKILL", help="the folder of one skill, or a skill's name")
    add_server_options(parser, "--to", says=f"the server (default: ${_SERVER}, else the only login)")
    parser.add_argument(
        "--as", dest="label", default="", metavar="VERSION", help="publish it as this version (default: that of its SKILL.md)"
    )
    parser.add_argument("--notes", default="", metavar="TEXT", help="what is new, shown before the list of changes")
    parser.add_argument("--dry-run", action="store_true", help="show what others would see, and publish nothing")
    parser.add_argument("-y", "--yes", action="store_true", help="agree when it would be allowed more than the version there")
    add_accept_options(parser)
    add_finding_option(parser)


def publish_command(arguments: argparse.Namespace) -> int:
    """Check the skill, show what others will see, and publish it; 1 when it would be refused."""
    screen: Screen = arguments.screen
    server = open_server(arguments)
    folder = _folder(arguments)
    with tempfile.TemporaryDirectory(prefix="skillyard-") as scratch:
        candidate, archive = _checked(folder, scratch)
        version = _version(candidate, arguments.label)
        found = [finding.to_dict() for finding in make_scanner(open_home(arguments))(candidate.tree)]
    accepted = {code for option, code in _ACCEPTED.items() if getattr(arguments, option)}
    accepted |= {"grave_findings"} if arguments.accept else set()
    preview = server.preview(archive, candidate.skill_id, version=version)
    preview = replace(preview, findings=_united(preview.findings, found))
    refusals = [one for one in preview.refusals if one.code not in accepted]
    notes = "\n".join(part for part in (arguments.notes.strip()[:2000], preview.changelog()) if part)
    shape = preview.to_dict() | {"changelog": notes}
    if not screen.as_json and not preview.unchanged:
        _draw_preview(screen, preview, notes)
    if refusals:
        if screen.as_json:
            screen.data({"published": False, **shape})
            return FAILURE
        for one in refusals:
            screen.line(f"{one.code}: {single_line(one.message)}", style="error")
            if one.hint:
                screen.hint(one.hint)
        return FAILURE
    if arguments.dry_run or preview.unchanged:
        if screen.as_json:
            screen.data({"published": False, **shape})
        else:
            screen.note(
                f"exactly this is published there already, as {preview.current}"
                if preview.unchanged
                else "nothing was published"
            )
        return OK
    if preview.widened and not arguments.yes:
        _ask(screen, preview)
    status = server.publish(
        archive, candidate.skill_id, version=version, notes=notes, consent=preview.consent, accept=arguments.accept,
        accept_source=arguments.accept_source, accept_signer=arguments.accept_signer,
    )  # fmt: skip
    if screen.as_json:
        screen.data({"published": True, "status": status, **shape})
        return OK
    _draw_published(screen, server.address, f"{preview.skill_id} {version}", waits=status == "waiting")
    return OK


def _draw_published(screen: Screen, server: str, what: str, *, waits: bool) -> None:
    if waits:
        screen.line(f"{what} is at {server} and waits for approval", style="warning")
        screen.note(f"somebody who may: skillyard approve {what} --on {server}")
    else:
        screen.line(f"published {what} to {server}", style="ok")
        screen.note(f"others: skillyard install {server} --skill {what.partition(' ')[0]}")


def _united(there: Sequence[Mapping[str, object]], here: Sequence[Mapping[str, object]]) -> tuple[Mapping[str, object], ...]:
    """What the scanner of the server finds, and what the one here finds besides."""
    known = {(one.get("rule"), one.get("file"), one.get("line")) for one in there}
    return (*there, *(one for one in here if (one.get("rule"), one.get("file"), one.get("line")) not in known))


def _folder(arguments: argparse.Namespace) -> Path:
    """The folder that the argument is or names."""
    path = Path(arguments.skill).expanduser()
    if (path / "SKILL.md").is_file():
        return path
    if path.name == "SKILL.md" and path.is_file():
        return path.parent
    _, skill = open_skill(arguments, arguments.skill)
    return Path(skill.directory)


def _checked(folder: Path, scratch: str) -> tuple[Candidate, bytes]:
    """The skill as others will get it, checked as an installation checks it, and its archive.

    Raises:
        ArchiveRefused: it breaks a rule of archives.
        InvalidSkill, SignatureInvalid: as an installation.
    """
    from skillyard.packages import Origin, extract, pack
    from skillyard.registry.candidate import SignerPolicy, check_candidate, read_candidate

    name = folder.resolve().name
    package = pack(folder, f"{scratch}/package.zip")
    unpacked = extract(package.path, scratch)
    tree = next((path for path in (Path(unpacked.tree), Path(unpacked.tree, name)) if (path / "SKILL.md").is_file()), None)
    if tree is None:
        raise InvalidSkill(f"{folder} has no file SKILL.md in its root", hint="name the folder of one skill")
    candidate = read_candidate(tree, Origin("folder", str(folder)), folder_name=name)
    return check_candidate(candidate, name, SignerPolicy()), Path(package.path).read_bytes()


def _version(candidate: Candidate, given: str) -> str:
    """The version to publish: that of the SKILL.md, else the one that is given.

    Raises:
        InvalidInput: there is none, or the two differ.
    """
    declared = candidate.document.metadata.version or ""
    if given and declared and given != declared:
        raise InvalidInput(f"its SKILL.md says version {declared}, and not {given}", hint="change it there, or leave --as out")
    if not (given or declared):
        raise InvalidInput(
            f"{candidate.skill_id} has no version",
            hint="write `version: 1.0.0` into its SKILL.md, or give --as 1.0.0",
        )
    return given or declared


def _ask(screen: Screen, preview: PublishPreview) -> None:
    """Return when the person agrees to what it may do beyond the version there. Raises ConsentRequired: nobody does."""
    widened = "; ".join(preview.widened[:_SHOWN])
    refused = ConsentRequired(
        f"{preview.skill_id} would be allowed more than {preview.current}: {widened}",
        hint="nothing was published; if you agree, call it again with --yes",
        changes=list(preview.widened),
    )
    if screen.as_json or not screen.interactive or not confirm(f"Publish {preview.skill_id} with more power?"):
        raise refused


def _draw_preview(screen: Screen, preview: PublishPreview, notes: str) -> None:
    gone = f", after {preview.gone[0]}" if preview.gone else ", the first version there"
    current = f", after {preview.current}" if preview.current else single_line(gone)
    screen.line(f"{preview.skill_id} {preview.version}{current}", style="bold")
    screen.line(shorten(preview.description, 300), indent=2)
    screen.line(f"{counted(len(preview.files), 'file')}, {preview.size_bytes:,} bytes", indent=2)
    if preview.findings:
        counts: dict[str, int] = {}
        for finding in preview.findings:
            severity = single_line(str(finding.get("severity", "?")))[:20]
            counts[severity] = counts.get(severity, 0) + 1
        summary = ", ".join(f"{count} {severity}" for severity, count in counts.items())
        screen.line(f"the scanner finds {summary}", indent=2, style="warning")
        for finding in preview.findings[:3]:
            where = f"{finding.get('severity')} {finding.get('file')}:{finding.get('line')}"
            screen.line(single_line(f"{where} {shorten(str(finding.get('message')), 200)}"), indent=4)
    else:
        screen.line("the scanner finds nothing", indent=2)
    for sentence in power_lines(preview.powers) or ["has instructions only, no scripts"]:
        screen.line(sentence, indent=2)
    if preview.widened:
        screen.line(f"more than {preview.current}: {'; '.join(power_lines(preview.widened))}", indent=2, style="warning")
    for warning in preview.warnings[:_SHOWN]:
        screen.note(f"warning: {warning}")
    screen.line("what is new:", indent=2)
    for line in notes.splitlines():
        screen.line(single_line(line), indent=4)


def add_owners_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `owners`."""
    parser.add_argument("name", metavar="NAME", help="the skill's id")
    parser.add_argument(
        "--add", action="append", default=[], metavar="OWNER", help="the name of a key, or * for everybody; may be repeated"
    )
    parser.add_argument("--remove", action="append", default=[], metavar="OWNER", help="an owner; may be repeated")
    parser.add_argument("--transfer", metavar="OWNER", help="make this the only owner")
    add_server_options(
        parser,
        "--on",
        says="on this server, or with no SERVER on the usual one (default: this machine)",
        optional=True,
    )


def owners_command(arguments: argparse.Namespace) -> int:
    """List the owners of a name, or change them."""
    screen: Screen = arguments.screen
    if arguments.transfer and (arguments.add or arguments.remove):
        raise UsageProblem("--transfer alone says who owns it", hint="leave --add and --remove out")
    owners = _owners_there(arguments) if arguments.server is not None else _owners_here(arguments)
    if screen.as_json:
        screen.data({"skill": arguments.name, "owners": list(owners)})
    elif owners:
        for owner in owners:
            screen.line(single_line(owner))
    else:
        screen.note(f"{arguments.name} has no owner: everybody who may change skills can change it")
    return OK


def _changes(arguments: argparse.Namespace, owners: Sequence[str]) -> tuple[list[str], list[str]]:
    if arguments.transfer:
        return [arguments.transfer], [owner for owner in owners if owner != arguments.transfer]
    return arguments.add, arguments.remove


def _owners_there(arguments: argparse.Namespace) -> tuple[str, ...]:
    server = open_server(arguments)
    owners = server.owners(arguments.name)
    add, remove = _changes(arguments, owners)
    return server.change_owners(arguments.name, add=add, remove=remove) if add or remove else owners


def _owners_here(arguments: argparse.Namespace) -> tuple[str, ...]:
    registry = open_registry(arguments)
    skill_id = registry.installed.skill(arguments.name, installed=False).skill_id
    owners = registry.owners.of(skill_id)
    add, remove = _changes(arguments, owners)
    return registry.owners.change(skill_id, add=add, remove=remove) if add or remove else owners


def add_approve_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `approve`."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="the skill's name or id, or NAME@VERSION (default: list pending versions)"
    )
    parser.add_argument(
        "version",
        nargs="?",
        metavar="VERSION",
        help="the version (default: the newest pending one, with --undo the current one)",
    )
    parser.add_argument(
        "--reason", "--message", default="", metavar="TEXT", help="the reason, stored with the approval and shown to users"
    )
    parser.add_argument(
        "--undo", action="store_true", help="withdraw the approval, or refuse a pending version; the previous version is used"
    )
    add_server_options(
        parser, "--on", says="on this server, or with no SERVER on the usual one (default: this machine)", optional=True
    )


def approve_command(arguments: argparse.Namespace) -> int:
    """List what waits, approve one version, or withdraw an approval."""
    screen: Screen = arguments.screen
    if arguments.name and "@" in arguments.name and arguments.version is None:
        arguments.name, _, arguments.version = arguments.name.rpartition("@")
    server = open_server(arguments) if arguments.server is not None else None
    if arguments.name is None:
        if arguments.undo or arguments.reason:
            raise UsageProblem("which skill?", hint="skillyard approve NAME VERSION --undo --reason TEXT")
        return _list_waiting(screen, server.waiting() if server else open_registry(arguments).approvals.listed())
    if server is None:
        registry = open_registry(arguments)
        decide = registry.approvals.withdraw if arguments.undo else registry.approvals.approve
        decided = decide(arguments.name, arguments.version, reason=arguments.reason)
        skill_id, label, serves, where = decided.skill_id, decided.label or decided.version, decided.current, ""
    else:
        skill_id, where = arguments.name, f" on {server.address}"
        label, serves = _decide_there(server, arguments)
    if screen.as_json:
        screen.data({"skill": skill_id, "version": label, "approved": not arguments.undo, "serves": serves})
        return OK
    if arguments.undo:
        screen.line(f"{skill_id} {label} is no longer approved{where}", style="ok")
    else:
        screen.line(f"{skill_id} {label} is approved{where}", style="ok")
    if serves:
        screen.note("it is pinned and stays the current version" if arguments.undo else "it is now the current version")
    elif not arguments.undo:
        screen.note("another version stays current: a newer or a pinned one")
    return OK


def _decide_there(server: RemoteServer, arguments: argparse.Namespace) -> tuple[str, bool]:
    """Decide about exactly the content that the server lists as waiting; of others by the version alone."""
    wanted = [one for one in server.waiting() if one.skill_id == arguments.name]
    if arguments.version is not None:
        wanted = [one for one in wanted if arguments.version in (one.version, one.label)]
    undo = arguments.undo and (arguments.version is not None or not wanted)
    if arguments.undo and not undo:
        raise UsageProblem(
            f"{arguments.name} has versions that wait: which is meant?", hint=f"name it: {arguments.name} {wanted[-1].version}"
        )
    version = wanted[-1].version if wanted else arguments.version or ("current" if arguments.undo else "waiting")
    digest = wanted[-1].digest if wanted else ""
    return server.decide(arguments.name, version, digest=digest, reason=arguments.reason, undo=arguments.undo)


def _list_waiting(screen: Screen, waiting: Sequence[ListedApproval]) -> int:
    if screen.as_json:
        screen.data({"waiting": [one.to_dict() for one in waiting]})
        return OK
    for one in waiting:
        called = f" ({one.label})" if one.label else ""
        screen.line(
            f"{one.skill_id} {one.version}{called}, by {one.asked_by} since {one.asked_at:%Y-%m-%d %H:%M}", style="bold"
        )
        for sentence in (*one.reasons, *(f"more than the current version: {line}" for line in power_lines(one.widened))):
            screen.line(single_line(sentence), indent=2)
        screen.line(single_line(one.refusal) if one.refusal else f"`skillyard approve {one.skill_id} {one.version}`", indent=2)
    if not waiting:
        screen.note("no version is waiting for approval")
    return OK
