"""The files of a skill: which there are, what class they have, and which can be read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.catalog import Skill, SkillCatalog
from skillyard.errors import FileMissing, FileTooLarge, PathRefused, SkillyardError

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


@pytest.fixture
def pdf(skills_root: Path, make_skill: Any) -> Skill:
    """A skill like the real ones, and a neighbour whose name begins the same."""
    make_skill(
        skills_root,
        "pdf",
        body="See FORMS.md and REFERENCE.md.\n",
        files={
            "forms.md": "# Forms\n",
            "reference.md": "# Reference\n",
            "LICENSE.txt": "Apache",
            "requirements.txt": "pypdf\n",
            "scripts/fill.py": "print(1)\n",
            "scripts/lib/deep.sh": "true\n",
            "scripts/data.json": "{}",
            "references/more.txt": "more",
            "templates/letter.docx": b"PK\x03\x04\x00",
            "themes/template-dark.css": "a{}",
            "core/run.mjs": "1",
            "assets/logo.png": PNG,
            "canvas-fonts/a.ttf": b"\0\x01\0\0rest\xff",
            "latin1.txt": "caf\xe9".encode("latin-1"),
            "utf16.txt": "wide".encode("utf-16"),
            "empty.txt": "",
            ".env": "SECRET=1",
            ".env.local": "SECRET=2",
            ".ssh/id_rsa": "key",
            "keys/ID_RSA": "key",
            ".git/config": "[core]",
            ".gitignore": "x",
            "node_modules/x/index.js": "1",
            "dist/built.js": "1",
            "package-lock.json": "{}",
            "big.txt": b"x" * (1024 * 1024 + 1),
        },
    )
    make_skill(skills_root, "pdf-evil", files={"secret.txt": "secret"})
    return SkillCatalog.discover(roots=[skills_root], cache=False).get("config:pdf")


@pytest.mark.row("001-10")
def test_the_files_are_listed_with_their_type_without_skill_md_and_build_output(pdf: Skill) -> None:
    types = {file.name: file.type for file in pdf.files()}
    assert types == {
        "LICENSE.txt": "other",
        "assets/logo.png": "other",
        "big.txt": "other",
        "canvas-fonts/a.ttf": "other",
        "core/run.mjs": "other",
        "empty.txt": "other",
        "forms.md": "markdown",
        "latin1.txt": "other",
        "reference.md": "markdown",
        "references/more.txt": "other",
        "requirements.txt": "other",
        "scripts/data.json": "other",
        "scripts/fill.py": "script",
        "scripts/lib/deep.sh": "script",
        "templates/letter.docx": "template",
        "themes/template-dark.css": "template",
        "utf16.txt": "other",
    }
    assert list(types) == sorted(types)
    (script,) = [file for file in pdf.files() if file.name == "scripts/fill.py"]
    assert (script.path, script.size) == (f"{pdf.directory}/scripts/fill.py", 9)


@pytest.mark.row("003-5", "003-6", "C-19", "000-5", "D-8")
def test_the_inventory_counts_and_classes_the_files(skills_root: Path, make_skill: Any) -> None:
    folder = make_skill(
        skills_root,
        "inv",
        files={
            "REFERENCE.md": "r",
            "reference/more.md": "r",
            "references/data.csv": "1",
            "examples/one.md": "r",
            "scripts/a.py": "a",
            "scripts/schema.json": "{}",
            "run.sh": "true",
            "templates/t.md": "t",
            "template.html": "t",
            "assets/icon.png": PNG,
        },
    )
    inventory = SkillCatalog.discover(roots=[skills_root]).get("inv").inventory()
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert inventory.to_dict() == {
        "hasSkillMd": True,
        "hasScripts": True,
        "hasReferences": True,
        "scriptFiles": ["run.sh", "scripts/a.py", "scripts/schema.json"],
        "referenceFiles": ["REFERENCE.md", "examples/one.md", "reference/more.md", "references/data.csv"],
        "templateFiles": ["template.html", "templates/t.md"],
        "totalFiles": 11,
        "totalSizeBytes": total,
    }


@pytest.mark.row("003-5")
def test_a_bare_skill_has_a_bare_inventory(skills_root: Path, make_skill: Any) -> None:
    make_skill(skills_root, "bare")
    inventory = SkillCatalog.discover(roots=[skills_root]).get("bare").inventory()
    assert (inventory.has_scripts, inventory.has_references, inventory.total_files) == (False, False, 1)


@pytest.mark.row("003-10", "D-10", "C-19", "001-20", "001-21")
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("SKILL.md", None),
        ("forms.md", "# Forms\n"),
        ("LICENSE.txt", "Apache"),
        ("requirements.txt", "pypdf\n"),
        ("core/run.mjs", "1"),
        ("themes/template-dark.css", "a{}"),
        ("dist/built.js", "1"),
        ("./scripts//lib/deep.sh", "true\n"),
        ("latin1.txt", "caf\xe9"),
        ("utf16.txt", "wide"),
        ("empty.txt", ""),
        (".gitignore", "x"),
    ],
)
def test_every_text_file_of_the_skill_can_be_read(pdf: Skill, path: str, text: str | None) -> None:
    content = pdf.read_file(path)
    assert not content.binary
    assert content.media_type.startswith("text/")
    assert content.text == text if text is not None else "See FORMS.md" in (content.text or "")


@pytest.mark.row("003-10")
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("assets/logo.png", "image/png"),
        ("canvas-fonts/a.ttf", "font/ttf"),
        ("templates/letter.docx", "application/zip"),
    ],
)
def test_a_binary_file_is_answered_as_binary_with_size_and_kind(pdf: Skill, path: str, kind: str) -> None:
    content = pdf.read_file(path)
    assert (content.binary, content.text, content.media_type) == (True, None, kind)
    assert content.size == (Path(pdf.directory) / path).stat().st_size


@pytest.mark.row("D-11")
@pytest.mark.parametrize(("asked", "found"), [("FORMS.md", "forms.md"), ("Scripts/Fill.PY", "scripts/fill.py")])
def test_a_path_in_the_wrong_case_is_found_when_only_one_fits_and_says_so(pdf: Skill, asked: str, found: str) -> None:
    content = pdf.read_file(asked)
    assert content.path == found
    assert content.note == f"{asked!r} was found as {found!r}"
    assert pdf.read_file(found).note is None


@pytest.mark.row("D-11")
def test_a_path_in_the_wrong_case_that_fits_two_files_is_missing(pdf: Skill) -> None:
    for name in ("Readme.txt", "readme.TXT"):
        (Path(pdf.directory) / name).write_text(name)
    with pytest.raises(FileMissing) as caught:
        pdf.read_file("README.txt")
    assert caught.value.details["candidates"] == ["Readme.txt", "readme.TXT"]


@pytest.mark.row("003-10")
def test_a_missing_file_lists_near_names(pdf: Skill) -> None:
    with pytest.raises(FileMissing) as caught:
        pdf.read_file("scripts/fil.py")
    assert "scripts/fill.py" in caught.value.details["candidates"]
    with pytest.raises(FileMissing) as caught:
        pdf.read_file("fill.py")
    assert "scripts/fill.py" in caught.value.details["candidates"]
    with pytest.raises(FileMissing, match="is a folder") as caught:
        pdf.read_file("scripts")
    assert caught.value.details["candidates"] == ["scripts/data.json", "scripts/fill.py", "scripts/lib/deep.sh"]
    with pytest.raises(FileMissing) as caught:
        pdf.read_file("zzzzzz")
    assert not any(".env" in name or ".ssh" in name for name in caught.value.details["candidates"])


@pytest.mark.row("D-2", "001-20", "003-10")
@pytest.mark.parametrize(
    "path",
    [
        "../pdf-evil/secret.txt",
        "scripts/../../pdf-evil/secret.txt",
        "/etc/passwd",
        "~/secret",
        "",
        ".",
        "a\\..\\b",
        "a\0b",
        ".env",
        ".ENV.local",
        ".env.local",
        ".ssh/id_rsa",
        "keys/ID_RSA",
        "keys/id_rsa",
        ".git/config",
    ],
)
@pytest.mark.abuse("G19")
def test_a_path_that_leaves_the_skill_or_names_a_secret_is_refused(pdf: Skill, path: str) -> None:
    with pytest.raises(PathRefused) as caught:
        pdf.read_file(path)
    assert caught.value.hint


@pytest.mark.row("D-2")
def test_climbing_out_is_refused_with_the_words_of_the_document(pdf: Skill) -> None:
    with pytest.raises(PathRefused, match="path traversal detected"):
        pdf.read_file("../pdf-evil/secret.txt")


@pytest.mark.row("D-2", "003-10")
def test_a_link_is_read_only_when_it_stays_inside_and_names_no_secret(pdf: Skill, tmp_path: Path) -> None:
    folder = Path(pdf.directory)
    (folder / "inside.md").symlink_to("forms.md")
    (folder / "outside.md").symlink_to(folder.parent / "pdf-evil/secret.txt")
    (folder / "sneaky.md").symlink_to(".env")
    (folder / "way-out").symlink_to(folder.parent / "pdf-evil")
    (folder / "loop.md").symlink_to("loop.md")
    assert pdf.read_file("inside.md").text == "# Forms\n"
    for path in ("outside.md", "sneaky.md", "way-out/secret.txt", "loop.md"):
        with pytest.raises(SkillyardError):
            pdf.read_file(path)
    names = {file.name for file in pdf.files()}
    assert "inside.md" in names
    assert not names & {"outside.md", "sneaky.md", "way-out", "way-out/secret.txt", "loop.md"}


@pytest.mark.row("003-10")
def test_a_file_over_the_limit_is_refused(pdf: Skill) -> None:
    with pytest.raises(FileTooLarge):
        pdf.read_file("big.txt")
    assert pdf.read_file("big.txt", limit=2 * 1024 * 1024).size == 1024 * 1024 + 1
    with pytest.raises(FileTooLarge):
        pdf.read_file("forms.md", limit=3)


@pytest.mark.abuse("G19")
def test_a_pipe_in_a_skill_is_refused_at_once(pdf: Skill) -> None:
    os.mkfifo(Path(pdf.directory) / "pipe")
    with pytest.raises(PathRefused):
        pdf.read_file("pipe")
    assert "pipe" not in {file.name for file in pdf.files()}
    assert pdf.digest().startswith("sha256:")


def test_a_skill_behind_a_linked_folder_is_readable(tmp_path: Path, make_skill: Any) -> None:
    make_skill(tmp_path / "real", "far", files={"a.md": "a"})
    (tmp_path / "root").mkdir()
    (tmp_path / "root/far").symlink_to(tmp_path / "real/far")
    skill = SkillCatalog.discover(roots=[tmp_path / "root"]).get("far")
    assert skill.read_file("a.md").text == "a"
    assert skill.document().usable


PARTS = st.sampled_from(
    ["..", ".", "", "a", "A", "secret.txt", "link", "out", "pdf-evil", "SKILL.md", ".env", "~", "\\", "\0", "ü"]
)


@pytest.mark.row("D-2", "003-10")
@given(parts=st.lists(PARTS, max_size=6), lead=st.sampled_from(["", "/", "./"]))
def test_no_path_whatever_reads_a_file_outside_the_skill(
    parts: list[str], lead: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.getbasetemp() / "contained"
    if not root.exists():
        (root / "pdf/a").mkdir(parents=True)
        (root / "pdf-evil").mkdir()
        (root / "pdf/SKILL.md").write_text("---\nname: pdf\ndescription: inside\n---\ninside\n")
        (root / "pdf/a/A").write_text("inside")
        (root / "pdf/.env").write_text("OUTSIDE")
        for place in (root / "secret.txt", root / "pdf-evil/secret.txt", root / "pdf-evil/SKILL.md"):
            place.write_text("OUTSIDE")
        (root / "pdf/link").symlink_to(root / "pdf-evil")
        (root / "pdf/a/out").symlink_to(root / "secret.txt")
    skill = SkillCatalog.discover(roots=[root / "pdf"], cache=False).get("pdf")
    try:
        content = skill.read_file(lead + "/".join(parts))
    except SkillyardError:
        return
    assert b"inside" in content.data
