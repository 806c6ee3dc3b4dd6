"""`skillyard mirror`: copy installed skills to another registry, online or offline; `push`: one skill to an OCI registry."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from skillyard.cli.install_support import (
    InstallProgress,
    add_accept_options,
    add_finding_option,
    draw_results,
    make_scanner,
    power_consent,
    replacement_acceptance,
)
from skillyard.cli.screen import FAILURE, OK, counted
from skillyard.errors import InvalidInput, NoSkillInside

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.library import Catalog
    from skillyard.registry import Registry
    from skillyard.registry.mirror_locations import MirrorSource, StoredMirror
    from skillyard.registry.registry_mirror import MirrorCopyReport
    from skillyard.registry.remote_server import RemoteServer


_LOCATION_HELP = "a folder, s3://bucket/prefix, or the https address of either"


def add_mirror_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `mirror`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    export = actions.add_parser("export", help="write the installed skills to a mirror, or update one")
    export.add_argument(
        "target",
        metavar="TARGET",
        help="a folder, s3://bucket/prefix, oci://HOST/PREFIX, or the address of a server to publish to",
    )
    export.add_argument("-y", "--yes", action="store_true", help="agree when a skill would be allowed more than before")
    export.add_argument(
        "--key-file", metavar="FILE", help="the key for a server: this file (default: $SKILLYARD_KEY, then the login)"
    )
    import_parser = actions.add_parser("import", help="install what a mirror has and this machine lacks")
    import_parser.add_argument("source", metavar="SOURCE", help=_LOCATION_HELP)
    import_parser.add_argument("--history", action="store_true", help="earlier versions too, for rollbacks")
    import_parser.add_argument("-y", "--yes", action="store_true", help="agree when a skill would be allowed more than before")
    import_parser.add_argument("--force", action="store_true", help="install over local edits")
    add_accept_options(import_parser)
    add_finding_option(import_parser)
    sync = actions.add_parser("sync", help="copy one mirror to another")
    sync.add_argument("source", metavar="SOURCE", help=_LOCATION_HELP)
    sync.add_argument("target", metavar="TARGET", help="a folder, or s3://bucket/prefix")
    for action in (export, sync):
        action.add_argument("--verify", action="store_true", help="verify existing packages, and copy damaged ones again")
    listing = actions.add_parser("list", help="list the content of a mirror")
    listing.add_argument("source", metavar="SOURCE", help=_LOCATION_HELP)
    for action in (export, import_parser, sync):
        action.add_argument("--check", action="store_true", help="change nothing; exit with 1 when something would change")
    for action in (export, import_parser, sync, listing):
        action.add_argument("--skill", action="append", default=[], metavar="NAME", help="only this one; may be repeated")


def mirror_command(arguments: argparse.Namespace) -> int:
    """Copy, compare or list."""
    from skillyard.library import Catalog

    catalog = Catalog.discover(roots=(), cwd=arguments.project, cache=False)
    return {"export": _export, "import": _import, "sync": _sync, "list": _list}[arguments.action](arguments, catalog)


def _export(arguments: argparse.Namespace, catalog: Catalog) -> int:
    from skillyard.registry.mirror_locations import open_mirror_target
    from skillyard.registry.registry_mirror import RegistryMirror

    if arguments.target.startswith(("https://", "http://")):
        return _export_to_server(arguments, _registry(catalog))
    if arguments.target.startswith(("oci://", "oci+http://")):
        return _push(arguments, catalog)
    source = RegistryMirror(_registry(catalog), catalog.data_directory)
    return _copy(arguments, source, open_mirror_target(_address(arguments.target)))


def _export_to_server(arguments: argparse.Namespace, registry: Registry) -> int:
    """Publish the current version of every skill that the server has not; 1 when one is refused, or would be published."""
    from skillyard.cli.commands.publish_commands import open_server

    arguments.server = arguments.target
    screen, server = arguments.screen, open_server(arguments)
    names = arguments.skill or [skill.skill_id for skill in registry.installed.skills()]
    outcomes = [_published(arguments, server, registry, name) for name in names]
    if screen.as_json:
        screen.data({"server": server.address, "skills": [{"skill_id": name, "state": state} for name, state, _ in outcomes]})
    else:
        for name, state, why in outcomes:
            screen.line(f"{state} {name}{why and ': '}{why}", style="error" if state == "refused" else "")
        if all(state == "unchanged" for _, state, _ in outcomes):
            screen.line("the server has everything already", style="ok")
    return OK if all(state in ("unchanged", "published") for _, state, _ in outcomes) else FAILURE


def _published(arguments: argparse.Namespace, server: RemoteServer, registry: Registry, name: str) -> tuple[str, str, str]:
    """Publish the current version of one skill, or only look: its id, the result, and why it was refused."""
    import tempfile

    from skillyard.packages import pack

    version = registry.installed.current(name)
    with tempfile.TemporaryDirectory(prefix="skillyard-") as scratch:
        folder = registry.storage.versions.path(version.skill_id, version.version)
        archive = Path(pack(folder, f"{scratch}/package.zip", whole=True).path).read_bytes()
    try:
        preview = server.preview(archive, version.skill_id, version=version.label)
    except InvalidInput:  # it calls its version something that no server takes
        preview = server.preview(archive, version.skill_id, version="")
    if preview.refusals or preview.unchanged or arguments.check:
        why = preview.refusals[0].message if preview.refusals else ""
        return version.skill_id, {"new": "would publish", "update": "would publish"}.get(preview.state, preview.state), why
    if preview.widened and not arguments.yes:
        return version.skill_id, "refused", f"it would be allowed more than {preview.current}, which --yes agrees to"
    server.publish(archive, version.skill_id, version=preview.version, notes=preview.changelog(), consent=preview.consent)
    return version.skill_id, "published", ""


def _push(arguments: argparse.Namespace, catalog: Catalog) -> int:
    """Push the current version of every skill, each to a repository of its own below the target."""
    from skillyard.registry.registry_mirror import push_all

    screen: Screen = arguments.screen
    pushed = push_all(
        _registry(catalog), arguments.target, names=tuple(arguments.skill), dry_run=arguments.check,
        allow_private=catalog.configuration.private_hosts,
    )  # fmt: skip
    different = [one for one in pushed if not one.same]
    if screen.as_json:
        screen.data({"pushed": [one.to_dict() for one in pushed]})
    else:
        for one in different:
            screen.line(f"{'would push' if arguments.check else 'pushed'} {one.reference}")
        if not different:
            screen.line("the registry has everything already", style="ok")
    return FAILURE if arguments.check and different else OK


def _sync(arguments: argparse.Namespace, catalog: Catalog) -> int:
    from skillyard.registry.mirror_locations import open_mirror_target

    return _copy(arguments, _open(arguments.source, catalog), open_mirror_target(_address(arguments.target)))


def _copy(arguments: argparse.Namespace, source: MirrorSource, target: StoredMirror) -> int:
    from skillyard.registry.registry_mirror import compare_mirrors, copy_mirror

    screen: Screen = arguments.screen
    names = tuple(arguments.skill)
    if arguments.check:
        outcome = compare_mirrors(source, target, names=names)
    else:
        outcome = copy_mirror(source, target, names=names, verify=arguments.verify)
    if screen.as_json:
        screen.data(outcome.to_dict())
    else:
        _draw(screen, outcome)
        if not arguments.check:
            screen.line(f"{counted(outcome.packages, 'package')} copied, {outcome.size:,} bytes")
    return FAILURE if arguments.check and not outcome.same else OK


def _draw(screen: Screen, outcome: MirrorCopyReport) -> None:
    words = {"added": outcome.added, "changed": outcome.changed, "removed": outcome.removed, "damaged": outcome.missing}
    for label, names in words.items():
        for name in names:
            screen.line(f"{label} {name}", style="error" if label == "damaged" else "")
    if outcome.same:
        screen.line("the mirror is up to date", style="ok")


def _import(arguments: argparse.Namespace, catalog: Catalog) -> int:
    from skillyard.registry.registry_mirror import import_mirror, plan_import

    screen: Screen = arguments.screen
    registry, source, names = _registry(catalog), _open(arguments.source, catalog), tuple(arguments.skill)
    if arguments.check:
        plan = plan_import(registry, source, names=names, history=arguments.history)
        if screen.as_json:
            screen.data(plan.to_dict())
        else:
            for skill_id in plan.serve:
                screen.line(f"would install {skill_id}")
            for skill_id, version in plan.history:
                screen.line(f"would keep {skill_id} {version.version}")
            for marked, _ in plan.marks:
                screen.line(f"would mark {marked.skill_id} {marked.version}")
            if plan.same:
                screen.line("everything of the mirror is here", style="ok")
        return OK if plan.same else FAILURE
    with InstallProgress(screen) as progress:
        outcome = import_mirror(
            registry, source, _address(arguments.source), names=names, history=arguments.history, force=arguments.force,
            accept=arguments.accept, consent=power_consent(screen, yes=arguments.yes), progress=progress,
            **replacement_acceptance(arguments),
        )  # fmt: skip
    if screen.as_json:
        screen.data(outcome.to_dict())
        return OK
    draw_results(screen, outcome.results)
    if outcome.marked:
        screen.line(f"{counted(outcome.marked, 'version')} marked as in the mirror: `skillyard versions NAME` says which")
    elif not outcome.results:
        screen.line("everything of the mirror is here", style="ok")
    return OK


def _list(arguments: argparse.Namespace, catalog: Catalog) -> int:
    screen: Screen = arguments.screen
    skills = _open(arguments.source, catalog).index().select(tuple(arguments.skill)).skills
    if screen.as_json:
        screen.data({"skills": [skill.to_dict() for skill in skills]})
        return OK
    rows = ((skill.skill_id, skill.current or "uninstalled", str(len(skill.versions)), skill.description) for skill in skills)
    screen.table(rows, header=("SKILL", "CURRENT", "VERSIONS", "DESCRIPTION"), stretch=3)
    return OK


def _registry(catalog: Catalog) -> Registry:
    from skillyard.registry import Registry

    return Registry.of(catalog, scanner=make_scanner(catalog))


def _open(source: str, catalog: Catalog) -> MirrorSource:
    from skillyard.registry.mirror_locations import open_mirror

    return open_mirror(_address(source), allow_private=catalog.configuration.private_hosts)


def _address(text: str) -> str:
    """The address as it is kept: of a folder its full path."""
    return text if "://" in text else str(Path(text).expanduser().absolute())


def add_push_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `push`."""
    parser.add_argument("skill", metavar="SKILL", help="the folder of one skill, or the name of an installed one")
    parser.add_argument(
        "target", metavar="TARGET", help="oci://HOST/REPOSITORY[:TAG] (default: the skill's version, else latest)"
    )
    parser.add_argument("--force", action="store_true", help="move the tag when it names something else")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be pushed")


def push_command(arguments: argparse.Namespace) -> int:
    """Push it and report its digests."""
    from skillyard.library import Catalog
    from skillyard.registry import Registry
    from skillyard.registry.oci_artifacts import push_skill

    screen: Screen = arguments.screen
    catalog = Catalog.discover(roots=(), cwd=arguments.project, cache=False)
    folder, origin = Path(arguments.skill), ""
    if not folder.is_dir():
        folder, origin = _installed_skill(Registry.of(catalog), arguments.skill)
    private = catalog.configuration.private_hosts
    pushed = push_skill(
        folder, arguments.target, origin=origin, force=arguments.force, dry_run=arguments.dry_run, allow_private=private
    )
    if screen.as_json:
        screen.data(pushed.to_dict())
        return OK
    verb = "would push" if arguments.dry_run else "pushed"
    screen.line(f"{pushed.reference} is this already" if pushed.same else f"{verb} {pushed.reference}", style="ok")
    screen.line(f"digest of the artifact: {pushed.digest}")
    screen.line(f"digest of the skill: {pushed.content_digest}")
    return OK


def _installed_skill(registry: Registry, name: str) -> tuple[Path, str]:
    """The folder of the current version of an installed skill, and the address that it came from."""
    with closing(registry):
        version = registry.installed.serving().get(name)
        if version is None:
            raise NoSkillInside(f"{name!r} is neither a folder nor an installed skill", hint="`skillyard versions` lists them")
        address = str(version.origin.get("address", ""))
        return registry.storage.versions.path(name, version.version), address if "://" in address else ""
