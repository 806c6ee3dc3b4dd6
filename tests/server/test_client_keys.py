"""Each stock client shows a key of this server in its own way, and may what the key may."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from lazily import Lazily

anthropic, openai = Lazily("anthropic"), Lazily("openai")

Program = Callable[..., str]
FILES = [("tidy/SKILL.md", b"---\nname: tidy\ndescription: Tidies up. Use when a test needs a skill.\n---\nDo it.\n")]


@pytest.fixture
def address(keyed: Any) -> Iterator[str]:
    """The server that wants keys, on a port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(keyed.app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def test_each_client_is_let_in_by_its_key_and_held_to_its_scopes(keyed: Any, address: str, program: Program) -> None:
    writes, reads = keyed.key("skills:read", "skills:write"), keyed.key("skills:read")
    others = keyed.key("skills:read", organisation="others")
    base = f"{address}/anthropic"
    with anthropic.Anthropic(api_key=writes, base_url=base) as sdk:
        assert sdk.beta.skills.create(files=FILES).id == "skill_tidy"
    with anthropic.Anthropic(api_key=reads, base_url=base) as sdk, pytest.raises(anthropic.PermissionDeniedError):
        sdk.beta.skills.delete("skill_tidy")
    with anthropic.Anthropic(api_key="sk-wrong", base_url=base) as sdk, pytest.raises(anthropic.AuthenticationError):
        sdk.beta.skills.list()
    for secret, found in ((reads, ["tidy"]), (others, [])):
        with openai.OpenAI(api_key=secret, base_url=f"{address}/openai/v1") as client:
            assert [skill.name for skill in client.skills.list()] == found
    with openai.OpenAI(api_key="sk-wrong", base_url=f"{address}/openai/v1") as client:
        with pytest.raises(openai.AuthenticationError) as refused:
            client.skills.list()
        assert refused.value.code == "sign_in_required"
    clawhub = ("clawhub", "--registry", address, "--no-input")
    assert "key" in program(*clawhub, "login", "--token", "sk-wrong", fails=True)
    program(*clawhub, "login", "--token", reads)
    program(*clawhub, "install", "tidy")
    assert "skills:write" in program(*clawhub, "delete", "tidy", "--yes", fails=True)


def test_git_clones_of_the_marketplace_what_the_key_lets_it_see(keyed: Any, address: str, tmp_path: Path) -> None:
    reads, writes = keyed.key("skills:read"), keyed.key("skills:read", "skills:write")
    others, runs = keyed.key("skills:read", organisation="others"), keyed.key("runs:execute")
    with openai.OpenAI(api_key=writes, base_url=f"{address}/openai/v1") as client:
        client.skills.create(files=FILES)

    def clone(user: str, into: str) -> tuple[int, str]:
        place = f"{address}/marketplace.git".replace("//", f"//{user}@", 1)
        done = subprocess.run(
            ["git", "clone", "--quiet", place, str(tmp_path / into)],
            capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        )  # fmt: skip
        return done.returncode, done.stderr

    assert clone(f"key:{reads}", "mine") == (0, "")
    assert (tmp_path / "mine/plugins/tidy/skills/tidy/SKILL.md").read_bytes() == FILES[0][1]
    assert clone(f"key:{others}", "theirs") == (0, "")
    assert not (tmp_path / "theirs/plugins").exists()
    for user in ("key:sky_wrong", f"key:{runs}", "nobody"):
        assert clone(user, "none")[0] == 128, user
    said = clone("key:sky_wrong", "none")[1]
    assert "remote: sign in required: the key is unknown, expired or revoked (git takes a key as the password" in said
    assert "machine HOST login key password sky_..." in said


def test_without_a_key_each_client_shows_that_one_is_missing_as_far_as_it_shows_anything(
    keyed: Any, address: str, program: Program
) -> None:
    silent = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}
    add = ("skills", "add", "--yes", "--agent", "claude-code", "--copy")
    assert "Download failed with HTTP 401" in program(*add, address, fails=True, **silent)
    assert "Authentication failed" in program(*add, f"{address}/plugins/tidy.git", fails=True, **silent)
    claude = ("claude", "plugin", "marketplace", "add")
    assert "HTTP 401" in program(*claude, f"{address}/.claude-plugin/marketplace.json", fails=True)
    assert "authentication failed" in program(*claude, f"{address}/marketplace.git", fails=True)
    wrong = address.replace("//", "//key:sky_wrong@", 1)
    assert "remote: sign in required" in program(*claude, f"{wrong}/marketplace.git", fails=True)
    reads = keyed.key("skills:read")
    program(*claude, f"{address.replace('//', f'//key:{reads}@', 1)}/marketplace.git")
    page = {"accept": "text/html,application/xhtml+xml"}
    assert httpx2.get(address, headers=page).status_code == 200
    refused = httpx2.get(address)
    assert (refused.status_code, refused.json()["detail"]) == (401, "this server needs a key")


def test_npx_skills_and_git_show_a_key_as_git_shows_passwords(
    keyed: Any, address: str, program: Program, tmp_path: Path
) -> None:
    reads, writes = keyed.key("skills:read"), keyed.key("skills:read", "skills:write")
    with openai.OpenAI(api_key=writes, base_url=f"{address}/openai/v1") as client:
        client.skills.create(files=FILES)
    place = f"{address}/plugins/tidy.git"
    added = tmp_path / "of-the-client/.claude/skills/tidy/SKILL.md"
    add = ("skills", "add", "--yes", "--agent", "claude-code", "--copy")
    silent = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}
    program(*add, place, fails=True, **silent)
    program(*add, place.replace("//", "//key:sky_wrong@", 1), fails=True, **silent)
    assert not added.exists()
    netrc = tmp_path / "of-the-client/.netrc"
    netrc.write_text(f"machine 127.0.0.1 login key password {reads}\n", "utf-8")
    netrc.chmod(0o600)
    program(*add, place, **silent)
    assert added.read_bytes() == FILES[0][1]
    netrc.unlink()
    left = [path for path in (tmp_path / "of-the-client").rglob("*") if path.is_file() and reads in path.read_text("latin-1")]
    assert left == []
    added.unlink()
    program(*add, place.replace("//", f"//key:{reads}@", 1), **silent)
    assert added.read_bytes() == FILES[0][1]
