"""Conversations with a workspace: the model works in a sandbox over the conversation's folder, and every rule holds there."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_models import Call, Say

from skillyard import Catalog
from skillyard.conversations import Chat, ChatSettings, conversation_tools
from skillyard.environments import SkillGrant, SkillGrants
from skillyard.errors import DependenciesUnavailable, DiskFull, InvalidInput, PathRefused
from skillyard.permissions import ApprovalAnswer
from skillyard.sandbox import GrantedEnvironment

WORKSPACE_TOOLS = ("bash", "code_run", "file_read", "file_write", "file_edit", "file_list", "file_search")


@pytest.mark.row("003-12", "C-30")
async def test_a_model_works_with_a_shell_code_and_files(open_chat: Callable[..., Any], pdf: Path) -> None:
    harness = await open_chat()
    harness.models.script(
        Call("skill", {"skill": "pdf"}),
        Call(
            "bash", {"command": f"cat {pdf}/FORMS.md | head -1; mkdir -p out; cd out; echo one; pwd; sleep 0.1; echo two >&2"}
        ),
        Call("code_run", {"language": "python", "code": "open('made.txt', 'w').write('3')"}),
        Call("file_write", {"file_path": "notes.md", "content": "# Notes\n"}),
        Call("bash", {"command": "rm made.txt; ls"}),
        Say("Done."),
    )
    turn, events = await harness.say("Fill in this PDF form")
    assert harness.models.faults == []
    assert turn.state == "done"
    assert set(WORKSPACE_TOOLS) < set(harness.models.seen[0].tools)
    results = harness.results(events)
    assert [result["ok"] for result in results] == [True] * 5, results
    assert f"Skill directory: {pdf}" in results[0]["text"], "the folder is named as the session sees it"
    assert "# Forms\none\n/workspace/out\ntwo" in results[1]["text"]
    assert results[1]["exit_code"] == 0
    printed = "".join(event.data["text"] for event in events if event.kind == "log" and event.data["stream"] == "stdout")
    assert printed == "# Forms\none\n/workspace/out\nnotes.md\n"
    assert [event.data["name"] for event in events if event.kind == "file"] == ["out/made.txt", "out/notes.md"]
    assert [event.data["name"] for event in events if event.kind == "file_removed"] == ["out/made.txt"]
    kept = harness.chat.folder(harness.conversation).list()
    assert [(file.name, file.origin) for file in kept] == [("out/notes.md", turn.id)]
    trail = harness.chat.usage_log.of(conversation=harness.conversation.id)
    assert [step.event for step in trail] == ["offered", "loaded", "run", "outcome"], "a command in its folder follows a skill"


async def test_settings_and_the_operator_take_a_workspace_away(
    open_chat: Callable[..., Any], pdf: Path, home: Path, skills_root: Path
) -> None:
    harness = await open_chat(settings=ChatSettings(workspace=False))
    harness.models.script(Say("Hello."), Say("Hello."))
    await harness.say("Hello")
    assert not set(WORKSPACE_TOOLS) & set(harness.models.seen[0].tools)
    state = await harness.chat.workspace(harness.conversation)
    assert (state.enabled, state.reason) == (False, "this conversation has no workspace")


async def test_a_tool_is_taken_away_or_asked_about_by_its_name(open_chat: Callable[..., Any], pdf: Path) -> None:
    settings = ChatSettings(tool_permissions={"bash": "deny", "file_write": "ask", "search_skills": "deny"})
    harness = await open_chat(settings=settings)
    harness.models.script(
        Call("bash", {"command": "touch a"}), Call("file_write", {"file_path": "b.txt", "content": "x"}), Say("Done.")
    )
    turn, events = await harness.say("Write")
    assert not {"bash", "search_skills"} & set(harness.models.seen[0].tools)
    (refused,) = harness.results(events)
    assert (refused["code"], refused["rule"]) == (
        "permission_denied", "denied by the conversation's rule `deny bash`: the conversation takes this tool away",
    )  # fmt: skip
    assert turn.state == "waiting"
    (question,) = turn.questions
    assert (question["type"], question["title"], question["argument"]) == ("command", "Write a file: b.txt", "b.txt")
    assert not Path(harness.chat.folder(harness.conversation).path, "b.txt").exists()
    await harness.chat.answer(turn, question["call"], ApprovalAnswer("once"))
    turn, _ = await harness.watch(turn)
    assert turn.state == "done"
    assert Path(harness.chat.folder(harness.conversation).path, "b.txt").read_text() == "x"


async def test_a_command_is_asked_about_and_the_answer_holds_for_that_command(open_chat: Callable[..., Any], pdf: Path) -> None:
    harness = await open_chat(settings=ChatSettings(commands={"allow": ["Bash(echo:*)"], "deny": ["Bash(rm:*)"]}))
    command = "echo a && python3 -c 'print(6 * 7)'"
    harness.models.script(
        [Call("bash", {"command": "echo fine | cat; rm -r /workspace"}), Call("bash", {"command": command})],
        Call("bash", {"command": command}),
        Call("bash", {"command": "python3 -c 'print(7)'"}),
        Say("Done."),
    )
    turn, events = await harness.say("Go")
    (denied,) = harness.results(events)
    assert denied["code"] == "permission_denied"
    assert denied["rule"].startswith("denied by the conversation's rule `deny Bash(rm:*)`"), "also in a line with a pipe"
    (question,) = turn.questions
    assert (question["argument"], question["part"], question["level"]) == (command, "python3 -c 'print(6 * 7)'", "conversation")
    await harness.chat.answer(turn, question["call"], ApprovalAnswer("session"))
    turn, events = await harness.watch(turn)
    assert [result["text"].count("\n42\n") for result in harness.results(events)][-2:] == [1, 1], "the same is not asked again"
    (question,) = turn.questions
    await harness.chat.answer(turn, question["call"], ApprovalAnswer("reject", "not that"))
    turn, events = await harness.watch(turn)
    assert turn.state == "done"
    assert "was not approved: not that" in harness.models.seen[-1].last
    ruled = [step for step in harness.chat.usage_log.of(conversation=harness.conversation.id) if step.event == "ruled"]
    assert [step.ok for step in ruled] == [False, True, True, False]
    assert "the conversation's rule `deny Bash(rm:*)`" in (ruled[0].detail or "")


async def test_a_skill_that_is_loaded_brings_what_it_was_granted_and_the_shell_goes_on(
    open_chat: Callable[..., Any], pdf: Path, skills_root: Path
) -> None:
    catalog = Catalog.discover(roots=[skills_root])
    catalog.grants().allow(catalog.get("pdf"), SkillGrant.from_words(["program:qpdf"]))
    harness = await open_chat(catalog=catalog)
    harness.models.script(
        Call("bash", {"command": "mkdir sub; cd sub; export UNIT=metre; touch /tmp/gone"}),
        Call("skill", {"skill": "pdf"}),
        Call("bash", {"command": "pwd; echo $UNIT; ls /tmp/gone"}),
        Call("bash", {"command": "pwd"}),
        Say("Done."),
    )
    _, events = await harness.say("Fill in this PDF form")
    first, _, renewed, same = harness.results(events)
    assert "session" not in first["text"]
    assert "[A new session took over" in renewed["text"]
    assert "/workspace/sub\nmetre\n" in renewed["text"]
    assert renewed["code"] == "command_failed", "files in /tmp are gone"
    assert "session" not in same["text"]
    workspace = harness.chat._runner._workspaces[harness.conversation.id].workspace
    assert workspace.options.environment.programs == ("qpdf",)


async def test_a_skill_that_brings_nothing_new_leaves_the_session_as_it_is(
    open_chat: Callable[..., Any], pdf: Path, skills_root: Path, make_skill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where more skills are offered than are shown before they are loaded."""
    monkeypatch.setattr(conversation_tools, "_MOST_SHOWN", 2)
    for name in ("tidy", "zip"):
        make_skill(skills_root, name)
    harness = await open_chat()
    tools = await harness.chat._runner.tools_for(harness.conversation)
    shown = [skill.directory for skill in tools.skill_tools.access.offered()][:2]
    second = Path(shown[1]).name
    harness.models.script(
        Call("bash", {"command": "sleep 300", "background": True}),
        Call("skill", {"skill": second}),
        Call("bash", {"command": "echo on"}),
        Call("bash", {"process": "bg1"}),
        Say("Done."),
    )
    _, events = await harness.say("Work")
    _, loaded, after, process = harness.results(events)
    assert loaded["ok"]
    assert "session" not in after["text"]
    assert "running" in process["text"], process
    workspace = harness.chat._runner._workspaces[harness.conversation.id].workspace
    assert sorted(mount.source for mount in workspace.options.mounts("/nowhere")) == sorted(shown)


async def test_packages_that_cannot_be_had_are_reported_and_nothing_else_is_lost(
    open_chat: Callable[..., Any], pdf: Path, skills_root: Path, home: Path
) -> None:
    catalog = Catalog.discover(roots=[skills_root])
    grant = SkillGrant.from_words(["program:no-such-program", "program:qpdf"])
    catalog.grants().book.change(catalog.get("pdf"), lambda _: grant)
    harness = await open_chat(catalog=catalog)
    harness.models.script(Call("skill", {"skill": "pdf"}), Call("bash", {"command": "echo fine"}), Say("Done."))
    _, events = await harness.say("Fill in this PDF form")
    (notice,) = [event.data["text"] for event in events if event.kind == "notice"]
    assert notice.startswith("packages or programs of the skill 'pdf' are missing: ")
    assert "no-such-program" in notice
    assert harness.results(events)[1]["ok"]
    assert harness.chat._runner._workspaces[harness.conversation.id].workspace.options.environment.programs == ("qpdf",)


async def test_the_folder_that_an_installed_skill_tells_is_there_in_its_version(
    open_chat: Callable[..., Any], make_skill: Callable[..., Path], tmp_path: Path, home: Path
) -> None:
    registry = Catalog.discover().registry()

    def install(version: int) -> None:
        folder = make_skill(tmp_path / "source", "tidy", body="Read steps.md.\n", files={"steps.md": f"step {version}\n"})
        registry.install(str(folder))

    install(1)
    harness = await open_chat(catalog=Catalog.discover())
    reported = Path(harness.chat._catalog.get("tidy").directory)
    read = Call("bash", {"command": f"cat {reported}/steps.md"})
    harness.models.script(Call("skill", {"skill": "tidy"}), read, Say("Done."), read, Say("Done."))
    _, events = await harness.say("Tidy up")
    loaded, first = harness.results(events)
    assert f"Skill directory: {reported}" in loaded["text"]
    assert "step 1" in first["text"]
    install(2)
    _, events = await harness.say("Again")
    assert "step 1" in harness.results(events)[0]["text"], "the conversation keeps the version that it has loaded"


async def test_a_model_object_that_is_given_is_used_under_its_name(pdf: Path, skills_root: Path) -> None:
    from pydantic_ai.models.test import TestModel

    chat = Chat(
        Catalog.discover(roots=[skills_root]), models={"mine": TestModel(call_tools=[], custom_output_text="Hello from mine.")}
    )
    try:
        conversation = await chat.begin("ada", model="mine")
        turn = await chat.send(conversation, "Hello")
        _ = [event async for event in chat.events(turn)]
        turn = await chat.turn(conversation, turn.id)
        assert (turn.state, turn.answer, turn.model) == ("done", "Hello from mine.", "mine")
        with pytest.raises(InvalidInput, match="'other' cannot be used"):
            await chat.begin("ada", model="other")
    finally:
        await chat.close()


async def test_what_is_granted_is_looked_for_again_after_a_failure_and_when_its_folder_is_gone(
    open_chat: Callable[..., Any], pdf: Path, skills_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog.discover(roots=[skills_root])
    skill = catalog.get("pdf")
    catalog.grants().book.change(skill, lambda _: SkillGrant.from_words(["pypdf"]))
    packages = tmp_path / "packages"
    granted = GrantedEnvironment(python_packages=str(packages), digest="pypdf")
    asked: list[SkillGrant] = []

    def provide(_: SkillGrants, grant: SkillGrant) -> GrantedEnvironment:
        asked.append(grant)
        if len(asked) == 1:
            raise DependenciesUnavailable("the index does not answer")
        packages.mkdir()
        return granted

    monkeypatch.setattr(SkillGrants, "environment", provide)
    harness = await open_chat(catalog=catalog)
    workspace = harness.chat._runner.workspace(harness.conversation)
    tools = (await harness.chat._runner.tools_for(harness.conversation)).skill_tools
    (problem,) = await workspace.prepare(tools, [skill.id])
    assert "the index does not answer" in problem
    for expected in (2, 2):
        assert await workspace.prepare(tools, [skill.id]) == ()
        assert (workspace.workspace.options.environment, len(asked)) == (granted, expected)
    packages.rmdir()
    assert await workspace.prepare(tools, [skill.id]) == ()
    assert (packages.is_dir(), len(asked)) == (True, 3)


async def test_a_skill_that_needs_consent_is_not_shown_before_somebody_agreed(open_chat: Callable[..., Any], pdf: Path) -> None:
    harness = await open_chat(settings=ChatSettings(permissions={"pdf": "ask"}))
    look = Call("bash", {"command": f"cat {pdf}/FORMS.md | wc -l; echo x > {pdf}/new"})
    harness.models.script(look, Call("skill", {"skill": "pdf"}), look, Say("Done."))
    turn, events = await harness.say("Look")
    assert "No such file" in harness.results(events)[0]["text"]
    await harness.chat.answer(turn, turn.questions[0]["call"], ApprovalAnswer("once"))
    _, events = await harness.watch(turn)
    shown = harness.results(events)[-1]["text"]
    assert "\n3\n" in shown
    assert "Read-only file system" in shown


async def test_nothing_of_one_conversation_reaches_another(open_chat: Callable[..., Any], pdf: Path) -> None:
    first, second = await open_chat(), await open_chat()
    first.models.script(
        Call("bash", {"command": "echo secret > mine.txt; echo $$; sleep 300", "background": True}), Say("Done.")
    )
    await first.say("Write")
    folder = first.chat.folder(first.conversation).path
    look = f"ls -A /workspace; cat {folder}/mine.txt; ls {folder}/../../..; ps aux 2>/dev/null | grep -c '[s]leep 300'"
    second.models.script(Call("bash", {"command": look}), Say("Done."))
    _, events = await second.say("Look")
    (seen,) = desk_texts(second, events)
    assert "secret" not in seen
    assert seen.count("No such file or directory") == 2
    assert "\n0\n" in seen or "command not found" in seen
    assert second.chat.folder(second.conversation).list() == ()


def desk_texts(harness: Any, events: Any) -> list[str]:
    return [result["text"] for result in harness.results(events)]


async def test_after_a_restart_files_are_there_and_the_shell_says_that_it_is_fresh(
    open_chat: Callable[..., Any], pdf: Path, skills_root: Path
) -> None:
    harness = await open_chat()
    harness.models.script(Call("bash", {"command": "echo kept > a.txt; cd /tmp"}), Say("Done."))
    await harness.say("Write")
    folder = harness.chat.folder(harness.conversation)
    Path(folder.path, "late.txt").write_text("written when the server was killed")
    Path(folder.path, "a.txt").unlink()
    again = Chat(Catalog.discover(roots=[skills_root]))
    try:
        conversation = await again.get(harness.conversation.id, "ada")
        harness.models.script(Call("bash", {"command": "cat late.txt; pwd"}), Say("Done."))
        turn = await again.send(conversation, "Go on")
        events = [event async for event in again.events(turn)]
        (text,) = desk_texts(harness, events)
        assert "[The shell is fresh: an earlier session of this workspace has ended." in text
        assert "killed/workspace" in text
        assert [file.name for file in again.folder(conversation).list()] == ["late.txt"]
        assert [event.data["name"] for event in events if event.kind == "file_removed"] == ["a.txt"]
        await again.delete(conversation)
        assert not Path(folder.path).exists()
    finally:
        await again.close()


async def test_a_folder_of_the_user_is_worked_in_and_stays(open_chat: Callable[..., Any], pdf: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "src/a.py").write_text("print(1)\n")
    harness = await open_chat(folder=project)
    harness.models.script(Call("bash", {"command": "cat src/a.py; echo new > b.txt"}), Say("Done."))
    turn, events = await harness.say("Look")
    assert "print(1)" in harness.results(events)[0]["text"]
    assert [(file.name, file.origin) for file in harness.chat.folder(harness.conversation).list()] == [("b.txt", turn.id)]
    await harness.chat.delete(harness.conversation)
    assert sorted(path.name for path in project.iterdir()) == ["b.txt", "src"]
    with pytest.raises(PathRefused):
        await harness.chat.begin("ada", model="openai-chat:gpt-5", folder="/etc")


@pytest.mark.row("001-23", "D-28")
async def test_each_conversation_sees_the_skills_and_rules_of_the_project_that_it_works_in(
    open_chat: Callable[..., Any], make_skill: Callable[..., Path], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One program serves many projects: none sees the skills of another."""
    for name in ("one", "two"):
        make_skill(tmp_path / name / ".claude/skills", f"deploy-{name}", description=f"Deploys {name}. Use for {name}.")
        (tmp_path / name / ".git").mkdir()
    make_skill(tmp_path / "two/.claude/skills", "secret")
    (tmp_path / "two/skillyard.toml").write_text('[permissions.skills]\nsecret = "deny"\n')
    make_skill(home / ".claude/skills", "mine")
    monkeypatch.setenv("SKILLYARD_BUILT_IN", "off")
    one = await open_chat(catalog=Catalog.discover(cwd=tmp_path / "one"))
    asked = await one.chat.begin("ada", model="openai-chat:gpt-5", folder=tmp_path / "two")
    for conversation, there in ((one.conversation, "one"), (asked, "two")):
        one.models.script(Call("skill", {"skill": f"deploy-{there}"}), Say("Done."))
        turn = await one.chat.send(conversation, "Deploy it")
        events = [event async for event in one.chat.events(turn)]
        if there == "two":  # a skill in a folder that a model works in is asked about
            (question,) = [event.data["id"] for event in events if event.kind == "ask"]
            await one.chat.answer(await one.chat.turn(conversation, turn.id), question, ApprovalAnswer("once"))
            events = [event async for event in one.chat.events(turn)]
        assert [result["ok"] for result in one.results(events)] == [True]
        (index,) = {"".join(re.findall(r"^- (\S+):", seen.system, re.MULTILINE)) for seen in one.models.seen[-2:]}
        assert index == f"deploy-{there}mine"
        assert [skill.name for skill in one.chat.commands(conversation, "")] == [f"deploy-{there}", "mine"]
    assert ((await one.chat.get(asked.id, "ada")).to_dict()["folder"], one.conversation.folder) == (str(tmp_path / "two"), None)


async def test_the_folder_of_a_skill_is_reported_as_the_session_sees_it_in_each_sandbox(
    open_chat: Callable[..., Any], make_skill: Callable[..., Path], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under Landlock everything has its own path; an organisation is told none of the machine where bubblewrap is."""
    place = Path(tempfile.mkdtemp(prefix="skillyard-chat-", dir="/tmp"))
    place.chmod(0o755)
    try:
        skill = make_skill(place / "skills", "tidy", files={"a.txt": "read me"})
        for folder in (place / "skills", skill, place / "files"):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        settings = Path(os.environ["HOME"], ".config/skillyard/skillyard.toml")
        settings.parent.mkdir(parents=True)
        settings.write_text('[workspace]\nbackend = "landlock"\n')
        harness = await open_chat(catalog=Catalog.discover(roots=[place / "skills"]), folder=place / "files")
        folder = await loaded_folder(harness)
        assert folder == str(skill)
        settings.write_text("")
        catalog = Catalog.discover(roots=[place / "skills"]).for_organisation(str(place / "acme"), f"sqlite:///{place}/acme.db")
        harness = await open_chat(catalog=catalog)
        assert await loaded_folder(harness) == "/skills/config/tidy"
    finally:
        shutil.rmtree(place, ignore_errors=True)


async def loaded_folder(harness: Any) -> str:
    """The folder that a loaded skill is told to be in; a file of it is read there by a command."""

    def answer(seen: Any) -> Any:
        if not seen.results:
            return Call("skill", {"skill": "tidy"})
        found = re.search(r"Skill directory: (\S+)", seen.results[0][1])
        assert found
        return Call("bash", {"command": f"cat {found[1]}/a.txt; pwd"}) if len(seen.results) == 1 else Say(found[1])

    harness.models.answer_with(answer)
    turn, events = await harness.say("Tidy up")
    result = harness.results(events)[-1]
    assert (result["ok"], "read me" in result["text"]) == (True, True), result
    return str(turn.answer)


async def test_a_turn_that_is_stopped_ends_its_command_and_the_session_goes_on(
    open_chat: Callable[..., Any], pdf: Path
) -> None:
    harness = await open_chat()
    command = "touch begun; echo started; sleep 300 & sleep 300"
    harness.models.script(Call("bash", {"command": command}), Call("bash", {"command": "ps -e; ls"}), Say("Done."))
    turn = await harness.chat.send(harness.conversation, "Wait")
    async for event in harness.chat.events(turn):
        if event.kind == "log":
            await harness.chat.stop(turn)
    assert (await harness.chat.turn(harness.conversation, turn.id)).state == "stopped"
    _, events = await harness.say("Look")
    (text,) = desk_texts(harness, events)
    assert "fresh" not in text
    assert "sleep" not in text
    assert "begun" in text
    assert [file.name for file in harness.chat.folder(harness.conversation).list()] == ["begun"]


async def test_scripts_commands_and_people_work_on_the_same_files(open_chat: Callable[..., Any], pdf: Path) -> None:
    harness = await open_chat()
    harness.chat.folder(harness.conversation).put("form.pdf", b"/AcroForm /T (name)")
    fill = {"skill": "pdf", "entry": "scripts/fill.py", "arguments": ["form.pdf", "out.pdf", "Ada"]}
    harness.models.script(
        Call("bash", {"command": "echo more >> form.pdf"}),
        Call("run_skill", fill),
        Call("bash", {"command": "echo more >> out.pdf; tail -2 out.pdf"}),
        Say("Done."),
    )
    _, events = await harness.say("Fill in this PDF form")
    assert [result["ok"] for result in harness.results(events)] == [True] * 3, desk_texts(harness, events)
    assert "% name=Ada\nmore" in harness.results(events)[-1]["text"]
    origins = {file.name: file.origin[:5] for file in harness.chat.folder(harness.conversation).list()}
    assert origins == {"form.pdf": "turn_", "out.pdf": "turn_"}


async def test_people_put_no_more_than_the_workspace_takes(open_chat: Callable[..., Any], pdf: Path, home: Path) -> None:
    settings = home / ".config/skillyard/skillyard.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[workspace]\nquota-mb = 1\n")
    harness = await open_chat()
    folder = harness.chat.folder(harness.conversation)
    folder.put("a.bin", bytes(700_000))
    with pytest.raises(DiskFull, match="the workspace takes at most 1 MB"):
        folder.put("b.bin", bytes(700_000))
    assert [file.name for file in folder.list()] == ["a.bin"]
    assert [entry.path for entry in folder.disk.listing().entries] == ["a.bin"]
    folder.drop("a.bin")
    folder.put("b.bin", bytes(700_000))
