"""What a workspace may do and how large its answers are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

from skillyard.sandbox import NOTHING_GRANTED, GrantedEnvironment, Policy, ReadOnlyMount, choose_backend

if TYPE_CHECKING:
    from skillyard.sandbox import SandboxBackend

WORKSPACE_POLICY: Final = Policy(
    timeout_ms=600_000,
    memory_mb=2048,
    filesystem="read-write",
    pids=256,
    nofile=1024,
    file_size_mb=1024,
    tmp_mb=512,
    output_bytes=8 * 1024 * 1024,
)
"""What a session may do unless an operator says otherwise: no network; one command takes at most ten minutes."""

OutputStream = Literal["stdout", "stderr"]
CommandListener = Callable[[OutputStream, str], object]
"""Gets what a command writes while it runs, without secrets: the stream and a piece of text. Called on the event loop; must
not block."""


class ToolRuling(Protocol):
    """The decision about one use of a tool."""

    @property
    def allowed(self) -> bool:
        """Whether it may be done."""

    @property
    def reason(self) -> str:
        """Why not, in one sentence for the model and the person; or which rule allows it."""


class ToolAuthorizer(Protocol):
    """Decides about each use of a workspace's tools; may ask a person, and returns when it is decided.

    An attribute `judges` may say whether it has any rules now. Unless it is false, a shell takes over no functions from the one
    before, nor variables that decide what commands do.
    """

    async def authorize(self, tool: str, subject: str, *, folder: str, content: str | None = None) -> ToolRuling:
        """The ruling for one call.

        `tool` is the name of the tool (`bash`, `code_run`, `file_read`, `file_write`, `file_edit`, `file_list`, `file_search`).
        `subject` is the text of the command, the code (after a first line with its language), or the path of the file or
        folder, as the model wrote it. `folder` is the working folder as the sandbox sees it, which relative paths start from.
        `content` is what else belongs to the call: what would be written, what replaced by what, the pattern of a search.
        """


@dataclass(frozen=True, slots=True)
class WorkspaceOptions:
    """How a workspace works.

    `policy` limits the session (`timeout_ms` is the most one command may take, `output_bytes` the most it may write to its
    streams). `quota_mb` is the size of the folder. `default_timeout_ms` is for commands that name no time. `answer_characters`
    is the most text of one answer; the rest of an output is kept in a file. `idle_seconds` without a call end the session, when
    no background process is left; the folder stays. `skills` are the folders of skills, read-only at their own paths or where a
    mount says, or what gives them for the folder of a workspace when a session begins; `environment` is what is granted, in
    packages and programs; the programs raise the limits they need, but for those in `fixed`, which the operator has set.
    `backend` names the sandbox (`bwrap`, `landlock` or `container`); the first that holds when it is None. `container_image` is
    the image that a container is made from, empty for what is installed here. With `held_back` (for a folder that
    is a user's) a session cannot write the places that programs act on unasked, but for those whose names are in `writable`:
    see `held_back.py`. With `read_only` it cannot write the folder at all.
    """

    policy: Policy = WORKSPACE_POLICY
    quota_mb: int = 2048
    default_timeout_ms: int = 120_000
    answer_characters: int = 30_000
    idle_seconds: float = 900.0
    skills: Sequence[str | ReadOnlyMount] | Callable[[str], Sequence[str | ReadOnlyMount]] = ()
    environment: GrantedEnvironment = NOTHING_GRANTED
    fixed: frozenset[str] = frozenset()
    backend: str | None = None
    container_image: str = ""
    held_back: bool = True
    writable: frozenset[str] = frozenset()
    read_only: bool = False

    @property
    def session_policy(self) -> Policy:
        """What a session may do: `policy`, with the limits that the granted programs need."""
        return self.environment.raised(self.policy, fixed=self.fixed)

    def backend_here(self) -> SandboxBackend:
        """The sandbox that holds a session with these options on this machine. Blocks: the first time it is tried.

        Raises:
            SandboxUnavailable: nothing here can enforce the policy.
            InvalidInput: there is no sandbox of the name in `backend`.
        """
        return choose_backend(self.session_policy, self.backend, container_image=self.container_image)

    def mounts(self, folder: str) -> tuple[ReadOnlyMount, ...]:
        """The folders of skills as a session over `folder` that begins now would see them."""
        given = self.skills(folder) if callable(self.skills) else self.skills
        return tuple(one if isinstance(one, ReadOnlyMount) else ReadOnlyMount(one) for one in given)
