"""What a failed run or command was missing, read from the end of what it wrote, and which grant would give it."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from pathlib import Path
from typing import Final

from skillyard.environments.grants import NPM_WORD, PROGRAM_WORD, SkillGrant, npm_parts, package_key
from skillyard.environments.program_table import distribution_of, find_program, install_hint, npm_package_of
from skillyard.environments.script_uses import install_lines
from skillyard.errors import InvalidInput
from skillyard.sandbox import GrantedEnvironment

_TAIL: Final = 8_000
_LONGEST_COMMAND: Final = 20_000
_MOST_NAMED: Final = 20
_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '([A-Za-z0-9_.]{1,100})'")
_NODE: Final = re.compile(r"Cannot find (?:module|package) '([^'\s]{1,200})'")
_PROGRAM: Final = re.compile(
    r"FileNotFoundError: \[Errno 2\] No such file or directory: '([A-Za-z0-9][A-Za-z0-9._+-]{0,63})'"
    r"|: ([A-Za-z0-9][A-Za-z0-9._+-]{0,63}): command not found"
    r"|spawn ([A-Za-z0-9][A-Za-z0-9._+-]{0,63}) ENOENT"
)


def missing_grant(stderr: str) -> SkillGrant:
    """What the run was missing by its standard error: one package or program, or nothing.

    A program that this machine has was not missing: what could not be found is then a file of that name.
    """
    end = stderr[-_TAIL:]
    matches = [match for pattern in (_MODULE, _NODE, _PROGRAM) for match in pattern.finditer(end)]
    if not matches:
        return SkillGrant()
    last = max(matches, key=lambda match: match.start())
    try:
        return _grant(last)
    except InvalidInput:
        return SkillGrant()


def _grant(match: re.Match[str]) -> SkillGrant:
    if match.re is _MODULE:
        package = distribution_of(match[1])
        return SkillGrant.read(packages=[package] if package else ())
    if match.re is _NODE:
        package = npm_package_of(match[1])
        return SkillGrant.read(npm=[package] if package else ())
    name = next(name for name in match.groups() if name)
    return SkillGrant.read(programs=[name] if find_program(name) is None else ())


def _is_own(directory: str, stderr: str) -> bool:
    modules = _MODULE.findall(stderr[-_TAIL:])
    top = modules[-1].partition(".")[0] if modules else ""
    places = (top, f"{top}.py", f"scripts/{top}", f"scripts/{top}.py")
    return bool(top) and any(Path(directory, place).exists() for place in places)


def missing_hint(stderr: str, skill_name: str, directory: str = "") -> str:
    """One sentence on which grant gives a failed run what it was missing; empty when it failed for something else.

    A module that the skill in `directory` has itself was not missing, it only was not found from where the script is.
    """
    missing = missing_grant(stderr)
    if missing.packages and directory and _is_own(directory, stderr):
        return ""
    if missing.programs:
        name = missing.programs[0]
        return f"the program {name} is not on this machine: {install_hint(name)}, then `--with {PROGRAM_WORD}{name}`"
    if not missing:
        return ""
    word = shlex.quote(next(iter(missing.words)))
    kind = "npm" if word.startswith(NPM_WORD) else "packages"
    name = word.removeprefix(NPM_WORD)
    return (
        f"`--with {word}` gives it for one run, `skillyard environment allow {shlex.quote(skill_name)} --with {word}` for "
        f'every run, or {kind} = ["{name}"] in the table [skills.{skill_name}] of your own skillyard.toml'
    )


def session_hint(command: str, output: str, environment: GrantedEnvironment) -> str:
    """One or two sentences about a command that has failed in a session: what it was missing, or could not install.

    Whoever runs the command cannot grant anything, so they say what to ask the operator for, and which packages that the
    command wanted to install are here already.
    """
    wanted = _installs(command)
    missing = wanted or missing_grant(output)
    here = _here(missing, environment) if wanted else SkillGrant()
    sentences = []
    if here:
        sentences.append(f"Already here, import or require it: {', '.join((*here.packages, *here.npm))}.")
    if missing.programs:
        name = missing.programs[0]
        sentences.append(f"The program {name} is not on this machine; the operator can install it: {install_hint(name)}.")
    elif absent := missing.without(here).words:
        words = " ".join(f"--with {shlex.quote(word)}" for word in absent)
        sentences.append(
            f"Not granted here: {', '.join(absent)}. Ask the operator for it (`skillyard environment allow SKILL {words}`), "
            "or do without."
        )
    return " ".join(sentences)


def _installs(command: str) -> SkillGrant:
    """The packages that a command wanted to install."""
    found: dict[str, list[str]] = {"packages": [], "npm": []}
    for kind, package, _ in install_lines(command[:_LONGEST_COMMAND]):
        if package not in found[kind] and len(found[kind]) < _MOST_NAMED:
            found[kind].append(package)
    return SkillGrant.read(packages=found["packages"], npm=found["npm"])


def _here(wanted: SkillGrant, environment: GrantedEnvironment) -> SkillGrant:
    """Those of the packages that the environment has, in whatever version."""
    distributions = set()
    if environment.python_packages and wanted.packages:
        with contextlib.suppress(OSError):
            names = (entry.name for entry in os.scandir(environment.python_packages) if entry.name.endswith(".dist-info"))
            distributions = {package_key("packages", name.partition("-")[0]) for name in names}
    return SkillGrant(
        packages=tuple(one for one in wanted.packages if package_key("packages", one) in distributions),
        npm=tuple(one for one in wanted.npm if _has_npm(environment.node_modules, npm_parts(one)[0])),
    )


def _has_npm(folder: str, name: str) -> bool:
    return bool(folder) and Path(folder, name, "package.json").is_file()
