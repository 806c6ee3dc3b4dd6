"""What travels with a request beside its parameters: arguments of a command line, packages, and files.

Files are values here, so that a request and its outcome are the same in this process, over HTTP and with a worker on another
machine. For the run they lie in a work folder of its own, which begins empty when none are given and is deleted afterwards.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from skillyard.errors import FileProblem, FileTooLarge, InvalidInput
from skillyard.paths import open_inside, safe_relative
from skillyard.sandbox.work_files import MAXIMUM_DEPTH, refusal_of_name
from skillyard.text import shorten, single_line

MOST_ARGUMENTS: Final = 1_000
LONGEST_ARGUMENT: Final = 64 * 1024
"""Bytes of one argument; the kernel takes no more than 128 KiB."""
ALL_ARGUMENTS: Final = 256 * 1024
"""Bytes of all arguments."""
MOST_PACKAGES: Final = 100
LONGEST_PACKAGE: Final = 200
MOST_FILES: Final = 200
LARGEST_FILE: Final = 20 * 1024 * 1024
"""Bytes of one file that travels with a request or an outcome."""
ALL_FILES: Final = 32 * 1024 * 1024
"""Bytes of all files of one request, and of one outcome."""
_LONGEST_NAME: Final = 200
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class WorkFile:
    """One file that travels with a run: its path in the work folder, with `/` between folders, and its bytes.

    Raises:
        PathRefused: the path leaves the folder.
        InvalidInput: it is hidden, too long or too deep, or has characters that nobody sees.
        FileTooLarge: it is over 20 MiB.
    """

    name: str
    data: bytes = field(repr=False)

    def __post_init__(self) -> None:
        relative = safe_relative(self.name)
        parts = relative.split("/")
        shown = shorten(single_line(relative), _SHOWN)
        longest = max(len(os.fsencode(part)) for part in parts)  # what a file system counts
        if reason := refusal_of_name(relative, hidden_files=True, secrets=()):
            raise InvalidInput(f"a file cannot be called {shown!r}: {reason}", hint="use a short name of visible characters")
        if max(len(relative), longest) > _LONGEST_NAME or len(parts) > MAXIMUM_DEPTH + 1:
            hint = f"at most {_LONGEST_NAME} characters and {MAXIMUM_DEPTH} folders, one in another"
            raise InvalidInput(f"the path of the file {shown!r} is too long", hint=hint)
        if any(part.startswith(".") for part in parts):
            raise InvalidInput(f"the file {shown!r} is hidden", hint="choose a name without a dot at its beginning")
        if len(self.data) > LARGEST_FILE:
            raise FileTooLarge(f"the file {shown!r} has {len(self.data)} bytes", hint=f"at most {LARGEST_FILE}")
        object.__setattr__(self, "name", relative)


def text_files(files: Mapping[str, object]) -> tuple[WorkFile, ...]:
    """Files given as an object of names and texts, as models give them.

    Raises:
        InvalidInput: a content is no text, or as `WorkFile`.
    """
    if wrong := next((name for name, content in files.items() if not isinstance(content, str)), None):
        raise InvalidInput(f"the content of {shorten(single_line(wrong), _SHOWN)!r} is not text", hint="give each file as text")
    return tuple(WorkFile(name, str(content).encode("utf-8", "replace")) for name, content in files.items())


def read_work_file(path: str, name: str | None = None) -> WorkFile:
    """A file of this machine as one that travels, under `name` or its own.

    Raises:
        FileProblem: it cannot be read.
        InvalidInput, FileTooLarge: as `WorkFile`.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise FileProblem(f"the file {path!r} cannot be read: {error.strerror}", hint="name a file that you can read") from None
    return WorkFile(name or Path(path).name, data)


def check_command_line(arguments: Sequence[str]) -> None:
    """Refuse arguments that no program can be given, before anything is recorded or started.

    Raises:
        InvalidInput: one holds a NUL or is no text, or there are too many or too long ones.
    """
    if len(arguments) > MOST_ARGUMENTS:
        raise InvalidInput(f"there are {len(arguments)} arguments", hint=f"at most {MOST_ARGUMENTS}; put the rest into a file")
    sizes = [_argument_bytes(number, argument) for number, argument in enumerate(arguments, 1)]
    if sum(sizes) > ALL_ARGUMENTS:
        hint = f"at most {ALL_ARGUMENTS} together; put the rest into a file"
        raise InvalidInput(f"the arguments have {sum(sizes)} bytes", hint=hint)


def _argument_bytes(number: int, argument: str) -> int:
    if "\0" in argument:
        raise InvalidInput(f"argument {number} holds a NUL character", hint="give arguments as plain text")
    try:
        size = len(argument.encode())
    except UnicodeEncodeError:
        raise InvalidInput(f"argument {number} is not valid text", hint="give arguments in UTF-8") from None
    if size > LONGEST_ARGUMENT:
        hint = f"at most {LONGEST_ARGUMENT}; put it into a file of the run"
        raise InvalidInput(f"argument {number} has {size} bytes", hint=hint)
    return size


def check_travelling(arguments: Sequence[str], packages: Sequence[str], files: Sequence[WorkFile]) -> None:
    """Refuse what cannot travel with a request.

    Raises:
        InvalidInput: there is too much of it, two files have one name, or a package is no name.
        FileTooLarge: the files are too large together.
    """
    check_command_line(arguments)
    if len(packages) > MOST_PACKAGES:
        raise InvalidInput(f"there are {len(packages)} packages", hint=f"at most {MOST_PACKAGES}")
    for package in packages:
        if len(package) > LONGEST_PACKAGE:
            raise InvalidInput(f"a package has {len(package)} characters", hint=f"at most {LONGEST_PACKAGE}")
    if packages:
        from skillyard.environments import SkillGrant  # most runs name none

        SkillGrant.from_words(packages)
    if len(files) > MOST_FILES:
        raise InvalidInput(f"there are {len(files)} files", hint=f"at most {MOST_FILES}; give them as a folder or an archive")
    if (total := sum(len(file.data) for file in files)) > ALL_FILES:
        raise FileTooLarge(f"the files have {total} bytes", hint=f"at most {ALL_FILES} together")
    names = {file.name for file in files}
    if len(names) < len(files):
        raise InvalidInput("two files have one name", hint="give each file a name of its own")
    for name in names:
        if above := next((name[:at] for at in _slashes(name) if name[:at] in names), None):
            raise InvalidInput(f"{above!r} is a file and a folder", hint="give each file a name of its own")


def _slashes(name: str) -> Iterator[int]:
    return (at for at, letter in enumerate(name) if letter == "/")


@contextmanager
def work_folder(files: Sequence[WorkFile]) -> Iterator[str]:
    """A private folder with these files in it, which lasts as long as the block; what a killed process left is deleted too."""
    parent = tempfile.gettempdir()
    from skillyard.sandbox.staging import SWEEPER  # not at the top: only Linux has what it needs

    SWEEPER.sweep(parent, lambda path: shutil.rmtree(path, ignore_errors=True))
    folder = tempfile.mkdtemp(prefix=f"skillyard-work-{os.getpid()}-", dir=parent)
    try:
        for file in files:
            target = Path(folder, file.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.data)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def collect_files(folder: str, names: Sequence[str]) -> tuple[tuple[WorkFile, ...], tuple[str, ...]]:
    """The files that a run made in its work folder, and a sentence for each that cannot travel."""
    files: list[WorkFile] = []
    problems: list[str] = []
    total = 0
    for name in names:
        shown = single_line(name)
        try:
            with os.fdopen(open_inside(folder, name), "rb") as opened:
                file = WorkFile(name, opened.read(LARGEST_FILE + 1))
        except (InvalidInput, FileProblem) as error:
            problems.append(f"{shown} was not kept: {error.message}")
            continue
        total += len(file.data)
        if len(files) >= MOST_FILES or total > ALL_FILES:
            problems.append(f"{shown} was not kept: at most {MOST_FILES} files and {ALL_FILES} bytes of a run are")
            total -= len(file.data)
        else:
            files.append(file)
    return tuple(files), tuple(problems)
