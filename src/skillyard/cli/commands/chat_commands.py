"""`skillyard chat`: talk with a model that uses your skills; `skillyard trail`: how skills were used in conversations.

What the model writes goes to standard output, everything about it to standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skillyard.cli.command_options import LOCAL_OWNER, import_conversations, open_catalog, parse_positive
from skillyard.cli.confirmation import answer_about_command, ask, ask_line
from skillyard.cli.screen import FAILURE, OK, describe_failure
from skillyard.errors import InvalidInput, SkillyardError, UsageProblem
from skillyard.files import write_output
from skillyard.paths import is_reserved
from skillyard.text import sanitize, shorten, single_line

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.conversations import Chat, ChatSettings, Conversation, SkillUsageLog, SkillUsageReport, Turn, TurnEvent
    from skillyard.library import Catalog
    from skillyard.permissions import ApprovalAnswer


_HELP: Final = (
    "/NAME ARGUMENTS starts a skill; Ctrl-C stops a turn; Ctrl-D or :quit leaves",
    ":files lists the files, :put FILE gives one, :get NAME [FILE] takes one; :retry tries the last turn again",
)
_SHOWN: Final = 25
_ARGUMENTS: Final = 120
_PRINTED: Final = 200  # lines of one call
_LINE: Final = 300  # characters
_ANSWERS: Final = {
    "y": "once", "yes": "once", "o": "once", "once": "once", "s": "session", "session": "session", "w": "workspace",
    "workspace": "workspace",
}  # fmt: skip


def add_chat_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `chat`."""
    parser.add_argument(
        "message", nargs="?", help="send this message, print the answer and exit; without it the chat is interactive"
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="openai:…, anthropic:…, google:… or NAME@http://ADDRESS/v1 (default: the agent's, else SKILLYARD_MODEL)",
    )
    parser.add_argument("--agent", metavar="NAME", help="an agent: its prompt, model, skills and rules")
    parser.add_argument("--resume", metavar="ID", help="continue this conversation; the last 6 characters of its id are enough")
    parser.add_argument("--last", action="store_true", help="continue the most recent conversation")
    parser.add_argument("--list", action="store_true", help="list your conversations")
    parser.add_argument("--file", action="append", default=[], metavar="FILE", help="attach a file; may be repeated")
    parser.add_argument("--system", metavar="TEXT", help="the system prompt, without an agent")
    parser.add_argument("--pin", action="append", default=[], metavar="SKILL", help="list this skill first; may be repeated")
    parser.add_argument(
        "--no-tools", action="store_true", help="for models without function calling: skills and calls in plain text"
    )
    parser.add_argument("--no-pictures", action="store_true", help="for models without image input: only the text of files")
    places = parser.add_mutually_exclusive_group()
    places.add_argument(
        "--workspace", metavar="DIR", help="let the model work in this folder (default: the conversation's own folder)"
    )
    places.add_argument("--no-workspace", action="store_true", help="no workspace: the model has skills only")


def chat_command(arguments: argparse.Namespace) -> int:
    """Talk, or say one thing and leave."""
    screen: Screen = arguments.screen
    conversations = import_conversations()
    catalog = open_catalog(arguments)
    with asyncio.Runner() as runner:
        chat: Chat = conversations.Chat(catalog)
        try:
            if arguments.list:
                return _list(runner, chat, screen)
            if screen.as_json and arguments.message is None:
                raise UsageProblem("--json needs a message", hint='skillyard chat --json "…"')
            conversation = runner.run(_conversation(chat, arguments, catalog))
            talk = _ChatSession(runner, chat, conversation, screen)
            if arguments.message is not None and arguments.workspace is None and not screen.as_json:
                talk.note_folder()
            for path in arguments.file:
                talk.put(path)
            return talk.say(arguments.message) if arguments.message is not None else talk.go_on()
        finally:
            runner.run(chat.close())


async def _conversation(chat: Chat, arguments: argparse.Namespace, catalog: Catalog) -> Conversation:
    """The conversation to continue, or a new one."""
    if (arguments.resume or arguments.last) and (arguments.workspace or arguments.no_workspace or arguments.no_pictures):
        raise UsageProblem(
            "a conversation keeps its folder and settings", hint="begin another one, without --resume and --last"
        )
    if arguments.resume:
        return await chat.get(arguments.resume, LOCAL_OWNER)
    if arguments.last:
        conversations = await chat.list(LOCAL_OWNER, limit=1)
        if not conversations:
            raise UsageProblem("there is no conversation yet", hint='begin one: skillyard chat "…"')
        return conversations[0]
    settings = await asyncio.to_thread(_settings, arguments, catalog)
    return await chat.begin(
        LOCAL_OWNER, agent=arguments.agent, model=arguments.model, settings=settings, folder=arguments.workspace
    )


def _settings(arguments: argparse.Namespace, catalog: Catalog) -> ChatSettings | None:
    from skillyard.conversations import ChatSettings
    from skillyard.conversations.conversation_tools import settings_from_agent

    given, off = (arguments.system, *arguments.pin, arguments.no_tools or None), arguments.no_workspace
    if arguments.agent:
        if any(given):
            raise UsageProblem("an agent brings its own prompt and settings", hint="leave out --system, --pin and --no-tools")
        own = settings_from_agent(catalog.agents().get(arguments.agent))
        return replace(own, workspace=own.workspace and not off, pictures=own.pictures and not arguments.no_pictures)
    return ChatSettings(
        system_prompt=arguments.system or "",
        pinned=tuple(arguments.pin),
        tools=not arguments.no_tools,
        workspace=not off,
        pictures=not arguments.no_pictures,
    )


def _list(runner: asyncio.Runner, chat: Chat, screen: Screen) -> int:
    conversations = runner.run(chat.list(LOCAL_OWNER))
    if screen.as_json:
        screen.data({"conversations": [conversation.to_dict() for conversation in conversations]})
    elif conversations:
        rows = (
            (it.id[-10:], it.agent or "", it.model or "", f"{it.updated_at:%Y-%m-%d %H:%M}", it.title) for it in conversations
        )
        screen.table(rows, header=("ID", "AGENT", "MODEL", "USED (UTC)", "ABOUT"), stretch=4)
    else:
        screen.note("no conversations")
    return OK


class _ChatSession:
    """One conversation at the terminal."""

    def __init__(self, runner: asyncio.Runner, chat: Chat, conversation: Conversation, screen: Screen) -> None:
        self._runner = runner
        self._chat = chat
        self._conversation = conversation
        self._screen = screen

    def note_folder(self) -> None:
        """Say where the model works, or why it has no workspace."""
        state = self._runner.run(self._chat.workspace(self._conversation))
        where = self._chat.folder(self._conversation).path
        self._screen.note(f"the model works in {where}" if state.enabled else f"no shell, code and files: {state.reason}")

    def say(self, message: str) -> int:
        """Send one message and show the turn."""
        open_turn = self._open_turn()
        if open_turn is not None and open_turn.state == "waiting" and self._screen.interactive:
            self._finish(open_turn)
        turn = self._finish(self._runner.run(self._chat.send(self._conversation, message)))
        if self._screen.as_json:
            shown = self._runner.run(self._chat.get(self._conversation.id, LOCAL_OWNER))
            self._screen.data({"conversation": shown.to_dict(), "turn": turn.to_dict()})
        elif turn.state == "waiting":
            self._screen.hint(f"answer at a terminal: skillyard chat --resume {self._conversation.id[-10:]}")
        return OK if turn.state == "done" else FAILURE

    def go_on(self) -> int:
        """Line by line, until the input ends."""
        self._screen.note(f"conversation {self._conversation.id[-10:]} with {self._conversation.model or 'the default model'}")
        self._help()
        self.note_folder()
        self._show_earlier()
        while (line := ask_line(">")) is not None:
            if line.strip() in (":quit", ":q"):
                break
            try:
                self._obey(line.strip())
            except SkillyardError as error:
                self._screen.failure(describe_failure(error))
            except OSError as error:
                self._screen.note(f"error: {error}")
        return OK

    def _help(self) -> None:
        for line in _HELP:
            self._screen.note(line)

    def put(self, path: str) -> None:
        """Give the conversation a file of this machine."""
        file = Path(path)
        if is_reserved(file):
            raise InvalidInput(f"{file} holds the records, which are in use", hint="name another file")
        kept = self._chat.folder(self._conversation).put(file.name, file.read_bytes())
        self._screen.note(f"the conversation has {kept.name} ({kept.size_bytes:,} bytes)")

    def _obey(self, line: str) -> None:
        command, _, rest = line.partition(" ")
        if not line:
            return
        if command == ":files":
            for file in self._chat.folder(self._conversation).list():
                self._screen.line(f"{file.name}  {file.size_bytes:,} bytes  from {file.origin}")
        elif command == ":put":
            self.put(rest.strip())
        elif command == ":get":
            name, _, target = rest.strip().partition(" ")
            output = target.strip() or Path(name).name
            write_output(output, self._chat.folder(self._conversation).read(name))
            self._screen.note(f"wrote {output}")
        elif command == ":retry":
            self._finish(self._runner.run(self._chat.retry(self._conversation)))
        elif command.startswith(":"):
            self._help()
        else:
            self._finish(self._runner.run(self._chat.send(self._conversation, line)))

    def _finish(self, turn: Turn) -> Turn:
        """Show a turn to its end, with the questions on the way."""
        turn = self._runner.run(_show_turn(self._chat, self._conversation, turn, self._screen))
        while turn.state == "waiting" and self._screen.interactive:
            turn = self._runner.run(_answer_questions(self._chat, turn))
            turn = self._runner.run(_show_turn(self._chat, self._conversation, turn, self._screen, fresh=True))
        return turn

    def _show_why(self, turn: Turn, *, newest: bool) -> None:
        """Why a turn did not come to its end; of the newest also how to fix it."""
        error = turn.error
        self._screen.note(f"({turn.state}: {error['message']})" if error else f"({turn.state})")
        if error and newest:
            _show_error_details(self._screen, error)

    def _open_turn(self) -> Turn | None:
        turns = self._runner.run(self._chat.turns(self._conversation))
        return turns[-1] if turns and turns[-1].state in ("waiting", "running") else None

    def _show_earlier(self) -> None:
        """The messages so far, and the question that is still open."""
        turns = self._runner.run(self._chat.turns(self._conversation))
        for turn in turns:
            self._screen.line(f"> {turn.request}", style="dim")
            if turn.answer:
                self._screen.line(turn.answer)
            if turn.state in ("failed", "stopped", "interrupted"):
                self._show_why(turn, newest=turn is turns[-1])
        if (turn_now := self._open_turn()) is not None and sys.stdin.isatty():
            self._finish(turn_now)


async def _show_turn(chat: Chat, conversation: Conversation, turn: Turn, screen: Screen, *, fresh: bool = False) -> Turn:
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


async def _answer_questions(chat: Chat, turn: Turn) -> Turn:
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
            _show_error_details(self._screen, event.data)

    def end(self) -> None:
        """Close the line that is being written."""
        if self._in_text:
            self._screen.write("\n")
            self._screen.flush()
            self._in_text = False


class _PrintedLines:
    """What the command or script of a call prints, line by line as it comes, before the result of the call."""

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


def _show_error_details(screen: Screen, error: Mapping[str, Any]) -> None:
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


def add_trail_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `trail`."""
    parser.add_argument(
        "conversation",
        nargs="?",
        metavar="CONVERSATION",
        help="only this conversation; the last 6 characters of its id are enough",
    )
    parser.add_argument("--skill", metavar="NAME", help="only this skill, by its name or id")
    parser.add_argument("--report", action="store_true", help="each skill in all conversations, and which to look at")
    parser.add_argument(
        "--limit", type=parse_positive, default=100, metavar="N", help="at most this many steps (default: %(default)s)"
    )


def trail_command(arguments: argparse.Namespace) -> int:
    """List the steps, or report on every skill."""
    screen: Screen = arguments.screen
    from skillyard.conversations import SkillUsageLog

    catalog = open_catalog(arguments)
    records = catalog.records()
    usage_log = SkillUsageLog(lambda: records.database)
    if arguments.report:
        return _report(usage_log.report(), catalog, screen)
    conversation = arguments.conversation
    if conversation is not None:
        conversation = import_conversations().ConversationStore(lambda: records.database).get(conversation, LOCAL_OWNER).id
    return _steps(usage_log, conversation, _skill_id(catalog, arguments.skill), arguments.limit, screen)


def _skill_id(catalog: Catalog, name: str | None) -> str | None:
    """The id of the named skill; a deleted one may still be named by its id."""
    if name is None:
        return None
    try:
        return catalog.get(name).id
    except SkillyardError:
        if ":" in name:
            return name
        raise


def _steps(usage_log: SkillUsageLog, conversation: str | None, skill: str | None, limit: int, screen: Screen) -> int:
    steps = usage_log.of(conversation=conversation, skill=skill, limit=limit)
    if screen.as_json:
        screen.data({"steps": [step.to_dict() for step in steps]})
    elif steps:
        rows = (
            (
                f"{step.at:%m-%d %H:%M:%S}",
                step.conversation_id[-10:],
                step.event,
                step.skill_id or "",
                f"{step.tokens:,}" if step.tokens else "",
                f"{step.duration_ms:,} ms" if step.duration_ms else "",
                ("" if step.ok else "failed: ") + (step.detail or ""),
            )
            for step in steps
        )
        screen.table(rows, header=("WHEN (UTC)", "CHAT", "STEP", "SKILL", "TOKENS", "TOOK", "WHAT"), stretch=6)
    else:
        screen.note("no skill was used yet")
    return OK


def _report(report: SkillUsageReport, catalog: Catalog, screen: Screen) -> int:
    with_more = {skill.id for skill in catalog.all() if skill.status == "ok" and skill.files()}
    lists = {
        "never_used": report.never_used,
        "not_followed": report.not_followed(with_more),
        "fails_often": report.fails_often,
    }
    if screen.as_json:
        screen.data({"skills": [use.to_dict() for use in report.skills]} | {name: list(ids) for name, ids in lists.items()})
        return OK
    if not report.skills:
        screen.note("no skill was used yet")
        return OK
    rows = (
        (use.skill_id, str(use.offered), str(use.loaded), str(use.read), str(use.run), str(use.failed), f"{use.tokens:,}")
        for use in report.skills
    )
    screen.table(rows, header=("SKILL", "OFFERED", "LOADED", "READ", "RUN", "FAILED", "TOKENS"), stretch=0)
    for name, remark in (
        ("never_used", "offered in ten conversations or more, and never used"),
        ("not_followed", "loaded, and then no file read and nothing run"),
        ("fails_often", "often fails"),
    ):
        for skill in lists[name]:
            screen.note(f"{skill}: {remark}")
    return OK
