"""What the pages of a damaged SQLite file still hold, read as https://www.sqlite.org/fileformat2.html describes them.

SQLite's own recovery (`.recover`) is part of its command line program, and only where that was built with it; Python's module
has none. This does the same: it follows the trees of the tables as far as they go, and then takes the leaves that no tree leads
to. A damaged page costs its own rows and no others. Nothing is written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

_MAGIC: Final = b"SQLite format 3\0"
_HEADER: Final = 100
_SIZES: Final = frozenset(1 << exponent for exponent in range(9, 17))
_LEAF, _INNER = 0x0D, 0x05
_INDEX_LEAF, _INDEX_INNER = 0x0A, 0x02
_DEFAULT_SIZE: Final = 4096
_LOG_MAGIC: Final = (0x377F0682, 0x377F0683)
_LOG_HEADER, _FRAME_HEADER = 32, 24

Value = int | float | str | bytes | None


class _Unreadable(Exception):
    """Something on a page is not in the format."""


class Row(NamedTuple):
    """One row: its number, and the values of its columns as they are stored, which may be fewer than the table has."""

    number: int
    values: tuple[Value, ...]


@dataclass(slots=True)
class Tree:
    """What the tree of a table holds: the rows that can be read, how many cannot, and how many pages are damaged."""

    rows: list[Row]
    broken_rows: int = 0
    broken_pages: int = 0


class PageFile:
    """The pages of the file `data`, with those of its write-ahead log `log` that were committed in their place.

    `pages` is how many there are; pages are numbered from 1.
    """

    def __init__(self, data: bytes | memoryview, log: bytes = b"") -> None:
        self._data = data
        whole = len(data) >= _HEADER and bytes(data[:16]) == _MAGIC
        size = int.from_bytes(data[16:18], "big") if whole else 0
        self._size = {1: 65536}.get(size, size)
        if self._size not in _SIZES:
            logged = int.from_bytes(log[8:12], "big")
            self._size = logged if logged in _SIZES else _DEFAULT_SIZE
        self._usable = self._size - (data[20] if whole and data[20] < 64 else 0)
        self._newer, pages = _committed(log, self._size)
        self.pages = pages or -(-len(data) // self._size)
        self._seen: set[int] = set()
        self._free = self._free_pages()

    def tables(self) -> Mapping[str, tuple[int, str]]:
        """The first page of each table and the statement that made it, by its name; of indexes by `index:` and their names.

        Where the page that the list begins on is lost, its other pages are looked for.
        """
        rows = self.tree(1).rows
        if not rows:
            rows = [row for page in range(2, self.pages + 1) if page not in self._free for row in self._schema_rows(page)]
        tables = {}
        for row in rows:
            match row.values:
                case ("table", str(name), _, int(root), str(statement)):
                    tables[name] = (root, statement)
                case ("index", str(name), str(table), int(root), _):
                    tables[f"index:{table}:{name}"] = (root, "")
        return tables

    def tree(self, root: int) -> Tree:
        """Every row of the table whose tree begins at the page `root`."""
        tree = Tree([])
        waiting = [root]
        while waiting:
            number = waiting.pop()
            if number in self._seen:
                continue
            try:
                page, cells, below = self._node(number, leaf=_LEAF, inner=_INNER)
            except (_Unreadable, IndexError):
                tree.broken_pages += 1
                continue
            self._seen.add(number)
            waiting += reversed(below)
            if not below:
                self._take(page, cells, tree)
        return tree

    def count_index(self, root: int) -> int | None:
        """How many entries an index has, one for each row of its table; None when a page of it is damaged."""
        count, waiting, seen = 0, [root], set()
        while waiting:
            number = waiting.pop()
            if number in seen:
                return None
            seen.add(number)
            try:
                _, cells, below = self._node(number, leaf=_INDEX_LEAF, inner=_INDEX_INNER)
            except (_Unreadable, IndexError):
                return None
            count += len(cells)
            waiting += below
        return count

    def stray_leaves(self) -> Iterator[list[Row]]:
        """The rows of each leaf of a table that no tree read so far leads to and that is not free."""
        for number in range(2, self.pages + 1):
            if number in self._seen or number in self._free:
                continue
            rows = self._leaf(number)
            if rows:
                self._seen.add(number)
                yield rows

    def _leaf(self, number: int) -> list[Row]:
        """The rows of a page, if it is a leaf of a table and all of it can be read."""
        try:
            page, cells, below = self._node(number, leaf=_LEAF, inner=_INNER)
            return [] if below else [self._row(page, cell) for cell in cells]
        except (_Unreadable, IndexError):
            return []

    def _schema_rows(self, number: int) -> list[Row]:
        rows = self._leaf(number)
        kinds = ("table", "index", "trigger", "view")
        return rows if rows and all(len(row.values) == 5 and row.values[0] in kinds for row in rows) else []

    def _take(self, page: bytes, cells: Sequence[int], tree: Tree) -> None:
        for cell in cells:
            try:
                tree.rows.append(self._row(page, cell))
            except (_Unreadable, IndexError):
                tree.broken_rows += 1

    def _page(self, number: int) -> tuple[bytes, int]:
        """The bytes of a page, and where its tree begins: behind the header of the file on the first one."""
        if not 0 < number <= self.pages:
            raise _Unreadable
        page = self._newer.get(number)
        if page is None:
            page = bytes(self._data[(number - 1) * self._size : number * self._size])
        if len(page) < self._size:
            raise _Unreadable
        return page, _HEADER if number == 1 else 0

    def _node(self, number: int, *, leaf: int, inner: int) -> tuple[bytes, list[int], list[int]]:
        """A page of a tree: its bytes, where its cells begin, and the pages below it, at least one for an `inner` page."""
        page, start = self._page(number)
        if page[start] not in (leaf, inner):
            raise _Unreadable
        if page[start] == leaf:
            return page, self._cells(page, start, 8), []
        cells = self._cells(page, start, 12)
        pointers = [*cells, start + 8]
        return page, cells, [int.from_bytes(page[at : at + 4], "big") for at in pointers]

    def _cells(self, page: bytes, start: int, header: int) -> list[int]:
        count = int.from_bytes(page[start + 3 : start + 5], "big")
        first = start + header
        if first + 2 * count > self._usable:
            raise _Unreadable
        cells = [int.from_bytes(page[first + 2 * at : first + 2 * at + 2], "big") for at in range(count)]
        if any(not first + 2 * count <= cell < self._usable for cell in cells):
            raise _Unreadable
        return cells

    def _row(self, page: bytes, cell: int) -> Row:
        length, at = _varint(page, cell)
        number, at = _varint(page, at)
        if number >= 1 << 63:
            number -= 1 << 64
        return Row(number, _record(self._payload(page, at, length)))

    def _payload(self, page: bytes, at: int, length: int) -> bytes:
        """The bytes of a row, those on overflow pages too."""
        if length > self.pages * self._size:
            raise _Unreadable
        most = self._usable - 35
        here = length
        if length > most:
            least = (self._usable - 12) * 32 // 255 - 23
            here = least + (length - least) % (self._usable - 4)
            here = here if here <= most else least
        if at + here > self._usable:
            raise _Unreadable
        parts, lacking = [page[at : at + here]], length - here
        following = int.from_bytes(page[at + here : at + here + 4], "big") if lacking else 0
        taken = set()
        while lacking:
            if following in taken or following in self._seen:
                raise _Unreadable
            taken.add(following)
            more, _ = self._page(following)
            following = int.from_bytes(more[:4], "big")
            parts.append(more[4 : 4 + min(lacking, self._usable - 4)])
            lacking -= len(parts[-1])
        return b"".join(parts)

    def _free_pages(self) -> set[int]:
        """The pages that hold nothing any more, as far as their list can be read."""
        free: set[int] = set()
        try:
            first, _ = self._page(1)
            trunk = int.from_bytes(first[32:36], "big") if first[:16] == _MAGIC else 0
            while trunk and trunk not in free:
                free.add(trunk)
                page, _ = self._page(trunk)
                count = min(int.from_bytes(page[4:8], "big"), self._usable // 4 - 2)
                free.update(struct.unpack(f">{count}I", page[8 : 8 + 4 * count]))
                trunk = int.from_bytes(page[:4], "big")
        except (_Unreadable, IndexError, struct.error):
            pass
        return free


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where the next thing begins."""
    value = 0
    for count in range(8):
        byte = data[at + count]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + count + 1
    return value << 8 | data[at + 8], at + 9


def _record(data: bytes) -> tuple[Value, ...]:
    """The values of a row."""
    end, at = _varint(data, 0)
    if end > len(data):
        raise _Unreadable
    kinds = []
    while at < end:
        kind, at = _varint(data, at)
        kinds.append(kind)
    values, at = [], end
    for kind in kinds:
        size = _size(kind)
        if at + size > len(data):
            raise _Unreadable
        values.append(_value(kind, data[at : at + size]))
        at += size
    if at != len(data):
        raise _Unreadable
    return tuple(values)


def _size(kind: int) -> int:
    if kind >= 12:
        return (kind - 12) // 2
    if kind in (10, 11):
        raise _Unreadable
    return (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)[kind]


def _value(kind: int, data: bytes) -> Value:
    if kind == 0:
        return None
    if kind <= 6:
        return int.from_bytes(data, "big", signed=True)
    if kind == 7:
        number: float = struct.unpack(">d", data)[0]
        return number
    if kind in (8, 9):
        return kind - 8
    if kind % 2 == 0:
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _Unreadable from None


def _committed(log: bytes, size: int) -> tuple[dict[int, bytes], int]:
    """The newest committed content of each page in a write-ahead log, and how many pages the file has then; 0 without any.

    Nothing after the first frame that is not whole counts.
    """
    if len(log) < _LOG_HEADER:
        return {}, 0
    magic, _, logged, _, salt, other_salt, first, second = struct.unpack(">8I", log[:_LOG_HEADER])
    order = "<" if magic == _LOG_MAGIC[0] else ">"
    if magic not in _LOG_MAGIC or logged != size or _sums(log[:24], order) != (first, second):
        return {}, 0
    kept: dict[int, bytes] = {}
    waiting: dict[int, bytes] = {}
    sums, pages = (first, second), 0
    for at in range(_LOG_HEADER, len(log) - _FRAME_HEADER - size + 1, _FRAME_HEADER + size):
        number, committed, one, other, *sums_stored = struct.unpack(">6I", log[at : at + _FRAME_HEADER])
        page = log[at + _FRAME_HEADER : at + _FRAME_HEADER + size]
        sums = _sums(page, order, _sums(log[at : at + 8], order, sums))
        if (one, other) != (salt, other_salt) or tuple(sums_stored) != sums:
            break
        waiting[number] = page
        if committed:
            kept |= waiting
            waiting, pages = {}, committed
    return kept, pages


def _sums(data: bytes, order: str, before: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """The running checksum of a write-ahead log."""
    first, second = before
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for at in range(0, len(words), 2):
        first = (first + words[at] + second) & 0xFFFFFFFF
        second = (second + words[at + 1] + first) & 0xFFFFFFFF
    return first, second
