"""The private copy of a skill that really runs.

The copy holds regular files and folders only, opened without following links, within fixed caps. It is what the sandbox shows,
so a skill that is changed between approval and run cannot slip in, and it can be read by the run's user even when the skill
lies in a private home.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.errors import FileMissing, FileTooLarge, PathRefused
from skillyard.paths import is_reserved, open_inside, safe_relative
from skillyard.sandbox.job import NOTHING_GRANTED, GrantedEnvironment, PackageFolders
from skillyard.sandbox.process_launch import Identity, can_reach
from skillyard.sandbox.processes import OrphanSweeper
from skillyard.sandbox.work_files import WorkFilesSnapshot, copy_files_in, pour

if TYPE_CHECKING:
    from skillyard.sandbox.policy import Policy

MAXIMUM_ENTRIES: Final = 2_000
MAXIMUM_BYTES: Final = 100 * 1024 * 1024
MAXIMUM_FILE_BYTES: Final = 20 * 1024 * 1024
MAXIMUM_DEPTH: Final = 16

_OWN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER: Final = _OWN_FOLDER | os.O_NOFOLLOW
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PREFIX: Final = "skillyard-run-"
SWEEPER: Final = OrphanSweeper("skillyard-[a-z]+-")
CACHE: Final = "__pycache__"
_LEFT_OUT: Final = frozenset({".git", CACHE})
COMPILED: Final = (".pyc", ".pyo")
"""Python loads such a file without its source, or in place of it: what was read is then not what runs."""


@dataclass(slots=True)
class StagedCopy:
    """A temporary folder with everything one run needs; `remove()` when the run has ended.

    `tree` is the skill's copy, `runner` our own script beside it, `library`, `packages` and `modules` the folders of what the
    script may import beside its own files (ours, Python's and node's), `linked` that of node's where ours has links to them,
    `environment` what it is granted, `commands` those made for it, `scratch` and `workspace` folders the run may write to when
    its backend has no file systems of its own.
    """

    base: str
    runner: str = ""
    library: str = ""
    packages: str = ""
    modules: str = ""
    linked: str = ""
    commands: str = ""
    environment: GrantedEnvironment = NOTHING_GRANTED
    left_out: frozenset[str] = frozenset()
    seeded: WorkFilesSnapshot | None = None
    skipped: list[str] = field(default_factory=list)
    entries: int = 0
    total: int = 0

    @property
    def tree(self) -> str:
        """The copy of the skill."""
        return f"{self.base}/skill"

    @property
    def scratch(self) -> str:
        """The run's temporary folder."""
        return f"{self.base}/scratch"

    @property
    def programs(self) -> str:
        """The folder of names under which programs are called."""
        return f"{self.base}/bin"

    @property
    def workspace(self) -> str:
        """The run's writable workspace."""
        return f"{self.base}/workspace"

    def add_file(self, name: str, data: bytes) -> str:
        """Put a file of ours beside the skill; its path."""
        path = f"{self.base}/{name}"
        _write(path, data)
        return path

    def add_library(self, name: str, files: Mapping[str, bytes]) -> None:
        """Put files of ours that the script may import into the folder `name` beside the skill."""
        self.library = f"{self.base}/{name}"
        for relative, data in files.items():
            self._add_folders(f"{name}/{relative}")
            _write(f"{self.library}/{relative}", data)

    def _add_folders(self, relative: str) -> None:
        """Make the folders above a path below our own."""
        for folder in reversed(Path(relative).parents[:-1]):
            Path(self.base, folder).mkdir(exist_ok=True)
            Path(self.base, folder).chmod(0o755)

    @property
    def package_folders(self) -> PackageFolders:
        """Where what is granted lies on this machine."""
        return PackageFolders(self.packages, self.modules, self.commands)

    @property
    def granted_folders(self) -> tuple[str, ...]:
        """The folders with what is granted, and those that they lead to."""
        return tuple(path for path in (self.packages, self.modules, self.linked, self.commands) if path)

    def add_programs(self, names: Iterable[tuple[str, str]]) -> None:
        """Make the folder of `programs` with these names, each a link to the path of its program."""
        os.mkdir(self.programs, 0o755)
        Path(self.programs).chmod(0o755)
        for name, path in names:
            os.symlink(path, f"{self.programs}/{name}")

    def add_environment(self, environment: GrantedEnvironment, identity: Identity | None, *, node_inside: str) -> None:
        """Put what is granted beside the skill; `node_inside` is where npm packages will be seen, empty for here."""
        self.environment = environment
        if environment.commands:
            self.commands = f"{self.base}/commands"
            for name, script in environment.commands.items():
                self._add_folders(f"commands/{name}")
                _write(f"{self.commands}/{name}", script.encode())
                Path(self.commands, name).chmod(0o555)
        if environment.python_packages:
            self.packages = f"{self.base}/packages"
            _link_or_copy(environment.python_packages, self.packages, identity)
        if environment.node_modules:
            self.modules = f"{self.base}/node_modules"
            if self.library == self.modules:
                self.linked = f"{self.base}/npm"
            _link_or_copy(environment.node_modules, self.linked or self.modules, identity)
            if self.linked:
                self._link_modules(node_inside or self.linked)

    def _link_modules(self, target: str) -> None:
        """Make a link for each npm package beside our own library, where node looks from any folder."""
        with os.scandir(self.linked) as items:
            for item in items:
                with contextlib.suppress(FileExistsError):  # our own library comes first
                    os.symlink(f"{target}/{item.name}", f"{self.modules}/{item.name}")

    def add_folder(self, path: str, owner: Identity | None) -> None:
        """Make a private folder that the run owns."""
        os.mkdir(path, 0o700)
        if owner:
            os.chown(path, owner.uid, owner.gid)

    def add_workspace(self, folder: str, owner: Identity | None, policy: Policy) -> None:
        """Make the workspace, with a copy of the files that the run is to work on when `folder` names any."""
        self.add_folder(self.workspace, owner)
        if folder:
            self.seeded = copy_files_in(folder, self.workspace, owner, policy)

    def remove(self) -> None:
        """Delete the folder and all in it, whatever the run has made of it."""
        _delete(self.base)

    def count(self, size: int, relative: str) -> None:
        """Take one more entry into account.

        Raises:
            FileTooLarge: the skill is over the caps.
        """
        self.entries += 1
        self.total += size
        if self.entries > MAXIMUM_ENTRIES or self.total > MAXIMUM_BYTES or size > MAXIMUM_FILE_BYTES:
            raise FileTooLarge(
                f"the skill is too large to run (at {relative!r})",
                hint=f"at most {MAXIMUM_ENTRIES} files, {MAXIMUM_FILE_BYTES} bytes each, {MAXIMUM_BYTES} bytes in all",
            )


def _write(path: str, data: bytes) -> None:
    """A new file that everyone may read, whatever the umask is."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as sink:
        sink.write(data)
        os.fchmod(file, 0o444)


def _link_or_copy(folder: str, target: str, identity: Identity | None) -> None:
    """A link to a folder of installed packages; a copy when the run could not reach it."""
    if can_reach(folder, as_other=identity is not None):
        os.symlink(folder, target)
    else:
        shutil.copytree(folder, target, copy_function=_second_name, symlinks=True)
        Path(target).chmod(0o755)


def _second_name(source: str, target: str) -> None:
    """The same file under another name; a copy when that lies on another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
        Path(target).chmod(0o444)


def stage_skill(tree: str, entry: str, *, whole: bool, complete: bool, identity: Identity | None) -> StagedCopy:
    """Copy the skill at `tree` into a fresh temporary folder; only `entry` when not `whole`.

    `.git` and compiled Python are left out, unless the copy must be `complete` because it is going to be compared;
    `without_compiled` takes the latter away afterwards.
    Links, devices and sockets are left out and named in `skipped`.

    Raises:
        PathRefused: `entry` is not a regular file inside the skill.
        FileMissing: there is no such entry, or no such folder.
        FileTooLarge: the skill is over the caps.
    """
    entry = safe_relative(entry)
    os.close(open_inside(_folder(tree), entry))
    made = new_stage(identity)
    made.left_out = frozenset() if complete else _LEFT_OUT
    try:
        os.mkdir(made.tree, 0o755)
        Path(made.tree).chmod(0o755)  # whatever the umask is
        if whole:
            _copy_folder(made, os.open(tree, _OWN_FOLDER), os.open(made.tree, _FOLDER), "", 1)
        else:
            _copy_one(made, tree, entry)
        if not Path(made.tree, entry).is_file():
            raise FileMissing(f"there is no file {entry!r}")
    except BaseException:
        made.remove()
        raise
    return made


def without_compiled(made: StagedCopy) -> StagedCopy:
    """The copy without compiled Python, which no run loads: its source is what was read and agreed to."""
    for folder, names, files in os.walk(made.tree):
        for name in files:
            if name.endswith(COMPILED):
                os.unlink(os.path.join(folder, name))  # our own copy, without links
        if CACHE in names:
            names.remove(CACHE)
            _delete(os.path.join(folder, CACHE))  # as above
    return made


def new_stage(identity: Identity | None) -> StagedCopy:
    """A fresh temporary folder with nothing in it yet; what dead processes of this user left behind goes."""
    parent = _parent(identity)
    SWEEPER.sweep(parent, _delete_own)
    made = StagedCopy(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))
    if identity:
        Path(made.base).chmod(0o711)  # the run's user passes through and cannot list
    return made


def copy_held(
    stage: StagedCopy, folder: str, paths: Iterable[str], owner: Identity | None, *, whole: bool
) -> Mapping[str, str]:
    """Copies, in a private folder of the stage, of files and folders below `folder`, by their paths; no link is followed.

    What is gone is left out. Of what is too large there is an empty copy, unless the copies must be `whole`.

    Raises:
        FileTooLarge: something is too large, and must be whole.
    """
    copies: dict[str, str] = {}
    for number, path in enumerate(paths):
        if not copies:
            stage.add_folder(f"{stage.base}/held", owner)
        target, made = f"{stage.base}/held/{number}", StagedCopy(stage.base)
        try:
            source, name = _open_above(folder, path)
        except OSError:
            continue
        try:
            is_folder = stat.S_ISDIR(os.stat(name, dir_fd=source, follow_symlinks=False).st_mode)
            (_copy_held_folder if is_folder else _copy_held_file)(made, source, name, target)
        except (FileTooLarge, PathRefused):
            if whole:
                raise
            _delete(target) if is_folder else _try(os.unlink, target)
            _try(os.mkdir, target, 0o755) if is_folder else _write(target, b"")
        except OSError:
            continue
        finally:
            os.close(source)
        copies[path] = target
    return copies


def _open_above(folder: str, path: str) -> tuple[int, str]:
    """The open folder that a path is in, and its name there; every folder on the way is one and no link."""
    *parents, name = path.split("/")
    at = os.open(folder, _FOLDER)
    for parent in parents:
        try:
            below = os.open(parent, _FOLDER, dir_fd=at)
        finally:
            os.close(at)
        at = below
    return at, name


def _copy_held_folder(made: StagedCopy, source: int, name: str, target: str) -> None:
    below = os.open(name, _FOLDER, dir_fd=source)
    os.mkdir(target, 0o755)
    Path(target).chmod(0o755)
    _copy_folder(made, below, os.open(target, _FOLDER), "", 1)


def _copy_held_file(made: StagedCopy, source: int, name: str, target: str) -> None:
    folder = os.open(os.path.dirname(target), _FOLDER)
    try:
        _copy_file(made, os.open(name, _FILE, dir_fd=source), os.path.basename(target), folder, name)
    finally:
        os.close(folder)


def _folder(tree: str) -> str:
    if not Path(tree).is_dir():
        raise FileMissing(f"there is no skill folder {tree!r}")
    return tree


def _parent(identity: Identity | None) -> str:
    """Where to make the folder: the default location, or one the run's user can reach."""
    usual = tempfile.gettempdir()
    if identity is None or can_reach(usual, as_other=True):
        return usual
    return next((location for location in ("/tmp", "/var/tmp") if can_reach(location, as_other=True)), usual)  # noqa: S108 # mkdtemp follows


def _delete_own(base: str) -> None:
    """Delete what a process of this user left behind."""
    with contextlib.suppress(OSError):
        if os.lstat(base).st_uid == os.geteuid():
            _delete(base)


def _delete(base: str) -> None:
    """Delete a folder: also folders in it that nobody may open, and a nest deeper than a path is long.

    Each folder found is moved up to `base` before it is looked into. What resists even so is left to the system's own cleaning.
    """
    waiting = [base]
    for folder in waiting:  # grows while it runs
        for item in _items(folder):
            if item.is_dir(follow_symlinks=False):
                _try(os.chmod, item.path, 0o700)
                raised = f"{base}/{_PREFIX}{len(waiting)}"
                waiting.append(raised if _try(os.rename, item.path, raised) else item.path)
            else:
                _try(os.unlink, item.path)
    for folder in reversed(waiting):
        _try(os.rmdir, folder)


def _items(folder: str) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as items:
        return list(items)
    return []


def _try(call: Callable[..., object], *values: object) -> bool:
    try:
        call(*values)
    except OSError:
        return False
    return True


def _copy_folder(made: StagedCopy, source: int, target: int, prefix: str, depth: int) -> None:
    try:
        if depth > MAXIMUM_DEPTH:
            raise PathRefused(f"{prefix!r} is too deep", hint=f"a skill has at most {MAXIMUM_DEPTH} levels of folders")
        with os.scandir(source) as items:
            for item in items:
                if item.name not in made.left_out and not (made.left_out and item.name.endswith(COMPILED)):
                    _copy_item(made, item, source, target, f"{prefix}{item.name}", depth)
    finally:
        os.close(source)
        os.close(target)


def _copy_item(made: StagedCopy, item: os.DirEntry[str], source: int, target: int, relative: str, depth: int) -> None:
    if item.is_dir(follow_symlinks=False):
        made.count(0, relative)
        below = _open_item(item.name, _FOLDER, source)
        if below is not None:
            os.mkdir(item.name, 0o755, dir_fd=target)
            copy = os.open(item.name, _FOLDER, dir_fd=target)
            os.fchmod(copy, 0o755)
            _copy_folder(made, below, copy, f"{relative}/", depth + 1)
            return
    elif item.is_file(follow_symlinks=False):
        file = _open_item(item.name, _FILE, source)
        if file is not None:
            _copy_file(made, file, item.name, target, relative)
            return
    made.skipped.append(relative)


def _open_item(name: str, flags: int, folder: int) -> int | None:
    if is_reserved(name, within=folder):
        return None
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError:
        return None  # gone, unreadable, or turned into a link since the listing


def _copy_one(made: StagedCopy, tree: str, entry: str) -> None:
    folders, name = entry.split("/")[:-1], entry.split("/")[-1]
    folder_path = Path(made.tree)
    for folder in folders:
        folder_path /= folder
        folder_path.mkdir()
        folder_path.chmod(0o755)
    target = os.open(folder_path, _FOLDER)
    try:
        _copy_file(made, open_inside(tree, entry), name, target, entry)
    finally:
        os.close(target)


def _copy_file(made: StagedCopy, file: int, name: str, target: int, relative: str) -> None:
    """Copy one open file; the mode becomes 0644, or 0755 when its owner may execute it, as copies of it are to be changed."""
    with os.fdopen(file, "rb"):
        state = os.fstat(file)
        if not stat.S_ISREG(state.st_mode):
            made.skipped.append(relative)
            return
        made.count(state.st_size, relative)
        copy = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=target)
        with os.fdopen(copy, "wb"):
            pour(file, copy, state.st_size)
            os.fchmod(copy, 0o755 if state.st_mode & stat.S_IXUSR else 0o644)
