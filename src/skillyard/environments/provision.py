"""From what a skill declares and what it was granted to the environment that a run or a session gets.

What is declared (PEP 723, `requirements.txt`, `package.json`, …) is used when it is there, and installed where the caller
allows it; what was granted is installed when it is first needed: the grant is the permission. Nothing else is ever given to a
skill.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from skillyard.environments.declared import ScriptBlock, declared_needs, script_block
from skillyard.environments.grants import NO_GRANT, PROGRAM_WORD, GrantStore, SkillGrant, union_of
from skillyard.environments.installer import index_settings, registry_variables, text_digest
from skillyard.environments.program_table import PROGRAMS, browser_builds, find_program, install_hint
from skillyard.errors import DependenciesUnavailable
from skillyard.sandbox import NOTHING_GRANTED, GrantedEnvironment
from skillyard.sandbox.runtimes import is_system

if TYPE_CHECKING:
    from skillyard.catalog import Configuration, Skill
    from skillyard.environments.locked_packages import PythonPackages
    from skillyard.environments.proposal import SkillNeeds

_BROWSER: Final = "chromium"


@dataclass(frozen=True, slots=True)
class EnvironmentRequest:
    """Which environment to provide: for the script `entry`, with what was granted, and whether the declared may be installed.

    Called with the path of a skill's folder it gives the environment; it blocks, as long as downloading takes when something is
    missing. Two equal requests give equal environments for equal folders. `settings` are those of the `[sandbox]` table that
    name where packages come from. Without an `entry` it is for a session, in which any script may run; without a folder for
    what was granted alone.

    `requested` is what the caller of one run names without being able to grant it: packages that have to be there, or to be
    among the granted ones, unless `install` allows more.
    """

    entry: str = ""
    grant: SkillGrant = NO_GRANT
    install: bool = False
    settings: Mapping[str, object] = field(default_factory=dict, hash=False)
    requested: SkillGrant = NO_GRANT

    def __call__(self, directory: str = "") -> GrantedEnvironment:
        """The environment for the skill in this folder.

        Raises:
            DependenciesUnavailable: packages are not there and may not, or cannot, be installed.
            NotExecutable: the script's block cannot be understood, or it is for another Python.
            InvalidPolicy: the index cannot be used.
        """
        block = script_block(directory, self.entry) if directory else ScriptBlock()
        declared = declared_needs(directory).grant if directory else NO_GRANT
        if not (self.grant or self.requested or declared or block.dependencies or block.requires_python):
            return NOTHING_GRANTED
        programs = granted_programs(self.grant.programs)
        if self.grant.registries:
            programs = with_registries(programs, self.settings)
        python = self._python(block, declared.packages)
        node = self._node(declared.npm)
        python_packages, node_modules = str(python or ""), str(node or "")
        commands = {**programs.commands, **_browsers(programs, (python_packages, node_modules))}
        digest = text_digest("\n".join([python_packages, node_modules, programs.digest]))
        return replace(programs, python_packages=python_packages, node_modules=node_modules, commands=commands, digest=digest)

    def _python(self, block: ScriptBlock, declared: tuple[str, ...]) -> Path | None:
        required, requires_python = union_of(block.dependencies, self.requested.packages), block.requires_python
        if not (required or requires_python or declared or self.grant.packages):
            return None
        from skillyard.environments.locked_packages import PythonInterpreter, PythonPackages, require_python

        interpreter = PythonInterpreter.of_sandbox()
        if requires_python:
            require_python(requires_python, interpreter.version, block.allows(interpreter.version))
        agreed = union_of(required, self.grant.packages)
        everything = union_of(agreed, declared)

        def packages(names: tuple[str, ...], *, install: bool) -> PythonPackages:
            return PythonPackages(names, interpreter, requires_python, install, self.grant.build, self.settings)

        if self.install:
            return packages(everything, install=True).folder() if everything else None
        if everything != agreed and (found := packages(everything, install=False).find()):
            return found
        return packages(agreed, install=set(required) <= set(self.grant.packages)).folder() if agreed else None

    def _node(self, declared: tuple[str, ...]) -> Path | None:
        agreed = union_of(self.requested.npm, self.grant.npm)
        everything = union_of(agreed, declared)
        if not everything:
            return None
        from skillyard.environments.locked_packages import NodePackages

        if self.install:
            return NodePackages(everything, True, self.settings).folder()
        if everything != agreed and (found := NodePackages(everything, False, self.settings).find()):
            return found
        return NodePackages(agreed, set(self.requested.npm) <= set(self.grant.npm), self.settings).folder() if agreed else None


def _browsers(programs: GrantedEnvironment, packages: tuple[str, ...]) -> dict[str, str]:
    """The granted Chromium where each granted Playwright looks for its own."""
    script = programs.commands.get(_BROWSER)
    return browser_builds(tuple(filter(None, packages)), script) if script else {}


def require_programs(names: tuple[str, ...], granted: tuple[str, ...] | None = None) -> None:
    """Make sure that programs somebody asks for by name are on this machine, and may be seen.

    With `granted` only those are, beside what every sandbox sees.

    Raises:
        DependenciesUnavailable: one is not.
    """
    for name in names:
        program = find_program(name)
        if program is None:
            message = f"the program {name} is not installed on this machine"
            raise DependenciesUnavailable(message, hint=install_hint(name), dependencies=[name])
        if granted is not None and name not in granted and not is_system(program):
            message = f"the program {name} is not granted to this skill"
            hint = f"the operator can: skillyard environment allow SKILL --with {PROGRAM_WORD}{name}"
            raise DependenciesUnavailable(message, hint=hint, dependencies=[name])


def with_registries(environment: GrantedEnvironment, settings: Mapping[str, object]) -> GrantedEnvironment:
    """The environment, from which the operator's Python index and npm registry can be reached; other hosts cannot.

    Raises:
        InvalidPolicy: one of them cannot be used.
    """
    hosts, variables, files = registry_variables(settings)
    mounts = tuple(dict.fromkeys((*environment.mounts, *(file for file in files if not is_system(file)))))
    digest = text_digest("\n".join([environment.digest, *hosts, *files]))
    given = {**environment.variables, **variables}
    return replace(environment, hosts=hosts, variables=given, mounts=mounts, digest=digest)


def granted_programs(names: tuple[str, ...]) -> GrantedEnvironment:
    """What granted programs need: folders to see, variables, limits; no packages.

    One that is not installed on this machine is left out: a run that calls it says so.
    """
    if not names:
        return NOTHING_GRANTED
    mounts: dict[str, None] = {}
    path: dict[str, None] = {}
    variables: dict[str, str] = {}
    needs: dict[str, int] = {}
    commands: dict[str, str] = {}
    for name in names:
        program = find_program(name)
        if program is None:
            continue
        if not is_system(program):
            path[str(Path(program).parent)] = None
            mounts |= dict.fromkeys((program, str(Path(program).resolve())))
        if (known := PROGRAMS.get(name)) is not None:
            mounts |= {folder: None for folder in known.folders if Path(folder).exists() and not is_system(folder)}
            variables |= known.variables
            if known.options:
                script = f'#!/bin/sh\nexec {shlex.join([program, *known.options])} "$@"\n'
                commands |= dict.fromkeys((name, *known.binaries), script)
            needs |= {limit: max(number, needs.get(limit, 0)) for limit, number in known.needs.items()}
    parts = [*names, *path, *mounts, *commands.values()]
    return GrantedEnvironment(
        programs=names,
        path=tuple(path),
        mounts=tuple(mounts),
        variables=variables,
        needs=needs,
        commands=commands,
        local_sockets=any(name in PROGRAMS and PROGRAMS[name].local_sockets for name in names),
        digest=text_digest("\n".join(parts)),
    )


class SkillGrants:
    """What is granted to the skills of one catalog: looked up, proposed, allowed and taken back.

    `book` has the grants; `settings` are those of the `[sandbox]` table that name where packages come from. Whoever calls from
    an event loop does it in a thread: what is allowed is downloaded first.
    """

    def __init__(self, book: GrantStore, settings: Mapping[str, object]) -> None:
        self.book: Final = book
        self._settings = settings

    @classmethod
    def configured(cls, configuration: Configuration, data: str | None = None) -> Self:
        """The grants of a configuration, and of the home in `data`.

        Raises:
            InvalidConfiguration: a table names something that is no package or program.
        """
        return cls(GrantStore.configured(configuration, data), configuration.sandbox)

    def granted(self, skill: Skill) -> SkillGrant:
        """Everything that is granted to a skill.

        Raises:
            InvalidConfiguration: the file of consents cannot be understood.
        """
        return self.book.granted(skill)

    def needs(self, skill: Skill) -> SkillNeeds:
        """The packages and programs that a skill's files declare, import and call, each with whether it is granted.

        Raises:
            InvalidConfiguration: the file of consents cannot be understood.
        """
        from skillyard.environments.proposal import skill_needs  # readers of scripts are behind it

        return skill_needs(skill.directory, skill.name, self.granted(skill))

    def allow(self, skill: Skill, grant: SkillGrant) -> GrantedEnvironment:
        """Grant packages and programs to a skill, beside those it has: they are installed first, and then recorded.

        Blocks for as long as downloading takes; when it fails or is interrupted nothing was granted.

        Raises:
            DependenciesUnavailable: they cannot be installed.
            InvalidInput: the skill would have more than can be recorded for it.
            InvalidConfiguration, InvalidPolicy: the grants, or the settings of the index, cannot be understood.
        """
        self.book.recorded(skill).merged(grant).checked()
        granted = self.granted(skill).merged(grant)
        environment = EnvironmentRequest(grant=granted, settings=index_settings(self._settings))(skill.directory)
        self.book.change(skill, lambda had: had.merged(grant))
        return environment

    def revoke(self, skill: Skill, grant: SkillGrant | None = None) -> SkillGrant:
        """Take recorded grants back from a skill, all of them when none is named; gives what is granted to it still.

        Raises:
            InvalidConfiguration: the file of consents cannot be understood.
        """
        self.book.change(skill, lambda had: NO_GRANT if grant is None else had.without(grant))
        return self.granted(skill)

    def environment(self, grant: SkillGrant) -> GrantedEnvironment:
        """The environment with these packages and programs, for a workspace (`WorkspaceOptions.environment`).

        Blocks for as long as downloading takes when a package is not there yet.

        Raises:
            DependenciesUnavailable: packages cannot be installed, or a program is not on this machine.
            InvalidPolicy: the settings of the index cannot be understood.
        """
        require_programs(grant.programs)
        return EnvironmentRequest(grant=grant, settings=index_settings(self._settings))()
