"""Preparation of a session: a persistent sandbox with one program that takes requests over its input.

The folder of a session is shown to it as it is, writable. So is all that is given to it read-only. When this process is root,
the session is the user that the folder belongs to: one that owns nothing else, or the one it was found with.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.errors import FileMissing, InvalidInput, RuntimeUnavailable
from skillyard.sandbox.cgroups import Cgroup, make_cgroup
from skillyard.sandbox.folder_owners import FolderLoan, give_to, lend_folder, session_identity
from skillyard.sandbox.job import (
    NODE_PACKAGES_INSIDE,
    NOTHING_GRANTED,
    GrantedEnvironment,
    PackageFolders,
)
from skillyard.sandbox.policy import Policy, base_environment
from skillyard.sandbox.process_launch import Identity
from skillyard.sandbox.runtimes import Runtime, is_system, runtime_for
from skillyard.sandbox.staging import CACHE, COMPILED, StagedCopy, copy_held, new_stage

if TYPE_CHECKING:
    from skillyard.network import RunProxy
    from skillyard.sandbox.process_launch import Descriptors

_log: Final = logging.getLogger(__name__)
_MEBIBYTE: Final = 1024 * 1024
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
_NOT_A_TARGET: Final = ("/workspace", "/proc", "/dev", "/opt/skillyard", "/etc")
# What a session installs belongs to it alone: the system is read-only, and its packages may not be managed by others' tools.
_PACKAGE_MANAGERS: Final = {
    "PIP_BREAK_SYSTEM_PACKAGES": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "npm_config_audit": "false",
    "npm_config_fund": "false",
    "npm_config_update_notifier": "false",
}
_WITHOUT_NETWORK: Final = {"PIP_RETRIES": "0", "npm_config_offline": "true"}  # they fail at once, and not after minutes
_NODE_ENTRIES: Final = (".ts", ".js")  # a node that runs both comes first


@dataclass(frozen=True, slots=True)
class ReadOnlyMount:
    """A folder or file of this machine that a session may read, at the path `target` (that of the source when it is empty).

    Landlock shows each at its own path only. In one `without_compiled` nothing replaces compiled Python, so that what
    runs is what was read; Landlock cannot do that.
    """

    source: str
    target: str = ""
    without_compiled: bool = False


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """A session to open over `folder`: what runs in it first, and what it may see.

    `program` is the file name of the Python program that speaks over the session's pipes, `files` that file and those it may
    import, by name. `environment` is what it is granted. With its `local_sockets` the programs of the session may speak with
    each other over sockets that are files, as browsers do; then no socket of another program may lie in what it sees. Landlock
    has none. `held` are paths below the folder, of files and folders, that the session sees as read-only copies; Landlock shows
    the originals, which it can write. With `read_only` it can write nothing there. The folder is a user's when
    `owners_home` says in which home of Skillyard its owners are recorded: it has them again when the session has ended. With a
    `proxy` of its own that serves the session's network, whatever the policy says of hosts; only bubblewrap has a place for it.
    """

    folder: str
    program: str
    files: Mapping[str, bytes]
    policy: Policy
    mounts: tuple[ReadOnlyMount, ...] = ()
    environment: GrantedEnvironment = NOTHING_GRANTED
    held: tuple[str, ...] = ()
    read_only: bool = False
    owners_home: str = ""
    proxy: RunProxy | None = None


@dataclass(frozen=True, slots=True)
class PreparedSession:
    """Everything decided before a session starts.

    `hidden` are the folders that keep its user from what it is to see. `counted_by` names the control group that counts memory
    and processes, empty where none does; `cgroup` is that group where it is this process's to make.
    `held` has, by the path below the folder, the copy of what is shown read-only; `loan` is the right to a user's folder.
    `covers` are empty files and folders, each with the path in a mount that it covers.
    """

    request: SessionRequest
    folder: str
    mounts: tuple[ReadOnlyMount, ...]
    runtime: Runtime
    node: Runtime | None
    identity: Identity | None
    stage: StagedCopy
    cgroup: Cgroup | None
    hidden: tuple[str, ...] = ()
    counted_by: str = ""
    held: Mapping[str, str] = field(default_factory=dict)
    loan: FolderLoan | None = None
    covers: tuple[tuple[str, str], ...] = ()

    @property
    def policy(self) -> Policy:
        """What the session may do."""
        return self.request.policy

    @property
    def program(self) -> str:
        """The file name of its first program."""
        return self.request.program

    @property
    def shown(self) -> tuple[str, ...]:
        """The real paths of its folder and of everything of this machine that it is shown beside the system."""
        return _shown(self.folder, self.mounts, self.request.environment)

    @property
    def extra_programs(self) -> tuple[str, ...]:
        """Single programs outside the system's folders that the session is shown."""
        return self.node.extra_programs if self.node else ()

    def command(self, program: str, descriptors: Descriptors, limits: Mapping[str, int]) -> list[str]:
        """The command line of the first program: the numbers of its result pipe and its gate, and the limits it has to set."""
        text = ",".join(f"{name}={number}" for name, number in limits.items())
        return [self.runtime.program, "-I", "-S", "-B", program, str(descriptors.result), str(descriptors.gate), text]

    def names(self, programs: str) -> Iterator[tuple[str, str]]:
        """What the session can call by these names whatever the system has: names, and the paths of the programs.

        Programs outside of the system's folders are in the folder `programs`, when that is not empty.
        """
        yield from (("python", self.runtime.program), ("python3", self.runtime.program))
        if self.node is not None:
            moved = self.node.with_programs_in(programs) if programs else self.node
            yield "node", moved.program
            if moved.compiler:
                yield "esbuild", moved.compiler

    def environment(self, *, scratch: str, programs: str, seen: PackageFolders) -> dict[str, str]:
        """The variables the session begins with; `programs` is the folder of the names of `names`."""
        base = base_environment(scratch=scratch)
        for name in ("SKILL_RESULT_FD", "SKILL_PROTOCOL"):
            del base[name]
        base["PATH"] = f"{programs}:{base['PATH']}:{scratch}/.local/bin"
        base |= {**_PACKAGE_MANAGERS, "npm_config_prefix": f"{scratch}/.local"}
        if not self.policy.reaches_network:
            base |= _WITHOUT_NETWORK
        return {**self.request.environment.process_variables(base, seen), **self.policy.environment}

    def release(self) -> None:
        """Remove its stage, and give a user's folder back; nothing of the session runs any more. Blocks."""
        try:
            self.stage.remove()
        finally:
            if self.loan is not None:
                self.loan.give_back()

    def is_hidden(self, path: str) -> bool:
        """Whether the session's user could not reach a path."""
        return any(path.startswith(f"{folder}/") for folder in self.hidden)


def session_limits(session: PreparedSession) -> Mapping[str, int]:
    """The process limits of everything in a session, by the names of `resource.RLIMIT_*`.

    Time is limited for each command and not for the session, so no process has a limit of processor time.
    """
    policy = session.policy
    limits = {"CORE": 1, "NOFILE": policy.nofile, "FSIZE": policy.file_size_mb * _MEBIBYTE, "STACK": 8 * _MEBIBYTE}
    if not session.counted_by:
        limits["DATA"] = policy.memory_bytes + 8192 * _MEBIBYTE  # node reserves that much; the watchdog counts what is used
    return limits


def prepare_session(
    request: SessionRequest,
    *,
    own_folders: bool,
    extra_bytes: int,
    extra_processes: int,
    runtime: Runtime | None = None,
    counted_by: str | None = None,
) -> PreparedSession:
    """Make everything a session needs beside its process; blocks. The caller removes its cgroup and calls `release`.

    `runtime` is its Python where that is not this machine's to say, which then has no node to show either; with `counted_by` no
    group is made, because something else counts (empty: nothing does).

    Raises:
        FileMissing: there is no such folder.
        InvalidInput: a mount cannot be made.
        RuntimeUnavailable: there is no Python for it.
    """
    folder = os.path.realpath(request.folder)
    if not Path(folder).is_dir():
        raise FileMissing(f"there is no folder {request.folder!r} to work in", hint="make it first")
    mounts, compiled = _without_compiled(_mounts(request.mounts, folder))
    shown = _shown(folder, mounts, request.environment)
    if request.environment.local_sockets:
        _refuse_sockets(shown)
    as_other = os.geteuid() == 0
    node = _node(as_other=as_other) if runtime is None else None
    runtime = runtime or runtime_for("session.py", as_other=as_other)
    identity, loan = _owner(request, folder)
    with contextlib.ExitStack() as undo:
        if loan is not None:
            undo.callback(loan.give_back)
        stage = new_stage(identity)
        undo.callback(stage.remove)
        stage.add_environment(request.environment, identity, node_inside="" if own_folders else NODE_PACKAGES_INSIDE)
        os.mkdir(stage.tree, 0o755)
        Path(stage.tree).chmod(0o755)
        for name, data in request.files.items():
            stage.add_file(f"skill/{name}", data)
        cgroup = None
        if counted_by is None:
            memory, pids = request.policy.memory_bytes + extra_bytes, request.policy.pids + extra_processes + 1
            cgroup = make_cgroup(memory_bytes=memory, pids=pids)
        hidden = _closed(shown) if identity else ()
        counter = counted_by or (cgroup.name if cgroup else "")
        covers = _covers(stage, compiled)
        held = copy_held(stage, folder, request.held, identity if not own_folders else None, whole=own_folders)
        session = PreparedSession(
            request, folder, mounts, runtime, node, identity, stage, cgroup, hidden, counter, held, loan, covers
        )
        if own_folders:
            stage.add_folder(stage.scratch, identity)
            stage.add_programs(session.names(""))
        undo.pop_all()
    return session


def _node(*, as_other: bool) -> Runtime | None:
    for ending in _NODE_ENTRIES:
        with contextlib.suppress(RuntimeUnavailable):
            return runtime_for(f"code{ending}", as_other=as_other)
    return None


def _mounts(mounts: Iterable[ReadOnlyMount], folder: str) -> tuple[ReadOnlyMount, ...]:
    """The mounts with real sources, without those that are seen anyway because they lie in the system or in another."""
    found: dict[str, ReadOnlyMount] = {}
    for mount in mounts:
        source, target = os.path.realpath(mount.source), os.path.normpath(mount.target or mount.source)
        if not target.startswith("/") or "\0" in target or any(_within(target, place) for place in _NOT_A_TARGET):
            raise InvalidInput(f"nothing can be mounted at {target!r} in a workspace", hint="give an absolute path elsewhere")
        if not os.path.exists(source):
            raise FileMissing(f"there is nothing at {mount.source!r} to show to the workspace")
        if _within(folder, source):
            raise InvalidInput(f"{source} holds the workspace itself", hint="mount a folder that does not")
        if not any(_within(target, place) for place in _SYSTEM):
            found.setdefault(target, replace(mount, source=source, target=target))
    return tuple(
        mount for target, mount in sorted(found.items()) if not any(_within(target, one) for one in found if one != target)
    )


_MOST_COMPILED: Final = 1_000  # in one mount


def _without_compiled(mounts: Iterable[ReadOnlyMount]) -> tuple[tuple[ReadOnlyMount, ...], dict[str, bool]]:
    """The mounts, and the paths in them of compiled Python that is to be covered, with whether it is a folder.

    A mount with very much of it is left out: it could not be covered in time.
    """
    kept: list[ReadOnlyMount] = []
    compiled: dict[str, bool] = {}
    for mount in mounts:
        found = dict(islice(_compiled(mount), _MOST_COMPILED + 1)) if mount.without_compiled else {}
        if len(found) > _MOST_COMPILED:
            _log.warning("%s is not shown to a session: it has over %d compiled files", mount.source, _MOST_COMPILED)
            continue
        kept.append(mount)
        compiled |= found
    folders = {path for path, is_folder in compiled.items() if is_folder}
    return tuple(kept), {path: one for path, one in compiled.items() if folders.isdisjoint(map(str, Path(path).parents))}


def _compiled(mount: ReadOnlyMount) -> Iterator[tuple[str, bool]]:
    """The paths of compiled Python in a mount, as the session sees them; of a link, what it leads to inside of the mount."""
    for folder, names, files in os.walk(mount.source):
        wanted = [(name, True) for name in names if name == CACHE] + [
            (name, False) for name in files if name.endswith(COMPILED)
        ]
        names[:] = (name for name in names if name != CACHE)
        for name, is_folder in wanted:
            real = os.path.realpath(f"{folder}/{name}")
            if real != mount.source and _within(real, mount.source) and os.path.isdir(real) == is_folder:
                yield mount.target + real.removeprefix(mount.source), is_folder


def _covers(stage: StagedCopy, compiled: Mapping[str, bool]) -> tuple[tuple[str, str], ...]:
    """An empty file or folder for each path."""
    if not compiled:
        return ()
    file, folder = stage.add_file("nothing", b""), f"{stage.base}/nothing.d"
    os.mkdir(folder, 0o755)
    return tuple((folder if is_folder else file, path) for path, is_folder in sorted(compiled.items()))


_DEEPEST: Final = 200  # folders in folders that are looked into


def _shown(folder: str, mounts: Iterable[ReadOnlyMount], environment: GrantedEnvironment) -> tuple[str, ...]:
    """The real paths of everything of this machine that a session sees beside the system."""
    granted = (os.path.realpath(path) for path in environment.mounts if not is_system(path))
    return (folder, *(mount.source for mount in mounts), *granted)


def _refuse_sockets(folders: Iterable[str]) -> None:
    """Refuse what holds a socket of a program outside: whoever may make local sockets could speak to it."""
    for folder in folders:
        for base, folders, files, opened in os.fwalk(folder, follow_symlinks=False):
            if folders and base.count("/") - folder.count("/") >= _DEEPEST:
                raise InvalidInput(f"{folder} has folders nested too deep", hint=f"at most {_DEEPEST} levels")
            for name in files:
                with contextlib.suppress(FileNotFoundError):
                    if stat.S_ISSOCK(os.stat(name, dir_fd=opened, follow_symlinks=False).st_mode):
                        raise InvalidInput(
                            f"{base}/{name} is a socket of another program", hint="remove it, or work in another folder"
                        )


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _owner(request: SessionRequest, folder: str) -> tuple[Identity | None, FolderLoan | None]:
    """Who the session is when this process is root, and the right to a folder that is a user's. The folder is given to it."""
    if os.geteuid() != 0:
        return None, None
    if request.owners_home:
        return lend_folder(folder, request.owners_home)
    identity = session_identity(os.stat(folder))
    give_to(folder, identity)
    return identity, None


def _closed(paths: Iterable[str]) -> tuple[str, ...]:
    """The topmost folders above `paths` through which other users may not pass."""
    closed: dict[str, None] = {}
    for path in paths:
        for above in reversed(Path(path).parents):
            if not above.stat().st_mode & stat.S_IXOTH:
                closed.setdefault(str(above))
                break
    return tuple(closed)
