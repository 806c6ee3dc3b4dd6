"""Attacks on files: what a run must not read, change or leave, in every backend."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from pathlib import Path

import pytest

from skillyard.errors import FileMissing, PathRefused
from skillyard.sandbox import Job, Policy, SandboxBackend


def fingerprint(folder: Path) -> str:
    """The names, modes and bytes of everything below a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(f"{path.relative_to(folder)} {path.lstat().st_mode:o}\n".encode())
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


@pytest.fixture
def canary(skill_tree: Path) -> Path:
    """A file of this user, next to the skill, that anyone may read and write."""
    path = skill_tree.parent / f"{skill_tree.name}-canary.txt"
    path.write_text("canary-bytes", encoding="ascii")
    path.chmod(0o666)
    yield path
    path.unlink()


@pytest.mark.row("003-11", "D-13", "D-14")
@pytest.mark.abuse("A1", "A2", "A3")
async def test_files_outside_cannot_be_read_by_any_way(run_script, canary: Path) -> None:
    project = str(Path.cwd() / "pyproject.toml")
    result = await run_script(
        """
        targets = json.load(sys.stdin)
        ways = targets + ["/proc/self/root" + path for path in targets] + ["/proc/1/root" + path for path in targets]
        ways += ["/proc/1/cwd/../.." + path for path in targets] + [HERE + "/../../../../../.." + path for path in targets]
        found = []
        for path in ways:
            try:
                found.append([path, read(path)])
            except OSError:
                pass
        os.symlink(targets[0], os.environ["TMPDIR"] + "/link")
        answer({"found": found, "link": attempt(read, os.environ["TMPDIR"] + "/link"),
                "link write": attempt(write, os.environ["TMPDIR"] + "/link")})
        """,
        stdin=json.dumps([str(canary), "/etc/shadow", "/root/.bashrc", "/etc/hostname", "/proc/1/environ", project]).encode(),
    )
    assert result.status == "ok", result.stderr
    assert all(not content or content.strip() == "sandbox" for _, content in result.value["found"]), (
        result.value
    )  # its own name
    assert result.value["link"] in ("ENOENT", "EACCES")
    assert canary.read_text(encoding="ascii") == "canary-bytes"
    assert b"canary-bytes" not in result.stdout + result.stderr


@pytest.mark.abuse("A5", "A7", "B21")
async def test_the_skill_cannot_be_changed(run_script, skill_tree: Path) -> None:
    (skill_tree / "data.txt").write_text("data", encoding="ascii")
    (skill_tree / "helper.py").write_text("VALUE = 1\n", encoding="ascii")
    (skill_tree / "SKILL.md").write_text("---\nname: x\ndescription: y\n---\n", encoding="ascii")
    (skill_tree / "scripts").mkdir()
    before = {path: path.read_bytes() for path in skill_tree.rglob("*") if path.is_file()}
    result = await run_script(
        """
        root = os.path.dirname(HERE)
        sys.path.insert(0, root)
        import helper
        data = root + "/data.txt"
        answer({
            "write": attempt(write, data), "new": attempt(write, root + "/new"), "unlink": attempt(os.unlink, data),
            "rename": attempt(os.rename, data, root + "/other"), "chmod": attempt(os.chmod, data, 0o777),
            "manifest": attempt(write, root + "/SKILL.md"), "mkdir": attempt(os.mkdir, root + "/folder"),
            "link": attempt(os.link, data, os.environ["TMPDIR"] + "/hard"), "truncate": attempt(os.truncate, data, 0),
            "cache": os.path.exists(root + "/__pycache__"), "time": attempt(os.utime, data, (1, 1)),
        })
        """
    )
    assert result.status == "ok", result.stderr
    assert not result.value.pop("cache")
    assert "done" not in result.value.values(), result.value
    assert all(path.read_bytes() == content for path, content in before.items())


@pytest.mark.abuse("A8")
async def test_nothing_of_the_system_can_be_written(run_script) -> None:
    result = await run_script(
        """
        places = ["/x", "/usr/x", "/bin/x", "/dev/x", "/etc/x", "/opt/x", "/proc/sys/kernel/hostname", "/proc/self/x",
                  "/sys/x", "/var/x", "/home/x", "/root/x", "/run/x", "/var/tmp/x"]
        answer({path: attempt(write, path) for path in places})
        """
    )
    assert result.status == "ok", result.stderr
    assert "done" not in result.value.values(), result.value


@pytest.mark.abuse("A10", "A11")
async def test_devices_cannot_be_made_or_opened(run_script) -> None:
    result = await run_script(
        """
        import stat
        node = os.environ["TMPDIR"] + "/node"
        made = {kind: attempt(os.mknod, node, kind | 0o666, os.makedev(1, 3)) for kind in (stat.S_IFCHR, stat.S_IFBLK)}
        devices = ("mem", "kmsg", "vda", "sda", "fuse", "kvm", "tty", "console", "loop0")
        opened = {path: attempt(os.open, "/dev/" + path, os.O_RDWR) for path in devices}
        answer({**made, **opened, "handle": system_call(CALLS["name_to_handle_at"], -100, b"/", 0, 0, 0),
                "by handle": system_call(CALLS["open_by_handle_at"], 3, 0, 0)})
        """
    )
    assert result.status == "ok", result.stderr
    assert "done" not in result.value.values(), result.value
    assert result.value["handle"] == result.value["by handle"] == "EPERM"


@pytest.mark.row("000-36")
@pytest.mark.abuse("A12")
async def test_only_the_three_streams_and_the_result_pipe_are_open(run_script) -> None:
    left, right = socket.socketpair()
    with left, right, open("/etc/passwd") as file:
        os.set_inheritable(left.fileno(), True)
        os.set_inheritable(file.fileno(), True)
        result = await run_script(
            """
            def is_open(number):
                try:
                    os.fstat(number)
                except OSError:
                    return False
                return True
            answer([number for number in range(1024) if is_open(number)])
            """
        )
    assert result.value == [0, 1, 2, 3]


@pytest.mark.abuse("A12")
async def test_a_script_sees_the_same_descriptors_in_bash(run_script) -> None:
    script = """
    exec 2>/dev/null
    for number in $(seq 0 300); do if : >&$number || : <&$number; then printf '%s ' $number; fi; done
    echo '{"ok": true}' >&3
    """
    with open("/etc/passwd") as file:
        os.set_inheritable(file.fileno(), True)
        result = await run_script(script, entry="main.sh")
    assert result.value == {"ok": True}
    assert {int(number) for number in result.stdout.split()} - {10, 255} == {0, 1, 2, 3}  # bash itself uses the two


@pytest.mark.parametrize("policy", [Policy(filesystem="none"), Policy(filesystem="read-only"), Policy(filesystem="read-write")])
@pytest.mark.abuse("A16")
async def test_siblings_of_the_skill_are_not_visible(run_script, skill_tree: Path, policy: Policy) -> None:
    neighbour = skill_tree.parent / f"{skill_tree.name}-neighbour"
    neighbour.mkdir()
    (neighbour / "SKILL.md").write_text("neighbour", encoding="ascii")
    try:
        result = await run_script(
            f"""
            answer([attempt(os.listdir, "{neighbour}"), attempt(read, "{neighbour}/SKILL.md"),
                    attempt(os.listdir, os.path.dirname("{neighbour}")), os.path.exists(os.path.dirname(HERE) + "/extra.txt")])
            """,
            policy=policy,
            files={"extra.txt": "x"},
        )
    finally:
        (neighbour / "SKILL.md").unlink()
        neighbour.rmdir()
    assert result.status == "ok", result.stderr
    assert result.value[2] != "done" or str(neighbour.parent) == "/tmp"  # a run has its own, empty /tmp
    assert "done" not in result.value[:2]
    assert result.value[3] is (policy.filesystem != "none")


@pytest.mark.row("C-17")
async def test_a_workspace_can_be_written_only_when_asked_for_and_is_new_each_time(run_script) -> None:
    script = """
    before = os.listdir(".")
    answer({"before": before, "here": attempt(write, "made.txt"), "tmp": attempt(write, os.environ["TMPDIR"] + "/t")})
    """
    for _ in range(2):
        result = await run_script(script, policy=Policy(filesystem="read-write"))
        assert result.value == {"before": [], "here": "done", "tmp": "done"}, result.stderr
    result = await run_script(script)
    assert result.value["here"] in ("EROFS", "EACCES")
    assert result.value["tmp"] == "done"


@pytest.mark.abuse("A17")
async def test_two_runs_share_nothing(run_script) -> None:
    script = """
    import fcntl
    shared = [os.environ["TMPDIR"] + "/mailbox", "/tmp/mailbox", "/dev/shm/mailbox", "/var/tmp/mailbox"]
    found = [path for path in shared if os.path.exists(path)]
    answer({"found": found, "left": [attempt(write, path) for path in shared],
            "objects": [system_call(CALLS["shmget"], 4711, 4096, 0o1666), system_call(CALLS["msgget"], 4711, 0o1666)]})
    """
    first, second = await run_script(script), await run_script(script)
    assert first.status == second.status == "ok", first.stderr
    assert first.value["found"] == second.value["found"] == []


@pytest.mark.abuse("A14")
async def test_filling_the_temporary_folder_stops_at_its_size(run_script) -> None:
    result = await run_script(
        """
        block = b"x" * 1048576
        for number in range(200):
            with open(os.environ["TMPDIR"] + f"/{number}", "wb") as file:
                for _ in range(4):
                    file.write(block)
            time.sleep(0.002)
        """,
        policy=Policy(timeout_ms=10_000, tmp_mb=16, memory_mb=128),
    )
    assert result.status == ("output_limit" if result.isolation == "landlock" else "error"), result
    assert result.isolation != "bwrap" or b"No space left" in result.stderr


@pytest.mark.abuse("A15")
async def test_a_file_cannot_grow_over_its_limit(run_script) -> None:
    result = await run_script(
        """
        path = os.environ["TMPDIR"] + "/big"
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        answer([attempt(os.truncate, path, 1 << 40), attempt(os.posix_fallocate, file, 0, 1 << 31),
                attempt(os.pwrite, file, b"x", 1 << 40)])
        """
    )
    assert result.status == "ok", result.stderr
    assert result.value == ["EFBIG", "EFBIG", "EFBIG"]


@pytest.mark.abuse("A19")
async def test_what_a_run_sees_of_itself_names_no_value_and_no_host_path(run_script) -> None:
    result = await run_script(
        """
        seen = {}
        for path in ("/proc/1/cmdline", "/proc/self/cmdline", "/proc/1/environ", "/proc/self/mountinfo", "/proc/mounts"):
            try:
                seen[path] = read(path)
            except OSError:
                pass
        answer(seen)
        """,
        policy=Policy(environment={"GREETING": "value-of-greeting"}),
    )
    assert result.status == "ok", result.stderr
    assert "value-of-greeting" not in str(result.value)
    assert str(Path.cwd()) not in str(result.value)


@pytest.mark.parametrize(
    "entry", ["../main.py", "/etc/passwd", "~/x.py", "a\0b.py", "a\nb.py", "", ".", "scripts/../../x.py", "scripts\\main.py"]
)
@pytest.mark.row("003-11", "D-13")
@pytest.mark.abuse("A9")
async def test_an_entry_that_is_not_a_path_inside_the_skill_is_refused(
    backend: SandboxBackend, skill_tree: Path, entry: str
) -> None:
    with pytest.raises(PathRefused):
        await backend.run(Job(str(skill_tree), entry))


@pytest.mark.row("D-12")
@pytest.mark.parametrize(
    "name", ["-rf.py", "a b;id.py", "$(id).py", "summary.py", "encode.py", "add_slide.py", "`id`.sh", "-c.sh"]
)
@pytest.mark.abuse("A9")
async def test_odd_names_are_only_names(backend: SandboxBackend, skill_tree: Path, name: str) -> None:
    text = "import sys; print(sys.argv[1:])" if name.endswith(".py") else 'printf "%s," "$@"'
    (skill_tree / name).write_text(text, encoding="utf-8")
    result = await backend.run(Job(str(skill_tree), name, arguments=("; id", "$(id)", "-rf", "--", "a\nb")))
    assert result.status == "ok", result.stderr
    assert b"; id" in result.stdout
    assert b"uid=" not in result.stdout


@pytest.mark.abuse("A4")
async def test_an_entry_that_is_a_link_is_refused_and_other_links_are_left_out(
    backend: SandboxBackend, skill_tree: Path
) -> None:
    (skill_tree / "main.py").write_text("import os; print(sorted(os.listdir('/skill' if os.path.isdir('/skill') else '.')))")
    (skill_tree / "passwords").symlink_to("/etc/shadow")
    (skill_tree / "up").symlink_to("..")
    (skill_tree / "entry.py").symlink_to("main.py")
    os.mkfifo(skill_tree / "pipe")
    result = await backend.run(Job(str(skill_tree), "main.py"))
    assert result.stdout.strip() == b"['main.py']"
    assert len(result.warnings) == 4
    with pytest.raises(PathRefused):
        await backend.run(Job(str(skill_tree), "entry.py"))
    with pytest.raises(FileMissing):
        await backend.run(Job(str(skill_tree), "nothing.py"))


@pytest.mark.abuse("A13")
async def test_a_link_to_the_mount_points_of_the_sandbox_creates_nothing_on_the_host(run_script, skill_tree: Path) -> None:
    target = skill_tree.parent / f"{skill_tree.name}-planted"
    (skill_tree / "workspace").symlink_to(f"/oldroot{target}")
    (skill_tree / "tmp").symlink_to(f"/oldroot{target}")
    result = await run_script("answer(1)", policy=Policy(filesystem="read-write"))
    assert result.status == "ok", result.stderr
    assert not target.exists()


async def test_nothing_of_a_run_stays_on_the_disk(run_script, folders_of_runs):
    result = await run_script("write(os.environ['TMPDIR'] + '/x')\nos.mkdir(os.environ['TMPDIR'] + '/d', 0o000)")
    assert result.status == "ok", result.stderr
    assert await folders_of_runs() == []
