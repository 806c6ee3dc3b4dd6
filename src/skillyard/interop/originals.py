"""What a format cannot hold, kept in a file of the skill, so that converting back gives the same bytes.

`skillyard.originals.json` in the skill's folder holds the way that the skill came: for each format it had, SKILL.md and
manifest.json as they were then, and as the conversion into that format had written them. Where the two differ somebody edited
the skill in between. Going back to a format takes the way back to there, and forgets what came after. Beside that it holds the
packages that the skill was taken out of.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Self

from skillyard.errors import FileMissing, FileProblem, InvalidManifest
from skillyard.paths import read_inside, safe_relative
from skillyard.wire import WireForm, to_wire

ORIGINALS_FILE: Final = "skillyard.originals.json"
REWRITTEN: Final = ("SKILL.md", "manifest.json")
"""The files of a skill that a conversion may write; no others are ever restored."""
SkillFiles = Mapping[str, bytes | None]
"""The files of a skill that a conversion may write: None for one that is not there."""
_LIMIT: Final = 32 * 1024 * 1024
_PLUGIN_FILES: Final = (".mcp.json", ".lsp.json")


class PreservedFile(NamedTuple):
    """One file of a plugin or marketplace: its bytes, and whether it may be run."""

    data: bytes
    executable: bool = False

    def to_dict(self) -> object:
        """As it is in our file of originals: text where it is text, else base64; an object only where there is more to say."""
        try:
            content: dict[str, object] = {"text": self.data.decode()}
        except UnicodeDecodeError:
            content = {"base64": base64.b64encode(self.data).decode()}
        if self.executable:
            return content | {"executable": True}
        return content.get("text", content)


@dataclass(frozen=True, slots=True)
class ContainingPackage(WireForm):
    """The package that a skill was taken out of: where in it the skill was, in which format, and its other files.

    `files` are by their paths; None is an empty folder. `depth` counts the formats that the skill had had before. With `made`
    the package was as a conversion makes it: a skill that goes back to what it was before does without it.
    """

    at: str
    skill: str
    files: Mapping[str, PreservedFile | None]
    depth: int = 0
    made: bool = False


@dataclass(frozen=True, slots=True)
class FormatState:
    """A format that a skill had: `files` as they were at its end, `written` as a conversion had made them (empty: none had)."""

    format: str
    files: SkillFiles
    written: SkillFiles = field(default_factory=dict)

    @property
    def edited(self) -> bool:
        """Whether somebody changed what a conversion had written."""
        return any(self.files.get(path) != data for path, data in self.written.items())


@dataclass(slots=True)
class Originals:
    """The formats that a skill had before, the first one first; what it is now, and as what it was written then."""

    format: str = ""
    written: SkillFiles = field(default_factory=dict)
    past: list[FormatState] = field(default_factory=list)
    envelopes: list[ContainingPackage] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """What is kept in the skill at `folder`; empty when nothing is.

        Raises:
            InvalidManifest: the file is not one that was written here.
        """
        try:
            shape = json.loads(read_inside(folder, ORIGINALS_FILE, limit=_LIMIT))
            past = [
                FormatState(str(one["format"]), _states(one["files"]), _states(one["written"])) for one in shape["originals"]
            ]
            envelopes = [_envelope(one) for one in shape["envelopes"]]
            return cls(str(shape["format"]), _states(shape["written"]), past, envelopes)
        except FileMissing:
            return cls()
        except (FileProblem, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidManifest(
                f"{ORIGINALS_FILE} cannot be understood: {error}",
                hint="delete it: what other formats had besides is lost then",
                problems=[],
            ) from None

    def write(self, folder: Path) -> None:
        """Write the file, or remove it when there is nothing to keep."""
        target = folder / ORIGINALS_FILE
        if not self.past and not self.envelopes:
            target.unlink(missing_ok=True)
            return
        shape = {
            "version": 2,
            "format": self.format,
            "written": _encoded(self.written),
            "originals": [
                {"format": one.format, "files": _encoded(one.files), "written": _encoded(one.written)} for one in self.past
            ],
            "envelopes": to_wire(self.envelopes),
        }
        target.write_text(json.dumps(shape, indent=1, ensure_ascii=False) + "\n", "utf-8")

    def find(self, format_: str) -> FormatState | None:
        """What the skill was when it last had this format."""
        return next((one for one in reversed(self.past) if one.format == format_), None)

    def edits_since(self, state: FormatState, now: FormatState) -> list[FormatState]:
        """The states after `state`, `now` among them, that somebody edited."""
        return [one for one in [*self.past[self.past.index(state) + 1 :], now] if one.edited]

    def return_to(self, state: FormatState) -> None:
        """Be at `state` again, and forget what came after it; packages that were made after it are forgotten too."""
        depth = self.past.index(state)
        self.past = self.past[:depth]
        self.format, self.written = (state.format, state.written) if self.past else ("", {})
        self.envelopes = [one for one in self.envelopes if not (one.made and one.depth >= depth)]

    def record_conversion(self, now: FormatState, format_: str, written: SkillFiles) -> None:
        """Remember what the skill was till now, and what was written instead."""
        self.past.append(now)
        self.format, self.written = format_, written


def may_be_preserved(path: str) -> bool:
    """Whether a file of a package is kept: no hidden one, which programs read by themselves, but for a plugin's own.

    >>> may_be_preserved(".claude-plugin/plugin.json"), may_be_preserved(".git/config")
    (True, False)
    """
    try:
        clean = safe_relative(path) == path and bool(path.encode())
    except (FileProblem, UnicodeEncodeError):
        return False
    first, *rest = path.split("/")
    own = (first == ".claude-plugin" and bool(rest)) or path in _PLUGIN_FILES
    return clean and (own or not first.startswith(".")) and not any(part.startswith(".") for part in rest)


def _encoded(files: SkillFiles) -> dict[str, object]:
    return {path: None if data is None else PreservedFile(data).to_dict() for path, data in sorted(files.items())}


def _decoded_file(content: object) -> PreservedFile:
    if isinstance(content, str):
        return PreservedFile(content.encode())
    if not isinstance(content, dict):
        raise ValueError("a content is neither text nor base64")
    executable = content.get("executable") is True
    if "text" in content:
        return PreservedFile(str(content["text"]).encode(), executable)
    return PreservedFile(base64.b64decode(str(content["base64"]), validate=True), executable)


def _states(files: Mapping[str, object]) -> SkillFiles:
    """Both files that a conversion writes, or none; a skill always has a SKILL.md."""
    if files and (files.keys() != set(REWRITTEN) or files["SKILL.md"] is None):
        raise ValueError(f"{', '.join(map(repr, sorted(files)))} are not the files that a conversion writes")
    return {path: None if content is None else _decoded_file(content).data for path, content in files.items()}


def _envelope(shape: Mapping[str, object]) -> ContainingPackage:
    listed, at, depth = shape["files"], str(shape["at"]), shape["depth"]
    if not isinstance(listed, dict) or not isinstance(depth, int):
        raise ValueError("its files are no object, or its depth no number")
    if hidden := next((path for path in listed if not may_be_preserved(path)), None):
        raise ValueError(f"{hidden!r} is a file that is not kept")
    files = {path: None if content is None else _decoded_file(content) for path, content in listed.items()}
    if at != ".":
        at = safe_relative(at)
    above = {path[:index] for path in [*files, at] for index, char in enumerate(path) if char == "/"}
    if above & files.keys() or at in files or (at != "." and any(part.startswith(".") for part in at.split("/"))):
        raise ValueError("its files conflict with each other")
    return ContainingPackage(at, str(shape["skill"]), files, depth, shape["made"] is True)
