"""The `bwrap` backend: bubblewrap gives each run its own user, mount, process, network and IPC namespaces.

The run sees the system's programs read-only, a copy of the skill at `/skill`, an empty sized `/tmp`, a fresh `/proc`, the few
devices everyone needs, and no network but, for a run with an allow-list, a proxy of its own. Nothing is mounted below a folder
whose content a skill chose; over files of a user's project copies are, before anything of a session runs. The program is never
looked up through `PATH`, and neither values nor options appear on a command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from skillyard.network.hosts import ANY_HOST
from skillyard.sandbox.job import Job, Level, Limit, Probe, SandboxResult, UnmetRequirement
from skillyard.sandbox.policy import Policy
from skillyard.sandbox.preparation import (
    CERTIFICATES,
    OWN_FOLDER,
    SCRATCH,
    SYSTEM_FILES,
    TOP_FOLDERS,
    PreparedRun,
    granted_mounts,
    own_script,
    run_imports,
    run_variables,
    runner_inside,
    session_variables,
    small_files,
)
from skillyard.sandbox.process_launch import PROXY_PORT, Descriptors, Identity, SandboxCommand
from skillyard.sandbox.run_job import common_limits, process_limits, run_job
from skillyard.sandbox.runtimes import reported_version, runtime_for, settable, version_of
from skillyard.sandbox.seccomp import FilterOptions

if TYPE_CHECKING:
    from skillyard.sandbox.session_preparation import PreparedSession

_PROGRAMS: Final = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap")
_CHROOT: Final = "/usr/sbin/chroot"
_PRLIMIT: Final = "/usr/bin/prlimit"
_UNSHARE: Final = "/usr/bin/unshare"
_OLDEST: Final = (0, 8, 0)
_MEBIBYTE: Final = 1024 * 1024
_SHARED: Final = "/dev/shm"  # noqa: S108 # the same
# A shared mapping of it is memory that nobody is charged with; what bubblewrap binds over it is no device and cannot be opened.
_NO_MEMORY_DEVICE: Final = ("--ro-bind", "/dev/null", "/dev/zero")
REMEDIES: Final = (
    "install bubblewrap 0.8 or newer, for example: apt-get install bubblewrap",
    "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1 (on Ubuntu: keep the AppArmor profile of bwrap)",
    "in a container: allow unprivileged user namespaces in its seccomp profile",
)


@dataclass(frozen=True, slots=True)
class BubblewrapBackend:
    """Runs jobs under bubblewrap; `program` is the trusted, absolute path of `bwrap`."""

    name: ClassVar[str] = "bwrap"
    level: ClassVar[Level] = "namespace"
    own_folders: ClassVar[bool] = False
    own_network: ClassVar[bool] = True
    overhead_processes: ClassVar[int] = 2  # bwrap outside, and bwrap as the first process inside
    overhead_bytes: ClassVar[int] = 2 * _MEBIBYTE
    program: str = field(default_factory=lambda: next((path for path in _PROGRAMS if Path(path).is_file()), _PROGRAMS[0]))

    def probe(self) -> Probe:
        """Whether bubblewrap is here, new enough, and holds against attacks."""
        from skillyard.sandbox.backend_probe import probe_by_attack  # loads asyncio and threads, which only a probe needs

        version = version_of(self.program)
        facts = {"program": self.program, "version": ".".join(map(str, version)) if version else "not installed"}
        if version < _OLDEST:
            reason = f"bubblewrap at {self.program} is {facts['version']}"
            return Probe(self.name, ok=False, reason=reason, remedies=REMEDIES, facts=facts)
        return probe_by_attack(self, binary=self.program, remedies=REMEDIES, facts=facts)

    def supports(self, policy: Policy) -> list[UnmetRequirement]:
        """What of the policy cannot be enforced: only a network without any limit."""
        return [_NO_LIMIT] if policy.reaches_network and ANY_HOST in policy.network_allowlist else []

    async def run(self, job: Job) -> SandboxResult:
        """Run one job; see `run_job`."""
        return await run_job(self, job)

    def files(self) -> tuple[bytes, ...]:
        """The small files of `/etc`."""
        return tuple(small_files(1000, 1000).values())

    def filter_options(self, *, counted: bool) -> FilterOptions:
        """Memory files go when nothing counts them; IPC objects live and die in the run's own namespace."""
        return FilterOptions(uncounted_memory=not counted)

    def limits(self, run: PreparedRun) -> tuple[Limit, ...]:
        """Everything is enforced here."""
        by_proxy = ", proxy" if run.policy.reaches_network else ""
        return (
            *common_limits(run, processes="cgroup" if run.cgroup else "rlimit", files="tmpfs"),
            Limit("network", run.policy.network, True, f"network namespace{by_proxy} and seccomp"),
            Limit("filesystem", run.policy.filesystem, True, "mount namespace"),
        )

    def command(self, run: PreparedRun, descriptors: Descriptors) -> SandboxCommand:
        """The command line (which says nothing) and the options (which go through a pipe)."""
        limits = dict(process_limits(run))
        if run.cgroup is None:
            limits["NPROC"] = run.policy.pids + 1  # counted in the run's own user namespace, with bwrap's first process
        limits = settable(limits)
        first = [] if run.runtime.kind == "python" else _without_cores(limits)
        inner = first + run.runtime.with_programs_in(OWN_FOLDER).command(
            f"/skill/{run.entry}",
            run.job,
            runner=runner_inside(run),
            result=descriptors.result,
            gate=descriptors.gate,
            limits=limits,
            waits=run.waits,
        )
        opening: list[str] = []
        if descriptors.proxy_listener != -1:
            opening, inner = _opened(run, descriptors.proxy_listener, inner)
        options = "\0".join([*_options(run, descriptors.files, opening), ""])
        argv = [self.program, "--args", str(descriptors.control), "--", *inner]
        return _as_user(SandboxCommand(argv, options.encode("utf-8", "surrogateescape")), run.identity)

    def session_command(self, session: PreparedSession, descriptors: Descriptors) -> SandboxCommand:
        """How to start a session; as root it begins in mounts of its own where its user could not reach a folder otherwise."""
        from skillyard.sandbox.session_preparation import session_limits

        limits = dict(session_limits(session))
        if session.cgroup is None:
            limits["NPROC"] = session.policy.pids
        limits = settable(limits)
        program = f"{OWN_FOLDER}session/{session.program}"
        inner = session.command(program, descriptors, limits)
        opening: list[str] = []
        if descriptors.proxy_listener != -1:
            opening, inner = _opened(session, descriptors.proxy_listener, inner)
        options = "\0".join([*_session_options(session, descriptors.files, opening), ""])
        argv = [self.program, "--args", str(descriptors.control), "--", *inner]
        command = _as_user(SandboxCommand(argv, options.encode("utf-8", "surrogateescape")), session.identity)
        if not session.hidden:
            return command
        argv = [*_own_mounts(), self.program, *_uncovering(session), "--", *command.argv]
        return replace(command, argv=argv)


def _without_cores(limits: dict[str, int]) -> list[str]:
    """The start of a command line that sets the limit on cores instead of bash, which does not count it in bytes."""
    core = limits.pop("CORE")
    if Path(_PRLIMIT).exists():
        return [_PRLIMIT, f"--core={core}:{core}", "--"]
    limits["CORE"] = 0
    return []


def _own_mounts() -> list[str]:
    """The start of a command line that takes the machine's mounts over as they are now, so that later changes do not reach it.

    bwrap reads the table of mounts and then changes one after another. Where mounts are shared it gives up when one goes
    meanwhile, for which the end of anybody's container is enough.
    """
    return [_UNSHARE, "--mount", "--propagation", "private", "--"] if Path(_UNSHARE).exists() else []


_NO_LIMIT: Final = UnmetRequirement("network.allowlist", "a run needs each host by name; '*' cannot be enforced")


def _opened(run: PreparedRun | PreparedSession, proxy_listener: int, inner: list[str]) -> tuple[list[str], list[str]]:
    """The mounts for the program that opens the proxy's listener, and its command line, which ends with the skill's own."""
    python = runtime_for("opener.py", as_other=run.identity is not None)
    opener = run.stage.add_file(*own_script("proxy_opener", compiled=python.same_python))
    target = OWN_FOLDER + Path(opener).name
    paths = [path for path in (*python.folders, *CERTIFICATES) if path not in run.runtime.folders and Path(path).exists()]
    mounts = [part for path in paths for part in ("--ro-bind", path, path)]
    command = [python.program, "-I", "-S", "-B", target, str(proxy_listener), str(PROXY_PORT), *inner]
    return [*mounts, "--ro-bind", opener, target], command


def _as_user(command: SandboxCommand, identity: Identity | None) -> SandboxCommand:
    """The command under another user.

    A small program changes the user: Python could, but would have to copy its own page tables first, which takes milliseconds
    for each hundred megabytes of a service. It is `chroot` that stays at `/`, because it takes numbers as they are; `setpriv`
    looks each up as a name first, which takes longer than all else it does.
    """
    if identity is None or "GNU coreutils" not in reported_version(_CHROOT):  # others know fewer options
        return replace(command, user=identity)
    change = [_CHROOT, f"--userspec=+{identity.uid}:+{identity.gid}", "--groups=", "/"]
    return replace(command, argv=[*change, *command.argv])


def _options(run: PreparedRun, files: tuple[int, ...], opening: list[str]) -> list[str]:
    seccomp, *etc = files
    return [
        *_ISOLATION,
        "--clearenv", *_setenv(run_variables(run)),
        *_system(run, etc, opening, shared_mb=16),
        "--ro-bind", run.stage.tree, "/skill",
        *(("--ro-bind", run.stage.runner, runner_inside(run)) if run.stage.runner else ()),
        *_ro_binds(run_imports(run)),
        *(part for path in run.runtime.extra_programs for part in ("--ro-bind", path, OWN_FOLDER + Path(path).name)),
        *_workspace(run),
        "--chdir", "/workspace" if run.has_workspace else "/skill",
        "--remount-ro", "/", "--seccomp", str(seccomp),
    ]  # fmt: skip


_ISOLATION: Final = (
    "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session",
    "--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--cap-drop", "ALL",
)  # fmt: skip


def _system(run: PreparedRun | PreparedSession, etc: list[int], opening: list[str], *, shared_mb: int) -> list[str]:
    """The machine's programs, the small files of `/etc`, `/proc`, `/dev`, and `/tmp` of the sandbox's own."""
    return [
        *_system_mounts(),
        *(part for folder in run.runtime.folders for part in ("--ro-bind", folder, folder)),
        *opening,
        *(part for path, file in zip(small_files(1000, 1000), etc, strict=True) for part in ("--file", str(file), path)),
        "--symlink", "/proc/self/mounts", "/etc/mtab",
        "--proc", "/proc",
        "--dev", "/dev", *(() if run.cgroup else _NO_MEMORY_DEVICE),
        "--size", str(shared_mb * _MEBIBYTE), "--tmpfs", _SHARED, "--remount-ro", "/dev",
        "--size", str(run.policy.tmp_mb * _MEBIBYTE), "--tmpfs", SCRATCH,
    ]  # fmt: skip


def _session_options(session: PreparedSession, files: tuple[int, ...], opening: list[str]) -> list[str]:
    """The mounts of a session: its first process is the program itself, so that it reaps whatever loses its parent."""
    seccomp, *etc = files
    return [
        *_ISOLATION, "--as-pid-1",
        "--clearenv", *_setenv(session_variables(session)),
        *_system(session, etc, opening, shared_mb=64),
        "--ro-bind", session.stage.tree, f"{OWN_FOLDER}session",
        *(part for path in session.extra_programs for part in ("--ro-bind", path, OWN_FOLDER + Path(path).name)),
        *(part for name, path in session.names(OWN_FOLDER) for part in ("--symlink", path, f"{OWN_FOLDER}bin/{name}")),
        *_ro_binds(granted_mounts(session.stage)),
        *(part for mount in session.mounts for part in ("--ro-bind", mount.source, mount.target)),
        *_ro_binds(session.covers),
        "--ro-bind" if session.request.read_only else "--bind", session.folder, "/workspace",
        *(part for path, copy in session.held.items() for part in ("--ro-bind", copy, f"/workspace/{path}")),
        "--chdir", "/workspace",
        "--remount-ro", "/", "--seccomp", str(seccomp),
    ]  # fmt: skip


def _uncovering(session: PreparedSession) -> list[str]:
    """Mounts of root's own in which the folders of the session can be reached by its user, although what is above them cannot.

    Each closed folder on the way is covered by an empty one, and what is to be seen is mounted into that at its usual path.
    """
    covers = [part for folder in session.hidden for part in ("--perms", "0755", "--tmpfs", folder)]
    paths = [path for path in session.shown if session.is_hidden(path)]
    above = dict.fromkeys(str(folder) for path in paths for folder in reversed(Path(path).parents))
    folders = [part for folder in above if session.is_hidden(folder) for part in ("--perms", "0755", "--dir", folder)]
    binds = [part for path in paths for part in ("--bind", path, path)]
    return ["--die-with-parent", "--dev-bind", "/", "/", *covers, *folders, *binds]


def _workspace(run: PreparedRun) -> tuple[str, ...]:
    """The folder to work in: a copy of the files the run is given, else an empty one in memory where the policy wants one."""
    if run.job.workspace:
        return ("--bind" if run.policy.filesystem == "read-write" else "--ro-bind", run.stage.workspace, "/workspace")
    if run.has_workspace:
        return ("--size", str(run.policy.tmp_mb * _MEBIBYTE), "--tmpfs", "/workspace")
    return ()


def _setenv(variables: Mapping[str, str]) -> list[str]:
    return [part for name, value in variables.items() for part in ("--setenv", name, value)]


def _ro_binds(mounts: Iterable[tuple[str, str]]) -> list[str]:
    return [part for source, target in mounts for part in ("--ro-bind", source, target)]


@lru_cache(maxsize=1)
def _system_mounts() -> tuple[str, ...]:
    """The system's programs and libraries, as this machine lays them out."""
    parts = ["--ro-bind", "/usr", "/usr"]
    for name in TOP_FOLDERS:
        folder = Path("/", name)
        if folder.is_symlink():
            parts += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            parts += ["--ro-bind", str(folder), str(folder)]
    for path in SYSTEM_FILES:
        if Path(path).exists():
            parts += ["--ro-bind", path, path]
    return tuple(parts)
