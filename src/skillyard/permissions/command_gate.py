"""The check before each use of a tool of a workspace: what the policy says of the call, and a person where it says `ask`.

The answer of a person holds for exactly this call in this folder: another command, or another content, is another question.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from skillyard.permissions.command_request import CommandRequest

if TYPE_CHECKING:
    from skillyard.permissions.approvals import Approvals
    from skillyard.permissions.command_policy import CommandPolicy, CommandRuling

_ARGUMENT: Final = 20_000  # characters of a call that are shown; what is longer is denied where somebody had to read it


@dataclass(frozen=True, slots=True)
class ToolVerdict:
    """Whether a tool may be used, and why."""

    allowed: bool
    reason: str


@dataclass(slots=True)
class CommandGate:
    """Decides about the calls of one caller; `ruling` is what was said of the last one.

    `policy` gives the rules as they are at that moment, `root` the folder that paths in rules start from, `skills` the labels
    of the skills that are followed.
    """

    policy: Callable[[], CommandPolicy]
    approvals: Approvals
    root: Callable[[], str]
    session: str = "default"
    skills: Callable[[], tuple[str, ...]] = tuple
    message_id: str | None = None
    call_id: str | None = None
    ruling: CommandRuling | None = None

    @property
    def judges(self) -> bool:
        """Whether there are any rules now."""
        return bool(self.policy())

    async def authorize(self, tool: str, subject: str, *, folder: str, content: str | None = None) -> ToolVerdict:
        """The verdict about one call; `content` is what else belongs to it, such as what would be written.

        Raises:
            ApprovalRejected: a person said no, or nobody can be asked.
        """
        import asyncio  # not at the top: a program without rules need not load it

        policy = self.policy()
        if not policy:
            return ToolVerdict(True, "there are no rules")
        root = self.root()
        self.ruling = ruling = await asyncio.to_thread(lambda: policy.authorize(tool, subject, folder, root=root))
        if ruling.permission == "ask":
            if len(subject) > _ARGUMENT:
                reason = f"it has over {_ARGUMENT} characters, which nobody can read before they agree"
                self.ruling = ruling = replace(ruling, permission="deny", reason=reason)
                return ToolVerdict(False, ruling.sentence)
            await self.approvals.permit(self._request(ruling, subject, content))
            return ToolVerdict(True, "a person has agreed")
        return ToolVerdict(ruling.allowed, ruling.sentence)

    def _request(self, ruling: CommandRuling, subject: str, content: str | None) -> CommandRequest:
        import hashlib

        named = "\0".join((ruling.tool, ruling.folder, subject, *(() if content is None else (content,))))
        digest = f"sha256:{hashlib.sha256(named.encode('utf-8', 'surrogatepass')).hexdigest()}"
        shown = None if content is None else content.encode("utf-8", "replace").decode()
        if shown is not None and len(shown) > _ARGUMENT:
            shown = f"{shown[:_ARGUMENT]}\n[{len(shown) - _ARGUMENT} more characters]"
        return CommandRequest(
            ruling.tool,
            subject,
            ruling.folder,
            ruling,
            self.session,
            digest,
            self.skills(),
            self.message_id,
            self.call_id,
            content=shown,
        )
