"""Questions to the person at the terminal: confirmation of a step, and consent to use a skill where a rule says `ask`.

Questions go to standard error, so that an answer on standard output stays clean.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skillyard.cli.command_options import record_audit_event
from skillyard.errors import ApprovalRejected, PermissionDenied, SkillUnusable, SkillyardError
from skillyard.text import sanitize, shorten, single_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillyard.catalog import Skill
    from skillyard.cli.screen import Screen
    from skillyard.library import Catalog
    from skillyard.permissions import ApprovalAnswer, ApprovalRequest, CommandRequest


def ask(question: str) -> str:
    """The person's answer without surrounding space, in lower case; empty when the input ended."""
    sys.stderr.write(single_line(question) + " ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower()


def confirm(question: str) -> bool:
    """Whether the person answered yes; any other answer, or none, is no."""
    return ask(f"{question} [y/N]") in ("y", "yes")


def ask_line(prompt: str) -> str | None:
    """What the person types, as it is; None when the input ended. Arrow keys work at a terminal."""
    if sys.stdin.isatty():
        import contextlib

        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 # only to be loaded: `input` uses it
        try:
            return input(f"{prompt} ")
        except (EOFError, KeyboardInterrupt):
            sys.stderr.write("\n")
            return None
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


_SHOWN: Final = 20  # files


def require_consent(catalog: Catalog, skill: Skill, screen: Screen) -> str | None:
    """Return when the rules of the configuration, or the person they say to ask, let the skill be used.

    Returns the digest of the content that was consented to, when a question was necessary.

    Raises:
        PermissionDenied: a rule denies it.
        ApprovalRejected: the person refused, or there is no terminal to ask at.
    """
    if not catalog.configuration.permissions:
        return None
    try:
        catalog.gate().check(skill)
    except PermissionDenied as denied:
        denied.hint = f"the rule is in {_where(catalog)}"
        raise
    except SkillUnusable:
        pass  # a person may look at it all the same; what runs it says no
    return _ask(catalog, skill, screen)


def _where(catalog: Catalog) -> str:
    configuration = catalog.configuration
    files = [file for file in (configuration.user_file, configuration.file) if file and Path(file).is_file()]
    return " or ".join(files) or "the configuration"


def _ask(catalog: Catalog, skill: Skill, screen: Screen) -> str | None:
    if catalog.rules().decide(skill) != "ask":
        return None
    import asyncio  # only for a question

    approver = ConsoleApprover(skill) if screen.interactive else None
    try:
        digest = asyncio.run(catalog.gate(approver).consent(skill, session="cli")).digest
    except ApprovalRejected as rejected:
        rejected.hint = (
            "call this once at a terminal and answer `w`, or write an 'allow' rule for the skill"
            if approver is None
            else "call this again to be asked again"
        )
        raise
    if approver is not None and approver.for_workspace:
        record_audit_event(screen, lambda: catalog.records().database, "approvals.grant", skill.id)
    return digest


def answer_about_command(question: Mapping[str, Any]) -> ApprovalAnswer:
    """What the person says about a call of a tool; no answer is no."""
    from skillyard.permissions import ApprovalAnswer, question_lines

    sys.stderr.write("\n".join(sanitize(line) for line in question_lines(question)) + "\n")
    answer = ask("Do it? [y]es once, for this [s]ession, [N]o")
    if answer in ("y", "yes", "o", "once"):
        return ApprovalAnswer("once")
    if answer in ("s", "session"):
        return ApprovalAnswer("session")
    reason = ask("Why not? It is passed on (Enter: no reason)") if answer else ""
    return ApprovalAnswer("reject", reason or "the person at the terminal said no")


class ConsoleApprover:
    """Shows what a skill is and asks whether it may be used; no answer is no."""

    def __init__(self, skill: Skill | None = None) -> None:
        self._skill = skill
        self.for_workspace = False
        """Whether the person has agreed for the workspace."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Write the question to standard error and read the answer from standard input."""
        import asyncio

        from skillyard.permissions import ApprovalAnswer

        sys.stderr.write("\n".join(sanitize(line) for line in self._story(request)) + "\n")
        answer = await asyncio.to_thread(ask, "Use it? [y]es once, [w]orkspace: until it changes, [N]o")
        if answer in ("y", "yes", "o", "once"):
            return ApprovalAnswer("once")
        if answer in ("w", "workspace"):
            self.for_workspace = True
            return ApprovalAnswer("workspace")
        return ApprovalAnswer("reject", "the person at the terminal said no")

    async def ask_command(self, request: CommandRequest) -> ApprovalAnswer:
        """The same about a call of a tool: the very command, and which rule asks."""
        import asyncio

        return await asyncio.to_thread(answer_about_command, request.to_dict())

    def _story(self, request: ApprovalRequest) -> list[str]:
        """What a person should know before they agree: what it says, where it is, what it holds."""
        lines = [
            f"The skill {single_line(request.skill_name)!r} needs your consent.",
            *([f"{request.reason[:1].upper()}{request.reason[1:]}."] if request.reason else []),
            shorten(single_line(request.description), 400),
            f"  folder    {single_line(request.directory)}",
            f"  digest    {request.digest}",
        ]
        files = self._skill.files() if self._skill else ()
        lines += [f"  {file.type:8}  {single_line(file.name)} ({file.size:,} bytes)" for file in files[:_SHOWN]]
        lines += [f"  and {len(files) - _SHOWN} more files"] if len(files) > _SHOWN else []
        powers = _powers(self._skill) if self._skill else ()
        lines += [f"  {single_line(sentence)}" for sentence in powers[:_SHOWN]]
        return lines + ([f"  and {len(powers) - _SHOWN} things more"] if len(powers) > _SHOWN else [])


def _powers(skill: Skill) -> tuple[str, ...]:
    """What the skill may do, one sentence each."""
    from skillyard.registry import read_powers  # only for a question

    try:
        return read_powers(skill.directory, skill.document()).sentences()
    except (SkillyardError, OSError):
        return ()
