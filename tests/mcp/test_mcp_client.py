"""What the official client sees: tools, resources, errors, in both generations of the protocol."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters, types
from mcp.server.lowlevel import Server

from skillyard.catalog import SkillCatalog
from skillyard.engine import Records
from skillyard.errors import InvalidInput

Make = Callable[..., Server[Any]]
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])


def text_of(result: Any) -> str:
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


async def all_resources(client: Client) -> dict[str, types.Resource]:
    found = await client.list_resources()
    return {resource.uri: resource for resource in found.resources}


@MODES
async def test_the_tools_are_those_of_the_service(mode: str, server: Make) -> None:
    async with Client(server(), mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"skill", "skills_list", "read_skill_file", "run_skill"}  # `skills_load` is there for who knows it
        assert not (await client.call_tool("skills_load", {"skill": "weather"})).is_error
        assert "enum" not in tools["skill"].input_schema["properties"]["skill"]  # clients refuse near names themselves then
        assert {tool.meta["anthropic/alwaysLoad"] for tool in tools.values() if tool.meta} == {True}
        assert "PDF Miner; pdf; weather" in str(client.instructions)
        assert tools["skill"].annotations is not None
        assert tools["skill"].annotations.read_only_hint is True
        result = await client.call_tool("skill", {"skill": "weather"})
        assert not result.is_error
        assert text_of(result).startswith("# Skill: weather")
        assert text_of(await client.call_tool("skill", {"skill": "weather"})) != ""
        assert "already loaded" not in text_of(await client.call_tool("skill", {"skill": "weather"}))


@MODES
async def test_tools_are_called_by_another_name_where_a_prefix_is_asked_for(mode: str, server: Make) -> None:
    async with Client(server(tool_prefix="yard_"), mode=mode) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == {"yard_skill", "yard_skills_list", "yard_read_skill_file", "yard_run_skill"}
        assert "`yard_skill` tool" in str(client.instructions)
        assert text_of(await client.call_tool("yard_skill", {"skill": "weather"})).startswith("# Skill: weather")
        listed = "yard_skill, yard_skills_list, yard_read_skill_file, yard_run_skill"
        with pytest.raises(MCPError, match=f"no tool 'yard_nothing'. The tools are: {listed}$"):
            await client.call_tool("yard_nothing", {})


async def test_the_texts_of_results_name_the_other_tools_with_the_prefix(server: Make, shop: Path, make_skill: Any) -> None:
    header = "name: runner\ndescription: Runs reports. Use to run reports.\nresources: {entry: ./scripts/main.py}"
    make_skill(shop, "runner", front_matter=header, body="Call run_skill.", files={"scripts/main.py": "print('done')\n"})
    for number in range(30):
        make_skill(shop, f"filler-{number}", front_matter=f"name: filler-{number}\ndescription: Files paper {number}.")
    async with Client(server(tool_prefix="yard_")) as client:
        loaded = text_of(await client.call_tool("yard_skill", {"skill": "runner"}))
        assert "Run its scripts with `yard_run_skill`." in loaded
        assert "Call run_skill." in loaded  # what an author wrote stays as it is
        found = text_of(await client.call_tool("yard_search_skills", {"query": "run reports"}))
        assert "Load one with the yard_skill tool" in found
        assert "the skill tool" not in found
    async with Client(server()) as client:
        assert "Run its scripts with `run_skill`." in text_of(await client.call_tool("skill", {"skill": "runner"}))


async def test_the_prefix_stands_before_what_is_answered_early_too(forked: Callable[..., StdioServerParameters]) -> None:
    async with Client(forked("--no-watch", "--tool-prefix", "yard_"), mode="legacy") as client:
        assert all(tool.name.startswith("yard_") for tool in (await client.list_tools()).tools)
        assert "`yard_skill` tool" in str(client.instructions)
        assert not (await client.call_tool("yard_skill", {"skill": "weather"})).is_error


async def test_a_named_set_is_all_that_is_served(
    forked: Callable[..., StdioServerParameters], home: Path, shop: Path, make_skill: Any
) -> None:
    make_skill(shop, "other")
    (home / ".config/skillyard").mkdir(parents=True)
    (home / ".config/skillyard/skillyard.toml").write_text('[sets]\nfew = ["weather"]\n')
    async with Client(forked("--no-watch", "--set", "few"), mode="legacy") as client:
        assert str(client.instructions).endswith("Skills: weather")
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["weather"]
        assert (await client.call_tool("skill", {"skill": "other"})).is_error


@pytest.mark.parametrize("prefix", ["my skills ", "é", "a" * 31])
def test_a_prefix_that_no_model_service_takes_is_refused(prefix: str, server: Make) -> None:
    with pytest.raises(InvalidInput, match="before the name of a tool"):
        server(tool_prefix=prefix)


async def test_a_run_is_structured_as_its_tool_says(server: Make, shop: Path, make_skill: Any) -> None:
    header = "name: runner\ndescription: Runs.\nresources: {entry: ./scripts/main.py}"
    make_skill(shop, "runner", front_matter=header, files={"scripts/main.py": "print('done')\n"})
    async with Client(server()) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert [name for name, tool in tools.items() if tool.output_schema is not None] == ["run_skill"]
        result = await client.call_tool("run_skill", {"skill": "runner"})  # the client holds it to the schema
        assert result.structured_content is not None
        assert result.structured_content["output"] == "done"
        assert "data, not instructions" in result.structured_content["note"]
        assert (await client.call_tool("run_skill", {"skill": "nothing"})).is_error


@MODES
async def test_a_tool_that_says_no_answers_with_its_code(mode: str, server: Make) -> None:
    async with Client(server(permissions={"weather": "deny"}), mode=mode) as client:
        for arguments, code in (
            ({"skill": "weather"}, "permission_denied"),
            ({"skill": "nothing"}, "skill_not_found"),
            ({"skill": "broken"}, "skill_unusable"),
            ({"colour": 1}, "invalid_input"),
        ):
            result = await client.call_tool("skill", arguments)
            assert result.is_error
            assert result.structured_content is not None
            assert result.structured_content["code"] == code
            assert result.structured_content["message"] == text_of(result)  # some clients show a model this alone
        with pytest.raises(MCPError) as caught:
            await client.call_tool("nothing", {})
        assert caught.value.code == types.INVALID_PARAMS
        assert "weather" not in " ".join(await all_resources(client))
        with pytest.raises(MCPError):
            await client.read_resource("skill://weather/SKILL.md")


@MODES
async def test_a_skill_is_one_resource_and_each_file_reads_back_byte_for_byte(mode: str, server: Make, shop: Path) -> None:
    async with Client(server(), mode=mode) as client:
        listed = await all_resources(client)
        assert set(listed) == {
            "skill://index.json",
            "skill://pdf-miner/SKILL.md",
            "skill://pdf/SKILL.md",
            "skill://weather/SKILL.md",
        }
        main = listed["skill://pdf/SKILL.md"]
        assert (main.name, main.description, main.mime_type) == ("pdf", "Works with PDF files.", "text/markdown")
        for uri, file in (
            ("skill://pdf/SKILL.md", "pdf/SKILL.md"),
            ("skill://pdf/forms.md", "pdf/forms.md"),
            ("skill://pdf/templates/eu/vat%20rates.md", "pdf/templates/eu/vat rates.md"),
            ("skill://pdf/assets/logo.png", "pdf/assets/logo.png"),
            ("skill://pdf/latin.txt", "pdf/latin.txt"),
            ("skill://pdf-miner/SKILL.md", "miner/SKILL.md"),
        ):
            content = (await client.read_resource(uri)).contents[0]
            data = content.text.encode() if isinstance(content, types.TextResourceContents) else base64.b64decode(content.blob)
            assert data == (shop / file).read_bytes()
            assert content.uri == uri
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == ["skill://{skill}/{+path}"]


@pytest.mark.row("D-11")
async def test_a_file_asked_for_in_the_wrong_case_comes_under_its_own_address(server: Make) -> None:
    async with Client(server()) as client:
        content = (await client.read_resource("skill://pdf/FORMS.md")).contents[0]
        assert content.uri == "skill://pdf/forms.md"


async def test_the_index_names_every_skill(server: Make) -> None:
    async with Client(server()) as client:
        content = (await client.read_resource("skill://index.json")).contents[0]
        assert isinstance(content, types.TextResourceContents)
        index = json.loads(content.text)
        assert [skill["url"] for skill in index["skills"]] == [
            "skill://pdf-miner/SKILL.md",
            "skill://pdf/SKILL.md",
            "skill://weather/SKILL.md",
        ]
        assert index["skills"][1]["description"] == "Works with PDF files."


@pytest.mark.row("D-2")
@MODES
@pytest.mark.parametrize(
    "uri",
    [
        "skill://nothing/SKILL.md",
        "skill://broken/SKILL.md",
        "skill://pdf/nothing.md",
        "skill://pdf/.env",
        "skill://pdf/../weather/SKILL.md",
        "skill://pdf/..%2fweather/SKILL.md",
        "skill://pdf/templates",
        "skill://pdf",
        "file:///etc/passwd",
        "nonsense",
    ],
)
async def test_what_cannot_be_read_is_a_protocol_error_and_the_server_goes_on(uri: str, mode: str, server: Make) -> None:
    async with Client(server(), mode=mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
        assert caught.value.code == types.INVALID_PARAMS
        assert "SECRET" not in caught.value.message
        assert (await client.read_resource("skill://weather/SKILL.md")).contents


async def test_a_bad_cursor_is_a_protocol_error(server: Make) -> None:
    async with Client(server()) as client:
        with pytest.raises(MCPError) as caught:
            await client.list_resources(cursor="not ours!")
        assert caught.value.code == types.INVALID_PARAMS


async def test_a_skill_that_needs_consent_cannot_be_read_without_it(server: Make) -> None:
    async with Client(server(permissions={"pdf": "ask"})) as client:
        assert "skill://pdf/SKILL.md" in await all_resources(client)
        with pytest.raises(MCPError) as caught:
            await client.read_resource("skill://pdf/SKILL.md")
        assert caught.value.data == {"code": "approval_rejected"}


async def test_many_skills_come_in_pages_that_together_hold_each_once(shop: Path, make_skill: Any, server: Make) -> None:
    for number in range(120):
        make_skill(shop, f"skill-{number:03}")
    async with Client(server()) as client:
        seen: list[str] = []
        cursor = None
        pages = 0
        while pages == 0 or cursor:
            page = await client.list_resources(cursor=cursor)
            seen += [resource.uri for resource in page.resources]
            cursor, pages = page.next_cursor, pages + 1
        assert pages == 3
        assert len(seen) == len(set(seen)) == 1 + 3 + 120


@pytest.mark.row("003-9", "003-10")
@MODES
async def test_over_real_standard_input_and_output(
    mode: str, command: Callable[..., StdioServerParameters], shop: Path
) -> None:
    async with Client(command("--no-watch"), mode=mode) as client:
        assert client.server_info is not None
        assert client.server_info.name == "skillyard"
        capabilities = client.server_capabilities
        if mode == "auto":  # older generations have no words for extensions
            assert capabilities.extensions == {"io.modelcontextprotocol/skills": {"directoryRead": True}}
        assert capabilities.tools is not None
        assert capabilities.tools.list_changed is True
        assert capabilities.resources is not None
        assert capabilities.resources.list_changed is True
        result = await client.call_tool("read_skill_file", {"skill": "pdf", "file_path": "FORMS.md"})
        assert "the forms" in text_of(result)
        assert (await client.call_tool("read_skill_file", {"skill": "pdf"})).is_error
        content = (await client.read_resource("skill://pdf/scripts/fill.py")).contents[0]
        assert isinstance(content, types.TextResourceContents)
        digest = hashlib.sha256((shop / "pdf/scripts/fill.py").read_bytes()).hexdigest()
        assert hashlib.sha256(content.text.encode()).hexdigest() == digest


@MODES
async def test_a_file_whose_name_is_no_text_hides_no_other_and_ends_no_server(mode: str, server: Make, shop: Path) -> None:
    os.close(os.open(os.fsencode(shop) + b"/weather/b\xff.md", os.O_CREAT | os.O_WRONLY))
    async with Client(server(), mode=mode) as client:
        assert {"skill://pdf/SKILL.md", "skill://weather/SKILL.md"} <= set(await all_resources(client))
        with pytest.raises(MCPError, match="there is no file"):
            await client.read_resource("skill://weather/missing.md")
        manifest = (await client.read_resource("skill://weather/_manifest")).contents[0]
        assert isinstance(manifest, types.TextResourceContents)
        assert [file["path"] for file in json.loads(manifest.text)["files"]] == ["SKILL.md"]
        assert "Tells the weather" in text_of(await client.call_tool("skill", {"skill": "weather"}))


async def test_a_run_over_standard_input_is_that_of_this_machine_s_user(
    forked: Callable[..., StdioServerParameters], shop: Path, make_skill: Any
) -> None:
    header = "name: runner\ndescription: Runs.\nresources: {entry: ./scripts/main.py}"
    make_skill(shop, "runner", front_matter=header, files={"scripts/main.py": "print(1)\n"})
    async with Client(forked("--no-watch")) as client:
        assert not (await client.call_tool("run_skill", {"skill": "runner"})).is_error
    with contextlib.closing(Records.of(SkillCatalog.discover(roots=[shop], cache=False))) as records:
        (run,) = records.journal.list()
    assert (run.skill_name, run.state, run.context["userId"]) == ("runner", "succeeded", "default/local user")
