"""A rule may say whose skill it means: by source, by signer, or by both; a namesake of somebody else does not profit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog
from skillyard.errors import InvalidInput, PermissionDenied, UnreachableRule
from skillyard.packages import Origin, SigningKey, Source, sign_tree
from skillyard.permissions import InstalledOrigins, Rules
from skillyard.permissions.origins import source_parts
from skillyard.registry import FetchedTree, Registry, SourceFetcher
from skillyard.tools import SkillTools

ACME = "deploy source=github:acme/skills"


@pytest.fixture
def registry(home: Path, make_skill: Any, tmp_path: Path) -> Iterator[Registry]:
    """The registry of the home; each git address publishes a skill `deploy`, signed where it is told so."""

    class Published:
        key: SigningKey | None = None

        def fetch(self, source: Source, into: Path) -> FetchedTree:
            folder = make_skill(tmp_path / source.address.rpartition("//")[2], "deploy", body=f"{source.address}\n")
            if self.key:
                sign_tree(folder, self.key)
            return FetchedTree(folder, Origin(source.kind, source.address), owned=False)

    made = Registry(str(home / "skillyard"), fetcher=SourceFetcher(others={"git": Published(), "mirror": Published()}))
    made.published = Published  # type: ignore[attr-defined] # for the tests that sign
    yield made
    made.close()


def _installed(project: Path) -> Any:
    (skill,) = [skill for skill in Catalog.discover(cwd=project).all() if skill.source == "installed"]
    return skill


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty project."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


def _decide(project: Path, patterns: dict[str, str]) -> str:
    catalog = Catalog.discover(cwd=project)
    return Rules.for_catalog(catalog, patterns).decide(_installed(project))


@pytest.mark.parametrize(
    ("address", "permission"),
    [
        ("https://github.com/acme/skills", "allow"),
        ("https://github.com/acme/skills.git", "allow"),
        ("ssh://git@github.com/acme/skills", "allow"),
        ("https://github.com/acme/skills-evil", "deny"),
        ("https://github.com/evil/skills", "deny"),
        ("https://evil.org/github.com/acme/skills", "deny"),
        ("https://github.com.evil.org/acme/skills", "deny"),
        ("http://github.com/acme/skills", "deny"),
    ],
)
@pytest.mark.abuse("F27")
def test_a_rule_with_a_source_trusts_no_namesake(address: str, permission: str, registry: Registry, project: Path) -> None:
    registry.install(Source("git", address))
    assert _decide(project, {ACME: "allow", "deploy": "deny"}) == permission


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("deploy source=github.com/acme", True), ("deploy source=github.com/*/skills", True), ("* source=installed", True),
        ("deploy source=github.com", True), ("deploy source=github.com/acme/other", False), ("deploy source=*/skills", False),
        ("deploy source=project", False), ("other source=github.com/acme", False),
        ("deploy source=https://github.com/acme", True),
    ],
)  # fmt: skip
def test_a_source_is_compared_part_by_part(pattern: str, fits: bool, registry: Registry, project: Path) -> None:
    registry.install(Source("git", "https://github.com/acme/skills"))
    assert _decide(project, {pattern: "ask"}) == ("ask" if fits else "allow")


@pytest.mark.abuse("F27")
def test_a_rule_with_a_signer_holds_as_long_as_the_signature_does(registry: Registry, project: Path) -> None:
    key = registry.published.key = SigningKey.new()  # type: ignore[attr-defined]
    registry.install(Source("git", "https://github.com/acme/skills"))
    patterns = {f"deploy signer={key.public}": "allow", "deploy": "deny"}
    assert _decide(project, patterns) == "allow"
    assert _decide(project, {f"deploy signer={SigningKey.new().public}": "allow", "deploy": "deny"}) == "deny"
    assert _decide(project, {f"deploy source=evil.org signer={key.public}": "allow", "deploy": "deny"}) == "deny"
    file = Path(_installed(project).directory).resolve() / "SKILL.md"
    file.chmod(0o644)
    file.write_text(file.read_text() + "More.\n")
    assert _decide(project, patterns) == "deny"


def test_a_skill_of_a_project_has_the_project_as_its_source(project: Path, make_skill: Any, home: Path) -> None:
    folder = make_skill(project / ".claude/skills", "deploy")
    catalog = Catalog.discover(cwd=project)
    skill = catalog.get("deploy")
    assert Rules.for_catalog(catalog, {ACME: "allow", "deploy": "deny"}).decide(skill) == "deny"
    assert Rules.for_catalog(catalog, {"deploy source=project": "ask"}).decide(skill) == "ask"
    key = SigningKey.new()
    sign_tree(folder, key)
    assert Rules.for_catalog(catalog, {f"* signer={key.public}": "allow", "*": "deny"}).decide(skill) == "allow"


@pytest.mark.abuse("F27")
def test_what_is_not_known_allows_nothing(registry: Registry, project: Path, tmp_path: Path) -> None:
    registry.install(Source("git", "https://github.com/acme/skills"))
    skill, patterns = _installed(project), {ACME: "allow", "* source=evil.org": "deny"}
    assert Rules(patterns).decide(skill) == "deny"
    assert Rules(patterns).decide("deploy") == "deny"
    assert Rules(patterns, origins=InstalledOrigins(str(tmp_path / "none"))).decide(skill) == "deny"
    assert Rules(patterns, origins=InstalledOrigins(str(tmp_path), "sqlite:////nowhere/at/all.db")).decide(skill) == "deny"
    assert _decide(project, patterns) == "allow"


@pytest.mark.abuse("F27")
async def test_every_way_to_a_skill_asks_for_its_source(registry: Registry, project: Path) -> None:
    (project / "skillyard.toml").write_text(f'[permissions.skills]\n"{ACME}" = "allow"\n"deploy" = "deny"\n')
    registry.install(Source("git", "https://github.com/evil/skills"))
    catalog = Catalog.discover(cwd=project)
    assert "deploy" not in catalog.prompt().text
    with pytest.raises(PermissionDenied):
        await catalog.run("deploy")
    answer = await SkillTools(catalog).call("skill", {"name": "deploy"})
    assert not answer.ok
    registry.install(Source("git", "https://github.com/acme/skills"), accept_source=True)
    again = Catalog.discover(cwd=project)
    assert "deploy" in again.prompt().text
    assert (await SkillTools(again).call("skill", {"name": "deploy"})).ok


@pytest.mark.parametrize(
    "pattern",
    [
        "source=github.com/a", "", "  ", "deploy source=", "deploy signer=me", "deploy source=a source=b",
        "deploy sorce=github.com/a", "deploy Source=github.com/a", "deploy source=github.com/a now", "deploy by=me source=a",
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_meant_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidInput):
        Rules({pattern: "allow"})


def test_a_rule_with_an_origin_is_unreachable_behind_a_wider_one_and_hides_no_wider_one() -> None:
    Rules({ACME: "allow", "deploy": "deny"})
    Rules({f"{ACME}/one": "deny", ACME: "allow"})
    for wide in ("deploy", "deploy source=github.com/acme", "*"):
        with pytest.raises(UnreachableRule):
            Rules({wide: "deny", ACME: "allow"})


def test_rules_that_trust_a_name_alone_are_listed() -> None:
    key = SigningKey.new().public
    patterns = {"a": "allow", "installed:b": "allow", "project:c": "allow", "d": "ask", "e source=x.org": "allow"}
    patterns |= {f"f signer={key}": "allow", "user:g": "allow", "h": "deny", "*": "allow"}
    assert Rules(patterns).allowed_by_name_alone() == ("a", "installed:b", "project:c")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("github:acme/skills", {"kind": "git", "address": "https://github.com/acme/skills.git"}),
        ("https://x.org/a/b.zip", {"kind": "address", "address": "https://x.org/a/b.zip"}),
        ("/srv/skills", {"kind": "folder", "address": "/srv/skills"}),
        ("/srv/skills/tidy", {"kind": "folder", "address": "/srv/skills", "path": "tidy"}),
        ("mirror:x.org/mirror", {"kind": "mirror", "address": "https://x.org/mirror"}),
        ("upload", {"kind": "upload", "address": "tidy.zip"}),
    ],
)
def test_a_source_is_written_as_the_registry_knows_it(one: str, other: dict[str, str]) -> None:
    assert source_parts(one) == source_parts(other)
