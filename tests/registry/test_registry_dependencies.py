"""Skills come along with those that require them, with consent; conflicts and cycles say who asked for what."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from skillyard.errors import ConsentRequired, DependencyConflict, DependencyCycle, DigestMismatch, NoSkillInside, SkillRequired
from skillyard.packages import Origin, PackageLimits, Source, find_skills
from skillyard.registry import PowerChange, Registry, SourceFetcher
from skillyard.registry.candidate import staged_candidate
from skillyard.registry.dependencies import DependencyFinder, DependencyRequest, _fetched_offers
from skillyard.registry.logins import Login, Logins
from skillyard.registry.mirror_locations import open_mirror_target
from skillyard.registry.registry_mirror import RegistryMirror, copy_mirror
from skillyard.registry.registry_values import FetchedTree

Write = Callable[..., Path]


def _yes(_changes: Sequence[PowerChange]) -> bool:
    return True


def _header(*skills: str, version: str = "1.0.0", key: str = "skills") -> str:
    listed = ", ".join(f'"{skill}"' for skill in skills)
    return f"version: {version}\n" + (f"requires:\n  {key}: [{listed}]\n" if skills else "")


def _serving(registry: Registry) -> dict[str, str | None]:
    return {name: version.declared_version for name, version in registry.installed.serving().items()}


def test_what_a_skill_requires_comes_along_from_the_same_source_and_so_on(any_registry: Registry, write: Write) -> None:
    write("report", header=_header("tables@^1.2"))
    write("tables", header=_header("numbers", version="1.4.0"), files={"scripts/t.py": "print(1)\n"})
    source = str(write("numbers").parent)
    write("unrelated")
    asked: list[PowerChange] = []
    report = any_registry.install(source, skills=["report"], consent=lambda changes: not asked.extend(changes))
    assert [(one.skill_id, one.status, one.required_by) for one in report.results] == [
        ("report", "installed", ()),
        ("tables", "installed", ("report requires tables@^1.2",)),
        ("numbers", "installed", ("tables requires numbers",)),
    ]
    assert all(one.unmet == () for one in report.results)
    assert _serving(any_registry) == {"report": "1.0.0", "tables": "1.4.0", "numbers": None}
    assert {change.skill_id: change.sentences for change in asked} == {
        "numbers": ("is a dependency: tables requires numbers",),
        "tables": ("is a dependency: report requires tables@^1.2", "has the script scripts/t.py", "uses the skill numbers"),
    }


def test_without_consent_nothing_comes_along_and_nothing_is_installed(registry: Registry, write: Write) -> None:
    write("tables", files={"scripts/t.py": "print(1)\n"})
    report = str(write("report", header=_header("tables")))
    with pytest.raises(ConsentRequired) as refused:
        registry.install(report)
    assert refused.value.message == (
        "tables would be installed as well: tables is a dependency: report requires tables; tables has the script scripts/t.py"
    )
    assert _serving(registry) == {}
    assert registry.install(report, dependencies=False).results[0].unmet == ("the skill tables is missing: install it",)
    assert list(_serving(registry)) == ["report"]


def test_what_is_there_and_fits_stays_as_it_is(registry: Registry, write: Write) -> None:
    registry.install(str(write("tables", header=_header(version="1.2.0"))))
    write("tables", header=_header(version="1.9.0"))
    registry.others = lambda: {"Charts": "3.1", "old": None}
    report = registry.install(str(write("report", header=_header("tables@^1", "charts@>=3"))))
    assert [one.skill_id for one in report.results] == ["report"]
    assert report.results[0].unmet == ()
    assert _serving(registry)["tables"] == "1.2.0"


def test_a_version_that_does_not_fit_is_replaced_by_one_that_does(registry: Registry, write: Write) -> None:
    registry.install(str(write("tables", header=_header(version="1.2.0"))))
    write("tables", header=_header(version="2.1.0"))
    report = registry.install(str(write("report", header=_header("tables@^2"))), consent=_yes)
    assert [(one.skill_id, one.status) for one in report.results] == [("report", "installed"), ("tables", "updated")]
    assert _serving(registry)["tables"] == "2.1.0"


def test_a_conflict_says_who_asked_for_what_and_what_there_is(registry: Registry, write: Write) -> None:
    registry.install(str(write("tables", header=_header(version="1.2.0"))))
    registry.install(str(write("notes", header=_header("tables@<2"))))
    beside = write("tables", header=_header(version="2.1.0"))
    with pytest.raises(DependencyConflict) as refused:
        registry.install(str(write("report", header=_header("tables@^2"))), consent=_yes)
    assert refused.value.message == (
        "no version of tables is what all require: notes requires tables@<2, report requires tables@^2;"
        f" of tables there is 1.2.0 (installed), 2.1.0 ({beside})"
    )
    assert {one["by"] for one in refused.value.details["required"]} == {"report", "notes"}  # type: ignore[attr-defined]
    assert _serving(registry) == {"tables": "1.2.0", "notes": "1.0.0"}


def test_an_update_that_others_do_not_take_is_a_conflict(registry: Registry, write: Write) -> None:
    registry.install(str(write("tables", header=_header(version="1.2.0"))))
    registry.install(str(write("notes", header=_header("tables@^1"))))
    write("tables", header=_header(version="2.0.0"))
    with pytest.raises(DependencyConflict, match=r"notes requires tables@\^1; of tables there is 2.0.0 \(to be installed\)"):
        registry.update("tables")
    assert registry.update("tables", dependencies=False).results[0].status == "updated"


def test_a_pinned_version_is_not_replaced_for_another_skill(registry: Registry, write: Write) -> None:
    registry.install(str(write("tables", header=_header(version="1.2.0"))))
    registry.pin("tables")
    write("tables", header=_header(version="2.1.0"))
    with pytest.raises(DependencyConflict, match=r"report requires tables@\^2; of tables there is 1.2.0 \(installed\)"):
        registry.install(str(write("report", header=_header("tables@^2"))), consent=_yes)


def test_a_cycle_is_refused_with_its_path(registry: Registry, write: Write) -> None:
    write("one", header=_header("two"))
    two = write("two", header=_header("one"))
    with pytest.raises(DependencyCycle) as refused:
        registry.install(str(two.parent))
    assert refused.value.message == "skills require each other in a cycle: one → two → one"
    assert refused.value.details["cycle"] == ["one", "two", "one"]
    assert len(registry.install(str(two.parent), dependencies=False).results) == 2


def test_of_alternatives_the_one_that_is_there_counts_else_the_first_that_can_come(registry: Registry, write: Write) -> None:
    report = str(write("report", header=_header("pdf", "docx", key="any_skills")))
    write("docx")
    assert [one.skill_id for one in registry.install(report, consent=_yes).results] == ["report", "docx"]
    write("pdf")
    other = str(write("other", header=_header("pdf", "docx", key="any_skills")))
    assert [one.skill_id for one in registry.install(other).results] == ["other"]


def test_what_is_nowhere_is_reported_and_stops_nothing(registry: Registry, write: Write) -> None:
    result = registry.install(str(write("report", header=_header("nowhere@^1")))).results[0]
    assert (result.status, result.unmet) == ("installed", ("the skill nowhere@^1 is missing: install it",))


def test_an_update_that_adds_a_requirement_needs_consent_and_brings_it(registry: Registry, write: Write) -> None:
    report = str(write("report", header=_header()))
    registry.install(report)
    write("tables")
    write("report", header=_header("tables", version="1.1.0"))
    with pytest.raises(ConsentRequired) as refused:
        registry.update("report")
    assert [change["skill_id"] for change in refused.value.details["changes"]] == ["report", "tables"]  # type: ignore[attr-defined]
    assert [one.skill_id for one in registry.update("report", consent=_yes).results] == ["report", "tables"]


def test_who_agrees_is_told_which_version_is_replaced(registry: Registry, write: Write) -> None:
    tables = write("tables", header=_header(version="2.0.0"))
    registry.install(str(tables.parent), skills=["tables"])
    write("tables", header=_header(version="1.0.0"))
    report = write("report", header=_header("tables@<2"))
    asked: list[PowerChange] = []
    registry.install(str(report.parent), skills=["report"], consent=lambda changes: not asked.extend(changes))
    assert [change.required_by for change in asked] == [("report requires tables@<2", "it replaces version 2.0.0 with 1.0.0")]
    assert _serving(registry)["tables"] == "1.0.0"


def test_a_search_that_would_fetch_from_many_places_ends(registry: Registry, write: Write, tmp_path: Path) -> None:
    asking = write("report", header=_header(*(f"other-{number}" for number in range(60))))
    source, tree = Source("folder", str(asking)), FetchedTree(asking, Origin("folder", str(asking)), owned=False)
    for number in range(60):
        write(f"other-{number}")
    fetched: list[Source] = []

    class Counting:
        def fetch(self, source: Source, into: Path) -> FetchedTree:
            fetched.append(source)
            return SourceFetcher().fetch(source, into)

    skills = find_skills(asking)
    candidate, _ = staged_candidate(skills[0], tree, tmp_path, PackageLimits(), source)
    finder = DependencyFinder(registry.records.read, Counting(), lambda _: False)
    added, _ = finder.bring(DependencyRequest([candidate], source, tree, skills, tmp_path, PackageLimits()))
    assert len(fetched) == len(added) == 32


def test_a_package_with_another_skill_in_it_is_an_error_and_not_the_end_of_the_search(write: Write) -> None:
    other = write("other")
    source = Source("mirror", "https://tidy.example", "tables")
    tree = FetchedTree(other, Origin("folder", str(other)), owned=False)
    (offer,) = _fetched_offers(source, "tables", lambda _: tree, version="1.0.0")
    with pytest.raises(NoSkillInside, match="there is no skill tables in"):
        _ = offer.requirements


def test_of_a_mirror_the_newest_version_comes_along_that_fits(registry: Registry, write: Write, tmp_path: Path) -> None:
    publisher = Registry(str(tmp_path / "publisher"))
    for version in ("1.0.0", "1.5.0", "2.0.0"):
        publisher.install(str(write("tables", header=_header(version=version), body=version)), consent=_yes)
    publisher.install(str(write("report", header=_header("tables@^1"))), dependencies=False)
    mirror = tmp_path / "mirror"
    copy_mirror(RegistryMirror(publisher, str(tmp_path / "publisher")), open_mirror_target(str(mirror)))
    results = registry.install(Source("mirror", str(mirror), path="report"), consent=_yes).results
    assert [(one.skill_id, one.declared_version) for one in results] == [("report", "1.0.0"), ("tables", "1.5.0")]
    publisher.close()


def test_a_person_who_names_a_skill_that_came_along_wants_it(any_registry: Registry, write: Write) -> None:
    tables = str(write("tables"))
    any_registry.install(str(write("report", header=_header("tables"))), consent=_yes)
    read: Any = any_registry.records.read
    assert read.required_by("tables") == ("report requires tables",)
    assert read.required_by("report") == ()
    any_registry.update("tables")
    assert read.required_by("tables") == ("report requires tables",)
    any_registry.install(tables)
    assert read.required_by("tables") == ()


def test_the_tree_says_why_each_is_here_and_what_is_missing(registry: Registry, write: Write) -> None:
    write("numbers")
    write("tables", header="version: 1.4.0\nrequires: {skills: [numbers], bins: [sh, nosuch], mcp_servers: [crm]}\n")
    header = (
        "requires: {skills: ['tables@^1', numbers], any_skills: [pdf, nowhere], tools: [mcp__tickets__find, crm/get, sh]}\n"
    )
    registry.others = lambda: {"pdf": "3.0"}
    registry.installed.servers = frozenset({"tickets"})
    registry.install(str(write("report", header=header)), consent=_yes)
    tree = registry.dependencies.tree("report")
    assert (tree.required_by, tree.installed_because) == ((), ())
    assert [(one.kind, one.name, one.met, one.where) for one in tree.needs if one.kind != "tool"] == [
        ("skill", "tables", True, "installed"),
        ("skill", "numbers", True, "installed"),
        ("skill", "pdf", True, "this catalog"),
    ]
    assert [(one.name, one.met) for one in tree.needs if one.kind == "tool"] == [
        ("mcp__tickets__find", True), ("crm/get", False), ("sh", True),
    ]  # fmt: skip
    tables, numbers = [one for one in tree.needs if one.name in ("tables", "numbers")]
    assert (tables.wanted, tables.version, tables.required_by, tables.repeated) == ("tables@^1", "1.4.0", "report", False)
    assert [(one.kind, one.name, one.met) for one in tables.needs] == [
        ("program", "sh", True), ("program", "nosuch", False), ("mcp_server", "crm", False), ("skill", "numbers", True),
    ]  # fmt: skip
    assert numbers.repeated and not tables.needs[-1].repeated
    assert tree.unmet == (
        "report: the tool crm/get is missing: register the server that has it in [servers]",
        "tables: the program nosuch is missing: install it",
        "tables: the MCP server crm is missing: register it in [servers]",
    )
    why = registry.dependencies.tree("numbers")
    assert why.required_by == ("report requires numbers", "tables requires numbers")
    assert why.installed_because == ("report requires numbers", "tables requires numbers")


def test_what_others_need_is_not_uninstalled_unasked(any_registry: Registry, write: Write) -> None:
    write("numbers")
    write("tables", header=_header("numbers"))
    any_registry.install(str(write("report", header=_header("tables"))), consent=_yes)
    with pytest.raises(SkillRequired) as refused:
        any_registry.uninstall("numbers")
    assert refused.value.message == "numbers is needed: tables requires numbers"
    assert refused.value.details["required_by"] == ["tables requires numbers"]
    assert any_registry.dependencies.unneeded() == ()
    any_registry.uninstall("report")
    assert any_registry.dependencies.unneeded() == ("tables", "numbers")
    for skill_id in any_registry.dependencies.unneeded():
        any_registry.uninstall(skill_id)
    assert _serving(any_registry) == {}


def test_of_alternatives_one_may_go(registry: Registry, write: Write) -> None:
    for name in ("pdf", "docx"):
        registry.install(str(write(name)))
    registry.install(str(write("report", header=_header("pdf", "docx", key="any_skills"))))
    registry.uninstall("pdf")
    with pytest.raises(SkillRequired, match="report requires pdf or docx"):
        registry.uninstall("docx")
    assert registry.uninstall("docx", dependencies=False).status == "uninstalled"


def test_a_rollback_does_not_take_away_what_others_require(registry: Registry, write: Write) -> None:
    for version in ("1.0.0", "2.0.0"):
        registry.install(str(write("tables", header=_header(version=version))))
    registry.install(str(write("report", header=_header("tables@^2"))))
    with pytest.raises(SkillRequired, match=r"tables 1.0.0 is not what is needed: report requires tables@\^2"):
        registry.rollback("tables")
    assert registry.rollback("tables", dependencies=False).status == "rolled back"
    registry.install(str(write("report", header=_header(version="2.0.0"))))
    assert registry.rollback("report").unmet == ("the skill tables@^2 is missing: 1.0.0 is here, install another version",)


def test_a_server_that_lies_about_a_dependency_leaves_nothing_installed(write: Write, tmp_path: Path) -> None:
    """It lists the version that is asked for, or another digest, and gives something else."""
    publisher = Registry(str(tmp_path / "publisher"))
    publisher.install(str(write("tables", header=_header(version="1.5.0"))))
    target = open_mirror_target(str(tmp_path / "mirror"))
    publisher.install(str(write("report", header=_header("tables@^2"))), dependencies=False)
    copy_mirror(RegistryMirror(publisher, str(tmp_path / "publisher")), target)
    index = tmp_path / "mirror/skillyard-mirror.json"
    reported, digest = index.read_text(), publisher.installed.current("tables").digest
    mine = Registry(str(tmp_path / "data"))
    source = Source("mirror", str(tmp_path / "mirror"), names=("report",))
    lies = (
        (reported.replace('"1.5.0"', '"2.5.0"'), "as version 2.5.0, and its SKILL.md says 1.5.0"),
        (reported.replace('"1.5.0"', '"2.5.0"').replace(digest, "sha256:" + "0" * 64), "is not what the mirror lists"),
    )
    for lie, why in lies:
        index.write_text(lie)
        with pytest.raises(DigestMismatch, match=why):
            mine.install(source, consent=_yes)
        assert mine.installed.skills() == ()
    publisher.close()
    mine.close()


def test_servers_that_one_is_logged_in_to_are_asked_and_one_that_is_away_stops_nothing(
    write: Write, tmp_path: Path, folder_server: Any
) -> None:
    publisher = Registry(str(tmp_path / "publisher"))
    publisher.install(str(write("tables", header=_header(version="1.5.0"))))
    target = open_mirror_target(str(tmp_path / "site/mirror"))
    copy_mirror(RegistryMirror(publisher, str(tmp_path / "publisher")), target)
    publisher.close()
    shutil.rmtree(tmp_path / "sources/tables")
    report = str(write("report", header=_header("tables@^1", "nowhere")))
    logins = Logins(str(tmp_path / "data"))
    with socket.create_server(("127.0.0.1", 0)) as closed:
        away = f"http://127.0.0.1:{closed.getsockname()[1]}"
    logins.save(Login(away, "sky_away"))
    mine = Registry(str(tmp_path / "data"), fetcher=SourceFetcher(logins=logins, sleep=lambda _seconds: None))
    with folder_server(tmp_path / "site") as server:
        logins.save(Login(server, "sky_here"))
        asked: list[PowerChange] = []
        results = mine.install(report, consent=lambda changes: not asked.extend(changes)).results
    assert [(one.skill_id, one.declared_version) for one in results] == [("report", "1.0.0"), ("tables", "1.5.0")]
    assert [(change.skill_id, change.source) for change in asked] == [("tables", f"{server}/mirror tables")]
    assert results[0].unmet == ("the skill nowhere is missing: install it",)
    assert any("nowhere was not looked for everywhere" in warning for warning in results[0].warnings)
    mine.close()
