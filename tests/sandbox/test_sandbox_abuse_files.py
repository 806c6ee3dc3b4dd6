"""More attacks on files: private folders, a skill that changes while it starts, and two runs that want to meet."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from skillyard.errors import FileMissing, PathRefused
from skillyard.sandbox import Job, Policy, SandboxBackend


def digest(folder: Path) -> str:
    """The names, modes and bytes of everything below a folder."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found.update(f"{path.relative_to(folder)} {path.lstat().st_mode:o}\n".encode())
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()


@pytest.fixture
def open_home(skill_tree: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder that is careless: anyone may read the keys in it."""
    folder = skill_tree / "home"
    for name in (".ssh/id_rsa", ".aws/credentials", ".config/skillyard/skillyard.toml", ".netrc"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("canary-of-the-home", encoding="ascii")
        (folder / name).chmod(0o666)
    for path in (skill_tree, folder, *folder.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.mark.abuse("A1", "A3", "B21")
async def test_keys_in_the_home_of_the_user_are_out_of_reach(
    backend: SandboxBackend, run_script, open_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("canary-of-the-home", encoding="ascii")
    targets = [str(path) for path in open_home.rglob("*") if path.is_file()] + [str(tmp_path / "notes.txt")]
    before = digest(open_home)
    result = await run_script(
        """
        found = {}
        for number, path in enumerate(json.load(sys.stdin)):
            link = os.environ["TMPDIR"] + f"/link{number}"
            os.symlink(path, link)
            found[path] = [attempt(read, path), attempt(write, path), attempt(read, link), attempt(write, link),
                           attempt(os.listdir, os.path.dirname(path)), attempt(os.unlink, path)]
        found["~"] = [attempt(read, os.path.expanduser("~/.ssh/id_rsa"))]
        answer(found)
        """,
        stdin=json.dumps(targets).encode(),
        policy=Policy(filesystem="none"),
    )
    assert result.status == "ok", result.stderr
    assert {code for codes in result.value.values() for code in codes} <= {"ENOENT", "EACCES", "EROFS", "EPERM"}
    assert digest(open_home) == before
    assert "canary-of-the-home" not in str(result)


@pytest.mark.abuse("A12")
async def test_no_folder_is_left_open_to_climb_out_of(run_script) -> None:
    result = await run_script(
        """
        climbed = []
        for number in range(256):
            try:
                os.fchdir(number)
            except OSError:
                continue
            climbed.append(number)
        os.chdir(os.environ["TMPDIR"])
        handle = os.open(".", os.O_RDONLY)
        os.chdir("/")
        os.fchdir(handle)
        os.chdir("../../../../../../..")
        answer([climbed, attempt(read, "etc/shadow"), attempt(os.listdir, "root")])
        """
    )
    assert result.status == "ok", result.stderr
    climbed, shadow, home = result.value
    assert climbed == []
    assert {shadow, home} <= {"ENOENT", "EACCES"}


@pytest.mark.abuse("A14")
@pytest.mark.parametrize("place", ["TMPDIR", "/dev/shm", "/workspace"])
async def test_every_place_that_can_be_written_is_full_at_its_size(run_script, place: str) -> None:
    result = await run_script(
        f"""
        place = os.environ["TMPDIR"] if "{place}" == "TMPDIR" else "." if "{place}" == "/workspace" else "{place}"
        written = 0
        try:
            for number in range(64):
                with open(f"{{place}}/{{number}}", "wb", buffering=0) as file:
                    file.write(b"x" * 1048576)
                written += 1
                time.sleep(0.005)
        except OSError as error:
            answer([written, errno.errorcode[error.errno]])
        """,
        policy=Policy(timeout_ms=10_000, tmp_mb=16, filesystem="read-write"),
    )
    if result.status == "ok":
        written, code = result.value
        assert written <= 16
        assert code in ("ENOSPC", "EACCES", "ENOENT")
    else:
        assert result.status == "output_limit", result


@pytest.fixture
def outside(skill_tree: Path) -> Iterator[Path]:
    """A folder beside the skill with a script of the same name."""
    folder = skill_tree.parent / f"{skill_tree.name}-outside"
    folder.mkdir()
    (folder / "main.py").write_text("print('outside')\n", encoding="ascii")
    yield folder
    (folder / "main.py").unlink()
    folder.rmdir()


@pytest.mark.abuse("A6")
async def test_a_folder_that_is_swapped_while_runs_start_never_runs_from_elsewhere(
    backend: SandboxBackend, skill_tree: Path, outside: Path
) -> None:
    scripts, aside, stop = skill_tree / "scripts", skill_tree / "aside", threading.Event()
    scripts.mkdir()
    (scripts / "main.py").write_text("print('inside')\n", encoding="ascii")

    def swap() -> None:
        while not stop.is_set():
            os.rename(scripts, aside)
            os.symlink(outside, scripts)
            os.unlink(scripts)
            os.rename(aside, scripts)

    thread = threading.Thread(target=swap)
    thread.start()
    seen = set()
    try:
        for _ in range(200):
            try:
                seen.add((await backend.run(Job(str(skill_tree), "scripts/main.py"))).stdout)
            except (PathRefused, FileMissing):
                seen.add(b"refused")
            if len(seen) == 2:  # both ends were met; staging is attacked two hundred times by a test of its own
                break
    finally:
        stop.set()
        thread.join()
    assert seen <= {b"inside\n", b"refused"}


@pytest.mark.abuse("A17")
async def test_two_runs_at_the_same_time_cannot_meet(backend: SandboxBackend, run_script) -> None:
    script = """
    import fcntl
    name = json.load(sys.stdin)
    places = [os.environ["TMPDIR"], "/tmp", "/var/tmp", "/dev/shm", "/run/lock", "."]
    for place in places:
        attempt(write, f"{place}/meet-{name}")
    bound = [attempt(lambda: socket.socket(socket.AF_UNIX).bind("\\0meet"))]
    own = open(__file__)
    locked = attempt(fcntl.flock, own.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    found, end = set(), time.monotonic() + 0.4
    while time.monotonic() < end:
        for place in places:
            try:
                found.update(item for item in os.listdir(place) if item.startswith("meet-") and item != f"meet-{name}")
            except OSError:
                pass
        time.sleep(0.02)
    answer([sorted(found), bound, locked])
    """
    policy = Policy(filesystem="read-write")
    first, second = await asyncio.gather(
        run_script(script, policy=policy, stdin=b'"one"'), run_script(script, policy=policy, stdin=b'"two"')
    )
    assert first.status == second.status == "ok", first.stderr + second.stderr
    assert first.value == second.value == [[], ["EAFNOSUPPORT"], "done"]


@pytest.mark.abuse("A18")
async def test_mode_times_owner_and_attributes_of_files_outside_stay(
    backend: SandboxBackend, run_script, open_home: Path
) -> None:
    target = open_home / ".netrc"
    before = target.stat()
    result = await run_script(
        f"""
        target, own = {str(target)!r}, os.environ["TMPDIR"] + "/own"
        write(own)
        def changes(path):
            return [attempt(os.chmod, path, 0o600), attempt(os.utime, path, (1, 1)), attempt(os.setxattr, path, "user.x", b"y"),
                    attempt(os.chown, path, os.getuid(), os.getgid())]
        answer([changes(target), changes(own)])
        """
    )
    assert result.status == "ok", result.stderr
    others, own = result.value
    after = target.stat()
    assert set(others) <= {"EPERM", "ENOENT", "EACCES", "EROFS"}
    assert (after.st_mode, after.st_mtime_ns, after.st_uid) == (before.st_mode, before.st_mtime_ns, before.st_uid)
    if backend.name == "landlock":  # Landlock does not rule on these, so no file at all can be changed in this way
        assert set(own) == {"EPERM"}


@pytest.mark.abuse("A5", "B21")
async def test_the_next_run_finds_everything_as_the_first_did(run_script, skill_tree: Path) -> None:
    script = """
    root = os.path.dirname(HERE)
    wishes = ["SKILL.md", "skillyard.toml", ".skillyard/approvals.json", ".git/hooks/post-checkout", ".claude/settings.json",
              "scripts/__pycache__/helper.pyc", "scripts/sitecustomize.py", "scripts/main.py"]
    seen = {name: attempt(read, f"{root}/{name}") for name in wishes}
    changed = [attempt(write, f"{root}/{name}", "network: allowlist") for name in wishes]
    changed += [attempt(os.makedirs, f"{root}/.skillyard"), attempt(os.symlink, "/", f"{root}/scripts/way")]
    changed += [attempt(write, os.path.expanduser("~/.bashrc"), "id"), attempt(write, os.environ["TMPDIR"] + "/kept")]
    import helper
    answer([seen, changed, sorted(os.listdir(root)), os.listdir(os.environ["TMPDIR"]), dict(os.environ)])
    """
    files = {"SKILL.md": "---\nsecurity: {network: none}\n---\n", "scripts/helper.py": "VALUE = 1\n", "skillyard.toml": ""}
    first = await run_script(script, files=files)
    assert first.status == "ok", first.stderr
    before = digest(skill_tree)
    second = await run_script(script, files=files)
    assert digest(skill_tree) == before
    own_folder = first.value[4].pop("TMPDIR"), second.value[4].pop("TMPDIR")
    for value in (first.value, second.value):
        value[4].pop("HOME")
        assert "done" not in value[1][:-2]
    assert own_folder
    assert first.value == second.value
