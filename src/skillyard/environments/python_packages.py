"""Environments of Python packages: locked with hashes by uv, installed once, kept in `$SKILLYARD_HOME/cache/environments/`.

Resolving and installing is the only step with a network, only where it is allowed, and only to the operator's index, through a
proxy that knows no other hosts. Nothing that is downloaded runs: built wheels only, unless building was allowed, which happens
in the sandbox.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from skillyard.environments.installer import (
    ALLOW,
    InstallCall,
    PackageFolder,
    environments_folder,
    move_into_place,
    scratch_beside,
    text_digest,
    unavailable,
)
from skillyard.environments.package_index import PYTHON_INDEX, PackageIndex, installer_environment
from skillyard.errors import NotExecutable
from skillyard.sandbox import interpreter_for

_NO_UV: Final = "pip install 'uv>=0.9', or install uv in another way"
_REASONS: Final = (
    (re.compile(r"[Hh]ash mismatch"), "a downloaded file has not the hash that was promised, so nothing was installed"),
    (re.compile(r"was not found in the package registry|there (?:are|is) no versions? of"),
     "the index has no such package or version"),
    (re.compile(r"no usable wheels|no wheels with a matching|has no wheels|building source distributions is disabled"),
     "there is no wheel for this machine; `build = true` in the skill's table allows building in the sandbox"),
    (re.compile(r"No solution found|unsatisfiable"), "no versions of the packages fit together"),
    (re.compile(r"[Ff]ailed to fetch|error sending request|[Cc]onnect|dns error|timed out|[Nn]etwork"),
     "the package index cannot be reached"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PythonInterpreter:
    """The Python that runs scripts in the sandbox."""

    program: str
    version: tuple[int, int, int]

    @property
    def identity(self) -> str:
        """What packages depend on."""
        return f"{self.program} {self.version[:2]} {platform.machine()}"

    @classmethod
    def of_sandbox(cls) -> PythonInterpreter:
        """The interpreter of Python scripts here.

        Raises:
            RuntimeUnavailable: there is none.
        """
        program = interpreter_for("entry.py")
        return cls(os.path.realpath(program), _python_version(program))


@lru_cache(maxsize=4)
def _python_version(program: str) -> tuple[int, int, int]:
    """The version of this Python when it is the program, else what the program says."""
    if os.path.realpath(program) == os.path.realpath(sys.executable):
        return sys.version_info[:3]
    import subprocess  # another Python than this one

    code = "import sys; print(*sys.version_info[:3])"
    answer = subprocess.run([program, "-I", "-S", "-c", code], capture_output=True, text=True, check=True, timeout=10)  # noqa: S603
    major, minor, micro = answer.stdout.split()
    return int(major), int(minor), int(micro)


@dataclass(frozen=True, slots=True)
class PythonPackages:
    """Requirements, for which Python, whether they may be installed and built, and the settings that name the index."""

    requirements: tuple[str, ...]
    interpreter: PythonInterpreter
    requires_python: str = ""
    install: bool = False
    build: bool = False
    settings: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def lock(self) -> Path:
        """The file with the exact versions and hashes, there or not."""
        parts = [*sorted(self.requirements), self.requires_python, self.interpreter.identity]
        return environments_folder() / f"{text_digest(chr(10).join([*parts, *(('build',) if self.build else ())]))}.lock"

    def find(self) -> Path | None:
        """The folder with these packages when it is complete; nothing is installed for the question."""
        return self._place.find()

    def folder(self) -> Path:
        """The folder with these packages; resolved and installed first where that is allowed and they are not there.

        Raises:
            DependenciesUnavailable: they are not there and may not, or cannot, be installed.
            InvalidPolicy: the index cannot be used.
        """
        missing = unavailable(self.requirements, "the script needs packages that are not installed", ALLOW)
        return self._place.provide(None if self.install else missing)

    @property
    def _place(self) -> PackageFolder:
        return PackageFolder(self.lock, self.interpreter.identity, self._write_lock, self._install)

    def _write_lock(self) -> None:
        """Resolve to exact versions with the hashes of their files."""
        with scratch_beside(self.lock.parent) as work:
            Path(work, "wanted.txt").write_text("\n".join(self.requirements) + "\n", "utf-8")
            options = ["--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
            self._uv(["compile", *options, "--output-file", "lock.txt", "wanted.txt"], work)
            Path(work, "lock.txt").replace(self.lock)

    def _install(self, folder: Path, lock: str) -> None:
        """Fill the folder with exactly what the lock names."""
        with scratch_beside(folder.parent) as work:
            Path(work, "lock.txt").write_text(lock, "utf-8")
            options = ["--target", "packages", "--require-hashes", "--no-deps", "--link-mode", "copy", "--compile-bytecode"]
            self._uv(["install", *options, "--requirements", "lock.txt"], work)
            made = Path(work, "packages")
            made.mkdir(exist_ok=True)  # every requirement may have a marker that says: not here
            shutil.rmtree(made / "__pycache__", ignore_errors=True)
            move_into_place(made, folder)

    def _uv(self, words: list[str], work: Path) -> None:
        """One call of `uv pip` with no settings but ours, and a network that is the index."""
        program = find_uv()
        if program is None:
            raise unavailable(self.requirements, "installing packages needs uv", _NO_UV)
        index = PackageIndex.configured(self.settings)
        command = (program, "--no-config", "pip", *words, "--quiet", "--python", self.interpreter.program)
        if self.build:
            from skillyard.environments.sandboxed_build import build_in_sandbox

            build_in_sandbox(command, work, index, self.requirements, _REASONS)
            return
        cache = str(environments_folder().parent / "uv")
        InstallCall(
            "uv",
            (*command, "--only-binary", ":all:"),
            str(work),
            index,
            self.requirements,
            lambda proxy, home: uv_environment(index, proxy, home, cache),
            _REASONS,
            PYTHON_INDEX.hosts_setting,
        ).run()


def uv_environment(index: PackageIndex, proxy: str, home: str, cache: str) -> dict[str, str]:
    """All variables that uv gets: nothing of the machine's but whom it trusts; `home` is empty, `cache` keeps downloads."""
    return installer_environment(proxy, home) | {
        "UV_CACHE_DIR": cache,
        "UV_DEFAULT_INDEX": index.url,  # not on the command line: it may hold a password
        "UV_NO_CONFIG": "1",
        "UV_KEYRING_PROVIDER": "disabled",
        "UV_PYTHON_DOWNLOADS": "never",
    }


def require_python(requires_python: str, version: tuple[int, int, int], allowed: bool) -> None:
    """Refuse a script that is for another Python.

    Raises:
        NotExecutable: it is.
    """
    if not allowed:
        here = ".".join(map(str, version[:2]))
        raise NotExecutable(
            f"the script is for Python {requires_python}, this one is {here}", hint="run Skillyard on such a Python"
        )


def find_uv() -> str | None:
    """The program `uv`: of the Python package beside this Python, else on a trusted `PATH`; `None` when there is none."""
    from skillyard.sandbox import on_trusted_path  # only where something is installed

    own = Path(sys.prefix, "bin", "uv")
    return str(own) if own.is_file() else next(on_trusted_path("uv"), None)
