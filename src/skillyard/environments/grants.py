"""What a skill has been granted: packages and programs, by the operator, by a recorded consent, or for one run.

The operator writes `[skills.pdf]` with `packages`, `npm`, `programs`, `build` and `registries` into their own skillyard.toml.
A consent that was given to one skill is kept in `environments.json` beside `settings.json`, under the key
by which skills are switched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from skillyard.catalog.configuration import home_directory
from skillyard.catalog.user_changes import switch_key
from skillyard.errors import InvalidConfiguration, InvalidInput, NotExecutable
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from skillyard.catalog import Configuration, Skill


_FILE: Final = "environments.json"
_LARGEST: Final = 4 * 1024 * 1024
_MOST: Final = 200
LONGEST_REQUIREMENT: Final = 1_000
"""Characters of the requirement of one package."""
# A canonical requirement is one line of these; neither an option nor a comment nor a variable of a requirements file fits in.
_CANONICAL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\[\],<>=!~*+ ;()\"'-]*")
UNSAFE_CHARACTERS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_DISTRIBUTION: Final = re.compile(r"[A-Za-z0-9._-]+")
_NPM: Final = re.compile(
    r"(?P<name>(?:@[a-z0-9~-][a-z0-9._~-]{0,100}/)?[A-Za-z0-9~-][A-Za-z0-9._~-]{0,200})"
    r"(?:@(?P<range>[A-Za-z0-9.^~<>=|*+ -]{1,100}))?"
)
_PROGRAM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
NPM_WORD: Final = "npm:"
PROGRAM_WORD: Final = "program:"


@dataclass(frozen=True, slots=True)
class SkillGrant(WireForm):
    """Requirements of Python packages, npm packages (`name` or `name@range`), names of programs.

    With `build` packages that have no wheel may be built, inside the sandbox. With `registries` its own commands may reach the
    operator's Python index and npm registry. Every item is checked: `read` makes grants.
    """

    packages: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    build: bool = False
    registries: bool = False

    def __bool__(self) -> bool:
        return bool(self.packages or self.npm or self.programs or self.registries)

    @classmethod
    def read(
        cls, *, packages: Iterable[str] = (), npm: Iterable[str] = (), programs: Iterable[str] = (), build: bool = False,
        registries: bool = False,
    ) -> Self:  # fmt: skip
        """A grant of what is written here.

        Raises:
            InvalidInput: one is not a package or a program by name.
        """
        return cls(
            _each(packages, python_package), _each(npm, npm_package), _each(programs, program_name), build, registries
        )  # fmt: skip

    @classmethod
    def from_words(cls, words: Iterable[str]) -> Self:
        """A grant from words of a command line: `pypdf>=5`, `npm:docx@9`, `program:qpdf`.

        Raises:
            InvalidInput: one is not a package or a program by name.
        """
        words = tuple(words)
        return cls.read(
            packages=[word for word in words if not word.startswith((NPM_WORD, PROGRAM_WORD))],
            npm=[word.removeprefix(NPM_WORD) for word in words if word.startswith(NPM_WORD)],
            programs=[word.removeprefix(PROGRAM_WORD) for word in words if word.startswith(PROGRAM_WORD)],
        )

    @property
    def words(self) -> tuple[str, ...]:
        """The grant as words of a command line."""
        return (*self.packages, *(NPM_WORD + name for name in self.npm), *(PROGRAM_WORD + name for name in self.programs))

    def merged(self, other: SkillGrant) -> SkillGrant:
        """What either of the two grants."""
        return SkillGrant(
            union_of(self.packages, other.packages),
            union_of(self.npm, other.npm),
            union_of(self.programs, other.programs),
            self.build or other.build,
            self.registries or other.registries,
        )

    def checked(self) -> Self:
        """The same, when there is no more in it than one grant may have.

        Raises:
            InvalidInput: there are over 200 items of one kind.
        """
        for items in (self.packages, self.npm, self.programs):
            _few(items)
        return self

    def without(self, other: SkillGrant) -> SkillGrant:
        """What this grants and the other does not; an item is named exactly, as it was granted."""
        return SkillGrant(
            tuple(item for item in self.packages if item not in other.packages),
            tuple(item for item in self.npm if item not in other.npm),
            tuple(item for item in self.programs if item not in other.programs),
            self.build,
            self.registries and not other.registries,
        )


NO_GRANT: Final = SkillGrant()


def union_of(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """What is in either, each once, in the order of the first."""
    return tuple(dict.fromkeys((*first, *second)))


def _each(items: Iterable[str], check: object) -> tuple[str, ...]:
    return _few(tuple(dict.fromkeys(check(item.strip()) for item in items)))  # type: ignore[operator] # one of the three below


def _few(items: tuple[str, ...]) -> tuple[str, ...]:
    if len(items) > _MOST:
        raise InvalidInput(f"{len(items)} packages or programs are too many for one skill", hint=f"name at most {_MOST}")
    return items


def python_package(written: str) -> str:
    """A requirement of a Python package in its canonical form.

    Raises:
        InvalidInput: it is not a package by name.
    """
    try:
        return canonical_requirement(written)
    except NotExecutable as error:
        raise InvalidInput(error.message.replace("the dependency ", ""), hint="for example pypdf or pypdf>=5") from None


def npm_package(written: str) -> str:
    """An npm package by name, perhaps with a range of versions: `docx`, `@scope/name@^1.2`.

    Raises:
        InvalidInput: it is not a package by name.
    """
    if not _NPM.fullmatch(written) or ".." in written:
        raise InvalidInput(f"{written[:200]!r} is not an npm package by name", hint="for example docx or docx@^9.5")
    return written


def npm_parts(package: str) -> tuple[str, str]:
    """The name and the range (`*` for any) of an npm package."""
    match = _NPM.fullmatch(package)
    return (match["name"], match["range"] or "*") if match else (package, "*")


@lru_cache(maxsize=2048)
def package_key(kind: str, written: str) -> str:
    """The name of one of the `packages` or `npm` without version and extras, as package managers compare it.

    One of the `programs` is given as it is.
    """
    if kind == "packages":
        match = _DISTRIBUTION.match(written)
        return re.sub(r"[-_.]+", "-", match[0] if match else written).lower()
    return npm_parts(written)[0] if kind == "npm" else written


def program_name(written: str) -> str:
    """The name of a program.

    Raises:
        InvalidInput: it is not a name: it has a slash, a space, an option.
    """
    if not _PROGRAM.fullmatch(written):
        raise InvalidInput(f"{written[:200]!r} is not the name of a program", hint="for example soffice or pdftoppm")
    return written


class GrantStore:
    """The grants of one home: those of the operator's settings, and the consents that were recorded in `data`.

    `settings` are the tables `[skills.NAME]`, by the name of a skill or its id.
    """

    def __init__(self, settings: Mapping[str, SkillGrant] | None = None, data: str | None = None) -> None:
        self._settings = settings or {}
        self._data = data

    @classmethod
    def configured(cls, configuration: Configuration, data: str | None = None) -> Self:
        """The grants of a configuration, and of the home in `data`.

        Raises:
            InvalidConfiguration: a table names something that is no package or program.
        """
        settings = {}
        for name, table in configuration.skill_grants.items():
            try:
                settings[name] = SkillGrant.read(**table)
            except InvalidInput as error:
                file = configuration.user_file or "skillyard.toml"
                message = f"{file}: [skills.{name}]: {error.message}"
                raise InvalidConfiguration(message, hint=error.hint, file=file, key=f"skills.{name}") from None
        return cls(settings, data)

    @property
    def _path(self) -> Path:
        return Path(self._data or home_directory(), _FILE)

    def operator(self, skill: Skill) -> SkillGrant:
        """What the operator's settings grant the skill, by its name, its slug or its id."""
        names = {str(getattr(skill, name, "")) for name in ("id", "name", "slug")}
        granted = NO_GRANT
        for name in sorted(names & self._settings.keys()):
            granted = granted.merged(self._settings[name])
        return granted

    def recorded(self, skill: Skill) -> SkillGrant:
        """What was granted to the skill by a recorded consent.

        Raises:
            InvalidConfiguration: the file of consents cannot be understood.
        """
        return self._entries().get(_key(skill), NO_GRANT)

    def granted(self, skill: Skill) -> SkillGrant:
        """Everything that is granted to the skill.

        Raises:
            InvalidConfiguration: the file of consents cannot be understood.
        """
        return self.operator(skill).merged(self.recorded(skill))

    def change(self, skill: Skill, step: Callable[[SkillGrant], SkillGrant]) -> None:
        """Record for the skill what `step` makes of what is recorded; an empty grant removes the record.

        Nobody else changes the file between reading and writing; `step` should take no time.

        Raises:
            InvalidConfiguration: the file of consents cannot be understood.
            InvalidInput: it would be more than is read again: over 200 items of one kind, or too large a file.
        """
        from skillyard.files import locked, replace_file

        path = self._path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(path):
            entries = _parsed(str(path)) if path.exists() else {}
            grant = step(entries.pop(_key(skill), NO_GRANT)).checked()
            if grant:
                entries[_key(skill)] = grant
            shape = {"skills": {key: one.to_dict() for key, one in sorted(entries.items())}}
            data = json.dumps(shape, indent=2, ensure_ascii=False).encode() + b"\n"
            if len(data) > _LARGEST:
                message = f"the grants of all skills together would be over {_LARGEST} bytes"
                raise InvalidInput(message, hint="take back what is not needed: skillyard environment revoke")
            replace_file(path, data)

    def _entries(self) -> Mapping[str, SkillGrant]:
        path = self._path
        try:
            state = path.stat()
        except OSError:
            return {}
        return _read_entries(str(path), state.st_mtime_ns, state.st_size, state.st_ino)


def _key(skill: Skill) -> str:
    """Under what a skill's consent is kept: as its switch, so that a namesake elsewhere is another skill."""
    root = getattr(skill, "root", None)
    if root is None:
        return skill.id
    return switch_key(skill.source, skill.slug, root.path)


def _read_entries(path: str, changed: int, size: int, inode: int) -> Mapping[str, SkillGrant]:
    """The consents of a file that has not changed since, read once."""
    state = (path, changed, size, inode)
    if _last and _last[0][0] == state:
        return _last[0][1]
    entries = _parsed(path)
    _last[:] = [(state, entries)]
    return entries


_last: list[tuple[tuple[str, int, int, int], Mapping[str, SkillGrant]]] = []


def _parsed(path: str) -> dict[str, SkillGrant]:
    try:
        with Path(path).open("rb") as file:
            values = json.loads(file.read(_LARGEST).decode("utf-8"))
        skills = values["skills"]
        return {
            str(key): SkillGrant.read(
                packages=one.get("packages", ()),
                npm=one.get("npm", ()),
                programs=one.get("programs", ()),
                build=one.get("build") is True,
                registries=one.get("registries") is True,
            )
            for key, one in skills.items()
        }
    except OSError as error:
        raise InvalidConfiguration(
            f"{path} cannot be read: {error.strerror}", hint="let this user read it", file=path
        ) from None
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError, InvalidInput) as error:
        message = error.message if isinstance(error, InvalidInput) else "it is not the list of grants that Skillyard writes"
        hint = "correct the file, or remove it and grant again with `skillyard environment allow`"
        raise InvalidConfiguration(f"{path}: {message}", hint=hint, file=path) from None


def canonical_requirement(written: str) -> str:
    """A requirement of a Python package as `packaging` writes it: a name, extras, versions and a marker; nothing else.

    Raises:
        NotExecutable: it is something else: an address, a path, an option.
    """
    from packaging.requirements import InvalidRequirement, Requirement  # only for scripts with packages

    refused = NotExecutable(
        f"the dependency {written[:200]!r} is not a package by name", hint="addresses, paths and options are not installed"
    )
    if len(written) > LONGEST_REQUIREMENT or UNSAFE_CHARACTERS.search(written):
        raise refused
    try:
        requirement = Requirement(written)
    except (InvalidRequirement, RecursionError):
        raise refused from None
    canonical = str(requirement)
    if requirement.url is not None or not _CANONICAL.fullmatch(canonical) or "--" in canonical:
        raise refused
    return canonical
