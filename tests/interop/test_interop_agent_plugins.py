"""Agent Plugins 1.0, by the conformance checklist of its specification: read, checked, written and converted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.errors import InvalidManifest
from skillyard.interop import check_package, convert, read_agent_plugin
from skillyard.interop.agent_plugins import agent_plugin_json

PLUGIN: Final = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
SERVERS: Final = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json"
SKILL: Final = "---\nname: {}\ndescription: Does it. Use when it is to be done.\n---\nDo it.\n"
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Give a function that writes a plugin with skills, and with servers and other fields where they are given."""

    def make(*skills: str, servers: Any = None, files: dict[str, str] | None = None, **fields: Any) -> Path:
        root = tmp_path / "office"
        about = {"$schema": PLUGIN, "name": "office"} | fields
        texts = {"plugin.json": json.dumps(about), **{f"skills/{name}/SKILL.md": SKILL.format(name) for name in skills}}
        if servers is not None:
            texts["mcp.json"] = json.dumps({"$schema": SERVERS, "mcpServers": servers})
        for path, text in (texts | (files or {})).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return root

    return make


def test_a_plugin_is_read_with_what_conforms_and_says_what_it_passes_over(write: Write, tmp_path: Path) -> None:
    root = write(
        "pdf", "xls", version="one", author={"name": "Ada"}, keywords=["a"], extensions={"com.example": {"x": 1}}, hooks=[],
        files={
            "skills/deep/er/SKILL.md": SKILL.format("er"), "skills/Other/SKILL.md": SKILL.format("another"),
            "skills/empty/SKILL.md": "", "more/aside/SKILL.md": SKILL.format("aside"), "com.example/hooks.json": "{",
        },
    )  # fmt: skip
    outside = tmp_path / "outside"
    (outside / "x").mkdir(parents=True)
    (outside / "SKILL.md").write_text(SKILL.format("linked"))
    (root / "skills/linked").symlink_to(outside)
    plugin = read_agent_plugin(root)
    assert (plugin.name, plugin.version, plugin.skills, plugin.servers) == ("office", "one", ("skills/pdf", "skills/xls"), ())
    assert [problem.split(" is ")[0] for problem in plugin.problems] == [
        "plugin.json: the field 'hooks'", "skills/Other", "skills/empty", "skills/linked",
    ]  # fmt: skip
    odd = read_agent_plugin(write("pdf", extensions=7))
    assert odd.problems[0] == "plugin.json: extensions is not an object, and ignored"


def test_a_broken_part_keeps_out_only_itself(write: Write, tmp_path: Path) -> None:
    root = write(servers={"a": {"type": "stdio", "command": "npx"}}, files={"skills": "no folder"})
    assert (read_agent_plugin(root).skills, read_agent_plugin(root).servers) == ((), ("a",))
    (root / "mcp.json").unlink()
    os.mkfifo(root / "mcp.json")
    assert read_agent_plugin(root).problems[-1].startswith("mcp.json is ignored: there is no file")
    (root / "mcp.json").unlink()
    for broken in ("{", "[]", '{"mcpServers": {}}', json.dumps({"$schema": SERVERS, "mcpServers": {}, "x": 1})):
        (root / "mcp.json").write_text(broken)
        plugin = read_agent_plugin(root)
        assert plugin.servers == ()
        assert any(problem.startswith("mcp.json is ignored") for problem in plugin.problems), broken


@pytest.mark.parametrize(
    "fields",
    [
        {"$schema": "https://agent-plugins.org/schemas/2.0.0/plugin.schema.json"}, {"$schema": None}, {"name": ""}, {"name": 1},
        {"name": "My-Plugin"}, {"name": "-start"}, {"name": "has--double"}, {"name": "too.many..dots"}, {"name": "a" * 65},
        {"version": 1}, {"author": "Ada"}, {"author": {"name": "Ada", "x": "y"}}, {"author": {"email": 1}}, {"keywords": "a"},
        {"keywords": [1]}, {"homepage": None}, {"repository": {"url": "x"}}, {"extensions": {"com.example": 1}},
    ],
)  # fmt: skip
def test_a_plugin_json_that_breaks_the_schema_keeps_out_the_plugin(write: Write, fields: dict[str, Any]) -> None:
    root = write("pdf", **fields)
    with pytest.raises(InvalidManifest):
        read_agent_plugin(root)
    check = check_package(root)
    assert not check.ok
    assert check.to_dict()["errors"]


def test_every_rule_about_servers_holds(write: Write) -> None:
    here = {"type": "stdio", "command": "npx"}
    there = {"type": "streamable-http", "url": "https://a.org/mcp"}
    sound = {
        "bare": here | {"args": ["${PLUGIN_ROOT}/x", "${HOME}"], "env": {"A": "${PLUGIN_DATA}"}, "cwd": "${PLUGIN_DATA}/a"},
        "own": here | {"command": "./bin/run", "cwd": "./data"},
        "root": here | {"cwd": "${PLUGIN_ROOT}"},
        "far": there | {"headers": {"X-Tenant": "a b"}},
        "near": there | {"url": "http://localhost:1/mcp"},
        "nearer": there | {"url": "http://[::1]/mcp"},
        "old": {"type": "sse", "url": "https://a.org"},
    }
    broken: list[Any] = [
        7, {}, {"command": "npx"}, {"type": "http", "url": "https://a.org"}, here | {"url": "https://a.org"}, {"type": "stdio"},
        here | {"command": "npx -y it"}, here | {"command": "/bin/sh"}, here | {"command": "../run"},
        here | {"command": "./../run"},
        here | {"command": "${PLUGIN_ROOT}/run"}, here | {"args": "a"}, here | {"args": [1]}, here | {"env": {"A": 1}},
        here | {"env": {"PLUGIN_ROOT": "x"}}, here | {"cwd": "data"}, here | {"cwd": "/tmp"}, here | {"cwd": "./../.."},
        here | {"cwd": "${PLUGIN_ROOT}/../x"}, here | {"cwd": "${PLUGIN_DATA}/../x"}, here | {"cwd": "${PLUGIN_ROOT}x"},
        there | {"url": "http://a.org"}, there | {"url": "ftp://a.org"}, there | {"url": "https://u:p@a.org"},
        there | {"url": "https://a.org#x"}, there | {"url": "https://[a"}, there | {"url": "/mcp"}, there | {"command": "x"},
        there | {"headers": {"a b": "c"}}, there | {"headers": {"a": "b\nc"}}, there | {"headers": {"A": "1", "a": "2"}},
    ]  # fmt: skip
    root = write("pdf", servers=sound | {f"broken {number}": server for number, server in enumerate(broken)})
    plugin = read_agent_plugin(root)
    assert plugin.servers == tuple(sound)
    assert len(plugin.problems) == len(broken)


@given(
    st.dictionaries(
        st.sampled_from(["name", "version", "description", "author", "repository", "license", "keywords", "x"]),
        st.recursive(st.none() | st.integers() | st.text(max_size=80), lambda inner: st.lists(inner) | st.dictionaries(
            st.sampled_from(["name", "url", "y"]), inner
        ), max_leaves=4),
    )
)  # fmt: skip
def test_whatever_another_plugin_says_what_is_written_can_be_read(
    tmp_path_factory: pytest.TempPathFactory, fields: dict[str, Any]
) -> None:
    root = tmp_path_factory.mktemp("plugin")
    (root / "plugin.json").write_bytes(agent_plugin_json(fields))
    assert read_agent_plugin(root).problems == ()


def test_servers_come_along_in_both_directions_and_what_has_no_form_is_reported(write: Write, tmp_path: Path) -> None:
    claude = tmp_path / "claude"
    given_ = {
        "db": {"command": "${CLAUDE_PLUGIN_ROOT}/bin/db", "args": ["${CLAUDE_PLUGIN_DATA}/db"], "env": {"A": "b"}},
        "api": {"type": "http", "url": "https://a.org/mcp"},
        "shell": {"command": "sh -c run"},
    }
    for path, text in {
        ".claude-plugin/plugin.json": '{"name": "Office Tools", "version": "1.2.3", "author": {"name": "Ada"}}',
        ".mcp.json": json.dumps({"mcpServers": given_}),
        "skills/pdf/SKILL.md": SKILL.format("pdf"),
        "odd/xls/SKILL.md": SKILL.format("xls"),
    }.items():
        (claude / path).parent.mkdir(parents=True, exist_ok=True)
        (claude / path).write_text(text)
    (made,) = convert(claude, tmp_path / "made", "agent-plugin")
    plugin = read_agent_plugin(made.path)
    assert (plugin.name, plugin.version, plugin.skills, plugin.servers) == (
        "office-tools",
        "1.2.3",
        ("skills/pdf",),
        ("db", "api"),
    )
    assert len(made.notes) == 2
    servers = json.loads((made.path / "mcp.json").read_text())["mcpServers"]
    assert servers["db"] == {"type": "stdio", "command": "./bin/db", "args": ["${PLUGIN_DATA}/db"], "env": {"A": "b"}}
    root = write("pdf", servers=servers, extensions={"com.example": {}})
    (back,) = convert(root, tmp_path / "back", "claude-plugin")
    assert json.loads((back.path / ".mcp.json").read_text())["mcpServers"] == {name: given_[name] for name in ("db", "api")}
    (again,) = convert(back.path, tmp_path / "again", "agent-plugin")
    assert sorted(path.name for path in again.path.iterdir()) == ["mcp.json", "plugin.json", "skills"]
    (back.path / "plugin.json").write_text('{"name": "of another program"}')
    with pytest.raises(InvalidManifest, match="of another kind"):
        convert(back.path, tmp_path / "other", "agent-plugin")
