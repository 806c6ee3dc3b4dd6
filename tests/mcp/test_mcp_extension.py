"""The Skills extension (SEP-2640), as FastMCP's client and the bare protocol see it."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lazily import Lazily
from mcp import Client, MCPError, StdioServerParameters, types
from mcp.server.lowlevel import Server
from pydantic import ConfigDict

from skillyard.mcp.skill_resources import conforming_front_matter, json_front_matter

fastmcp, transports, extension = Lazily("fastmcp"), Lazily("fastmcp.client.transports"), Lazily("fastmcp.skills")
helpers = Lazily("fastmcp.utilities.skills")

Make = Callable[..., Server[Any]]
EXAMPLES = Path(__file__).parents[2] / "examples" / "skills"


class Ask(types.Request[types.RequestParams, str]):
    """Any request."""

    method: str
    params: dict[str, Any]  # type: ignore[assignment] # the tests write what they like


class Answer(types.Result):
    """Any result."""

    model_config = ConfigDict(extra="allow")


async def ask(client: Client, method: str, **params: Any) -> dict[str, Any]:
    result = await client.session.send_request(Ask(method=method, params=params), Answer)  # type: ignore[arg-type] # an extension's
    return dict(result.model_extra or {})


def fast(command: StdioServerParameters) -> Any:
    return fastmcp.Client(
        transports.StdioTransport(command.command, command.args, env=command.env),
        extensions=[extension.SkillsClientExtension()],
    )


async def test_fastmcps_client_lists_gets_and_reads_over_standard_input_and_output(
    command: Callable[..., StdioServerParameters], shop: Path
) -> None:
    async with fast(command("--no-watch")) as client:
        skills = {skill.uri: skill for skill in await client.list_skills()}
        assert set(skills) == {"skill://pdf-miner/SKILL.md", "skill://pdf/SKILL.md", "skill://weather/SKILL.md"}
        miner = skills["skill://pdf-miner/SKILL.md"]
        assert (miner.frontmatter.name, miner.frontmatter.allowed_tools) == ("pdf-miner", "Read Write")
        assert miner.meta == {"skillyard/adjusted": ["name", "allowed-tools"]}
        pdf = skills["skill://pdf/SKILL.md"]
        assert pdf == await client.get_skill("skill://pdf/SKILL.md")
        assert pdf.frontmatter.root == {
            "name": "pdf",
            "description": "Works with PDF files.",
            "license": "Apache-2.0",
            "metadata": {"version": "1.0"},
            "user-invocable": True,
            "number": "2",
        }
        assert pdf.meta is None
        assert isinstance(pdf.resources, list)
        assert len(pdf.resources) == 7
        assert ".env" not in str(pdf.resources)
        for resource in pdf.resources:
            content = (await client.read_resource(resource.uri))[0]
            data = content.text.encode() if hasattr(content, "text") else base64.b64decode(content.blob)
            assert resource.digest == f"sha256:{hashlib.sha256(data).hexdigest()}"
            assert resource.size == len(data)


async def test_every_example_skill_is_published() -> None:
    arguments = ["-m", "skillyard", "mcp", "--root", str(EXAMPLES), "--no-watch"]
    async with fast(StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))) as client:
        published = {skill.frontmatter.name for skill in await client.list_skills()}
    assert published == {folder.parent.name for folder in EXAMPLES.glob("*/SKILL.md")}


async def test_a_folder_lists_what_is_directly_in_it(server: Make) -> None:
    async with Client(server()) as client:
        root = (await ask(client, "resources/directory/read", uri="skill://pdf"))["resources"]
        assert [(entry["name"], entry["mimeType"]) for entry in root] == [
            ("pdf", "text/markdown"),
            ("assets", "inode/directory"),
            ("forms.md", "text/markdown"),
            ("latin.txt", "text/plain"),
            ("scripts", "inode/directory"),
            ("templates", "inode/directory"),
        ]
        below = (await ask(client, "resources/directory/read", uri="skill://pdf/templates"))["resources"]
        assert [entry["uri"] for entry in below] == ["skill://pdf/templates/eu", "skill://pdf/templates/invoice.md"]


@pytest.mark.parametrize(
    ("method", "uri"),
    [
        ("skills/get", "skill://nothing/SKILL.md"),
        ("skills/get", "skill://pdf/forms.md"),
        ("skills/get", "skill://pdf"),
        ("resources/directory/read", "skill://pdf/forms.md"),
        ("resources/directory/read", "skill://pdf/nothing"),
        ("resources/directory/read", "skill://pdf/.."),
    ],
)
async def test_an_address_that_does_not_fit_is_invalid_params(method: str, uri: str, server: Make) -> None:
    async with Client(server()) as client:
        with pytest.raises(MCPError) as caught:
            await ask(client, method, uri=uri)
        assert caught.value.code == types.INVALID_PARAMS


@pytest.mark.parametrize("params", [{}, {"uri": 1}])
async def test_params_of_the_wrong_form_are_invalid_params(params: dict[str, Any], server: Make) -> None:
    async with Client(server()) as client:
        with pytest.raises(MCPError) as caught:
            await ask(client, "skills/get", **params)
        assert caught.value.code == types.INVALID_PARAMS


async def test_lists_say_how_fresh_they_are_where_the_protocol_has_words_for_it(server: Make) -> None:
    async with Client(server()) as client:
        for answer in (await ask(client, "skills/list"), await ask(client, "resources/directory/read", uri="skill://pdf")):
            assert (answer["ttlMs"], answer["cacheScope"]) == (0, "private")
    async with Client(server(), mode="legacy") as client:
        assert "ttlMs" not in await ask(client, "skills/list")
        assert "ttlMs" not in await ask(client, "resources/directory/read", uri="skill://pdf")


async def test_a_denied_skill_is_not_published(server: Make) -> None:
    async with Client(server(permissions={"pdf": "deny"})) as client:
        listed = (await ask(client, "skills/list"))["skills"]
        assert [skill["uri"] for skill in listed] == ["skill://pdf-miner/SKILL.md", "skill://weather/SKILL.md"]
        with pytest.raises(MCPError):
            await ask(client, "skills/get", uri="skill://pdf/SKILL.md")


async def test_fastmcps_helpers_read_the_manifest_and_fetch_a_whole_skill(
    forked: Callable[..., StdioServerParameters], shop: Path, tmp_path: Path
) -> None:
    async with fast(forked("--no-watch")) as client:
        assert {skill.name for skill in await helpers.list_skills(client)} == {"pdf", "pdf-miner", "weather"}
        manifest = await helpers.get_skill_manifest(client, "pdf")
        assert [file.path for file in manifest.files][:2] == ["SKILL.md", "assets/logo.png"]
        fetched = await helpers.download_skill(client, "pdf", tmp_path)
        for file in manifest.files:
            data = (shop / "pdf" / file.path).read_bytes()
            assert (fetched / file.path).read_bytes() == data
            assert (file.size, file.hash) == (len(data), f"sha256:{hashlib.sha256(data).hexdigest()}")
        (shop / "pdf/_manifest").write_text("of its author")
        assert (await client.read_resource("skill://pdf/_manifest"))[0].text == "of its author"
        with pytest.raises(MCPError):
            await client.read_resource("skill://nothing/_manifest")


async def test_a_skill_with_too_many_files_is_left_to_plain_resources(shop: Path, make_skill: Any, server: Make) -> None:
    make_skill(shop, "huge", files={f"f{number}.txt": "" for number in range(512)})
    async with Client(server()) as client:
        listed = (await ask(client, "skills/list"))["skills"]
        assert "skill://huge/SKILL.md" not in [skill["uri"] for skill in listed]
        assert (await client.read_resource("skill://huge/f511.txt")).contents


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        (
            "a: yes\nb: 12:30\nc: 2001-01-01\nd: 0x10\ne: [1, '1', true, ~]",
            {"a": "yes", "b": "12:30", "c": "2001-01-01", "d": 16, "e": [1, "1", True, None]},
        ),
        ("name: 123\ndescription: true", {"name": "123", "description": "true"}),
        ("metadata: {version: 1.0, deep: [1]}", {"metadata": {"version": "1.0", "deep": [1]}}),
    ],
)
def test_front_matter_is_read_as_yaml_1_2_and_texts_stay_texts(header: str, shown: dict[str, object]) -> None:
    assert json_front_matter(f"---\n{header}\n---\nbody".encode()) == (shown, True)


@pytest.mark.parametrize("data", [b"no front matter", b"---\na: 1\na: 2\n---\n", b"---\nname: a\ndescription: b: c\n---\n"])
def test_front_matter_that_no_reader_agrees_on_is_marked(data: bytes) -> None:
    assert json_front_matter(data)[1] is False


GOOD = {"name": "pdf", "description": "d", "license": "MIT", "metadata": {"a": "b"}, "else": [1, {"x": None}]}


@pytest.mark.parametrize(
    ("changes", "field", "becomes"),
    [
        ({"name": "PDF Miner"}, "name", "pdf"),
        ({"description": "x" * 1025}, "description", "x" * 1023 + "…"),
        ({"description": 1}, "description", "1"),
        ({"description": " "}, "description", "from the catalog"),
        ({"compatibility": ""}, "compatibility", "-"),
        ({"compatibility": "y" * 501}, "compatibility", "y" * 499 + "…"),
        ({"metadata": {"a": 1, "b": {"c": [True]}}}, "metadata", {"a": "1", "b": '{"c": [true]}'}),
        ({"metadata": "x"}, "metadata", {}),
        ({"license": {"a": 1}}, "license", '{"a": 1}'),
        ({"allowed-tools": ["Read", "Bash(git:*)"]}, "allowed-tools", "Read Bash(git:*)"),
    ],
)
def test_a_field_that_breaks_the_specification_is_brought_to_it_and_named(
    changes: dict[str, object], field: str, becomes: object
) -> None:
    shown, adjusted = conforming_front_matter(GOOD | changes, name="pdf", description="from the catalog")
    assert shown == GOOD | {field: becomes}
    assert adjusted == [field]
    extension.SkillFrontmatter.model_validate(shown)


def test_front_matter_that_keeps_to_the_specification_is_shown_as_it_is() -> None:
    written = GOOD | {"description": " d \n", "allowed-tools": "Read", "compatibility": "any"}
    assert conforming_front_matter(written, name="pdf", description="") == (written, [])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(["name", "description", "license", "compatibility", "metadata", "allowed-tools", "other"])


@given(st.dictionaries(fields, json_values))
def test_whatever_is_written_a_strict_client_accepts_what_is_shown(written: dict[str, object]) -> None:
    shown, _ = conforming_front_matter(written, name="pdf", description="d")
    extension.SkillFrontmatter.model_validate(shown)
