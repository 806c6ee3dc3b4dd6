"""What Python starts that harms: text run as code, commands put together from data, objects made by what is read."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Final

from skillyard.scanner.python_data import is_fixed, openings, queries, sendings
from skillyard.scanner.python_flow import NETWORK_MODULES, Flow, Scope
from skillyard.scanner.python_resources import endless_loops, huge_allocations
from skillyard.scanner.python_source import PythonFile, constant_text, root_of, walk_some
from skillyard.scanner.source import Hit

__all__ = ["look_into_python", "sends", "starts_programs"]

_RUNS_CODE: Final = frozenset(
    ("eval", "exec", "builtins.eval", "builtins.exec", "__builtins__.exec", "__builtins__.eval", "code.interact")
)
_RUNS_SHELL: Final = frozenset(
    (
        "os.system",
        "os.popen",
        "subprocess.getoutput",
        "subprocess.getstatusoutput",
        "commands.getoutput",
        "asyncio.create_subprocess_shell",
    )
)
_RUNS: Final = frozenset((
    "subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output", "subprocess.Popen", "os.execv", "os.execvp", "os.execl",
    "os.spawnv", "pty.spawn", "asyncio.create_subprocess_exec",
))  # fmt: skip
_UNPICKLES: Final = frozenset(
    (
        "pickle.load",
        "pickle.loads",
        "pickle.Unpickler",
        "cPickle.load",
        "cPickle.loads",
        "_pickle.loads",
        "dill.load",
        "dill.loads",
        "cloudpickle.load",
        "cloudpickle.loads",
        "marshal.load",
        "marshal.loads",
        "shelve.open",
        "jsonpickle.decode",
    )
)
_YAML_SAFE: Final = ("SafeLoader", "CSafeLoader", "BaseLoader", "FullLoader")


def look_into_python(file: PythonFile, flow: Flow) -> Iterator[Hit]:
    """All that the tree of one file shows; `flow` knows what its values may hold."""
    for scope in flow.scopes:
        if scope.file is not file:
            continue
        for node in scope.nodes:
            if isinstance(node, ast.Call):
                for look in _LOOKS:
                    yield from look(node, scope, flow)
    yield from endless_loops(file)
    yield from huge_allocations(file)


def sends(file: PythonFile) -> ast.Call | None:
    """The first call that uses the network, None when there is none."""
    local = "AF_UNIX" in file.source.text and "AF_INET" not in file.source.text
    found = [
        node
        for node in file.nodes
        if isinstance(node, ast.Call)
        and _is_network(name := file.name_of(node.func))
        and not (local and name.startswith("socket."))
    ]
    return min(found, key=lambda node: node.lineno, default=None)


def starts_programs(file: PythonFile) -> ast.Call | None:
    """The first call that starts another program."""
    known = _RUNS | _RUNS_SHELL
    found = [node for node in file.nodes if isinstance(node, ast.Call) and file.name_of(node.func) in known]
    return min(found, key=lambda node: node.lineno, default=None)


def _is_network(name: str) -> bool:
    if name.startswith(("http.server", "http.HTTPStatus", "http.cookies", "urllib.parse")):
        return False
    return name.startswith("urllib.request.") or ("." in name and root_of(name) in NETWORK_MODULES)


def _code(call: ast.Call, scope: Scope, flow: Flow) -> Iterator[Hit]:
    """`eval` and `exec`: by where their text comes from."""
    name = scope.file.name_of(call.func)
    if name not in _RUNS_CODE or not call.args or constant_text(call.args[0]) is not None:
        return
    at, labels = scope.file.offset(call), flow.labels(call.args[0], scope)
    if "decoded" in labels:
        yield Hit("decoded-code", at, f"`{name}` runs what was decoded a moment before")
    elif labels & {"network", "client"}:
        yield Hit("download-and-run", at, f"`{name}` runs what came from the network")
    elif "input" in labels:
        yield Hit("runs-input-as-code", at, f"`{name}` runs what somebody typed or passed")
    elif not _limited(call):
        yield Hit("runs-text-as-code", at, f"`{name}` runs text that is put together when it runs")


def _limited(call: ast.Call) -> bool:
    """Whether builtins are taken away, or a tree that was checked is run: `exec(compile(tree, …))`."""
    first = call.args[0]
    if isinstance(first, ast.Call) and isinstance(first.func, ast.Name) and first.func.id == "compile":
        return bool(first.args) and not isinstance(first.args[0], ast.Constant) and len(call.args) == 1
    scope = call.args[1] if len(call.args) > 1 else None
    return isinstance(scope, ast.Dict) and any(constant_text(key) == "__builtins__" for key in scope.keys if key)


def _commands(call: ast.Call, scope: Scope, flow: Flow) -> Iterator[Hit]:
    """A shell that is given text which is not fixed."""
    name = scope.file.name_of(call.func)
    shell = name in _RUNS_SHELL or (
        name in _RUNS and any(word.arg == "shell" and _is_true(word.value) for word in call.keywords)
    )
    if not call.args or not (shell or name in _RUNS):
        return
    at, command = scope.file.offset(call), call.args[0]
    labels = flow.labels(_program(command), scope)
    if "decoded" in labels:
        yield Hit("decoded-code", at, f"`{name}` runs what was decoded a moment before")
    elif shell and labels & {"network", "client"}:
        yield Hit("download-and-run", at, f"`{name}` runs what came from the network")
    elif shell and not is_fixed(command):
        typed = "input" in labels
        yield Hit("shell-from-input" if typed else "shell-from-data", at)
    if flow.labels(command, scope) & {"environment", "credential"} and _names_a_sender(call):
        yield Hit("secret-to-network", at, "a command that sends is given secrets")


def _program(command: ast.expr) -> ast.expr:
    """What decides what runs: of a list its first part, or all of it where an interpreter is given code."""
    if isinstance(command, ast.List) and command.elts:
        given = {constant_text(part) for part in command.elts[:6]}
        return command if given & {"-c", "-e", "-Command", "-EncodedCommand"} else command.elts[0]
    return command


def _names_a_sender(call: ast.Call) -> bool:
    return any(
        word in (constant_text(node) or "") for node in walk_some(call) for word in ("curl", "wget", "nc ", "scp ", "sendmail")
    )


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _unpickling(call: ast.Call, scope: Scope, flow: Flow) -> Iterator[Hit]:
    name = scope.file.name_of(call.func)
    if name in _UNPICKLES:
        fetched = any(flow.labels(argument, scope) & {"network", "client"} for argument in call.args)
        message = f"`{name}` reads what came from the network" if fetched else f"`{name}` can run anything that its input says"
        yield Hit("unpickles-from-network" if fetched else "unpickles", scope.file.offset(call), message)
    elif name in ("yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load"):
        loader = ast.dump(call) if len(list(walk_some(call))) < 60 else ""
        if "unsafe" in name or (name.startswith("yaml.load") and not any(safe in loader for safe in _YAML_SAFE)):
            yield Hit("unpickles", scope.file.offset(call), f"`{name}` can make any object its input names")
    elif name == "torch.load" and any(word.arg == "weights_only" and not _is_true(word.value) for word in call.keywords):
        yield Hit("unpickles", scope.file.offset(call), "`torch.load` without `weights_only` runs what the file says")


def _dynamic(call: ast.Call, scope: Scope, flow: Flow) -> Iterator[Hit]:
    """Names that are put together so that nobody finds them."""
    name = scope.file.name_of(call.func)
    if name in ("__import__", "importlib.import_module", "getattr") and call.args:
        wanted = call.args[1 if name == "getattr" and len(call.args) > 1 else 0]
        if "decoded" in flow.labels(wanted, scope):
            yield Hit("decoded-code", scope.file.offset(call), f"`{name}` takes a name that was decoded")
        elif isinstance(wanted, ast.BinOp) and all(
            isinstance(part, ast.Constant | ast.BinOp | ast.operator) for part in walk_some(wanted)
        ):
            yield Hit("built-name", scope.file.offset(call), f"`{name}` takes a name that was cut into pieces")
        elif (
            name == "getattr"
            and scope.file.name_of(call.args[0]) in ("__builtins__", "builtins")
            and constant_text(wanted) != "__dict__"
        ):
            yield Hit("built-name", scope.file.offset(call), "a builtin is taken by its name as text")


_LOOKS: Final[tuple[Callable[[ast.Call, Scope, Flow], Iterator[Hit]], ...]] = (
    _code,
    _commands,
    _unpickling,
    queries,
    sendings,
    _dynamic,
    openings,
)
