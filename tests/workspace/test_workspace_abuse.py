"""The abuse catalogue applied to a session, and what is new with one: it stays, has a folder of the machine, and neighbours."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillyard.errors import FileMissing, PathRefused
from skillyard.sandbox import GrantedEnvironment, Policy
from skillyard.workspace import WORKSPACE_POLICY, Workspace

if TYPE_CHECKING:
    from tests.workspace.conftest import MakeWorkspace


def _policy(**changes: object) -> Policy:
    from dataclasses import replace

    return replace(WORKSPACE_POLICY, **changes)  # type: ignore[arg-type] # fields of the policy


@pytest.mark.abuse("I1")
async def test_nothing_of_the_machine_is_read_or_written(workspace: Workspace, reachable: Path) -> None:
    secret = reachable / "secret.txt"
    secret.write_text("canary-4711")
    attempts = (
        f"cat {secret}", "cat /etc/shadow", f"grep {platform.node()} /etc/hostname", "ls /root /home",
        f"echo x > {reachable}/new", "echo x > /usr/new",
        f"ln -s {secret} link; cat link", f"cat /proc/1/root{secret}", f"cat /proc/self/root{secret}", f"ln {secret} hard",
        f"mkdir -p d; ln -s {reachable} d/out; cat d/out/secret.txt", "mount -t tmpfs x /mnt", "unshare -U true",
        "mknod n c 1 3",
    )  # fmt: skip
    for attempt in attempts:
        answer = await workspace.bash(attempt)
        assert (answer.ok, "canary" in answer.text) == (False, False), attempt
    for read in (workspace.file_read("link"), workspace.file_read(str(secret)), workspace.file_search("canary")):
        assert "canary-4711" not in (await read).text
    assert sorted(path.name for path in reachable.iterdir()) == ["files", "secret.txt"]


@pytest.mark.abuse("I2")
async def test_a_link_out_of_the_folder_is_not_written_through(workspace: Workspace, reachable: Path) -> None:
    secret = reachable / "secret.txt"
    secret.write_text("mine")
    os.symlink(secret, Path(workspace.folder, "link"))
    os.symlink(reachable, Path(workspace.folder, "out"))
    await workspace.file_write("link", "theirs")
    await workspace.file_edit("link", "mine", "theirs")
    await workspace.file_write("out/new.txt", "theirs")
    assert secret.read_text() == "mine"
    assert not (reachable / "new.txt").exists()


@pytest.mark.abuse("I3")
async def test_skills_are_read_only_at_their_own_paths_and_no_other_is_seen(
    make_workspace: MakeWorkspace, reachable: Path
) -> None:
    for name in ("pdf", "secret"):
        (reachable / "skills" / name).mkdir(parents=True)
        (reachable / "skills" / name / "SKILL.md").write_text(f"guide of {name}")
    workspace = make_workspace(skills=(str(reachable / "skills" / "pdf"),))
    assert (await workspace.bash(f"cat {reachable}/skills/pdf/SKILL.md")).text == "guide of pdf"
    assert (await workspace.file_read(f"{reachable}/skills/pdf/SKILL.md")).ok
    assert not (await workspace.bash(f"echo x >> {reachable}/skills/pdf/SKILL.md")).ok
    assert not (await workspace.file_write(f"{reachable}/skills/pdf/new", "x")).ok
    assert not (await workspace.bash(f"cat {reachable}/skills/secret/SKILL.md")).ok


_COMPILE = """\
import py_compile, sys
open("other.py", "w").write("print('compiled')")
py_compile.compile("other.py", "made.pyc", invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
print(sys.implementation.cache_tag)
"""


@pytest.mark.abuse("A5")
async def test_no_session_runs_compiled_code_of_a_skill_in_place_of_its_source(
    make_workspace: MakeWorkspace, reachable: Path, backend: str
) -> None:
    first = make_workspace("first")
    tag = (await first.code_run("python", _COMPILE)).text.strip()
    made = Path(first.folder, "made.pyc").read_bytes()
    skill = reachable / "skills" / "pdf"
    (skill / "__pycache__").mkdir(parents=True)
    (skill / "helper.py").write_text("print('source')")
    for name in (f"__pycache__/helper.{tag}.pyc", "alone.pyc"):
        (skill / name).write_bytes(made)
    (skill / "inward.pyc").symlink_to("alone.pyc")
    (skill / "cached.pyc").symlink_to(f"__pycache__/helper.{tag}.pyc")
    (skill / "outward.pyc").symlink_to("/etc/passwd")
    workspace = make_workspace("second", skills=(str(skill),))
    ran = [
        await workspace.bash(f"cd {skill} && python3 -c 'import {name}'") for name in ("helper", "alone", "inward", "cached")
    ]
    if backend == "landlock":  # it can only show a folder or not
        assert {answer.text for answer in ran} == {"compiled"}
        return
    assert ran[0].text == "source"
    assert not any(answer.ok or "compiled" in answer.text.split() for answer in ran[1:])
    assert (await workspace.bash(f"ls -A {skill}/__pycache__; wc -c < {skill}/alone.pyc")).text == "0"
    assert (skill / "alone.pyc").read_bytes() == made, "nothing outside was changed"


@pytest.mark.abuse("I3")
async def test_a_skill_with_very_much_compiled_code_is_not_shown(make_workspace: MakeWorkspace, reachable: Path) -> None:
    skill = reachable / "skills" / "pdf"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("guide")
    for number in range(1_001):
        (skill / f"m{number}.pyc").touch()
    workspace = make_workspace(skills=(str(skill),))
    assert not (await workspace.bash(f"cat {skill}/SKILL.md")).ok


@pytest.mark.abuse("I4")
async def test_nothing_of_one_workspace_reaches_another(make_workspace: MakeWorkspace, backend: str) -> None:
    one, other = make_workspace("one"), make_workspace("other")
    await one.bash(
        "echo canary-1 > file; export CANARY=canary-2; echo canary-3 > /tmp/shared 2>/dev/null; exec -a canary-4 true"
    )
    await one.bash("exec -a canary-5 sleep 331", background=True)
    seen = await other.bash("env; cat /tmp/shared; ls -R . /tmp; cat /proc/*/cmdline /proc/*/environ 2>/dev/null; true")
    assert "canary" not in seen.text
    assert not (await other.bash(f"cat {one.folder}/file")).ok
    await other.bash("kill -9 -1; true")
    assert one.processes()[0].state == "running"


@pytest.mark.abuse("I5")
async def test_the_session_cannot_be_ended_or_looked_into_from_inside(workspace: Workspace, backend: str) -> None:
    answer = await workspace.bash("(kill -9 1; kill -9 $PPID; kill -STOP $PPID) 2>/dev/null; echo on")
    if backend == "bwrap":  # its first process has the number 1 and takes no signal from inside
        assert (answer.text, (await workspace.bash("echo still")).fresh) == ("on", False)
    else:
        after = await workspace.bash("echo still")
        assert after.text.endswith("still")


@pytest.mark.abuse("I5")
async def test_what_comes_back_from_a_first_program_that_lies_is_not_believed(workspace: Workspace) -> None:
    session, _ = await workspace.session()
    channel = session.channel
    channel.receive(b"x" + (999_999).to_bytes(4, "big") + (2).to_bytes(4, "big") + b"-7")
    channel.receive(b"?" + (0).to_bytes(4, "big") + (0).to_bytes(4, "big"))
    assert (await workspace.bash("echo on")).text == "on"
    channel.receive(b"o" + (1).to_bytes(4, "big") + (1 << 31).to_bytes(4, "big"))
    after = await workspace.bash("echo on")
    assert (after.fresh, after.text.endswith("on")) == (True, True)


@pytest.mark.abuse("I6")
async def test_endless_and_binary_output_end_in_a_clear_answer(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(policy=_policy(output_bytes=1_000_000))
    endless = await workspace.bash("yes")
    assert (endless.code, "Send its output to a file" in endless.text) == ("output_limit", True)
    assert len(endless.text) < 40_000
    binary = await workspace.bash("head -c 5000 /dev/urandom")
    assert binary.text.startswith("[binary output of 5000 bytes is not shown; it is in ")
    assert not binary.text.isspace()
    assert (await workspace.bash("printf '\\033[31mred\\033[0m\\a'")).text == "[31mred[0m"


@pytest.mark.abuse("I7")
async def test_a_fork_bomb_ends_and_the_next_call_works(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(policy=_policy(pids=40))
    bomb = await workspace.bash("f() { f | f & }; f; sleep 20", timeout=1500)
    assert bomb.code in {"timeout", "process_limit", "session_ended"}
    assert (await workspace.bash("echo on")).text.endswith("on")


@pytest.mark.abuse("I7")
async def test_memory_over_the_limit_ends_in_a_clear_answer(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(policy=_policy(memory_mb=128))
    answer = await workspace.code_run("python", "x = []\nwhile True: x.append(bytearray(1 << 20))")
    assert not answer.ok
    assert answer.code in {"memory_limit", "command_failed"}
    assert (await workspace.bash("echo on")).text.endswith("on")


@pytest.mark.abuse("I9")
async def test_a_full_folder_stops_what_fills_it_and_lets_files_be_deleted(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(quota_mb=8)
    await workspace.file_write("kept.txt", "kept")
    full = await workspace.bash("for i in $(seq 400); do head -c 1000000 /dev/zero > part$i; done; sleep 30", timeout=20_000)
    assert full.code == "disk_full"
    assert "the workspace is full, it may hold 8 MiB" in full.text
    assert (await workspace.file_read("kept.txt")).ok
    assert (await workspace.file_write("more.txt", "x" * 9_000_000)).code == "disk_full"
    assert (await workspace.bash("rm part*; sleep 0.2; echo deleted")).text == "deleted"
    assert (await workspace.bash("head -c 1000000 /dev/zero > small; echo fits")).text == "fits"


@pytest.mark.abuse("I9")
async def test_one_file_over_its_limit_is_a_clear_answer(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(policy=_policy(file_size_mb=1))
    answer = await workspace.bash("head -c 3000000 /dev/zero > large")
    assert (answer.ok, "which is the most one file may have" in answer.text) == (False, True)


@pytest.mark.abuse("I10")
async def test_no_network_is_reached_and_the_answer_says_why(workspace: Workspace) -> None:
    code = "import urllib.request as r; r.urlopen('http://example.com')"
    answer = await workspace.code_run("python", code)
    assert (answer.ok, answer.text.endswith("[This workspace has no network.]")) == (False, True)


@pytest.mark.abuse("I11")
async def test_secrets_do_not_come_back(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(policy=_policy(environment={"API_KEY": "s3cret-value"}))
    received: list[str] = []
    answer = await workspace.bash('echo "key: $API_KEY"', listener=lambda _stream, text: received.append(text))
    assert (answer.text, "".join(received)) == ("key: [redacted]", "key: [redacted]\n")


@pytest.mark.abuse("I12")
async def test_a_command_that_is_denied_is_not_started(make_workspace: MakeWorkspace) -> None:
    asked: list[tuple[str, str, str]] = []

    class Ruling:
        reason = "git push is denied by a rule"

        def __init__(self, allowed: bool) -> None:
            self.allowed = allowed

    class Authorizer:
        async def authorize(self, tool: str, subject: str, *, folder: str, content: str | None = None) -> Ruling:
            asked.append((tool, subject, folder))
            return Ruling("deny" not in subject)

    workspace = make_workspace(authorizer=Authorizer())
    denied = await workspace.bash("touch deny-me")
    assert (denied.code, denied.text) == (
        "permission_denied",
        "Error: git push is denied by a rule\ndo it another way, or ask the user",
    )
    assert (await workspace.file_write("deny.txt", "x")).code == "permission_denied"
    assert (await workspace.code_run("python", "# deny")).code == "permission_denied"
    assert (await workspace.bash("deny-server", background=True)).code == "permission_denied"
    assert (await workspace.bash("ls -A")).text == "(no output)"
    assert asked[0] == ("bash", "touch deny-me", workspace.path)
    assert asked[2] == ("code_run", "python\n# deny", workspace.path)


@pytest.mark.parametrize("folder", ["/", "/etc", "/usr/share"])
def test_a_folder_of_the_system_is_no_workspace(folder: str) -> None:
    with pytest.raises(PathRefused):
        Workspace(folder)


def test_a_folder_that_is_not_there_is_no_workspace() -> None:
    with pytest.raises(FileMissing, match="no folder"):
        Workspace("/absent/folder")


@pytest.mark.abuse("I8")
async def test_closing_leaves_no_process_and_no_temporary_folder(workspace: Workspace) -> None:
    await workspace.bash("(setsid nohup sleep 332 >/dev/null 2>&1 &); exit 0")
    await workspace.bash("sleep 333", background=True)
    session, _ = await workspace.session()
    left = [*session.channel.session.processes(), session.channel.session._watch.pid]
    await workspace.close()
    await asyncio.to_thread(_wait_for_the_end_of, left)
    assert list(Path(tempfile.gettempdir()).glob(f"skillyard-run-{os.getpid()}-*")) == []


@pytest.mark.abuse("I8")
def test_a_session_does_not_outlive_a_server_that_is_killed(backend: str, reachable: Path) -> None:
    (reachable / "files").mkdir()
    program = textwrap.dedent(f"""
        import asyncio
        from skillyard.workspace import Workspace, WorkspaceOptions

        async def main():
            workspace = Workspace({str(reachable / "files")!r}, options=WorkspaceOptions(backend={backend!r}))
            await workspace.bash("echo kept > file; (setsid sleep 334 &)")
            session, _ = await workspace.session()
            print(*session.channel.session.processes(), flush=True)
            await workspace.bash("sleep 335")

        asyncio.run(main())
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        processes = [int(pid) for pid in server.stdout.readline().split()]
        server.send_signal(signal.SIGKILL)
    assert processes
    _wait_for_the_end_of(processes)
    assert (reachable / "files" / "file").read_text() == "kept\n"


def _wait_for_the_end_of(processes: list[int]) -> None:
    """The kernel ends the processes of a namespace one after the other, after the first of them."""
    deadline = time.monotonic() + 20
    while any(map(_lives, processes)):
        assert time.monotonic() < deadline, processes
        time.sleep(0.005)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


@pytest.mark.abuse("I10")
async def test_a_host_that_is_not_allowed_is_named_and_own_servers_are_reached(
    make_workspace: MakeWorkspace, backend: str
) -> None:
    workspace = make_workspace(policy=_policy(network="allowlist", network_allowlist=("example.com",)))
    fetch = "import urllib.request as r; print(r.urlopen({!r}, timeout=9).status)"
    answer = await workspace.code_run("python", fetch.format("http://evil.test/"))
    if backend == "landlock":  # which knows ports and no hosts
        assert answer.code == "sandbox_unavailable"
        return
    assert "[Not reached: evil.test:80: http://evil.test is not on the allow-list of this run]" in answer.text
    await workspace.bash("exec python3 -u -m http.server 8123 2>&1", background=True)
    while "Serving" not in (await workspace.bash(process="bg1")).text:
        await asyncio.sleep(0.01)
    assert (await workspace.code_run("python", fetch.format("http://127.0.0.1:8123/"))).text == "200"


_LOCAL = """
import socket
server = socket.socket(socket.AF_UNIX)
server.bind("/tmp/own")
server.listen()
client = socket.socket(socket.AF_UNIX)
client.connect("/tmp/own")
print("connected")
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
"""


@pytest.mark.abuse("I13")
async def test_local_sockets_are_for_sessions_that_were_granted_them(make_workspace: MakeWorkspace, backend: str) -> None:
    granted = make_workspace("granted", environment=GrantedEnvironment(local_sockets=True))
    without = await make_workspace("without").code_run("python", _LOCAL)
    assert "connected" not in without.text
    answer = await granted.code_run("python", _LOCAL)
    assert ("connected" in answer.text, answer.ok) == (backend != "landlock", False)


@pytest.mark.abuse("I13")
async def test_no_session_with_local_sockets_sees_a_socket_of_the_machine(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(environment=GrantedEnvironment(local_sockets=True))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{workspace.folder}/agent.sock")
        answer = await workspace.bash("true")
    assert (answer.code, "agent.sock is a socket of another program" in answer.text) == ("invalid_input", True)


@pytest.mark.abuse("I9")
async def test_what_a_command_left_behind_fills_the_folder_and_is_ended(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(quota_mb=8)
    await workspace.bash("(while :; do head -c 1000000 /dev/zero >> part; sleep 0.02; done) > /dev/null 2>&1 &")
    session, _ = await workspace.session()
    while await asyncio.to_thread(session.channel.session.processes):
        await asyncio.sleep(0.05)
    assert workspace.is_open
    assert (await workspace.bash("rm part; echo gone")).text == "gone"


@pytest.mark.abuse("I11")
async def test_a_secret_in_two_pieces_does_not_go_to_who_listens(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(policy=_policy(environment={"API_KEY": "s3cret-value"}))
    received: list[str] = []
    await workspace.bash("printf s3cret-; sleep 0.1; echo value", listener=lambda _stream, text: received.append(text))
    assert "".join(received) == "[redacted]\n"
