"""Data flow in Python: files parsed within bounds, and where their values go, followed across files.

Every expression has labels: what it may hold. The analysis ignores order and branches: what a name may hold anywhere in
a function it may hold everywhere in it. That misses nothing simple and stays linear: a few rounds over the statements.
"""

from __future__ import annotations

import ast
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Literal

from skillyard.scanner.dangerous_commands import CREDENTIAL_PATH, SECRET_NAME
from skillyard.scanner.source_texts import SourceText

_MOST_NODES: Final = 150_000
_DEEPEST_NAME: Final = 12
_MOST_LOOKED_AT: Final = 1_000


@dataclass(frozen=True)
class PythonFile:
    """A parsed source."""

    source: SourceText
    tree: ast.Module
    nodes: tuple[ast.AST, ...]
    """Every node of the tree, those further up first."""
    names: dict[str, str] = field(default_factory=dict)
    """What a name in the file stands for: an imported module or function, or a builtin that was given another name."""

    def name_of(self, node: ast.expr) -> str:
        """The dotted name of what is called or read, such as `os.environ.get`; empty when it is no plain name."""
        parts: list[str] = []
        while len(parts) < _DEEPEST_NAME:
            if isinstance(node, ast.Attribute):
                parts.append(node.attr)
                node = node.value
            elif isinstance(node, ast.Name):
                parts.append(self.names.get(node.id, node.id))
                return ".".join(reversed(parts))
            elif isinstance(node, ast.Call) and (module := _imported_by(node)):
                parts.append(module)
                return ".".join(reversed(parts))
            else:
                return ""
        return ""

    def offset(self, node: ast.expr | ast.stmt) -> int:
        """Where a node begins; columns count bytes of UTF-8, which is near enough to show a line."""
        return self.source.offset_of(node.lineno, node.col_offset)


def parse_python(source: SourceText) -> PythonFile | None:
    """The source as a tree; None when it is no Python of this version, is nested too deeply or is too long."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    nodes = tuple(islice(ast.walk(tree), _MOST_NODES + 1))
    return PythonFile(source, tree, nodes, _names(nodes)) if len(nodes) <= _MOST_NODES else None


def walk_some(node: ast.AST) -> Iterator[ast.AST]:
    """The first nodes of a tree, enough for anything that a person writes."""
    return islice(ast.walk(node), _MOST_LOOKED_AT)


def constant_text(node: ast.AST | None) -> str | None:
    """The text of a constant, of text or bytes; None for anything else."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return node.value
        if isinstance(node.value, bytes):
            return node.value.decode("latin-1")
    return None


_MOST_JOINED: Final = 120


def joined_text(node: ast.expr, name_of: Callable[[ast.expr], str]) -> str:
    """What is known of a text, or a path, that is put together from constants; `?` stands for what is not."""
    pieces: list[str] = []
    todo: list[ast.expr | str] = [node]
    for _ in range(_MOST_JOINED):
        if not todo:
            break
        here = todo.pop()
        if isinstance(here, str):
            pieces.append(here)
        elif isinstance(here, ast.BinOp) and isinstance(here.op, ast.Add | ast.Div):
            todo += [here.right, *(("/",) if isinstance(here.op, ast.Div) else ()), here.left]
        elif isinstance(here, ast.JoinedStr):
            todo += here.values[::-1]
        elif isinstance(here, ast.Call) and name_of(here.func) in _JOINERS:
            todo += [part for argument in here.args[:10][::-1] for part in (argument, "/")][:-1]
        else:
            pieces.append(constant_text(here) or "?")
    return "".join(pieces)


_JOINERS: Final = ("os.path.join", "Path", "pathlib.Path", "os.path.expanduser")


def root_of(name: str) -> str:
    """The first part of a dotted name."""
    return name.partition(".")[0]


def _imported_by(call: ast.Call) -> str | None:
    """The module in `__import__("os")` and `importlib.import_module("os")`."""
    function = call.func
    is_import = (isinstance(function, ast.Name) and function.id in ("__import__", "import_module")) or (
        isinstance(function, ast.Attribute) and function.attr == "import_module"
    )
    return constant_text(call.args[0]) if is_import and call.args else None


def _names(nodes: tuple[ast.AST, ...]) -> dict[str, str]:
    names: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module or ''}.{alias.name}".lstrip(".") for alias in node.names}
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            if isinstance(node.value, ast.Name) and node.value.id in ("eval", "exec", "compile", "__import__", "getattr"):
                names[node.targets[0].id] = node.value.id
            elif isinstance(node.value, ast.Call) and (module := _imported_by(node.value)):
                names[node.targets[0].id] = module
    return names


Label = Literal[
    "environment",
    "key",
    "credential-path",
    "credential",
    "own-entry",
    "decoded",
    "network",
    "input",
    "client",
    "read",
    "encoder",
    "encoded-key",
]
"""What a value may hold: all variables, one secret variable, the path of a secret file, its content, an entry of the keychain that
the skill itself writes, text that was encoded, what came from the network, what somebody typed, a thing that sends, or a secret variable in another writing; `read` and `encoder`
stand inside one expression only."""

_Labels = frozenset[Label]
_NOTHING: Final[_Labels] = frozenset()
_PATH: Final[_Labels] = frozenset(("credential-path",))
_INPUT: Final[_Labels] = frozenset(("input",))
_ROUNDS: Final = 10
_MOST_LOOKS: Final = 3_000_000  # at nodes; code that is built to need more is analysed in part
_ANYWHERE: Final = "*"

_DECODERS: Final = frozenset((
    "base64.b64decode", "base64.urlsafe_b64decode", "base64.standard_b64decode", "base64.b32decode", "base64.b16decode", "base64.b85decode",
    "base64.a85decode", "base64.decodebytes", "bytes.fromhex", "bytearray.fromhex", "binascii.unhexlify", "binascii.a2b_base64", "binascii.a2b_hex",
    "codecs.decode", "zlib.decompress", "lzma.decompress", "bz2.decompress", "gzip.decompress", "marshal.loads",
))  # fmt: skip
_ENCODERS: Final = frozenset((
    "base64.b64encode", "base64.urlsafe_b64encode", "base64.standard_b64encode", "base64.b32encode", "base64.b16encode", "base64.b85encode",
    "base64.encodebytes", "binascii.hexlify", "binascii.b2a_base64", "binascii.b2a_hex", "zlib.compress", "codecs.encode",
))  # fmt: skip
_SPELLERS: Final = ("chr", "str.maketrans", "bytes", "bytearray")
"""What puts text together from numbers: harmless, unless the text is run."""
_READERS: Final = frozenset(("open", "io.open", "codecs.open", "read_text", "read_bytes", "read", "readlines", "open_text"))
_STORES: Final = frozenset((
    "keyring.get_password", "keyring.get_credential", "browser_cookie3.chrome", "browser_cookie3.load",
    "browser_cookie3.firefox",
))  # fmt: skip
_ENTRIES: Final = ("keyring.get_password", "keyring.get_credential")
_TYPED: Final = frozenset(("input", "sys.argv", "sys.stdin.read", "sys.stdin.readline"))
_FETCHERS: Final = frozenset((
    "requests.get", "requests.post", "requests.request", "urllib.request.urlopen", "httpx.get", "httpx.post",
    "urllib.request.urlretrieve",
))  # fmt: skip
NETWORK_MODULES: Final = frozenset((
    "requests", "httpx", "aiohttp", "urllib3", "socket", "smtplib", "websocket", "websockets", "ftplib", "paramiko", "http", "telnetlib", "dns", "pycurl",
))  # fmt: skip
"""Modules whose objects send; `urllib` only where it opens something."""
_HARMLESS: Final = frozenset((
    "len", "bool", "isinstance", "type", "hash", "id", "callable", "os.path.exists", "os.path.isfile", "os.path.isdir", "exists", "is_file", "is_dir",
    "startswith", "endswith", "isdigit", "stat", "count", "index", "find", "print", "hasattr", "range", "sorted_keys",
))  # fmt: skip
_ORDINARY: Final = frozenset((
    "get", "read", "load", "loads", "dump", "dumps", "json", "items", "keys", "values", "format", "join", "split", "strip", "encode", "decode", "run",
    "main", "open", "close", "replace", "lower", "upper", "execute", "call", "parse", "post", "send", "write", "exists",
))  # fmt: skip
"""Names that methods of everything have: that a skill's own function is called so does not concern the others."""
_ASIDE: Final = ("env", "timeout", "headers")
"""Arguments that are not in what a call gives back; what is wrong with them is wrong at the call itself."""
_ADDS: Final = frozenset(("append", "extend", "update", "add", "insert", "setdefault", "write", "writelines", "writestr"))


@dataclass(frozen=True)
class Scope:
    """The body of a module or of one function, without the functions in it."""

    file: PythonFile
    name: str
    parameters: tuple[str, ...]
    nodes: tuple[ast.AST, ...]
    """Assignments, loops, returns and calls, in the order of the source."""


class Flow:
    """What every name in a skill's Python files may hold."""

    def __init__(self, files: Sequence[PythonFile]) -> None:
        self.scopes = [scope for file in files for scope in _scopes(file)]
        self._parameters: dict[str, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
        for scope in self.scopes:
            if scope.name:
                self._parameters[scope.name].append((_key(scope), scope.parameters))
        self._holds: dict[str, dict[str, _Labels]] = defaultdict(dict)
        self._returns: dict[str, _Labels] = {}
        self._attributes: dict[str, _Labels] = {}
        self._entries = {
            _same(node.args[0])
            for scope in self.scopes
            for node in scope.nodes
            if isinstance(node, ast.Call) and node.args and scope.file.name_of(node.func) == "keyring.set_password"
        }
        self._changed, self._left = True, _MOST_LOOKS
        for _ in range(_ROUNDS):
            if self._changed:
                self._changed = False
                for scope in self.scopes:
                    self._learn(scope)
        self.downloads = {place for scope in self.scopes for place in self._saved(scope)}
        """Where files are saved that come from the network, as `place` names it."""

    def _saved(self, scope: Scope) -> Iterator[str]:
        """The places of files that a scope fills with what comes from the network."""
        opened: dict[str, ast.expr] = {}
        for node in scope.nodes:
            if isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
                made, name = node.context_expr, node.optional_vars.id
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                made, name = node.value, node.targets[0].id
            else:
                continue
            if isinstance(made, ast.Call) and scope.file.name_of(made.func) in ("open", "io.open") and made.args:
                opened[name] = made.args[0]
        for node in scope.nodes:
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr == "urlretrieve" and len(node.args) > 1:
                yield place(node.args[1], scope)
            elif node.func.attr in ("write", "write_bytes", "write_text") and "network" in self.labels(node.args[0], scope):
                into = node.func.value
                if isinstance(into, ast.Call) and into.args and scope.file.name_of(into.func) in ("open", *_JOINERS):
                    yield place(into.args[0], scope)
                else:
                    yield place(opened.get(into.id, into) if isinstance(into, ast.Name) else into, scope)

    def labels(self, node: ast.AST | None, scope: Scope) -> _Labels:
        """What an expression may hold."""
        labels: set[Label] = set()
        todo = [node] if node is not None else []
        while todo and self._left > 0:
            here = todo.pop()
            self._left -= 1
            if isinstance(here, ast.Compare | ast.Lambda):
                continue
            own, below = self._own(here, scope)
            labels.update(own)
            todo += below
        if "read" in labels:
            labels.discard("read")
            if "credential-path" in labels:
                labels.add("credential")
        if "encoder" in labels:
            labels.discard("encoder")
            if labels & {"key", "environment"}:
                labels.add("encoded-key")
        return frozenset(labels)

    def _own(self, node: ast.AST, scope: Scope) -> tuple[Iterable[Label], list[ast.AST]]:
        """What one node adds, and the nodes below it that count."""
        if isinstance(node, ast.Name):
            return self._named(scope, node.id), []
        if isinstance(node, ast.Constant):
            text = constant_text(node)
            return _PATH if text and len(text) < 500 and CREDENTIAL_PATH.search(text) else _NOTHING, []
        if isinstance(node, ast.Attribute):
            name = scope.file.name_of(node)
            if name in ("os.environ", "os.environb"):
                return ("environment",), []
            return _INPUT if name in _TYPED else self._attributes.get(node.attr, _NOTHING), [node.value]
        if isinstance(node, ast.Subscript) and scope.file.name_of(node.value) in ("os.environ", "os.environb"):
            return _variable(node.slice), []
        if isinstance(node, ast.Call):
            return self._called(node, scope)
        if isinstance(node, ast.Subscript) and _is_reversed(node.slice):
            return ("decoded",), [node.value]
        if isinstance(node, ast.BinOp | ast.JoinedStr) and CREDENTIAL_PATH.search(joined_text(node, scope.file.name_of)):
            return _PATH, list(ast.iter_child_nodes(node))
        return (), list(ast.iter_child_nodes(node))

    def _called(self, call: ast.Call, scope: Scope) -> tuple[Iterable[Label], list[ast.AST]]:
        name = scope.file.name_of(call.func)
        last = call.func.attr if isinstance(call.func, ast.Attribute) else name
        if name in ("os.getenv", "os.environ.get", "os.environ.pop", "os.environ.setdefault", "os.environ.__getitem__"):
            return _variable(call.args[0] if call.args else None), []
        if last in _HARMLESS or name in _HARMLESS:
            return (), []
        if name in _FETCHERS:
            return _by_name(name), []  # an answer is not what was asked with
        below: list[ast.AST] = [*call.args, *(word.value for word in call.keywords if word.arg not in _ASIDE)]
        if isinstance(call.func, ast.Attribute):
            below.append(call.func.value)
        function = last.rpartition(".")[2]
        own: set[Label] = set() if function in _ORDINARY else set(self._returns.get(function, ()))
        own |= _by_name(name)
        if name in _ENTRIES and call.args and _same(call.args[0]) in self._entries:
            own = own - {"credential"} | {"own-entry"}
        if name == "socket.socket" and call.args and scope.file.name_of(call.args[0]).endswith("AF_UNIX"):
            own.discard("client")  # it reaches this machine alone
        if last == "join" and CREDENTIAL_PATH.search(joined_text(call, scope.file.name_of)):
            own.add("credential-path")
        numbers = bool(call.args) and isinstance(call.args[0], ast.List | ast.Tuple | ast.ListComp | ast.GeneratorExp)
        if (name in _SPELLERS and (numbers or "byte" not in name)) or last == "translate":
            own.add("decoded")
        if last in _READERS or name in _READERS:
            own.add("read")
        return own, below

    def _named(self, scope: Scope, name: str) -> _Labels:
        inner = self._holds[_key(scope)].get(name, _NOTHING)
        outer = self._holds[f"{scope.file.source.file}:"].get(name, _NOTHING)
        target = scope.file.names.get(name, "")
        imported = self._holds[_ANYWHERE].get(target.rpartition(".")[2], _NOTHING) if "." in target else _NOTHING
        return inner | outer | imported | (frozenset(("environment",)) if target == "os.environ" else _NOTHING)

    def _learn(self, scope: Scope) -> None:
        for node in scope.nodes:
            if isinstance(node, ast.Assign):
                self._bind(node.targets, self.labels(node.value, scope), scope)
            elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
                self._bind([node.target], self.labels(node.value, scope), scope)
            elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
                self._bind([node.target], self.labels(node.iter, scope), scope)
            elif isinstance(node, ast.withitem):
                self._bind([node.optional_vars] if node.optional_vars else [], self.labels(node.context_expr, scope), scope)
            elif isinstance(node, ast.If):
                for name in _picked(node):
                    self._note(self._holds[_key(scope)], name, _PATH)
            elif isinstance(node, ast.Return | ast.Yield):
                self._note(self._returns, scope.name, self.labels(node.value, scope))
            elif isinstance(node, ast.Call):
                self._pass(node, scope)

    def _bind(self, targets: Iterable[ast.expr], labels: _Labels, scope: Scope) -> None:
        if not labels:
            return
        for target in targets:
            for node in ast.walk(target):
                if isinstance(node, ast.Attribute):
                    self._note(self._attributes, node.attr, labels)
                elif isinstance(node, ast.Name):
                    self._note(self._holds[_key(scope)], node.id, labels)
                    if not scope.name:
                        self._note(self._holds[_ANYWHERE], node.id, labels)

    def _pass(self, call: ast.Call, scope: Scope) -> None:
        """Arguments go to the parameters of a function of the skill; what is added to a list or mapping stays in it."""
        name = call.func.attr if isinstance(call.func, ast.Attribute) else scope.file.name_of(call.func).rpartition(".")[2]
        if isinstance(call.func, ast.Attribute) and name in _ADDS:
            labels = frozenset(label for argument in call.args for label in self.labels(argument, scope))
            self._bind([call.func.value], labels, scope)
        for key, parameters in self._parameters.get(name, ()):
            for parameter, argument in zip(parameters, call.args, strict=False):
                self._note(self._holds[key], parameter, self.labels(argument, scope))
            for word in call.keywords:
                if word.arg in parameters:
                    self._note(self._holds[key], word.arg, self.labels(word.value, scope))

    def _note(self, noted: dict[str, _Labels], name: str, labels: _Labels) -> None:
        before = noted.get(name, _NOTHING)
        if not labels <= before:
            noted[name] = before | labels
            self._changed = True


_KEY_NAMES: Final = frozenset(
    ("id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", "credentials.db", "Login Data", "key4.db", "logins.json")
)
_SKIPS: Final = (ast.Continue, ast.Return, ast.Raise, ast.Break)


def _picked(branch: ast.If) -> Iterator[str]:
    """The names that are compared with those of secret files, so that what is done next is done with these."""
    if isinstance(branch.body[0], _SKIPS):
        return
    for node in walk_some(branch.test):
        if not isinstance(node, ast.Compare) or not isinstance(node.left, ast.Name):
            continue
        for operator, right in zip(node.ops, node.comparators, strict=False):
            texts = [
                constant_text(one) or ""
                for one in (right.elts if isinstance(right, ast.Tuple | ast.List | ast.Set) else (right,))
            ]
            if isinstance(operator, ast.In | ast.Eq) and any(one in _KEY_NAMES or CREDENTIAL_PATH.search(one) for one in texts):
                yield node.left.id


def place(node: ast.expr, scope: Scope) -> str:
    """What is the same for two expressions of a scope that name the same file; empty for what is no plain name or text."""
    if isinstance(node, ast.Call) and node.args and scope.file.name_of(node.func) in ("str", *_JOINERS) and len(node.args) == 1:
        node = node.args[0]
    text = constant_text(node)
    if text is not None:
        return text if len(text) > 1 else ""
    name = scope.file.name_of(node) if isinstance(node, ast.Name | ast.Attribute) else ""
    return f"{_key(scope)}:{name}" if name else ""


def _same(node: ast.expr) -> str:
    """What is the same for two expressions that name the same service."""
    return constant_text(node) or (
        node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    )


def _by_name(name: str) -> set[Label]:
    own: set[Label] = set()
    if name in _DECODERS or name.endswith(".b64decode"):
        own.add("decoded")
    if name in _ENCODERS:
        own.add("encoder")
    if name in _STORES:
        own.add("credential")
    if name in _TYPED or name.endswith(".parse_args"):
        own.add("input")
    if name in _FETCHERS:
        own.add("network")
    if root_of(name) in NETWORK_MODULES:
        own.add("client")
    return own


def _variable(key: ast.AST | None) -> tuple[Label, ...]:
    """One variable: a secret by its name; by a name that is only known at run time, any of them."""
    text = constant_text(key)
    if text is None:
        return ("key",)
    return ("key",) if SECRET_NAME.search(text) else ()


def _is_reversed(part: ast.expr) -> bool:
    """Whether a part of a text is all of it, from its end: `text[::-1]`."""
    step = part.step if isinstance(part, ast.Slice) else None
    return isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub) and isinstance(step.operand, ast.Constant)


def _key(scope: Scope) -> str:
    return f"{scope.file.source.file}:{scope.name}"


def _scopes(file: PythonFile) -> Iterator[Scope]:
    """The module and each function in it, however deep; of functions with one name all are meant."""
    functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
    yield Scope(file, "", (), tuple(_statements(file.tree, functions)))
    while functions:
        function = functions.pop()
        given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        parameters = tuple(one.arg for one in given if one.arg not in ("self", "cls"))
        yield Scope(file, function.name, parameters, tuple(_statements(function, functions)))


_KEPT: Final = (
    ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr, ast.For, ast.AsyncFor, ast.comprehension, ast.withitem, ast.If, ast.Return, ast.Yield, ast.Call,
)  # fmt: skip


def _statements(top: ast.AST, functions: list[ast.FunctionDef | ast.AsyncFunctionDef]) -> Iterator[ast.AST]:
    """What counts below a node, in the order of the source; functions join `functions`."""
    todo = list(ast.iter_child_nodes(top))[::-1]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.append(node)
            continue
        if isinstance(node, _KEPT):
            yield node
        todo += list(ast.iter_child_nodes(node))[::-1]
