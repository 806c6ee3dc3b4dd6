"""What the file tools do, inside the sandbox: read, write, edit, list, search. Each call is a process of its own.

The kernel holds them to what the session may see, links included, exactly as it does commands. The answer is one JSON document.
This file stands alone, like the program that imports it.
"""

from __future__ import annotations

import base64
import fnmatch
import io
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from typing import Any

TEXT_LIMIT = 16 * 1024 * 1024  # bytes of a file that is read as text or searched
MEDIA_LIMIT = 8 * 1024 * 1024
PDF_LIMIT = 64 * 1024 * 1024
MOST_PAGES = 10
_CELL = 300  # characters of one cell that are shown
_NAME = 100
_MOST_SHEETS = 100
WRITE_LIMIT = 32 * 1024 * 1024
_LINE_LIMIT = 2000  # characters of a line that are shown
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv"})  # not looked into unless they are asked for
_MOST_VISITED = 200_000
_MOST_BASES = 16
_MEDIA = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"%PDF-": "application/pdf",
}


class Refused(Exception):
    """An operation cannot be done; `code` is one of the table of errors."""

    def __init__(self, code: str, message: str, hint: str = "", **details: object) -> None:
        super().__init__(message)
        self.answer = {"error": code, "message": message, "hint": hint, **details}


def answer(request: dict[str, Any], pipe: int) -> None:
    """Do what the request says and write the answer."""
    try:
        _enter(request["folder"])
        arguments = request["arguments"]
        judged = arguments.pop("judged", None)
        if judged is not None and os.path.realpath(arguments["path"]) != judged:
            raise Refused("path_refused", f"{arguments['path']} leads elsewhere now", "call it again")
        value = OPERATIONS[request["operation"]](arguments)
    except Refused as refused:
        value = refused.answer
    except OSError as error:
        value = _of_system(error)
    data = memoryview(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogateescape"))
    while data:
        data = data[os.write(pipe, data) :]


def _enter(folder: str) -> None:
    """Go into the very folder of a call, which was judged by its name."""
    try:
        os.chdir(folder)
        found = os.getcwd()
    except OSError:
        found = ""
    if found != folder:
        raise Refused("file_not_found", f"the working folder {folder} is gone", "", folder_gone=True)


def _of_system(error: OSError) -> dict[str, object]:
    import errno

    path = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else ""
    codes = {
        errno.ENOENT: "file_not_found",
        errno.ENOSPC: "disk_full",
        errno.EDQUOT: "disk_full",
        errno.EFBIG: "file_too_large",
    }
    reason = os.strerror(error.errno) if error.errno else str(error)
    code = codes.get(error.errno or 0, "path_refused")
    return {"error": code, "message": f"{path}: {reason}" if path else reason, "hint": _HINTS.get(code, "")}


_HINTS = {
    "file_not_found": "list the folder to see what is there",
    "disk_full": "delete what is not needed, then try again; nothing was changed",
    "path_refused": "work below the workspace; everything else is read-only or not there",
}


def _open(path: str) -> int:
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    state = os.fstat(file)
    if stat.S_ISDIR(state.st_mode):
        raise Refused("path_refused", f"{path} is a folder", "list it with file_list")
    if not stat.S_ISREG(state.st_mode):
        raise Refused("path_refused", f"{path} is not a regular file", "only regular files can be read")
    return file


def _bytes(path: str, limit: int) -> bytes:
    with os.fdopen(_open(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise Refused(
                "file_too_large", f"{path} has {size} bytes", f"at most {limit} bytes; use bash to look at a part of it"
            )
        return file.read(limit + 1)[:limit]


def _text(path: str) -> str:
    data = _bytes(path, TEXT_LIMIT)
    if b"\0" in data[:8192]:
        raise Refused("binary_file", f"{path} is not text", "use bash or code_run with a program that knows the format")
    return data.decode("utf-8", "replace")


def _read(arguments: dict[str, Any]) -> dict[str, object]:
    """Lines of a text, numbered by the caller; or a picture or PDF as it is."""
    path, offset, limit, most = (arguments[name] for name in ("path", "offset", "limit", "characters"))
    with os.fdopen(_open(path), "rb") as file:
        head = file.read(16)
    kind = _media_type(head)
    if kind == "application/pdf":
        return _pages(path, arguments["pdf_packages"], offset, limit)
    if kind:
        data = _bytes(path, MEDIA_LIMIT)
        return {"kind": kind, "size": len(data), "data": base64.b64encode(data).decode()}
    lines = _text(path).splitlines()
    chosen: list[str] = []
    for line in lines[offset - 1 : offset - 1 + limit]:
        shown = line if len(line) <= _LINE_LIMIT else f"{line[:_LINE_LIMIT]}... [{len(line) - _LINE_LIMIT} more characters]"
        most -= len(shown) + 8
        if most < 0 and chosen:
            break
        chosen.append(shown)
    return {"kind": "text", "lines": chosen, "first": offset, "total": len(lines)}


def _pages(path: str, packages: dict[str, str], first: int, count: int) -> dict[str, object]:
    """Some pages of a PDF, each as its text and as a picture."""
    if not packages:
        raise Refused("runtime_unavailable", "nothing here draws pages of a PDF", "pip install 'pypdfium2>=5'")
    pdfium = _imported(packages, "pypdfium2>=5")
    try:
        document = pdfium.PdfDocument(_bytes(path, PDF_LIMIT))
        pages = range(first - 1, min(first - 1 + count, first - 1 + MOST_PAGES, len(document)))
        drawn = [_drawn(document[number]) for number in pages]
        return {"kind": "application/pdf", "first": first, "total": len(document), "pages": drawn}
    except pdfium.PdfiumError as error:
        raise Refused("binary_file", f"{path} is not a PDF that can be read: {error}", "look at it with bash") from None


def _sheet(arguments: dict[str, Any]) -> dict[str, object]:
    """The first rows of one sheet of a workbook, as texts: the values that are stored, else the formulas."""
    path, number, rows, columns = (arguments[name] for name in ("path", "sheet", "rows", "columns"))
    if not arguments["packages"]:
        raise Refused("runtime_unavailable", "nothing here reads workbooks", "pip install 'openpyxl>=3.1'")
    openpyxl = _imported(arguments["packages"], "openpyxl>=3.1")
    data = _bytes(path, PDF_LIMIT)
    try:
        values, formulas = (_cells(openpyxl, data, number, rows + 1, columns + 1, values=kind) for kind in (True, False))
        names = [sheet.title for sheet in openpyxl.load_workbook(io.BytesIO(data), read_only=True).worksheets]
    except Refused:
        raise
    except Exception as error:  # of an untrusted file the library may raise anything
        raise Refused("binary_file", f"{path} is not a workbook that can be read: {error}", "look at it with bash") from None
    texts = [
        [_cell(value if value is not None else formula) for value, formula in zip(*pair, strict=False)]
        for pair in zip(values, formulas, strict=False)
    ]
    while texts and not any(texts[-1]):
        texts.pop()
    width = max((number for row in texts for number, cell in enumerate(row, 1) if cell), default=0)
    truncated, shown = len(texts) > rows or width > columns, [row[: min(width, columns)] for row in texts[:rows]]
    return {"sheets": [name[:_NAME] for name in names[:_MOST_SHEETS]], "rows": shown, "truncated": truncated}


def _cells(openpyxl: Any, data: bytes, number: int, rows: int, columns: int, *, values: bool) -> list[tuple[Any, ...]]:
    book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=values)
    if not 0 <= number < len(book.worksheets):
        raise Refused("file_not_found", f"there is no sheet {number}", f"it has {len(book.worksheets)}, counted from 0")
    sheet = book.worksheets[number]
    sheet.reset_dimensions()  # what the file says of its size may be wrong
    return list(sheet.iter_rows(max_row=rows, max_col=columns, values_only=True))


def _cell(value: object) -> str:
    return "" if value is None else str(value)[:_CELL]


def _imported(packages: dict[str, str], install: str) -> Any:
    """The packages, imported from the folders that they are in and no others; the last of them."""
    import importlib.util
    import sys

    for name, folder in packages.items():
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, f"{folder}/__init__.py", submodule_search_locations=[folder])
            if spec is None or spec.loader is None:
                raise Refused("runtime_unavailable", f"{name} cannot be imported", f"pip install '{install}'")
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def _drawn(page: Any) -> dict[str, str]:
    """A page as its text and as a PNG of at most about a thousand pixels a side."""
    scale = min(1000 / max(*page.get_size(), 1), 2.0)
    bitmap = page.render(scale=scale, rev_byteorder=True)
    row = bitmap.width * bitmap.n_channels
    data = bytes(bitmap.buffer)
    rows = b"".join(b"\0" + data[start : start + row] for start in range(0, bitmap.stride * bitmap.height, bitmap.stride))
    text = page.get_textpage().get_text_range()
    colours = {1: 0, 3: 2, 4: 6}[bitmap.n_channels]
    return {"text": text[:20_000], "png": base64.b64encode(_png(bitmap.width, bitmap.height, colours, rows)).decode()}


def _png(width: int, height: int, colours: int, rows: bytes) -> bytes:
    """A PNG of rows that each begin with a zero: `colours` is its colour type (PNG specification, 11.2.2)."""
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, colours, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 6)) + chunk(b"IEND", b"")


def _media_type(head: bytes) -> str:
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MEDIA.items() if head.startswith(magic)), "")


def _write(arguments: dict[str, Any]) -> dict[str, object]:
    path, content = arguments["path"], arguments["content"]
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape")
    if len(data) > WRITE_LIMIT:
        raise Refused("file_too_large", f"the content has {len(data)} bytes", f"at most {WRITE_LIMIT} bytes; write it in parts")
    parent = os.path.dirname(path)
    if parent:
        os.makedirs(parent, exist_ok=True)
    created = not os.path.lexists(path)
    _replace(path, data)
    return {"created": created, "size": len(data), "lines": data.count(b"\n") + (not data.endswith(b"\n") and bool(data))}


def _replace(path: str, data: bytes) -> None:
    """The whole new content, or the old: it is written beside and takes the place in one step. A link is written through."""
    target = os.path.realpath(path)
    mode = 0o644
    if os.path.lexists(target):
        state = os.stat(target)
        if not stat.S_ISREG(state.st_mode):
            raise Refused("path_refused", f"{path} is not a regular file", "choose another name")
        mode = stat.S_IMODE(state.st_mode)
    beside = f"{os.path.dirname(target) or '.'}/.{os.urandom(6).hex()}.new"
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(file, "wb") as sink:
            sink.write(data)
        os.replace(beside, target)
    except BaseException:
        os.unlink(beside)
        raise


def _edit(arguments: dict[str, Any]) -> dict[str, object]:
    path, old, new, everywhere = (arguments[name] for name in ("path", "old_string", "new_string", "replace_all"))
    data = _bytes(path, TEXT_LIMIT)
    before, after = old.encode("utf-8", "surrogateescape"), new.encode("utf-8", "surrogateescape")
    if b"\r\n" in data and b"\r\n" not in before:
        before, after = before.replace(b"\n", b"\r\n"), after.replace(b"\n", b"\r\n")
    count = data.count(before)
    if count == 0:
        raise Refused("invalid_input", f"old_string is not in {path}", "read the file and copy the text exactly")
    if count > 1 and not everywhere:
        hint = "give more of the text around it, or set replace_all"
        raise Refused("invalid_input", f"old_string is {count} times in {path}", hint, count=count)
    position = data.index(before)
    _replace(path, data.replace(before, after))
    return {"replaced": count, "line": data.count(b"\n", 0, position) + 1}


def _list(arguments: dict[str, Any]) -> dict[str, object]:
    """The entries of a folder; with a pattern the files below it that fit, the newest first."""
    path, pattern, limit = arguments["path"], arguments["pattern"], arguments["limit"]
    if pattern:
        fits = _matcher(pattern)
        found = [(entry.stat(follow_symlinks=False), shown) for shown, entry in _walk(path) if fits(shown)]
        found.sort(key=lambda item: (-item[0].st_mtime, item[1]))
        rows = [_row(shown, state) for state, shown in found]
    else:
        with os.scandir(path) as items:
            rows = sorted(
                (_row(item.name, item.stat(follow_symlinks=False)) for item in items), key=lambda row: str(row["name"])
            )
    return {"entries": rows[:limit], "total": len(rows)}


def _row(name: str, state: os.stat_result) -> dict[str, object]:
    mode = state.st_mode
    kind = "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "link" if stat.S_ISLNK(mode) else "other"
    return {"name": name, "kind": kind, "size": state.st_size}


def _walk(path: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every entry below a folder that is no folder, by name, with its path relative to it. Links are not followed."""
    waiting, visited = [""], 0
    while waiting:
        prefix = waiting.pop()
        try:
            with os.scandir(os.path.join(path, prefix) if prefix else path) as items:
                entries = sorted(items, key=lambda item: item.name)
        except OSError:
            if not prefix:
                raise
            continue
        for entry in entries:
            visited += 1
            if visited > _MOST_VISITED:
                raise Refused("file_too_large", f"there are over {_MOST_VISITED} files below {path}", "name a smaller folder")
            shown = f"{prefix}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _SKIPPED:
                    waiting.append(f"{shown}/")
            else:
                yield shown, entry


def _matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a path fits a pattern: `*` within a name, `**` over folders; one without a slash is for the name alone."""
    if "/" not in pattern:
        name = re.compile(fnmatch.translate(pattern))
        return lambda path: bool(name.match(path.rpartition("/")[2]))
    whole = re.compile("(?s:" + "".join(_translated(part) for part in _TOKENS.split(pattern)) + r")\Z")
    return lambda path: bool(whole.match(path))


_TOKENS = re.compile(r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]{0,64}\])")
_MEANINGS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _translated(part: str) -> str:
    if part in _MEANINGS:
        return _MEANINGS[part]
    return fnmatch.translate(part)[4:-3] if part.startswith("[") and part.endswith("]") else re.escape(part)


def _search(arguments: dict[str, Any]) -> dict[str, object]:
    """Lines that fit a regular expression, with their files and numbers."""
    path, limit = arguments["path"], arguments["limit"]
    try:
        expression = re.compile(arguments["pattern"], re.IGNORECASE if arguments["ignore_case"] else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise Refused(
            "invalid_input",
            f"the pattern is not a regular expression: {error}",
            "escape special characters that are meant literally",
        ) from None
    fits = _matcher(arguments["glob"]) if arguments["glob"] else lambda _: True
    rows: list[dict[str, object]] = []
    total = files = 0
    for shown, target in _searched(path):
        if not fits(shown):
            continue
        count = 0
        for number, line in _lines(target):
            if expression.search(line):
                count += 1
                if arguments["lines"] and len(rows) < limit:
                    rows.append({"file": shown, "line": number, "text": line[:500]})
        if count:
            files, total = files + 1, total + count
            if not arguments["lines"] and len(rows) < limit:
                rows.append({"file": shown, "count": count})
    return {"matches": rows, "total": total, "files": files}


def _searched(path: str) -> Iterator[tuple[str, str]]:
    if os.path.isfile(path):
        yield path, path
        return
    for shown, entry in _walk(path):
        if entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_size <= TEXT_LIMIT:
            yield shown, entry.path


def _lines(path: str) -> Iterator[tuple[int, str]]:
    try:
        data = _bytes(path, TEXT_LIMIT)
    except (OSError, Refused):
        return
    if b"\0" not in data[:8192]:
        yield from enumerate(data.decode("utf-8", "replace").splitlines(), 1)


def _resolve(arguments: dict[str, Any]) -> dict[str, object]:
    """Where a path leads, links followed, as the session sees it; what is not there yet stays as it is."""
    return {"real": os.path.realpath(arguments["path"])}


def _links(arguments: dict[str, Any]) -> dict[str, object]:
    """Where those of the paths lead that are below a folder and pass through a link, from here and from folders among them."""
    below, paths, found = f"{arguments['below']}/", arguments["paths"], []
    bases = ["", *[path for path in paths if os.path.isdir(path)][:_MOST_BASES]]
    for path in (os.path.join(base, path) for base in bases for path in paths):
        whole, real = os.path.abspath(path), os.path.realpath(path)
        if whole.startswith(below) and real != whole:
            found.append(real)
    return {"real": found}


OPERATIONS = {
    "resolve": _resolve,
    "links": _links,
    "read": _read,
    "sheet": _sheet,
    "write": _write,
    "edit": _edit,
    "list": _list,
    "search": _search,
}
