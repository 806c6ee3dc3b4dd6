"""The words of a run: the job that goes in, the result that comes out, what it is granted, and what every backend must offer.

What a process in a sandbox is granted beside its own files is installed packages, programs with what they read, and variables.
The same value serves one run and a session that stands for a while. Everything in it is seen read-only. Folders of packages are
on this machine; where the process finds them depends on the backend, so `process_variables` gets their places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple, Protocol

from skillyard.network import Contact
from skillyard.network.hosts import ANY_HOST
from skillyard.sandbox.policy import Policy
from skillyard.wire import WireForm, wire


class PackageFolders(NamedTuple):
    """Where a process sees what it is granted: Python packages, `node_modules`, and the commands that are made for it."""

    packages: str
    modules: str
    commands: str


SEEN_INSIDE: Final = PackageFolders("/opt/skillyard/packages", "/node_modules", "/opt/skillyard/commands")
"""Where a process under bubblewrap sees it."""
NODE_PACKAGES_INSIDE: Final = "/opt/skillyard/npm/node_modules"
"""Where it sees its npm packages when our own library is at `/node_modules`, which then has a link to each of them."""
_FLOORS: Final = ("memory_mb", "pids", "timeout_ms", "tmp_mb", "file_size_mb", "nofile")


@dataclass(frozen=True, slots=True)
class GrantedEnvironment(WireForm):
    """Packages, programs and what they need.

    `python_packages` is a folder of installed Python packages (its `bin` has their commands), `node_modules` one that npm has
    filled, both absolute paths of this machine, empty for none. `programs` are the names of granted programs, `path` folders
    with programs beside the usual ones, `mounts` files and folders that the process sees at the same place. `variables` are set
    for it; `{commands}` in one is the folder of the commands. `commands` are small shell scripts by name, found before the
    programs of that name, or by their path in that folder; with `local_sockets` its processes may talk through sockets, where
    the backend has a network of its own. `needs` are the least limits that the programs work with, by the names of a policy.
    `hosts` are registries of packages that it may reach, as entries of an allow-list.
    `digest` names the content: equal digests are equal environments.
    """

    python_packages: str = ""
    node_modules: str = ""
    programs: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, hash=False, metadata=wire(omit_empty=True))
    needs: Mapping[str, int] = field(default_factory=dict, hash=False, metadata=wire(omit_empty=True))
    commands: Mapping[str, str] = field(default_factory=dict, hash=False, metadata=wire(omit_empty=True))
    local_sockets: bool = False
    hosts: tuple[str, ...] = ()
    digest: str = ""

    def process_variables(self, base: Mapping[str, str], seen: PackageFolders) -> dict[str, str]:
        """The variables of a process that has those of `base` and finds what it is granted in the folders `seen`."""
        own = {name: value.replace("{commands}", seen.commands) for name, value in self.variables.items()}
        variables = {**base, **own}
        if self.python_packages:
            variables["PYTHONPATH"] = seen.packages  # for the Pythons that the script itself starts
        if self.node_modules:
            variables["NODE_PATH"] = seen.modules
        entries = (
            seen.commands if self.commands else "",
            f"{seen.packages}/bin" if self.python_packages else "",
            f"{seen.modules}/.bin" if self.node_modules else "",
            *self.path,
        )
        variables["PATH"] = ":".join((*filter(None, entries), base["PATH"]))
        return variables

    def raised(self, policy: Policy, *, fixed: frozenset[str] = frozenset()) -> Policy:
        """The policy with at least the limits that the granted programs work with, but for those that are `fixed`.

        The granted registries are hosts of its allow-list, and trusted; an operator's `network` that is `fixed` stays.
        """
        higher = {
            name: self.needs[name] for name in _FLOORS if name not in fixed and self.needs.get(name, 0) > getattr(policy, name)
        }
        raised = replace(policy, **higher) if higher else policy  # type: ignore[arg-type] # whole numbers of the same fields
        if not self.hosts or (policy.network == "none" and "network" in fixed):
            return raised
        known = policy.network_allowlist if policy.network == "allowlist" else ()
        hosts = known if ANY_HOST in known else tuple(dict.fromkeys((*known, *self.hosts)))
        return replace(raised, network="allowlist", network_allowlist=hosts, trusted_hosts=self.hosts)


NOTHING_GRANTED: Final = GrantedEnvironment()


Status = Literal[
    "ok", "error", "timeout", "memory", "pids", "output_limit", "result_invalid", "killed", "denied", "unavailable"
]  # fmt: skip
Level = Literal["vm", "namespace", "lsm", "none"]
RunMode = Literal["call", "script", "test"]


@dataclass(frozen=True, slots=True)
class Job:
    """One thing to run: the script `entry` of the folder `tree`, with `stdin`, under `policy`.

    `tree` is copied before the run and the copy is what runs. `verify` is called with the copy's path before anything starts
    and may raise, for example when its digest is not the approved one. `arguments` follow the script on its command line.
    `library` are files the script can import: names like `package/__init__.py` and their content (what ends in `.py` for
    Python, the rest for node). `environment` is what the script is granted beside its files, or what gives that when it is
    called with the path of the copy, which is verified by then; its Python packages are seen instead of the machine's own.
    `mode` says how the script runs: `call` calls the `execute` that it may define, `script` runs it as it is, `test` too, with
    `describe`, `it` and `expect` for node. With `as_module` a Python script runs like `python -m` in the skill's folder.
    `workspace` is a folder of this machine whose files the run works on: it gets a copy, begins in it, and what it changes
    there is copied back, unless the policy lets it only read.
    """

    tree: str
    entry: str
    stdin: bytes = b""
    policy: Policy = field(default_factory=Policy)
    arguments: tuple[str, ...] = ()
    verify: Callable[[str], None] | None = None
    library: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    environment: GrantedEnvironment | Callable[[str], GrantedEnvironment] = NOTHING_GRANTED
    mode: RunMode = "call"
    as_module: bool = False
    workspace: str = ""


@dataclass(frozen=True, slots=True)
class Limit(WireForm):
    """One limit of a run: its value, whether it was enforced, and by what (`cgroup`, `rlimit`, `tmpfs`, …)."""

    name: str
    value: object
    enforced: bool
    by: str


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """The result of one run.

    `result` is the JSON document from the result pipe (`None` when nothing was written) and `value` the same, read. `detail`
    says in one sentence why the status is not `ok`. `exit_code` is `None` when the run was killed. `contacts` has
    the hosts that the run requested of its proxy, `files` what it wrote into the job's workspace, `memory_bytes` the most
    memory that it used at once (`None` where nothing counts it). Values of secrets are already removed from everything.
    """

    status: Status
    exit_code: int | None
    result: bytes | None
    value: object
    stdout: bytes
    stderr: bytes
    duration_ms: int
    limits: tuple[Limit, ...]
    isolation: str
    interpreter: str
    detail: str = ""
    signal: int | None = None
    warnings: tuple[str, ...] = ()
    contacts: tuple[Contact, ...] = ()
    files: tuple[str, ...] = ()
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class UnmetRequirement(WireForm):
    """One part of a policy that a backend cannot enforce here."""

    requirement: str
    reason: str


@dataclass(frozen=True, slots=True)
class Probe(WireForm):
    """Whether a backend keeps its promises on this machine, tested by attacking it."""

    backend: str
    ok: bool
    reason: str = ""
    remedies: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict, hash=False)


class SandboxBackend(Protocol):
    """One way to enforce a policy; each passes the same conformance tests."""

    @property
    def name(self) -> str:
        """The backend's name in settings and results."""

    @property
    def level(self) -> Level:
        """How strong the boundary is."""

    def probe(self) -> Probe:
        """Attack the sandbox once and say whether it held; blocks for some tens of milliseconds."""

    def supports(self, policy: Policy) -> list[UnmetRequirement]:
        """What of `policy` this backend cannot enforce; empty when it can run it."""

    async def run(self, job: Job) -> SandboxResult:
        """Run one job to its end; no process of it is left.

        Its copy is deleted in a thread, which the end of the loop and of the program wait for.
        """
