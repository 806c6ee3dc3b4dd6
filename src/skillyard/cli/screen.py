"""What a command writes: data for programs, text and tables for people, notes, a line of progress, and what went wrong.

Answers go to standard output, notes and errors to standard error. Everything for a terminal is sanitized first: names and
descriptions are untrusted. `rich` is imported only when something is drawn for people. A failure is an exit code
and two lines: the problem, and how to fix it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain, pairwise, repeat
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TextIO

from skillyard.cli.language import OWN_TEXT, translated, translated_answer, translated_failure
from skillyard.errors import SkillyardError, UsageProblem
from skillyard.plain_json import encodable_json
from skillyard.text import sanitize, single_line

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from rich.console import Console

_GAP: Final = "  "
_SINGLE: Final = re.compile(r"[\x20-\u02ff\u0400-\u0482\u048a-\u052f\u2010-\u2027]*")
"""Latin, Cyrillic and their punctuation: nothing that takes two cells or none."""


def cell_width(text: str) -> int:
    """How many cells a terminal draws `text` in: Chinese, Japanese and Korean characters take two, combining marks none."""
    return len(text) if text.isascii() or _SINGLE.fullmatch(text) else sum(map(_width, text))


@cache
def _width(character: str) -> int:
    import unicodedata  # only for what is not ASCII

    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut_to_width(text: str, limit: int) -> str:
    """`text` in at most `limit` cells, ending in `…` when something was cut."""
    if len(text) <= limit and cell_width(text) <= limit:
        return text
    if text.isascii() or _SINGLE.fullmatch(text):
        return text[: limit - 1].rstrip() + "…"
    kept, used = [], 1
    for character in text:
        used += _width(character)
        if used > limit:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…"


def align_rows(rows: Iterable[Sequence[str]], widths: Sequence[int], *, cut: bool = True) -> Iterator[list[str]]:
    """Each row's cells cut to the widths, or whole, and padded to them; the last one is not padded."""
    last = len(widths) - 1
    for row in rows:
        line = []
        for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
            text = cut_to_width(cell, width) if cut else cell
            line.append(text if index == last else text + " " * (width - cell_width(text)) + _GAP)
        yield line


STYLES: Final = {
    "ok": "green",
    "disabled": "dim",
    "denied": "yellow",
    "shadowed": "dim",
    "broken": "red",
    "error": "red",
    "warning": "yellow",
    "info": "cyan",
    "high": "red",
    "medium": "yellow",
    "low": "cyan",
}
_WIDEST: Final = 64  # cells of a column, where no terminal says how many there are: the longest name of the specification
_GLANCE: Final = 100  # cells of a description, where no terminal says how many there are
_CODES: Final = {"green": 32, "yellow": 33, "red": 31, "cyan": 36, "dim": 2, "bold": 1}


def wants_color() -> bool:
    """Whether the person allows colours: `NO_COLOR` unset or empty."""
    return not os.environ.get("NO_COLOR")


def console_width() -> int:
    """The terminal's columns, as `shutil.get_terminal_size` has them; with `shutil` come all archive formats."""
    with suppress(ValueError):
        if (columns := int(os.environ.get("COLUMNS", ""))) > 0:
            return columns
    with suppress(AttributeError, ValueError, OSError):
        if columns := os.get_terminal_size(sys.__stdout__.fileno()).columns:  # type: ignore[union-attr] # caught above
            return columns
    return 80


def counted(number: int, noun: str) -> str:
    """`1 error`, `2 errors`: a number with its noun, for people."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


class Screen:
    """Where one command writes; made from the common options."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False, color: bool = True, roots: Sequence[str] = ()) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self._roots = roots
        self.color = color and wants_color()
        self._console: Console | None = None

    @property
    def interactive(self) -> bool:
        """Whether a person can be asked: both the question and the answer reach a terminal."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    @property
    def is_terminal(self) -> bool:
        """Whether answers are seen by a person."""
        return sys.stdout.isatty()

    def data(self, value: object) -> None:
        """Write one JSON document; indented for a terminal, on one line for a program."""
        if not self.is_terminal:
            sys.stdout.write(encodable_json(json.dumps(value, default=str)) + "\n")
            return
        text = json.dumps(value, default=str, indent=2, ensure_ascii=False)
        # Escapes keep the truth of a text that would be dangerous to show.
        escaped = sanitize(text) != text
        sys.stdout.write((encodable_json(json.dumps(value, default=str, indent=2)) if escaped else text) + "\n")

    def write(self, text: str) -> None:
        """Write a text as it is to a pipe or file, sanitized to a terminal; no line end is added."""
        sys.stdout.write(sanitize(text) if self.is_terminal else text)

    def raw(self, data: bytes) -> None:
        """Write bytes as they are, for a pipe or file."""
        sys.stdout.flush()
        sys.stdout.buffer.write(data)

    def line(self, text: str = "", *, style: str = "", indent: int = 0) -> None:
        """Write one line for people, whatever is in it: a name with a line break begins no line of its own."""
        shown = translated_answer(sanitize(text).replace("\n", " "), words=OWN_TEXT)
        self.text(shown, style=style, indent=indent)

    def text(self, text: str, *, style: str = "", indent: int = 0) -> None:
        """Write a text of several lines for people; an indented one keeps its indent when a terminal wraps it."""
        text = sanitize(text)
        if not (self.is_terminal and indent):
            self._write_lines(" " * indent + self._colored(line, STYLES.get(style, style)) for line in text.split("\n"))
            return
        from rich.padding import Padding
        from rich.text import Text

        self.console.print(Padding(Text(text, style=STYLES.get(style, style)), (0, 0, 0, indent), expand=False))

    def description(self, text: str, *, wide: bool) -> str:
        """A description as it is shown in a list: a terminal cuts it to its width, elsewhere it is cut to one glance."""
        return text if wide or self.is_terminal else cut_to_width(single_line(text), _GLANCE)

    def flush(self) -> None:
        """Flush the output, for a command that runs for long."""
        sys.stdout.flush()

    def table(
        self,
        rows: Iterable[Sequence[str]],
        *,
        header: Sequence[str] = (),
        stretch: int | None = None,
        right: int | None = None,
        indent: int = 0,
        marks: Iterable[Collection[str]] = (),
    ) -> None:
        """Draw rows in aligned columns; a cell that is a status or severity gets its colour.

        A terminal wraps the last column, or, when `stretch` is given, cuts that column to the width that is left. The column
        `right` is aligned to the right, for numbers. `marks` are for each row words that are bold in the column `stretch`.
        """
        lines = [[single_line(cell) for cell in row] for row in rows]
        if not lines:
            return
        everything = [list(header), *lines] if header else lines
        found = [list(map(cell_width, column)) for column in zip(*everything, strict=True)]
        widths = [max(column) for column in found]
        if right is not None:
            for line in lines:
                line[right] = " " * (widths[right] - cell_width(line[right])) + line[right]
        if self.is_terminal:
            widths = self._fitted(widths, stretch, indent)
            if stretch is None:
                self._draw_wrapped(lines, widths, indent)
                return
        else:  # a cell that is beyond measure stays whole, and moves only its own row
            widths = [max((width for width in column if width <= _WIDEST), default=_WIDEST) for column in found]
        drawn = align_rows(everything, widths, cut=self.is_terminal)
        if header:
            self._write_lines([" " * indent + self._colored("".join(next(drawn)), "bold")])
        for line, words in zip(drawn, chain(marks, repeat(())), strict=False):
            cells_drawn = [self._marked(cell, words if at == stretch else ()) for at, cell in enumerate(line)]
            self._write_lines([" " * indent + "".join(cells_drawn)])

    def _fitted(self, widths: Sequence[int], stretch: int | None, indent: int) -> list[int]:
        """How wide each column may be: as it likes when all fits, else at most two fifths, and for `stretch` what is left."""
        screen = console_width() - indent
        last = len(widths) - 1
        if sum(widths) + 2 * last < screen:
            return list(widths)
        fitted = [width if index == last else min(width, screen * 2 // 5) for index, width in enumerate(widths)]
        if stretch is not None:
            taken = sum(fitted) - fitted[stretch] + 2 * last
            fitted[stretch] = max(screen - taken - 1, 10)
        return fitted

    def _draw_wrapped(self, lines: Sequence[Sequence[str]], widths: Sequence[int], indent: int) -> None:
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for index in range(len(widths)):
            table.add_column(no_wrap=index < len(widths) - 1, overflow="fold")
        for line in lines:
            fitted = [*(cut_to_width(cell, width) for cell, width in zip(line[:-1], widths, strict=False)), line[-1]]
            table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in fitted))
        self.console.print(Padding(table, (0, 0, 0, indent), expand=False))

    def _marked(self, cell: str, words: Collection[str]) -> str:
        """The cell with the words in bold, where they stand by themselves or are not Latin."""
        if not (words and self.color and self.is_terminal):
            return self._by_status(cell)
        pattern = "|".join(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])" if word.isascii() else re.escape(word) for word in words)
        return re.sub(pattern, lambda match: self._colored(match[0], "bold"), cell, flags=re.IGNORECASE)

    def _by_status(self, cell: str) -> str:
        return self._colored(cell, STYLES.get(cell.rstrip(), ""))

    def _colored(self, text: str, style: str) -> str:
        if style not in _CODES or not (self.color and self.is_terminal):
            return text
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m"

    def _write_lines(self, lines: Iterable[str]) -> None:
        sys.stdout.writelines(line.rstrip() + "\n" for line in lines)

    def heading(self, text: str) -> None:
        """Write the heading of a section, with an empty line before it."""
        self.line()
        self.text(translated_answer(sanitize(text).replace("\n", " ")), style="bold")

    def note(self, text: str) -> None:
        """Write one line on standard error, unless notes are unwanted."""
        if not self.quiet:
            sys.stdout.flush()  # where both streams share a destination, the answer precedes its notes
            _write(sys.stderr, translated_answer(single_line(text)) + "\n")

    def hint(self, text: str) -> None:
        """Note what to do next; commands in it name the roots that this one was given."""
        self.note(translated("hint: ") + with_roots(translated_answer(single_line(text)), self._roots))

    def failure(self, failure: dict[str, str]) -> None:
        """Write an error: one line what, one line how to fix it; for programs also as JSON."""
        failure = failure | {"hint": with_roots(failure["hint"], self._roots)}
        if self.as_json:
            self.data({"error": failure})
        message, hint = translated_failure(failure)
        _write(
            sys.stderr,
            f"{translated('error: ')}{single_line(message)}\n{translated('hint: ')}{single_line(hint)}\n",
        )

    @property
    def console(self) -> Console:
        """Rich's console on the terminal, made when first used."""
        if self._console is None:
            from rich.console import Console  # 60 ms: only for what has to be wrapped

            self._console = Console(
                file=sys.stdout,
                color_system="auto" if self.color else None,
                highlight=False,
                markup=False,
                emoji=False,
            )
        return self._console


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()


CLEAR_LINE: Final = "\r\x1b[2K"
_PATIENCE: Final = 0.5  # seconds without output
_EVERY: Final = 0.1  # seconds between two drawings
_EVERY_LINE: Final = 10.0  # and between two lines in a log, where nothing is drawn over


class ProgressLine:
    """What a command does at the moment, on standard error: one line of a terminal that goes away at the end.

    Elsewhere, such as in the log of a build, a line every ten seconds, so that a long command is not taken for one that hangs.
    """

    def __init__(self, screen: Screen, *, patience: float = _PATIENCE, every: float = _EVERY) -> None:
        """`patience` are the seconds of a terminal before the first drawing, `every` those between two."""
        self._terminal = sys.stderr.isatty()
        self._active = not screen.quiet
        self._every = every if self._terminal else _EVERY_LINE
        self._next = time.monotonic() + (patience if self._terminal else _EVERY_LINE)
        self._drawn = False

    def due(self) -> bool:
        """Whether it is time to show something; cheap enough to ask for each skill."""
        if not self._active or (now := time.monotonic()) < self._next:
            return False
        self._next = now + self._every
        return True

    def show(self, text: str) -> None:
        """Write the line."""
        shown = sanitize(text).replace("\n", " ")
        if self._terminal:
            self._drawn = True
            _write(sys.stderr, CLEAR_LINE + shown)
        else:
            _write(sys.stderr, shown.strip() + "\n")

    def clear(self) -> None:
        """Take the line away."""
        if self._drawn:
            _write(sys.stderr, CLEAR_LINE)
            self._drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.clear()


class ScanProgress(ProgressLine):
    """Counts skills."""

    def __init__(self, screen: Screen, *, what: str = "reading skills") -> None:
        super().__init__(screen)
        self._what = what

    def __call__(self, done: int, total: int | None = None) -> None:
        """Report that `done` of `total` are finished."""
        if self.due():
            self.show(f"{self._what}: {done:,}" + (f" of {total:,}" if total else ""))


OK: Final = 0
FAILURE: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130  # what a shell expects after Ctrl-C
BROKEN_PIPE: Final = 141  # and after the reader of a pipe went away

_HINT_LIMIT: Final = 5
_ROOTED: Final = re.compile(
    r"`skillyard (?:list|show|search|prompt|read|check|enable|disable|delete|run|test|scan)(?![\w-])[^`]*"
)


def require_existing(path: str, *, hint: str = "check the path") -> str:
    """A path of the command line that must be there.

    Raises:
        UsageProblem: nothing is.
    """
    if not os.path.lexists(path):
        raise UsageProblem(f"there is nothing at {path}", hint=hint)
    return path


def roots_of_command_line(argv: Sequence[str]) -> list[str]:
    """What follows each `--root` of a command line, also of one that cannot be understood."""
    after = [value for option, value in pairwise(argv) if option == "--root"]
    return after + [argument.removeprefix("--root=") for argument in argv if argument.startswith("--root=")]


def with_roots(hint: str, roots: Sequence[str]) -> str:
    """The hint with the roots that were given, in each command in it that looks for skills: it can be copied as it is."""
    if not roots:
        return hint
    import shlex  # not for a command without hints

    options = "".join(f" --root {shlex.quote(root)}" for root in roots)
    return _ROOTED.sub(lambda match: match[0] if "--help" in match[0] else match[0] + options, hint)


def exit_code(error: BaseException) -> int:
    """2 for a command line that cannot be understood, else 1."""
    return USAGE if isinstance(error, UsageProblem) else FAILURE


_LIMITS: Final = MappingProxyType(
    {
        errno.EMFILE: "raise the limit of open files: `ulimit -n 1024`",
        errno.ENFILE: "the machine has no more open files to give: end other programs, or raise fs.file-max",
        errno.EAGAIN: "this user, or the container, may start no more processes and threads: end some, or raise `ulimit -u`",
        errno.ENOMEM: "there is too little memory: end other programs, or raise `ulimit -v` or the limit of the container",
    }
)
"""What helps where a limit of the machine was met, by the number of the error."""


def describe_failure(error: Exception) -> dict[str, str]:
    """The error as `{"code", "message", "hint"}`; every text is there, none is empty."""
    if isinstance(error, SkillyardError):
        return {"code": error.code, "message": error.message, "hint": _hint(error)}
    if isinstance(error, OSError):
        where = f"{os.fsdecode(error.filename)}: " if error.filename is not None else ""
        reason = error.strerror or str(error) or type(error).__name__
        hint = _LIMITS.get(error.errno or 0, "check the path, its permissions and the free space")
        return {"code": "system_error", "message": f"{where}{reason}", "hint": hint}
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "start new thread" in str(error)):
        number = errno.ENOMEM if isinstance(error, MemoryError) else errno.EAGAIN
        return {"code": "system_error", "message": str(error) or os.strerror(number), "hint": _LIMITS[number]}
    return {
        "code": "internal_error",
        "message": f"{type(error).__name__}: {error}",
        "hint": "this is a defect of skillyard; run again with SKILLYARD_DEBUG=1 and report what it prints",
    }


def _hint(error: SkillyardError) -> str:
    candidates = error.details.get("candidates")
    if error.hint:
        return error.hint
    if isinstance(candidates, list | tuple) and candidates:
        return "did you mean " + ", ".join(str(name) for name in candidates[:_HINT_LIMIT]) + "?"
    return "`skillyard list` shows what is there"
