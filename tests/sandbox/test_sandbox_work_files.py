"""Files that a run works on: it gets a copy, begins in it, and what it changes comes back as regular files only."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillyard.errors import FileMissing, FileTooLarge, InvalidPolicy, PathRefused
from skillyard.sandbox import Job, Policy, SandboxBackend, SandboxResult, effective_policy, lowered_ceiling

Work = Any
WRITES = Policy(timeout_ms=10_000, filesystem="read-write", tmp_mb=8)


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    folder = tmp_path / "desk"
    (folder / "in").mkdir(parents=True)
    (folder / "form.txt").write_text("name:\n")
    (folder / "in/same.txt").write_text("same")
    return folder


@pytest.fixture
def work(backend: SandboxBackend, skill_tree: Path, desk: Path) -> Work:
    async def run(source: str, policy: Policy = WRITES, *arguments: str, folder: Path = desk) -> SandboxResult:
        (skill_tree / "scripts").mkdir(exist_ok=True)
        (skill_tree / "scripts/main.py").write_text(source)
        return await backend.run(Job(str(skill_tree), "scripts/main.py", b"{}", policy, arguments, workspace=str(folder)))

    return run


@pytest.mark.row("003-11", "C-17")
async def test_a_script_begins_among_the_files_and_its_changes_come_back(work: Work, desk: Path) -> None:
    result = await work(
        "import os, sys, pathlib\n"
        "form = pathlib.Path(sys.argv[1])\n"
        "form.write_text(form.read_text() + 'Ada')\n"
        "os.makedirs('out/deep')\n"
        "pathlib.Path('out/deep/new.bin').write_bytes(bytes(range(256)))\n"
        "os.unlink('in/same.txt')\n",
        WRITES,
        "form.txt",
    )
    assert result.status == "ok", result.stderr
    assert result.files == ("form.txt", "out/deep/new.bin")
    assert (desk / "form.txt").read_text() == "name:\nAda"
    assert (desk / "out/deep/new.bin").read_bytes() == bytes(range(256))
    assert (desk / "in/same.txt").read_text() == "same", "nothing of the user's is ever deleted"
    assert sorted(path.name for path in desk.iterdir()) == ["form.txt", "in", "out"]


async def test_a_policy_that_only_reads_shows_the_files_and_changes_none(work: Work, desk: Path) -> None:
    source = "try:\n    open('form.txt', 'a').write('x')\nexcept OSError:\n    print(open('form.txt').read())\n"
    result = await work(source, Policy(timeout_ms=10_000))
    assert result.stdout.strip() == b"name:"
    assert result.files == ()
    assert (desk / "form.txt").read_text() == "name:\n"


@pytest.mark.parametrize(
    "trick",
    [
        "os.symlink('/etc/passwd', 'leak.txt')",
        "os.unlink('form.txt'); os.symlink('/etc/passwd', 'form.txt')",
        "os.mkfifo('pipe')",
        "os.link('form.txt', 'second.txt')",
        "os.symlink('/etc', 'folder')",
        "os.mkdir('locked'); open('locked/x', 'w').close(); os.chmod('locked', 0)",
    ],
)
async def test_what_is_no_plain_file_stays_behind(work: Work, desk: Path, trick: str) -> None:
    result = await work(f"import os\n{trick}\n")
    refused = "mkfifo" in trick or (result.isolation == "landlock" and "chmod" in trick)  # in the sandbox already
    assert result.status == ("error" if refused else "ok"), result
    found = [path for path in desk.rglob("*") if path.is_symlink() or path.is_fifo()]
    assert found == []
    assert "root:" not in "".join(path.read_text() for path in desk.rglob("*") if path.is_file())
    assert (desk / "form.txt").read_text() == "name:\n"


async def test_a_link_in_the_folder_is_not_followed_in_either_direction(work: Work, desk: Path, tmp_path: Path) -> None:
    secret, outside = tmp_path / "secret.txt", tmp_path / "outside"
    secret.write_text("secret")
    outside.mkdir()
    (desk / "link.txt").symlink_to(secret)
    (desk / "out").symlink_to(outside)
    result = await work(
        "import os\nprint(sorted(os.listdir('.')))\nos.mkdir('out')\n"
        "open('out/x', 'w').write('x')\nopen('link.txt', 'w').write('y')\n"
    )
    assert result.status == "ok", result.stderr
    assert b"link" not in result.stdout
    assert secret.read_text() == "secret"
    assert list(outside.iterdir()) == []
    assert any("out/x" in warning for warning in result.warnings)


async def test_a_run_that_writes_more_than_it_may_is_ended_and_gives_nothing_back(work: Work, desk: Path) -> None:
    source = "for n in range(40):\n    open(f'big{n}', 'wb').write(os.urandom(1 << 20))\nimport time; time.sleep(5)\n"
    result = await work("import os\n" + source)
    assert result.status == "output_limit"
    assert sorted(path.name for path in desk.iterdir()) == ["form.txt", "in"]


async def test_what_was_given_does_not_count_against_what_may_be_written(work: Work, desk: Path) -> None:
    (desk / "large.bin").write_bytes(os.urandom(12 << 20))
    result = await work("import time\nopen('small', 'w').write('x')\ntime.sleep(0.2)\n")
    assert result.status == "ok", result.detail
    assert result.files == ("small",)


async def test_too_much_to_work_on_is_refused_before_anything_starts_and_names_the_setting(
    work: Work, desk: Path, tmp_path: Path
) -> None:
    (desk / "deep/er").mkdir(parents=True)
    (desk / "deep/er/large.bin").write_bytes(b"x" * (1 << 20))
    for setting, kind, message in (
        ("work-files", FileTooLarge, "more than 1 files"),
        ("work-mb", FileTooLarge, "more than 1 MiB"),
        ("work-levels", PathRefused, "'deep/er/' is more than 1 levels"),
    ):
        with pytest.raises(kind, match=message) as caught:
            await work("print(1)", effective_policy(Policy(filesystem="read-write"), Policy.ceiling({setting: 1})))
        assert f"`{setting}`" in (caught.value.hint or "")
    roomy = effective_policy(Policy(filesystem="read-write"), Policy.ceiling({"work-levels": 20, "work-files": 5000}))
    assert (roomy.work_levels, roomy.work_files, roomy.work_mb) == (20, 5000, 200), "the operator may raise them"
    assert lowered_ceiling(roomy, {"work-files": 10}).work_files == 10
    assert lowered_ceiling(roomy, {"work-files": 9000}).work_files == 5000, "a project can only lower them"
    with pytest.raises(FileMissing):
        await work("print(1)", folder=tmp_path / "none")


@pytest.mark.abuse("A20", on="bwrap, landlock, container")
async def test_files_that_programs_act_on_by_themselves_are_held_back_and_named(work: Work, desk: Path) -> None:
    (desk / ".git").mkdir()
    (desk / ".git/config").write_text("[core]\n")
    names = [
        ".git/config", ".git/hooks/post-checkout", ".claude/settings.json", ".envrc", ".mcp.json", "sub/.vscode/tasks.json",
        "skillyard.toml", "sub/CLAUDE.md", "AGENTS.md", "safe\u202egpj.exe", "new\nline.txt", "zero\u200bwidth",
        "repo/HEAD", "sub/GIT~1/config", "opencode.json",
    ]  # fmt: skip
    source = (
        f"import os\nfor name in {names!r} + ['plain.txt']:\n    os.makedirs(os.path.dirname(name) or '.', exist_ok=True)\n"
    )
    result = await work(source + "    open(name, 'w').write('x')\n")
    assert result.status == "ok", result.stderr
    assert result.files == ("plain.txt",)
    reported = [warning for warning in result.warnings if warning.startswith("file_held_back: ")]
    assert len(reported) == len(names)
    assert all("\u202e" not in warning and "\n" not in warning for warning in reported)
    assert (desk / ".git/config").read_text() == "[core]\n"
    assert sorted(str(path.relative_to(desk)) for path in desk.rglob("*") if path.is_file()) == [
        ".git/config", "form.txt", "in/same.txt", "plain.txt",
    ]  # fmt: skip


async def test_the_operator_may_allow_hidden_files_and_a_project_may_not(work: Work, desk: Path) -> None:
    ceiling = Policy.ceiling({"hidden-files": True})
    source = "open('.envrc', 'w').write('x'); open('bad\\u202e', 'w').write('x')"
    result = await work(source, effective_policy(WRITES, ceiling))
    assert result.files == (".envrc",), "names that nobody can read stay behind even then"
    assert not effective_policy(WRITES, Policy.ceiling()).hidden_files
    assert lowered_ceiling(ceiling, {"timeout-ms": 1000}).hidden_files
    with pytest.raises(InvalidPolicy, match="hidden-files"):
        lowered_ceiling(ceiling, {"hidden-files": True})


@pytest.mark.abuse("E9", on="bwrap, landlock, container")
async def test_a_granted_secret_leaves_in_no_file_and_no_name(work: Work, desk: Path) -> None:
    secret = "correct-horse-battery"
    policy = replace(WRITES, environment={"API_KEY": secret})
    result = await work(
        "import base64, os\nkey = os.environ['API_KEY']\n"
        "open('plain.txt', 'w').write('the key is ' + key)\n"
        "open('far.bin', 'w').write('x' * ((1 << 20) - 5) + key)\n"
        "open('encoded.txt', 'wb').write(base64.b64encode(key.encode()))\n"
        "open('digits.txt', 'w').write(key.encode().hex())\n"
        "open(key + '.txt', 'w').write('x')\n"
        "open('fine.txt', 'w').write('nothing')\n",
        policy,
    )
    assert result.status == "ok", result.stderr
    assert result.files == ("fine.txt",)
    assert sum(warning.startswith("file_held_back: ") for warning in result.warnings) == 5
    assert secret not in str(result.warnings)
    assert sorted(path.name for path in desk.iterdir()) == ["fine.txt", "form.txt", "in"]
