"""What became of a run is concluded from what its script cannot write: the gate, the counts of the kernel, the clock."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from skillyard.errors import SandboxUnavailable
from skillyard.sandbox import Job, Policy, SandboxBackend, container_parts, landlock
from skillyard.sandbox.preparation import PreparedRun

_PREFIXES = (
    "bwrap: No permissions to create a new namespace",
    "/usr/sbin/chroot: cannot change root directory",
    "skillyard: the sandbox could not be set up: broken",
)


@pytest.mark.abuse("B25")
@pytest.mark.parametrize("words", _PREFIXES, ids=["bubblewrap", "chroot", "launcher"])
@pytest.mark.parametrize("code", [1, 126, 137])
async def test_a_script_cannot_say_that_the_sandbox_did_not_start(run_script, words: str, code: int) -> None:
    result = await run_script(f"os.write(2, {words.encode()!r} + b'\\n')\nos._exit({code})")
    assert result.status == ("killed" if code == 137 else "error"), result
    assert "sandbox" not in result.detail


@pytest.mark.abuse("B25")
@pytest.mark.parametrize("entry", ["scripts/main.sh", "scripts/main.js"])
async def test_nor_can_a_script_in_another_language(run_script, entry: str) -> None:
    source = {
        "scripts/main.sh": "echo 'bwrap: forged' >&2\nexit 1\n",
        "scripts/main.js": "require('fs').writeSync(2, 'bwrap: forged\\n'); process.exit(1);\n",
    }[entry]
    result = await run_script(source, entry=entry)
    assert (result.status, result.exit_code) == ("error", 1), result


@pytest.mark.abuse("B25")
async def test_nothing_of_the_gate_is_left_for_a_script_to_close_or_fill(run_script) -> None:
    result = await run_script(
        """
        written = []
        for number in range(4, 256):
            if attempt(os.write, number, b"11111111") == "done":
                written.append(number)
        for process in ("self", "1"):
            for number in range(4, 256):
                path = f"/proc/{process}/fd/{number}"
                if os.access(path, os.F_OK) and "pipe" in os.readlink(path):
                    written.append(path)
        os.write(2, b"bwrap: forged " + str(written).encode())
        os._exit(1)
        """
    )
    assert result.status == "error", result
    assert result.stderr == b"bwrap: forged []"


@pytest.mark.abuse("B25")
@pytest.mark.parametrize("words", ["MemoryError", "Cannot allocate memory", "FATAL: JavaScript heap out of memory"])
async def test_where_memory_is_counted_a_script_cannot_say_that_it_ran_out(
    run_script, words: str, request: pytest.FixtureRequest
) -> None:
    result = await run_script(f"sys.exit('{words}')", policy=Policy(timeout_ms=8_000, memory_mb=128))
    counted = next(limit for limit in result.limits if limit.name == "memory_mb").by.startswith("cgroup")
    assert result.status == ("error" if counted else "memory"), result


async def test_a_launcher_that_fails_is_told_from_a_script_that_does(
    backend: SandboxBackend, skill_tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend.name == "landlock":
        monkeypatch.setattr(landlock, "_rules", lambda _: [("/nowhere/at/all", 1)])
    elif backend.name == "container":
        usual = container_parts.system_mounts
        absent = container_parts.BindMount("/nowhere/at/all", "/workspace")
        monkeypatch.setattr(container_parts, "system_mounts", lambda paths: [*usual(paths), absent])
    else:
        monkeypatch.setattr(PreparedRun, "has_workspace", property(lambda _: True))
        monkeypatch.setattr("skillyard.sandbox.bubblewrap._workspace", lambda _: ("--ro-bind", "/nowhere/at/all", "/workspace"))
    (skill_tree / "main.py").write_text("print('let go')")
    result = await backend.run(Job(str(skill_tree), "main.py"))
    assert result.status == "unavailable", result
    assert "the sandbox did not start" in result.detail
    assert "/nowhere/at/all" in result.detail
    assert result.stdout == b""


async def test_a_program_that_ignores_the_ends_of_its_children_is_told(run_script) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(SandboxUnavailable, match="this program ignores SIGCHLD"):
            await run_script("print(1)")
    finally:
        signal.signal(signal.SIGCHLD, before)


async def test_an_end_that_nobody_saw_is_no_success(run_script, monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(*_: object) -> None:
        raise ChildProcessError

    monkeypatch.setattr("os.waitid", taken)
    result = await run_script("exit 3\n", entry="scripts/main.sh")
    assert (result.status, "waits for every child process" in result.detail) == ("error", True), result
