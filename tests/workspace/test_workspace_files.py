"""The file tools: they read, write, edit, list and search inside the sandbox, and refuse with a code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.errors import FileMissing, PathRefused, RecordNotFound
from skillyard.workspace import Workspace, WorkspaceFolder, Workspaces
from skillyard.workspace.answers import cut_output
from skillyard.workspace.session_files import _matcher  # what glob patterns mean, without a sandbox around it

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8cfc0000003010100c9fe92ef"
    "0000000049454e44ae426082"
)


@pytest.mark.row("003-12")
async def test_a_file_is_written_read_with_numbers_edited_and_read_in_part(workspace: Workspace) -> None:
    assert (await workspace.file_write("notes/a.txt", "one\ntwo\nthree\n")).data["created"] is True
    assert (await workspace.file_read("notes/a.txt")).text == "     1\tone\n     2\ttwo\n     3\tthree"
    assert (await workspace.file_edit("notes/a.txt", "two", "zwei")).data == {"replaced": 1, "line": 2}
    part = await workspace.file_read("notes/a.txt", offset=2, limit=1)
    assert part.text == "     2\tzwei\n[1 more lines; read on with offset 3]"
    assert Path(workspace.folder, "notes/a.txt").read_text() == "one\nzwei\nthree\n"


async def test_relative_paths_begin_in_the_working_folder_of_the_shell(workspace: Workspace) -> None:
    await workspace.bash("mkdir deep; cd deep")
    await workspace.file_write("b.txt", "here")
    assert (await workspace.file_list(workspace.path)).data["entries"][0]["name"] == "deep"
    assert (await workspace.file_read(f"{workspace.path}/deep/b.txt")).ok


async def test_an_edit_wants_its_text_exactly_once_or_everywhere(workspace: Workspace) -> None:
    await workspace.file_write("a", "x x\r\ny")
    assert (await workspace.file_edit("a", "z", "w")).code == "invalid_input"
    twice = await workspace.file_edit("a", "x", "w")
    assert (twice.code, "2 times" in twice.text) == ("invalid_input", True)
    assert (await workspace.file_edit("a", "x", "w", replace_all=True)).data["replaced"] == 2
    assert (await workspace.file_edit("a", "w\ny", "v\nu")).ok
    assert Path(workspace.folder, "a").read_bytes() == b"w v\r\nu"


async def test_a_write_keeps_the_mode_and_leaves_nothing_beside(workspace: Workspace) -> None:
    await workspace.bash("cp /usr/bin/true run.sh")
    await workspace.file_write("run.sh", "echo new")
    assert (await workspace.bash("./run.sh; ls -A")).text == "new\nrun.sh"


async def test_pictures_come_as_pictures_and_binary_files_are_refused(workspace: Workspace) -> None:
    await workspace.file_write("dot.png", PNG)
    answer = await workspace.file_read("dot.png")
    assert [(image.media_type, image.data) for image in answer.images] == [("image/png", PNG)]
    await workspace.file_write("blob", b"\x00\x01\x02")
    assert (await workspace.file_read("blob")).code == "binary_file"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda workspace: workspace.file_read("absent"), "file_not_found"),
        (lambda workspace: workspace.file_read("."), "path_refused"),
        (lambda workspace: workspace.file_read("pipe"), "path_refused"),
        (lambda workspace: workspace.file_read("a\0b"), "invalid_input"),
        (lambda workspace: workspace.file_read("a", offset=0, limit=0), "invalid_input"),
        (lambda workspace: workspace.file_write("/usr/share/new", "x"), "path_refused"),
        (lambda workspace: workspace.file_list("absent"), "file_not_found"),
        (lambda workspace: workspace.file_search("("), "invalid_input"),
        (lambda workspace: workspace.file_search("x", output_mode="poem"), "invalid_input"),
        (lambda workspace: workspace.file_edit("a", "", "x"), "invalid_input"),
    ],
)
async def test_what_cannot_be_done_is_an_answer_with_a_code(workspace: Workspace, call: object, code: str) -> None:
    os.mkfifo(Path(workspace.folder, "pipe"))
    answer = await call(workspace)  # type: ignore[operator]
    assert (answer.ok, answer.code) == (False, code)


async def test_files_are_listed_by_pattern_and_searched_by_expression(workspace: Workspace) -> None:
    await workspace.file_write("src/a.py", "import os\nprint(OS)\n")
    await workspace.file_write("src/deep/b.py", "import re\n")
    await workspace.file_write("c.txt", "import nothing\n")
    found = await workspace.file_list(pattern="**/*.py")
    assert sorted(row["name"] for row in found.data["entries"]) == ["src/a.py", "src/deep/b.py"]
    search = await workspace.file_search(r"^import (\w+)", glob="*.py")
    assert sorted(search.text.splitlines()) == ["src/a.py:1:import os", "src/deep/b.py:1:import re"]
    names = await workspace.file_search("os", ignore_case=True, output_mode="files_with_matches")
    assert names.data["matches"] == [{"file": "src/a.py", "count": 2}]


@given(st.text("ab*?[]/.", max_size=12), st.text("ab/.", min_size=1, max_size=12))
def test_any_pattern_is_understood_and_one_without_wildcards_fits_itself_alone(pattern: str, path: str) -> None:
    fits = _matcher(pattern)
    assert fits(path) in (True, False) or pattern
    assert _matcher(path)(path if "/" in path else f"x/{path}")


@given(st.text(max_size=400), st.integers(10, 100))
def test_a_cut_has_the_beginning_and_the_end_of_a_text(text: str, limit: int) -> None:
    cut = cut_output(text, limit)
    assert (cut is None) == (len(text) <= limit)
    if cut is not None:
        head, _, tail = cut.partition("\n\n[... ")
        assert text.startswith(head)
        assert text.endswith(tail.partition("left out ...]\n\n")[2])


def test_people_list_read_put_and_remove_files_without_a_session(tmp_path: Path) -> None:
    folder = WorkspaceFolder(tmp_path)
    folder.put("a/b.txt", b"one")
    folder.put("a/b.txt", b"two")
    folder.put(".hidden", b"x")
    assert [(file.path, file.size, file.media_type) for file in folder.files()] == [("a/b.txt", 3, "text/plain")]
    assert folder.read("a/b.txt", limit=10) == b"two"
    folder.remove("a/b.txt")
    with pytest.raises(FileMissing):
        folder.remove("a/b.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", "a"]


@pytest.mark.abuse("I14")
def test_no_link_that_a_program_has_made_leads_people_out(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "secret").write_text("canary")
    (tmp_path / "files" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "files" / "out").symlink_to(tmp_path)
    folder = WorkspaceFolder(tmp_path / "files")
    assert folder.files() == ()
    for call in (
        lambda: folder.read("link", limit=10),
        lambda: folder.read("out/secret", limit=10),
        lambda: folder.put("out/new", b"x"),
        lambda: folder.remove("out/secret"),
        lambda: folder.put("../new", b"x"),
    ):
        with pytest.raises(PathRefused):
            call()
    folder.put("link", b"own")
    assert ((tmp_path / "secret").read_text(), (tmp_path / "files" / "link").read_text()) == ("canary", "own")


async def test_the_workspaces_of_a_home_are_kept_listed_and_removed(tmp_path: Path) -> None:
    home = Workspaces(tmp_path)
    one = home.get("one")
    assert home.get("one") is one
    WorkspaceFolder(one.folder).put("kept", b"x")
    assert home.list() == ("one",)
    await home.close()
    assert WorkspaceFolder(home.get("one").folder).files()[0].path == "kept"
    await home.remove("one")
    assert home.list() == ()
    with pytest.raises(RecordNotFound):
        await home.remove("one")
    with pytest.raises(PathRefused):
        home.get("../two")


def _pdf(text: str) -> bytes:
    """The smallest document with one page and a line of text."""
    content = f"BT /F1 24 Tf 20 40 Td ({text}) Tj ET".encode()
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 100] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )
    document, offsets = b"%PDF-1.4\n", []
    for number, item in enumerate(objects, 1):
        offsets.append(len(document))
        document += b"%d 0 obj\n%s\nendobj\n" % (number, item)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    trailer = b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % len(document)
    return document + b"xref\n0 6\n0000000000 65535 f \n" + table + trailer


async def test_the_pages_of_a_pdf_come_as_text_and_as_pictures(workspace: Workspace) -> None:
    await workspace.file_write("form.pdf", _pdf("Hello form"))
    answer = await workspace.file_read("form.pdf")
    assert (answer.ok, answer.text) == (True, "[page 1 of 1]\nHello form")
    (image,) = answer.images
    assert (image.media_type, image.data[:8]) == ("image/png", PNG[:8])
    assert int.from_bytes(image.data[16:20], "big") == 400
    assert (await workspace.file_read("form.pdf", offset=2)).text.endswith("there is no page 2.]")
    await workspace.file_write("broken.pdf", "%PDF-1.4 nothing more")
    assert (await workspace.file_read("broken.pdf")).code == "binary_file"
