"""Sources are fetched by rules: git without its traps, the web by one request at a time, the network tried again."""

from __future__ import annotations

import http.server
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skillyard.errors import ArchiveTooLarge, InvalidSource, LinkNotAllowed, NetworkFailed
from skillyard.packages import Source, pack
from skillyard.registry import FetchedTree, GitFetcher, Registry, SourceFetcher
from skillyard.registry.source_host_policy import download

_SETTINGS = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main", "-c", "tag.gpgSign=false")


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *_SETTINGS, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, write: Any) -> Path:
    """A repository with a skill in `skills/tidy` and a tag."""
    folder = tmp_path / "repository"
    (folder / "skills").mkdir(parents=True)
    write(files={"scripts/run.sh": "echo\n"}).rename(folder / "skills" / "tidy")
    (folder / "skills/tidy/scripts/run.sh").chmod(0o755)
    _git(folder, "init", "-q")
    _git(folder, "add", "-A")
    _git(folder, "commit", "-qm", "one")
    _git(folder, "tag", "v1")
    return folder


def test_a_commit_is_fetched_and_named(repository: Path, tmp_path: Path) -> None:
    found = GitFetcher(local=True).fetch(Source("git", str(repository), "skills"), tmp_path)
    assert found.origin.commit == _git(repository, "rev-parse", "HEAD")
    assert os.access(found.tree / "tidy/scripts/run.sh", os.X_OK)
    assert not (found.tree / ".git").exists()


def test_a_tag_and_a_full_commit_are_fetched(repository: Path, tmp_path: Path) -> None:
    first = _git(repository, "rev-parse", "HEAD")
    (repository / "skills/tidy/more.md").write_text("more", "utf-8")
    _git(repository, "add", "-A")
    _git(repository, "commit", "-qm", "two")
    for ref in ("v1", first):
        found = GitFetcher(local=True).fetch(Source("git", str(repository), ref=ref), tmp_path)
        assert found.origin.commit == first
        assert not (found.tree / "skills/tidy/more.md").exists()


@pytest.mark.abuse("F17")
def test_attributes_and_hooks_of_a_repository_have_no_part(repository: Path, tmp_path: Path) -> None:
    (repository / "skills/tidy/.gitattributes").write_text("*.md text eol=crlf ident export-ignore\n", "utf-8")
    hook = repository / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n", "utf-8")
    hook.chmod(0o755)
    _git(repository, "add", "-A")
    _git(repository, "commit", "-qm", "attributes")
    found = GitFetcher(local=True).fetch(Source("git", str(repository)), tmp_path)
    assert b"\r" not in (found.tree / "skills/tidy/SKILL.md").read_bytes()
    assert not (tmp_path / "ran").exists()


@pytest.mark.abuse("F17")
def test_a_link_in_a_skill_is_refused_and_one_elsewhere_is_nobodys_business(repository: Path, tmp_path: Path) -> None:
    (repository / "elsewhere").symlink_to("/etc/passwd")
    _git(repository, "add", "-A")
    _git(repository, "commit", "-qm", "link")
    assert GitFetcher(local=True).fetch(Source("git", str(repository)), tmp_path).tree.is_dir()
    (repository / "skills/tidy/secret").symlink_to("/etc/passwd")
    _git(repository, "add", "-A")
    _git(repository, "commit", "-qm", "link in the skill")
    with pytest.raises(LinkNotAllowed):
        GitFetcher(local=True).fetch(Source("git", str(repository)), tmp_path)


@pytest.mark.parametrize("source", [Source("git", "/nowhere"), Source("git", "--upload-pack=touch /tmp/x")])
@pytest.mark.abuse("F17")
def test_what_is_no_repository_is_refused(source: Source, tmp_path: Path) -> None:
    with pytest.raises(InvalidSource):
        GitFetcher(local=True).fetch(source, tmp_path)
    with pytest.raises(InvalidSource, match="not fetched by git"):
        GitFetcher().fetch(source, tmp_path)


@pytest.mark.abuse("F17")
def test_filters_submodules_and_large_file_pointers_of_a_repository_run_nothing(repository: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    (repository / "skills/tidy/.gitattributes").write_text("*.bin filter=evil\n", "utf-8")
    (repository / "skills/tidy/big.bin").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "utf-8"
    )
    _git(repository, "config", "filter.evil.smudge", f"touch {marker}")
    _git(repository, "add", "-A")
    commit = _git(repository, "rev-parse", "HEAD")
    _git(repository, "update-index", "--add", "--cacheinfo", f"160000,{commit},other")
    (repository / ".gitmodules").write_text(f'[submodule "other"]\npath = other\nurl = ext::sh -c "touch {marker}"\n', "utf-8")
    _git(repository, "add", ".gitmodules")
    _git(repository, "commit", "-qm", "filters")
    found = GitFetcher(local=True).fetch(Source("git", str(repository)), tmp_path)
    assert (found.tree / "skills/tidy/big.bin").read_text("utf-8").startswith("version https")
    assert not (found.tree / "other").exists()
    assert not marker.exists()
    _git(repository, "update-index", "--add", "--cacheinfo", f"160000,{commit},skills/tidy/other")
    _git(repository, "commit", "-qm", "in the skill")
    with pytest.raises(LinkNotAllowed):
        GitFetcher(local=True).fetch(Source("git", str(repository)), tmp_path)


@pytest.mark.abuse("F17")
def test_a_users_own_settings_have_no_part(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "settings"
    settings.write_text(
        f'[core]\nsshCommand = touch {tmp_path}/ran\n[url "ext::touch {tmp_path}/ran "]\ninsteadOf = /\n', "utf-8"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", f"touch {tmp_path}/ran")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert GitFetcher(local=True).fetch(Source("git", str(repository)), tmp_path).tree.is_dir()
    assert not (tmp_path / "ran").exists()


@pytest.mark.abuse("F17")
def test_a_repository_that_fills_the_disk_is_stopped(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "noise").write_bytes(os.urandom(2 * 1024 * 1024))
    _git(repository, "add", "-A")
    _git(repository, "commit", "-qm", "noise")
    monkeypatch.setattr("skillyard.registry.source_fetcher._BOUNDED", ("/bin/sh", "-c", 'ulimit -f 1024 && exec "$@"', "sh"))
    with pytest.raises(ArchiveTooLarge):
        GitFetcher(local=True).fetch(Source("git", str(repository)), tmp_path)


def test_a_missing_branch_or_folder_is_reported(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidSource, match="git refused"):
        GitFetcher(local=True).fetch(Source("git", str(repository), ref="nope"), tmp_path)
    with pytest.raises(InvalidSource, match="no folder 'nope'"):
        GitFetcher(local=True).fetch(Source("git", str(repository), "nope"), tmp_path)


def test_an_update_from_git_takes_the_newest_commit(repository: Path, data: Path) -> None:
    registry = Registry(str(data), fetcher=SourceFetcher(others={"git": GitFetcher(local=True)}))
    first = registry.install(Source("git", str(repository))).results[0]
    assert first.origin["path"] == "skills/tidy"
    assert registry.update("tidy").results[0].status == "unchanged"
    (repository / "skills/tidy/more.md").write_text("more", "utf-8")
    _git(repository, "add", "-A")
    _git(repository, "commit", "-qm", "two")
    second = registry.update("tidy").results[0]
    assert second.status == "updated"
    assert second.origin["commit"] == _git(repository, "rev-parse", "HEAD")
    registry.close()


@pytest.mark.row("002-16")
def test_faults_of_the_network_are_tried_again_and_refusals_are_not(data: Path, write: Any) -> None:
    slept: list[float] = []
    calls: list[Source] = []

    class Failing:
        def __init__(self, error: Exception, times: int) -> None:
            self.error, self.times = error, times

        def fetch(self, source: Source, into: Path) -> FetchedTree:
            calls.append(source)
            if len(calls) <= self.times:
                raise self.error
            return SourceFetcher().fetch(Source("folder", str(write())), into)

    def registry(error: Exception, times: int) -> Registry:
        calls.clear()
        slept.clear()
        return Registry(str(data), fetcher=SourceFetcher(others={"git": Failing(error, times)}, sleep=slept.append))

    source = Source("git", "https://example.com/x.git")
    assert registry(NetworkFailed("reset"), 2).install(source).results[0].status == "installed"
    assert slept == [1, 2]
    failing = registry(NetworkFailed("reset"), 9)
    with pytest.raises(NetworkFailed) as failed:
        failing.install(source)
    assert (len(calls), failed.value.details["attempts"]) == (3, 3)
    assert failing.installed.history()[0].error_code == "network_failed"
    refusing = registry(InvalidSource("no"), 9)
    with pytest.raises(InvalidSource):
        refusing.install(source)
    assert len(calls) == 1


class _Handler(http.server.BaseHTTPRequestHandler):
    files: dict[str, bytes]

    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/SKILL.md")
        elif self.path == "/circle":
            self.send_response(302)
            self.send_header("Location", "/circle")
        elif self.path in self.files:
            self.send_response(200)
        else:
            self.send_response(503 if self.path == "/busy" else 404)
        self.end_headers()
        self.wfile.write(self.files.get(self.path, b""))

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def site(tmp_path: Path, write: Any) -> Iterator[str]:
    """A site of this machine with a skill as a file and as an archive."""
    folder = write()
    archive = pack(folder, tmp_path / "tidy.zip").path.read_bytes()
    handler = type("Handler", (_Handler,), {"files": {"/SKILL.md": (folder / "SKILL.md").read_bytes(), "/tidy.zip": archive}})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_file_is_downloaded_and_redirects_are_followed(site: str) -> None:
    assert download(f"{site}/SKILL.md", limit=10_000, allow_private=True).startswith(b"---")
    assert download(f"{site}/moved", limit=10_000, allow_private=True).startswith(b"---")


@pytest.mark.parametrize("path", ["/nothing", "/circle"])
def test_an_address_that_gives_nothing_is_reported(site: str, path: str) -> None:
    with pytest.raises(InvalidSource):
        download(site + path, limit=10_000, allow_private=True)


def test_too_much_or_a_busy_site_is_a_fault_of_the_network(site: str) -> None:
    with pytest.raises(NetworkFailed):
        download(f"{site}/SKILL.md", limit=10, allow_private=True)
    with pytest.raises(NetworkFailed, match="503"):
        download(f"{site}/busy", limit=10_000, allow_private=True)


def test_an_address_without_encryption_or_inside_this_machine_is_not_asked(site: str) -> None:
    from skillyard.errors import NetworkRefused

    with pytest.raises(InvalidSource, match="without encryption"):
        download(f"{site}/SKILL.md", limit=10_000)
    with pytest.raises(NetworkRefused):
        download(site.replace("http://", "https://") + "/SKILL.md", limit=10_000)


def test_an_address_gives_a_skill_or_an_archive(site: str, data: Path) -> None:
    registry = Registry(str(data), fetcher=SourceFetcher(allow_private=True))
    assert registry.install(Source("address", f"{site}/SKILL.md")).results[0].skill_id == "tidy"
    result = registry.install(Source("address", f"{site}/tidy.zip")).results[0]
    assert result.status == "unchanged"
    assert result.origin["sha256"]
    registry.close()
