"""The tools of a workspace beside those of skills: offered with a workspace only, defined for each API, answered as results."""

from __future__ import annotations

import errno
import io
import json
import os
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skillyard.catalog import SkillCatalog
from skillyard.errors import DiskFull, FileMissing, FileTooLarge, PathRefused, SandboxUnavailable
from skillyard.permissions import WORKSPACE_TOOL_NAMES, ApprovalAnswer, CommandPolicy, CommandRequest, CommandRules
from skillyard.sandbox import NOTHING_GRANTED, GrantedEnvironment, Policy, SessionRequest
from skillyard.tools import SkillTools
from skillyard.workspace import Workspace, WorkspaceFolder, WorkspaceOptions, preview_file


def _tools(folder: Path, workspace: Workspace | None = None) -> SkillTools:
    return SkillTools(SkillCatalog.discover(roots=[], cwd=folder, home=folder, environ={}), workspace=workspace, record=False)


@pytest.mark.row("003-12", "C-30")
async def test_the_tools_are_offered_only_where_a_workspace_is_given(workspace: Workspace, tmp_path: Path) -> None:
    assert _tools(tmp_path).names() == ()
    tools = _tools(tmp_path, workspace)
    assert tools.names() == WORKSPACE_TOOL_NAMES
    assert (await _tools(tmp_path).call("bash", {"command": "true"})).code == "unknown_tool"
    for dialect in ("openai", "anthropic", "mcp"):
        assert workspace.path in json.dumps(tools.definitions(dialect))
    schema = tools.define("bash").schema()
    assert set(schema["properties"]) == {"command", "timeout", "background", "process", "stop"}  # type: ignore[call-overload]


@pytest.mark.row("003-12", "C-30")
async def test_a_call_is_answered_with_fenced_output_a_code_and_the_live_text(workspace: Workspace, tmp_path: Path) -> None:
    tools = _tools(tmp_path, workspace)
    received: list[str] = []
    command = {"command": "echo '</run_result>'; exit 4"}
    result = await tools.call("bash", json.dumps(command), listener=lambda _stream, text: received.append(text))
    assert (result.ok, result.code, result.data["exit_code"]) == (False, "command_failed", 4)
    assert result.text.count("&lt;/run_result>") == 1
    assert "".join(received) == "</run_result>\n"
    done = await tools.call("file_write", {"path": "a.txt", "content": "x"})
    assert (done.ok, done.data["tool"]) == (True, "file_write")
    assert (await tools.call("code_run", {"language": "cobol", "code": "x"})).code == "invalid_input"


async def test_the_rules_of_the_configuration_and_of_followed_skills_decide_about_each_call(
    workspace: Workspace, tmp_path: Path, make_skill: Callable[..., Path]
) -> None:
    make_skill(tmp_path / "skills", "reader", front_matter="name: reader\ndescription: Reads.\nallowed-tools: Read Bash(cat:*)")
    (tmp_path / "skillyard.toml").write_text('[tools]\nallowed-tools = "enforce"\n')
    catalog = SkillCatalog.discover(roots=[tmp_path / "skills"], cwd=tmp_path, home=tmp_path, environ={})
    policy = CommandPolicy([("operator", CommandRules(deny=["Bash(rm:*)"]))], tools={"file_search": "deny"})
    tools = SkillTools(catalog, workspace=workspace, policy=policy, record=False)
    assert "file_search" not in tools.names()
    denied = await tools.call("bash", {"command": "echo a | xargs rm -f"})
    assert (denied.code, denied.data["ruling"]["level"]) == ("permission_denied", "operator")
    assert not workspace.is_open, "nothing was begun for it"
    assert (await tools.call("bash", {"command": "echo a > a.txt"})).ok
    assert (await tools.call("skill", {"skill": "reader"})).ok
    assert (await tools.call("bash", {"command": "cat a.txt"})).ok
    followed = await tools.call("bash", {"command": "cat a.txt | tee b.txt"})
    assert (followed.code, followed.data["ruling"]["level"]) == ("permission_denied", "skill")
    assert (await tools.call("file_write", {"file_path": "c", "content": "x"})).code == "permission_denied"
    assert (await tools.call("file_read", {"file_path": "a.txt"})).ok
    assert (await tools.call("code_run", {"language": "python", "code": "1"})).code == "permission_denied"
    assert (await tools.call("bash", {"command": "tee b.txt"}, session="another")).ok, "it follows no skill"


async def test_a_call_that_is_asked_about_goes_to_the_approver_with_the_very_command(
    workspace: Workspace, tmp_path: Path
) -> None:
    asked = []

    class Dialog:
        async def ask(self, request: object) -> ApprovalAnswer:
            raise AssertionError("no skill is asked about")

        async def ask_command(self, request: CommandRequest) -> ApprovalAnswer:
            asked.append(request.to_dict())
            return ApprovalAnswer("once")

    catalog = SkillCatalog.discover(roots=[], cwd=tmp_path, home=tmp_path, environ={})
    policy = CommandPolicy([("operator", CommandRules(allow=["Bash(echo:*)"]))])
    tools = SkillTools(catalog, workspace=workspace, policy=policy, approver=Dialog(), record=False)
    assert (await tools.call("bash", {"command": "mkdir sub; cd sub"})).ok
    assert (await tools.call("bash", {"command": "echo a > b.txt"})).ok
    shown = [(one["argument"], one["folder"], one["files"]) for one in asked]
    assert shown == [("mkdir sub; cd sub", workspace.path, []), ("echo a > b.txt", f"{workspace.path}/sub", ["b.txt"])]


async def test_other_skills_and_packages_come_with_a_session_that_takes_over(workspace: Workspace, reachable: Path) -> None:
    for name in ("one", "two"):
        (reachable / name).mkdir(mode=0o755)
        (reachable / name / "a.txt").write_text(name)
    workspace.show(replace(workspace.options, skills=(str(reachable / "one"),)))
    await workspace.bash(
        "mkdir sub; cd sub; export A='x y' B=$'line\\ndeclare -x PATH=none'; f() { echo called; }; export -f f"
    )
    programs = reachable / "programs"
    programs.mkdir(mode=0o755)
    (programs / "measure").write_text("#!/bin/sh\necho three\n")
    (programs / "measure").chmod(0o755)
    granted = GrantedEnvironment(path=(str(programs),), mounts=(str(programs),), variables={"UNIT": "metre"})
    workspace.show(replace(workspace.options, skills=(str(reachable / "one"), str(reachable / "two")), environment=granted))
    answer = await workspace.bash(f'pwd; echo "$A"; f; measure; echo $UNIT; cat {reachable}/one/a.txt {reachable}/two/a.txt')
    note, text = answer.text.split("]\n")
    assert (answer.fresh, note.startswith("[A new session took over")) == (True, True)
    assert text == f"{workspace.path}/sub\nx y\ncalled\nthree\nmetre\nonetwo"
    again = await workspace.bash("measure; echo ${#B}")
    assert (again.text, again.fresh) == ("three\n25", False)
    workspace.show(replace(workspace.options, skills=(), environment=NOTHING_GRANTED))
    answer = await workspace.bash(f"echo ${{UNIT-none}}; measure 2>/dev/null || cat {reachable}/one/a.txt 2>/dev/null || pwd")
    assert "none" in answer.text
    assert answer.text.endswith("/sub")


def test_the_folder_is_listed_packed_and_cleared_without_following_links(tmp_path: Path) -> None:
    folder = WorkspaceFolder(tmp_path / "files")
    (tmp_path / "files/a/b").mkdir(parents=True)
    (tmp_path / "outside").write_text("outside")
    for name in ("a/b/c.txt", "d.txt", ".hidden"):
        folder.put(name, name.encode())
    os.symlink(tmp_path / "outside", tmp_path / "files/link")
    os.symlink(tmp_path, tmp_path / "files/a/up")
    os.mkfifo(tmp_path / "files/pipe")
    os.utime(tmp_path / "files/d.txt", (-5, 10**15))
    listing = folder.listing()
    assert [(entry.path, entry.kind) for entry in listing.entries] == [
        ("a", "folder"), ("a/b", "folder"), ("a/b/c.txt", "file"), ("d.txt", "file"),
    ]  # fmt: skip
    assert (listing.size, listing.truncated) == (14, False)
    assert folder.listing(limit=2).truncated
    assert folder.listing(hidden=True).entries[0].path == ".hidden"
    with folder.pack(limit=100) as packed, zipfile.ZipFile(packed) as archive:
        assert sorted(archive.namelist()) == ["a/", "a/b/", "a/b/c.txt", "d.txt"]
    with pytest.raises(FileTooLarge):
        folder.pack(limit=10)
    for name in ("a/up/outside", "a/up/files", "../outside", "nothing"):
        with pytest.raises((PathRefused, FileMissing)):
            folder.remove(name)
    folder.remove("a")
    assert (tmp_path / "outside").read_text() == "outside"
    assert not (tmp_path / "files/a").exists()


class _FullOnce(io.FileIO):
    """A temporary file on a disk that has no room for a moment."""

    full = True

    def write(self, data: object) -> int:
        if self.full and len(memoryview(data)) > 4096:  # type: ignore[arg-type] # bytes
            self.full = False
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)  # type: ignore[arg-type] # the same


def test_an_archive_for_which_the_disk_has_no_room_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = WorkspaceFolder(tmp_path / "files")
    (tmp_path / "files").mkdir()
    folder.put("a", os.urandom(100_000))
    folder.put("b", b"b")
    for disk in (lambda: _FullOnce(tmp_path / "packed", "w+"), lambda: io.FileIO("/dev/full", "r+")):
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda disk=disk: io.BufferedRandom(disk()))
        with pytest.raises(DiskFull):
            folder.pack(limit=1_000_000)


def test_what_changes_while_it_is_packed_is_cut_or_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = WorkspaceFolder(tmp_path)
    for name in "abc":
        folder.put(name, b"12")
    opened = WorkspaceFolder.open

    def change(self: WorkspaceFolder, path: str) -> int:
        if path == "a":
            with (tmp_path / "a").open("ab") as grows:
                grows.write(b"345")
        else:
            (tmp_path / "b").unlink(missing_ok=True)
        return opened(self, path)

    monkeypatch.setattr(WorkspaceFolder, "open", change)
    with folder.pack(limit=100) as packed, zipfile.ZipFile(packed) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {"a": b"12", "c": b"12"}


def test_a_large_file_is_packed_in_pieces(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(24 * 1024 * 1024)
    tracemalloc.start()
    try:
        with WorkspaceFolder(tmp_path).pack(limit=2**30) as packed:
            _, most = tracemalloc.get_traced_memory()
            assert zipfile.ZipFile(packed).getinfo("large").file_size == 24 * 1024 * 1024
    finally:
        tracemalloc.stop()
    assert most < 8 * 1024 * 1024


def test_a_name_that_is_no_text_is_packed_as_it_can_be_written(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"bad\xff")).mkdir()
    (tmp_path / os.fsdecode(b"bad\xff/f\xfe.txt")).write_text("x")
    with WorkspaceFolder(tmp_path).pack(limit=100) as packed, zipfile.ZipFile(packed) as archive:
        assert sorted(archive.namelist()) == ["bad\\xff/", "bad\\xff/f\\xfe.txt"]


def test_folders_of_packages_are_among_what_is_hidden(tmp_path: Path) -> None:
    folder = WorkspaceFolder(tmp_path)
    for name in ("a.txt", "node_modules/a/b.js", "src/__pycache__/c.pyc", ".git/d"):
        folder.put(name, b"x")
    assert [file.path for file in folder.files()] == ["a.txt"]
    everything = [".git/d", "a.txt", "node_modules/a/b.js", "src/__pycache__/c.pyc"]
    assert [file.path for file in folder.files(hidden=True)] == everything
    listed = folder.listing(hidden=True).entries
    assert [entry.path for entry in listed if entry.kind == "file"] == everything
    with folder.pack(limit=100, hidden=True) as packed, zipfile.ZipFile(packed) as archive:
        assert sorted(name for name in archive.namelist() if not name.endswith("/")) == everything


@pytest.mark.parametrize(("name", "head"), [("a.pdf", b"%PDF-1.4"), ("a.xlsx", b"PK\3\4")])
async def test_a_document_is_previewed_without_network_secrets_or_skills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, head: bytes
) -> None:
    asked: list[SessionRequest] = []

    async def refuse(_backend: object, request: SessionRequest, _receive: object) -> object:
        asked.append(request)
        raise SandboxUnavailable("not in this test")

    monkeypatch.setattr("skillyard.workspace.workspace_session.open_session", refuse)
    (tmp_path / name).write_bytes(head)
    limits = Policy(timeout_ms=7000, memory_mb=300, filesystem="read-write", pids=17)
    operator = replace(
        limits, network="allowlist", network_allowlist=("intranet.example",), private_networks=True,
        environment={"UNIT": "m", "API_KEY": "s3cret"}, secrets=frozenset({"UNIT"}),
    )  # fmt: skip
    options = WorkspaceOptions(policy=operator, skills=[str(tmp_path)], fixed=frozenset({"memory_mb"}))
    found = await preview_file(WorkspaceFolder(tmp_path), name, options=options)
    assert (found.kind, found.reason) == ("binary", "not in this test")
    assert [request.policy for request in asked] == [limits]
    assert (asked[0].environment, str(tmp_path) in [mount.source for mount in asked[0].mounts]) == (NOTHING_GRANTED, False)
