"""What a format cannot hold, carried along in a file of the skill, so that converting back gives the same bytes.

`skillyard.originals.json` in the skill's folder holds each file that a conversion rewrote or removed as it was, by its format,
and the digests of what was written instead. As long as those still hold, the way back is the original; after an edit it is a
conversion that takes over what the original had besides.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from skillyard.errors import FileMissing, FileProblem, InvalidManifest
from skillyard.paths import read_inside, safe_relative

__all__ = ["ORIGINALS_FILE", "REWRITTEN", "Envelope", "Originals"]

ORIGINALS_FILE: Final = "skillyard.originals.json"
REWRITTEN: Final = ("SKILL.md", "manifest.json")
"""The files of a skill that a conversion may write; no others are ever restored."""
_LIMIT: Final = 8 * 1024 * 1024
_Content = bytes | None


@dataclass(frozen=True, slots=True)
class Envelope:
    """The package around a skill: a plugin or a marketplace, where in it the skill was, and its other files."""

    format: str
    at: str
    files: Mapping[str, bytes]


@dataclass(slots=True)
class Originals:
    """The files of a skill as they were in other formats: None for one that was not there."""

    files: dict[str, dict[str, _Content]] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    envelope: Envelope | None = None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """What is carried in the skill at `folder`; empty when nothing is.

        Raises:
            InvalidManifest: the file is not one that was written here.
        """
        try:
            shape = json.loads(read_inside(folder, ORIGINALS_FILE, limit=_LIMIT))
            files = {
                str(name): {_rewritten(path): _decoded(content) for path, content in listed.items()}
                for name, listed in shape["originals"].items()
            }
            written = {_rewritten(path): str(digest) for path, digest in shape["written"].items()}
            return cls(files, written, _envelope(shape.get("envelope")))
        except FileMissing:
            return cls()
        except (FileProblem, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidManifest(
                f"{ORIGINALS_FILE} cannot be understood: {error}",
                hint="delete it: then nothing that other formats had besides comes back",
            ) from None

    def write(self, folder: Path) -> None:
        """Write the file, or remove it when there is nothing to carry."""
        target = folder / ORIGINALS_FILE
        if not self.files and self.envelope is None:
            target.unlink(missing_ok=True)
            return
        shape: dict[str, object] = {
            "version": 1,
            "originals": {
                name: {path: _encoded(data) for path, data in sorted(listed.items())}
                for name, listed in sorted(self.files.items())
            },
            "written": dict(sorted(self.written.items())),
        }
        if self.envelope is not None:
            files = {path: _encoded(data) for path, data in sorted(self.envelope.files.items())}
            shape["envelope"] = {"format": self.envelope.format, "at": self.envelope.at, "files": files}
        target.write_text(json.dumps(shape, indent=1, ensure_ascii=False) + "\n", "utf-8")

    def hold(self, folder: Path) -> bool:
        """Whether every file that was written instead of an original is still that."""
        return set(self.written) == set(REWRITTEN) and all(
            digest == _digest(folder / path) for path, digest in self.written.items()
        )

    def note_written(self, folder: Path, paths: list[str]) -> None:
        """Remember what stands there now."""
        self.written = {path: _digest(folder / path) for path in paths}


def _digest(path: Path) -> str:
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}" if path.is_file() else "missing"


def _encoded(data: _Content) -> object:
    """Text where it is text, else base64; null for a file that was not there."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
    return text


def _decoded(content: object) -> _Content:
    if content is None:
        return None
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, dict):
        return base64.b64decode(str(content["base64"]), validate=True)
    raise ValueError("a content is neither text nor base64")


def _envelope(shape: object) -> Envelope | None:
    if not isinstance(shape, dict):
        return None
    files = {_carried(path): _decoded(content) or b"" for path, content in shape["files"].items()}
    at = safe_relative(str(shape["at"]))
    folders = {"/".join(path.split("/")[:depth]) for path in files for depth in range(1, path.count("/") + 1)}
    if folders & files.keys() or at in files or any(part.startswith(".") for part in at.split("/")):
        raise ValueError("its files stand in each other's way")
    return Envelope(str(shape["format"]), at, files)


def _rewritten(path: str) -> str:
    if path not in REWRITTEN:
        raise ValueError(f"{path!r} is no file that a conversion writes")
    return path


def _carried(path: str) -> str:
    """A path of a package's other files; hidden ones, which programs read by themselves, are not carried."""
    first, *rest = safe_relative(path).split("/")
    if (first.startswith(".") and first != ".claude-plugin") or any(part.startswith(".") for part in rest):
        raise ValueError(f"{path!r} is a hidden file")
    return path
