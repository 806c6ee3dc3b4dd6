"""Where Python lets data go that it should not: values into queries, parameters into paths, secrets to the network."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from skillyard.scanner.python_flow import Flow, Label, Scope
from skillyard.scanner.python_source import constant_text, walk_some
from skillyard.scanner.source import Hit

__all__ = ["is_fixed", "openings", "queries", "sendings"]

_SENDS: Final = frozenset((
    "requests.post", "requests.put", "requests.patch", "requests.get", "requests.request", "requests.head", "httpx.post", "httpx.put", "httpx.patch",
    "httpx.get", "httpx.request", "urllib.request.urlopen", "urllib.request.Request", "urllib3.request", "socket.gethostbyname", "socket.getaddrinfo",
    "webbrowser.open",
))  # fmt: skip
_METHODS: Final = frozenset(
    (
        "post",
        "put",
        "patch",
        "get",
        "request",
        "send",
        "sendall",
        "sendto",
        "sendmail",
        "send_message",
        "send_json",
        "storbinary",
        "storlines",
        "resolve",
        "query",
    )
)
_SPLIT_OK: Final = frozenset(("headers", "auth", "timeout", "verify", "proxies", "cert", "cookies", "params"))
_SQL: Final = ("select ", "insert ", "update ", "delete ", "drop ", "create ", "alter ", "replace into")
_NEAR: Final = 3_000  # statements of a function in which a query is looked for
_CHECKS: Final = frozenset(
    (
        "resolve",
        "is_relative_to",
        "commonpath",
        "realpath",
        "basename",
        "secure_filename",
        "startswith",
        "abspath",
        "relative_to",
        "name",
    )
)


def queries(call: ast.Call, scope: Scope, flow: Flow) -> Iterator[Hit]:
    """A query with values written into its text."""
    if not (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("execute", "executemany", "executescript", "raw")
        and call.args
    ):
        return
    query = call.args[0]
    if isinstance(query, ast.Name):
        query = _assigned(query.id, scope.nodes[:_NEAR]) or query
    made = isinstance(query, ast.JoinedStr | ast.BinOp) or (
        isinstance(query, ast.Call) and isinstance(query.func, ast.Attribute) and query.func.attr == "format"
    )
    if made and not is_fixed(query) and _is_query(query):
        yield Hit("sql-from-text", scope.file.offset(call))


def openings(call: ast.Call, scope: Scope, flow: Flow) -> Iterator[Hit]:
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


def sendings(call: ast.Call, scope: Scope, flow: Flow) -> Iterator[Hit]:
    """Secrets in what is sent; a single key in a header is how services are asked, and is no finding."""
    name = scope.file.name_of(call.func)
    method = isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS
    if name not in _SENDS and not (
        method and isinstance(call.func, ast.Attribute) and "client" in flow.labels(call.func.value, scope)
    ):
        return
    all_of_it: set[Label] = set()
    body: set[Label] = set()
    for argument in call.args:
        body |= flow.labels(argument, scope)
    for word in call.keywords:
        (all_of_it if word.arg in _SPLIT_OK else body).update(flow.labels(word.value, scope))
    at, shown = scope.file.offset(call), name or "it"
    if "credential" in body | all_of_it:
        yield Hit("secret-to-network", at, f"what stands in a credential file is sent with `{shown}`")
    elif "environment" in body | all_of_it:
        yield Hit("secret-to-network", at, f"the whole environment is sent with `{shown}`")
    elif "key" in body:
        yield Hit("key-in-body", at, f"a key from the environment is sent with `{shown}`, in the address or the body")


def is_fixed(node: ast.expr) -> bool:
    """Whether it is a constant, or constants joined."""
    if isinstance(node, ast.JoinedStr):
        return not any(isinstance(value, ast.FormattedValue) for value in node.values)
    return all(isinstance(part, ast.Constant | ast.BinOp | ast.operator) for part in walk_some(node))
