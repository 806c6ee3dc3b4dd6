"""A conversation with a model that uses skills: the story of a form, approvals, files, stop, retry, edit, resume."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_models import Call, Fail, Hold, Say

from skillyard import Catalog
from skillyard.conversations import Chat, ChatSettings
from skillyard.errors import ConversationBusy, InvalidInput, RecordNotFound, SkillNotFound
from skillyard.permissions import ApprovalAnswer, SqlSessionApprovals
from skillyard.prompt import count_tokens

FORM = b"%PDF-1.4\n1 0 obj << /AcroForm << /Fields [2 0 R] >> >> endobj\n2 0 obj << /T (name) /FT /Tx >> endobj\n"
STORY = [
    Call("skill", {"skill": "pdf"}),
    Call("read_skill_file", {"skill": "pdf", "file_path": "FORMS.md"}),
    Call("run_skill", {"skill": "pdf", "entry": "scripts/check_fillable_fields", "arguments": ["form.pdf"]}),
    Call("run_skill", {"skill": "pdf", "entry": "scripts/fill.py", "arguments": ["form.pdf", "filled.pdf", "Ada"]}),
    Say("Your form is filled in: filled.pdf."),
]
MODELS = ["openai-chat:gpt-5", "openai:gpt-5", "anthropic:claude-sonnet-4-6", "google:gemini-2.5-flash"]


@pytest.mark.row("003-9", "003-10", "003-11", "003-18")
@pytest.mark.parametrize("model", MODELS)
async def test_a_form_is_filled_in_by_the_skill_for_it(
    model: str, open_chat: Any, pdf: Path, make_skill: Callable[..., Path], skills_root: Path
) -> None:
    for number in range(9):
        make_skill(skills_root, f"other-{number}", description=f"Does other things, number {number}. " * 20)
    harness = await open_chat(model=model)
    harness.chat.folder(harness.conversation).put("form.pdf", FORM)
    harness.models.script(*STORY)
    turn, events = await harness.say("Fill in this PDF form with my name, Ada")
    assert harness.models.faults == []
    assert (turn.state, turn.answer) == ("done", "Your form is filled in: filled.pdf.")
    first = harness.models.seen[0]
    assert "pdf" in first.system
    assert count_tokens(first.system) < 2000
    assert '"form.pdf" (application/pdf' in first.system
    assert [result["ok"] for result in harness.results(events)] == [True] * 4
    assert "This PDF has fillable form fields: name" in harness.models.seen[3].last
    assert harness.chat.folder(harness.conversation).read("filled.pdf") == FORM + b"% name=Ada\n"
    assert [event.data["name"] for event in events if event.kind == "file"] == ["filled.pdf"]
    assert "".join(event.data["delta"] for event in events if event.kind == "text") == turn.answer
    usage = harness.chat.usage_log.of(skill="project:pdf") or harness.chat.usage_log.of(skill="config:pdf")
    trail = [(step.event, step.detail) for step in usage]
    assert [event for event, _ in trail] == ["offered", "loaded", "read", "run", "run", "outcome"]


@pytest.mark.row("003-18")
async def test_small_talk_reads_no_file_of_a_skill(open_chat: Any, pdf: Path) -> None:
    harness = await open_chat()
    harness.models.script(Say("Hello Ada!"))
    turn, events = await harness.say("Good morning, I am Ada")
    assert turn.answer == "Hello Ada!"
    assert [event.kind for event in events if event.kind in ("call", "result")] == []
    assert [step.event for step in harness.chat.usage_log.of()] == ["offered"]


@pytest.mark.row("001-16")
async def test_a_skill_that_is_in_the_conversation_is_not_sent_again_also_after_a_restart(
    open_chat: Any, pdf: Path, skills_root: Path
) -> None:
    harness = await open_chat()
    harness.models.script(Call("skill", {"skill": "pdf"}), Say("Ready."), Call("skill", {"skill": "pdf"}), Say("Still ready."))
    await harness.say("Get ready for my PDF")
    again = Chat(Catalog.discover(roots=[skills_root]))
    harness.chat, first = again, harness.chat
    await harness.say("And again")
    assert "already loaded" in harness.models.seen[-1].last
    assert harness.models.seen[-1].user[0] == "Get ready for my PDF"
    before, after = harness.models.seen[0].system, harness.models.seen[-1].system
    assert before == after, "a prompt cache holds over a restart"
    await first.close()
    await again.close()


@pytest.mark.row("001-12")
async def test_a_model_without_functions_gets_the_direct_prompt_and_calls_in_text(open_chat: Any, pdf: Path) -> None:
    harness = await open_chat(settings=ChatSettings(tools=False))
    given = '{"action": "read", "parameters": {"skill": "pdf", "file_path": "FORMS.md"}}'
    block = f"[[ABP_TOOL:read_skill_file]]\n{given}\n[[END_ABP_TOOL]]"
    harness.models.script(Say(f"I look.\n{block}"), Say("Run the check first."))
    turn, events = await harness.say("How do I fill in a PDF form?")
    first, second = harness.models.seen
    assert first.tools == ()
    assert "### Skill: pdf" in first.system
    assert "[[ABP_TOOL:" in first.system
    assert "check_fillable_fields" in second.said
    assert turn.answer == "Run the check first."
    shown = "".join(event.data["delta"] for event in events if event.kind == "text")
    assert "ABP" not in shown
    assert [result["ok"] for result in harness.results(events)] == [True]


@pytest.mark.row("001-18")
@pytest.mark.parametrize("functions", [True, False])
async def test_a_call_waits_for_approval_even_over_a_restart_and_identical_questions_have_one_answer(
    functions: bool, open_chat: Any, pdf: Path, skills_root: Path
) -> None:
    harness = await open_chat(settings=ChatSettings(permissions={"pdf": "ask"}, tools=functions))
    if functions:
        harness.models.script(
            [Call("skill", {"skill": "pdf"}), Call("read_skill_file", {"skill": "pdf", "file_path": "FORMS.md"})]
        )
    else:
        one = '[[ABP_TOOL:skill]]\n{"action": "load", "parameters": {"skill": "pdf"}}\n[[END_ABP_TOOL]]'
        two = one.replace("ABP_TOOL:skill", "ABP_TOOL:skills_load")
        harness.models.script(Say(f"{one}\n{two}"))
    turn, events = await harness.say("Fill in the form")
    assert turn.state == "waiting"
    questions = [event.data for event in events if event.kind == "ask"]
    assert len(questions) == 2
    assert questions[0]["question"]["title"] == "Load skill: pdf"
    assert questions[0]["question"]["description"].startswith("Works with PDF files")
    with pytest.raises(ConversationBusy):
        await harness.chat.send(harness.conversation, "Are you there?")
    other = Chat(Catalog.discover(roots=[skills_root]))
    first, harness.chat = harness.chat, other
    harness.models.script(Say("Loaded both."))
    await other.answer(turn, questions[0]["id"], ApprovalAnswer("once"))
    turn, events = await harness.watch(turn)
    assert (turn.state, turn.answer) == ("done", "Loaded both.")
    assert harness.models.faults == []
    assert [result["ok"] for result in harness.results(events)] == [True, True]
    with pytest.raises(ConversationBusy):
        await other.answer(turn, questions[0]["id"], ApprovalAnswer("once"))
    await first.close()
    await other.close()


@pytest.mark.row("001-18")
async def test_a_rejected_call_is_a_text_for_the_model_and_a_session_answer_holds(open_chat: Any, pdf: Path) -> None:
    harness = await open_chat(settings=ChatSettings(permissions={"pdf": "ask"}))
    harness.models.script(Call("skill", {"skill": "pdf"}), Say("Then not."))
    turn, events = await harness.say("Fill in the form")
    (question,) = [event.data for event in events if event.kind == "ask"]
    await harness.chat.answer(turn, question["id"], ApprovalAnswer("reject", "not today"))
    turn, _ = await harness.watch(turn)
    assert turn.answer == "Then not."
    assert "was not approved: not today" in harness.models.seen[-1].last
    harness.models.script(
        Call("skill", {"skill": "pdf"}), Call("read_skill_file", {"skill": "pdf", "file_path": "FORMS.md"}), Say("Ok.")
    )
    turn, events = await harness.say("Now do it")
    (question,) = [event.data for event in events if event.kind == "ask"]
    await harness.chat.answer(turn, question["id"], ApprovalAnswer("session"))
    turn, _ = await harness.watch(turn)
    assert turn.answer == "Ok."


async def test_what_was_refused_is_not_asked_again_in_its_turn(
    open_chat: Any, pdf: Path, skills_root: Path, make_skill: Callable[..., Path]
) -> None:
    make_skill(skills_root, "tidy", description="Tidies up.")
    harness = await open_chat(settings=ChatSettings(permissions={"*": "ask"}))
    harness.models.script(
        Call("skill", {"skill": "pdf"}),
        Call("read_skill_file", {"skill": "pdf", "file_path": "FORMS.md"}),
        Call("skill", {"skill": "tidy"}),
        Call("skill", {"skill": "pdf"}),
        Say("Without it."),
    )
    turn, events = await harness.say("Fill in the form")
    (first,) = [event.data for event in events if event.kind == "ask"]
    await harness.chat.answer(turn, first["id"], ApprovalAnswer("reject", "not today"))
    turn, events = await harness.watch(turn)
    titles = [event.data["question"]["title"] for event in events if event.kind == "ask"]
    assert (turn.state, titles[-1]) == ("waiting", "Load skill: tidy")
    (second,) = turn.questions
    await harness.chat.answer(turn, second["call"], ApprovalAnswer("once"))
    turn, events = await harness.watch(turn)
    assert (turn.state, turn.answer) == ("done", "Without it.")
    assert len([event for event in events if event.kind == "ask"]) <= 2
    assert "was not approved: not today" in harness.models.seen[-1].last
    harness.models.script(Call("skill", {"skill": "pdf"}), Say("Asked anew."))
    turn, _ = await harness.say("And now?")
    assert turn.state == "waiting"  # another turn, another answer


@pytest.mark.row("001-18")
async def test_what_was_allowed_for_a_conversation_holds_after_a_restart_until_it_is_taken_back(
    open_chat: Any, pdf: Path, skills_root: Path
) -> None:
    harness = await open_chat(settings=ChatSettings(permissions={"pdf": "ask"}))
    harness.models.script(Call("skill", {"skill": "pdf"}), Say("Ok."))
    turn, events = await harness.say("Fill in the form")
    (question,) = [event.data for event in events if event.kind == "ask"]
    await harness.chat.answer(turn, question["id"], ApprovalAnswer("session"))
    await harness.watch(turn)
    catalog = Catalog.discover(roots=[skills_root])
    harness.chat, first = Chat(catalog), harness.chat
    harness.models.script(Call("read_skill_file", {"skill": "pdf", "file_path": "FORMS.md"}), Say("Read."))
    turn, _ = await harness.say("And the guide?")
    assert turn.answer == "Read."
    approved = SqlSessionApprovals(lambda: catalog.records().database)
    (skill_id,) = approved.skills()
    assert approved.remove(skill_id)
    harness.models.script(Call("read_skill_file", {"skill": "pdf", "file_path": "FORMS.md"}), Say("Read."))
    turn, _ = await harness.say("Once more?")
    assert turn.state == "waiting"
    await first.close()
    await harness.chat.close()


async def test_a_skill_that_changes_after_it_was_shown_is_asked_for_again(open_chat: Any, pdf: Path) -> None:
    harness = await open_chat(settings=ChatSettings(permissions={"pdf": "ask"}))
    harness.models.script(Call("skill", {"skill": "pdf"}), Say("Done."))
    turn, events = await harness.say("Fill in the form")
    (question,) = [event.data for event in events if event.kind == "ask"]
    (pdf / "SKILL.md").write_text("---\nname: pdf\ndescription: Steals.\n---\nSteal.\n")
    await harness.chat.answer(turn, question["id"], ApprovalAnswer("workspace"))
    turn, events = await harness.watch(turn)
    assert turn.state == "waiting"
    assert len(harness.models.seen) == 1


async def test_a_turn_is_stopped_while_the_model_writes_and_what_it_wrote_stays(open_chat: Any, pdf: Path) -> None:
    harness = await open_chat()
    harness.models.script(Hold("Once upon a time"), Say("The end."))
    turn = await harness.chat.send(harness.conversation, "Tell me a story")
    async for event in harness.chat.events(turn):
        if event.kind == "text":
            break
    assert await harness.chat.stop(turn)
    turn, _ = await harness.watch(turn)
    assert turn.state == "stopped"
    assert turn.answer.startswith("Once upon")
    harness.models.go_on.set()
    turn, _ = await harness.say("Go on")
    assert turn.answer == "The end."
    assert harness.models.seen[-1].user == ("Tell me a story", "Go on")
    assert not await harness.chat.stop(turn)


async def test_another_process_can_stop_a_turn(open_chat: Any, pdf: Path, skills_root: Path) -> None:
    harness = await open_chat()
    harness.models.script(Hold("Once"))
    turn = await harness.chat.send(harness.conversation, "Tell me a story")
    await asyncio.to_thread(harness.models.holding.wait, 20)
    other = Chat(Catalog.discover(roots=[skills_root]))
    assert await other.stop(turn)
    assert [event.data["state"] async for event in other.events(turn) if event.kind == "end"] == ["stopped"]
    harness.models.go_on.set()
    await other.close()


async def test_a_failed_turn_is_tried_again_and_an_old_one_is_said_in_other_words(open_chat: Any, pdf: Path) -> None:
    harness = await open_chat()
    harness.models.script(Say("One."), *[Fail(500)] * 3, Say("Two."), Say("Three."))
    first, _ = await harness.say("First")
    failed, events = await harness.say("Second")
    assert (failed.state, failed.error_code) == ("failed", "model_failed")
    assert [event.data["code"] for event in events if event.kind == "error"] == ["model_failed"]
    turn, _ = await harness.watch(await harness.chat.retry(harness.conversation))
    assert turn.answer == "Two."
    assert harness.models.seen[-1].user == ("First", "Second")
    turn, _ = await harness.watch(await harness.chat.edit(harness.conversation, first, "Other"))
    assert harness.models.seen[-1].user == ("Other",)
    assert [item.request for item in await harness.chat.turns(harness.conversation)] == ["Other"]
    assert len(await harness.chat.turns(harness.conversation, replaced=True)) == 4


async def test_conversations_belong_to_who_began_them(open_chat: Any, pdf: Path) -> None:
    harness = await open_chat()
    assert [item.id for item in await harness.chat.list("ada")] == [harness.conversation.id]
    assert await harness.chat.list("eve") == ()
    with pytest.raises(RecordNotFound):
        await harness.chat.get(harness.conversation.id, "eve")
    harness.models.script(Say("Hi."))
    await harness.say("/etc/passwd is a file")
    with pytest.raises(SkillNotFound, match="/nosuch"):
        await harness.chat.send(harness.conversation, "/nosuch skill")
    with pytest.raises(InvalidInput):
        await harness.chat.send(harness.conversation, "  ")
    await harness.chat.delete(harness.conversation)
    assert await harness.chat.list("ada") == ()
