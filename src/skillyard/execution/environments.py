"""The packages a script asks for, installed once, locked by hash, and kept in `$SKILLYARD_HOME/cache/environments/`.

Resolving and installing is the only step with a network, and only where the operator allows it. Nothing that is downloaded
runs: built wheels only. A folder is made whole under another name and then moved into place, so that any number of processes
may want the same one.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.errors import DependenciesUnavailable, FileMissing, NotExecutable
from skillyard.execution.script_block import ScriptBlock, read_script_block
from skillyard.paths import read_inside
from skillyard.sandbox import interpreter_for

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["environment_for", "environments_folder", "find_uv"]

_MARK: Final = b"# /// script"
_SCRIPT_LIMIT: Final = 20 * 1024 * 1024
_PATIENCE: Final = 300  # seconds for one call of uv
_TAIL: Final = 1_000
_ALLOW: Final = (
    "allow it once with --install, or for all runs with `install-dependencies = true` in the [sandbox] table of skillyard.toml"
)
_NO_UV: Final = "pip install 'skillyard[scripts]', or install uv"


def environments_folder() -> str:
    """Where environments and their locks are kept."""
    from skillyard.catalog import home_directory  # only for scripts that need packages

    return str(Path(home_directory(), "cache", "environments"))


def environment_for(directory: str, entry: str, *, install: bool) -> str:
    """The folder with the packages the script `entry` of the skill in `directory` asks for, empty when it asks for none.

    What is not there yet is resolved and installed when `install` says so. Blocks; may take as long as downloading does.

    Raises:
        DependenciesUnavailable: they are not there and may not, or cannot, be installed.
        NotExecutable: its block cannot be understood, or it is for another Python.
    """
    if not entry.endswith(".py"):
        return ""
    try:
        source = read_inside(directory, entry, limit=_SCRIPT_LIMIT)
    except FileMissing:
        return ""  # the run itself says so
    if _MARK not in source:
        return ""
    block = read_script_block(source.decode("utf-8", "replace"))
    interpreter = _Interpreter.of(interpreter_for(entry))
    if not block.allows(interpreter.version):
        here = ".".join(map(str, interpreter.version))
        raise NotExecutable(
            f"the script is for Python {block.requires_python}, this one is {here}", hint="run Skillyard on such a Python"
        )
    return _folder(block, interpreter, install=install) if block.dependencies else ""


@dataclass(frozen=True, slots=True)
class _Interpreter:
    """The Python that runs scripts in the sandbox."""

    program: str
    version: tuple[int, int]

    @classmethod
    def of(cls, program: str) -> _Interpreter:
        return cls(os.path.realpath(program), _python_version(program))

    @property
    def identity(self) -> str:
        return f"{self.program} {self.version} {os.uname().machine}"


@lru_cache(maxsize=4)
def _python_version(program: str) -> tuple[int, int]:
    """The version in the program's own name (`python3.11`), else what it says."""
    _, _, minor = Path(os.path.realpath(program)).name.partition("python3.")
    if minor.isdigit():
        return 3, int(minor)
    import subprocess  # a program of another name

    code = "import sys; print(sys.version_info.minor)"
    answer = subprocess.run([program, "-I", "-S", "-c", code], capture_output=True, text=True, check=True, timeout=10)  # noqa: S603
    return 3, int(answer.stdout)


def _folder(block: ScriptBlock, interpreter: _Interpreter, *, install: bool) -> str:
    wanted = "\n".join([*sorted(block.dependencies), block.requires_python, interpreter.identity])
    base = Path(environments_folder())
    lock = base / f"{_digest(wanted)}.lock"
    if not lock.exists():
        _require_permission(block, install=install)
        _write_lock(lock, block, interpreter)
    folder = base / _digest(lock.read_text("utf-8") + interpreter.identity)
    if not folder.is_dir():
        _require_permission(block, install=install)
        _install(folder, lock, block, interpreter)
    return str(folder)


def _digest(text: str) -> str:
    import hashlib  # only for scripts that need packages

    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _require_permission(block: ScriptBlock, *, install: bool) -> None:
    if not install:
        raise _unavailable(block, "the script needs packages that are not installed", _ALLOW)


def _unavailable(block: ScriptBlock, what: str, hint: str) -> DependenciesUnavailable:
    wanted = list(block.dependencies)
    return DependenciesUnavailable(f"{what}: {', '.join(wanted)}", hint=hint, dependencies=wanted)


def _write_lock(lock: Path, block: ScriptBlock, interpreter: _Interpreter) -> None:
    """Resolve to exact versions with the hashes of their files."""
    import tempfile

    lock.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=lock.parent, prefix="new-") as work:
        Path(work, "wanted.txt").write_text("\n".join(block.dependencies) + "\n", "utf-8")
        options = ["--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
        _uv(block, ["compile", *options, "--output-file", "lock.txt", "wanted.txt"], interpreter, work)
        Path(work, "lock.txt").replace(lock)


def _install(folder: Path, lock: Path, block: ScriptBlock, interpreter: _Interpreter) -> None:
    """Fill the folder with exactly what the lock names."""
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="new-") as work:
        shutil.copyfile(lock, Path(work, "lock.txt"))
        options = ["--target", "packages", "--require-hashes", "--no-deps", "--link-mode", "copy", "--compile-bytecode"]
        _uv(block, ["install", *options, "--requirements", "lock.txt"], interpreter, work)
        made = Path(work, "packages")
        made.mkdir(exist_ok=True)  # every requirement may have a marker that says: not here
        made.chmod(0o755)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # otherwise another process was faster
                raise


def _uv(block: ScriptBlock, words: Sequence[str], interpreter: _Interpreter, work: str) -> None:
    """One call of `uv pip` in a folder of its own, so that no settings of a skill or a project steer it."""
    import subprocess  # only where something is installed

    program = find_uv()
    if program is None:
        raise _unavailable(block, "installing packages needs uv", _NO_UV)
    command = [program, "pip", *words, "--quiet", "--python", interpreter.program, "--only-binary", ":all:"]
    try:
        done = subprocess.run(command, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise _unavailable(block, f"uv took longer than {_PATIENCE} seconds", "try again, or look at the network") from None
    if done.returncode != 0:
        why = " ".join(done.stderr.decode("utf-8", "replace").split())[-_TAIL:]
        raise _unavailable(block, "the packages cannot be installed", why or "run `uv pip compile` to see why")


def find_uv() -> str | None:
    """The program `uv`: of the Python package beside this Python, else on a trusted `PATH`; `None` when there is none."""
    from skillyard.sandbox import on_trusted_path  # only where something is installed

    own = Path(sys.prefix, "bin", "uv")
    return str(own) if own.is_file() else next(on_trusted_path("uv"), None)
