"""Trees of git that are small and list without an end: what is read of them ends early."""

from __future__ import annotations

import hashlib
import subprocess
import zlib
from pathlib import Path

import pytest

from skillyard.errors import TooManyFiles
from skillyard.packages import Source
from skillyard.registry.source_fetcher import GitFetcher


def write(repository: Path, kind: str, data: bytes) -> bytes:
    """An object as git keeps it; its id."""
    whole = f"{kind} {len(data)}\0".encode() + data
    name = hashlib.sha1(whole, usedforsecurity=False)
    file = repository / "objects" / name.hexdigest()[:2] / name.hexdigest()[2:]
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(zlib.compress(whole))
    return name.digest()


def commit(repository: Path, tree: bytes) -> None:
    who = "A <a@b> 0 +0000"
    made = write(repository, "commit", f"tree {tree.hex()}\nauthor {who}\ncommitter {who}\n\nx\n".encode())
    (repository / "refs/heads/main").write_text(f"{made.hex()}\n")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """An empty one."""
    place = tmp_path / "repository"
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", "--template=", str(place)], check=True)
    (place / "refs/heads").mkdir(parents=True, exist_ok=True)
    return place


@pytest.mark.abuse("F28")
@pytest.mark.parametrize(("width", "levels"), [(10, 9), (1, 1_000), (2, 40)])
def test_a_tree_that_names_the_next_one_many_times_is_not_listed_to_its_end(
    repository: Path, tmp_path: Path, width: int, levels: int
) -> None:
    skill = write(repository, "blob", b"---\nname: x\ndescription: d\n---\n")
    tree = write(repository, "tree", b"".join(b"100644 f%d\0" % n + skill for n in range(10)))
    for _ in range(levels):
        name = b"%d" if width > 1 else b"x" * 200 + b"%d"
        files = b"100644 f\0" + skill if width == 1 else b""
        tree = write(repository, "tree", files + b"".join(b"40000 " + name % n + b"\0" + tree for n in range(width)))
    tree = write(repository, "tree", b"100644 SKILL.md\0" + skill + b"40000 d\0" + tree)
    commit(repository, tree)
    size = sum(file.stat().st_size for file in (repository / "objects").rglob("*") if file.is_file())
    assert size < 256 * 1024
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(TooManyFiles, match="more than") as refused:
        GitFetcher(local=True).fetch(Source("git", str(repository)), into)
    assert refused.value.hint
    assert not [path for path in into.iterdir() if not path.name.startswith("git-")]
    assert list(into.iterdir())
