"""`skillyard workspace`: commands in a sandboxed workspace, as a model would run them; the workspaces of this home."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from skillyard.cli.command_options import add_package_option, add_writable_option, open_catalog, parse_milliseconds
from skillyard.cli.confirmation import ConsoleApprover
from skillyard.cli.screen import FAILURE, OK
from skillyard.errors import UsageProblem
from skillyard.text import single_line

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.library import Catalog
    from skillyard.workspace import Workspace, WorkspaceAnswer


def add_workspace_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `workspace`."""
    parser.add_argument("action", choices=("exec", "list", "remove"), help="exec runs a command; list and remove workspaces")
    parser.add_argument("words", nargs="*", metavar="WORD", help="for remove: the id; for exec: the command, after --")
    parser.add_argument("--dir", metavar="DIR", help="for exec: the folder to work in (default: the current one)")
    parser.add_argument("--id", metavar="ID", help="for exec: the workspace of this home to work in, made when it is new")
    parser.add_argument(
        "--timeout", type=parse_milliseconds, metavar="TIME", help="for exec: at most this long: 5, 5s or 500ms"
    )
    add_package_option(
        parser, "for exec: give the command a package or program: pypdf, npm:docx or program:qpdf; may be repeated"
    )
    add_writable_option(
        parser, "for exec: allow writing files that are held back in a project, such as .vscode or .git; may be repeated"
    )


def workspace_command(arguments: argparse.Namespace) -> int:
    """Run a command, list or remove; `exec` ends with the exit code of the command."""
    import asyncio  # 30 ms: only this command waits for a session

    from skillyard.sandbox import give_back_folders

    catalog, screen = open_catalog(arguments), arguments.screen
    give_back_folders(catalog.data_directory)
    if arguments.action == "list":
        return _list(catalog, screen)
    words = [*arguments.words, *arguments.command_line]
    if not words and arguments.action == "remove":
        raise UsageProblem("name the workspace to remove", hint="`skillyard workspace list` shows them")
    if not words:
        raise UsageProblem("name the command to run, after --", hint="for example `skillyard workspace exec -- ls -la`")
    if arguments.action == "remove":
        return asyncio.run(_remove(catalog, screen, words))
    answer = asyncio.run(_execute(catalog, screen, _workspace(catalog, arguments), words, arguments.timeout))
    if screen.as_json:
        screen.data(answer.to_dict())
    elif not answer.ok:
        _explain(screen, answer)
    if answer.exit_code:
        return answer.exit_code
    return OK if answer.ok else FAILURE


def _workspace(catalog: Catalog, arguments: argparse.Namespace) -> Workspace:
    """The workspace that was named, with what is granted to it."""
    if arguments.dir is not None and arguments.id is not None:
        raise UsageProblem("give --dir or --id, not both", hint="--dir is a folder of yours, --id a workspace of this home")
    if arguments.id is not None:
        return catalog.workspaces(packages=arguments.packages).get(arguments.id)
    return catalog.workspace(arguments.dir or ".", packages=arguments.packages, writable=arguments.writable)


async def _execute(
    catalog: Catalog, screen: Screen, workspace: Workspace, words: list[str], timeout: int | None
) -> WorkspaceAnswer:
    from skillyard.permissions import Approvals, CommandGate, CommandPolicy

    command = words[0] if len(words) == 1 else shlex.join(words)
    policy = CommandPolicy.of(catalog.configuration)
    approvals = Approvals(ConsoleApprover() if screen.interactive else None)
    gate = CommandGate(lambda: policy, approvals, lambda: workspace.path)
    call = {"command": command} | ({"timeout": timeout} if timeout is not None else {})
    try:
        return await workspace.call("bash", call, listener=None if screen.as_json else _print, authorizer=gate)
    finally:
        await workspace.close()


def _explain(screen: Screen, answer: WorkspaceAnswer) -> None:
    """Why it did not do what was asked for: the command's own words are on the screen already."""
    lines = answer.text.splitlines()
    if answer.code in ("permission_denied", "approval_rejected"):
        screen.note(f"error: {lines[0].removeprefix('Error: ')}")
        if lines[1:]:
            screen.hint(" ".join(lines[1:]))
    elif answer.code == "held_back":
        _explain_held_back(screen, answer.data["held_back"])
    elif answer.code != "command_failed":
        screen.note(lines[-1].strip("[]"))
    elif missing := next((line for line in reversed(lines) if line.startswith("[Not granted here: ")), ""):
        name = missing.removeprefix("[Not granted here: ").partition(".")[0]
        screen.hint(f"not granted here: {name}; `--with` of this command grants it")


def _explain_held_back(screen: Screen, paths: list[str]) -> None:
    from skillyard.workspace.held_back import held_name

    named = ", ".join(single_line(path) for path in paths)
    screen.note(f"error: held back: {named}: programs outside the sandbox would execute it")
    names = sorted({name for path in paths if (name := held_name(path))})
    allowing = " ".join(f"--writable {name}" for name in names) or "--writable NAME"
    screen.hint(f"it was moved to .skillyard/held-back: look at it and move it yourself, or allow it with {allowing}")


def _print(stream: str, text: str) -> None:
    target = sys.stdout if stream == "stdout" else sys.stderr
    target.write(text)
    target.flush()


def _list(catalog: Catalog, screen: Screen) -> int:
    from skillyard.workspace import Workspaces

    found = Workspaces(catalog.data_directory).list()
    if screen.as_json:
        screen.data({"workspaces": list(found)})
    else:
        for workspace_id in found:
            screen.line(workspace_id)
        if not found:
            screen.note("there is no workspace in this home")
            screen.hint("`skillyard workspace exec --id NAME -- COMMAND` makes one")
    return OK


async def _remove(catalog: Catalog, screen: Screen, ids: list[str]) -> int:
    from skillyard.workspace import Workspaces

    home = Workspaces(catalog.data_directory)
    for workspace_id in ids:
        await home.remove(workspace_id)
    if screen.as_json:
        screen.data({"removed": ids})
    else:
        for workspace_id in ids:
            screen.line(f"removed {workspace_id}", style="ok")
    return OK
