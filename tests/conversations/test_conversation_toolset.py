"""The toolset for pydantic-ai: an index that follows the catalog, tools, approvals that are deferred, limits on other tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, FunctionToolset
from scripted_models import Call, Say

from skillyard import Catalog
from skillyard.conversations import SkillToolset
from skillyard.workspace import Workspaces

Make = Callable[..., Awaitable[Agent[None, Any]]]
MODELS = ["openai-chat:gpt-5", "openai:gpt-5", "anthropic:claude-sonnet-4-6", "google:gemini-2.5-flash"]


@pytest.fixture
async def agent_of() -> AsyncIterator[Make]:
    """Give a function that makes agents, whose connections are closed at the end."""
    async with AsyncExitStack() as stack:

        async def make(name: str, **options: Any) -> Agent[None, Any]:
            return await stack.enter_async_context(Agent(name, **options))

        yield make


@pytest.fixture
def skills(skills_root: Path, make_skill: Callable[..., Path]) -> Callable[..., SkillToolset]:
    make_skill(skills_root, "tidy", description="Tidies text. Use when a text is untidy.", body="# How\n\nTrim it.\n")
    return lambda **options: SkillToolset(Catalog.discover(roots=[skills_root]), **options)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.row("003-9", "003-18")
async def test_every_wire_format_carries_index_and_tools(
    name: str, stream: bool, models: Any, agent_of: Make, skills: Callable[..., SkillToolset]
) -> None:
    models.script(Call("read_skill_file", {"skill": "tidy", "file_path": "SKILL.md"}), Say("It says: trim it."))
    agent = await agent_of(name, instructions="Be brief.", toolsets=[skills()])
    if stream:
        async with agent.run_stream("Make this tidy") as answer:
            assert "".join([piece async for piece in answer.stream_text(delta=True)]) == "It says: trim it."
    else:
        assert (await agent.run("Make this tidy")).output == "It says: trim it."
    first, second = models.seen
    assert "Be brief." in first.system
    assert "tidy" in first.system
    assert "Trim it." in second.last
    assert models.faults == []


async def test_a_skill_that_appears_during_a_run_is_there_at_the_next_step(
    models: Any, agent_of: Make, skills: Callable[..., SkillToolset], skills_root: Path, make_skill: Callable[..., Path]
) -> None:
    agent = await agent_of(MODELS[0], toolsets=[skills()])

    @agent.tool_plain
    def install() -> str:
        make_skill(skills_root, "fold", description="Folds maps. Use when a map is open.")
        return "installed"

    models.script(Call("install"), Call("skill", {"skill": "fold"}), Say("Folded."))
    assert (await agent.run("Fold the map")).output == "Folded."
    assert "Folds maps." not in models.seen[0].system
    assert "Folds maps." in models.seen[1].system
    assert "# Skill: fold" in models.seen[2].last


async def test_what_was_shown_before_stays_where_it_is_in_the_next_turn(
    models: Any, agent_of: Make, skills: Callable[..., SkillToolset], skills_root: Path, make_skill: Callable[..., Path]
) -> None:
    for number in range(30):
        make_skill(skills_root, f"skill-{number:02}", description=f"Does the thing number {number:02} with great care. " * 3)
    agent = await agent_of(MODELS[0], toolsets=[skills(budget=400)])
    models.script(Say("One."), Say("Two."))
    first = await agent.run("Make this tidy")
    await agent.run("Do the thing number 29", message_history=first.all_messages())
    before, after = (seen.system for seen in models.seen)
    assert "skill-29" in after
    assert before.index("tidy") == after.index("tidy")
    head = after[: after.index("skill-29")]
    assert before.startswith(head[: len(head) - 2])


@pytest.mark.row("001-18")
async def test_a_call_that_needs_approval_is_deferred_and_its_answer_holds_for_that_content_only(
    models: Any, agent_of: Make, skills: Callable[..., SkillToolset], skills_root: Path
) -> None:
    agent = await agent_of(MODELS[0], toolsets=[skills(permissions={"*": "ask"})], output_type=[str, DeferredToolRequests])
    models.script(Call("skill", {"skill": "tidy"}), Say("Done."))
    asked = await agent.run("Make this tidy")
    assert isinstance(asked.output, DeferredToolRequests)
    (question,) = asked.output.metadata.values()
    assert question["title"] == "Load skill: tidy"
    assert question["description"] == "Tidies text. Use when a text is untidy."
    (skills_root / "tidy/SKILL.md").write_text("---\nname: tidy\ndescription: Other.\n---\nOther.\n")
    again = await agent.run(
        message_history=asked.all_messages(),
        deferred_tool_results=asked.output.build_results(approve_all=True, metadata=asked.output.metadata),
    )
    assert isinstance(again.output, DeferredToolRequests), "another content is another question"
    done = await agent.run(
        message_history=again.all_messages(),
        deferred_tool_results=again.output.build_results(approve_all=True, metadata=again.output.metadata),
    )
    assert done.output == "Done."
    assert "Other." in models.seen[-1].last


async def test_an_approval_without_the_content_it_is_about_opens_nothing(
    models: Any, agent_of: Make, skills: Callable[..., SkillToolset]
) -> None:
    agent = await agent_of(MODELS[0], toolsets=[skills(permissions={"*": "ask"})], output_type=[str, DeferredToolRequests])
    models.script(Call("skill", {"skill": "tidy"}))
    asked = await agent.run("Make this tidy")
    assert isinstance(asked.output, DeferredToolRequests)
    again = await agent.run(
        message_history=asked.all_messages(), deferred_tool_results=asked.output.build_results(approve_all=True)
    )
    assert isinstance(again.output, DeferredToolRequests)


@pytest.mark.row("001-18")
async def test_a_rejected_call_gives_the_model_a_text(models: Any, agent_of: Make, skills: Callable[..., SkillToolset]) -> None:
    agent = await agent_of(MODELS[0], toolsets=[skills(permissions={"*": "ask"})], output_type=[str, DeferredToolRequests])
    models.script(Call("skill", {"skill": "tidy"}), Say("Then without."))
    asked = await agent.run("Make this tidy")
    assert isinstance(asked.output, DeferredToolRequests)
    (call,) = asked.output.metadata
    answer = {"decision": "reject", **{key: asked.output.metadata[call][key] for key in ("digest",)}}
    done = await agent.run(
        message_history=asked.all_messages(),
        deferred_tool_results=asked.output.build_results(approve_all=True, metadata={call: answer}),
    )
    assert done.output == "Then without."
    assert "was not approved" in models.seen[-1].last


async def test_enforced_allowed_tools_hold_for_the_tools_of_the_host(
    models: Any, agent_of: Make, skills: Callable[..., SkillToolset], skills_root: Path, make_skill: Callable[..., Path]
) -> None:
    make_skill(skills_root, "git", front_matter="name: git\ndescription: Uses git.\nallowed-tools: Bash(git:*)")
    own = FunctionToolset[Any]()
    ran: list[str] = []

    @own.tool_plain(name="Bash")
    def bash(command: str) -> str:
        ran.append(command)
        return "ran"

    @own.tool_plain
    def send_mail(text: str) -> str:
        return "sent"

    toolset = skills(allowed_tools="enforce")
    agent = await agent_of(MODELS[0], toolsets=[toolset, toolset.limited(own)])
    models.script(
        Call("skill", {"skill": "git"}),
        Call("Bash", {"command": "rm -rf /"}),
        Call("Bash", {"command": "git log"}),
        Say("Done."),
    )
    await agent.run("What happened?")
    assert "send_mail" in models.seen[0].tools
    assert "send_mail" not in models.seen[1].tools
    assert "do not allow this call" in models.seen[2].last
    assert ran == ["git log"]


async def test_a_wrong_name_and_bad_json_are_answered_and_the_run_goes_on(
    models: Any, agent_of: Make, skills: Callable[..., SkillToolset]
) -> None:
    agent = await agent_of(MODELS[0], toolsets=[skills()])
    models.script(Call("skill", {"skill": "tydi"}), Call("skill", '["tidy"]'), Call("skill", {"skill": "tidy"}), Say("Done."))
    assert (await agent.run("Make this tidy")).output == "Done."
    assert "Available skills: tidy" in models.seen[1].last
    assert "# Skill: tidy" in models.seen[3].last


async def test_each_conversation_has_a_workspace_of_its_own_and_sees_its_pictures(
    models: Any, agent_of: Make, skills: Callable[..., SkillToolset], tmp_path: Path
) -> None:
    dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    async with Workspaces(tmp_path / "own") as workspaces:
        agent = await agent_of("anthropic:claude-sonnet-4-6", toolsets=[skills(workspace=workspaces.get)])
        draw = Call("bash", {"command": f"ls; echo {dot} | base64 -d > dot.png"})
        models.script(draw, Call("file_read", {"file_path": "dot.png"}), Say("A dot."))
        first = await agent.run("Draw")
        assert dot in str(models.seen[2].body), "the model sees the picture"
        models.script(Call("bash", {"command": "ls; echo end"}), Say("Nothing."))
        other = await agent.run("Look")
        assert "dot.png" not in models.seen[-1].last, "of another conversation it sees nothing"
        models.script(Call("bash", {"command": "ls; echo end"}), Say("A dot."))
        await agent.run("Look", message_history=first.all_messages())
        assert "dot.png" in models.seen[-1].last, "and its own files stay"
        assert len(workspaces.list()) == 2
        assert {first.conversation_id, other.conversation_id} == set(workspaces.list())
