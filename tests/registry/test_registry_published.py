"""Indexes, catalogs and manifests on the web lead to skills, each proven, and to nothing else."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog
from skillyard.cli import main
from skillyard.errors import (
    ArchiveTooLarge,
    DigestMismatch,
    InvalidInput,
    InvalidManifest,
    InvalidSource,
    NetworkRefused,
    NoSkillInside,
    VersionNotFound,
)
from skillyard.interop import write_site
from skillyard.packages import PackageLimits, digest_of, pack, tree_digest
from skillyard.registry import ProjectLock, Registry, SourceFetcher
from skillyard.registry.resource_catalogs import search_resources
from skillyard.registry.skill_indexes import index_address

SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
Publish = Callable[[str, object], str]


class _Handler(http.server.BaseHTTPRequestHandler):
    files: dict[str, bytes]

    def do_GET(self) -> None:
        data = self.files.get(self.path)
        self.send_response(404 if data is None else 200)
        self.end_headers()
        self.wfile.write(data or b"")

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def publish() -> Iterator[Publish]:
    """Give a function that publishes bytes, or data as JSON, under a path of a site of this machine, and gives its address."""
    handler = type("Handler", (_Handler,), {"files": {}})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def put(path: str, data: object) -> str:
        handler.files[path] = data if isinstance(data, bytes) else json.dumps(data).encode()  # type: ignore[attr-defined]
        return f"http://127.0.0.1:{server.server_port}{path}"

    yield put
    server.shutdown()
    server.server_close()


@pytest.fixture
def open_registry(data: Path) -> Iterator[Registry]:
    """A registry that may ask this machine."""
    made = Registry(str(data), fetcher=SourceFetcher(allow_private=True, sleep=lambda _: None))
    yield made
    made.close()


@pytest.fixture
def site(publish: Publish, write: Any, tmp_path: Path) -> str:
    """A site with an index of two skills: one file, one archive."""
    one = (write("one") / "SKILL.md").read_bytes()
    two = pack(write("two", files={"scripts/run.sh": "echo\n"}), tmp_path / "two.tar.gz").path.read_bytes()
    publish("/skills/one.md", one)
    publish("/skills/two.tar.gz", two)
    address = publish("/.well-known/agent-skills/index.json", {
        "$schema": SCHEMA,
        "skills": [
            {"name": "one", "type": "skill-md", "description": "x", "url": "/skills/one.md", "digest": digest_of(one)},
            {"name": "two", "type": "archive", "description": "x", "url": "../../skills/two.tar.gz", "digest": digest_of(two)},
        ],
    })  # fmt: skip
    return address.partition("/.well-known")[0]


@pytest.mark.abuse("H18")
def test_a_list_whose_skills_are_together_too_large_is_refused(site: str, publish: Publish, data: Path, write: Any) -> None:
    """Each of them is far below the limit of one."""

    def fetched(address: str, most: int) -> Any:
        fetcher = SourceFetcher(limits=PackageLimits(listed=most), allow_private=True, sleep=lambda _: None)
        with contextlib.closing(Registry(str(data), fetcher=fetcher)) as registry:
            return registry.install(address).results

    one = (write("one") / "SKILL.md").read_bytes()
    page = publish("/one.md", one)
    catalog = publish("/catalog.json", {"skills": [{"id": "one", "name": "one", "manifest_url": page}]})
    for address, needed in ((site, 2 * len(one) + 200), (catalog, len(one) + 20)):
        with pytest.raises(ArchiveTooLarge, match="lists are over"):
            fetched(address, needed)
        assert not list(data.rglob("SKILL.md"))
    assert len(fetched(site, 100_000)) == 2
    assert len(fetched(catalog, 100_000)) == 1


@pytest.mark.row("002-18")
def test_all_skills_of_a_site_are_installed_or_those_that_are_named(site: str, open_registry: Registry) -> None:
    report = open_registry.install(site, skills=["two"])
    assert [result.skill_id for result in report.results] == ["two"]
    assert report.results[0].origin == {"kind": "well-known", "address": site, "path": "two"}
    assert [result.status for result in open_registry.install(site).results] == ["installed", "unchanged"]
    assert (open_registry.storage.versions.path("two", str(report.results[0].version)) / "scripts/run.sh").is_file()


def test_an_update_asks_the_index_again_and_takes_only_its_skill(
    site: str, open_registry: Registry, publish: Publish, write: Any
) -> None:
    open_registry.install(site, skills=["one"])
    assert open_registry.update("one").results[0].status == "unchanged"
    newer = (write("one", body="Newer.") / "SKILL.md").read_bytes()
    publish("/skills/one.md", newer)
    with pytest.raises(DigestMismatch):
        open_registry.update("one")
    skill = {"name": "one", "type": "skill-md", "url": "/skills/one.md", "digest": digest_of(newer)}
    publish("/.well-known/agent-skills/index.json", {"$schema": SCHEMA, "skills": [skill]})
    assert open_registry.update("one").results[0].status == "updated"


@pytest.mark.parametrize(
    ("index", "error", "why"),
    [
        (b"<html>", InvalidSource, "not an index"),
        ({"skills": []}, InvalidSource, "of an unknown version"),
        (
            {"$schema": SCHEMA, "skills": [{"name": "../x", "type": "archive", "url": "/x", "digest": "sha256:0"}]},
            InvalidSource,
            "way",
        ),
        (
            {"$schema": SCHEMA, "skills": [{"name": "x", "type": "wasm", "url": "/x", "digest": "sha256:0"}]},
            InvalidSource,
            "way",
        ),
        ({"$schema": SCHEMA, "skills": [{"name": "x", "type": "archive", "url": "/x"}]}, InvalidSource, "way"),
        ({"$schema": SCHEMA, "skills": []}, NoSkillInside, "no skill"),
        (b"[" * 10_000, InvalidSource, "not an index"),
    ],
)
def test_an_index_that_is_none_installs_nothing(
    publish: Publish, open_registry: Registry, index: object, error: type[Exception], why: str
) -> None:
    address = publish("/.well-known/agent-skills/index.json", index)
    with pytest.raises(error, match=why):
        open_registry.install(address)
    assert open_registry.installed.skills() == ()


@pytest.fixture
def versioned(publish: Publish, write: Any) -> str:
    """A site that keeps its index at each version, as agentskills/agentskills pull request 380 proposes."""
    for number in ("1.0.0", "1.1.0", "2.0.0"):
        text = (write("one", body=f"Body {number}.") / "SKILL.md").read_bytes()
        skill = {"name": "one", "type": "skill-md", "url": f"one-{number}.md", "digest": digest_of(text), "version": number}
        for place in (f"v{number}/", ""):
            publish(f"/.well-known/agent-skills/{place}one-{number}.md", text)
            publish(f"/.well-known/agent-skills/{place}index.json", {"$schema": SCHEMA, "skills": [skill]})
    names = {"latest": "2.0.0", "versions": ["1.0.0", "1.1.0", "2.0.0"]}
    return publish("/.well-known/agent-skills/versions.json", names).partition("/.well-known")[0]


@pytest.mark.parametrize(
    ("ref", "version"), [("1.0.0", "1.0.0"), ("^1.0", "1.1.0"), ("~=1.0.0", "1.0.0"), (">=1", "2.0.0"), ("2.0.0", "2.0.0")]
)
def test_a_site_gives_the_version_that_is_asked_for(versioned: str, open_registry: Registry, ref: str, version: str) -> None:
    (result,) = open_registry.install(f"{versioned}@{ref}", skills=["one"]).results
    assert result.origin == {"kind": "well-known", "address": versioned, "path": "one", "ref": ref, "version": version}
    assert f"Body {version}." in (open_registry.storage.versions.path("one", str(result.version)) / "SKILL.md").read_text()
    assert open_registry.update("one").results[0].status == "unchanged"


def test_the_address_of_one_version_is_a_source_too(versioned: str, open_registry: Registry) -> None:
    (result,) = open_registry.install(f"{versioned}/.well-known/agent-skills/v1.1.0/index.json").results
    assert result.origin["version"] == "1.1.0"


def test_a_version_that_a_site_does_not_have_is_reported_with_those_it_has(
    versioned: str, site: str, open_registry: Registry, publish: Publish
) -> None:
    publish("/.well-known/agent-skills/index.json", {"$schema": SCHEMA, "skills": []})
    with pytest.raises(VersionNotFound) as refused:
        open_registry.install(f"{versioned}@3.0.0")
    assert refused.value.details["candidates"] == ["2.0.0", "1.1.0", "1.0.0"]
    assert "it has 2.0.0, 1.1.0, 1.0.0" in str(refused.value.hint)


def test_without_a_list_the_index_itself_may_be_the_version(publish: Publish, open_registry: Registry, write: Any) -> None:
    text = (write("one") / "SKILL.md").read_bytes()
    skill = {"name": "one", "type": "skill-md", "url": publish("/x.md", text), "digest": digest_of(text), "version": "1.4.0"}
    address = publish("/.well-known/agent-skills/index.json", {"$schema": SCHEMA, "skills": [skill]})
    for ref, found in (("1.4.0", True), ("^1", True), ("1.3.0", False), ("<1", False)):
        if found:
            assert open_registry.install(f"{address}@{ref}").results[0].origin["version"] == "1.4.0"
        else:
            with pytest.raises(VersionNotFound, match=f"has no version {ref}"):
                open_registry.install(f"{address}@{ref}")
    publish("/.well-known/agent-skills/versions.json", {"versions": ["../../x"]})
    with pytest.raises(InvalidSource, match="is not a list of versions"):
        open_registry.install(f"{address}@^1")


def test_a_lock_finds_its_version_of_a_site_that_has_gone_on(
    versioned: str, open_registry: Registry, publish: Publish, tmp_path: Path
) -> None:
    lock = ProjectLock(tmp_path)
    lock.record(open_registry.install(f"{versioned}@1.0.0").results, open_registry)
    old = open_registry.installed.current("one").digest
    assert json.loads(lock.path.read_text())["skills"]["one"]["source"]["version"] == "1.0.0"
    open_registry.install(versioned, force=True)
    lock.record(open_registry.update("one").results, open_registry)
    open_registry.install(f"{versioned}@1.0.0")
    (synced,) = lock.sync(open_registry)
    assert synced.origin["version"] == "2.0.0"
    assert "ref" not in synced.origin
    entry = next(iter(lock.entries()))
    lock.write({"one": replace(entry, source=replace(entry.source, version="1.0.0"), digest=old, files={})})
    (synced,) = lock.sync(open_registry)
    assert synced.origin["version"] == "1.0.0"
    text = b"---\nname: one\ndescription: Something else, for a test.\n---\nOther.\n"
    publish("/.well-known/agent-skills/v1.0.0/one-1.0.0.md", text)
    open_registry.uninstall("one", prune=True)
    with pytest.raises(DigestMismatch):
        lock.sync(open_registry)
    assert open_registry.installed.skills() == ()


def test_a_site_that_convert_writes_is_installed_from_with_its_earlier_versions(
    open_registry: Registry, write: Any, tmp_path: Path, folder_server: Any
) -> None:
    out, sources = tmp_path / "out", tmp_path / "sources"
    for number in ("1.0.0", "1.10.0", "1.9.0"):
        write("one", body=f"Body {number}.", header=f"version: {number}\n")
        write("two", header="version: 1.0.0\n", files={"scripts/run.sh": "echo\n"})
        assert main(["convert", str(sources), "--to", "well-known", "--out", str(out), "--quiet"]) == 0
    index = out / "site/.well-known/agent-skills"
    assert json.loads((index / "versions.json").read_text()) == {"latest": "1.9.0", "versions": ["1.0.0", "1.9.0", "1.10.0"]}
    kinds = {one["name"]: (one["type"], one["version"]) for one in json.loads((index / "index.json").read_text())["skills"]}
    assert kinds == {"one": ("skill-md", "1.9.0"), "two": ("archive", "1.0.0")}
    with folder_server(out / "site") as site:
        assert {result.skill_id for result in open_registry.install(f"{site}@1.0.0").results} == {"one", "two"}
        for ref, version in (("@^1.9", "1.10.0"), ("", "1.9.0"), ("@1.0.0", "1.0.0")):
            (result,) = open_registry.install(f"{site}{ref}", skills=["one"]).results
            assert (result.declared_version, result.origin["version"]) == (version, version)
    write("one", body="Something else.", header="version: 1.10.0\n")
    with pytest.raises(InvalidInput, match=r"one 1\.10\.0 is in that site with other content"):
        write_site(sources, out)
    assert json.loads((index / "index.json").read_text())["skills"][0]["version"] == "1.9.0"


def test_an_index_cannot_call_a_skill_by_the_name_of_another(publish: Publish, open_registry: Registry, write: Any) -> None:
    other = (write("other") / "SKILL.md").read_bytes()
    skill = {"name": "one", "type": "skill-md", "url": publish("/x.md", other), "digest": digest_of(other)}
    address = publish("/.well-known/agent-skills/index.json", {"$schema": SCHEMA, "skills": [skill]})
    with pytest.raises(InvalidSource, match="calls a skill one"):
        open_registry.install(address)


def test_a_skill_that_is_not_in_the_index_is_reported_with_those_that_are(site: str, open_registry: Registry) -> None:
    with pytest.raises(NoSkillInside) as refused:
        open_registry.install(site, skills=["three"])
    assert refused.value.details["candidates"] == ["one", "two"]


def test_the_index_of_a_site_is_found_from_any_of_its_addresses() -> None:
    index = "https://example.com/.well-known/agent-skills/index.json"
    assert index_address("https://example.com") == index_address("https://example.com/") == index_address(index) == index
    assert index_address("https://example.com/team") == "https://example.com/team/.well-known/agent-skills/index.json"


@pytest.mark.row("002-1", "002-2", "002-18")
def test_a_catalog_leads_by_its_manifests_to_packages(
    publish: Publish, open_registry: Registry, write: Any, tmp_path: Path
) -> None:
    package = pack(write("text-editor"), tmp_path / "te.zip").path.read_bytes()
    publish("/te.zip", package)
    url = publish(
        "/text-editor/manifest.json", {"skill_id": "acme/text-editor", "name": "Text Editor", "package_url": "../te.zip"}
    )
    publish("/notes.md", (write("notes") / "SKILL.md").read_bytes())
    catalog = publish("/catalog.json", {"skills": [
        {"skill_id": "acme/text-editor", "name": "Text Editor", "manifest_url": "text-editor/manifest.json"},
        {"skill_id": "notes", "manifest_url": "/notes.md"},
        {"skill_id": "elsewhere"},
    ]})  # fmt: skip
    report = open_registry.install(catalog)
    assert [result.skill_id for result in report.results] == ["notes", "text-editor"]
    origin = report.results[1].origin
    assert {name: origin[name] for name in ("kind", "address", "path", "manifest_url")} == {
        "kind": "address", "address": catalog, "path": "text-editor", "manifest_url": url,
    }  # fmt: skip
    assert open_registry.update("text-editor").results[0].status == "unchanged"
    assert open_registry.install(catalog, skills=["acme/text-editor"]).results[0].status == "unchanged"
    assert open_registry.install(url).results[0].status == "unchanged"


MANIFEST = {
    "skill_id": "text-editor",
    "version": "1.0.0",
    "name": "Text Editor",
    "description": "Edit and manipulate text content",
    "trigger_keywords": ["edit", "text", "modify"],
    "container": {"skills": [{"type": "anthropic", "skill_id": "text-editor", "version": "1.0.0"}]},
    "package_url": "te.zip",
}


@pytest.mark.row("002-18", "002-1", "C-18", "C-34")
def test_a_manifest_is_converted_validated_and_kept_as_where_a_skill_came_from(
    publish: Publish, open_registry: Registry, write: Any, tmp_path: Path
) -> None:
    publish("/te.zip", pack(write("text-editor"), tmp_path / "te.zip").path.read_bytes())
    url = publish("/manifest.json", MANIFEST)
    result = open_registry.install(url).results[0]
    assert [warning for warning in result.warnings if "the published manifest says" in warning] == [
        "the published manifest says name 'Text Editor', SKILL.md says 'text-editor': SKILL.md counts",
        "the published manifest says description 'Edit and manipulate text content', "
        "SKILL.md says 'Tidies up. Use when a test needs a skill.': SKILL.md counts",
    ]
    version = open_registry.installed.versions("text-editor")[0]
    assert version.source_type == "anthropic"
    assert version.origin["manifest_url"] == url
    manifest = version.origin["manifest"]
    assert isinstance(manifest, dict)
    assert manifest["container"] == MANIFEST["container"]
    assert manifest["anthropic"] == {"type": "anthropic", "skill_id": "text-editor", "version": "1.0.0"}
    assert (manifest["category"], manifest["tags"]) == ("productivity", ["text", "editor"])
    assert open_registry.update("text-editor").results[0].status == "unchanged"


@pytest.mark.row("002-18", "002-5")
@pytest.mark.parametrize("wrong", [{"version": "one"}, {"skill_id": "../x"}, {"name": "n" * 101}, {"homepage": "example"}])
def test_an_invalid_manifest_installs_nothing(
    publish: Publish, open_registry: Registry, write: Any, tmp_path: Path, wrong: dict[str, str]
) -> None:
    publish("/te.zip", pack(write("text-editor"), tmp_path / "te.zip").path.read_bytes())
    publish("/bad.json", MANIFEST | wrong)
    publish("/good.json", MANIFEST)
    skills = [{"skill_id": name, "name": name, "manifest_url": f"{name}.json"} for name in ("good", "bad")]
    with pytest.raises(InvalidManifest, match=next(iter(wrong))):
        open_registry.install(publish("/catalog.json", {"skills": skills}))
    assert open_registry.installed.skills() == ()


@pytest.mark.parametrize(
    ("listed", "error", "why"),
    [
        ({"skill_id": "x"}, InvalidSource, "names no package"),
        ({"skill_id": "x", "package_url": "file:///etc/passwd"}, InvalidSource, "names no package"),
        ({"skills": [{"skill_id": "x"}]}, NoSkillInside, "leads to none"),
        ({"nothing": 1}, InvalidManifest, "no list"),
        (b"[" * 50_000, InvalidManifest, "not JSON"),
        (b"plain words", InvalidSource, "neither an archive"),
    ],
)
def test_a_list_that_leads_nowhere_says_so(
    publish: Publish, open_registry: Registry, listed: object, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        open_registry.install(publish("/list.json", listed))
    assert open_registry.installed.skills() == ()
    assert open_registry.installed.history()[0].status == "failed"


@pytest.mark.parametrize("repository", ["https://127.0.0.1:9/x.git", "ssh://git@127.0.0.1/x.git", "git+ssh://h/x"])
def test_a_manifest_may_not_have_git_ask_inside(
    publish: Publish, data: Path, repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = json.dumps({"skill_id": "x", "repository": repository}).encode()
    monkeypatch.setattr(SourceFetcher, "_download", lambda self, url, limit, passed=None: manifest)
    registry = Registry(str(data), fetcher=SourceFetcher(sleep=lambda _: None))
    with pytest.raises((NetworkRefused, InvalidSource)):
        registry.install("https://example.com/manifest.json")
    registry.close()


def test_a_manifest_leads_to_a_package_and_not_to_the_next_manifest(publish: Publish, open_registry: Registry) -> None:
    first = publish("/a.json", {"skill_id": "x"})
    publish("/a.json", {"skill_id": "x", "package_url": first})
    with pytest.raises(InvalidSource, match="neither an archive"):
        open_registry.install(first)


def test_a_manifest_may_not_lead_inside(publish: Publish, data: Path) -> None:
    registry = Registry(str(data), fetcher=SourceFetcher(sleep=lambda _: None))
    with pytest.raises((NetworkRefused, InvalidSource)):
        registry.install(publish("/list.json", {"skill_id": "x", "package_url": "https://127.0.0.1/x.zip"}))
    registry.close()


def test_private_addresses_are_the_users_to_allow(site: str, tmp_path: Path, home: Path) -> None:
    with pytest.raises((NetworkRefused, InvalidSource)):
        Registry.of(Catalog.discover(roots=(), cwd=tmp_path, cache=False)).install(site)
    settings = home / ".config/skillyard/skillyard.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("[packages]\nprivate-hosts = true\n")
    allowed = Registry.of(Catalog.discover(roots=(), cwd=tmp_path, cache=False))
    assert len(allowed.install(site).results) == 2


def test_a_token_in_an_address_is_used_and_nowhere_kept_or_reported(
    publish: Publish, open_registry: Registry, data: Path, write: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    query = "?raw=1&access_token=hush-hush&id=7"
    package = pack(write(), tmp_path / "tidy.zip").path.read_bytes()
    report = open_registry.install(publish(f"/tidy.zip{query}", package))
    (result,) = report.results
    assert str(result.origin["address"]).endswith("/tidy.zip?raw=1&id=7")
    assert any("may be a secret" in warning for warning in result.warnings)
    lock = ProjectLock(tmp_path / "project")
    (tmp_path / "project").mkdir()
    lock.record(report.results, open_registry)
    wrong = publish(f"/page{query}", b"<html>")
    for address in (wrong, wrong.replace("/page", "/gone"), wrong.replace("http://", "git+http://"), f"x::{wrong}"):
        with pytest.raises(InvalidSource) as refused:
            open_registry.install(address)
        assert "hush" not in refused.value.message + (refused.value.hint or "")
    kept = [path.read_bytes() for path in [*data.rglob("*"), *tmp_path.joinpath("project").iterdir()] if path.is_file()]
    assert not any(b"hush" in content for content in kept)
    reported = json.dumps(
        [log.to_dict() for log in open_registry.installed.history()]
        + [one.to_dict() for one in open_registry.installed.versions("tidy")]
    )
    assert "hush" not in reported + "".join(capfd.readouterr())


def _entry(name: str, url: str, **more: object) -> dict[str, object]:
    entry = {"identifier": f"urn:air:example.org:skill:{name}", "type": "application/agent-skills+zip", "displayName": name}
    return {**entry, "description": f"What {name} does.", "url": url, **more}


@pytest.fixture
def ard(publish: Publish, write: Any, tmp_path: Path) -> str:
    """A site with an ARD catalog of two skills, an agent and a search, and no index."""
    one = (write("one") / "SKILL.md").read_bytes()
    publish("/skills/one.md", one)
    two = write("two", files={"scripts/run.sh": "echo\n"})
    publish("/skills/two.zip", pack(two, tmp_path / "two.zip").path.read_bytes())
    agent = {"identifier": "urn:air:example.org:agent:clerk", "type": "application/a2a-agent-card+json", "url": "/clerk.json"}
    address = publish("/.well-known/ai-catalog.json", {
        "specVersion": "1.0",
        "entries": [
            {"identifier": "urn:air:example.org:registry:all", "type": "application/ai-registry+json", "url": "/ard/"},
            agent,
            _entry("one", "/skills/one.md", metadata={"digest": digest_of(one)}),
            _entry("two", "../skills/two.zip", metadata={"digest": tree_digest(two)}),
        ],
    })  # fmt: skip
    return address.partition("/.well-known")[0]


def test_skills_of_an_ard_catalog_are_installed_and_updated(
    ard: str, open_registry: Registry, publish: Publish, write: Any
) -> None:
    catalog = f"{ard}/.well-known/ai-catalog.json"
    first = open_registry.install(catalog, skills=["urn:air:example.org:skill:two"]).results
    assert [(one.skill_id, one.origin["path"]) for one in first] == [("two", "two")]
    assert [one.status for one in open_registry.install(ard).results] == ["installed", "unchanged"]  # a site with no index
    assert open_registry.installed.current("one").origin == {"kind": "well-known", "address": ard, "path": "one"}
    publish("/skills/one.md", (write("one", body="Do it twice.") / "SKILL.md").read_bytes())
    with pytest.raises(DigestMismatch, match=r"one is not what http://127\.0\.0\.1"):
        open_registry.update("one")
    assert "Do it twice." not in (open_registry.current_folder("one")[1] / "SKILL.md").read_text()
    with pytest.raises(NoSkillInside, match="has no skill 'clerk'"):
        open_registry.install(catalog, skills=["clerk"])


@pytest.mark.parametrize(
    ("entries", "error", "words"),
    [
        ([_entry("one", "/skills/two.zip")], InvalidSource, "calls a skill one, and its SKILL.md calls it 'two'"),
        ([_entry("one", "/skills/one.md", metadata={"digest": "sha256:" + "0" * 64})], DigestMismatch, "one is not what"),
        ([_entry("one", "/skills/one.md", metadata={"digest": "md5:00"})], InvalidSource, "or a known digest"),
        ([_entry("one", "/skills/one.md"), _entry("one", "/skills/one.md")], InvalidSource, "two of its skills are called one"),
        ([_entry("one", "file:///etc/passwd")], InvalidSource, "which is not an address"),
        ([_entry("one", "http://169.254.169.254/latest")], NetworkRefused, "169.254.169.254"),
        ([_entry("one", "/page.html")], InvalidSource, "neither an archive nor a SKILL.md"),
        ([_entry("../../up", "/skills/one.md")], InvalidSource, "calls"),
        ([_entry("one", "/gone.zip")], InvalidSource, "answered 404"),
        (["text"], InvalidSource, "no list of objects"),
        ({"a": 1}, InvalidSource, "no list of objects"),
        ([], NoSkillInside, "has no skill"),
    ],
)
def test_a_catalog_that_lies_installs_nothing(
    ard: str, open_registry: Registry, publish: Publish, data: Path, entries: object, error: type[Exception], words: str
) -> None:
    publish("/page.html", b"<html>")
    address = publish("/lying.json", {"specVersion": "1.0", "entries": entries})
    with pytest.raises(error, match=words):
        open_registry.install(address)
    assert not list((data / "skills").glob("*/*/SKILL.md"))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"{}", "its search gives no results"),
        (b"[" * 100_000, "its search gives no results"),
        (b'{"results": [1]}', "no list of objects"),
    ],
)
def test_a_search_that_answers_nonsense_is_an_error(answer: bytes, words: str) -> None:
    catalog = {"specVersion": "1.0", "entries": [{"identifier": "x", "type": "application/ai-registry+json", "url": "/ard"}]}
    asked: list[str] = []

    def post(url: str, body: bytes) -> bytes:
        asked.append(url)
        return answer

    with pytest.raises(InvalidSource, match=words):
        search_resources("https://example.org", "tidy", 5, lambda url, limit: json.dumps(catalog).encode(), post)
    assert asked == ["https://example.org/ard/search"]
    with pytest.raises(InvalidSource, match="offers no search"):
        search_resources("https://example.org", "tidy", 5, lambda url, limit: b'{"specVersion": "1.0", "entries": []}', post)
