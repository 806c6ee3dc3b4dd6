"""Started inside the sandbox by Python itself: sets the last limits, then runs a skill's Python entry.

`runner.py RESULT_FD GATE_FD LIMITS MODE ROOT ENTRY ARGUMENT...`, where ROOT is the skill's folder. In the mode `call` an
entry that defines `execute` is called with
the parameters, the context and the configuration from standard input, and what it returns goes to the result pipe, with what
it collected through `skillyard_sdk` (in the folder `library` beside this file). Any other entry runs as a plain script. It sees
the packages in the folder `packages` beside this file, when there is one, and otherwise those of the machine. A mode that
begins with `waiting-` says that the gate opens only when there is something to do; `module-` after that that the entry runs
like `python -m`: its imports begin at ROOT. In every mode its relative imports work, and what is below ROOT is found last.
This file stands alone: it imports nothing of Skillyard and works on every Python from 3.8. It is on the way of every run, so it
imports next to nothing.
"""

from __future__ import annotations

import gc
import posix  # what `os` is made of: that itself takes a twelfth of Python's start, and not every script needs it
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # the typing module costs more time than the whole rest of this file
    from typing import Any

_RESULT = 3
_NOTE = 4000  # bytes: so much is written in one piece, also by several threads
# Where the SDK finds what it is to know; filled when the request has been read.
SKILL_CONTEXT: dict[str, Any] = {}
SKILL_SETTINGS: dict[str, Any] = {}


class _ChildFlags:
    """The flags of this Python as those see them that start another one with the same flags (`multiprocessing`, joblib).

    Python was started without the environment, where the packages are named for its children, and without its site.
    """

    ignore_environment = 0

    def __init__(self, own: Any, no_site: int) -> None:
        self._own = own
        self.no_site = no_site

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


class _LazySitePackages:
    """Finds installed packages the first time something outside the standard library is imported.

    Python is started without them, because looking for them takes a tenth of its start.
    """

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        """Add the site packages once, then look again."""
        sys.meta_path.remove(cls)
        import site
        from importlib.machinery import PathFinder

        site.main()
        return PathFinder.find_spec(name, path, target)


class _SkillFolder:
    """Finds modules below the skill's folder (`from scripts.helpers import ...`) that nothing else offers."""

    root = ""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        """Look for a name without a package in the skill's folder."""
        if path is not None:
            return None
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name, [cls.root], target)


def _prepare(result: int, gate: int, limits: str) -> None:
    """Move the result pipe to its promised number, lower the limits (`NAME=number,...`), wait until the gate opens."""
    if result != _RESULT:
        posix.dup2(result, _RESULT)
        posix.close(result)
    if limits:
        import resource

        for item in limits.split(","):
            name, _, number = item.partition("=")
            resource.setrlimit(getattr(resource, "RLIMIT_" + name), (int(number), int(number)))
    if gate >= 0:
        opened = posix.read(gate, 1)
        if not opened or _is_abandoned(gate):
            posix._exit(1)
        posix.close(gate)


def _is_abandoned(gate: int) -> bool:
    """Whether the supervisor is gone, which holds the other end of the gate until the run is over.

    It was killed before the kernel knew that this process ends with it.
    """
    import select

    supervisor = select.poll()
    supervisor.register(gate, 0)
    return bool(supervisor.poll(0))


def _load_early(folder: str) -> None:
    """Load what the end of a run needs, while there is time; not where the skill has a module of the same name."""
    before = set(sys.modules)
    import json  # noqa: F401
    import opcode  # noqa: F401

    fresh = set(sys.modules) - before
    if {name.partition(".")[0] for name in fresh} & {name.partition(".")[0] for name in posix.listdir(folder)}:
        for name in fresh:
            del sys.modules[name]


def _like_python(here: str) -> None:
    """What Python has at its start and `-S` took away; after the standard library the packages, then our own."""
    import builtins

    packages = here + "/packages"
    granted = posix.access(packages, posix.F_OK)
    sys.flags = _ChildFlags(sys.flags, int(granted))  # type: ignore[assignment] # nothing reads more of it than names
    if granted:
        sys.path.append(packages)
    else:
        sys.meta_path.append(_LazySitePackages)
    sys.path.append(here + "/library")
    sys.meta_path.append(_SkillFolder)
    for name in ("exit", "quit"):
        setattr(builtins, name, sys.exit)


def _defines_execute(code: Any) -> bool:
    """Whether the module's own code binds the name `execute`: by `def`, by import or by assignment."""
    if "execute" not in code.co_names:
        return False
    import opcode

    execute_index, store, extended, argument = (
        code.co_names.index("execute"),
        opcode.opmap["STORE_NAME"],
        opcode.EXTENDED_ARG,
        0,
    )
    for operation, low in zip(code.co_code[::2], code.co_code[1::2]):  # noqa: B905 # Python 3.8 has no strict
        argument = argument << 8 | low
        if operation == extended:
            continue
        if operation == store and argument == execute_index:
            return True
        argument = 0
    return False


def _call_arguments(function: Any, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """As many of parameters, context and config as the function takes: by position, or by keyword where it says so."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None or code.co_flags & 0x04:
        return values, {}
    taken = code.co_argcount - (1 if hasattr(function, "__func__") else 0)
    first = code.co_argcount
    named = code.co_varnames[first : first + code.co_kwonlyargcount]
    available = dict(zip(("parameters", "context", "config"), values))  # noqa: B905 # Python 3.8 has no strict
    return values[:taken], {name: available[name] for name in named if name in available}


def _call(execute: Any) -> None:
    import json

    request = json.loads(sys.stdin.buffer.read() or b"{}")
    values = (request.get("input", {}), request.get("context", {}), request.get("config", {}))
    SKILL_CONTEXT.update(values[1])
    SKILL_SETTINGS["protocol"] = request.get("protocol", "vcp")
    SKILL_SETTINGS["finishedSteps"] = request.get("finishedSteps", [])
    positional, named = _call_arguments(execute, values)
    value = execute(*positional, **named)
    if hasattr(value, "__await__"):
        import asyncio

        async def wait() -> Any:
            return await value

        value = asyncio.run(wait())
    try:
        data = _written(_outcome(value))
    except (TypeError, ValueError) as error:
        sys.exit(type(error).__name__ + ": execute returned a value that JSON cannot hold: " + str(error))
    _answer(data)


def _outcome(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        value = {"output": _plain(value), "format": "binary"}
    sdk = _sdk()
    return sdk._outcome(value) if sdk else value


def _sdk() -> Any:
    """Our module when the script has imported it, not one of its own that has the same name."""
    sdk = sys.modules.get("skillyard_sdk")
    return sdk if hasattr(sdk, "_failure") else None


def _written(value: Any) -> bytes:
    import json

    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain).encode("utf-8")


def _plain(value: Any) -> Any:
    """What JSON does not know, as something it does: data classes, models, sets, paths, dates; bytes as base64."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        import base64

        return base64.b64encode(bytes(value)).decode("ascii")
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    for method in ("model_dump", "isoformat", "__fspath__"):
        if hasattr(value, method) and not isinstance(value, type):
            return getattr(value, method)()
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    raise TypeError(type(value).__name__)


def skill_note(note: dict[str, Any]) -> None:
    """Send a note during the run; one too long for a single write is sent without its values."""
    if not SKILL_SETTINGS:  # nothing is called: there is no outcome that a note could run ahead of
        return
    try:
        data = _written(note)
        if len(data) > _NOTE:
            data = _written({name: value for name, value in note.items() if name not in ("input", "output")})
        if len(data) <= _NOTE:
            posix.write(_RESULT, b"\x1e" + data + b"\n")
    except (TypeError, ValueError, OSError):  # the outcome says it too
        pass


def _answer(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[posix.write(_RESULT, view) :]
    posix.close(_RESULT)


def _run(entry: str, mode: str) -> None:
    with open(entry, "rb") as file:
        code = compile(file.read(), entry, "exec", dont_inherit=True)
    called = mode == "call" and _defines_execute(code)
    name = "skill_entry" if called else "__main__"
    module = type(sys)(name)
    module.__file__ = entry
    parts = entry[len(_SkillFolder.root) + 1 :].split("/")[:-1]
    if parts and all(map(str.isidentifier, parts)):
        module.__package__ = ".".join(parts)  # relative imports begin where `python -m` would let them begin
    sys.modules[name] = module
    exec(code, module.__dict__)  # noqa: S102 # this is what a runner does
    if called:
        _call(module.__dict__["execute"])
    elif (sdk := _sdk()) and sdk._collected():
        sys.stderr.write("skillyard_sdk: steps and memories are kept only for a script that defines execute\n")


def _report_failure(error: Exception) -> bool:
    """Write the SDK's record of a failed run as the result; returns whether the script itself called `fail`."""
    sdk = _sdk()
    if sdk is None:
        return False
    outcome, by_script = sdk._failure(error), isinstance(error, sdk.SkillFailed)
    if by_script or outcome["intermediateSteps"]:
        try:
            _answer(_written(outcome))
        except (TypeError, ValueError, OSError):  # the error itself matters more than the steps before it
            return False
    return by_script


def main() -> None:
    """Run the entry; an error in it is shown without the frames of this file."""
    result, gate, limits, mode, root, entry = sys.argv[1:7]
    _SkillFolder.root = root
    if mode.startswith("waiting-"):
        _load_early(entry.rpartition("/")[0])
        mode = mode[len("waiting-") :]
    as_module = mode.startswith("module-")
    if as_module:
        mode = mode[len("module-") :]
    _like_python(sys.path[0])
    _prepare(int(result), int(gate), limits)
    sys.argv[:] = [entry, *sys.argv[7:]]
    sys.path[0] = root if as_module else entry.rpartition("/")[0]
    gc.freeze()  # what is here now stays to the end, which need not look at it again
    try:
        _run(entry, mode)
    except Exception as error:
        if _report_failure(error):
            return
        import traceback

        own, frames = main.__code__.co_filename, error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename == own:
            frames = frames.tb_next
        traceback.print_exception(type(error), error, frames)
        sys.exit(1)


if __name__ == "__main__":  # and not `__mp_main__`, in a Python that was spawned
    main()
