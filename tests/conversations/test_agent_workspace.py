"""Conversations with a workspace: the model works in a sandbox over the conversation's folder, and every rule holds there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripted_models import Call, Say

from skillyard.conversations import ChatSettings
from skillyard.permissions import ApprovalAnswer

WORKSPACE_TOOLS = ("bash", "code_run", "file_read", "file_write", "file_edit", "file_list", "file_search")


async def test_a_model_works_with_a_shell_code_and_files(open_chat: Callable[..., Any], pdf: Path) -> None:
    desk = await open_chat()
    desk.models.script(
        Call("skill", {"skill": "pdf"}),
        Call(
            "bash", {"command": f"cat {pdf}/FORMS.md | head -1; mkdir -p out; cd out; echo one; pwd; sleep 0.1; echo two >&2"}
        ),
        Call("code_run", {"language": "python", "code": "open('made.txt', 'w').write('3')"}),
        Call("file_write", {"file_path": "notes.md", "content": "# Notes\n"}),
        Call("bash", {"command": "rm made.txt; ls"}),
        Say("Done."),
    )
    turn, events = await desk.say("Fill in this PDF form")
    assert desk.models.faults == []
    assert turn.state == "done"
    assert set(WORKSPACE_TOOLS) < set(desk.models.seen[0].tools)
    results = desk.results(events)
    assert [result["ok"] for result in results] == [True] * 5, results
    assert f"Skill directory: {pdf}" in results[0]["text"], "the folder is told as the session sees it"
    assert "# Forms\none\n/workspace/out\ntwo" in results[1]["text"]
    assert results[1]["exit_code"] == 0
    printed = "".join(event.data["text"] for event in events if event.kind == "log" and event.data["stream"] == "stdout")
    assert printed == "# Forms\none\n/workspace/out\nnotes.md\n"
    assert [event.data["name"] for event in events if event.kind == "file"] == ["out/made.txt", "out/notes.md"]
    assert [event.data["name"] for event in events if event.kind == "file_removed"] == ["out/made.txt"]
    kept = desk.chat.folder(desk.conversation).list()
    assert [(file.name, file.origin) for file in kept] == [("out/notes.md", turn.id)]
    trail = desk.chat.usage_log.of(conversation=desk.conversation.id)
    assert [step.event for step in trail] == ["offered", "loaded", "run", "outcome"], "a command in its folder follows a skill"


async def test_settings_and_the_operator_take_a_workspace_away(
    open_chat: Callable[..., Any], pdf: Path, home: Path, skills_root: Path
) -> None:
    desk = await open_chat(settings=ChatSettings(workspace=False))
    desk.models.script(Say("Hello."), Say("Hello."))
    await desk.say("Hello")
    assert not set(WORKSPACE_TOOLS) & set(desk.models.seen[0].tools)
    state = await desk.chat.workspace(desk.conversation)
    assert (state.enabled, state.reason) == (False, "this conversation has no workspace")


async def test_a_tool_is_taken_away_or_asked_about_by_its_name(open_chat: Callable[..., Any], pdf: Path) -> None:
    settings = ChatSettings(tool_permissions={"bash": "deny", "file_write": "ask", "search_skills": "deny"})
    desk = await open_chat(settings=settings)
    desk.models.script(
        Call("bash", {"command": "touch a"}), Call("file_write", {"file_path": "b.txt", "content": "x"}), Say("Done.")
    )
    turn, events = await desk.say("Write")
    assert not {"bash", "search_skills"} & set(desk.models.seen[0].tools)
    (refused,) = desk.results(events)
    assert (refused["code"], refused["rule"]) == (
        "permission_denied", "denied by deny bash of the agent: the agent takes this tool away",
    )  # fmt: skip
    assert turn.state == "waiting"
    (question,) = turn.questions
    assert (question["type"], question["title"], question["argument"]) == ("command", "Write a file: b.txt", "b.txt")
    assert not Path(desk.chat.folder(desk.conversation).path, "b.txt").exists()
    await desk.chat.answer(turn, question["call"], ApprovalAnswer("once"))
    turn, _ = await desk.watch(turn)
    assert turn.state == "done"
    assert Path(desk.chat.folder(desk.conversation).path, "b.txt").read_text() == "x"


async def test_a_command_is_asked_about_and_the_answer_holds_for_that_command(open_chat: Callable[..., Any], pdf: Path) -> None:
    desk = await open_chat(settings=ChatSettings(commands={"allow": ["Bash(echo:*)"], "deny": ["Bash(rm:*)"]}))
    command = "echo a && python3 -c 'print(6 * 7)'"
    desk.models.script(
        [Call("bash", {"command": "echo fine | cat; rm -r /workspace"}), Call("bash", {"command": command})],
        Call("bash", {"command": command}),
        Call("bash", {"command": "python3 -c 'print(7)'"}),
        Say("Done."),
    )
    turn, events = await desk.say("Go")
    (denied,) = desk.results(events)
    assert denied["code"] == "permission_denied"
    assert denied["rule"].startswith("denied by deny Bash(rm:*) of the agent"), "also in a line with a pipe"
    (question,) = turn.questions
    assert (question["argument"], question["part"], question["level"]) == (command, "python3 -c 'print(6 * 7)'", "agent")
    await desk.chat.answer(turn, question["call"], ApprovalAnswer("session"))
    turn, events = await desk.watch(turn)
    assert [result["text"].count("\n42\n") for result in desk.results(events)][-2:] == [1, 1], "the same is not asked again"
    (question,) = turn.questions
    await desk.chat.answer(turn, question["call"], ApprovalAnswer("reject", "not that"))
    turn, events = await desk.watch(turn)
    assert turn.state == "done"
    assert "was not approved: not that" in desk.models.seen[-1].last
    ruled = [step for step in desk.chat.usage_log.of(conversation=desk.conversation.id) if step.event == "ruled"]
    assert [step.ok for step in ruled] == [False, True, True, False]
    assert "deny Bash(rm:*) of the agent" in (ruled[0].detail or "")
