"""Containers of podman, and of a docker that is podman: in short what `make test-long` tests, and what only they have."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from skillyard import Catalog
from skillyard.catalog import Configuration
from skillyard.errors import InvalidPolicy, RuntimeUnavailable, SandboxUnavailable
from skillyard.execution import Executor, RunRequest
from skillyard.sandbox import (
    Job,
    Policy,
    SandboxBackend,
    backend_probe,
    backends,
    choose_backend,
    container_backend,
    container_image,
    container_process,
    landlock,
    lowered_ceiling,
)
from skillyard.sandbox.container_backend import ContainerBackend
from skillyard.sandbox.container_engine import LABEL, BindMount, ContainerEngine, new_name
from skillyard.workspace import Workspace, WorkspaceOptions, options_from_settings


@pytest.fixture(scope="module")
def found() -> ContainerEngine:
    """What starts containers here."""
    backend = ContainerBackend()
    probe = backend.probe()
    assert shutil.which("podman"), "scripts/system.sh installs it"
    if not probe.ok:  # inside another container a kernel may refuse it, whatever is installed
        pytest.skip(f"no container starts on this machine: {probe.reason}")
    return backend.found_engine()


@pytest.fixture
def backend(found: ContainerEngine) -> SandboxBackend:
    """Containers alone."""
    return ContainerBackend(engine=found)


def containers(engine: ContainerEngine, pid: int | None = None) -> list[str]:
    """The containers that a process, this one when none is named, has left."""
    names = engine.call("ps", "--all", "--filter", f"label={LABEL}", "--format", "{{.Names}}").decode().split()
    return [name for name in names if name.split(".")[2] == str(pid or os.getpid())]


@pytest.fixture
def docker(found: ContainerEngine, tmp_path: Path) -> tuple[ContainerEngine, Path]:
    """A docker that writes down how it is called, and has podman do it."""
    calls = tmp_path / "calls"
    program = tmp_path / "docker"
    words = shlex.join([found.program, *found.options])
    program.write_text(f'#!/bin/sh\nprintf "%s\\0" "$@" >> {calls}\nprintf "\\n" >> {calls}\nexec {words} "$@"\n')
    program.chmod(0o755)
    return ContainerEngine("docker", str(program)), calls


@pytest.mark.abuse("A1", "A5", "A12", "D1", "E1", on="container")
async def test_a_run_sees_its_own_and_reaches_nothing_else(run_script, found: ContainerEngine) -> None:
    result = await run_script(
        """
        answer({
            "environment": sorted(os.environ), "files": sorted(os.listdir("/proc/self/fd"))[:4], "user": os.getuid(),
            "skill": attempt(write, HERE + "/x"), "system": attempt(write, "/usr/x"), "own": attempt(write, "/tmp/x"),
            "network": attempt(socket.socket), "passwords": attempt(read, "/etc/shadow"),
            "first": attempt(read, "/proc/1/environ"),
            "users": read("/etc/passwd").splitlines()[0].split(":")[0], "memory": attempt(read, "/proc/1/mem"),
            "privileges": [line.split()[1] for line in open("/proc/self/status") if line.startswith(("CapBnd", "NoNewPrivs"))],
        })
        """
    )
    assert result.status == "ok", (result.detail, result.stderr)
    value = result.value
    assert value["environment"] == ["HOME", "LANG", "PATH", "SKILL_PROTOCOL", "SKILL_RESULT_FD", "TMPDIR"]
    assert value["files"][:4] == ["0", "1", "2", "3"]
    assert (value["skill"], value["system"], value["own"]) == ("EROFS", "EROFS", "done")
    assert (value["network"], value["passwords"], value["users"]) == ("EAFNOSUPPORT", "ENOENT", "skill")
    assert (value["first"], value["memory"]) == ("EACCES", "EACCES")
    assert value["privileges"] == ["0000000000000000", "1"]
    assert value["user"] != 0
    assert result.isolation == "container"
    assert all(limit.enforced for limit in result.limits) or not found.counts  # else a watchdog estimates some
    await until(lambda: not containers(found))


async def test_scripts_in_other_languages_run_too(backend: SandboxBackend, skill_tree: Path) -> None:
    (skill_tree / "main.sh").write_text('read -r line; echo "got $line"; echo wrong >&2; echo "[1]" >&3; exit 3\n')
    (skill_tree / "main.mjs").write_text("export const execute = ({ a }) => ({ twice: 2 * a });\n")
    shell, node = await asyncio.gather(
        backend.run(Job(str(skill_tree), "main.sh", b"a line\n")),
        backend.run(Job(str(skill_tree), "main.mjs", json.dumps({"input": {"a": 4}}).encode())),
    )
    assert (shell.status, shell.exit_code, shell.value) == ("error", 3, [1]), shell
    assert (shell.stdout, shell.stderr) == (b"got a line\n", b"wrong\n")
    assert (node.status, node.value) == ("ok", {"twice": 8}), node


async def test_a_skill_runs_in_one_where_the_operator_says_so(found: ContainerEngine) -> None:
    skill = Catalog.discover(roots=["examples/skills"]).get("text-statistics")
    executor = Executor.from_configuration(Configuration(sandbox={"backend": "container"}))
    run = await executor.run(RunRequest(skill, {"text": "Two words."}))
    assert (run.status, run.isolation, run.output["words"]) == ("ok", "container", 2), run
    assert (f"cgroup of {found.kind}" in {limit.by for limit in run.limits}) == found.counts


async def test_more_input_than_fits_a_pipe_arrives_and_need_not_be_read(run_script) -> None:
    data = os.urandom(1 << 20)
    read = await run_script("import hashlib\nanswer(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())", stdin=data)
    assert read.value == hashlib.sha256(data).hexdigest()
    ignored = await run_script("answer('done')", stdin=data)
    assert (ignored.status, ignored.value) == ("ok", "done")


@pytest.mark.abuse("B3", "C1", "C5", "C6", on="container")
@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("bytearray(900 << 20)\ntime.sleep(30)", "memory"),
        ("if os.fork() == 0: os.setsid()\ntime.sleep(30)", "timeout"),
        ("while True: os.write(1, b'x' * 65536)", "output_limit"),
        ("for _ in range(200):\n    if os.fork() == 0: time.sleep(30)\n", "pids"),
    ],
    ids=["memory", "time", "output", "processes"],
)
async def test_what_goes_over_a_limit_is_ended_and_leaves_nothing(
    run_script, found: ContainerEngine, source: str, status: str
) -> None:
    policy = Policy(timeout_ms=1_500 if status == "timeout" else 15_000, memory_mb=64, pids=16, output_bytes=100_000)
    result = await run_script(source, policy=policy)
    refused = status == "pids" and not found.counts  # the kernel refuses the process, and the script fails
    assert result.status == ("error" if refused else status), result
    if found.counts and status in ("timeout", "output_limit"):
        assert result.memory_bytes  # its first program has ended everything and reported it: the engine was not waited for
    await until(lambda: not containers(found))


@pytest.mark.abuse("D5", "D6", on="container")
async def test_a_host_of_the_list_is_reached_through_the_proxy_and_no_other(run_script) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 600000\r\nConnection: close\r\n\r\n" + b"x" * 600_000)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    result = await run_script(
        f"""
        import urllib.request, urllib.error
        def fetch(url):
            try:
                return len(urllib.request.urlopen(url, timeout=5).read())
            except urllib.error.HTTPError as error:
                return error.headers["X-Skillyard-Proxy"]
        def directly():
            with socket.create_connection(("127.0.0.1", {port}), 1):
                pass
        answer([fetch("http://localhost:{port}/"), fetch("http://other.test/"), attempt(directly)])
        """,
        policy=Policy(network="allowlist", network_allowlist=(f"http://localhost:{port}",), private_networks=True),
    )
    server.close()
    assert result.value == [600_000, "denied-by-allowlist", "ECONNREFUSED"], result
    assert [(contact.host, contact.verdict) for contact in result.contacts] == [
        ("localhost", "allowed"),
        ("other.test", "denied"),
    ]


async def test_files_to_work_on_come_back(run_script, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    result = await run_script(
        "text = read('a.txt')\nwrite('a.txt', text + ' two')\nwrite('b.txt')",
        policy=Policy(filesystem="read-write"),
        workspace=str(tmp_path),
    )
    assert (result.status, sorted(result.files)) == ("ok", ["a.txt", "b.txt"]), result
    assert (tmp_path / "a.txt").read_text() == "one two"


async def test_who_goes_away_ends_the_container(
    backend: SandboxBackend, skill_tree: Path, found: ContainerEngine, survivors
) -> None:
    marker = f"cancelled-{os.urandom(6).hex()}"
    (skill_tree / "main.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    running = asyncio.create_task(backend.run(Job(str(skill_tree), "main.py", arguments=(marker,))))
    await until(lambda: survivors(marker))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert survivors(marker) == []
    await until(lambda: not containers(found))


@pytest.mark.abuse("B20", on="container")
async def test_a_service_that_is_killed_takes_its_container_with_it(
    skill_tree: Path, found: ContainerEngine, survivors
) -> None:
    marker = f"orphan-{os.urandom(6).hex()}"
    (skill_tree / "main.py").write_text("import os, time\nif os.fork() == 0: os.setsid()\ntime.sleep(60)\n")
    program = f"""
import asyncio, sys
from skillyard.sandbox import Job
from skillyard.sandbox.container_backend import ContainerBackend
from skillyard.sandbox.container_engine import ContainerEngine
engine = ContainerEngine({found.kind!r}, {found.program!r}, options={found.options!r}, counts={found.counts})
backend = ContainerBackend(engine=engine)
asyncio.run(backend.run(Job({str(skill_tree)!r}, "main.py", arguments=(sys.stdin.read(),))))
"""
    service = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, text=True)
    assert service.stdin is not None
    service.stdin.write(marker)
    service.stdin.close()
    try:
        await until(lambda: len(survivors(marker)) >= 2)
    finally:
        service.kill()
        service.wait()
    await until(lambda: not survivors(marker))
    await until(lambda: not containers(found, service.pid))


def test_what_a_dead_process_has_left_is_removed_by_the_next(found: ContainerEngine) -> None:
    place, pid, started = new_name().split(".")[1:4]
    image = found.ensure_image()
    dead, other = f"skillyard.{place}.{pid}.1.00000000", f"skillyard.{place[::-1]}.{pid}.1.{os.urandom(4).hex()}"
    own = f"skillyard.{place}.{pid}.{started}.{os.urandom(4).hex()}"
    try:
        for name in (dead, other, own):
            found.call("create", "--name", name, "--label", LABEL, "--network", "none", image, "/usr/bin/true")
        found.sweep()
        assert set(containers(found)) & {dead, other, own} == {other, own}
    finally:
        found.call("rm", "--force", "--ignore", dead, other, own)


async def test_docker_is_called_with_what_it_knows_and_no_value_is_among_it(
    docker: tuple[ContainerEngine, Path], skill_tree: Path
) -> None:
    engine, calls = docker
    (skill_tree / "main.py").write_text("import os\ndef execute(p): return [p, os.environ['GREETING']]\n")
    policy = Policy(environment={"GREETING": "value-on-the-line"})
    backend = ContainerBackend(engine=engine)
    result = await backend.run(
        Job(str(skill_tree), "main.py", b'{"input": "parameter-on-the-line"}', policy, ("argument-there",))
    )
    assert (result.status, result.value) == ("ok", ["parameter-on-the-line", "value-on-the-line"]), result
    text = calls.read_text()
    assert not any(word in text for word in ("value-on-the-line", "parameter-on-the-line", "argument-there"))
    (words,) = [line.split("\0") for line in text.splitlines() if line.startswith("run\0")]
    for option, value in (
        ("--network", "none"), ("--cap-drop", "ALL"), ("--pull", "never"), ("--log-driver", "none"),
        ("--security-opt", "no-new-privileges"),
        ("--memory", str((256 + 24) << 20)), ("--pids-limit", "65"),
    ):  # fmt: skip
        assert (option, value) in itertools.pairwise(words)
    assert "--read-only" in words
    assert not any(word.startswith(("--passwd", "--http-proxy", "--userns", "--systemd")) for word in words)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'cannot connect to the daemon' >&2; exit 125", "cannot connect to the daemon"),
        ("cat /dev/zero | head -c 4000000; exit 0", "the sandbox did not start"),
        ("printf 'H\\0\\0\\0\\0\\0\\2[]'; exec sleep 30", "cannot be read"),
    ],
    ids=["no daemon", "no frames", "no greeting"],
)
async def test_an_engine_that_does_not_answer_is_no_error_of_the_skill(
    found: ContainerEngine, tmp_path: Path, skill_tree: Path, script: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_process, "_END_SECONDS", 0.1)
    program = tmp_path / "podman"
    program.write_text(f'#!/bin/sh\ncase "$1" in run) {script};; ps) ;; *) exec {found.program} "$@";; esac\n')
    program.chmod(0o755)
    (skill_tree / "main.py").write_text("print(1)")
    result = await ContainerBackend(engine=ContainerEngine("podman", str(program))).run(Job(str(skill_tree), "main.py"))
    assert result.status == "unavailable", result
    assert reason in result.detail


def test_it_is_chosen_last_or_by_name(monkeypatch: pytest.MonkeyPatch, found: ContainerEngine) -> None:
    assert choose_backend(Policy()).name == "bwrap"
    assert choose_backend(Policy(), "container").name == "container"
    monkeypatch.setattr("skillyard.sandbox.bubblewrap._PROGRAMS", ("/nowhere/bwrap",))
    monkeypatch.setattr(landlock, "landlock_version", lambda: 0)
    assert choose_backend(Policy()).name == "container"
    monkeypatch.setattr(container_backend, "candidates", lambda _: iter([replace(found, program="/bin/false")]))
    monkeypatch.setattr(backend_probe, "_probes", {})
    with pytest.raises(SandboxUnavailable) as caught:
        choose_backend(Policy())
    assert "container" in {item["requirement"] for item in caught.value.details["unmet"]}
    assert any("docker or podman" in remedy for remedy in caught.value.details["remedies"])


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_elsewhere_it_is_said_what_a_container_needs(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(SandboxUnavailable) as caught:
        choose_backend(Policy())
    (reason,) = [item["reason"] for item in caught.value.details["unmet"] if item["requirement"] == "container"]
    assert ("need an image" if platform == "darwin" else "started from Linux") in reason
    assert ("container-image" if platform == "darwin" else "WSL 2") in str(caught.value.hint)
    assert [backend.name for backend in backends(container_image="python:3.12")] == (
        ["container"] if platform == "darwin" else []
    )


def test_where_bubblewrap_holds_nothing_of_containers_is_loaded() -> None:
    program = (
        "import sys\nfrom skillyard.sandbox import Policy, choose_backend\nprint(choose_backend(Policy()).name)\n"
        "print([name for name in sys.modules if 'sandbox.container' in name])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "bwrap\n[]\n"


def test_the_image_is_the_operators_to_name_and_no_project_may() -> None:
    assert container_image({"container-image": "python:3.12-slim"}) == "python:3.12-slim"
    assert container_image({}) == ""
    for wrong in (5, "--privileged", "a b", "x,y"):
        with pytest.raises(InvalidPolicy, match="container-image"):
            container_image({"container-image": wrong})
    assert options_from_settings({"backend": "container", "container-image": "x:1"}).container_image == "x:1"
    assert Policy.ceiling({"container-image": "x:1"}) == Policy.ceiling()
    with pytest.raises(InvalidPolicy, match="container-image"):
        lowered_ceiling(Policy.ceiling(), {"container-image": "x:1"})
    configured = Executor.from_configuration(Configuration(sandbox={"backend": "container", "container-image": "x:1"}))
    assert (configured._backend, configured._container_image) == ("container", "x:1")


def test_a_name_that_no_option_can_hold_is_refused() -> None:
    assert BindMount("/a b", "/c", writable=True).words() == ("--mount", "type=bind,source=/a b,target=/c")
    with pytest.raises(SandboxUnavailable, match="comma"):
        BindMount("/a,readonly=false", "/c").words()


async def test_a_workspace_works_in_a_container(found: ContainerEngine) -> None:
    with tempfile.TemporaryDirectory(prefix="skillyard-workspaces-", dir="/tmp") as folder:
        workspace = Workspace(folder, options=WorkspaceOptions(backend="container"))
        try:
            first = await workspace.bash(
                "cd /workspace && echo kept > file && export NAME=here; nohup sleep 60 >/dev/null 2>&1 &"
            )
            second = await workspace.bash('cat file; echo "$NAME"; pwd; id -u')
            ended = await workspace.bash("(setsid sleep 61 &) ; sleep 60", timeout=500)
            left = await workspace.bash("ps -eo args | grep -c 'sleep 6[1]' ; true")
        finally:
            await workspace.close()
        assert first.ok, first.text
        assert second.text.splitlines()[:3] == ["kept", "here", "/workspace"], second.text
        assert ended.code == "timeout"
        assert left.text.splitlines()[0] == "0"
        assert Path(folder, "file").read_text() == "kept\n"
    await until(lambda: not containers(found))


@pytest.fixture(scope="module")
def image(found: ContainerEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image that has Python and a shell, as an operator might name one; made of this machine's files."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = next(path for path in (f"/usr/bin/python{version}", os.path.realpath("/usr/bin/python3")) if os.path.exists(path))
    library = f"/usr/lib/{Path(python).name}"
    listed = subprocess.run(["ldd", python, "/bin/bash"], capture_output=True, text=True, check=True).stdout
    libraries = {word for word in listed.split() if word.startswith("/") and not word.endswith(":")}
    archive = tmp_path_factory.mktemp("image") / "image.tar"
    with tarfile.open(archive, "w") as made:
        for path in (python, "/bin/bash", *libraries):
            made.add(os.path.realpath(path), f"usr/local{path}" if path == python else path.lstrip("/"))
        made.add(library, library.lstrip("/"), filter=lambda entry: None if "dist-packages" in entry.name else entry)
        for path in Path("/usr/lib/x86_64-linux-gnu").glob("libffi.so*"):
            made.add(path, str(path).lstrip("/"))
        link = tarfile.TarInfo("usr/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, f"/usr/local{python}"
        made.addfile(link)
    name = f"skillyard-test:{os.getpid()}"
    found.call("import", str(archive), name)
    yield name
    found.call("rmi", "--force", name)


@pytest.mark.long
async def test_an_image_of_the_operators_brings_its_own_python(image: str, found: ContainerEngine, skill_tree: Path) -> None:
    backend = ContainerBackend(image, replace(found, image=image))
    (skill_tree / "main.py").write_text("import sys\ndef execute(p): return [sys.executable, p]\n")
    (skill_tree / "main.sh").write_text("echo from bash\n")
    (skill_tree / "main.mjs").write_text("export const execute = () => 1;\n")
    result = await backend.run(Job(str(skill_tree), "main.py", b'{"input": 7}'))
    assert (result.status, result.value[1]) == ("ok", 7), result
    assert (await backend.run(Job(str(skill_tree), "main.sh"))).stdout == b"from bash\n"
    with pytest.raises(RuntimeUnavailable, match="no node"):
        await backend.run(Job(str(skill_tree), "main.mjs"))
    with pytest.raises(SandboxUnavailable, match="absent"):
        await ContainerBackend("skillyard-absent:1", replace(found, image="skillyard-absent:1")).run(
            Job(str(skill_tree), "main.py")
        )


@pytest.mark.long
def test_a_run_on_macos_needs_nothing_that_only_linux_has(image: str, found: ContainerEngine, skill_tree: Path) -> None:
    (skill_tree / "main.py").write_text("def execute(p): return {'twice': 2 * p}\n")
    program = f"""
import asyncio, ctypes, os, sys, subprocess, tempfile, concurrent.futures.thread, asyncio.unix_events
for name in ("memfd_create", "sched_getaffinity", "pidfd_open", "O_PATH", "posix_fallocate", "eventfd", "pipe2"):
    if hasattr(os, name): delattr(os, name)
asyncio.set_child_watcher(asyncio.ThreadedChildWatcher())
sys.platform = "darwin"
os.geteuid = os.getuid = lambda: 501
from skillyard.execution import Executor, RunRequest
from skillyard.sandbox import Job, Policy, container_image, lowered_ceiling, choose_backend, can_start
backend = choose_backend(Policy(), container_image={image!r})
result = asyncio.run(backend.run(Job({str(skill_tree)!r}, "main.py", b'{{"input": 21}}')))
print(backend.name, result.status, result.value, can_start("main.py"), can_start("x.exe"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "container ok {'twice': 42} True False\n", done.stderr


async def until(holds, seconds: float = 60.0) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
