"""The shape of what a run is given, the same for a run now and for a schedule; what it names is resolved to files."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import Field, StringConstraints, model_validator

from skillyard.errors import InvalidInput
from skillyard.execution import WorkFile, check_travelling
from skillyard.execution.work_files import ALL_FILES, LARGEST_FILE, MOST_ARGUMENTS, MOST_FILES, MOST_PACKAGES
from skillyard.server.shapes import RequestBody

if TYPE_CHECKING:
    from skillyard.engine import RunFiles

OWNERS: Final = ("userId", "householdId", "taskId", "groupId")
"""Keys of a context that say whose memories a run may keep: the server says them."""
_Package = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class GivenFile(RequestBody):
    """A file that a script is given: its path in the work folder, and its content in base64 or the id of an upload."""

    name: str = Field(default="", max_length=200, description="left out with an upload: the name it was uploaded under")
    content: str | None = Field(default=None, description="the bytes in base64; larger files are uploaded first")
    upload: str | None = Field(default=None, max_length=60, description="what POST /api/v1/runs/uploads answered")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.content is None) == (self.upload is None) or (self.upload is None and not self.name):
            raise ValueError("give a file either a name and a content, or an upload")
        return self


class RunInput(RequestBody):
    """What a run is given beside its skill.

    `entry` is another script of the skill: its path, or `package.module` as for `python -m`. `arguments` are its command line,
    `packages` what it gets beside its skill's: `pypdf`, `npm:docx`. The script begins in an empty folder with the `files`.
    """

    parameters: dict[str, Any] = Field(default={})
    context: dict[str, Any] = Field(default={}, description="who asks, for the skill; whose run it is the server says")
    entry: str | None = Field(default=None, min_length=1, max_length=500)
    arguments: list[str] = Field(default=[], max_length=MOST_ARGUMENTS)
    packages: list[_Package] = Field(default=[], max_length=MOST_PACKAGES)
    files: list[GivenFile] = Field(
        default=[],
        max_length=MOST_FILES,
        description=f"at most {LARGEST_FILE >> 20} MiB each and {ALL_FILES >> 20} MiB together",
    )

    def context_of(self, owner: str) -> dict[str, Any]:
        """As `owned_context`."""
        return owned_context(self.context, owner)

    def given_files(self, kept: RunFiles, uploader: str) -> tuple[WorkFile, ...]:
        """The files, those that `uploader` has uploaded too. Blocks.

        Raises:
            InvalidInput, FileTooLarge: a name, content, argument or package cannot be one, or there is too much.
            FileMissing: there is no such upload.
        """
        uploads = kept.uploaded(uploader, self.uploads) if self.uploads else {}
        files = tuple(_file(given, uploads) for given in self.files)
        check_travelling(self.arguments, self.packages, files)
        return files

    @property
    def uploads(self) -> list[str]:
        """The ids of the uploads that are named."""
        return [file.upload for file in self.files if file.upload is not None]


def owned_context(context: dict[str, Any], owner: str) -> dict[str, Any]:
    """The context of a run for `owner`.

    Raises:
        InvalidInput: it names whose memories it may keep.
    """
    if named := [key for key in OWNERS if key in context and context[key] != owner]:
        raise InvalidInput(f"the context may not say {', '.join(named)}", hint="the server says for whom a run is")
    return {**context, "userId": owner}


def _file(given: GivenFile, uploads: dict[str, WorkFile]) -> WorkFile:
    if given.upload is not None:
        kept = uploads[given.upload]
        return WorkFile(given.name or kept.name, kept.data)
    try:
        return WorkFile(given.name, base64.b64decode(given.content or "", validate=True))
    except binascii.Error:
        raise InvalidInput(f"the content of {given.name!r} is no base64", hint="encode its bytes in base64") from None
