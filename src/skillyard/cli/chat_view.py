"""A conversation at the terminal: what the model writes goes to standard output, everything about it to standard error."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from skillyard.cli.confirmation import answer_about_command, ask
from skillyard.text import sanitize, shorten, single_line

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.conversations import Chat, Conversation, Turn, TurnEvent
    from skillyard.permissions import ApprovalAnswer


_SHOWN: Final = 25
_ARGUMENTS: Final = 120
_PRINTED: Final = 200  # lines of one call
_LINE: Final = 300  # characters
_ANSWERS: Final = {
    "y": "once", "yes": "once", "o": "once", "once": "once", "s": "session", "session": "session", "w": "workspace",
    "workspace": "workspace",
}  # fmt: skip


async def show_turn(chat: Chat, conversation: Conversation, turn: Turn, screen: Screen, *, fresh: bool = False) -> Turn:
    """Show a turn until it is over or waits, with `fresh` from its last answer on; Ctrl-C stops it. Give it as it is then."""
    loop = asyncio.get_running_loop()
    stopping: list[asyncio.Task[bool]] = []

    def stop() -> None:
        if not stopping:
            stopping.append(asyncio.ensure_future(chat.stop(turn)))

    loop.add_signal_handler(signal.SIGINT, stop)
    try:
        show = _EventPrinter(screen)
        async for event in chat.events(turn, fresh=fresh):
            show.event(event)
        show.end()
        if stopping:
            await stopping[0]
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    return await chat.turn(conversation, turn.id)


async def answer_questions(chat: Chat, turn: Turn) -> Turn:
    """Put the questions that a turn waits for, until each has an answer."""
    while turn.state == "waiting" and turn.pending is not None:
        open_questions = {call: it for call, it in turn.pending["questions"].items() if call not in turn.pending["decided"]}
        call, question = next(iter(open_questions.items()))
        turn = await chat.answer(turn, call, _decision(question))
    return turn


def _decision(question: Mapping[str, Any]) -> ApprovalAnswer:
    from skillyard.permissions import ApprovalAnswer

    if question.get("type") == "command":
        return answer_about_command(question)
    sys.stderr.write("\n".join(sanitize(line) for line in _story(question)) + "\n")
    answer = ask("Use it? [y]es once, for this [s]ession, [w]orkspace: until it changes, [N]o")
    if answer in _ANSWERS:
        return ApprovalAnswer.parse(_ANSWERS[answer])
    reason = ask("Why not? It is passed to the model (Enter: no reason)") if answer else ""
    return ApprovalAnswer("reject", reason or "the person at the terminal said no")


def _story(question: Mapping[str, Any]) -> list[str]:
    lines = [
        f"The skill {single_line(question['skillName'])!r} needs your consent.",
        shorten(single_line(str(question.get("description", ""))), 400),
        f"  digest    {question['digest']}",
    ]
    lines += [f"  it {single_line(sentence)}" for sentence in question.get("may") or ()]
    files: Sequence[Mapping[str, Any]] = question.get("files") or ()
    lines += [f"  file      {single_line(str(file['name']))} ({file['size']:,} bytes)" for file in files[:_SHOWN]]
    return lines + ([f"  and {len(files) - _SHOWN} more files"] if len(files) > _SHOWN else [])


class _EventPrinter:
    """Writes events as they come."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._in_text = False
        self._printed = _PrintedLines(screen)

    def event(self, event: TurnEvent) -> None:
        if event.kind == "log":
            self.end()
            self._printed.add(event.data["text"])
            return
        self._printed.end()
        if event.kind == "text":
            if not self._screen.as_json:
                self._screen.write(event.data["delta"])
                self._screen.flush()
                self._in_text = True
            return
        line = _event_line(event)
        if line:
            self.end()
            self._screen.note(line)
        if event.kind == "error":
            show_error_details(self._screen, event.data)

    def end(self) -> None:
        """Close the line that is being written."""
        if self._in_text:
            self._screen.write("\n")
            self._screen.flush()
            self._in_text = False


class _PrintedLines:
    """What the command or script of a call prints, line by line as it comes, in front of what becomes of the call."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._open = ""
        self._left = _PRINTED

    def add(self, text: str) -> None:
        *lines, self._open = (self._open + text).split("\n")
        for line in lines[: max(self._left, 0)]:
            self._screen.note(f"  | {shorten(line, _LINE)}")
        if self._left > 0 >= self._left - len(lines):
            self._screen.note("  | …")
        self._left -= len(lines)

    def end(self) -> None:
        """The call has ended: its last line may have no end."""
        if self._open:
            self.add("\n")
        self._open, self._left = "", _PRINTED


def show_error_details(screen: Screen, error: Mapping[str, Any]) -> None:
    """Report the provider's own message of an error, and how to fix it."""
    if error.get("said"):
        screen.note(f"the provider answered: {error['said']}")
    if error.get("hint"):
        screen.hint(error["hint"])


def _event_line(event: TurnEvent) -> str:
    data = event.data
    match event.kind:
        case "call":
            return f"· {data['tool']} {_arguments(data['arguments'])}"
        case "result":
            rule = f" ({single_line(data['rule'])})" if data.get("rule") and not data["ok"] else ""
            return f"  {'✓' if data['ok'] else '✗'} {single_line(str(data['title'] or data['code'] or ''))}{rule}"
        case "file_removed":
            return f"  file {data['name']} is gone"
        case "file":
            return f"  file {data['name']} ({data['size']:,} bytes)"
        case "notice":
            return f"note: {data['text']}"
        case "error":
            return f"error: {data['message']}"
        case _:
            return ""


def _arguments(value: object) -> str:
    if isinstance(value, Mapping):
        value = ", ".join(f"{name}={item}" for name, item in value.items())
    return shorten(single_line(str(value)), _ARGUMENTS)
