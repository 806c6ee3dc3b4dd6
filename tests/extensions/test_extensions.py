"""Packages extend Skillyard by entry points: sources, fields, permission checks and styles; a failure names the extension."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog, Rules, SkillyardError, check_document
from skillyard.cli import main
from skillyard.doctor import check_machine
from skillyard.errors import ExtensionFailed, InvalidConfiguration, InvalidInput, InvalidSource
from skillyard.extensions import Extensions
from skillyard.packages import resolve

PACKAGE = Path(__file__).with_name("example_package")


@pytest.fixture(autouse=True)
def acme(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(PACKAGE))
    yield
    sys.modules.pop("acme_skillyard", None)


@pytest.fixture
def settings(home: Path) -> Path:
    file = home / ".config/skillyard/skillyard.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def test_extensions_are_found_without_importing_them() -> None:
    ours = [one for one in Extensions().every() if one.package == "acme-skillyard"]
    assert [one.key for one in ours] == [
        "source:acme", "source:emptyhanded", "field:team", "field:weather", "permission:office",
        "style:bullets", "style:missing",
    ]  # fmt: skip
    assert {one.version for one in ours} == {"1.2"}
    assert "acme_skillyard" not in sys.modules


@pytest.mark.row("001-28")
def test_a_source_of_an_extension_is_installed_from_and_kept_as_the_origin(home: Path, tmp_path: Path) -> None:
    catalog = Catalog.discover(cwd=tmp_path)
    (result,) = catalog.registry().install("acme:pdf@2.0.0").results
    assert result.skill_id == "pdf"
    assert result.origin["kind"] == "extension"
    assert result.origin["address"] == "acme:pdf@2.0.0"
    catalog.refresh()
    assert catalog.get("installed:pdf").description == "From the shelf."
    with pytest.raises(ExtensionFailed, match=r"source:emptyhanded of acme-skillyard 1\.2 failed: it fetched nothing for 'x'"):
        catalog.registry().install("emptyhanded:x")


def test_a_source_that_nobody_reads_is_no_source() -> None:
    with pytest.raises(InvalidSource, match="neither an existing path nor an address"):
        resolve("nobody:pdf")


@pytest.mark.row("001-28")
def test_a_field_of_an_extension_is_checked_and_one_that_fails_is_named(capsys: Any, make_skill: Any, tmp_path: Path) -> None:
    text = b"---\nname: a\ndescription: B.\nteam: sales\nweather: fine\n---\nDo it.\n"
    found = [one for one in check_document(text, extensions=Extensions()) if "extension" in one.rule]
    assert [(one.rule, one.severity, one.line) for one in found] == [
        ("field-of-extension", "error", 4), ("extension-failed", "warning", 5),
    ]  # fmt: skip
    assert found[0].message == "`team`: there is no team 'sales', only billing and search"
    assert "field:weather of acme-skillyard 1.2 failed: RuntimeError: no weather for 'fine'" in found[1].message
    assert [one.rule for one in check_document(text) if "extension" in one.rule] == []
    make_skill(tmp_path, "good", front_matter="name: good\ndescription: Good.\nteam: billing")
    make_skill(tmp_path, "bad", front_matter="name: bad\ndescription: Bad.\nteam: sales")
    assert main(["check", str(tmp_path / "good")]) == 0
    assert main(["check", str(tmp_path / "bad")]) == 1
    assert "field-of-extension" in capsys.readouterr().out


@pytest.mark.row("001-28")
def test_a_permission_check_can_only_be_stricter_and_denies_when_it_fails(make_skill: Any, tmp_path: Path) -> None:
    for name in ("secret", "draft", "loud", "open", "plain"):
        make_skill(tmp_path, name)
    catalog = Catalog.discover(roots=tmp_path)
    assert {skill.name for skill in catalog} == {"draft", "open", "plain"}
    assert catalog.get("secret").reason == "the permission rule 'permission:office' denies it"
    assert str(catalog.get("loud").reason).startswith(
        "the extension permission:office of acme-skillyard 1.2 failed: ValueError"
    )
    rules = Rules.for_catalog(catalog, {"open": "ask"})
    assert {name: rules.decide(catalog.get(name)) for name in ("draft", "open", "plain")} == {
        "draft": "ask", "open": "ask", "plain": "allow",
    }  # fmt: skip


@pytest.mark.row("001-28")
def test_a_style_of_an_extension_writes_the_index_inside_the_budget(make_skill: Any, tmp_path: Path, capsys: Any) -> None:
    make_skill(tmp_path, "pdf", front_matter="name: pdf\ndescription: Fill in forms.")
    catalog = Catalog.discover(roots=tmp_path)
    index = catalog.prompt(style="bullets")
    assert index.text == "Skills of ours:\n* pdf <Fill in forms.> [config]\nThat is all.\n"
    assert type(index).from_dict(index.to_dict()).style == "bullets"
    assert "Fill in" not in catalog.prompt(style="bullets", budget=index.tokens - 2).text
    assert main(["prompt", "--style", "bullets", "--root", str(tmp_path)]) == 0
    assert "* pdf <" in capsys.readouterr().out
    with pytest.raises(InvalidInput, match="no index style 'other'"):
        catalog.prompt(style="other")
    with pytest.raises(ExtensionFailed, match=r"style:missing .* ModuleNotFoundError"):
        catalog.prompt(style="missing")


def test_doctor_lists_every_extension_and_settings_switch_them_off(settings: Path, tmp_path: Path, make_skill: Any) -> None:
    settings.write_text('[extensions]\noff = ["permission:office", "source:acme"]\n')
    make_skill(tmp_path, "secret")
    catalog = Catalog.discover(cwd=tmp_path, roots=tmp_path)
    assert [skill.name for skill in catalog] == ["secret"]
    with pytest.raises(InvalidSource, match="source:acme is not used here"):
        catalog.registry().install("acme:pdf")
    checks = {one.detail: one.status for one in check_machine(lambda: catalog) if one.name == "extension"}
    assert checks["permission:office of acme-skillyard 1.2: switched off by the settings"] == "ok"
    assert checks["field:team of acme-skillyard 1.2"] == "ok"
    assert [detail.split(" of ")[0] for detail, status in checks.items() if status == "error"] == [
        "the extension style:missing"
    ]
    settings.write_text("[extensions]\nenabled = false\n")
    catalog.refresh()
    assert catalog.configuration.extensions.of_kind("field") == ()
    (tmp_path / "skillyard.toml").write_text("[extensions]\nenabled = true\n")
    with pytest.raises(InvalidConfiguration, match="a project may not switch extensions"):
        Catalog.discover(cwd=tmp_path)


def test_a_source_may_not_have_the_name_of_other_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "sly-1.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: sly\nVersion: 1\n")
    info.joinpath("entry_points.txt").write_text("[skillyard.sources]\ngithub = acme_skillyard:fetch\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    sly = Extensions().find("source", "github")
    assert sly is not None
    with pytest.raises(SkillyardError, match="cannot name a source"):
        sly.load()
