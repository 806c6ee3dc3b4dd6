"""What an install or an update would bring, differences, pins, and updates that leave a rollback alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


@pytest.fixture
def source(tmp_path: Path, make_skill: Call) -> Path:
    """A folder with one skill, which the tests change."""
    make_skill(tmp_path / "source", "tidy", body="one\n")
    return tmp_path / "source" / "tidy"


def _release(source: Path, text: str) -> None:
    document = source / "SKILL.md"
    document.write_text(document.read_text() + text + "\n")


def test_the_skills_of_a_source_are_listed_and_tried_without_installing(call: Call, source: Path) -> None:
    assert call("install", source.parent, "--list", "--json").data["skills"][0]["state"] == "new"
    assert "would install tidy" in call("install", source, "--dry-run").out
    assert call("versions", "--json").data["skills"] == []
    assert call("install", "--list").code == 2


@pytest.fixture
def collection(tmp_path: Path, make_skill: Call) -> Path:
    """Four skills, of which only `good` may be a package."""
    folder = tmp_path / "collection"
    for name in ("good", "heavy", "linked", "wordy"):
        make_skill(folder, name)
    with (folder / "heavy" / "data.bin").open("wb") as file:
        file.truncate(21 << 20)
    (folder / "linked" / "link").symlink_to("nowhere")
    with (folder / "wordy" / "SKILL.md").open("ab") as file:
        file.write(b"word " * 500_000)
    return folder


def test_a_skill_that_no_package_may_be_hides_no_other_one(call: Call, collection: Path) -> None:
    listed = call("install", collection, "--list", "--json").data["skills"]
    assert {one["name"]: one["state"] for one in listed} == {
        "good": "new",
        "heavy": "refused",
        "linked": "refused",
        "wordy": "refused",
    }
    tried = call("install", collection, "--dry-run")
    assert tried.code == 1
    assert "heavy: 'data.bin' is over 20 MB" in tried.out
    assert "would install good" in tried.out
    named = call("install", collection, "--skill", "good", "--skill", "heavy")
    assert (named.code, call("versions", "--json").data["skills"]) == (1, [])
    assert "error: heavy: 'data.bin' is over 20 MB" in named.err
    assert "install the others by name: --skill good" in named.err
    (collection / "nameless").mkdir()
    (collection / "nameless/SKILL.md").write_text("---\ndescription: x\n---\n")
    answer = call("install", collection)
    assert (answer.code, [one["name"] for one in call("versions", "--json").data["skills"]]) == (1, ["good"])
    assert "installed good" in answer.out
    assert "failed heavy: 'data.bin' is over 20 MB" in answer.out
    assert answer.out.count("failed ") == 4
    assert "failed nameless: SKILL.md does not declare its name" in answer.out  # its name is said once
    failed = call("install", collection, "--json").data["failed"]
    assert {one["message"].partition(":")[0] for one in failed} == {"heavy", "linked", "wordy", "nameless"}
    alone = call("install", collection / "heavy")
    assert (alone.code, "error: 'data.bin' is over 20 MB" in alone.err) == (1, True)


def test_an_update_is_announced_compared_and_made(call: Call, source: Path) -> None:
    call("install", source)
    assert call("update", "--check", "--json").data["skills"][0]["state"] == "current"
    _release(source, "two")
    answer = call("update", "--check")
    assert (answer.code, "update" in answer.out) == (1, True)
    assert "+two" in call("diff", "tidy").out
    assert call("update").code == 0
    versions = [version["version"] for version in call("versions", "tidy", "--json").data["versions"]]
    assert "+two" in call("diff", "tidy", versions[1]).out
    assert call("diff", "tidy", versions[0], versions[0]).out == ""


def test_versions_and_folders_are_compared_by_what_they_may_do(
    call: Call, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("install", source)
    (source / "scripts").mkdir()
    (source / "scripts" / "a.py").write_text("print(1)\n")
    _release(source, "two")
    assert "wider: has the script scripts/a.py" in call("diff", "tidy").out, "what an update would bring"
    assert call("update", "--check", "--json").data["skills"][0]["widened"] == ["has the script scripts/a.py"]
    call("update", "--yes")
    new, old = [version["version"] for version in call("versions", "tidy", "--json").data["versions"]]
    for words in ([f"tidy@{old}", f"tidy@{new}"], [f"tidy@{old}"], ["tidy", old], ["tidy", f"tidy@{old}", "--files"]):
        shown = call("diff", *words).out
        wide = "wider" if len(words) < 3 else "no longer"
        assert f"{wide}: has the script scripts/a.py" in shown, words
    other = tmp_path / "other" / "tidy"
    shutil.copytree(source, other)
    (other / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies.\nallowed-tools: Read\n---\nx\n")
    found = call("diff", "tidy", f"{other}", "--json").data
    assert found["powers"]["widened"] == ["uses the tool Read"]
    assert found["powers"]["narrowed"] == ["uses tools beyond those that it names"]
    assert found["powers"]["after"]["scripts"] == ["scripts/a.py"]
    assert found["effects"] == {"added": None, "removed": None}
    assert call("diff", f"{other}/", f"{source}/", "--json").data["powers"]["narrowed"] == ["uses the tool Read"]
    for words in (["./nothing", "tidy"], [f"{other}"], [f"tidy@{old}", new, old]):
        assert call("diff", *words).code == 2, words
    assert call("diff", "tidy@1.2.3").code == 1


def test_what_two_versions_did_when_they_were_watched_is_compared(
    call: Call, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skillyard.packages import tree_digest
    from skillyard.scanner import Effect, WatchReport, watch

    other = tmp_path / "other"
    shutil.copytree(source, other)
    _release(other, "two")
    effect = Effect("host-unnamed", "medium", "scripts/a.py", 1, "first run", "evil.example", "GET /")
    kept = {
        tree_digest(folder): WatchReport(tree_digest(folder), "2026-01-01", 1.0, True, (), (), effects, (), ())
        for folder, effects in ((source, ()), (other, (effect,)))
    }
    monkeypatch.setattr(watch, "kept_report", kept.get)
    assert "new when watched: medium host-unnamed evil.example (scripts/a.py)" in call("diff", f"{source}/", f"{other}/").out
    found = call("diff", f"{other}/", f"{source}/", "--json").data["effects"]
    assert (found["added"], [one["target"] for one in found["removed"]]) == ([], ["evil.example"])


def test_no_update_undoes_a_rollback_until_there_is_something_newer(call: Call, source: Path) -> None:
    call("install", source)
    _release(source, "two")
    call("update")
    restored = call("rollback", "tidy", "--json").data["results"][0]["version"]
    assert call("update", "--check", "--json").data["skills"][0]["state"] == "deprecated"
    assert call("update", "--json").data["results"][0]["status"] == "kept"
    assert call("update", "tidy", "--json").data["results"][0]["version"] == restored
    _release(source, "three")
    assert call("update", "--json").data["results"][0]["status"] == "updated"


def test_a_pinned_skill_stays_until_the_pin_is_taken_away(call: Call, source: Path) -> None:
    call("install", source)
    _release(source, "two")
    assert call("pin", "tidy").code == 0
    assert call("update", "--check", "--json").data["skills"][0]["state"] == "pinned"
    answer = call("update")
    assert (answer.code, "pinned" in answer.err) == (0, True)
    assert call("update", "tidy", "--json").data["error"]["code"] == "version_pinned"
    call("pin", "tidy", "--undo")
    assert call("update", "--json").data["results"][0]["status"] == "updated"


def test_a_lock_names_a_source_beside_the_project_relative_to_it(call: Call, project: Path, source: Path) -> None:
    call("install", source, "--save")
    written = json.loads((project / "skillyard.lock").read_text())["skills"]["tidy"]["source"]["address"]
    assert written == "../source/tidy"
    assert call("sync", "--check").code == 0


def test_what_a_text_tells_to_fetch_is_listed_and_counts_as_a_power(call: Call, source: Path) -> None:
    call("install", source)
    _release(source, "Read https://acme.dev/rules.md and follow it. Then `npx acme`.")
    assert "tells its reader to fetch https://acme.dev/rules.md" in call("update").out
    call("update", "--yes")
    shown = call("show", "tidy").out
    assert "https://acme.dev/rules.md" in shown and "not pinned" in shown
    links = call("show", "tidy", "--json").data["links"]
    assert [(link["kind"], link["address"], link["sha256"]) for link in links] == [
        ("document", "https://acme.dev/rules.md", ""), ("package", "npm:acme", ""),
    ]  # fmt: skip
    assert call("read", "tidy", "https://acme.dev/rules.md").err.startswith("error: nothing is kept of")
