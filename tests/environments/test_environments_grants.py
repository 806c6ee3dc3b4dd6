"""Grants: the operator's tables, recorded consents, one run; a project grants nothing, and a bad file is an error."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skillyard import Catalog
from skillyard.catalog.configuration import load_configuration
from skillyard.environments import EnvironmentRequest, GrantStore, SkillGrant
from skillyard.errors import DependenciesUnavailable, InvalidConfiguration, InvalidInput
from skillyard.files import locked
from skillyard.sandbox import Policy, effective_policy


def configured(tmp_path: Path, text: str) -> GrantStore:
    file = tmp_path / "skillyard.toml"
    file.write_text(text, "utf-8")
    return GrantStore.configured(load_configuration([], user_file=str(file)), str(tmp_path))


@pytest.fixture
def catalog(skills_root: Path, make_skill, home: Path) -> Catalog:
    make_skill(skills_root, "pdf")
    return Catalog.discover(roots=[skills_root])


def test_the_operator_grants_in_a_table_of_the_skill(tmp_path: Path, catalog: Catalog) -> None:
    text = '[skills]\nprofile = "minimal"\n[skills.pdf]\npackages = ["pypdf"]\nnpm = ["docx@9"]\n'
    text += 'programs = ["qpdf"]\nbuild = true\n'
    book = configured(tmp_path, text)
    assert book.granted(catalog.get("pdf")) == SkillGrant(("pypdf",), ("docx@9",), ("qpdf",), True)


def test_registries_are_granted_to_one_skill_and_are_the_hosts_of_the_operator(tmp_path: Path, catalog: Catalog) -> None:
    book = configured(tmp_path, "[skills.pdf]\nregistries = true\n")
    grant = book.granted(catalog.get("pdf"))
    assert grant.registries
    assert grant.merged(SkillGrant(("pypdf",))).registries
    settings = {"package-index": "https://me:secret@pypi.corp.test/simple", "npm-registry": "https://npm.corp.test"}
    given = EnvironmentRequest(grant=grant, settings=settings)()
    hosts = ("https://pypi.corp.test:443", "https://npm.corp.test:443")
    raised = given.raised(Policy())
    assert (raised.network_allowlist, raised.trusted_hosts, raised.private_networks) == (hosts, hosts, False)
    assert given.variables["npm_config_registry"] == "https://npm.corp.test"
    assert "secret" not in str(given.variables)
    assert not given.raised(Policy(), fixed=frozenset({"network"})).reaches_network, "the operator allows no network at all"
    declares = effective_policy(given.raised(Policy()), Policy.ceiling())
    assert declares.trusted_hosts == (), "only the operator's ceiling can say whom to trust"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[skills.pdf]\npackages = "pypdf"\n', "skills.pdf.packages must be a list of Python packages"),
        ('[skills.pdf]\npackage = ["pypdf"]\n', "skills.pdf.package must be one of packages, npm, programs, build"),
        ('[skills.pdf]\npackages = ["https://x.test/y"]\n', "not a package by name"),
        ('[skills.pdf]\nprograms = ["/bin/sh"]\n', "not the name of a program"),
        ('[skills]\npdf = ["pypdf"]\n', "skills.pdf must be one of paths"),
    ],
)
def test_a_table_that_cannot_be_meant_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message) as caught:
        configured(tmp_path, text)
    assert caught.value.details["key"].startswith("skills.pdf")


def test_a_project_grants_nothing(tmp_path: Path) -> None:
    (tmp_path / "skillyard.toml").write_text('[skills.pdf]\npackages = ["pypdf"]\n')
    with pytest.raises(InvalidConfiguration, match="a project may not grant packages and programs") as caught:
        load_configuration([str(tmp_path)], user_file="/home/me/skillyard.toml")
    assert "/home/me/skillyard.toml" in (caught.value.hint or "")


def test_a_consent_is_recorded_taken_back_and_belongs_to_one_skill(tmp_path: Path, catalog: Catalog, make_skill) -> None:
    book = GrantStore(data=str(tmp_path))
    book.change(catalog.get("pdf"), lambda had: had.merged(SkillGrant.from_words(["pypdf", "npm:docx"])))
    assert GrantStore(data=str(tmp_path)).granted(catalog.get("pdf")).words == ("pypdf", "npm:docx")
    make_skill(tmp_path / "elsewhere", "pdf")
    other = Catalog.discover(roots=[tmp_path / "elsewhere"]).get("pdf")
    assert not book.granted(other)
    book.change(catalog.get("pdf"), lambda _: SkillGrant())
    assert json.loads((tmp_path / "environments.json").read_text("utf-8")) == {"skills": {}}


def test_no_more_is_recorded_than_is_read_again(tmp_path: Path, catalog: Catalog) -> None:
    book, skill = GrantStore(data=str(tmp_path)), catalog.get("pdf")
    book.change(skill, lambda had: had.merged(SkillGrant(tuple(f"first{number}" for number in range(150)))))
    with pytest.raises(InvalidInput, match="201 packages or programs are too many"):
        book.change(skill, lambda had: had.merged(SkillGrant(tuple(f"second{number}" for number in range(51)))))
    assert len(GrantStore(data=str(tmp_path)).recorded(skill).packages) == 150
    book.change(skill, lambda had: had.merged(SkillGrant(tuple(f"second{number}" for number in range(50)))))
    assert len(GrantStore(data=str(tmp_path)).recorded(skill).packages) == 200
    with pytest.raises(InvalidInput, match="201 packages"):  # and before anything is downloaded
        catalog.grants().allow(catalog.get("pdf"), SkillGrant(tuple(f"third{number}" for number in range(201))))


def test_the_grants_of_all_skills_together_stay_readable(
    tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillyard.environments.grants._LARGEST", 1000)
    book, skill = GrantStore(data=str(tmp_path)), catalog.get("pdf")
    book.change(skill, lambda _: SkillGrant(("pypdf",)))
    with pytest.raises(InvalidInput, match="over 1000 bytes"):
        book.change(skill, lambda had: had.merged(SkillGrant(tuple(f"package{number}" for number in range(100)))))
    assert GrantStore(data=str(tmp_path)).granted(skill).words == ("pypdf",)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"skills": []}', '{"skills": {"x": {"packages": ["-r x"]}}}', '{"skills": {"x": 1}}']
)
def test_a_file_of_consents_that_is_damaged_is_an_error(tmp_path: Path, catalog: Catalog, text: str) -> None:
    (tmp_path / "environments.json").write_text(text)
    with pytest.raises(InvalidConfiguration, match=r"environments\.json"):
        GrantStore(data=str(tmp_path)).granted(catalog.get("pdf"))


def test_nothing_is_granted_when_it_cannot_be_installed(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillyard.environments.locked_packages.find_uv", lambda: None)
    with pytest.raises(DependenciesUnavailable, match="needs uv"):
        catalog.grants().allow(catalog.get("pdf"), SkillGrant(("pypdf",)))
    assert not catalog.grants().granted(catalog.get("pdf"))


def test_what_is_allowed_is_there_for_the_next_run_and_can_be_revoked(skills_root: Path, make_skill) -> None:
    make_skill(skills_root, "pdf")
    catalog = Catalog.discover(roots=[skills_root])
    catalog.grants().allow(catalog.get("pdf"), SkillGrant.from_words(["program:qpdf", "program:pdftotext"]))
    assert catalog.grants().granted(catalog.get("pdf")).programs == ("qpdf", "pdftotext")
    assert catalog.grants().revoke(catalog.get("pdf"), SkillGrant.from_words(["program:qpdf"])).words == ("program:pdftotext",)
    assert not catalog.grants().revoke(catalog.get("pdf"))


def at_once(monkeypatch: pytest.MonkeyPatch, *changes: Callable[[], object]) -> None:
    """Make the changes in threads that all have come to the lock before one of them gets it."""
    all_there = threading.Barrier(len(changes))

    @contextmanager
    def locked_together(path: Path) -> Iterator[None]:
        all_there.wait(20)
        with locked(path):
            yield

    monkeypatch.setattr("skillyard.files.locked", locked_together)
    threads = [threading.Thread(target=change) for change in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)


def test_grants_that_are_allowed_and_revoked_at_once_are_all_kept(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    pdf, qpdf, dot = (SkillGrant.from_words([f"program:{name}"]) for name in ("pdftotext", "qpdf", "dot"))
    catalog.grants().allow(catalog.get("pdf"), pdf)
    at_once(
        monkeypatch,
        lambda: catalog.grants().allow(catalog.get("pdf"), qpdf),
        lambda: catalog.grants().revoke(catalog.get("pdf"), pdf),
        lambda: catalog.grants().allow(catalog.get("pdf"), dot),
    )
    assert set(catalog.grants().granted(catalog.get("pdf")).programs) == {"qpdf", "dot"}
