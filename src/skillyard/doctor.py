"""Check everything that Skillyard needs on this machine, and say of each thing whether it works and how to fix it."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from skillyard._version import __version__
from skillyard.catalog import home_directory, load_settings
from skillyard.environments import find_npm, find_uv
from skillyard.errors import SkillyardError
from skillyard.sandbox import container_image, interpreter_for, probe_all
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from skillyard.catalog import Root
    from skillyard.library import Catalog


_ROOT_FIXES: Final = {
    "refused": "take it out of the settings, or allow it there: allow-external-paths = true",
    "unreadable": "let this user read it, or name another folder",
    "truncated": "name a folder further down",
}
_MOST_SKILLS: Final = 300  # whose scripts are read
_PATIENCE: Final = 10  # seconds for a program to report its version


@dataclass(frozen=True, slots=True)
class MachineCheck(WireForm):
    """One thing that was looked at: `error` means that something needed is broken, `warning` that something optional is."""

    name: str
    status: Literal["ok", "warning", "error"]
    detail: str
    fix: str | None = None


def check_machine(opening: Callable[[], Catalog]) -> list[MachineCheck]:
    """Everything, in the order a person would ask; one broken thing never keeps the others from being looked at.

    `opening` finds the skills, or raises what keeps it from that.
    """
    checks = [_python(), _skillyard(), *_platform(), _home()]
    settings: Mapping[str, object] = {}
    try:
        catalog = opening()
    except SkillyardError as error:
        checks.append(MachineCheck("configuration", "error", error.message, error.hint))
    else:
        settings = catalog.configuration.sandbox
        checks += [_configuration(catalog), *(_root(catalog, root) for root in catalog.roots), *_policy(catalog)]
        checks += [*_switched_off(catalog), *_extensions(catalog)]
        checks += [_records(catalog), *_requirements(catalog), *_environments(catalog)]
    return [*checks, *_sandboxes(settings), *_programs()]


def _python() -> MachineCheck:
    version = platform.python_version()
    return MachineCheck("python", "ok", f"{version} at {sys.executable}")


def _skillyard() -> MachineCheck:
    return MachineCheck("skillyard", "ok", f"{__version__} on {platform.system()} {platform.release()} {platform.machine()}")


_ELSEWHERE: Final = {
    "darwin": (
        "on macOS everything works but running scripts of skills, for which docker or podman is needed, and an image",
        'name an image that has Python in your own skillyard.toml: container-image = "…" in [sandbox]; or run skills on Linux',
    ),
    "win32": (
        "on Windows skills are listed, checked, searched, read and described to models; not installed, served or run",
        "run skills on Linux: in WSL 2, with bubblewrap, docker or podman, or in a virtual machine",
    ),
}


def _platform() -> Iterator[MachineCheck]:
    """What works on a system that is not Linux."""
    system = sys.platform
    if system != "linux":
        unknown = (f"on {system} nothing was tried but to list, check, search and read skills", "run skills on Linux")
        detail, fix = _ELSEWHERE.get(system, unknown)
        yield MachineCheck("platform", "warning", detail, fix)


def _home() -> MachineCheck:
    """Whether the folder for settings, the cache and installed skills can be written."""
    home = Path(home_directory())
    if problem := _write_problem(home):
        return MachineCheck("home", "error", f"{home} cannot be used: {problem}", "set SKILLYARD_HOME to a folder you own")
    cached = sum(file.stat().st_size for file in home.joinpath("cache").rglob("*") if file.is_file())
    return MachineCheck("home", "ok", f"{home} (cache {cached:,} bytes)")


def _write_problem(home: Path) -> str | None:
    """Why nothing can be made in a folder, or where it would be made; tried, because permissions alone do not show it."""
    there = next((folder for folder in (home, *home.parents) if os.path.lexists(folder)), home)
    try:
        with tempfile.TemporaryDirectory(prefix=".skillyard-doctor-", dir=there):
            return None
    except OSError as error:
        return f"{there}: {error.strerror}"


def _configuration(catalog: Catalog) -> MachineCheck:
    files = [file for file in (catalog.configuration.file, catalog.configuration.user_file) if file and Path(file).exists()]
    return MachineCheck("configuration", "ok", ", ".join(files) or "no settings file; defaults are used")


def _policy(catalog: Catalog) -> Iterator[MachineCheck]:
    """Whether the tables that other components read can be understood."""
    for name, read in (("permissions", catalog.rules), ("sandbox settings", catalog.executor)):
        try:
            read()
        except SkillyardError as error:
            yield MachineCheck(name, "error", error.message, error.hint)
            continue
        if name == "permissions":
            yield from _allowed_by_name_alone(catalog)


def _allowed_by_name_alone(catalog: Catalog) -> Iterator[MachineCheck]:
    """The rules that trust every skill of a name, of any author."""
    for pattern in catalog.rules().allowed_by_name_alone():
        detail = f"the rule {pattern!r} = 'allow' trusts any skill of that name, from any source"
        yield MachineCheck("permissions", "warning", detail, f"write '{pattern} source=…' or '{pattern} signer=…'")


def _switched_off(catalog: Catalog) -> Iterator[MachineCheck]:
    """What is switched off, also in other projects, and the command that switches it on."""
    settings = load_settings(catalog.data_directory)
    if not settings.enable_skills:
        yield MachineCheck("switched off", "warning", "all skills", "`skillyard enable --all`")
    for skill in settings.switched_off():
        where = f" in {skill.root}" if skill.root else " in every project, by an older version" if skill.everywhere else ""
        fix = "`skillyard enable` it in each project that needs it" if skill.everywhere else skill.command
        yield MachineCheck("switched off", "ok", skill.skill + where, fix)


def _extensions(catalog: Catalog) -> Iterator[MachineCheck]:
    """Every extension of another package: whether it is used, and whether it can be imported."""
    used = catalog.configuration.extensions
    for extension in used.every():
        detail = f"{extension.key} of {extension.package} {extension.version}"
        if not used.uses(extension):
            yield MachineCheck("extension", "ok", f"{detail}: switched off by the settings")
            continue
        try:
            extension.load()
        except SkillyardError as error:
            yield MachineCheck("extension", "error", error.message, error.hint)
        else:
            yield MachineCheck("extension", "ok", detail)


def _records(catalog: Catalog) -> MachineCheck:
    """Whether runs can be recorded; nothing is made for the question."""
    configured = catalog.configuration.database_url
    if configured is None and not Path(catalog.data_directory, "skillyard.db").exists():
        return MachineCheck("records", "ok", "none yet; the first run makes them")
    from skillyard.database import Database

    try:
        with contextlib.closing(Database.at(catalog.data_directory, configured)) as database:
            status = database.status()
            wrong = database.check(quick=True).problems if database.file else ()
    except SkillyardError as error:
        return MachineCheck("records", "error", error.message, error.hint)
    if wrong:
        fix = "`skillyard db check` says all; stop what uses it, then `skillyard db repair` recovers what can be read"
        return MachineCheck("records", "error", f"{status.url} is damaged: {wrong[0]}", fix)
    if status.too_new:
        return MachineCheck(
            "records", "error", f"{status.url}: made by a newer Skillyard ({status.revision})", "upgrade skillyard"
        )
    if status.unreleased:
        text = f"{status.url}: made by a Skillyard between two releases ({status.revision})"
        return MachineCheck("records", "error", text, "move it away, or name another database")
    if status.revision is not None and not status.current:
        return MachineCheck("records", "warning", f"{status.url}: revision {status.revision}", "skillyard db upgrade")
    if status.newer:
        return MachineCheck(
            "records", "warning", f"{status.url}: made by a newer Skillyard ({status.revision})", "upgrade skillyard"
        )
    if status.revision is not None and not status.indexed_search:
        return MachineCheck("records", "ok", f"{status.url}: a search of the list reads every skill", status.search_hint)
    return MachineCheck(
        "records", "ok", status.url if status.revision else f"{status.url}: no tables yet; the first run makes them"
    )


def _requirements(catalog: Catalog) -> Iterator[MachineCheck]:
    """What installed skills require and do not find here; nothing is made for the question."""
    if not Path(catalog.data_directory, "skills").is_dir():
        return
    from skillyard.registry import Registry

    try:
        problems = list(Registry.of(catalog).installed.problems())
    except SkillyardError as error:
        yield MachineCheck("installed skills", "error", error.message, error.hint)
        return
    for skill_id, sentence in problems:
        problem, _, remedy = sentence.partition(": ")
        yield MachineCheck(f"skill {skill_id}", "warning", problem, remedy or None)


def _environments(catalog: Catalog) -> Iterator[MachineCheck]:
    """What skills import and call and were not granted, and granted programs that are not here."""
    try:
        grants = catalog.grants()
    except SkillyardError as error:
        yield MachineCheck("skill environments", "error", error.message, error.hint)
        return
    for skill in [skill for skill in catalog.all() if skill.status == "ok"][:_MOST_SKILLS]:
        try:
            needs = grants.needs(skill)
        except (SkillyardError, OSError) as error:
            yield MachineCheck(f"skill {skill.id}", "warning", f"its needs cannot be read: {error}")
            continue
        if needs.proposed:
            yield MachineCheck(f"skill {skill.id}", "warning", f"is not granted: {needs.sentence}", needs.command)
        if needs.missing_programs:
            names = ", ".join(name for name, _ in needs.missing_programs)
            remedies = dict.fromkeys(remedy for _, remedy in needs.missing_programs)
            yield MachineCheck(
                f"skill {skill.id}", "warning", f"calls programs that are not here: {names}", "; ".join(remedies)
            )


def _root(catalog: Catalog, root: Root) -> MachineCheck:
    mine = [skill for skill in catalog.all() if skill.root.path == root.path]
    unusable = sum(skill.status == "broken" for skill in mine)
    counts = f"{len(mine):,} skill{'' if len(mine) == 1 else 's'}" + (f", {unusable} broken" if unusable else "")
    facts = [counts if root.scanned else "", root.reason or ("" if root.scanned else root.status)]
    detail = f"{root.path}: {'; '.join(fact for fact in facts if fact)}"
    if root.status == "missing" and root.source == "config":  # somebody named it
        return MachineCheck("root config", "warning", detail, "make the folder, or name another one")
    if root.status == "missing":
        return MachineCheck(f"root {root.source}", "ok", f"{root.path}: does not exist yet; skills added there will be found")
    if root.status == "ok":
        return MachineCheck(f"root {root.source}", "ok", detail, "skillyard check " + root.path if unusable else None)
    return MachineCheck(f"root {root.source}", "warning", detail, _ROOT_FIXES.get(root.status))


def _sandboxes(settings: Mapping[str, object]) -> Iterator[MachineCheck]:
    """One sandbox is enough; none is an error. `settings` is the operator's table."""
    try:
        probes = probe_all(container_image=container_image(settings), container=settings.get("backend") == "container")
    except SkillyardError as error:
        yield MachineCheck("sandbox container", "error", error.message, error.hint)
        return
    holds = any(probe.ok for probe in probes)
    for probe in probes:
        facts = ", ".join(f"{name} {value}" for name, value in probe.facts.items())
        detail = "holds" if probe.ok else probe.reason
        status: Literal["ok", "warning", "error"] = "ok" if probe.ok else "warning" if holds else "error"
        yield MachineCheck(
            f"sandbox {probe.backend}",
            status,
            f"{detail} ({facts})" if facts else detail,
            None if probe.ok else "; ".join(probe.remedies) or None,
        )


def _programs() -> Iterator[MachineCheck]:
    yield _runs("python", "execute.py")
    yield _runs("shell", "execute.sh")
    yield _runs("javascript", "execute.mjs", optional=True)
    yield _runs("typescript", "execute.ts", optional=True)
    yield _packages()
    yield _program("git", "")


def _runs(language: str, entry: str, *, optional: bool = False) -> MachineCheck:
    """Whether a skill whose script is in that language finds its interpreter, and which."""
    try:
        return MachineCheck(f"{language} skills", "ok", f"run with {interpreter_for(entry)}")
    except SkillyardError as error:
        return MachineCheck(f"{language} skills", "warning" if optional else "error", error.message, error.hint)


def _packages() -> MachineCheck:
    """Whether packages for skills can be installed, of Python and of npm."""
    npm = "npm" if find_npm() else "no npm"
    if program := find_uv():
        return MachineCheck("script packages", "ok", f"can be installed with {program}; {npm}")
    return MachineCheck("script packages", "warning", f"cannot be installed: no uv; {npm}", "pip install 'uv>=0.9'")


def _program(name: str, remark: str) -> MachineCheck:
    path = shutil.which(name)
    if path is None:
        return MachineCheck(name, "warning", f"not found{remark}", f"install {name} if you need it")
    return MachineCheck(name, "ok", f"{_version(path)} at {path}{remark}")


def _version(path: str) -> str:
    """The first line of what the program says about itself."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_PATIENCE, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return "present, but it does not answer"
    return (done.stdout or done.stderr).strip().partition("\n")[0] or "present"
