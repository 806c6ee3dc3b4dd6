"""Which backend runs a policy, and how a machine without any is told what to do."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from skillyard.errors import InvalidInput, NotExecutable, SandboxUnavailable
from skillyard.sandbox import (
    Job,
    Policy,
    Probe,
    SandboxBackend,
    SandboxResult,
    backend_probe,
    backends,
    choose_backend,
    container_backend,
    landlock,
    listen_to_output,
    probe_all,
)
from skillyard.sandbox.bubblewrap import BubblewrapBackend
from skillyard.sandbox.runtimes import can_start, runtime_for


def test_the_strongest_backend_that_holds_is_chosen() -> None:
    assert choose_backend(Policy()).name == "bwrap"
    assert choose_backend(Policy(), "landlock").name == "landlock"
    assert [probe.backend for probe in probe_all() if probe.ok] == ["bwrap", "landlock"]


def test_without_bubblewrap_landlock_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillyard.sandbox.bubblewrap._PROGRAMS", ("/nowhere/bwrap",))
    assert choose_backend(Policy()).name == "landlock"


@pytest.mark.row("C-31")
def test_without_anything_a_run_is_refused_with_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillyard.sandbox.bubblewrap._PROGRAMS", ("/nowhere/bwrap",))
    monkeypatch.setattr(landlock, "landlock_version", lambda: 0)
    monkeypatch.setattr(container_backend, "candidates", lambda _: iter(()))
    with pytest.raises(SandboxUnavailable) as caught:
        choose_backend(Policy())
    assert {item["requirement"] for item in caught.value.details["unmet"]} == {"bwrap", "landlock", "container"}
    assert any("apt-get install bubblewrap" in remedy for remedy in caught.value.details["remedies"])
    assert caught.value.hint


def test_a_kernel_that_is_not_linux_is_not_asked_for_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the number of the call means another one there")

    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("ctypes.CDLL", never)
    assert landlock.landlock_version.__wrapped__() == 0


def test_an_old_kernel_or_program_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(landlock, "landlock_version", lambda: 2)
    assert "at least 3" in landlock.LandlockBackend().probe().reason
    old = tmp_path / "bwrap"
    old.write_text("#!/bin/sh\necho bubblewrap 0.4.1\n", encoding="ascii")
    old.chmod(0o755)
    probe = BubblewrapBackend(program=str(old)).probe()
    assert (probe.ok, probe.facts["version"]) == (False, "0.4.1")


def test_an_unknown_backend_is_the_callers_mistake() -> None:
    with pytest.raises(InvalidInput, match="docker"):
        choose_backend(Policy(), "docker")


class Leaky:
    """A backend that runs scripts without any sandbox."""

    name = "leaky"
    level = "none"

    def __init__(self, **report: object) -> None:
        self._report = report

    def probe(self) -> Probe:
        return backend_probe.probe_by_attack(self, binary=None, remedies=("fix it",), facts={})

    def supports(self, policy: Policy) -> list[object]:
        return []

    async def run(self, job: Job) -> SandboxResult:
        targets = json.loads(job.stdin)
        if self._report.get("overwrite"):
            Path(targets["file"]).write_text("x", encoding="ascii")
        value = {"succeeded": self._report.get("succeeded", []), "environment": self._report.get("environment", [])}
        warnings = ("held",) if self._report.get("held") else ()
        return SandboxResult("ok", 0, b"{}", value, b"", b"", 1, (), "leaky", "python", warnings=warnings)


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        ({"succeeded": ["reach the network"]}, "reach the network"),
        ({"environment": ["PATH", "HOST_SECRET"]}, "HOST_SECRET"),
        ({"held": True}, "leave a process behind"),
        ({"overwrite": True}, "was changed"),
    ],
)
def test_a_backend_that_lets_an_attack_through_is_broken(
    monkeypatch: pytest.MonkeyPatch, report: dict[str, object], reason: str
) -> None:
    monkeypatch.setattr(backend_probe, "_probes", {})
    probe = Leaky(**report).probe()
    assert not probe.ok
    assert reason in probe.reason
    assert probe.remedies == ("fix it",)


async def test_a_probe_works_inside_a_running_loop_and_is_remembered(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_probe, "_probes", {})
    backend = choose_backend(Policy(), "bwrap")
    kept = home / ".cache/skillyard/sandbox-probes"
    assert kept.stat().st_mode & 0o077 == 0

    def never(_: SandboxBackend) -> str:
        raise AssertionError("it was remembered")

    monkeypatch.setattr(backend_probe, "_probes", {})
    monkeypatch.setattr(backend_probe, "_attack", never)
    assert backend.probe().ok
    kept.chmod(0o666)  # anyone could have written it now
    monkeypatch.setattr(backend_probe, "_probes", {})
    with pytest.raises(AssertionError):
        backend.probe()


@pytest.mark.parametrize("threaded", [True, False])
async def test_what_a_probe_prints_is_not_taken_for_output_of_the_run_that_waits(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, threaded: bool
) -> None:
    monkeypatch.setattr(backend_probe, "_probes", {})
    broken = tmp_path / "bwrap"
    broken.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo bubblewrap 0.9.0 || echo uid map: denied >&2\n', encoding="ascii"
    )
    broken.chmod(0o755)
    tmp_path.chmod(0o755)
    backend = BubblewrapBackend(program=str(broken))
    heard: list[str] = []
    with listen_to_output(lambda _, text: heard.append(text)):
        probe = await asyncio.to_thread(backend.probe) if threaded else backend.probe()
    assert not probe.ok
    assert heard == []


@pytest.mark.parametrize(("number", "name"), [(5, "CAP_KILL"), (7, "CAP_SETUID")])
def test_root_that_cannot_be_another_user_or_end_its_programs_gets_no_sandbox(
    home: Path, monkeypatch: pytest.MonkeyPatch, number: int, name: str
) -> None:
    everything = (1 << 41) - 1
    monkeypatch.setattr(backend_probe, "_probes", {})
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(backend_probe, "_capabilities", lambda: everything)
    assert Leaky().probe().ok
    monkeypatch.setattr(backend_probe, "_capabilities", lambda: everything & ~(1 << number))
    probe = Leaky().probe()  # what held with all of them says nothing
    assert not probe.ok
    assert probe.reason.endswith(f"lacks {name}")
    assert "ordinary user" in probe.remedies[0]


def test_a_limit_that_a_probe_met_is_what_helps_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_probe, "_probes", {})
    monkeypatch.setattr(backend_probe, "_attack", lambda _: "the sandbox could not be started: [Errno 24] Too many open files")
    assert Leaky().probe().remedies == ("raise the limit of open files: `ulimit -n 1024`", "fix it")


def test_the_capabilities_of_this_process_are_known() -> None:
    held = backend_probe._capabilities()
    assert held is not None
    assert held >> 7 & 1 == (os.geteuid() == 0)


def test_a_backend_that_does_not_hold_is_not_remembered_on_disk(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_probe, "_probes", {})
    assert not Leaky(held=True).probe().ok
    assert not (home / ".cache/skillyard").exists()


@pytest.mark.row("C-28")
def test_an_entry_is_run_by_its_ending() -> None:
    kinds = {name: runtime_for(f"a.{name}", as_other=True).kind for name in ("py", "SH", "js", "mjs", "cjs", "ts", "mts")}
    assert kinds == {"py": "python", "SH": "bash"} | dict.fromkeys(("js", "mjs", "cjs", "ts", "mts"), "node")
    with pytest.raises(NotExecutable):
        runtime_for("a.exe", as_other=True)
    assert can_start("a.py")
    assert not can_start("a.cts")


def test_every_backend_says_what_it_is() -> None:
    assert [(item.name, item.level) for item in backends()] == [
        ("bwrap", "namespace"),
        ("landlock", "lsm"),
        ("container", "namespace"),
    ]
    shape = replace(probe_all()[0], remedies=("x",)).to_dict()
    assert set(shape) == {"backend", "ok", "reason", "remedies", "facts"}


async def test_a_run_that_cannot_be_put_under_its_limits_is_never_let_go(
    monkeypatch: pytest.MonkeyPatch, skill_tree: Path
) -> None:
    class Stubborn:
        name, version, in_own_group = "cgroup1", 1, False

        def add(self, pid: int) -> bool:
            return False

        def watch_memory(self) -> None:
            return None

        def out_of_memory(self) -> bool:
            return False

        out_of_processes = out_of_memory
        memory_peak = watch_memory

        def kill(self) -> None:
            return None

        def remove(self) -> bool:
            return True

    monkeypatch.setattr("skillyard.sandbox.preparation.make_cgroup", lambda **_: Stubborn())
    for name, text in (("main.py", "print('ran')"), ("main.sh", "echo ran")):
        (skill_tree / name).write_text(text, encoding="ascii")
        for backend in backends()[:2]:
            result = await backend.run(Job(str(skill_tree), name))
            assert (result.status, result.stdout) == ("unavailable", b"")


async def test_a_sandbox_that_does_not_start_is_not_the_skills_error(
    monkeypatch: pytest.MonkeyPatch, skill_tree: Path, tmp_path: Path
) -> None:
    (skill_tree / "main.py").write_text("print('ran')", encoding="ascii")
    program = skill_tree / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: no permission to make namespaces' >&2\nexit 1\n", encoding="ascii")
    program.chmod(0o755)
    skill_tree.chmod(0o755)
    result = await BubblewrapBackend(program=str(program)).run(Job(str(skill_tree), "main.py"))
    assert result.status == "unavailable"
    assert "no permission" in result.detail
    monkeypatch.setattr("skillyard.sandbox.bubblewrap._CHROOT", "/nowhere/chroot")
    with pytest.raises(SandboxUnavailable, match="could not be started"):
        await BubblewrapBackend(program=str(tmp_path / "absent")).run(Job(str(skill_tree), "main.py"))


async def test_without_the_program_that_changes_users_python_does_it(monkeypatch: pytest.MonkeyPatch, skill_tree: Path) -> None:
    (skill_tree / "main.py").write_text("import os; print(os.getuid())", encoding="ascii")
    for program in ("/usr/sbin/chroot", "/nowhere/chroot"):
        monkeypatch.setattr("skillyard.sandbox.bubblewrap._CHROOT", program)
        result = await BubblewrapBackend().run(Job(str(skill_tree), "main.py"))
        assert (result.status, result.stdout) == ("ok", b"1000\n"), result.stderr
