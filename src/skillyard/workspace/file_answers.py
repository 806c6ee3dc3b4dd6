"""The file tools: what is asked of the session's own file operations, and the answers made of what they give."""

from __future__ import annotations

import base64
import hashlib
import posixpath
from typing import TYPE_CHECKING, Any, Final, Literal

from skillyard.errors import InvalidInput
from skillyard.text import sanitize
from skillyard.workspace.answers import WorkspaceAnswer, WorkspaceImage
from skillyard.workspace.channel import SessionCall
from skillyard.workspace.workspace_session import pdf_packages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skillyard.workspace.workspace_options import WorkspaceOptions
    from skillyard.workspace.workspace_session import WorkspaceSession

_SECONDS: Final = 20.0
_MOST_LINES: Final = 10_000
_MOST_ROWS: Final = 2_000
FileOperation = Literal["read", "write", "edit", "list", "search"]


class FileTools:
    """The tools that read and write files of one workspace, inside its sandbox."""

    def __init__(
        self,
        options: WorkspaceOptions,
        authorize: Callable[..., Awaitable[str]],
        judged: Callable[[], bool],
        session: Callable[[], Awaitable[tuple[WorkspaceSession, bool]]],
        refuse_held: Callable[[str], None],
    ) -> None:
        self._options = options
        self._authorize = authorize
        self._judged = judged
        self._session = session
        self._refuse_held = refuse_held

    async def read(self, path: str, offset: int, limit: int) -> WorkspaceAnswer:
        """A text with numbered lines, or a picture."""
        first, most = _number("offset", offset or 1, 1 << 31), _number("limit", limit, _MOST_LINES)
        arguments = {
            "path": _path(path),
            "offset": first,
            "limit": most,
            "characters": self._options.answer_characters,
            "pdf_packages": dict(pdf_packages()),
        }
        answer, fresh = await self._done("file_read", path, "read", arguments)
        if "error" in answer:
            return _refused("file_read", answer, fresh=fresh)
        if answer["kind"] == "text":
            return _lines(answer, fresh=fresh)
        if answer["kind"] == "application/pdf":
            return _pdf(answer, fresh=fresh)
        image = WorkspaceImage(str(answer["kind"]), base64.b64decode(answer["data"]))
        text = f"[{answer['kind']}, {answer['size']} bytes]"
        return _answer("file_read", text, {"kind": answer["kind"], "size": answer["size"]}, fresh=fresh, images=(image,))

    async def write(self, path: str, content: str | bytes) -> WorkspaceAnswer:
        """A file, whole."""
        if not _is_content(content):
            raise InvalidInput("content must be text", hint="give the whole text of the file")
        answer, fresh = await self._done(
            "file_write", path, "write", {"path": _path(path), "content": content}, _shown(content)
        )
        if "error" in answer:
            return _refused("file_write", answer, fresh=fresh)
        what = "Created" if answer["created"] else "Replaced"
        text = f"{what} {sanitize(path)}: {answer['lines']} lines, {answer['size']} bytes."
        return _answer("file_write", text, answer, fresh=fresh)

    async def edit(self, path: str, old: str, new: str, *, replace_all: bool) -> WorkspaceAnswer:
        """One text in place of another."""
        if not (_is_content(old) and _is_content(new) and old):
            raise InvalidInput("old_string and new_string must be text, and old_string not empty", hint="write new files whole")
        if old == new:
            raise InvalidInput("old_string and new_string are the same", hint="give the text that is to be there")
        arguments = {"path": _path(path), "old_string": old, "new_string": new, "replace_all": bool(replace_all)}
        where = " everywhere" if replace_all else ""
        about = f"replace{where} ({len(old)} characters):\n{_shown(old)}\nwith:\n{_shown(new)}"
        answer, fresh = await self._done("file_edit", path, "edit", arguments, about)
        if "error" in answer:
            return _refused("file_edit", answer, fresh=fresh)
        times = "once" if answer["replaced"] == 1 else f"{answer['replaced']} times"
        return _answer(
            "file_edit", f"Edited {sanitize(path)}: replaced {times}, first in line {answer['line']}.", answer, fresh=fresh
        )

    async def list(self, path: str, pattern: str | None, limit: int) -> WorkspaceAnswer:
        """The entries of a folder, or the files that fit a pattern."""
        arguments = {"path": _path(path), "pattern": pattern or "", "limit": _number("limit", limit, _MOST_ROWS)}
        answer, fresh = await self._done("file_list", path, "list", arguments, pattern or None)
        if "error" in answer:
            return _refused("file_list", answer, fresh=fresh)
        rows = [
            f"{_name(row['name'])}{'/' if row['kind'] == 'folder' else ''}  {_size(row)}".rstrip() for row in answer["entries"]
        ]
        text = "\n".join(rows) or ("No file fits." if pattern else "The folder is empty.")
        return _answer("file_list", _with_rest(text, answer["total"] - len(rows), "entries"), answer, fresh=fresh)

    async def search(
        self, pattern: str, path: str, glob: str | None, mode: str, *, ignore_case: bool, limit: int
    ) -> WorkspaceAnswer:
        """Lines, or names of files, that fit a regular expression."""
        if mode not in ("content", "files_with_matches"):
            raise InvalidInput(f"no output_mode {mode!r}", hint="it is content or files_with_matches")
        if not (_is_content(pattern) and pattern):
            raise InvalidInput("there is no pattern", hint="give a regular expression")
        arguments = {
            "pattern": pattern, "path": _path(path), "glob": glob or "", "ignore_case": bool(ignore_case),
            "lines": mode == "content", "limit": _number("head_limit", limit, _MOST_ROWS),
        }  # fmt: skip
        answer, fresh = await self._done(
            "file_search", path, "search", arguments, f"{pattern}\nin files: {glob}" if glob else pattern
        )
        if "error" in answer:
            return _refused("file_search", answer, fresh=fresh)
        rows = [_match(row) for row in answer["matches"]]
        found = answer["total"] if mode == "content" else answer["files"]
        text = _with_rest("\n".join(rows) or "Nothing fits.", found - len(rows), "matches")
        return _answer("file_search", _short(text, self._options.answer_characters), answer, fresh=fresh)

    async def _done(
        self, tool: str, path: str, operation: FileOperation, arguments: dict[str, Any], content: str | None = None
    ) -> tuple[dict[str, Any], bool]:
        """What the operation answers, a sentence about its end where it has none, and whether the session is fresh."""
        folder = await self._authorize(tool, path, content=content)
        if operation in ("write", "edit"):
            self._refuse_held(posixpath.normpath(posixpath.join(folder, path)))
        session, fresh = await self._session()
        if self._judged():
            found = await session.operation("resolve", {"path": path}, seconds=_SECONDS, folder=folder)
            if isinstance(found, SessionCall):
                return _unanswered(found, operation), fresh
            if "error" in found:
                return found, fresh
            real = str(found["real"])
            if real != posixpath.normpath(posixpath.join(folder, path)):  # there is a link in it
                await self._authorize(tool, real, folder, content)
            arguments = {**arguments, "judged": real}
        answer = await session.operation(operation, arguments, seconds=_SECONDS, folder=folder)
        if not isinstance(answer, SessionCall):
            return answer, fresh
        return _unanswered(answer, operation), fresh


def _unanswered(call: SessionCall, operation: FileOperation) -> dict[str, Any]:
    if call.reason == "timeout":
        hint = "use a simpler pattern, or fewer files" if operation == "search" else "try it on a smaller file"
        return {"error": "timeout", "message": f"it took over {_SECONDS:g} s", "hint": hint}
    return {"error": "session_ended", "message": "the session has ended", "hint": "try again: a fresh one begins"}


def _shown(content: str | bytes) -> str:
    """What is to be written, as a person reads it; what is no text as its size and digest."""
    if isinstance(content, str):
        return content
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"[{len(content)} bytes, sha256:{hashlib.sha256(content).hexdigest()}]"


def _is_content(value: object) -> bool:
    return isinstance(value, (str, bytes))


def _path(path: object) -> str:
    if not isinstance(path, str) or not path or "\0" in path:
        raise InvalidInput("there is no path", hint="give the path of a file, from the working folder or absolute")
    return path


def _number(name: str, value: object, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInput(f"{name} must be a whole number from 1, not {value!r}", hint=f"leave {name} out for the usual")
    return min(value, most)


def _refused(tool: str, answer: dict[str, Any], *, fresh: bool) -> WorkspaceAnswer:
    hint = f"\n{answer['hint']}" if answer.get("hint") else ""
    text = sanitize(f"Error: {answer['message']}{hint}")
    data = {"code": answer["error"], "message": answer["message"]}
    return WorkspaceAnswer(tool, text, ok=False, code=str(answer["error"]), fresh=fresh, data=data)


def _answer(
    tool: str, text: str, data: dict[str, Any], *, fresh: bool, images: tuple[WorkspaceImage, ...] = ()
) -> WorkspaceAnswer:
    return WorkspaceAnswer(tool, sanitize(text), fresh=fresh, images=images, data=data)


def _lines(answer: dict[str, Any], *, fresh: bool) -> WorkspaceAnswer:
    first, lines, total = int(answer["first"]), answer["lines"], int(answer["total"])
    text = "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, first))
    if not total:
        text = "[The file is empty.]"
    elif not lines:
        text = f"[The file has {total} line{'' if total == 1 else 's'}; there is no line {first}.]"
    elif first + len(lines) - 1 < total:
        text += f"\n[{total - first - len(lines) + 1} more lines; read on with offset {first + len(lines)}]"
    data = {"kind": "text", "first": first, "shown": len(lines), "total": total}
    return _answer("file_read", text, data, fresh=fresh)


def _pdf(answer: dict[str, Any], *, fresh: bool) -> WorkspaceAnswer:
    first, total, pages = int(answer["first"]), int(answer["total"]), answer["pages"]
    parts = [f"[page {number} of {total}]\n{page['text'].strip()}" for number, page in enumerate(pages, first)]
    if not parts:
        parts = [f"[The document has {total} pages; there is no page {first}.]"]
    elif first + len(pages) - 1 < total:
        parts.append(f"[{total - first - len(pages) + 1} more pages; read on with offset {first + len(pages)}]")
    images = tuple(WorkspaceImage("image/png", base64.b64decode(page["png"])) for page in pages)
    data = {"kind": "application/pdf", "first": first, "shown": len(pages), "total": total}
    return _answer("file_read", "\n".join(parts), data, fresh=fresh, images=images)


def _entry(row: dict[str, Any]) -> str:
    return f"{_name(row['name'])}{'/' if row['kind'] == 'folder' else ''}  {_size(row)}".rstrip()


def _match(row: dict[str, Any]) -> str:
    file = _name(row["file"])
    return f"{file}:{row['line']}:{row['text']}" if "line" in row else f"{file}: {row['count']}"


def _name(name: str) -> str:
    """A name in a list: what would be another line, or cannot be shown, is escaped."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in name)


def _size(row: dict[str, Any]) -> str:
    return f"{row['size']} bytes" if row["kind"] == "file" else "" if row["kind"] == "folder" else str(row["kind"])


def _with_rest(text: str, rest: int, what: str) -> str:
    return f"{text}\n[{rest} more {what}]" if rest > 0 else text


def _short(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit].rpartition(chr(10))[0]}\n[The rest is left out; name a folder, a glob or a narrower pattern.]"
