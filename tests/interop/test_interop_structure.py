"""Packages: what a folder lacks, which protocols it can be offered in, and the exit codes of the script."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skillyard.cli import main
from skillyard.errors import InvalidInput
from skillyard.interop import ProtocolCompatibility, check_package, check_protocol_compatibility, validate_package_structure

WHOLE = "skill_id: whole\nname: Whole\nversion: 1.0.0\ndescription: Does it."
MANIFEST = {"skill_id": "whole", "name": "Whole", "version": "1.0.0"}


@pytest.mark.row("002-13", "002-14", "D-8")
def test_a_package_without_a_manifest_is_valid_with_a_warning(tmp_path: Path, make_skill: Any) -> None:
    folder = make_skill(tmp_path, "whole", front_matter=WHOLE, files={"scripts/tool.py": "1", "references/a.md": "a"})
    reported = validate_package_structure(folder).to_dict()
    size = (folder / "SKILL.md").stat().st_size + 2
    assert reported == {
        "valid": True,
        "errors": [],
        "warnings": ["Missing recommended file: manifest.json", "No entry file found in scripts/ directory"],
        "details": {
            "hasSkillMd": True,
            "hasManifestJson": False,
            "hasScripts": True,
            "hasReferences": True,
            "hasAssets": False,
            "fileCount": 3,
            "totalSizeBytes": size,
        },
    }


@pytest.mark.row("002-13")
def test_what_is_missing_or_wrong_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"name": "x"}')
    errors = validate_package_structure(tmp_path).errors
    assert errors[0] == "Missing required file: SKILL.md"
    assert errors[1].startswith("Invalid manifest.json: Manifest validation failed: skill_id: is required")
    (tmp_path / "SKILL.md").write_bytes(b"\n")
    assert "SKILL.md is empty" in validate_package_structure(tmp_path).errors
    with pytest.raises(InvalidInput):
        validate_package_structure(tmp_path / "nowhere")


@pytest.mark.row("002-15", "D-32")
def test_codex_is_another_question_than_semibot() -> None:
    said = {"skill_id": "x", "name": "X", "version": "1.0.0", "description": "d"}
    assert check_protocol_compatibility(said) == ProtocolCompatibility(
        False, True, True, ("Missing Anthropic compatibility fields (anthropic or container)",)
    )
    bare = check_protocol_compatibility(MANIFEST, has_skill_md=False)
    assert (bare.anthropic, bare.codex, bare.semibot) == (False, False, True)
    assert bare.issues == (
        "Missing Anthropic compatibility fields (anthropic or container)",
        "Missing Codex compatibility fields",
    )
    described = check_protocol_compatibility(MANIFEST | {"description": "d", "container": {"skills": []}}, has_skill_md=True)
    assert described.to_dict() == {"anthropic": True, "codex": True, "semibot": True, "issues": []}
    assert "Missing Semibot required fields" in check_protocol_compatibility({}, has_skill_md=True).issues


@pytest.mark.row("002-17")
def test_the_script_frames_its_report_and_leaves_with_a_code(tmp_path: Path, make_skill: Any) -> None:
    good = make_skill(tmp_path, "whole", front_matter=WHOLE)
    (tmp_path / "empty").mkdir()

    def script(*folders: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "skillyard.interop", *folders], capture_output=True, text=True, timeout=60)

    assert (script(good).returncode, script(good, tmp_path / "empty").returncode, script().returncode) == (0, 1, 2)
    assert script(good).stdout.startswith("=" * 60 + "\n")
    assert script(tmp_path / "nowhere").returncode == 2


@pytest.mark.row("002-17")
def test_the_command_says_the_same(tmp_path: Path, make_skill: Any, capsys: pytest.CaptureFixture[str]) -> None:
    good = make_skill(tmp_path, "whole", front_matter=WHOLE)
    assert main(["check", "--package", str(good), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["packages"] == [check_package(good).to_dict()]
    (good / "SKILL.md").unlink()
    assert main(["check", "--package", str(good)]) == 1
    assert "error: Missing required file: SKILL.md" in capsys.readouterr().out
    assert main(["check", "--package"]) == 2
