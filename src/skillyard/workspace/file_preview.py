"""What a file of a workspace looks like, as plain data: text, a picture, a page of a PDF, a table.

The file is untrusted. Pictures are passed on as they are; what has to be understood (PDFs, workbooks) is read in a sandbox
of its own, which sees the folder, read-only, and nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import csv
import io
import mimetypes
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal
from weakref import WeakKeyDictionary

from skillyard.errors import InvalidInput, SkillyardError
from skillyard.paths import safe_relative
from skillyard.sandbox import NOTHING_GRANTED
from skillyard.text import is_text, sanitize
from skillyard.wire import WireForm
from skillyard.workspace.channel import SessionCall
from skillyard.workspace.workspace import Workspace
from skillyard.workspace.workspace_options import WorkspaceOptions
from skillyard.workspace.workspace_session import sheet_packages

if TYPE_CHECKING:
    from skillyard.workspace.folder import WorkspaceFolder

PreviewKind = Literal["text", "markdown", "image", "pdf", "table", "binary"]

_TEXT: Final = 100_000  # characters
_IMAGE: Final = 8 * 1024 * 1024
_ROWS: Final = 500
_COLUMNS: Final = 50
_CELL: Final = 300
_SECONDS: Final = 20.0
_MEMORY_MB: Final = 768  # of the sandbox that reads one document
_AT_ONCE: Final = 2
_SLOTS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]] = WeakKeyDictionary()
_MARKDOWN: Final = (".md", ".markdown")
_SEPARATORS: Final = {".csv": ",", ".tsv": "\t"}
_WORKBOOKS: Final = (".xlsx", ".xlsm")
PictureType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
_IMAGES: Final[Mapping[bytes, PictureType]] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


@dataclass(frozen=True, slots=True)
class PreviewImage(WireForm):
    """A picture: its media type and its bytes as Base64."""

    media_type: PictureType
    data: str


@dataclass(frozen=True, slots=True)
class FilePreview(WireForm):
    """The preview of one file, of `size` bytes.

    `text` and `markdown` have a `text` of at most 100,000 characters, `image` an `image`. `pdf` has the number of `pages`, and
    of one `page` (from 1) the `text` and, as a PNG, the `image`. `table` has the names of all `sheets`, the number of the shown
    `sheet` (from 0), and its first 500 `rows` of at most 50 texts. `binary` has the `reason` why there is nothing to see.
    `truncated` says that there is more.
    """

    kind: PreviewKind
    path: str
    media_type: str
    size: int
    text: str | None = None
    truncated: bool = False
    image: PreviewImage | None = None
    page: int | None = None
    pages: int | None = None
    sheets: tuple[str, ...] = ()
    sheet: int | None = None
    rows: tuple[tuple[str, ...], ...] = ()
    reason: str | None = None


async def preview_file(
    folder: WorkspaceFolder, path: str, *, page: int = 1, sheet: int = 0, options: WorkspaceOptions | None = None
) -> FilePreview:
    """The preview of a file in a workspace's folder; `options` say which sandbox reads documents, within which limits.

    Raises:
        PathRefused, FileMissing: there is no such file.
        InvalidInput: a page below 1, or a sheet below 0.
    """
    if page < 1 or sheet < 0:
        raise InvalidInput("there is no such page or sheet", hint="pages are counted from 1, sheets from 0")
    relative = safe_relative(path)
    head, size = await asyncio.to_thread(_beginning, folder, relative)
    media_type = mimetypes.guess_type(relative)[0] or "application/octet-stream"
    found = FilePreview("binary", relative, media_type, size)
    ending = os.path.splitext(relative)[1].lower()  # noqa: PTH122 # of a path inside the workspace
    image = _image_type(head)
    if image is not None:
        if size > _IMAGE:
            return replace(found, media_type=image, reason=f"the picture has over {_IMAGE} bytes")
        data = await asyncio.to_thread(lambda: folder.read(relative, limit=_IMAGE))
        return replace(found, kind="image", media_type=image, image=PreviewImage(image, base64.b64encode(data).decode()))
    if head.startswith(b"%PDF-"):
        return await _in_sandbox(folder, replace(found, kind="pdf", page=page), options)
    if head.startswith(b"PK") and ending in _WORKBOOKS:
        return await _in_sandbox(folder, replace(found, kind="table", sheet=sheet), options)
    return await asyncio.to_thread(_of_text, found, head, ending)


def _beginning(folder: WorkspaceFolder, path: str) -> tuple[bytes, int]:
    with os.fdopen(folder.open(path), "rb") as file:
        return file.read(4 * _TEXT), os.fstat(file.fileno()).st_size


def _image_type(head: bytes) -> PictureType | None:
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for sign, kind in _IMAGES.items() if head.startswith(sign)), None)


def _of_text(found: FilePreview, head: bytes, ending: str) -> FilePreview:
    if not is_text(head):
        return replace(found, reason="it is not text, and no picture, PDF or workbook")
    text = head.decode("utf-8", "replace")
    shown, truncated = sanitize(text[:_TEXT]), len(text) > _TEXT or len(head) < found.size
    if ending in _SEPARATORS:
        rows, more = _table(shown, _SEPARATORS[ending])
        return replace(found, kind="table", sheets=(), sheet=0, rows=rows, truncated=truncated or more)
    return replace(found, kind="markdown" if ending in _MARKDOWN else "text", text=shown, truncated=truncated)


def _table(text: str, separator: str) -> tuple[tuple[tuple[str, ...], ...], bool]:
    rows: list[tuple[str, ...]] = []
    more = False
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator):
            if len(rows) == _ROWS:
                return tuple(rows), True
            more = more or len(row) > _COLUMNS
            rows.append(tuple(cell[:_CELL] for cell in row[:_COLUMNS]))
    except csv.Error:
        more = True
    return tuple(rows), more


async def _in_sandbox(folder: WorkspaceFolder, found: FilePreview, options: WorkspaceOptions | None) -> FilePreview:
    """Read a document in a session of its own, which ends at once: with the limits of the operator, and none of the grants."""
    given = options or WorkspaceOptions()
    policy = replace(
        given.policy, network="none", network_allowlist=(), environment={}, secrets=frozenset(), private_networks=False,
        memory_mb=min(given.policy.memory_mb, _MEMORY_MB),
    )  # fmt: skip
    workspace = Workspace(
        folder.path,
        options=replace(given, policy=policy, skills=(), environment=NOTHING_GRANTED, held_back=False, read_only=True),
    )
    try:
        async with _slots():
            return await (_page(workspace, found) if found.kind == "pdf" else _sheet(workspace, found))
    except SkillyardError as error:
        return replace(found, kind="binary", reason=error.message)
    finally:
        await workspace.close()


def _slots() -> asyncio.Semaphore:
    """What keeps many documents from being read at once in one process: each takes a sandbox with its memory."""
    loop = asyncio.get_running_loop()
    if loop not in _SLOTS:
        _SLOTS[loop] = asyncio.Semaphore(_AT_ONCE)
    return _SLOTS[loop]


async def _page(workspace: Workspace, found: FilePreview) -> FilePreview:
    answer = await workspace.file_read(f"{workspace.path}/{found.path}", offset=found.page or 1, limit=1)
    if not answer.ok:
        return replace(found, kind="binary", reason=str(answer.data.get("message", answer.text)))
    text = answer.text.partition("\n")[2] if answer.images else ""
    images = [PreviewImage("image/png", base64.b64encode(image.data).decode()) for image in answer.images]
    return replace(found, pages=int(answer.data["total"]), text=text, image=images[0] if images else None)


async def _sheet(workspace: Workspace, found: FilePreview) -> FilePreview:
    session, _ = await workspace.session()
    arguments = {
        "path": f"{session.folder}/{found.path}", "sheet": found.sheet, "rows": _ROWS, "columns": _COLUMNS,
        "packages": dict(sheet_packages()),
    }  # fmt: skip
    answer = await session.operation("sheet", arguments, seconds=_SECONDS, folder=session.folder)
    if isinstance(answer, SessionCall):
        return replace(found, kind="binary", reason=f"it takes over {_SECONDS:g} s, or too much memory, to read")
    if "error" in answer:
        return replace(found, kind="binary", reason=sanitize(str(answer["message"])))
    rows: list[list[Any]] = answer["rows"]
    return replace(
        found,
        sheets=tuple(sanitize(str(name)) for name in answer["sheets"]),
        rows=tuple(tuple(sanitize(str(cell)) for cell in row) for row in rows),
        truncated=bool(answer["truncated"]),
    )
