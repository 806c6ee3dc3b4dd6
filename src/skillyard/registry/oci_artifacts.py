"""Skills as artifacts of OCI registries: every layout that is in use is read, and the community's is written.

Read are the types of the Agent Skills artifacts, of Alibaba's registry and of Red Hat's, plain images whose layers hold a
skill, files pushed one by one with their names, and collections. What a layer is follows from its bytes, type and title; the
rules of archives hold for each. What is written has one layer, rooted at the skill's name, and no times: the same skill gives
the same digests.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from skillyard.errors import ArchiveTooLarge, InvalidSource, SkillExists, TooManyFiles
from skillyard.packages import (
    Origin,
    PackageLimits,
    Source,
    digest_of,
    extract,
    find_skills,
    pack,
    resolve,
    sniff,
    tree_entries,
)
from skillyard.packages.archive_entries import new_staging, safe_name
from skillyard.packages.digest import digest_hex
from skillyard.paths import is_inside, safe_relative
from skillyard.registry.oci_registry import (
    INDEX_TYPES,
    MANIFEST_TYPES,
    FindCredentials,
    FoundManifest,
    OciRepository,
    find_credentials,
    is_digest,
)
from skillyard.registry.registry_values import FetchedTree
from skillyard.text import limit_words, single_line
from skillyard.wire import WireForm

ARTIFACT_TYPE: Final = "application/vnd.agentskills.skill.v1"
CONFIG_TYPE: Final = "application/vnd.agentskills.skill.config.v1+json"
LAYER_TYPE: Final = "application/vnd.agentskills.skill.content.v1.tar+gzip"
_TITLE: Final = "org.opencontainers.image.title"
_VERSION: Final = "org.opencontainers.image.version"
_REFERENCES: Final = ("io.agentskills.skill.ref", "org.opencontainers.image.ref.name")
_NOT_CONTENT: Final = "vnd.docker.reference.type"
_MOST_LAYERS: Final = 32
_MOST_LISTED: Final = 100
_UNPACK: Final = "io.deis.oras.content.unpack"  # `oras pull` leaves out what has no title, and unpacks what has this
_LONGEST: Final = 1000
_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"


class _BlobEntry(NamedTuple):
    """What a manifest says of one of its blobs, or an index of one of its manifests."""

    digest: str
    size: int
    media_type: str
    title: str
    reference: str
    platform: str
    attests: bool

    @classmethod
    def read(cls, value: object, where: str) -> _BlobEntry:
        """Raises InvalidSource: it is no descriptor."""
        words = value if isinstance(value, dict) else {}
        digest, size, notes = words.get("digest"), words.get("size"), words.get("annotations") or {}
        named = isinstance(digest, str) and is_digest(digest)
        if not named or type(size) is not int or size < 0 or not isinstance(notes, dict):
            raise InvalidSource(
                f"{where} names a blob without a digest or a size", hint="only sha256 digests are read; push the artifact again"
            )
        platform = words.get("platform")
        system = f"{platform.get('os')}/{platform.get('architecture')}" if isinstance(platform, dict) else ""
        reference = next((str(notes[name]) for name in _REFERENCES if name in notes), "")
        title, kind = str(notes.get(_TITLE) or ""), str(words.get("mediaType") or "")
        return cls(str(digest), size, kind, title, reference, system, attests=_NOT_CONTENT in notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class OciFetcher:
    """Fetches skills from OCI registries; addresses and credentials as for `OciRepository`."""

    limits: PackageLimits = field(default_factory=PackageLimits)
    allow_private: bool = False
    credentials: FindCredentials = find_credentials

    def fetch(self, source: Source, into: Path) -> FetchedTree:
        """As `Fetcher.fetch`; of a collection each skill is a folder of the tree."""
        repository = self._open(source.address)
        found = repository.manifest(source.ref or "latest")
        where = f"{repository.shown}@{found.digest}"
        origin = Origin("oci", source.address, ref=source.ref, commit=found.digest)
        listed = _listed(found, where) if found.media_type in INDEX_TYPES else []
        if len(listed) < 2:
            member = self._member(repository, listed[0]) if listed else (repository, found)
            tree, version, layer = self._unpack(*member, where, into)
            return _below(tree, replace(origin, version=version, sha256=layer), source.path)
        together = into / f"oci-{os.urandom(4).hex()}"
        together.mkdir()
        total = 0
        for one in listed:
            tree, _, _ = self._unpack(*self._member(repository, one), where, into)
            total += sum(entry.size for entry in tree_entries(tree))
            if total > self.limits.listed:
                raise ArchiveTooLarge(
                    f"the collection {where} is over {limit_words(self.limits.listed)}",
                    hint="install its skills one by one",
                    limit=self.limits.listed,
                )
            tree.rename(together / _folder_of(tree, one, together))
        return _below(together, origin, source.path)

    def _open(self, address: str) -> OciRepository:
        return OciRepository(address, allow_private=self.allow_private, credentials=self.credentials)

    def _member(self, repository: OciRepository, listed: _BlobEntry) -> tuple[OciRepository, FoundManifest]:
        """A manifest of an index, from its repository or from the one on the same host that the index names."""
        found = repository.find_manifest(listed.digest)
        if found is None:
            named = listed.reference.partition("@")[0]
            host, _, name = named.partition("/")
            if host != repository.host or not name:
                raise InvalidSource(
                    f"{repository.shown} lists {listed.digest}, which it does not have",
                    hint=f"install {single_line(named)[:200]} by itself" if named else "push the collection again",
                )
            plain = resolve(f"oci://{named}").address
            repository = self._open(plain.replace("oci://", repository.scheme, 1))
            found = repository.manifest(listed.digest)
        if found.media_type in INDEX_TYPES:
            raise InvalidSource(
                f"{repository.shown} lists another list, {listed.digest}", hint="install that one by its digest"
            )
        return repository, found

    def _unpack(self, repository: OciRepository, found: FoundManifest, where: str, into: Path) -> tuple[Path, str, str]:
        """The tree of one artifact, the version that it is annotated with, and the digest of its layer, if it has one alone."""
        layers = [_BlobEntry.read(one, where) for one in _list_of(found.value, "layers", where, most=_MOST_LAYERS)]
        if found.media_type not in MANIFEST_TYPES or not layers:
            raise InvalidSource(
                f"{where} has no layer: it is not an artifact with a skill", hint="check the repository and the tag"
            )
        if (size := sum(layer.size for layer in layers)) > self.limits.archive:
            raise ArchiveTooLarge(
                f"the layers of {where} are {size:,} bytes together, over {limit_words(self.limits.archive)}",
                hint="a skill is pushed alone, not as part of a larger image",
                limit=self.limits.archive,
            )
        trees = [self._layer(repository, layer, where, into) for layer in layers]
        tree = trees[0] if len(trees) == 1 and not _has_whiteouts(trees[0]) else self._merged(trees, into)
        notes = found.value.get("annotations")
        version = notes.get(_VERSION) if isinstance(notes, dict) else None
        return tree, version[:_LONGEST] if isinstance(version, str) else "", layers[0].digest if len(layers) == 1 else ""

    def _layer(self, repository: OciRepository, layer: _BlobEntry, where: str, into: Path) -> Path:
        data = repository.blob(layer.digest, layer.size)
        packed = sniff(data[:512]) is not None
        if packed and ("tar" in layer.media_type or "zip" in layer.media_type or not layer.title):
            archive = into / f"layer-{os.urandom(4).hex()}"
            archive.write_bytes(data)
            try:
                return extract(archive, into, self.limits).tree
            finally:
                archive.unlink()
        if not layer.title:
            raise InvalidSource(
                f"a layer of {where} is of the type {single_line(layer.media_type)[:100]!r}, which is not read",
                hint="layers are tar, tar+gzip or zip, or files with a title; push it again so",
            )
        with new_staging(into, self.limits) as writer:
            writer.file(safe_name(layer.title, self.limits), [data], executable=False)
        return Path(writer.path)

    def _merged(self, trees: Sequence[Path], into: Path) -> Path:
        """The layers laid over each other, as container engines do it: the last file counts, a whiteout removes."""
        files: dict[str, tuple[Path, bool]] = {}
        for tree in trees:
            entries = sorted(tree_entries(tree))
            for gone in (entry.path for entry in entries):
                folder, _, name = gone.rpartition("/")
                if name == _OPAQUE:
                    files = {path: kept for path, kept in files.items() if folder and not path.startswith(f"{folder}/")}
                elif name.startswith(_WHITEOUT):
                    removed = f"{folder}/{name[len(_WHITEOUT) :]}".lstrip("/")
                    files = {
                        path: kept for path, kept in files.items() if path != removed and not path.startswith(f"{removed}/")
                    }
            for path, kind, _ in entries:
                if kind in "fx" and not path.rpartition("/")[2].startswith(_WHITEOUT):
                    files[path] = (tree / path, kind == "x")
        with new_staging(into, self.limits) as writer:
            for path, (file, executable) in sorted(files.items()):
                writer.file(path, [file.read_bytes()], executable=executable)
        return Path(writer.path)


def _has_whiteouts(tree: Path) -> bool:
    return any(entry.path.rpartition("/")[2].startswith(_WHITEOUT) for entry in tree_entries(tree))


def _folder_of(tree: Path, listed: _BlobEntry, together: Path) -> str:
    """A name for the folder of one artifact of a collection: that of its first skill, which stays the same in the next one."""
    name = next((skill.skill_id for skill in find_skills(tree)), "") or digest_hex(listed.digest)
    return name if not (together / name).exists() else digest_hex(listed.digest)


def _below(tree: Path, origin: Origin, path: str) -> FetchedTree:
    """The folder that was asked for, which an earlier version had; the whole tree where this one has none of that name."""
    folder = tree / safe_relative(path) if path else tree
    if not folder.is_dir() or not is_inside(folder, tree):
        return FetchedTree(tree, origin, owned=True)
    return FetchedTree(folder, replace(origin, path=path), owned=True)


def _listed(found: FoundManifest, where: str) -> list[_BlobEntry]:
    """The manifests of an index that are installed: all of a list of skills, one of an image for several platforms."""
    listed = [_BlobEntry.read(one, where) for one in _list_of(found.value, "manifests", where, most=_MOST_LISTED)]
    content = [one for one in listed if not one.attests]
    if not content:
        raise InvalidSource(f"{where} lists nothing to install", hint="check the repository and the tag")
    if all(one.platform for one in content):
        return [next((one for one in content if one.platform == "linux/amd64"), content[0])]
    return content


def _list_of(value: Mapping[str, object], name: str, where: str, *, most: int) -> list[object]:
    entries = value.get(name)
    if not isinstance(entries, list):
        raise InvalidSource(f"{where} has no list of {name}", hint="it is not a manifest that can be installed")
    if len(entries) > most:
        raise TooManyFiles(
            f"{where} lists {len(entries):,} {name}, over {most}", hint="install its parts one by one", limit=most
        )
    return entries


@dataclass(frozen=True, slots=True)
class PushedArtifact(WireForm):
    """What was pushed: `reference` with its tag, the digest of the manifest, of the content and of the layer.

    `copied` are the bytes that the registry had not; `same` says that the tag named exactly this before.
    """

    skill_id: str
    reference: str
    digest: str
    content_digest: str
    layer_digest: str
    copied: int
    same: bool


def push_skill(
    directory: Path,
    target: str,
    *,
    origin: str = "",
    force: bool = False,
    dry_run: bool = False,
    allow_private: bool = False,
    credentials: FindCredentials = find_credentials,
) -> PushedArtifact:
    """Push the skill in `directory` to `oci://HOST/REPOSITORY[:TAG]`; the tag is its version when none is given, else `latest`.

    `origin` is the address that the artifact is annotated with as its source, where SKILL.md names none. With `dry_run`
    nothing is written.

    Raises:
        SkillExists: the tag names something else; with `force` it is moved.
        InvalidSource: the target is no repository, or one may not write there.
        NoSkillInside, ArchiveRefused: the folder is no package.
        NetworkRefused, NetworkFailed: the registry may not be contacted, or did not answer properly.
    """
    source = resolve(target)
    if source.kind != "oci" or is_digest(source.ref):
        raise InvalidSource(f"{target[:200]!r} is nothing to push to", hint="as in oci://registry.example.com/team/skill:1.0")
    with tempfile.TemporaryDirectory(prefix="skillyard-") as scratch:
        package = pack(directory, f"{scratch}/skill.tar.gz", rooted=True)
        layer = package.path.read_bytes()
    skill_id, config, notes = _described(directory, origin)
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPES[0],
            "artifactType": ARTIFACT_TYPE,
            "config": _descriptor(CONFIG_TYPE, config),
            "layers": [_descriptor(LAYER_TYPE, layer) | {"annotations": {_TITLE: skill_id, _UNPACK: "true"}}],
            "annotations": notes,
        }
    )
    tag = source.ref or tag_of(notes.get(_VERSION, ""))
    repository = OciRepository(source.address, allow_private=allow_private, credentials=credentials, write=True)
    before, digest = repository.find_manifest(tag), digest_of(manifest)
    same = before is not None and before.digest == digest
    pushed = PushedArtifact(skill_id, f"{source.address}:{tag}", digest, package.digest, digest_of(layer), 0, same=same)
    if before is not None and not same and not force:
        raise SkillExists(
            f"{pushed.reference} is something else: {before.digest}",
            hint="push it under another tag, or use --force to move this one",
            skill_id=skill_id,
        )
    if same or dry_run:
        return pushed
    copied = sum(len(blob) for blob in (layer, config) if repository.put_blob(blob))
    repository.put_manifest(tag, manifest, MANIFEST_TYPES[0])
    return replace(pushed, copied=copied)


def _described(directory: Path, origin: str) -> tuple[str, bytes, dict[str, str]]:
    """The id, the configuration blob and the annotations of a skill."""
    from skillyard.document import DOCUMENT_LIMIT, parse_document
    from skillyard.paths import read_inside

    document = parse_document(read_inside(directory, "SKILL.md", limit=DOCUMENT_LIMIT), directory_name=directory.resolve().name)
    metadata = document.metadata
    fields = {
        "schemaVersion": "1", "name": metadata.name, "version": metadata.version, "description": metadata.description,
        "license": metadata.license, "compatibility": metadata.compatibility,
    }  # fmt: skip
    notes = {
        _TITLE: metadata.name, "io.agentskills.skill.name": metadata.name, _VERSION: metadata.version,
        "org.opencontainers.image.description": single_line(metadata.description)[:_LONGEST],
        "org.opencontainers.image.licenses": metadata.license,
        "org.opencontainers.image.source": metadata.repository or origin,
        "org.opencontainers.image.authors": metadata.author, "org.opencontainers.image.url": metadata.homepage,
    }  # fmt: skip
    config = _json({name: value for name, value in fields.items() if value})
    return document.skill_id, config, {name: value for name, value in notes.items() if value}


def tag_of(version: str) -> str:
    """A version as a tag, which may have no plus sign; `latest` for one that cannot be written."""
    text = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in version)[:128]
    return text if text and text[0] not in ".-" else "latest"


def _descriptor(media_type: str, data: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
