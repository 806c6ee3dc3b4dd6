"""Claude Code, as it is, adds the server as a plugin marketplace; and git, as it is, clones a plugin."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.coding_agents import McpServerEntry, coding_agents, connect, disconnect
from skillyard.errors import InvalidInput
from skillyard.interop import read_agent_plugin
from skillyard.server.clients.plugin_marketplace import build_commit, decompressed_body, upload_pack_result, wanted_commit

Pack = Callable[..., bytes]
Program = Callable[..., str]
FILES = {"scripts/run.sh": "true", "references/deep/a.md": "Grüße", "references/deep.md": "x"}


@pytest.fixture
def install(address: str) -> Callable[[bytes], None]:
    """Give a function that installs an archive on the server."""

    def send(data: bytes) -> None:
        url = f"{address}/api/v1/skill-definitions/upload-create"
        assert httpx2.post(url, files={"file": ("skill.zip", data)}).status_code == 201

    return send


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, timeout=60).stdout


def test_claude_code_installs_and_updates_a_skill_as_a_plugin(
    program: Program, address: str, install: Callable[[bytes], None], pack: Pack, tmp_path: Path
) -> None:
    install(pack("tidy", body="One.", header="version: 1.0.0\n", files=FILES))
    install(pack("other"))
    claude = ("claude", "plugin")
    program(*claude, "marketplace", "add", f"{address}/.claude-plugin/marketplace.json")
    program(*claude, "install", "tidy@skillyard")
    (installed,) = json.loads(program(*claude, "list", "--json"))
    assert (installed["id"], installed["version"]) == ("tidy@skillyard", "1.0.0")
    skill = Path(installed["installPath"], "skills/tidy")
    assert {str(path.relative_to(skill)) for path in skill.rglob("*") if path.is_file()} == {"SKILL.md", *FILES}
    install(pack("tidy", body="Two.", header="version: 1.1.0\n", files=FILES))
    program(*claude, "marketplace", "update", "skillyard")
    program(*claude, "update", "tidy@skillyard")
    (updated,) = json.loads(program(*claude, "list", "--json"))
    assert updated["version"] == "1.1.0"
    assert "Two." in Path(updated["installPath"], "skills/tidy/SKILL.md").read_text("utf-8")


@pytest.mark.parametrize("how", [(), ("--depth", "1"), ("-c", "protocol.version=0")])
def test_git_clones_a_plugin_and_finds_it_sound(
    how: tuple[str, ...], address: str, install: Callable[[bytes], None], pack: Pack, tmp_path: Path
) -> None:
    install(pack("tidy", files=FILES))
    plugin = httpx2.get(f"{address}/marketplace.json").json()["plugins"][0]
    clone = str(tmp_path / "clone")
    _git("clone", "--quiet", *how, plugin["source"]["url"], clone)
    assert _git("-C", clone, "rev-parse", "HEAD").strip() == plugin["source"]["sha"]
    assert _git("-C", clone, "fsck", "--strict") == ""
    for path, content in FILES.items():
        assert Path(clone, "skills/tidy", path).read_text("utf-8") == content
    about = json.loads(Path(clone, ".claude-plugin/plugin.json").read_text("utf-8"))
    assert (about["name"], about["version"]) == ("tidy", "0.0.1")
    plugin = read_agent_plugin(Path(clone))
    assert (plugin.name, plugin.version, plugin.skills, plugin.problems) == ("tidy", "0.0.1", ("skills/tidy",), ())


def test_the_commit_of_an_older_version_can_still_be_fetched(
    address: str, install: Callable[[bytes], None], pack: Pack, tmp_path: Path
) -> None:
    install(pack("tidy", body="One."))
    source = httpx2.get(f"{address}/marketplace.json").json()["plugins"][0]["source"]
    install(pack("tidy", body="Two."))
    clone = str(tmp_path / "clone")
    _git("init", "--quiet", clone)
    _git("-C", clone, "fetch", "--quiet", "--depth", "1", source["url"], source["sha"])
    assert "One." in _git("-C", clone, "show", "FETCH_HEAD:skills/tidy/SKILL.md")


def test_what_is_not_there_is_refused(address: str, install: Callable[[bytes], None], pack: Pack) -> None:
    install(pack("tidy"))
    assert httpx2.get(f"{address}/plugins/tidy.git/info/refs").status_code == 400
    assert httpx2.get(f"{address}/plugins/missing.git/info/refs?service=git-upload-pack").status_code == 404
    for body in (b"", b"zzzz", b"0003", b"ffffwant", b"0000", b"0004-004", b"+032want", b"0x32want", b"00 4"):
        assert httpx2.post(f"{address}/plugins/tidy.git/git-upload-pack", content=body).status_code == 400, body
    other = b"0032want " + b"0" * 40 + b"\n00000009done\n"
    assert httpx2.post(f"{address}/plugins/tidy.git/git-upload-pack", content=other).status_code == 404
    bomb = httpx2.post(f"{address}/plugins/tidy.git/git-upload-pack", content=b"x" * 100_000)
    assert (bomb.status_code, bomb.text[:17]) == (413, "archive too large")


@pytest.mark.abuse("H9")
@pytest.mark.parametrize("length", [b"-004", b"-001", b"+004", b"0x04", b" 004", b"0_04", b"\xd9\xa0\xd9\xa0"])
def test_a_line_whose_length_is_no_four_hex_digits_is_refused_and_not_read_for_ever(length: bytes) -> None:
    with pytest.raises(InvalidInput):
        wanted_commit(b"0004" + length)


@given(st.binary(max_size=200))
def test_no_request_is_more_than_refused(data: bytes) -> None:
    commit = build_commit([("a", b"1", False)], message="m", seconds=1)
    try:
        wanted_commit(data)
        upload_pack_result(commit, decompressed_body(data, "gzip"))
    except InvalidInput:
        pass


def test_the_same_files_are_always_the_same_commit() -> None:
    made = [build_commit([("b/c", b"1", False), ("b.txt", b"2", True)], message="m", seconds=7) for _ in range(2)]
    assert made[0] == made[1]
    assert made[0].id != build_commit([("b/c", b"1", True), ("b.txt", b"2", True)], message="m", seconds=7).id


def test_claude_code_finds_the_server_that_was_written_into_its_configuration(
    program: Program, tmp_path: Path, make_skill: Callable[..., Path]
) -> None:
    home = tmp_path / "of-the-client"
    (home / ".claude.json").write_text('{\n  "numStartups": 3\n}\n')
    command = (sys.executable, "-m", "skillyard", "mcp", "--root", str(make_skill(tmp_path / "skills", "tidy").parent))
    change = connect(coding_agents({"HOME": str(home), "PATH": ""})["claude"], McpServerEntry(command))
    assert change.write(tmp_path / "data") is not None
    listed = program("claude", "mcp", "list")
    assert "skillyard: " in listed and "Connected" in listed
    disconnect(coding_agents({"HOME": str(home), "PATH": ""})["claude"]).write(tmp_path / "data")
    assert "skillyard" not in program("claude", "mcp", "list")


def _fetched(place: str, clone: Path) -> dict[str, bytes]:
    """What a clone of the marketplace has, by path."""
    _git("clone", "--quiet", place, str(clone))
    assert _git("-C", str(clone), "fsck", "--strict") == ""
    return {path: Path(clone, path).read_bytes() for path in _git("-C", str(clone), "ls-files").splitlines()}


@pytest.mark.parametrize("path", ["/marketplace.git", "", "/"])
def test_git_clones_the_marketplace_with_every_plugin_at_one_address(
    path: str, address: str, install: Callable[[bytes], None], pack: Pack, tmp_path: Path
) -> None:
    install(pack("tidy", header="version: 1.2.0\n", files=FILES))
    install(pack("other"))
    held = _fetched(f"{address}{path}", tmp_path / "clone")
    listed = json.loads(held[".claude-plugin/marketplace.json"])
    assert [(one["name"], one["source"], one["version"]) for one in listed["plugins"]] == [
        ("other", "./plugins/other", "0.0.1"), ("tidy", "./plugins/tidy", "1.2.0"),
    ]  # fmt: skip
    assert json.loads(held[".github/plugin/marketplace.json"]) == listed
    codex = json.loads(held[".agents/plugins/marketplace.json"])["plugins"]
    assert [one["source"] for one in codex] == [
        {"source": "local", "path": "./plugins/other"}, {"source": "local", "path": "./plugins/tidy"},
    ]  # fmt: skip
    assert {f"plugins/tidy/skills/tidy/{name}" for name in FILES} < held.keys()
    assert read_agent_plugin(tmp_path / "clone/plugins/tidy").problems == ()


def test_the_marketplace_keeps_its_commit_until_something_is_other_and_forgets_what_was_withdrawn(
    address: str, install: Callable[[bytes], None], pack: Pack, tmp_path: Path
) -> None:
    place, clone = f"{address}/marketplace.git", tmp_path / "clone"
    install(pack("tidy", body="One."))
    install(pack("other"))
    first = _git("ls-remote", place, "HEAD").split()[0]
    assert _git("ls-remote", place, "refs/heads/main").split()[0] == first
    assert "plugins/other/skills/other/SKILL.md" in _fetched(place, clone)
    assert httpx2.delete(f"{address}/api/v1/skill-definitions/other").status_code == 200
    second = _git("ls-remote", place, "HEAD").split()[0]
    assert second != first
    _git("init", "--quiet", str(tmp_path / "empty"))
    with pytest.raises(subprocess.CalledProcessError) as refused:
        _git("-C", str(tmp_path / "empty"), "fetch", "--quiet", place, first)
    assert refused.value.returncode == 128
    _git("-C", str(clone), "fetch", "--quiet", "origin")
    _git("-C", str(clone), "reset", "--quiet", "--hard", "origin/main")
    assert not (clone / "plugins/other").exists() and (clone / "plugins/tidy").is_dir()
    httpx2.post(f"{address}/api/v1/skill-definitions/other/rollback", json={})
    assert _git("ls-remote", place, "HEAD").split()[0] == first


def test_what_is_too_much_for_one_repository_is_beside_it(
    address: str, install: Callable[[bytes], None], pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skillyard.server.clients import plugin_marketplace

    install(pack("tidy"))
    monkeypatch.setattr(plugin_marketplace, "_MOST_INSIDE", 10)
    held = _fetched(f"{address}/marketplace.git", tmp_path / "clone")
    (entry,) = json.loads(held[".claude-plugin/marketplace.json"])["plugins"]
    assert entry["source"]["url"] == f"{address}/plugins/tidy.git"
    assert not any(path.startswith("plugins/") for path in held)


def test_claude_code_adds_the_marketplace_by_its_git_address_and_updates(
    program: Program, address: str, install: Callable[[bytes], None], pack: Pack, tmp_path: Path
) -> None:
    install(pack("tidy", body="One.", header="version: 1.0.0\n", files=FILES))
    claude = ("claude", "plugin")
    program(*claude, "marketplace", "add", f"{address}/marketplace.git")
    program(*claude, "install", "tidy@skillyard")
    install(pack("tidy", body="Two.", header="version: 1.1.0\n", files=FILES))
    program(*claude, "marketplace", "update", "skillyard")
    program(*claude, "update", "tidy@skillyard")
    (updated,) = json.loads(program(*claude, "list", "--json"))
    assert updated["version"] == "1.1.0"
    assert "Two." in Path(updated["installPath"], "skills/tidy/SKILL.md").read_text("utf-8")
