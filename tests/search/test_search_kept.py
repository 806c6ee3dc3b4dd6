"""The index on disk: read once, brought up to date skill by skill, and never a reason for a wrong answer."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skillyard import Catalog, Skill
from skillyard.offload.forked_map import PortionFiles
from skillyard.search import postings
from skillyard.search import search_index as index_module
from skillyard.search.pages import Page
from skillyard.search.postings import load_segments, make_segment, stored_postings
from skillyard.search.tokenizer import Tokenizer

TOPICS = {
    "ledger": "Keeps accounts of a small shop.",
    "gallery": "Shows pictures on a wall.",
    "kitchen": "Plans meals for a week.",
}


@pytest.fixture(params=["small", "large"])
def shelf(request: pytest.FixtureRequest, skills_root: Path, make_skill: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three skills, whose changes are put together with the rest, and kept apart as in a large catalog."""
    if request.param == "large":
        monkeypatch.setattr(postings, "_SMALL_CATALOG", 0)
    for name, description in TOPICS.items():
        make_skill(skills_root, name, description=description, body=f"# Steps\n\nThis is all about {name} matters.\n")
    settled(skills_root)
    return skills_root


def settled(root: Path) -> None:
    """Make the files an hour older: a file that was written a moment ago may change again within the same tick of its clock."""
    for path in root.glob("*/SKILL.md"):
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 3600))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the skills whose text was read for search."""
    seen: list[str] = []
    real = index_module.read_pages

    def read(sources: Any) -> Any:
        sources = list(sources)
        seen.extend(source.name for source in sources)
        return real(sources)

    monkeypatch.setattr(index_module, "read_pages", read)
    return seen


def best(root: Path, request: str) -> list[str]:
    return [match.skill.name for match in Catalog.discover(roots=[root]).search(request)]


def kept(root: Path) -> Path:
    folder = Catalog.discover(roots=[root]).search_directory
    assert folder
    return next(Path(folder).glob("*.search"))


def test_words_of_body_headings_and_files_are_found(skills_root: Path, make_skill: Any) -> None:
    make_skill(skills_root, "one", description="Does something.", body="# Zeppelins\n\nAll about helium and hangars.\n")
    make_skill(skills_root, "two", description="Does something else.", files={"scripts/marmalade.py": "pass\n"})
    assert best(skills_root, "zeppelin") == ["one"]
    assert best(skills_root, "helium hangar") == ["one"]
    assert best(skills_root, "marmalade") == ["two"]


def test_a_skill_is_read_for_search_once(shelf: Path, reads: list[str]) -> None:
    assert best(shelf, "accounts") == ["ledger"]
    assert best(shelf, "pictures") == ["gallery"]
    assert sorted(reads) == sorted(TOPICS)


def test_only_an_edited_skill_is_read_again_without_its_old_words(shelf: Path, reads: list[str], make_skill: Any) -> None:
    assert best(shelf, "gallery matters")[0] == "gallery"
    reads.clear()
    make_skill(shelf, "gallery", description="Shows sculptures.", body="Marble only.\n")
    assert best(shelf, "sculptures of marble") == ["gallery"]
    assert best(shelf, "pictures") == []
    assert set(reads) == {"gallery"}


def test_a_deleted_skill_is_removed_and_a_new_one_is_added(shelf: Path, reads: list[str], make_skill: Any) -> None:
    assert best(shelf, "meals for a week") == ["kitchen"]
    (shelf / "kitchen" / "SKILL.md").unlink()
    make_skill(shelf, "cellar", description="Keeps wine.")
    reads.clear()
    assert best(shelf, "meals for a week") == []
    assert best(shelf, "wine") == ["cellar"]
    assert set(reads) == {"cellar"}


def test_a_living_catalog_sees_an_edit_after_it_refreshed(shelf: Path, make_skill: Any) -> None:
    catalog = Catalog.discover(roots=[shelf])
    assert not catalog.search("violins")
    make_skill(shelf, "gallery", description="Tunes violins.")
    catalog.refresh()
    assert [match.skill.name for match in catalog.search("violins")] == ["gallery"]


def test_after_an_edit_only_what_may_have_changed_is_compared(
    shelf: Path, make_skill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog.discover(roots=[shelf])
    assert not catalog.search("violins")
    compared: list[str] = []
    real = index_module.header_of
    monkeypatch.setattr(index_module, "header_of", lambda skill: compared.append(skill.name) or real(skill))
    for _ in range(2):  # the edited file was written a moment ago, so it is looked at once more
        make_skill(shelf, "gallery", description="Tunes violins.", body=f"{len(compared)} strings.\n")
        catalog.refresh()
        assert [match.skill.name for match in catalog.search("violins")] == ["gallery"]
    assert compared == ["gallery", "gallery"]


def test_after_an_edit_only_its_names_are_looked_at(shelf: Path, make_skill: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    real = index_module._name_words

    def name_words(skill: Any) -> set[tuple[str, ...]]:
        looked_at.append(skill.name)
        return real(skill)

    monkeypatch.setattr(index_module, "_name_words", name_words)
    catalog = Catalog.discover(roots=[shelf])

    def called(request: str) -> list[str]:
        return [match.skill.name for match in catalog.search(request, min_confidence=0.9)]

    assert [called(name) for name in (*TOPICS, "$kitchen")] == [["ledger"], ["gallery"], ["kitchen"], ["kitchen"]]
    assert called("meals of a week") == []  # a process that asks more often has tables of names and phrases by now
    looked_at.clear()
    for name, said in (("atrium", "look at statues"), ("pavilion", "rest in the garden")):
        make_skill(shelf, "gallery", front_matter=f"name: {name}\ndescription: Rooms.\ntriggers: {{phrases: [{said}]}}")
        catalog.refresh()
        assert called(name) == called(f"${name}") == called(said) == [name]
        assert called("kitchen") == ["kitchen"]
    assert looked_at == ["gallery", "atrium", "atrium", "pavilion"]  # as it was, and as it is
    assert called("gallery") == called("atrium") == called("$gallery") == called("look at statues") == []


def test_after_an_edit_the_order_is_that_of_a_new_index(skills_root: Path, make_skill: Any) -> None:
    def write(number: int) -> None:
        make_skill(skills_root, f"skill-{number:02}", description=f"Does the thing number {number:02} with great care. " * 3)

    for number in range(20):
        write(number)
    settled(skills_root)
    before = best(skills_root, "Do the thing number 19")
    assert before[:3] == ["skill-19", "skill-00", "skill-01"]
    for number in range(10, 20):
        write(number)
    assert best(skills_root, "Do the thing number 19") == before


def test_whatever_changes_a_living_index_has_every_skill_once_as_it_is(shelf: Path, make_skill: Any) -> None:
    catalog = Catalog.discover(roots=[shelf])
    chance = random.Random(7)
    there = dict.fromkeys(TOPICS, "matters")
    gone: list[str] = []
    for _ in range(40):
        name, word = f"skill{chance.randrange(12)}", "".join(chance.choices("bdfgklmnprtvz", k=9))
        match chance.choice(["write", "write", "delete", "switch"] if name in there else ["write"]):
            case "write":
                gone.append(there.get(name, word))
                there[name] = word
                make_skill(shelf, name, description=f"Knows {word} alone.")
            case "delete":
                gone.append(there.pop(name))
                (shelf / name / "SKILL.md").unlink()
            case _:
                catalog.toggle(name)
        catalog.refresh()
        index = catalog._search_index()
        usable = {skill.name: there[skill.name] for skill in catalog}
        assert sorted(index.numbers[index.numbers >= 0].tolist()) == list(range(len(usable)))
        for own in chance.sample(sorted(set(usable) - set(TOPICS)), min(2, len(usable) - len(TOPICS))):
            assert [match.skill.name for match in catalog.search(usable[own])][:1] == [own]
        assert all(word in usable.values() or not catalog.search(word) for word in gone[-1:])
    living, new = (
        [match.skill.id for match in one.search("knows words alone", limit=50)]
        for one in (catalog, Catalog.discover(roots=[shelf]))
    )
    assert sorted(living) == sorted(new)
    assert living == new or not postings._SMALL_CATALOG  # in a large one old text counts for the order until it is rewritten


@pytest.mark.parametrize("damage", [b"", b"SKYS", b"\0" * 400, b"not an index at all" * 50])
def test_a_damaged_index_heals(shelf: Path, damage: bytes) -> None:
    assert best(shelf, "accounts") == ["ledger"]
    file = kept(shelf)
    file.write_bytes(damage)
    assert best(shelf, "accounts") == ["ledger"]
    assert file.read_bytes() != damage


def test_an_index_that_was_cut_off_or_that_others_may_write_is_not_believed(shelf: Path, reads: list[str]) -> None:
    assert best(shelf, "accounts") == ["ledger"]
    file = kept(shelf)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert best(shelf, "pictures") == ["gallery"]
    reads.clear()
    kept(shelf).chmod(0o666)
    assert best(shelf, "pictures") == ["gallery"]
    assert sorted(reads) == sorted(TOPICS)


def test_an_index_of_an_earlier_format_is_read_again(shelf: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(postings, "_FORMAT", postings._FORMAT - 1)
        assert best(shelf, "accounts") == ["ledger"]
    reads.clear()
    assert best(shelf, "accounts") == ["ledger"]
    assert sorted(reads) == sorted(TOPICS)


def test_a_place_that_cannot_be_written_keeps_nobody_from_searching(shelf: Path) -> None:
    folder = Catalog.discover(roots=[shelf]).search_directory
    assert folder
    Path(folder).parent.mkdir(parents=True, exist_ok=True)
    Path(folder).write_text("a file where the folder should be")
    assert best(shelf, "accounts") == ["ledger"]


def test_many_small_changes_become_one_index_again(shelf: Path, make_skill: Any) -> None:
    for number in range(12):
        make_skill(shelf, f"extra{number}", description=f"Knows secret{number}thing.")
        assert best(shelf, f"secret{number}thing")[:1] == [f"extra{number}"]
    assert len(Catalog.discover(roots=[shelf])._search_index().segments) <= 9
    assert best(shelf, "secret3thing")[:1] == ["extra3"]


SEARCHER = """
import sys
from skillyard import Catalog, Skill
root, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
from pathlib import Path
for number in range(first, last):
    folder = Path(root) / f"made{number}"
    folder.mkdir()
    (folder / "SKILL.md").write_text(f"---\\nname: made{number}\\ndescription: Knows token{number}word.\\n---\\nBody.\\n")
    found = [match.skill.name for match in Catalog.discover(roots=[root]).search(f"token{number}word")]
    assert found[0] == f"made{number}", found
"""


def test_processes_that_write_at_the_same_time_all_get_right_answers(shelf: Path) -> None:
    command = [sys.executable, "-c", SEARCHER, str(shelf)]
    running = [
        subprocess.Popen([*command, str(10 * one), str(10 * one + 8)], env=dict(os.environ), stderr=subprocess.PIPE, text=True)
        for one in range(4)
    ]
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    for number in (0, 17, 37):
        assert best(shelf, f"token{number}word")[:1] == [f"made{number}"]


def test_the_same_skill_under_many_names_is_one_match_that_lists_the_others(skills_root: Path, make_skill: Any) -> None:
    things = "mill barn wagon sack scale rope lamp broom shovel ladder bucket kettle stove hammer saddle bridle"
    body = "".join(f"{number}. Prepare the {word} and weigh the grain.\n" for number, word in enumerate(things.split()))
    for name in ("grain-mill", "grain-miller", "milling-grain"):
        make_skill(skills_root, name, description="Mills grain into flour.", body=body)
    make_skill(skills_root, "bakery", description="Bakes bread of flour.")
    matches = Catalog.discover(roots=[skills_root]).search("flour", min_confidence=0)
    assert len(matches) == 2
    mill = next(match for match in matches if match.skill.name != "bakery")
    assert len(mill.duplicates) == 2
    assert mill.to_dict()["duplicates"] == list(mill.duplicates)


def test_only_skills_that_are_wanted_count(shelf: Path, make_skill: Any) -> None:
    art = "name: gallery\ndescription: Shows pictures on a wall.\ntags: [Art]\ndomain: home"
    make_skill(shelf, "gallery", front_matter=art)
    catalog = Catalog.discover(roots=[shelf])
    everyone = catalog.search("a shop with pictures", min_confidence=0)
    assert {match.skill.name for match in everyone} >= {"ledger", "gallery"}
    some = catalog.search("a shop with pictures", min_confidence=0, tag="art")
    assert [match.skill.name for match in some] == ["gallery"]
    assert [match.skill.name for match in catalog.search("a shop with pictures", source="config", domain="HOME")] == ["gallery"]
    assert catalog.search("a shop with pictures", source="user") == []
    (shelf.parent / ".git").mkdir()
    (shelf.parent / "skillyard.toml").write_text('[permissions.skills]\n"ledger" = "ask"\n')
    ruled = Catalog.discover(roots=[shelf], cwd=shelf.parent)
    asked = ruled.search("a shop with pictures", min_confidence=0, permission="ask")
    assert [match.skill.name for match in asked] == ["ledger"]


def test_a_match_explains_what_each_reason_weighs(shelf: Path) -> None:
    match = Catalog.discover(roots=[shelf]).search("pictures of gallery matters")[0]
    reasons = match.explain()
    assert tuple(f"{reason.field}:{reason.written}" for reason in reasons) == match.matched
    assert {"name:gallery", "description:pictures", "text:matters"} <= set(match.matched)
    assert all(0 < reason.weight <= 1 for reason in reasons)


@pytest.mark.row("D-16")
@pytest.mark.parametrize(
    ("request_text", "right"),
    [
        ("帮我把这个表格里的数据做成图表", "xlsx"),
        ("把网页部署到服务器上", "deploy"),
        ("提取 PDF 文档里的文字", "pdf"),
        ("写一封邮件给客户", "mail"),
    ],
)
def test_a_chinese_request_finds_an_english_skill(skills_root: Path, make_skill: Any, request_text: str, right: str) -> None:
    make_skill(skills_root, "xlsx", description="Create and edit spreadsheets, formulas and charts.")
    make_skill(skills_root, "deploy", description="Deploy a website to a server.")
    make_skill(skills_root, "pdf", description="Extract text from PDF documents.")
    make_skill(skills_root, "mail", description="Write email to customers.")
    assert best(skills_root, request_text)[0] == right


@pytest.mark.parametrize("where", ["files", "full disk", "memory"])
def test_an_index_put_together_from_portions_is_that_of_all_at_once(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"skill {at} about {TOPIC_WORDS[at % 5]} and {TOPIC_WORDS[at * 7 % 11]} 审查代码".encode() for at in range(90)]
    pages = [Page(text[:8], text, b"", b"", text * (1 + at % 3), b"run.py") for at, text in enumerate(texts)]
    keys = [(str(at),) for at in range(len(pages))]
    files = PortionFiles(str(tmp_path)) if where != "memory" else PortionFiles.in_memory()
    if where == "full disk":
        files.close()
        monkeypatch.setattr(files, "_files", (_Full(), _Full()))
    monkeypatch.setattr(postings, "_FEW_POSTINGS", 100)  # so that the words are dealt with in ranges
    tokenizer = Tokenizer(len(pages))
    parts = [stored_postings(pages[at : at + 25], tokenizer, files) for at in range(0, len(pages), 25)]
    kept_at = str(tmp_path / "kept.search")
    whole = postings.build_postings(pages, Tokenizer(len(pages)))
    for made in (make_segment(keys, parts, files), make_segment(keys, parts, files, kept_at), *load_segments(kept_at)):
        assert made.keys == tuple(keys)
        assert lists(made.postings) == lists(whole)
    assert len(load_segments(kept_at)) == 1
    files.close()


def test_an_index_that_took_edits_over_is_that_of_the_skills_that_are_there() -> None:
    texts = [f"{TOPIC_WORDS[at % 5]} and {TOPIC_WORDS[at * 7 % 11]} 审查代码".encode() for at in range(20)]
    pages = [Page(text[:8], text, text[-12:], text[3:9], text * (1 + at % 3), b"run.py") for at, text in enumerate(texts)]
    keep = np.array([at % 3 > 0 for at in range(15)])
    old, new = (postings.build_postings(some, Tokenizer(20)) for some in (pages[:15], pages[15:]))
    left = [page for page, stays in zip(pages, keep, strict=False) if stays] + pages[15:]
    assert lists(postings.merge(old, keep, new)) == lists(postings.build_postings(left, Tokenizer(20)))


def test_tables_of_edited_skills_are_those_of_the_skills_that_are_there(skills_root: Path, make_skill: Any) -> None:
    catalog = Catalog.discover(roots=[skills_root])

    def edited(words: str) -> list[Skill]:
        for number in range(9):
            about = words if number % 3 else "remain kept"
            header = f"name: one-{number}\ndescription: Skill {number}.\ntriggers: [{about} {number}]"
            make_skill(skills_root, f"one-{number}", front_matter=header)
        catalog.refresh()
        return list(catalog)

    for keys_of in (index_module._first_words_of_phrases, index_module._names_as_written):
        before, now = edited("deploy before"), edited("release now")
        table = index_module._table(before, keys_of)
        changed = [number for number in range(9) if number % 3]
        assert index_module._changed_table(table, keys_of, before, now, changed) == index_module._table(now, keys_of)


def lists(some: postings.Postings) -> dict[str, list[int]]:
    """All of its arrays."""
    found = {name: array.tolist() for name, array in some._asdict().items()}
    assert len(found["skills"]) > 50
    return found


TOPIC_WORDS = ("ledgers", "gallery", "kitchen", "meals", "pictures", "walls", "shops", "weeks", "plans", "tables", "gardens")


class _Full:
    """A file on a disk without room: the first part of what is written fits."""

    def seek(self, offset: int, whence: int = 0) -> int:
        return 0

    def write(self, data: bytes) -> int:
        return len(data) // 2

    def close(self) -> None:
        """As every file."""


def test_two_first_users_of_an_index_read_its_skills_once_and_keep_no_other_index_waiting(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skills = Catalog.discover(roots=[shelf]).all()
    index, other = index_module.SearchIndex(skills), index_module.SearchIndex(skills)
    real, reads, found = index_module._read, [], []
    second = threading.Thread(target=lambda: found.append(index.segments), daemon=True)
    beside = threading.Thread(target=lambda: other.segments, daemon=True)

    def read(*arguments: Any) -> Any:
        reads.append(arguments)
        if len(reads) == 1:  # while the first user reads
            second.start()
            beside.start()
            beside.join(60)
            assert not beside.is_alive()
        return real(*arguments)

    monkeypatch.setattr(index_module, "_read", read)
    first = index.segments
    second.join(60)
    assert found[0] is first
    assert len(reads) == 2
