"""Skills used well: started by name, pinned, run before the call, remembered, in one version, back after a compaction."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_models import Call, Fail, Say, Seen

from skillyard import Catalog
from skillyard.agent_definitions import AgentDraft, AgentSkill, AgentStore
from skillyard.conversations import ChatSettings
from skillyard.conversations.model_context import MAX_SKILL_TOKENS, fill_arguments
from skillyard.errors import InvalidInput, PermissionDenied, RecordNotFound, SkillUnusable, VersionNotFound
from skillyard.permissions import ApprovalAnswer
from skillyard.prompt import count_tokens
from skillyard.registry import Registry


@pytest.mark.parametrize(
    ("body", "arguments", "expected"),
    [
        ("Fix $ARGUMENTS.", "issue 12", "Fix issue 12."),
        ("From $1 to $2, not $3.", '"New York" Oslo', "From New York to Oslo, not ."),
        ("$ARGUMENTS[0] and $ARGUMENTS[1]", "a b", "a and b"),
        ("Costs \\$1 and \\$ARGUMENTS", "x", "Costs $1 and $ARGUMENTS\n\nArguments: x\n"),
        ("Do it.", "now", "Do it.\n\nArguments: now\n"),
        ("Do it.", "", "Do it."),
        ("Say $1", "$2 $ARGUMENTS", "Say $2"),
        ("$PATH $10x $$1", "a", "$PATH $10x $a"),
        ("Say $1", "it's", "Say it's"),
    ],
)
def test_arguments_are_put_in_their_places_once(body: str, arguments: str, expected: str) -> None:
    assert fill_arguments(body, arguments) == expected


@given(body=st.text(alphabet="$ARGUMENTS[]0123\\ a\n", max_size=40), arguments=st.text(alphabet="$1A '\"\\", max_size=12))
def test_any_text_and_any_arguments_can_be_put_together(body: str, arguments: str) -> None:
    text = fill_arguments(body, arguments)
    assert "$" in body or text.startswith(body.rstrip() if arguments else body)


async def test_a_person_starts_a_skill_by_its_name_also_one_kept_from_models(
    open_chat: Any, make_skill: Callable[..., Path], skills_root: Path
) -> None:
    folder = make_skill(
        skills_root,
        "release",
        front_matter="name: release\ndescription: Releases.\ndisable-model-invocation: true",
        body="Release $1 with ${SKILL_DIR}/notes.md.\n",
    )
    harness = await open_chat()
    harness.models.script(Say("Released."), Call("skill", {"skill": "release"}), Say("I may not."))
    turn, _ = await harness.say("/release 1.2.0 now")
    assert (turn.request, turn.answer) == ("/release 1.2.0 now", "Released.")
    seen = harness.models.seen[0]
    assert "The user starts the skill /release with: 1.2.0 now" in seen.said
    assert f"Release 1.2.0 with {folder}/notes.md." in seen.said
    assert "release" not in seen.system.lower()
    await harness.say("Do it once more by yourself")
    assert "kept for people" in harness.models.seen[-1].last


async def test_a_skill_that_may_not_be_started_says_why_and_no_turn_begins(
    open_chat: Any, make_skill: Callable[..., Path], skills_root: Path
) -> None:
    make_skill(skills_root, "inner", front_matter="name: inner\ndescription: For models.\nuser-invocable: false")
    make_skill(skills_root, "secret", description="Secret.")
    harness = await open_chat(settings=ChatSettings(permissions={"secret": "deny"}))
    with pytest.raises(SkillUnusable, match="cannot be started by a person"):
        await harness.chat.send(harness.conversation, "/inner")
    with pytest.raises(PermissionDenied):
        await harness.chat.send(harness.conversation, "/secret")
    assert await harness.chat.turns(harness.conversation) == ()


async def test_a_started_skill_is_in_the_conversation_and_not_sent_again(open_chat: Any, pdf: Path) -> None:
    harness = await open_chat()
    harness.models.script(Call("skill", {"skill": "pdf"}), Say("Yes."))
    await harness.say("/pdf")
    assert "already loaded" in harness.models.seen[-1].last


@pytest.mark.row("003-18")
async def test_the_index_is_ranked_for_each_turn_with_pinned_skills_first_and_what_was_shown_in_its_place(
    open_chat: Any, make_skill: Callable[..., Path], skills_root: Path
) -> None:
    for number in range(60):
        make_skill(skills_root, f"skill-{number:02}", description=f"Does the thing number {number:02} carefully. " * 4)
    make_skill(skills_root, "zebra", description="Counts zebras in pictures of the savannah.")
    harness = await open_chat(settings=ChatSettings(index_tokens=500, pinned=("skill-42",)))
    harness.models.script(Say("1"), Say("2"), Say("3"))
    await harness.say("Hello")
    await harness.say("How many zebras are in this picture?")
    await harness.say("Thank you")
    first, second, third = (seen.system for seen in harness.models.seen)
    assert first.index("skill-42") < first.index("skill-00")
    assert "Counts zebras" not in first
    assert "Counts zebras" in second
    assert second.startswith(first[: first.index("- skill-00")])
    assert third == second
    assert "search_skills" in harness.models.seen[0].tools
    assert all(count_tokens(text) < 700 for text in (first, second, third))


async def test_preprocessors_run_before_the_call_and_tell_the_model_what_they_found(
    open_chat: Any, make_skill: Callable[..., Path], skills_root: Path
) -> None:
    header = (
        "name: locate\ndescription: Finds places named in a request.\ntype: preprocessor\n"
        "triggers:\n  phrases: ['weather in']\n"
    )
    code = "def execute(parameters, context=None):\n    return {'place': 'Oslo, Norway', 'for': context['userId']}\n"
    make_skill(skills_root, "locate", front_matter=header, files={"scripts/main.py": code})
    harness = await open_chat()
    harness.models.script(Say("Rain."))
    await harness.say("What is the weather in Oslo?")
    assert "Oslo, Norway" in harness.models.seen[0].said
    assert "'for': 'ada'" in harness.models.seen[0].said
    assert "<run_result nonce=" in harness.models.seen[0].said
    assert [step.event for step in harness.chat.usage_log.of()].count("run") == 1


async def test_what_skills_want_remembered_is_kept_for_the_person_and_recalled_in_the_next_conversation(
    open_chat: Any, make_skill: Callable[..., Path], skills_root: Path
) -> None:
    code = (
        "def execute(parameters, context=None):\n"
        "    write = {'ownerType': 'user', 'ownerId': context['userId'], 'type': 'preference', 'importance': 4}\n"
        "    return {'output': 'ok', 'memoryWrites': [{**write, 'content': 'Ada likes her tea without sugar'}]}\n"
    )
    make_skill(skills_root, "remember", description="Remembers what people like.", files={"scripts/main.py": code})
    harness = await open_chat()
    harness.models.script(Call("run_skill", {"skill": "remember"}), Say("I will remember."), Say("Without sugar."))
    await harness.say("I take my tea without sugar")
    assert "likes her tea" not in harness.models.seen[0].system
    harness.conversation = await harness.chat.begin("ada", model="openai-chat:gpt-5")
    await harness.say("How does Ada like her tea?")
    assert "Ada likes her tea without sugar" in harness.models.seen[-1].system
    harness.conversation = await harness.chat.begin("eve", model="openai-chat:gpt-5")
    harness.models.script(Say("I do not know."))
    await harness.say("How does Ada like her tea?")
    assert "without sugar" not in harness.models.seen[-1].system


@pytest.mark.parametrize("summary", ["works", "fails"])
async def test_after_the_history_was_compacted_used_skills_are_back_within_their_budget(
    summary: str, open_chat: Any, pdf: Path, make_skill: Callable[..., Path], skills_root: Path
) -> None:
    make_skill(skills_root, "long", description="A long one.", body="A very long line of instructions.\n" * 4000)
    harness = await open_chat(settings=ChatSettings(history_tokens=11_000))

    def answer(seen: Seen) -> Any:
        if "Summarise this conversation" in seen.said:
            return Say("Ada wants her form filled in.") if summary == "works" else Fail(400)
        wanted = seen.said in ("long", "pdf") and f"# Skill: {seen.said}" not in seen.last
        return Call("skill", {"skill": seen.said}) if wanted else Say("Good.")

    harness.models.answer_with(answer)
    reported = []
    for text in ("pdf", "long", "Good?", "And now?", "And then?"):
        turn, events = await harness.say(text)
        reported += [event.data["text"] for event in events if event.kind == "notice"]
        assert turn.state == "done"
    short = "the beginning of the conversation was summarised; skills restored"
    assert reported == [f"{short}: config:pdf", f"{short}: config:long, config:pdf"]
    seen = harness.models.seen[-1]
    beginning = seen.user[0]
    assert beginning.startswith("What happened so far, in short:")
    assert ("Ada wants her form filled in." if summary == "works" else "The user said: pdf") in beginning
    assert "To fill in a form, read FORMS.md" in beginning
    assert "Load the skill again to see the rest." in beginning
    assert count_tokens(beginning) < MAX_SKILL_TOKENS + 1500
    assert harness.models.faults == []
    harness.models.script(Call("skill", {"skill": "pdf"}), Call("skill", {"skill": "long"}), Say("Good."))
    await harness.say("Once more")
    assert "already loaded" in harness.models.seen[-2].last, "it came back whole"
    assert "A very long line" in harness.models.seen[-1].last, "it came back in part"


async def test_a_skill_that_changes_or_goes_meanwhile_is_announced_once(open_chat: Any, pdf: Path, skills_root: Path) -> None:
    catalog = Catalog.discover(roots=[skills_root])
    harness = await open_chat(catalog=catalog)
    harness.models.answer_with(lambda seen: Call("skill", {"skill": "pdf"}) if not seen.results else Say("Good."))
    await harness.say("Load it")
    (pdf / "SKILL.md").write_text("---\nname: pdf\ndescription: Other.\n---\nOther steps.\n")
    _, events = await harness.say("Go on")
    assert [event.data["text"] for event in events if event.kind == "notice"] == [
        "the skill 'pdf' has changed: load it again before you continue with it"
    ]
    assert "load it again before you continue" in harness.models.seen[-1].system
    _, events = await harness.say("Go on")
    assert "load it again" not in harness.models.seen[-1].system
    catalog.disable("pdf")
    _, events = await harness.say("Go on")
    assert "no longer available" in harness.models.seen[-1].system
    assert "do not use it any more" in harness.models.seen[-1].system


async def test_an_installed_skill_stays_in_its_version_while_a_conversation_runs(
    open_chat: Any, make_skill: Callable[..., Path], tmp_path: Path
) -> None:
    def write(number: int) -> str:
        code = f"print('version {number}')\n"
        return str(make_skill(tmp_path / "source", "tidy", body=f"Steps {number}.\n", files={"scripts/main.py": code}))

    catalog = Catalog.discover()
    registry = Registry.of(catalog)
    first = registry.install(write(1)).results[0].version
    catalog.refresh()
    harness = await open_chat(catalog=catalog)
    harness.models.script(Call("skill", {"skill": "tidy"}), Say("Ready."))
    await harness.say("Get ready")
    registry.install(write(2))
    harness.models.script(
        Call("run_skill", {"skill": "tidy"}), Call("read_skill_file", {"skill": "tidy", "file_path": "SKILL.md"}), Say("1")
    )
    _, events = await harness.say("Run it")
    assert [event.data["text"] for event in events if event.kind == "notice"] == [
        f"a newer version of the skill 'tidy' was installed; this conversation continues with {first}"
    ]
    assert "version 1" in harness.models.seen[-2].last
    assert "Steps 1." in harness.models.seen[-1].last
    harness.conversation = await harness.chat.begin("ada", model="openai-chat:gpt-5")
    harness.models.script(Call("run_skill", {"skill": "tidy"}), Say("2"))
    await harness.say("Run it")
    assert "version 2" in harness.models.seen[-1].last
    registry.close()


async def test_an_agent_brings_its_prompt_model_skills_and_rules(
    open_chat: Any, pdf: Path, make_skill: Callable[..., Path], skills_root: Path
) -> None:
    make_skill(skills_root, "deploy", description="Deploys everything.")
    catalog = Catalog.discover(roots=[skills_root])
    chosen = AgentSkill("pdf")
    draft = AgentDraft(
        "clerk", "", "You are a clerk.", "openai-chat:gpt-5-mini", {"permissions": {"pdf": "ask"}}, skills=(chosen,)
    )
    book = AgentStore(lambda: catalog.records().database)
    book.create(draft)
    harness = await open_chat(catalog=catalog, model=None, agent="clerk")
    assert (harness.conversation.agent, harness.conversation.model) == ("clerk", "openai-chat:gpt-5-mini")
    harness.models.script(Call("skill", {"skill": "pdf"}))
    turn, _ = await harness.say("Fill it in")
    assert turn.state == "waiting"
    assert harness.models.seen[0].model == "gpt-5-mini"
    assert harness.models.seen[0].system.startswith("You are a clerk.")
    assert "deploy" not in harness.models.seen[0].system.lower()
    with pytest.raises(RecordNotFound):
        await harness.chat.begin("ada", agent="nobody")


@pytest.mark.parametrize("lock", ["1.0.0", "^1.0.0", "<2"])
async def test_an_agent_that_is_locked_to_a_version_uses_that_one(
    lock: str, open_chat: Any, make_skill: Callable[..., Path], tmp_path: Path
) -> None:
    catalog = Catalog.discover()
    registry = Registry.of(catalog)
    for version in ("1.0.0", "2.0.0"):
        header = f"name: tidy\ndescription: Tidies.\nversion: {version}"
        registry.install(str(make_skill(tmp_path / "source", "tidy", front_matter=header, body=f"Steps of {version}.\n")))
    catalog.refresh()
    book = AgentStore(lambda: catalog.records().database)
    book.create(AgentDraft("old", model="openai-chat:gpt-5", skills=(AgentSkill("tidy", lock),)))
    book.create(AgentDraft("none", model="openai-chat:gpt-5", skills=(AgentSkill("tidy", "9.9.9"),)))
    harness = await open_chat(catalog=catalog, model=None, agent="old")
    harness.models.script(Call("skill", {"skill": "tidy"}), Say("Ready."))
    await harness.say("Tidy up")
    assert "Steps of 1.0.0." in harness.models.seen[-1].last
    with pytest.raises(VersionNotFound):
        await harness.chat.begin("ada", agent="none")
    registry.close()


@pytest.mark.parametrize("name", ["", "nonsense", "nosuch:model", "@http://127.0.0.1:1/v1"])
async def test_a_model_that_cannot_be_used_is_refused_before_a_conversation_begins(
    name: str, open_chat: Any, pdf: Path
) -> None:
    with pytest.raises(InvalidInput) as caught:
        await open_chat(model=name)
    assert caught.value.hint


async def test_a_model_at_an_address_of_ones_own_is_asked_there(open_chat: Any, pdf: Path, models: Any) -> None:
    harness = await open_chat(model=f"llama3@{models.address}/v1")
    models.script(Say("From here."))
    turn, _ = await harness.say("Where are you?")
    assert turn.answer == "From here."
    assert models.seen[0].model == "llama3"
    assert "sk-test" not in str(models.seen[0].body)


async def test_what_a_summary_cost_counts_and_so_does_what_was_before_a_question(open_chat: Any, pdf: Path) -> None:
    harness = await open_chat(settings=ChatSettings(history_tokens=1000, permissions={"pdf": "ask"}))
    harness.models.answer_with(lambda seen: Say("In short." if "Summarise" in seen.said else "Words and words. " * 300))
    for number in range(3):
        turn, _ = await harness.say(f"Question {number}")
    assert turn.usage["requests"] == 1
    before = len(harness.models.seen)
    harness.models.answer_with(
        lambda seen: (
            Say("In short.") if "Summarise" in seen.said else Say("Yes.") if seen.results else Call("skill", {"skill": "pdf"})
        )
    )
    turn, events = await harness.say("Load it")
    assert any(event.kind == "notice" and "In short." in event.data["detail"] for event in events)
    assert (turn.state, turn.usage["requests"]) == ("waiting", 2)
    (asked,) = [event.data["id"] for event in events if event.kind == "ask"]
    turn, _ = await harness.watch(await harness.chat.answer(turn, asked, ApprovalAnswer("once")))
    assert (turn.answer, turn.usage["requests"]) == ("Yes.", 3)
    asked_for = [len(json.dumps(seen.body)) // 4 for seen in harness.models.seen[before:]]
    assert turn.usage["input_tokens"] == sum(asked_for)


async def test_what_was_approved_for_a_conversation_holds_in_another_process_and_only_for_that_content(
    open_chat: Any, pdf: Path
) -> None:
    harness = await open_chat(settings=ChatSettings(permissions={"pdf": "ask"}))
    load = Call("skill", {"skill": "pdf", "force": True})
    harness.models.script(load, Say("First."), load, Say("Second."), load)
    turn, events = await harness.say("Load it")
    (asked,) = [event.data["id"] for event in events if event.kind == "ask"]
    await harness.watch(await harness.chat.answer(turn, asked, ApprovalAnswer("session")))
    await harness.chat.close()
    other = await open_chat()
    other.conversation = harness.conversation
    turn, _ = await other.watch(await other.chat.edit(harness.conversation, turn, "Load it once more"))
    assert turn.answer == "Second."
    (pdf / "FORMS.md").write_text("# Other forms\n")
    turn, _ = await other.say("And again")
    assert turn.state == "waiting"
