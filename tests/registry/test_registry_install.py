"""From a source to a version that never changes, on every database."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog
from skillyard.access import Actor, AuditLog, acting_as
from skillyard.errors import (
    AmbiguousSkill,
    ConsentRequired,
    DigestMismatch,
    FileTooLarge,
    GraveFindings,
    InvalidConfiguration,
    InvalidInput,
    InvalidManifest,
    InvalidSkill,
    LinkNotAllowed,
    LocalEdits,
    NoSkillInside,
    PermissionDenied,
    SkillyardError,
)
from skillyard.packages import Source, pack, tree_digest
from skillyard.registry import GitFetcher, ProgressEvent, Registry, SourceFetcher

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "skills"


def _as_git(folder: Path, target: Path) -> Source:
    """The folder as a repository, cloned by its path, as a test may."""
    target.mkdir()
    settings = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main")
    authored = ("--work-tree", str(folder), "add", "-A", "--", ".", ":(exclude,glob)**/__pycache__/**")  # of other tests
    for words in (("init", "-q"), authored, ("commit", "-qm", "skills")):
        subprocess.run(
            ["git", "--git-dir", str(target / ".git"), *settings, *words], check=True, cwd=folder, capture_output=True
        )
    return Source("git", str(target / ".git"))


@pytest.mark.row("003-7", "002-16")
@pytest.mark.parametrize("way", ["folder", "zip", "tar.gz", "skill", "git"])
def test_the_same_skill_is_installed_from_every_kind_of_source(way: str, data: Path, tmp_path: Path) -> None:
    registry = Registry(str(data), fetcher=SourceFetcher(others={"git": GitFetcher(local=True)}))
    names = sorted(folder.name for folder in EXAMPLES.iterdir() if (folder / "SKILL.md").is_file())
    if way in ("folder", "git"):
        source: Any = str(EXAMPLES) if way == "folder" else _as_git(EXAMPLES, tmp_path / "repository")
        results = list(registry.install(source).results)
    else:
        archives = [pack(EXAMPLES / name, tmp_path / f"{name}.{way}").path for name in names]
        results = [registry.install(str(archive)).results[0] for archive in archives]
    assert sorted(result.skill_id for result in results) == names
    digests = {name: pack(EXAMPLES / name, tmp_path / f"again-{name}.zip").digest for name in names}
    assert {result.skill_id: result.digest for result in results} == digests
    catalog = Catalog.discover(environ={"SKILLYARD_HOME": str(data), "HOME": str(tmp_path)}, cwd=tmp_path, cache=False)
    assert sorted(skill.slug for skill in catalog if skill.source == "installed") == names
    registry.close()


PUBLIC: dict[str, dict[str, str | bytes]] = {
    "letterhead": {
        "SKILL.md": "---\nname: letterhead\ndescription: The look of our letters. Use for anything with a header.\n"
        "license: Complete terms in LICENSE.txt\n---\n\n# Letterhead\n\nSee [the fonts](./fonts/README.md).\n",
        "LICENSE.txt": "All rights to the letter.\n" * 200,
        "fonts/README.md": "One font.\n",
        "fonts/Plain-Bold.ttf": bytes(range(256)) * 40,
    },
    "sheets": {
        "SKILL.md": '---\nname: sheets\ndescription: "Comprehensive work with sheets: (1) new, (2) formulas, (3) charts. '
        'When an agent needs sheets for: any"\nlicense: Proprietary. LICENSE.txt has complete terms\n---\n\n# Sheets\n',
        "recalc.py": "import sys\nprint(sys.argv)\n",
        "ooxml.md": "# Office Open XML\n" + "A line.\n" * 600,
        "ooxml/schemas/ISO-IEC29500-4_2016/a.xsd": "<schema/>\n",
        "ooxml/scripts/validation/__init__.py": "",
        "ooxml/scripts/unpack.py": "#!/usr/bin/env python3\nprint('unpacked')\n",
    },
    "template": {"SKILL.md": "---\nname: template-skill\ndescription: Replace with a description.\n---\n\n# Insert here\n"},
}
"""Skills of our writing in the shapes of the public ones: files beside the text, packages below, a name unlike its folder."""


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """The folder of public skills that the variable SKILLS names, or ours of the same shape."""
    if given := os.environ.get("SKILLS"):
        return Path(given)
    for skill, files in PUBLIC.items():
        for name, content in files.items():
            path = tmp_path / "public/skills" / skill / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return tmp_path / "public"


@pytest.mark.row("003-17")
def test_public_skills_install_whole_and_are_offered(registry: Registry, public: Path, data: Path, tmp_path: Path) -> None:
    folders = {file.parent for file in public.rglob("SKILL.md")}
    assert len(folders) == (18 if "SKILLS" in os.environ else 3)
    results = registry.install(str(public)).results
    assert len(results) == len(folders)
    assert {result.digest for result in results} == {tree_digest(folder) for folder in folders}
    environ = {"SKILLYARD_HOME": str(data), "HOME": str(tmp_path)}
    catalog = Catalog.discover(environ=environ, cwd=tmp_path, cache=False)
    usable = {skill.slug for skill in catalog if skill.source == "installed" and skill.status == "ok"}
    assert usable == {result.skill_id for result in results}
    assert sum(one.startswith("installed:") for one in catalog.prompt().kept) == len(folders)


@pytest.mark.row("003-5", "003-14", "003-3", "D-8", "002-16")
def test_the_records_hold_text_inventory_hash_size_and_origin(any_registry: Registry, write: Any, tmp_path: Path) -> None:
    folder = write(files={"scripts/run.py": "print(1)\n", "references/more.md": "More.", "REFERENCE.md": "R"})
    archive = pack(folder, tmp_path / "tidy.zip")
    result = any_registry.install(str(archive.path)).results[0]
    skill = any_registry.installed.skill("tidy")
    assert skill.skill_md_content == (folder / "SKILL.md").read_text("utf-8")
    assert len(skill.skill_md_hash or "") == 64
    shape = skill.to_dict()
    assert shape["currentVersion"] == result.version
    assert shape["isActive"] is True
    inventory: Any = shape["fileInventory"]
    assert inventory["scriptFiles"] == ["scripts/run.py"]
    assert inventory["referenceFiles"] == ["REFERENCE.md", "references/more.md"]
    (version,) = any_registry.installed.versions("tidy")
    assert version.size_bytes == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert version.checksum_sha256 == archive.archive_sha256
    assert version.origin == {"kind": "archive", "address": str(archive.path), "sha256": archive.archive_sha256}
    assert Path(version.package_path) == any_registry.storage.versions.path("tidy", version.version)


@pytest.mark.row("002-6", "C-5", "C-6", "003-4")
def test_each_install_makes_a_version_of_its_own_and_moves_current(any_registry: Registry, write: Any) -> None:
    folder = write(header="version: 1.2.0\n")
    first = any_registry.install(str(folder)).results[0]
    write(header="version: 1.3.0\n")
    second = any_registry.install(str(folder)).results[0]
    assert (first.status, second.status) == ("installed", "updated")
    assert second.previous == first.version
    assert second.declared_version == "1.3.0"
    names = any_registry.storage.versions.names("tidy")
    assert names == [first.version, second.version]
    assert all(len(name.partition("-")[0]) == 8 for name in names)
    link = any_registry.root / "tidy" / "current"
    assert link.is_symlink()
    assert str(link.readlink()) == second.version
    assert any_registry.installed.current("tidy").version == second.version


def test_only_the_owner_may_write_to_an_installed_version_and_its_copies_can_be_changed(
    registry: Registry, write: Any, tmp_path: Path
) -> None:
    folder = write(files={"scripts/a.sh": "echo\n", "assets/x/y.txt": "y"})
    (folder / "assets/x/y.txt").chmod(0o466)
    result = registry.install(str(folder)).results[0]
    path = registry.storage.versions.path("tidy", result.version or "")
    modes = {found.stat().st_mode & 0o777 for found in (path, *path.rglob("*"))}
    assert modes == {0o755, 0o644}
    copied = shutil.copytree(path / "assets", tmp_path / "copied")
    assert (copied / "x/y.txt").stat().st_mode & 0o200
    assert copied.stat().st_mode & 0o200


def test_content_that_is_installed_already_is_left_alone(any_registry: Registry, write: Any) -> None:
    folder = str(write())
    first = any_registry.install(folder).results[0]
    again = any_registry.install(folder).results[0]
    assert again.status == "unchanged"
    assert again.version == first.version
    assert [log.status for log in any_registry.installed.history("tidy")] == ["success", "success"]
    forced = any_registry.install(folder, force=True).results[0]
    assert forced.version not in (None, first.version)


@pytest.mark.row("002-16")
def test_the_log_has_every_step_with_its_time_and_is_reported_while_it_goes_on(any_registry: Registry, write: Any) -> None:
    seen: list[ProgressEvent] = []
    any_registry.install(str(write()), progress=seen.append)
    steps = ["download", "checksum", "validate_structure", "consent", "save_db", "activate"]
    assert [event.step for event in seen] == steps
    assert [event.percent for event in seen] == [30, 50, 60, 70, 80, 90]
    (log,) = any_registry.installed.history("tidy")
    assert (log.operation, log.status, log.step, log.progress, log.state) == ("install", "success", "done", 100, "active")
    assert [step["name"] for step in log.steps] == steps
    assert all(isinstance(step["duration_ms"], int) for step in log.steps)
    assert log.duration_ms is not None


@pytest.mark.row("D-34", "C-23")
def test_every_operation_is_logged_under_its_own_name(any_registry: Registry, write: Any) -> None:
    folder = write()
    any_registry.install(str(folder))
    write(body="Other.")
    any_registry.update("tidy")
    any_registry.rollback("tidy")
    any_registry.uninstall("tidy")
    assert [log.operation for log in any_registry.installed.history("tidy")] == ["uninstall", "rollback", "update", "install"]


@pytest.mark.row("003-1", "C-1")
def test_a_manifest_is_ignored_with_a_warning(registry: Registry, write: Any) -> None:
    folder = write(files={"manifest.json": '{"skill_id": "other", "name": "Other", "version": "9.9.9"}'})
    result = registry.install(str(folder)).results[0]
    assert (result.skill_id, result.name, result.declared_version) == ("tidy", "tidy", None)
    assert "manifest.json is ignored" in result.warnings[0]


@pytest.mark.row("003-2", "C-3")
@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("---\nname: tidy\n---\nPuts things in order.\n", "its description"),
        ("---\ndescription: Puts things in order.\n---\n", "its name"),
        ("Puts things in order.\n", "its name and description"),
    ],
)
def test_what_a_catalog_would_infer_must_be_declared_and_the_old_version_serves(
    registry: Registry, write: Any, text: str, lacks: str
) -> None:
    folder = write()
    before = registry.install(str(folder)).results[0].version
    (folder / "SKILL.md").write_text(text, "utf-8")
    with pytest.raises(InvalidSkill, match=f"SKILL.md does not declare {lacks}") as refused:
        registry.install(str(folder))
    assert "check --fix" in str(refused.value.hint)
    assert registry.installed.current("tidy").version == before
    log = registry.installed.history("tidy")[0]
    assert (log.status, log.error_code, log.state) == ("failed", "invalid_skill", "failed")


@pytest.mark.row("D-31")
def test_an_optional_field_of_the_wrong_kind_is_a_warning(registry: Registry, write: Any) -> None:
    tags = ", ".join(f"tag{number}" for number in range(30))
    result = registry.install(str(write(header=f"license: {'x' * 200}\ntags: [{tags}]\nhomepage: not an address\n"))).results[0]
    assert result.status == "installed"


@pytest.mark.row("D-4", "003-3")
def test_a_name_without_latin_letters_takes_the_folders_name(registry: Registry, tmp_path: Path) -> None:
    folder = tmp_path / "weather-query"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: 天气查询\ndescription: 查询天气\n---\n正文\n", "utf-8")
    assert registry.install(str(folder)).results[0].skill_id == "weather-query"
    packed = pack(folder, tmp_path / "wetter.zip").path
    assert registry.install(str(packed)).results[0].skill_id == "wetter"


@pytest.mark.row("D-3")
@pytest.mark.parametrize("name", ["../../etc", "/abs", "..", ".", "a/b", "", "current/../x", "A", ".work"])
def test_no_name_leads_out_of_the_folder(name: str, registry: Registry) -> None:
    with pytest.raises(InvalidInput):
        registry.storage.versions.home(name)
    with pytest.raises(InvalidInput):
        registry.storage.versions.path("tidy", name if name != "A" else "../A")
    with pytest.raises(SkillyardError):
        registry.uninstall(name or " ")


@pytest.mark.row("D-3")
def test_a_skill_id_that_climbs_becomes_a_plain_name(registry: Registry, write: Any) -> None:
    result = registry.install(str(write(header="skill_id: ../../etc\n"))).results[0]
    assert result.skill_id == "etc"
    assert (registry.root / "etc" / "current" / "SKILL.md").is_file()


def test_of_several_skills_in_a_source_all_or_the_chosen_are_installed(registry: Registry, write: Any) -> None:
    for name in ("one", "two", "three"):
        write(name)
    source = str(write("one").parent)
    assert [result.skill_id for result in registry.install(source, skills=["two", "one"]).results] == ["two", "one"]
    with pytest.raises(NoSkillInside, match="four"):
        registry.install(source, skills=["four"])
    assert len(registry.install(source).results) == 3
    assert registry.installed.current("two").origin["path"] == "two"


def test_of_a_plugin_only_the_skills_that_it_offers_are_installed(registry: Registry, tmp_path: Path) -> None:
    plugin, schemas = tmp_path / "office", "https://agent-plugins.org/schemas/1.0.0"
    about = {"$schema": f"{schemas}/plugin.schema.json", "name": "office"}
    servers = {"$schema": f"{schemas}/mcp.schema.json", "mcpServers": {"db": {"type": "stdio", "command": "db"}}}
    texts = {"plugin.json": json.dumps(about), "mcp.json": json.dumps(servers)}
    for path, name in {"skills/pdf": "pdf", "skills/Odd": "odd", "skills/deep/er": "er", "docs/aside": "aside"}.items():
        texts[f"{path}/SKILL.md"] = f"---\nname: {name}\ndescription: Does it. Use when it is to be done.\n---\nDo it.\n"
    for path, text in texts.items():
        (plugin / path).parent.mkdir(parents=True, exist_ok=True)
        (plugin / path).write_text(text)
    (result,) = registry.install(str(plugin)).results
    assert (result.skill_id, [said.split(" ")[0] for said in result.warnings]) == ("pdf", ["skills/Odd", "the"])
    assert "not set up here: db" in result.warnings[-1]
    (plugin / "plugin.json").write_text(json.dumps(about | {"name": "Office"}))
    with pytest.raises(InvalidManifest, match="not a name of a plugin"):
        registry.install(str(plugin))


def test_when_one_of_several_is_refused_none_is_installed(registry: Registry, write: Any) -> None:
    write("good")
    (write("bad") / "SKILL.md").write_text("---\nname: bad\n---\n", "utf-8")
    with pytest.raises(InvalidSkill):
        registry.install(str(write("good").parent))
    assert registry.installed.skills() == ()
    assert {log.status for log in registry.installed.history()} == {"failed"}


def test_two_skills_of_one_name_in_a_source_are_told_apart_by_path(registry: Registry, write: Any, tmp_path: Path) -> None:
    for folder in ("a/tidy", "b/tidy"):
        target = tmp_path / "many" / folder
        target.parent.mkdir(parents=True)
        write().rename(target)
    with pytest.raises(AmbiguousSkill) as refused:
        registry.install(str(tmp_path / "many"))
    assert refused.value.hint == "choose one by its path: --skill a/tidy or --skill b/tidy"
    assert registry.install(str(tmp_path / "many"), skills=["b/tidy"]).results[0].origin["path"] == "b/tidy"


def test_a_file_that_cannot_be_read_stops_only_its_own_skill_and_says_which(registry: Registry, write: Any) -> None:
    write("good")
    with (write("huge") / "SKILL.md").open("r+b") as file:
        file.truncate(17 * 1024 * 1024)
    source = str(write("good").parent)
    with pytest.raises(FileTooLarge, match=r"^huge: 'SKILL.md' is over 1 MB$") as refused:
        registry.install(source)
    assert refused.value.hint is not None
    assert "--skill good" in refused.value.hint
    assert [result.skill_id for result in registry.install(source, skills=["good"]).results] == ["good"]


@pytest.mark.row("C-6")
def test_local_edits_are_not_overwritten(registry: Registry, write: Any) -> None:
    folder = write()
    first = registry.install(str(folder)).results[0]
    edited = registry.storage.versions.path("tidy", first.version or "") / "SKILL.md"
    edited.chmod(0o644)
    edited.write_text(edited.read_text("utf-8") + "mine\n", "utf-8")
    write(body="newer")
    with pytest.raises(LocalEdits):
        registry.install(str(folder))
    with pytest.raises(LocalEdits):
        registry.uninstall("tidy", prune=True)
    assert registry.install(str(folder), force=True).results[0].status == "updated"
    for number in range(6):
        write(body=str(number))
        registry.install(str(folder))
    assert edited.read_text("utf-8").endswith("mine\n")


def test_a_link_in_a_folder_is_refused_and_what_is_never_packed_is_left_out(registry: Registry, write: Any) -> None:
    folder = write(files={"__pycache__/x.pyc": "x", ".git/config": "x"})
    result = registry.install(str(folder)).results[0]
    assert {path.name for path in registry.storage.versions.path("tidy", result.version or "").iterdir()} == {"SKILL.md"}
    (folder / "secret").symlink_to("/etc/passwd")
    with pytest.raises(LinkNotAllowed):
        registry.install(str(folder))


def test_another_digest_than_expected_is_refused(registry: Registry, write: Any) -> None:
    folder = write()
    with pytest.raises(DigestMismatch):
        registry.install(str(folder), expected={"tidy": "sha256:" + "0" * 64})
    assert registry.install(str(folder), expected={"tidy": tree_digest(folder)}).results[0].status == "installed"


def test_what_a_scanner_says_is_advice_and_is_kept(data: Path, write: Any) -> None:
    class Found:
        def to_dict(self) -> dict[str, object]:
            return {"rule": "x", "message": "it smells"}

    def scan(directory: Path) -> list[Found]:
        assert (directory / "SKILL.md").is_file()
        return [Found()]

    seen: list[ProgressEvent] = []
    registry = Registry(str(data), scanner=scan)
    result = registry.install(str(write()), progress=seen.append).results[0]
    assert result.findings == ({"rule": "x", "message": "it smells"},)
    assert result.warnings == ()
    assert "scan" in [event.step for event in seen]
    registry.close()


def test_grave_findings_stop_an_install_unless_they_are_accepted_or_known(data: Path, write: Any) -> None:
    class Found:
        def to_dict(self) -> dict[str, object]:
            where = {"file": "SKILL.md", "line": 5, "evidence": "x | y", "message": "it smells"}
            return {"rule": "secret-to-network", "severity": "high", **where}

    registry = Registry(str(data), scanner=lambda directory: [Found()])
    with pytest.raises(GraveFindings, match=r"tidy/SKILL.md:5 secret-to-network: it smells") as refused:
        registry.install(str(write()))
    assert refused.value.details["rules"] == ["secret-to-network"]
    assert [refusal.code for refusal in registry.inspect(str(write()))[0].refusals] == ["grave_findings"]
    assert registry.installed.skills() == ()
    assert registry.install(str(write()), accept=["secret-to-network"]).results[0].status == "installed"
    assert registry.install(str(write(body="Another text."))).results[0].status == "updated"  # it was accepted before
    trail = [one for one in AuditLog(lambda: registry.records.database).events() if one.action == "accept"]
    assert [one.details["findings"] for one in trail if one.details] == [["secret-to-network SKILL.md:5"]]  # once, by name
    registry.close()


def test_the_operator_says_who_may_accept_findings(data: Path, write: Any) -> None:
    class Found:
        def to_dict(self) -> dict[str, object]:
            return {"rule": "secret-to-network", "severity": "high", "file": "SKILL.md", "line": 5, "message": "it smells"}

    registry = Registry(str(data), scanner=lambda directory: [Found()])
    registry._scan_settings = ({"accept-by": ["carol", "admin"]}, "skillyard.toml")
    with acting_as(Actor("ada", member=True, scopes=("skills:write",))):
        with pytest.raises(GraveFindings):
            registry.install(str(write()))
        with pytest.raises(PermissionDenied, match="accepting what the scanner found needs carol or admin"):
            registry.install(str(write()), accept=["secret-to-network"])
    assert registry.installed.skills() == ()
    with acting_as(Actor("carol", member=True, scopes=("skills:write",))):
        assert registry.install(str(write()), accept=["secret-to-network"]).results[0].status == "installed"
    (accepted,) = [one for one in AuditLog(lambda: registry.records.database).events() if one.action == "accept"]
    assert (accepted.actor, accepted.subject.partition("@")[0]) == ("carol", "tidy")
    registry._scan_settings = ({"accept-by": ["skills:everything"]}, "skillyard.toml")
    with pytest.raises(InvalidConfiguration, match=r"scan\.accept-by"):
        registry.install(str(write("other")))
    registry.close()


def test_threads_of_one_registry_take_turns(registry: Registry, write: Any) -> None:
    folder = str(write())
    statuses: list[str] = []
    threads = [threading.Thread(target=lambda: statuses.append(registry.install(folder).results[0].status)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(statuses) == ["installed", *["unchanged"] * 5]


def test_nothing_is_left_of_a_refused_install(registry: Registry, write: Any, tmp_path: Path) -> None:
    broken = tmp_path / "broken.zip"
    broken.write_bytes(b"PK\x03\x04" + os.urandom(100))
    for source in (str(broken), str(tmp_path)):
        with pytest.raises(SkillyardError):
            registry.install(source)
    assert [path.name for path in registry.storage.operations.folder.iterdir()] == ["gate"]
    assert [log.status for log in registry.installed.history()] == ["failed", "failed"]


def test_a_step_that_failed_is_timed_too(registry: Registry, write: Any) -> None:
    registry.install(str(write()))
    write(files={"scripts/execute.py": "print(1)"})
    with pytest.raises(ConsentRequired):
        registry.install(str(write()))
    log = registry.installed.history()[0]
    assert (log.status, log.step) == ("failed", "consent")
    assert log.steps[-1]["name"] == "consent"
    assert all(isinstance(step["duration_ms"], int) for step in log.steps)


def test_the_time_of_one_of_many_holds_no_other_ones_turn(registry: Registry, write: Any, tmp_path: Path) -> None:
    for number in range(6):
        folder = tmp_path / "many" / f"s{number}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: s{number}\ndescription: One of many. Use it.\n---\n")
    registry.install(str(tmp_path / "many"))
    for log in registry.installed.history():
        assert log.duration_ms == sum(int(str(step["duration_ms"])) for step in log.steps)
