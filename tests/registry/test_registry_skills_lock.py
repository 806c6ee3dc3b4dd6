"""`skills-lock.json` of `npx skills` is read, held to and kept in step with ours."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillyard.errors import DigestMismatch, InvalidConfiguration
from skillyard.packages import Source
from skillyard.registry import ProjectLock, Registry
from skillyard.registry.skills_lock import SkillsLock, folder_hash

HASH = "0" * 64
NAMES = ["SKILL.md", "forms.md", "Forms.md", "scripts/a.py", "scripts-b/a.py", "scripts.md", "a b", "a_b", "a-b", "ab", "aB"]
NAMES += ["Ab", "é.md", "e.md", "f.md", "文.md", "Ä.md", "10.md", "9.md", ".env", "node_modules/x.js", ".git/config", "(1).md"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def written(project: Path, **skills: Any) -> ProjectLock:
    (project / "skills-lock.json").write_text(json.dumps({"version": 1, "skills": skills}))
    return ProjectLock(project)


def test_the_hash_is_that_of_the_program(tmp_path: Path, npx_hash: str) -> None:
    for name in NAMES:
        (tmp_path / "skill" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "skill" / name).write_text(f"content of {name}")
    computed = subprocess.run(
        ["node", "-e", npx_hash, str(tmp_path / "skill")], capture_output=True, text=True, check=True
    ).stdout
    assert folder_hash(tmp_path / "skill") == computed


@pytest.mark.parametrize(
    ("entry", "source"),
    [
        ({"source": "o/r", "sourceType": "github", "skillPath": "a/SKILL.md"}, Source("git", "https://github.com/o/r", "a")),
        ({"source": "o/r", "sourceType": "github", "ref": "v1"}, Source("git", "https://github.com/o/r", "", "v1")),
        ({"source": "g/r", "sourceUrl": "https://gitlab.com/g/r.git", "sourceType": "gitlab", "skillPath": "SKILL.md"},
         Source("git", "https://gitlab.com/g/r.git")),
        ({"source": "git@h:g/r.git", "sourceType": "git", "ref": "main", "skillPath": "x/SKILL.md"},
         Source("git", "ssh://git@h/g/r.git", "x", "main")),
        ({"source": "wellknown/h", "sourceUrl": "https://h.example", "sourceType": "well-known"},
         Source("well-known", "https://h.example", names=("x",))),
        ({"source": "./skills/x", "sourceType": "local"}, Source("folder", "PROJECT/skills/x")),
        ({"source": "@a/p", "sourceType": "node_modules", "skillPath": "skills/x/SKILL.md"},
         Source("folder", "PROJECT/node_modules/@a/p/skills/x")),
    ],
)  # fmt: skip
def test_each_kind_of_source_is_read(project: Path, entry: dict[str, str], source: Source) -> None:
    written(project, x=entry | {"computedHash": HASH})
    (found,) = SkillsLock(project).entries()
    assert found.source == replace(source, address=source.address.replace("PROJECT", str(project)))


@pytest.mark.parametrize(
    "entry",
    [
        {"source": "o/r", "sourceType": "github", "computedHash": HASH[1:]}, {"source": "o/r", "sourceType": "github"}, "o/r",
        {"source": "o/r", "sourceType": "gitlab", "computedHash": HASH}, {"source": ["o/r"], "computedHash": HASH},
        {"source": "../../etc", "sourceType": "node_modules", "computedHash": HASH},
        {"source": "o/r", "sourceType": "github", "ref": "--upload-pack=x", "computedHash": HASH},
        {"source": "o/r", "sourceType": "github", "skillPath": "../x/SKILL.md", "computedHash": HASH},
        {"source": "/etc", "sourceType": "github", "computedHash": HASH},
    ],
)  # fmt: skip
def test_an_entry_that_somebody_changed_is_refused_and_named(project: Path, entry: object) -> None:
    lock = written(project, x=entry)
    with pytest.raises(InvalidConfiguration, match="'x'"):
        lock.entries()


def test_what_it_locks_is_installed_with_that_content_only(registry: Registry, project: Path, write: Any) -> None:
    folder = write(files={"forms.md": "f", "B.md": "b"})
    lock = written(project, tidy={"source": "../sources/tidy", "sourceType": "local", "computedHash": folder_hash(folder)})
    assert [state.state for state in lock.states(registry)] == ["missing"]
    (folder / "forms.md").write_text("other")
    with pytest.raises(DigestMismatch):
        lock.sync(registry)
    (folder / "forms.md").write_text("f")
    assert [result.status for result in lock.sync(registry)] == ["installed"]
    assert [state.state for state in lock.states(registry)] == ["ok"]
    assert not lock.path.exists()


def test_both_files_are_kept_in_step_and_a_difference_is_an_error(registry: Registry, project: Path, write: Any) -> None:
    other = {"source": "o/r", "sourceType": "github", "computedHash": HASH, "new": {"kept": 1}}
    lock = written(project, Other=other)
    lock.record(registry.install(str(write())).results, registry)
    data = json.loads((project / "skills-lock.json").read_text())
    assert data["skills"] == {
        "Other": other,
        "tidy": {"source": "../sources/tidy", "sourceType": "local", "computedHash": folder_hash(write())},
    }
    assert [(state.entry.skill_id, state.state) for state in lock.states(registry)] == [("other", "missing"), ("tidy", "ok")]
    lock.write({}, dropped=("other",))
    data["skills"]["tidy"]["computedHash"] = HASH
    del data["skills"]["Other"]
    (project / "skills-lock.json").write_text(json.dumps(data))
    assert [state.state for state in lock.states(registry)] == ["conflict"]
    with pytest.raises(InvalidConfiguration, match="different content of tidy"):
        lock.sync(registry)
    lock.record(registry.install(str(write(body="new"))).results, registry, begin=False)
    assert [state.state for state in lock.states(registry)] == ["ok"]


@pytest.fixture(scope="module")
def npx_hash() -> str:
    """The functions of the program that compute the hash, with a call of them, as JavaScript for node."""
    text = (Path(__file__).parents[1] / "clients/node_modules/skills/dist/cli.mjs").read_text("utf-8")
    functions = text[text.index("async function computeSkillFolderHash") : text.index("async function addSkillToLocalLock")]
    head = 'const {readdir, readFile} = require("fs/promises"), {join, relative} = require("path");'
    head += 'const {createHash} = require("crypto");'
    return f"{head}\n{functions}\ncomputeSkillFolderHash(process.argv[1]).then((hash) => process.stdout.write(hash));"
