"""A file or folder of ours is replaced whole or not at all, and changed by one process at a time."""

from __future__ import annotations

import marshal
import os
import stat
import threading
import zlib
from pathlib import Path

import pytest
from ordinary_user import ordinary_user

from skillyard import files
from skillyard.errors import FileTooLarge
from skillyard.files import locked, locked_scratch, move_folder, read_limited, replace_file, write_output


def test_a_file_is_made_for_its_owner_only_and_replaced_with_the_mode_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    replace_file(file, b"one")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"one", 0o600)
    replace_file(str(file), b"two", mode=0o644, durable=False)
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"two", 0o644)
    assert [item.name for item in tmp_path.iterdir()] == ["settings.json"]


def test_a_reader_of_the_old_file_keeps_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_bytes(b"old")
    with file.open("rb") as reader:
        replace_file(file, b"new")
        assert reader.read() == b"old"


def test_what_cannot_be_put_in_place_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "settings.json"
    folder.mkdir()
    with pytest.raises(OSError):
        replace_file(folder, b"new")
    assert [item.name for item in tmp_path.iterdir()] == ["settings.json"]


def test_a_link_is_replaced_and_what_it_led_to_stays(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"kept")
    (tmp_path / "link").symlink_to("target")
    replace_file(tmp_path / "link", b"new")
    assert (tmp_path / "target").read_bytes() == b"kept"
    assert not (tmp_path / "link").is_symlink()


def test_an_output_goes_through_a_link_and_into_a_device_or_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    for text in (b"old", b"new"):
        write_output(tmp_path / "link", text)
    assert ((tmp_path / "target").read_bytes(), (tmp_path / "link").readlink()) == (b"new", Path("target"))
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    there, device = os.openpty()
    try:
        write_output(tmp_path / "pipe", b"one")
        write_output(os.ttyname(device), b"two")
        write_output(f"/proc/self/fd/{device}", b"three")
        assert (os.read(reader, 9), os.read(there, 9)) == (b"one", b"twothree")
        assert (tmp_path / "pipe").is_fifo()
    finally:
        for descriptor in (reader, there, device):
            os.close(descriptor)
    with pytest.raises(IsADirectoryError) as caught:
        write_output(tmp_path, b"")
    assert (caught.value.filename, caught.value.filename2) == (str(tmp_path), None)


def test_two_who_count_in_one_file_lose_no_number(tmp_path: Path) -> None:
    file = tmp_path / "count"
    file.write_text("0")

    def count() -> None:
        for _ in range(50):
            with locked(file):
                replace_file(file, str(int(file.read_text()) + 1).encode(), durable=False)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert file.read_text() == "200"


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_folder_takes_the_place_of_another(tmp_path: Path, exchanges: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exchanges:  # as on a file system that cannot
        monkeypatch.setattr(files, "_exchanged", lambda *_: False)
    for name in ("new", "old"):
        (tmp_path / name / "below").mkdir(parents=True, mode=0o700)
        for number in range(20):
            (tmp_path / name / f"below/{number}").write_text(name)
    move_folder(tmp_path / "new", tmp_path / "old")
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old/below/7").read_text() == "new"
    move_folder(tmp_path / "old", tmp_path / "other")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    (tmp_path / "new").mkdir()
    move_folder(tmp_path / "new", tmp_path / "link")
    assert (tmp_path / "other/below/7").read_text() == "new"
    assert not (tmp_path / "link").is_symlink()


def test_what_a_dead_process_left_goes_and_what_a_living_one_makes_stays(tmp_path: Path) -> None:
    (tmp_path / ".making-dead/deep").mkdir(parents=True)
    (tmp_path / "mine").mkdir()
    with locked_scratch(tmp_path, ".making-") as first, locked_scratch(tmp_path, ".making-") as second:
        assert {path.name for path in tmp_path.iterdir()} == {"mine", Path(first).name, Path(second).name}
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_file_is_read_up_to_a_limit_and_no_further(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_limited(file, 5) == b"12345"
    with pytest.raises(FileTooLarge, match="over 4 bytes"):
        read_limited(file, 4)
    with file.open("wb") as endless:
        endless.truncate(1 << 40)  # nobody has the memory to read it
    with pytest.raises(FileTooLarge):
        read_limited(file, 1024)


HOSTILE = """
import os, sys
from pathlib import Path
from skillyard.files import delete_tree

tree, kept = Path.home() / "tree", Path.home() / "kept"
kept.mkdir(mode=0o750)
(kept / "file").touch()
(tree / "shut/inner/deep").mkdir(parents=True)
(tree / "shut/inner/file").touch()
(tree / "shut/inner/link").symlink_to(kept)
(tree / "link").symlink_to(kept)
os.chdir(tree)
for _ in range(3000):
    os.mkdir("d" * 20)
    os.chdir("d" * 20)
os.chdir(tree)
for path in ("shut/inner/deep", "shut/inner", "shut", "."):
    os.chmod(path, 0)
print(delete_tree(tree), tree.exists(), os.listdir(kept), oct(kept.stat().st_mode & 0o777), delete_tree(tree))
"""


def test_a_tree_is_deleted_with_what_is_shut_and_however_deep_it_is() -> None:
    with ordinary_user(61_248) as user:
        assert user.run("-c", HOSTILE).split() == ["True", "False", "['file']", "0o750", "True"]


def test_a_file_that_cannot_be_written_is_named_as_it_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as refused:
        replace_file(tmp_path / "none/report.json", b"")
    assert refused.value.filename == str(tmp_path / "none/report.json")


@pytest.mark.parametrize("sizes", [5, ["8"], [None], [-8], None])
def test_a_cache_whose_sizes_cannot_be_meant_is_not_believed(tmp_path: Path, sizes: object) -> None:
    file = tmp_path / "kept"
    files.write_mapped_cache(str(file), b"KIND", "content", [b"8 bytes."])
    assert files.map_private_cache(str(file), b"KIND", largest=1000) is not None
    body = marshal.dumps(("content", sizes))
    replace_file(file, files._LENGTHS.pack(b"KIND", zlib.crc32(body), len(body)) + body + b"8 bytes.")
    assert files.map_private_cache(str(file), b"KIND", largest=1000) is None


@pytest.mark.parametrize("size", [10, 3 << 20])
def test_a_private_cache_is_read_whole_or_not_at_all(tmp_path: Path, size: int) -> None:
    file = tmp_path / "kept"
    files.write_private_cache(str(file), b"KIND", ("x" * size, [1, None]))
    assert files.read_private_cache(str(file), b"KIND", largest=size + 100) == ("x" * size, [1, None])
    assert files.read_private_cache(str(file), b"ELSE", largest=size + 100) is None
    assert files.read_private_cache(str(file), b"KIND", largest=size) is None
    data = file.read_bytes()
    for other in (data[:-1], data[:-3] + b"\0\0\0", data[:6], b""):
        file.write_bytes(other)
        assert files.read_private_cache(str(file), b"KIND", largest=size + 100) is None
