"""How sources are written, and what is not one."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillyard.errors import InvalidSource
from skillyard.packages import Source, resolve

HUB = "https://github.com/owner/repo"


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("owner/repo", Source("git", HUB)),
        ("owner/repo@v1.2", Source("git", HUB, ref="v1.2")),
        ("owner/repo/skills/pdf@main", Source("git", HUB, "skills/pdf", "main")),
        (HUB, Source("git", HUB)),
        (f"{HUB}/tree/main/skills/pdf", Source("git", HUB, "skills/pdf", "main")),
        (f"{HUB}/blob/main/skills/pdf/SKILL.md", Source("git", HUB, "skills/pdf", "main")),
        ("https://gitlab.com/a/b/c/-/tree/v1/x", Source("git", "https://gitlab.com/a/b/c", "x", "v1")),
        ("https://example.com/x.git", Source("git", "https://example.com/x.git")),
        ("https://example.com/x.git@v2", Source("git", "https://example.com/x.git", ref="v2")),
        ("git@example.com:a/b.git", Source("git", "ssh://git@example.com/a/b.git")),
        ("ssh://git@example.com:22/a/b.git#v1", Source("git", "ssh://git@example.com:22/a/b.git", ref="v1")),
        ("https://example.com/p.zip", Source("address", "https://example.com/p.zip")),
        ("https://example.com", Source("well-known", "https://example.com")),
    ],
)
def test_every_way_to_write_a_source_is_understood(
    text: str, source: Source, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve(text) == source


def test_what_is_there_comes_before_a_shorthand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "owner/repo").mkdir(parents=True)
    (tmp_path / "a.zip").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert resolve("owner/repo") == Source("folder", str(tmp_path / "owner/repo"))
    assert resolve("./a.zip", names=("x",)) == Source("archive", str(tmp_path / "a.zip"), names=("x",))


def test_a_folder_of_this_machine_has_no_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "owner/repo").mkdir(parents=True)
    (tmp_path / "git").mkdir()
    monkeypatch.chdir(tmp_path)
    for text in ("./owner/repo@v1", "owner/repo@v1", str(tmp_path / "owner@main")):
        with pytest.raises(InvalidSource, match="is a folder on this machine: it is installed as it is") as caught:
            resolve(text)
        assert "worktree add" in (caught.value.hint or "")
    assert resolve("git@host.example:a/b").kind == "git"
    assert resolve("other/repo@v1").ref == "v1"


@pytest.mark.parametrize(
    "text",
    [
        "", "-", "--upload-pack=touch /tmp/x", "-u", "ext::sh -c id", "file:///etc", "fd::17", "git://example.com/x", "ftp://a/b",
        "http://user:pw@example.com/x.git", "https://2130706433/x", "owner/repo/../../x", "owner/repo@--x", "owner/repo@a..b",
        "ssh://-oProxyCommand=id/x", "ssh://a@-x/y", "git@-oProxyCommand:x", "./missing", "/missing", "one", "a b", "a\nb",
        "owner/repo@x.lock", "https://example.com/x.git@-x",
    ],
    ids=ascii,
)  # fmt: skip
def test_what_is_not_a_source_or_is_an_attack_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidSource) as caught:
        resolve(text)
    assert caught.value.hint
    assert "pw" not in caught.value.message
