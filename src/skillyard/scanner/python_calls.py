"""Harmful Python calls: text run as code, commands put together from data, secrets sent away, unbounded resources."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from skillyard.scanner.python_flow import (
    NETWORK_MODULES,
    Flow,
    Label,
    PythonFile,
    Scope,
    constant_text,
    place,
    root_of,
    walk_some,
)
from skillyard.scanner.source_texts import Hit

_SENDS: Final = frozenset((
    "requests.post", "requests.put", "requests.patch", "requests.get", "requests.request", "requests.head", "httpx.post", "httpx.put", "httpx.patch",
    "httpx.get", "httpx.request", "urllib.request.urlopen", "urllib.request.Request", "urllib3.request", "socket.gethostbyname", "socket.getaddrinfo",
    "webbrowser.open",
))  # fmt: skip
_METHODS: Final = frozenset((
    "post", "put", "patch", "get", "request", "send", "sendall", "sendto", "sendmail", "send_message", "send_json",
    "storbinary", "storlines", "resolve", "query",
))  # fmt: skip
_SPLIT_OK: Final = frozenset(("headers", "auth", "timeout", "verify", "proxies", "cert", "cookies", "params"))
_EXECUTES: Final = ("execute", "executemany", "executescript", "raw")
_SQL: Final = ("select ", "insert ", "update ", "delete ", "drop ", "create ", "alter ", "replace into")
_NEAR: Final = 3_000  # statements of a function in which a query is looked for
_CHECKS: Final = frozenset((
    "resolve", "is_relative_to", "commonpath", "realpath", "basename", "secure_filename", "startswith", "abspath",
    "relative_to", "name",
))  # fmt: skip


def _queries(call: ast.Call, scope: Scope, flow: Flow) -> Iterator[Hit]:
    """A query with values written into its text."""
    if not call.args or not isinstance(call.func, ast.Attribute) or call.func.attr not in _EXECUTES:
        return
    query = call.args[0]
    if isinstance(query, ast.Name):
        query = _assigned(query.id, scope.nodes[:_NEAR]) or query
    made = isinstance(query, ast.JoinedStr | ast.BinOp) or (
        isinstance(query, ast.Call) and isinstance(query.func, ast.Attribute) and query.func.attr == "format"
    )
    if made and not _is_fixed(query) and _is_query(query):
        yield Hit("sql-from-text", scope.file.offset(call))


def _openings(call: ast.Call, scope: Scope, flow: Flow) -> Iterator[Hit]:
    """A file in a fixed folder, by a name that is a parameter and that nothing in the function checks."""
    if scope.file.name_of(call.func) != "open" or not call.args or not scope.parameters:
        return
    path, near = call.args[0], scope.nodes[:_NEAR]
    if isinstance(path, ast.Name):
        path = _assigned(path.id, near) or path
    if not _joined(path, scope, near):
        return
    called = {node.func.attr for node in near if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}
    if not called & _CHECKS:
        yield Hit("path-from-input", scope.file.offset(call))


def _joined(path: ast.AST, scope: Scope, near: tuple[ast.AST, ...]) -> bool:
    """Whether a path is a fixed folder and a parameter: with `os.path.join`, or in one text."""
    if isinstance(path, ast.JoinedStr) and len(path.values) > 1:
        base, name = constant_text(path.values[0]), path.values[1]
        value = name.value if isinstance(name, ast.FormattedValue) else None
        return bool(base and base.endswith("/")) and isinstance(value, ast.Name) and value.id in scope.parameters
    if isinstance(path, ast.Call) and scope.file.name_of(path.func) == "os.path.join" and len(path.args) == 2:
        first, last = path.args
        fixed = _assigned(first.id, near) if isinstance(first, ast.Name) else first
        return constant_text(fixed) is not None and isinstance(last, ast.Name) and last.id in scope.parameters
    return False


def _assigned(name: str, near: tuple[ast.AST, ...]) -> ast.expr | None:
    """What a name is first set to in these statements."""
    for node in near:
        if isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id == name for one in node.targets):
            return node.value
    return None


def _is_query(node: ast.AST) -> bool:
    texts = (constant_text(part) for part in walk_some(node))
    return any(text.lstrip().lower().startswith(_SQL) for text in texts if text)


def _sendings(call: ast.Call, scope: Scope, flow: Flow) -> Iterator[Hit]:
    """Secrets in what is sent; a single key in a header is how services are called, and is no finding."""
    name = scope.file.name_of(call.func)
    method = call.func if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS else None
    if name not in _SENDS and not (method and "client" in flow.labels(method.value, scope)):
        return
    if method and method.attr == "get" and call.args and "/" not in (constant_text(call.args[0]) or "/"):
        return  # the value of a key, as of a dictionary
    if call.args and name in _SENDS and "decoded" in flow.labels(call.args[0], scope):
        yield Hit("hidden-address", scope.file.offset(call), f"`{name}` contacts an address that was encoded")
    all_of_it: set[Label] = set()
    body: set[Label] = set()
    for argument in call.args:
        body |= flow.labels(argument, scope)
    for word in call.keywords:
        (all_of_it if word.arg in _SPLIT_OK else body).update(flow.labels(word.value, scope))
    at, shown = scope.file.offset(call), name or "it"
    for label, rule, what, relief in _SENT:
        if label in body or (label in _WHEREVER and label in all_of_it):
            yield Hit(rule, at, f"{what} is sent with `{shown}`", relief=relief)
            return


_SENT: Final[tuple[tuple[Label, str, str, int], ...]] = (
    ("credential", "secret-to-network", "the content of a credential file", 0),
    ("environment", "secret-to-network", "the whole environment", 0),
    ("own-entry", "secret-to-network", "what the skill keeps in the keychain", 1),
    ("encoded-key", "secret-to-network", "a secret, written another way,", 0),
    ("key", "key-in-body", "a key from the environment, in the address or the body,", 0),
)
"""What may be in the body of a request: the rule about it, what is said, and how many steps less it weighs; the first decides."""
_WHEREVER: Final = ("credential", "environment")
"""What may not be in a header either."""


def _is_fixed(node: ast.expr) -> bool:
    """Whether it is a constant, or constants joined."""
    if isinstance(node, ast.JoinedStr):
        return not any(isinstance(value, ast.FormattedValue) for value in node.values)
    return all(isinstance(part, ast.Constant | ast.BinOp | ast.operator) for part in walk_some(node))


_LARGE: Final = 10**7


def _endless_loops(file: PythonFile) -> Iterator[Hit]:
    """`while True` that nothing leaves and that never waits; inside `try` an error may be what leaves it."""
    tried = {id(inner) for node in file.nodes if isinstance(node, ast.Try) for part in node.body for inner in walk_some(part)}
    for node in file.nodes:
        if (
            isinstance(node, ast.While)
            and isinstance(node.test, ast.Constant)
            and node.test.value
            and not _leaves(node)
            and id(node) not in tried
        ):
            yield Hit("endless-loop", file.offset(node))


def _leaves(loop: ast.While) -> bool:
    todo: list[tuple[ast.AST, bool]] = [(child, False) for child in loop.body]
    while todo:
        node, inner = todo.pop()
        if isinstance(node, ast.Return | ast.Raise | ast.Yield | ast.YieldFrom | ast.Await) or (
            isinstance(node, ast.Break) and not inner
        ):
            return True
        if isinstance(node, ast.Call) and _waits(node):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inside = inner or isinstance(node, ast.For | ast.While | ast.AsyncFor)
            todo += [(child, inside) for child in ast.iter_child_nodes(node)]
    return False


_WAITING: Final = frozenset((
    "sleep", "wait", "get", "recv", "accept", "read", "readline", "select", "poll", "input", "exit", "_exit", "join", "acquire", "listen", "handle_request",
    "next", "run", "check_output", "call", "recvfrom", "quit", "tick", "send", "post",
))  # fmt: skip


def _waits(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""
    return name in _WAITING


def _huge_allocations(file: PythonFile) -> Iterator[Hit]:
    """`[0] * 10**9`, `range` of it made a list, `bytearray` of it."""
    for node in file.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            pair = (node.left, node.right)
            repeated = any(isinstance(side, ast.List) or isinstance(constant_text(side), str) for side in pair)
            if repeated and any(_size(side) >= _LARGE for side in pair):
                yield Hit("huge-allocation", file.offset(node))
        elif isinstance(node, ast.Call) and file.name_of(node.func) in ("bytearray", "bytes", "os.urandom"):
            if node.args and _size(node.args[0]) >= 10 * _LARGE:
                yield Hit("huge-allocation", file.offset(node))
        elif isinstance(node, ast.ListComp):
            source = node.generators[0].iter
            counted = isinstance(source, ast.Call) and file.name_of(source.func) == "range" and source.args
            if counted and isinstance(source, ast.Call) and _size(source.args[-1]) >= _LARGE:
                yield Hit("huge-allocation", file.offset(node))


def _size(node: ast.AST, depth: int = 0) -> int:
    """A number written as one, as a product or as a power; 0 for anything else."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return min(node.value, 10**18)
    if depth < 6 and isinstance(node, ast.BinOp):
        left, right = _size(node.left, depth + 1), _size(node.right, depth + 1)
        if isinstance(node.op, ast.Mult):
            return min(left * right, 10**18)
        if isinstance(node.op, ast.Pow):
            return 10**18 if right > 64 and left > 1 else min(left ** max(min(right, 64), 0), 10**18)
    return 0


_RUNS_CODE: Final = frozenset(
    ("eval", "exec", "builtins.eval", "builtins.exec", "__builtins__.exec", "__builtins__.eval", "code.interact")
)
_RUNS_SHELL: Final = frozenset((
    "os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "commands.getoutput",
    "asyncio.create_subprocess_shell",
))  # fmt: skip
_RUNS: Final = frozenset((
    "subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output", "subprocess.Popen", "os.execv", "os.execvp", "os.execl",
    "os.spawnv", "pty.spawn", "asyncio.create_subprocess_exec",
))  # fmt: skip
_STARTS: Final = _RUNS | _RUNS_SHELL | {"runpy.run_path", "os.startfile", "os.chmod", "importlib.util.spec_from_file_location"}
_UNPICKLES: Final = frozenset((
    "pickle.load", "pickle.loads", "pickle.Unpickler", "cPickle.load", "cPickle.loads", "_pickle.loads", "dill.load",
    "dill.loads", "cloudpickle.load", "cloudpickle.loads", "marshal.load", "marshal.loads", "shelve.open",
    "jsonpickle.decode",
))  # fmt: skip
_YAML_SAFE: Final = ("SafeLoader", "CSafeLoader", "BaseLoader", "FullLoader")


def check_python_calls(file: PythonFile, flow: Flow) -> Iterator[Hit]:
    """All that the tree of one file shows; `flow` knows what its values may hold."""
    for scope in flow.scopes:
        calls = [node for node in scope.nodes if isinstance(node, ast.Call)] if scope.file is file else []
        yield from (hit for call in calls for check in _CHECKS_OF_CALLS for hit in check(call, scope, flow))
    yield from _endless_loops(file)
    yield from _huge_allocations(file)


def first_network_call(file: PythonFile) -> ast.Call | None:
    """The first call that uses the network, None when there is none."""
    local = "AF_UNIX" in file.source.text and "AF_INET" not in file.source.text
    return _first_call(file, lambda name: _is_network(name) and not (local and name.startswith("socket.")))


def first_program_start(file: PythonFile) -> ast.Call | None:
    """The first call that starts another program."""
    runners = _RUNS | _RUNS_SHELL
    return _first_call(file, lambda name: name in runners)


def _first_call(file: PythonFile, fits: Callable[[str], bool]) -> ast.Call | None:
    calls = [node for node in file.nodes if isinstance(node, ast.Call) and fits(file.name_of(node.func))]
    return min(calls, key=lambda node: node.lineno, default=None)


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
        yield Hit("decoded-code", at, f"`{name}` runs text that was just decoded")
    elif labels & {"network", "client"}:
        yield Hit("download-and-run", at, f"`{name}` runs data from the network")
    elif "input" in labels:
        yield Hit("runs-input-as-code", at, f"`{name}` runs user input")
    elif not _limited(call):
        yield Hit("runs-text-as-code", at, f"`{name}` runs text that is assembled at run time")


def _limited(call: ast.Call) -> bool:
    """Whether builtins are taken away, or a tree that was checked is run: `exec(compile(tree, …))`."""
    first = call.args[0]
    if isinstance(first, ast.Call) and isinstance(first.func, ast.Name) and first.func.id == "compile":
        read = bool(first.args) and isinstance(first.args[0], ast.Call)  # text, where a tree would be a value
        return bool(first.args) and not read and not isinstance(first.args[0], ast.Constant) and len(call.args) == 1
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
    if isinstance(command, ast.Name):
        assigned = _assigned(command.id, scope.nodes[:_NEAR])
        command = assigned if isinstance(assigned, ast.List) else command
    labels = flow.labels(_program(command), scope)
    if "decoded" in labels:
        yield Hit("decoded-code", at, f"`{name}` runs text that was just decoded")
    elif shell and labels & {"network", "client"}:
        yield Hit("download-and-run", at, f"`{name}` runs data from the network")
    elif shell and not _is_fixed(command):
        typed = "input" in labels
        yield Hit("shell-from-input" if typed else "shell-from-data", at)
    if flow.labels(command, scope) & {"environment", "credential", "encoded-key"} and _names_a_sender(call):
        yield Hit("secret-to-network", at, "a command that sends data contains secrets")


def _downloads_run(call: ast.Call, scope: Scope, flow: Flow) -> Iterator[Hit]:
    """A file that came from the network and is started, imported, or made a program."""
    name = scope.file.name_of(call.func)
    if not flow.downloads or not call.args or name not in _STARTS:
        return
    if name == "os.chmod" and not (len(call.args) > 1 and _may_run(call.args[1])):
        return
    command = call.args[-1 if name == "importlib.util.spec_from_file_location" else 0]
    if isinstance(command, ast.Name):
        assigned = _assigned(command.id, scope.nodes[:_NEAR])
        command = assigned if isinstance(assigned, ast.List) else command
    parts = command.elts[:4] if isinstance(command, ast.List) else [command]
    places = {place(part, scope) for part in parts} - {""}
    words = " ".join(constant_text(part) or "" for part in parts).split() if len(parts) == 1 else []
    if (places | set(words)) & flow.downloads:
        yield Hit("download-then-run", scope.file.offset(call), f"what was downloaded is run with `{name}`", relief=1)


def _may_run(mode: ast.expr) -> bool:
    """Whether a mode makes a file a program."""
    return any(
        isinstance(part, ast.Constant) and isinstance(part.value, int) and part.value & 0o111 for part in walk_some(mode)
    ) or (any(isinstance(part, ast.Attribute) and part.attr.startswith("S_IX") for part in walk_some(mode)))


_MOST_COMMANDS: Final = 60


def command_lines(file: PythonFile) -> Iterator[tuple[str, int]]:
    """The commands that are started as lists, each as a line of shell with its line in the text; what is no constant as `?`."""
    runners = _RUNS | {"asyncio.create_subprocess_exec"}
    calls = (node for node in file.nodes if isinstance(node, ast.Call) and file.name_of(node.func) in runners and node.args)
    for call in islice(calls, _MOST_COMMANDS):
        listed = call.args[0]
        parts = listed.elts if isinstance(listed, ast.List | ast.Tuple) else call.args
        words = [constant_text(part) or ("python3" if file.name_of(part) == "sys.executable" else "?") for part in parts[:60]]
        if len(words) > 1:
            yield " ".join(words), call.lineno


def _program(command: ast.expr) -> ast.expr:
    """What decides what runs: of a list its first part, or all of it where an interpreter is given code."""
    if isinstance(command, ast.List) and command.elts:
        given = {constant_text(part) for part in command.elts[:6]}
        return command if given & {"-c", "-e", "-Command", "-EncodedCommand"} else command.elts[0]
    return command


def _names_a_sender(call: ast.Call) -> bool:
    return any(
        word in (constant_text(node) or "")
        for node in walk_some(call)
        for word in ("curl", "wget", "nc ", "scp ", "sendmail", "dig ", "nslookup", "host ")
    )


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _unpickling(call: ast.Call, scope: Scope, flow: Flow) -> Iterator[Hit]:
    name = scope.file.name_of(call.func)
    if name in _UNPICKLES:
        fetched = any(flow.labels(argument, scope) & {"network", "client"} for argument in call.args)
        message = f"`{name}` deserializes data from the network" if fetched else f"`{name}` can run code that is in its input"
        yield Hit("unpickles-from-network" if fetched else "unpickles", scope.file.offset(call), message)
    elif name in ("yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load"):
        loader = ast.dump(call) if len(list(walk_some(call))) < 60 else ""
        if "unsafe" in name or (name.startswith("yaml.load") and not any(safe in loader for safe in _YAML_SAFE)):
            yield Hit("unpickles", scope.file.offset(call), f"`{name}` can create any object that its input names")
    elif name == "torch.load" and any(word.arg == "weights_only" and not _is_true(word.value) for word in call.keywords):
        yield Hit("unpickles", scope.file.offset(call), "`torch.load` without `weights_only` can run code in the file")


def _dynamic(call: ast.Call, scope: Scope, flow: Flow) -> Iterator[Hit]:
    """Names that are put together so that nobody finds them."""
    name = scope.file.name_of(call.func)
    if name in ("__import__", "importlib.import_module", "getattr") and call.args:
        attribute = call.args[1 if name == "getattr" and len(call.args) > 1 else 0]
        looked_in = scope.file.name_of(call.args[0]).partition(".")[0] if name == "getattr" else ""
        of_program = (
            name != "getattr" or looked_in in scope.file.names.values() or looked_in in ("__builtins__", "builtins", "")
        )
        if of_program and "decoded" in flow.labels(attribute, scope):
            yield Hit("decoded-code", scope.file.offset(call), f"`{name}` uses a name that was decoded")
        elif isinstance(attribute, ast.BinOp) and _is_fixed(attribute):
            yield Hit("built-name", scope.file.offset(call), f"`{name}` uses a name that is joined from pieces")
        elif (
            name == "getattr"
            and scope.file.name_of(call.args[0]) in ("__builtins__", "builtins")
            and constant_text(attribute) != "__dict__"
        ):
            yield Hit("built-name", scope.file.offset(call), "a builtin is looked up by its name as text")


_CHECKS_OF_CALLS: Final[tuple[Callable[[ast.Call, Scope, Flow], Iterator[Hit]], ...]] = (
    _code, _commands, _downloads_run, _unpickling, _queries, _sendings, _dynamic, _openings,
)  # fmt: skip
