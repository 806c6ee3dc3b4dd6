"""What is a skill on disk, what is skipped, and that nothing there can stop or hide a list."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from skillyard.catalog import SkillCatalog, summaries
from skillyard.catalog.summaries import MAX_DEPTH, MAX_DEPTH_NAMED
from skillyard.document import RULES
from skillyard.plain_json import to_plain_json


def discover(root: Path, **options: Any) -> SkillCatalog:
    return SkillCatalog.discover(roots=[root], cache=False, **options)


def relative(catalog: SkillCatalog) -> list[str]:
    return [os.path.relpath(skill.directory, catalog.roots[0].path) for skill in catalog.all()]


@pytest.mark.row("000-1", "000-2", "004-2")
def test_a_folder_is_a_skill_when_it_has_a_skill_md_and_hidden_folders_are_skipped(skills_root: Path, make_skill: Any) -> None:
    make_skill(skills_root, "any-name", files={"scripts/run.py": "", "references/a.md": "", "tests/t.py": ""})
    make_skill(skills_root, ".hidden")
    (skills_root / "no-skill" / "scripts").mkdir(parents=True)
    (skills_root / "loose.md").write_text("---\nname: x\ndescription: y\n---\n")
    catalog = discover(skills_root)
    assert [(skill.id, skill.status) for skill in catalog.all()] == [("config:any-name", "ok")]


def test_hidden_folders_in_which_agents_and_collections_keep_skills_are_searched(skills_root: Path, make_skill: Any) -> None:
    for place in (".claude/skills", "app/.agents/skills", ".curated", ".claude/worktrees/one", ".other/skills", ".agents"):
        make_skill(skills_root / place, f"in-{place.strip('.').replace('/', '-').replace('.', '')}")
    (skills_root / ".claude/skills/linked").mkdir()
    (skills_root / ".claude/skills/linked/SKILL.md").symlink_to(skills_root / ".curated/in-curated/SKILL.md")
    assert relative(discover(skills_root)) == [
        ".claude/skills/in-claude-skills", ".curated/in-curated", "app/.agents/skills/in-app-agents-skills",
    ]  # fmt: skip


def test_nested_folders_are_searched_and_a_skill_ends_the_descent(skills_root: Path, make_skill: Any) -> None:
    make_skill(skills_root / "team/area", "deep")
    make_skill(skills_root / "outer", "sub", files={"x/SKILL.md": "---\nname: inner\ndescription: d\n---\n"})
    make_skill(skills_root, "outer")
    assert relative(discover(skills_root)) == ["outer", "team/area/deep"]


@pytest.mark.parametrize(("named", "depth"), [(True, MAX_DEPTH_NAMED), (False, MAX_DEPTH)])
def test_the_search_ends_at_the_stated_depth(named: bool, depth: int, home: Path, make_skill: Any, tmp_path: Path) -> None:
    root = tmp_path / "deep" if named else home / ".claude/skills"
    make_skill(root.joinpath(*["d"] * (depth - 1)), "just-in-reach")
    make_skill(root.joinpath(*["e"] * depth), "too-deep")
    catalog = discover(root) if named else SkillCatalog.discover(cwd=tmp_path)
    assert [skill.name for skill in catalog.all()] == ["just-in-reach"]


@pytest.mark.parametrize("folder", ["node_modules", "__pycache__", "venv", "dist"])
def test_build_folders_are_not_searched_but_may_be_skills(folder: str, skills_root: Path, make_skill: Any) -> None:
    make_skill(skills_root / folder, "vendored")
    assert relative(discover(skills_root)) == []
    make_skill(skills_root, folder, front_matter=f"name: {folder.strip('_')}\ndescription: Is one.")
    assert relative(discover(skills_root)) == [folder]


def test_a_circle_of_links_ends(skills_root: Path, make_skill: Any) -> None:
    make_skill(skills_root / "group", "one")
    (skills_root / "group/up").symlink_to(skills_root)
    (skills_root / "group/self").symlink_to(skills_root / "group")
    (skills_root / "other").symlink_to(skills_root / "group")
    (skills_root / "root").symlink_to("/")
    assert relative(discover(skills_root)) == ["group/one"]


def test_the_same_folder_through_a_link_is_listed_once_as_the_real_one(skills_root: Path, make_skill: Any) -> None:
    folder = make_skill(skills_root, "real")
    (skills_root / "alias").symlink_to(folder)
    (skills_root / "again").symlink_to("alias")
    (skill,) = discover(skills_root).all()
    assert (skill.id, skill.status, skill.directory) == ("config:real", "ok", str(folder))


def test_the_same_folder_through_two_roots_is_listed_once(tmp_path: Path, make_skill: Any) -> None:
    make_skill(tmp_path / "a", "one")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (skill,) = SkillCatalog.discover(roots=[tmp_path / "b", tmp_path / "a"]).all()
    assert (skill.id, skill.status, skill.directory) == ("config:one", "ok", str(tmp_path / "b/one"))


@pytest.mark.row("D-30")
def test_a_shadowed_or_broken_folder_through_links_is_listed_once(tmp_path: Path, make_skill: Any) -> None:
    make_skill(tmp_path / "a", "one", body="Another one.")
    real = [make_skill(tmp_path / "b", "one"), make_skill(tmp_path / "b", "torn", front_matter="name: [")]
    for root in ("c", "d"):
        (tmp_path / root).mkdir()
        for folder in real:
            (tmp_path / root / folder.name).symlink_to(folder)
    catalog = SkillCatalog.discover(roots=[tmp_path / name for name in "abcd"])
    listed = [(skill.id, skill.status) for skill in catalog.all()]
    assert listed == [("config:one", "ok"), ("config:one#2", "shadowed"), ("config:torn", "broken")]


def test_copies_and_second_names_of_a_file_are_skills_of_their_own(tmp_path: Path, make_skill: Any) -> None:
    folder = make_skill(tmp_path / "a", "one")
    for root in ("b", "c"):
        (tmp_path / root / "one").mkdir(parents=True)
        (tmp_path / root / "one/SKILL.md").hardlink_to(folder / "SKILL.md")
    catalog = SkillCatalog.discover(roots=[tmp_path / name for name in "abc"])
    assert [skill.status for skill in catalog.all()] == ["ok", "shadowed", "shadowed"]


def test_only_what_may_be_one_file_has_its_links_resolved(
    tmp_path: Path, make_skill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        make_skill(tmp_path / "a", f"skill-{number}")
        make_skill(tmp_path / "b", f"skill-{number}")
    resolved: list[str] = []
    monkeypatch.setattr("skillyard.catalog.catalog_state.real_path", lambda path: (resolved.append(path), path)[1])
    catalog = SkillCatalog.discover(roots=[tmp_path / "a", tmp_path / "b"])
    assert (len(catalog.all()), [path for path in resolved if "/skill-" in path]) == (6, [])


def _directory(path: Path) -> None:
    path.mkdir()


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _broken_link(path: Path) -> None:
    path.symlink_to("nowhere.md")


def _link_out(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _not_utf8(path: Path) -> None:
    path.write_bytes(b"---\nname: x\ndescription: \xff\xfe\n---\n")


def _nul(path: Path) -> None:
    path.write_bytes(b"---\nname: x\ndescription: a\0b\n---\n")


def _unclosed(path: Path) -> None:
    path.write_bytes(b"---\nname: x\n" + b"k: v\n" * 4000)


def _too_large_header(path: Path) -> None:
    path.write_bytes(b"---\nname: x\ndescription: y\n" + b"# comment\n" * 20_000 + b"---\n")


def _too_large(path: Path) -> None:
    """Larger than what is ever loaded, with nothing wrong in what a list reads of it."""
    path.write_bytes(b"---\nname: x\ndescription: y\n---\n" + b"word\n" * 220_000)


@pytest.mark.row("000-2", "004-2")
@pytest.mark.parametrize(
    "make", [_directory, _fifo, _broken_link, _link_out, _loop, _not_utf8, _nul, _unclosed, _too_large_header, _too_large]
)
def test_a_broken_file_never_hides_a_good_one_and_never_hangs(make: Any, skills_root: Path, make_skill: Any) -> None:
    make_skill(skills_root, "good")
    (skills_root / "bad").mkdir()
    make(skills_root / "bad/SKILL.md")
    catalog = discover(skills_root)
    bad, good = catalog.all()
    assert (good.id, good.status) == ("config:good", "ok")
    assert (bad.slug, bad.status, bad.model_invocable) in {("bad", "broken", True), ("x", "broken", True)}
    assert bad.reason
    assert any(found.severity == "error" and found.message for found in bad.diagnostics)


def test_a_file_that_may_not_be_opened_is_listed_as_broken(
    skills_root: Path, make_skill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill(skills_root, "locked")
    make_skill(skills_root, "open")
    opened = os.open

    def refuse(path: Any, *arguments: Any, **options: Any) -> int:
        if "locked" in str(path):
            raise PermissionError(13, "Permission denied")
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    locked, other = discover(skills_root).all()
    assert (locked.status, locked.reason) == ("broken", "SKILL.md cannot be read: Permission denied")
    assert other.status == "ok"


def test_a_file_that_disappears_between_finding_and_reading_is_broken(skills_root: Path, make_skill: Any) -> None:
    from skillyard.catalog.summaries import read_facts

    folder = make_skill(skills_root, "going")
    (found,) = summaries.walk(str(skills_root)).stamps
    (folder / "SKILL.md").unlink()
    facts = read_facts(str(skills_root), found, "standard")
    assert facts[1] is not None
    assert "cannot be read" in facts[1]


def test_a_skill_md_that_links_to_a_file_of_its_skill_loads(skills_root: Path, make_skill: Any) -> None:
    folder = make_skill(skills_root, "inner")
    (folder / "SKILL.md").rename(folder / "text.md")
    (folder / "SKILL.md").symlink_to("text.md")
    (skill,) = discover(skills_root).all()
    assert skill.status == "ok"
    assert skill.document().body.strip().startswith("# Steps")


def test_lower_case_skill_md_loads_with_a_warning_and_upper_case_wins(skills_root: Path, make_skill: Any) -> None:
    folder = make_skill(skills_root, "low", description="Upper.")
    (folder / "skill.md").write_text("---\nname: low\ndescription: Lower.\n---\n")
    assert discover(skills_root).get("low").description == "Upper."
    (folder / "SKILL.md").unlink()
    (skill,) = discover(skills_root).all()
    assert (skill.status, skill.description, skill.path) == ("ok", "Lower.", str(folder / "skill.md"))
    assert [found.severity for found in skill.diagnostics] == ["warning"]
    solo = SkillCatalog.discover(roots=[folder])
    assert [skill.name for skill in solo] == ["low"]


@pytest.mark.row("000-6")
def test_legacy_metadata_is_used_when_the_skill_md_has_no_front_matter(skills_root: Path, make_skill: Any) -> None:
    folder = make_skill(
        skills_root, "old", raw=b"# Just a body\n", files={"METADATA.yml": "name: old\ndescription: From YAML.\n"}
    )
    (skill,) = discover(skills_root).all()
    assert (skill.status, skill.description) == ("ok", "From YAML.")
    assert skill.diagnostics[0].rule == "legacy-metadata"
    document = skill.document()
    assert document.metadata.description == "From YAML."
    assert "# Just a body" in document.body
    (folder / "SKILL.md").write_text("---\nname: old\ndescription: Front matter wins entirely.\n---\n")
    assert discover(skills_root).get("old").description == "Front matter wins entirely."


def test_the_order_is_the_same_whatever_order_the_folders_were_made_in(tmp_path: Path, make_skill: Any) -> None:
    names = ["b", "a-b", "a", "c/z", "c/a", "B"]
    lists = []
    for index, order in enumerate((names, names[::-1])):
        for name in order:
            make_skill(tmp_path / str(index), name)
        lists.append(relative(discover(tmp_path / str(index))))
    assert lists[0] == lists[1]
    assert sorted(lists[0]) == sorted(names)


@pytest.mark.parametrize(("cap", "word"), [("MAX_ENTRIES", "entries"), ("MAX_FOLDERS", "folders")])
@pytest.mark.abuse("G15")
def test_a_root_beyond_the_caps_is_truncated_and_says_so(
    cap: str, word: str, skills_root: Path, make_skill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        make_skill(skills_root / f"group-{number}", f"skill-{number}")
    monkeypatch.setattr(summaries, cap, 7 if cap == "MAX_ENTRIES" else 3)
    catalog = discover(skills_root)
    (root,) = catalog.roots
    assert root.status == "truncated"
    assert word in (root.reason or "")
    assert 0 < len(catalog) < 6


def test_a_long_front_matter_is_read_to_its_end(skills_root: Path, make_skill: Any) -> None:
    filler = "\n".join(f"# filler line {number}" for number in range(1500))
    make_skill(skills_root, "long", front_matter=f"name: long\n{filler}\ndescription: At the very end.")
    assert discover(skills_root).get("long").description == "At the very end."


@pytest.mark.row("000-4")
def test_a_list_reads_the_front_matter_only(skills_root: Path, make_skill: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make_skill(skills_root, "big", body="x" * 900_000, files={"references/huge.md": "y" * 900_000})
    monkeypatch.chdir(skills_root)  # the settings of a project are read too
    counted = []
    read = os.read
    monkeypatch.setattr(os, "read", lambda *arguments: counted.append(len(data := read(*arguments))) or data)
    skill = discover(skills_root).get("big")
    assert skill.description
    assert 0 < sum(counted) < 10_000
    assert len(skill.document().body) >= 900_000


def test_the_list_as_json_is_what_each_skill_says_of_itself(skills_root: Path, make_skill: Any) -> None:
    make_skill(skills_root, "ok")
    make_skill(skills_root, "quoted", front_matter="name: quoted\ndescription: 'Says \"hi\" \\ 天气 \u2028.'")
    make_skill(skills_root / 'odd "folder" \\ 名', "twin", front_matter="name: ok\ndescription: Second.")
    make_skill(skills_root, "broken", front_matter="name: [")
    os.mkdir(os.fsencode(skills_root) + b"/\xff\xfe")  # noqa: PTH102 - a name that is not UTF-8
    (Path(os.fsdecode(os.fsencode(skills_root) + b"/\xff\xfe")) / "SKILL.md").write_text(
        "---\nname: bytes\ndescription: d\n---\n"
    )
    catalog = discover(skills_root)
    listed = json.loads(catalog.to_json())
    assert listed["skills"] == to_plain_json([skill.to_dict() for skill in catalog.all()])  # with `?` for what is not UTF-8
    assert listed["roots"] == [{"path": str(skills_root), "source": "config", "status": "ok"}]
    assert {skill["status"] for skill in listed["skills"]} == {"ok", "shadowed", "broken"}


@pytest.mark.row("001-9", "004-1")
def test_a_skill_gives_what_its_summary_says(skills_root: Path, make_skill: Any) -> None:
    make_skill(
        skills_root,
        "folder-name",
        front_matter=(
            "name: PDF Miner\ndisplayName: Miner of PDFs\ndescription: Extracts.\nversion: 1.2.0\ntype: direct\n"
            "allowed-tools: Read, Write\nkeywords: [pdf]\ntags: [text]\ntriggers:\n  phrases: [mine a pdf]\n"
            "disable-model-invocation: true"
        ),
    )
    skill = discover(skills_root).get("folder-name")
    assert (skill.id, skill.slug, skill.name, skill.display_name) == (
        "config:pdf-miner",
        "pdf-miner",
        "PDF Miner",
        "Miner of PDFs",
    )
    assert (skill.version, skill.kind, skill.allowed_tools) == ("1.2.0", "direct", ("Read", "Write"))
    assert set(skill.keywords) == {"pdf", "text"}
    assert skill.phrases == ("mine a pdf",)
    assert skill.model_invocable is False
    assert skill.has_entry is True


@pytest.mark.row("D-4", "003-3")
def test_a_name_without_latin_letters_takes_the_folders_slug(skills_root: Path, make_skill: Any) -> None:
    make_skill(skills_root, "weather", front_matter="name: 天气查询\ndescription: 查询天气")
    make_skill(skills_root, "记录", front_matter="name: 记录\ndescription: 记录偏好")
    first, second = discover(skills_root).all()
    assert first.id == "config:weather"
    assert second.id.startswith("config:skill-")
    assert len({first.id, second.id}) == 2


def test_progress_is_reported_while_files_are_read(skills_root: Path, make_skill: Any) -> None:
    for number in range(70):
        make_skill(skills_root, f"skill-{number}")
    reported: list[tuple[int, int]] = []
    discover(skills_root, progress=lambda done, total: reported.append((done, total)))
    assert reported
    assert all(0 <= done <= total == 70 for done, total in reported)


def test_every_finding_of_a_scan_names_a_rule_that_is_documented(skills_root: Path, make_skill: Any) -> None:
    (skills_root / "folder/SKILL.md").mkdir(parents=True)
    (skills_root / "broken").mkdir()
    (skills_root / "broken/SKILL.md").symlink_to("nowhere")
    make_skill(skills_root, "old", raw=b"# Body\n", files={"METADATA.yml": "name: old\ndescription: From YAML.\n"})
    found = {skill.slug: [one.rule for one in skill.diagnostics] for skill in discover(skills_root).all()}
    assert found == {"broken": ["file-not-regular"], "folder": ["file-not-regular"], "old": ["legacy-metadata"]}
    assert {rule for rules in found.values() for rule in rules} <= set(RULES)


def test_a_chain_of_thousands_of_links_harms_nobody(skills_root: Path, make_skill: Any) -> None:
    make_skill(skills_root, "good")
    folder = skills_root / "good"
    (skills_root / "chained").mkdir()
    for number in range(3_000):
        (folder / f"link{number}").symlink_to(f"link{number + 1}")
    (skills_root / "chained/SKILL.md").symlink_to("../good/link0")
    found = {skill.name: skill for skill in SkillCatalog.discover(roots=[skills_root], cache=False).all()}
    assert (found["good"].status, found["chained"].status) == ("ok", "broken")
    assert found["good"].files() == ()
    assert found["good"].inventory().total_files == 1
