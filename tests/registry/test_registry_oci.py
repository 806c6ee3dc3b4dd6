"""Skills in an OCI registry: Debian's registry program on loopback, and what other programs push to it and pull from it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from archives import SKILL, member, tar_of
from oci_program import running_registry

from skillyard.errors import InvalidConfiguration, InvalidSource, NetworkRefused, SkillExists
from skillyard.packages import digest_of, resolve, tree_digest
from skillyard.registry import Registry
from skillyard.registry.oci_artifacts import push_skill
from skillyard.registry.oci_registry import INDEX_TYPES, MANIFEST_TYPES, OciRepository, find_credentials
from skillyard.registry.project_lock import ProjectLock
from skillyard.registry.registry_mirror import push_all
from skillyard.registry.source_fetcher import SourceFetcher

pytestmark = pytest.mark.xdist_group("oci registry")
Write = Callable[..., Path]
DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
_NUMBERS = count()
BCRYPT = "$2b$04$rH3uscyuf00latoIVorJMuPlSGS8qlgwb3ZqD.MwKh1PdtFpbpoY6"  # of pass-word


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def repository(host: str) -> str:
    """A repository that no other test has."""
    return f"oci+http://{host}/tests/number-{next(_NUMBERS)}"


@pytest.fixture
def mine(data: Path) -> Iterator[Registry]:
    made = Registry(str(data), fetcher=SourceFetcher(allow_private=True, sleep=lambda _: None))
    yield made
    made.close()


def push(repository: str, folder: Path, **options: Any) -> Any:
    return push_skill(folder, repository, allow_private=True, **options)


def write_artifact(address: str, layers: list[tuple[str, bytes, dict[str, str]]], tag: str = "1", **more: Any) -> str:
    """Push layers as they are; gives the digest of the manifest."""
    to = OciRepository(address, allow_private=True, write=True)
    described = []
    for kind, data, notes in layers:
        to.put_blob(data)
        described.append({"mediaType": kind, "digest": digest_of(data), "size": len(data), "annotations": notes})
    to.put_blob(b"{}")
    empty = {"mediaType": "application/vnd.oci.empty.v1+json", "digest": digest_of(b"{}"), "size": 2}
    value = {"schemaVersion": 2, "mediaType": MANIFEST_TYPES[0], "config": empty, "layers": described, **more}
    data = json.dumps(value).encode()
    return to.put_manifest(tag, data, value["mediaType"])


def skill_layer(name: str = "tidy", top: str = "") -> bytes:
    return tar_of((member(f"{top}SKILL.md"), SKILL.replace(b"tidy", name.encode())))


@pytest.mark.parametrize(
    ("text", "address", "ref"),
    [
        ("oci://ghcr.io/acme/skills/tidy", "oci://ghcr.io/acme/skills/tidy", ""),
        ("oci://GHCR.io:443/acme/tidy:1.0", "oci://ghcr.io:443/acme/tidy", "1.0"),
        (f"oci://10.0.0.1:5000/tidy@sha256:{'a' * 64}", "oci://10.0.0.1:5000/tidy", f"sha256:{'a' * 64}"),
        (f"oci+http://localhost:5000/tidy:1@sha256:{'b' * 64}", "oci+http://localhost:5000/tidy", f"sha256:{'b' * 64}"),
    ],
)
def test_a_repository_is_named_with_a_tag_or_a_digest(text: str, address: str, ref: str) -> None:
    source = resolve(text)
    assert (source.kind, source.address, source.ref) == ("oci", address, ref)


@pytest.mark.parametrize(
    "text",
    ["oci://", "oci://ghcr.io", "oci://ghcr.io/", "oci://ghcr.io/Upper", "oci://me:word@ghcr.io/a", "oci://127.1/a", "oci://h/a//b",
     "oci://h/../a", "oci://h/a:", "oci://h/a@sha256:12", "oci://h/a@md5:1", "oci://h/a?x=y", "oci://h:99999999/a", "oci+ftp://h/a",
     f"oci://h/{'a' * 300}"],
)  # fmt: skip
def test_what_names_no_repository_is_refused(text: str) -> None:
    with pytest.raises(InvalidSource):
        resolve(text)


def test_what_was_pushed_is_installed_with_its_digests(repository: str, mine: Registry, write: Write) -> None:
    folder = write(header="version: 1.2\nlicense: MIT\n", files={"scripts/go.sh": "echo hello\n"})
    (folder / "scripts/go.sh").chmod(0o755)
    pushed = push(repository, folder)
    assert pushed.reference == f"{repository}:1.2"
    (result,) = mine.install(pushed.reference).results
    assert result.digest == pushed.content_digest == tree_digest(folder)
    assert dict(result.origin) == {
        "kind": "oci", "address": repository, "path": "tidy", "ref": "1.2", "commit": pushed.digest, "version": "1.2",
        "sha256": pushed.layer_digest,
    }  # fmt: skip
    manifest = OciRepository(repository, allow_private=True).manifest("1.2").value
    assert manifest["artifactType"] == "application/vnd.agentskills.skill.v1"
    assert manifest["annotations"] == {
        "org.opencontainers.image.title": "tidy", "io.agentskills.skill.name": "tidy",
        "org.opencontainers.image.version": "1.2",
        "org.opencontainers.image.description": "Tidies up. Use when a test needs a skill.",
        "org.opencontainers.image.licenses": "MIT",
    }  # fmt: skip


def test_the_same_skill_has_the_same_digest_everywhere(repository: str, write: Write, tmp_path: Path) -> None:
    folder = write(files={"a/b.txt": "b"})
    first = push(f"{repository}/one", folder)
    other = tmp_path / "elsewhere"
    shutil.copytree(folder, other)
    os.utime(other / "SKILL.md", (1, 1))
    second = push(f"{repository}/two", other)
    assert (first.digest, first.layer_digest, first.same, first.copied > 0) == (second.digest, second.layer_digest, False, True)
    again = push(f"{repository}/one", other)
    assert again.same
    assert again.copied == 0


def test_a_tag_is_moved_only_by_force(repository: str, mine: Registry, write: Write) -> None:
    before = push(f"{repository}:stable", write())
    with pytest.raises(SkillExists, match=before.digest):
        push(f"{repository}:stable", write(body="Do more."))
    assert not push(f"{repository}:stable", write(), force=True, dry_run=True).copied
    assert push(f"{repository}:stable", write(body="Do more."), force=True).digest != before.digest
    with pytest.raises(InvalidSource, match="push to"):
        push(f"{repository}@{before.digest}", write())
    (result,) = mine.install(f"{repository}@{before.digest}").results
    assert result.digest == before.content_digest


def test_update_follows_the_tag_and_the_lock_holds_the_digest(
    repository: str, mine: Registry, write: Write, tmp_path: Path
) -> None:
    before = push(f"{repository}:stable", write())
    project = tmp_path / "project"
    project.mkdir()
    lock = ProjectLock(project)
    lock.record(mine.install(f"{repository}:stable").results, mine)
    (entry,) = lock.entries()
    assert (entry.source.kind, entry.source.ref, entry.digest) == ("oci", before.digest, before.content_digest)

    after = push(f"{repository}:stable", write(body="Do more."), force=True)
    assert mine.pending_update("tidy").state == "update"
    (result,) = mine.update("tidy").results
    assert (result.status, result.digest, result.origin["commit"]) == ("updated", after.content_digest, after.digest)
    assert [state.state for state in lock.states(mine)] == ["changed"]

    (result,) = lock.sync(mine)
    assert result.digest == before.content_digest
    assert [state.state for state in lock.verify(mine)] == ["ok"]
    clean = Registry(str(tmp_path / "clean"), fetcher=SourceFetcher(allow_private=True))
    assert [one.digest for one in lock.sync(clean)] == [before.content_digest]
    clean.close()


LAYOUTS = {
    "agent skills": [("application/vnd.agentskills.skill.content.v1.tar+gzip", skill_layer(top="tidy/"), {})],
    "alibaba": [("application/vnd.agent.skill.content.v1.tar+gzip", skill_layer(), {})],
    "red hat": [("application/vnd.redhat.agentskill.layer.v1.tar+gzip", skill_layer(), {})],
    "an image": [("application/vnd.oci.image.layer.v1.tar", tar_of((member("SKILL.md"), SKILL), compressed=False), {})],
    "a docker image": [(DOCKER_LAYER, skill_layer(top="skills/tidy/"), {})],
    "files": [
        ("application/vnd.oci.image.layer.v1.tar", SKILL, {"org.opencontainers.image.title": "SKILL.md"}),
        ("text/plain", b"one", {"org.opencontainers.image.title": "references/one.txt"}),
        ("application/octet-stream", tar_of((member("x"), b"x")), {"org.opencontainers.image.title": "assets/x.tgz"}),
    ],
    "a card and the content": [
        ("application/vnd.docsclaw.skill.card.v1+yaml", b"name: tidy\n", {"org.opencontainers.image.title": "skill.yaml"}),
        ("application/vnd.agentskills.skill.content.v1.tar+gzip", skill_layer(top="tidy/"), {}),
    ],
    "layers over each other": [
        (DOCKER_LAYER, tar_of((member("SKILL.md"), b"old"), (member("gone.txt"), b"x"), (member("d/a"), b"a")), {}),
        (DOCKER_LAYER, tar_of((member("SKILL.md"), SKILL), (member(".wh.gone.txt"), b""), (member("d/.wh..wh..opq"), b"")), {}),
        (DOCKER_LAYER, tar_of((member("d/b"), b"b")), {}),
    ],
}  # fmt: skip
FILES = {"files": ["SKILL.md", "assets/x.tgz", "references/one.txt"], "layers over each other": ["SKILL.md", "d/b"]}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_that_is_in_use_is_installed(layout: str, repository: str, mine: Registry) -> None:
    digest = write_artifact(repository, LAYOUTS[layout])
    (result,) = mine.install(f"{repository}:1").results
    assert (result.skill_id, result.origin["commit"]) == ("tidy", digest)
    folder = mine.storage.versions.path("tidy", result.version)
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert found == FILES.get(layout, ["SKILL.md"])
    assert (folder / "SKILL.md").read_bytes() == SKILL


def write_index(address: str, entries: list[dict[str, Any]], **more: Any) -> None:
    value = {"schemaVersion": 2, "mediaType": INDEX_TYPES[0], "manifests": entries, **more}
    OciRepository(address, allow_private=True, write=True).put_manifest("all", json.dumps(value).encode(), INDEX_TYPES[0])


def entry(address: str, tag: str, **more: Any) -> dict[str, Any]:
    found = OciRepository(address, allow_private=True).manifest(tag)
    return {"mediaType": found.media_type, "digest": found.digest, "size": len(found.data), **more}


def test_a_collection_has_several_skills(repository: str, mine: Registry, tmp_path: Path) -> None:
    for name in ("tidy", "sweep"):
        write_artifact(repository, [("application/x.tar", skill_layer(name), {})], name)
    listed = [entry(repository, "tidy"), entry(repository, "sweep")]
    write_index(repository, listed, artifactType="application/vnd.agentskills.collection.v1")
    assert sorted(one.skill_id for one in mine.install(f"{repository}:all").results) == ["sweep", "tidy"]
    assert [one.status for one in mine.update("sweep").results] == ["unchanged"]
    only = Registry(str(tmp_path / "other"), fetcher=SourceFetcher(allow_private=True))
    assert [one.skill_id for one in only.install(f"{repository}:all", skills=["sweep"]).results] == ["sweep"]
    only.close()


def test_of_an_image_for_several_machines_one_is_installed(repository: str, mine: Registry) -> None:
    entries = []
    for machine in ("arm64", "amd64"):
        layer = tar_of((member("SKILL.md"), SKILL), (member("machine"), machine.encode()))
        write_artifact(repository, [(DOCKER_LAYER, layer, {})], machine)
        entries.append(entry(repository, machine, platform={"os": "linux", "architecture": machine}))
    entries.append(entry(repository, "arm64", annotations={"vnd.docker.reference.type": "attestation-manifest"}))
    write_index(repository, entries)
    (result,) = mine.install(f"{repository}:all").results
    assert (mine.storage.versions.path("tidy", result.version) / "machine").read_text() == "amd64"


def run(*words: str | Path) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_skopeo_copies_what_we_push_and_we_install_what_it_copied(
    host: str, repository: str, mine: Registry, write: Write, tmp_path: Path
) -> None:
    pushed = push(f"{repository}:1", write(files={"notes.txt": "n"}))
    name = pushed.reference.partition("://")[2]
    skopeo = ("skopeo", "--insecure-policy", "copy")
    run(*skopeo, "--src-tls-verify=false", f"docker://{name}", f"oci:{tmp_path}/layout:x")
    layer = tmp_path / "layout/blobs/sha256" / pushed.layer_digest.removeprefix("sha256:")
    assert run("tar", "-tzf", layer).split() == ["tidy/", "tidy/SKILL.md", "tidy/notes.txt"]
    run(*skopeo, "--dest-tls-verify=false", f"oci:{tmp_path}/layout:x", f"docker://{host}/copied/tidy:2")
    (result,) = mine.install(f"oci+http://{host}/copied/tidy:2").results
    assert (result.digest, result.origin["commit"]) == (pushed.content_digest, pushed.digest)


def test_an_image_that_podman_built_and_pushed_is_installed(
    repository: str, mine: Registry, write: Write, tmp_path: Path
) -> None:
    folder = write(files={"scripts/go.sh": "echo\n"})
    (folder / "scripts/go.sh").chmod(0o755)
    (folder.parent / "Containerfile").write_text(
        "FROM scratch\nCOPY tidy /skills/tidy\nCOPY tidy/SKILL.md /skills/tidy/SKILL.md\n"
    )
    run_folder = tempfile.mkdtemp()  # podman wants a short path
    podman = ("podman", "--root", tmp_path / "images", "--runroot", run_folder, "--storage-driver", "vfs")
    target = f"{repository.partition('://')[2]}:1"
    run(*podman, "build", "--isolation=chroot", "--layers", "-t", target, folder.parent)
    run(*podman, "push", "--tls-verify=false", target)
    (result,) = mine.install(f"{repository}:1").results
    assert result.digest == tree_digest(folder)


def test_everything_installed_is_pushed_below_a_prefix(repository: str, mine: Registry, write: Write) -> None:
    mine.install(str(write(header="version: 2.0\n")))
    mine.install(str(write("sweep")))
    pushed = push_all(mine, f"{repository}/", allow_private=True)
    assert [one.skill_id for one in pushed] == ["sweep", "tidy"]
    assert pushed[1].reference == f"{repository}/tidy:2.0"
    assert [one.same for one in push_all(mine, repository, allow_private=True, dry_run=True)] == [True, True]


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A registry that wants a login, and a home without any."""
    (tmp_path / "closed").mkdir()
    (tmp_path / "passwords").write_text(f"me:{BCRYPT}\n")
    for name in ("SKILLYARD_OCI_AUTH", "DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with running_registry(tmp_path / "closed", password_file=tmp_path / "passwords") as running:
        yield running


def test_logins_come_from_the_variable_and_from_docker_and_podman(
    closed: str, mine: Registry, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = f"oci+http://{closed}/tidy:1"
    with pytest.raises(InvalidSource, match="refused") as refused:
        push(target, write())
    assert "docker login" in refused.value.hint
    monkeypatch.setenv("SKILLYARD_OCI_AUTH", f"other.example=a:b http://{closed}=me:pass-word")
    pushed = push(target, write())
    monkeypatch.delenv("SKILLYARD_OCI_AUTH")

    kept = {"auths": {closed: {"auth": base64.b64encode(b"me:pass-word").decode()}}}
    file = tmp_path / "home/.docker/config.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(kept))
    (result,) = mine.install(target).results
    assert result.digest == pushed.content_digest
    with pytest.raises(InvalidSource, match="refused"):
        Registry(str(tmp_path / "x"), fetcher=SourceFetcher(allow_private=True, own_credentials=False)).install(target)

    file.write_text("{")  # a damaged file is passed over, and the next one is read
    other = tmp_path / "auth.json"
    other.write_text(json.dumps({"credHelpers": {closed: "test"}}))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(other))
    helper = tmp_path / "bin/docker-credential-test"
    helper.parent.mkdir()
    helper.write_text('#!/bin/sh\necho \'{"Username": "me", "Secret": "pass-word"}\'\n')
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{helper.parent}:{os.environ['PATH']}")
    assert push(target, write()).same


def test_a_login_without_a_host_is_reported_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLYARD_OCI_AUTH", "me:secret-word")
    with pytest.raises(InvalidConfiguration) as reported:
        find_credentials("ghcr.io")
    assert "secret-word" not in str(reported.value)


def test_no_login_goes_over_the_network_without_encryption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"auths": {"ghcr.io": {"auth": base64.b64encode(b"me:word").decode()}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("SKILLYARD_OCI_AUTH", "quay.io=me:word")
    assert find_credentials("ghcr.io") == find_credentials("quay.io") == ("me", "word", "")
    assert find_credentials("http://ghcr.io") is find_credentials("http://quay.io") is None


def test_a_registry_on_this_machine_needs_private_hosts(host: str, data: Path) -> None:
    registry = Registry(str(data))
    with pytest.raises(NetworkRefused) as refused:
        registry.install(f"oci://{host}/tidy:1")
    assert "private-hosts" in refused.value.hint
    with pytest.raises(InvalidSource, match="without encryption"):
        registry.install(f"oci+http://{host}/tidy:1")
    registry.close()


def test_what_is_not_there_is_reported(host: str, repository: str, mine: Registry, write: Write) -> None:
    with pytest.raises(InvalidSource, match="has no latest"):
        mine.install(repository)
    push(f"{repository}:1", write())
    with pytest.raises(InvalidSource, match="has no 2"):
        mine.install(f"{repository}:2")
    write_artifact(repository, [("application/x.unknown", b"what", {})], "odd")
    with pytest.raises(InvalidSource, match="not read"):
        mine.install(f"{repository}:odd")
    assert mine.installed.skills() == ()
