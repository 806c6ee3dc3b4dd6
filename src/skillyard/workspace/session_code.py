"""A Python in a session that was started beforehand and waits for the one program of `code_run` that it executes.

It is started as `python3 FILE` would be: by the shell, with its variables, in its folder, the Python that the shell finds. At
its gate it gets the folder and the path of the program; then it executes that as Python itself would: as a fresh `__main__`,
with its own `sys.argv` and `sys.path`, and no frame of this file in a traceback. Modules that most programs import are loaded
meanwhile. Where something was installed since that Python looks for at its start, or the program has a module of its own by the
name of one that is loaded, it starts anew. No gate, no program: it ends with the one who started it.

This file stands alone: it imports nothing of Skillyard, and works on every Python from 3.8.
"""

import gc
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

_GATE = 251
_EARLY = ("collections", "csv", "datetime", "itertools", "json", "math", "pathlib", "random", "re", "subprocess", "typing")


def _load_early() -> "set[str]":
    """Load what programs usually import; the names of everything that this has loaded. Nothing but the standard library's."""
    before, path = set(sys.modules), sys.path[:]
    library = sys.modules["os"].path.dirname(sys.modules["os"].__file__)
    sys.path[:] = [place for place in path if place.startswith(library)]
    for name in _EARLY:
        __import__(name)
    sys.path[:] = path
    return {name.partition(".")[0] for name in set(sys.modules) - before}


def _covers(names: "set[str]", path: str) -> bool:
    """Whether a program would find modules of its own by some of these names."""
    os = sys.modules["os"]
    library = os.path.dirname(os.__file__)
    places = [os.path.dirname(path), *sys.path[1:]]
    first = next((number for number, place in enumerate(places) if place.startswith(library)), len(places))
    for place in places[:first]:
        if posix.access(place, posix.R_OK) and not names.isdisjoint(file.partition(".")[0] for file in posix.listdir(place)):
            return True
    return False


def _wait() -> "list[str] | None":
    """Wait at the gate; the folder and the path of the program, or nothing."""
    request = b""
    while True:
        piece = posix.read(_GATE, 4096)
        if not piece:
            break
        request += piece
    posix.close(_GATE)
    return request.decode("utf-8", "surrogateescape").split("\0") if request else None


def _changed(places: "list[str]") -> "list[int | None]":
    """When the folders of packages that Python knows at its start were changed; None for those that are not there."""
    return [posix.stat(place).st_mtime_ns if posix.access(place, posix.F_OK) else None for place in places]


def _places() -> "list[str]":
    """Where Python looks for packages, and the folder of the user's own, which it knows only when it is there at its start."""
    site = sys.modules.get("site")
    own = getattr(site, "USER_SITE", None)
    return [*sys.path[1:], *([own] if isinstance(own, str) else [])]


def _fresh_main(path: str) -> "dict[str, Any]":
    """A `__main__` as Python makes it for a file, in place of this module."""
    import builtins
    from _frozen_importlib_external import SourceFileLoader

    module = sys.modules["__main__"] = type(sys)("__main__")
    more = {"__annotations__": {}, "__builtins__": builtins, "__cached__": None, "__file__": path}
    module.__dict__.update(more, __loader__=SourceFileLoader("__main__", path))
    return module.__dict__


def _own_frames_left_out(frames: "TracebackType | None") -> "TracebackType | None":
    while frames is not None and frames.tb_frame.f_code.co_filename == main.__code__.co_filename:
        frames = frames.tb_next
    return frames


def _show_without_own_frames() -> None:
    show = sys.excepthook

    def shown(kind: "type[BaseException]", error: BaseException, frames: "TracebackType | None") -> None:
        error.__traceback__ = _own_frames_left_out(frames)
        show(kind, error, error.__traceback__)

    sys.excepthook = shown


def _execute(path: str) -> None:
    """Execute the program; an error ends it as an error in a file ends Python."""
    os = sys.modules["os"]
    sys.argv[:] = [path]
    sys.orig_argv = ["python3", path]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    names = _fresh_main(path)
    try:
        with open(path, "rb") as file:
            source = file.read()
        exec(compile(source, path, "exec", dont_inherit=True), names)  # noqa: S102 # this is what it is for
    except KeyboardInterrupt:  # Python ends by the signal after it has shown this
        _show_without_own_frames()
        raise
    except Exception as error:
        error.__traceback__ = _own_frames_left_out(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
    else:
        return
    sys.exit(1)


def main() -> None:
    """Wait, then execute."""
    places = _places()
    before = _changed(places)
    loaded = _load_early()
    gc.freeze()  # what is here now stays to the end, which need not look at it again
    request = _wait()
    if request is None:
        posix._exit(0)
    folder, path = request
    posix.chdir(folder)
    if _changed(places) != before or _covers(loaded, path):
        posix.execv(sys.executable, ["python3", path])
    _execute(path)


main()
