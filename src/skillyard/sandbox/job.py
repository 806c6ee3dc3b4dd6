"""The words of a run: the job that goes in, the result that comes out, and what every backend must offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from skillyard.network import Contact
from skillyard.sandbox.policy import Policy
from skillyard.wire import WireForm

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
    Python, the rest for node). `packages` is a folder of installed Python packages, seen by the script instead of the machine's
    own, or what names one when it is called with the path of the copy, which is verified by then. `mode` says how the script
    runs: `call` calls the `execute` that it may define, `script` runs it as it is, `test` too, with `describe`, `it` and
    `expect` for node. With `as_module` a Python script runs like `python -m` in the skill's folder. `workspace` is a folder of
    this machine whose files the run works on: it gets a copy, begins in it, and what it changes there is copied back,
    unless the policy lets it only read.
    """

    tree: str
    entry: str
    stdin: bytes = b""
    policy: Policy = field(default_factory=Policy)
    arguments: tuple[str, ...] = ()
    verify: Callable[[str], None] | None = None
    library: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    packages: str | Callable[[str], str] = ""
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
