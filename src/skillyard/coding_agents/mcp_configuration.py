"""Skillyard's MCP server in the configuration of a coding agent: the change is planned, shown, then written in one step.

What else is in the file stays as it was written, with comments and order. A file that cannot be understood is never written.
What was there before is kept in `agent-backups` of Skillyard's own folder. In JSON one value is changed: the grammar
(tree-sitter) gives the places; what was meant is read again from the result and compared, so that a change that is not exactly
the one that was asked for is refused.
"""

from __future__ import annotations

import difflib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from skillyard.coding_agents.coding_agent_table import CodingAgent, McpServersLocation, Scope, refuse_outside
from skillyard.errors import FileTooLarge, InvalidConfiguration, InvalidInput, PathRefused
from skillyard.files import read_limited, replace_file
from skillyard.paths import real_path
from skillyard.plain_json import read_json
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from tree_sitter import Node


_BOM: Final = b"\xef\xbb\xbf"
_UNIT: Final = "  "


def json_value(data: bytes) -> dict[str, Any]:
    """The object in a JSON file that may have comments; an empty file is an empty object.

    Raises:
        ValueError: it is no such file.
    """
    text = data.removeprefix(_BOM)
    if not text.strip():
        return {}
    plain = bytearray(text)
    for comment in _comments(_document(text)):
        plain[comment.start_byte : comment.end_byte] = b" " * (comment.end_byte - comment.start_byte)
    value = read_json(plain.decode())
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    return value


def with_json_value(data: bytes, keys: Sequence[str], value: object) -> bytes:
    """The file with `value` at the end of `keys`, written as its neighbours are; objects on the way are made.

    Raises:
        ValueError: it is no JSON object, or something on the way is none.
    """
    expected = json_value(data)
    _put(expected, keys, value)
    bom, text = (_BOM if data.startswith(_BOM) else b""), data.removeprefix(_BOM)
    if not text.strip():
        changed = json.dumps(_nested(keys, value), indent=2, ensure_ascii=False).encode() + b"\n"
    else:
        changed = _inserted(text, keys, value)
    return _verified(bom + changed, expected)


def without_json_value(data: bytes, keys: Sequence[str]) -> bytes:
    """The file without what is at the end of `keys`; as it is when nothing is there.

    Raises:
        ValueError: it is no JSON object.
    """
    expected = json_value(data)
    holder: Any = expected
    for key in keys[:-1]:
        holder = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(holder, dict) or keys[-1] not in holder:
        return data
    del holder[keys[-1]]
    bom, text = (_BOM if data.startswith(_BOM) else b""), data.removeprefix(_BOM)
    container = _top(text)
    for key in keys[:-1]:
        container = _member(container, key).child_by_field_name("value")  # type: ignore[union-attr,assignment] # it is there
    for start, end in _written_parts(container, _member(container, keys[-1])):  # type: ignore[arg-type] # it is there
        text = _cut(text, start, end)
    return _verified(bom + text, expected)


def _verified(changed: bytes, expected: Mapping[str, Any]) -> bytes:
    if json_value(changed) != expected:
        raise ValueError("it is written in a way that cannot be changed safely")
    return changed


def _put(root: dict[str, Any], keys: Sequence[str], value: object) -> None:
    for key in keys[:-1]:
        root = root.setdefault(key, {})
        if not isinstance(root, dict):
            raise ValueError(f"{key!r} in it is not an object")
    root[keys[-1]] = value


def _nested(keys: Sequence[str], value: object) -> object:
    for key in reversed(keys):
        value = {key: value}
    return value


def _document(text: bytes) -> Node:
    import tree_sitter_json  # only where such a file is changed
    from tree_sitter import Language, Parser

    root = Parser(Language(tree_sitter_json.language())).parse(text).root_node
    if root.has_error:
        bad = next((node for node in _nodes(root) if node.is_error or node.is_missing), root)
        raise ValueError(f"it is not JSON, in line {bad.start_point[0] + 1}")
    return root


def _nodes(root: Node) -> list[Node]:
    nodes = [root]
    for node in nodes:  # grows while it runs
        nodes.extend(node.children)
    return nodes


def _comments(root: Node) -> list[Node]:
    return [node for node in _nodes(root) if node.type == "comment"]


def _top(text: bytes) -> Node:
    return next(node for node in _document(text).named_children if node.type != "comment")


def _pairs(container: Node) -> list[Node]:
    return [child for child in container.named_children if child.type == "pair"]


def _member(container: Node, key: str) -> Node | None:
    """The last member of that name, which is the one that counts."""
    found = [pair for pair in _pairs(container) if _key(pair) == key]
    return found[-1] if found else None


def _key(pair: Node) -> str:
    written = pair.child_by_field_name("key")
    return str(json.loads(written.text)) if written is not None and written.text is not None else ""


def _inserted(text: bytes, keys: Sequence[str], value: object) -> bytes:
    container, left = _top(text), list(keys)
    while left and (member := _member(container, left[0])) is not None:
        container = member.child_by_field_name("value")  # type: ignore[assignment] # a pair has one
        left.pop(0)
    lines = _Layout(text)
    if not left:
        return text[: container.start_byte] + lines.written(value, container.start_byte) + text[container.end_byte :]
    value = _nested(left[1:], value)
    pairs = _pairs(container)
    name = json.dumps(left[0], ensure_ascii=False).encode() + b": "
    if not pairs:
        inner = lines.indent(container.start_byte) + lines.unit
        body = lines.newline + inner + name + lines.written(value, container.start_byte, deeper=True)
        before = text[container.start_byte + 1 : container.end_byte - 1].rstrip()  # comments may be in it
        closed = lines.newline + lines.indent(container.start_byte) + b"}"
        return text[: container.start_byte] + b"{" + before + body + closed + text[container.end_byte :]
    last = pairs[-1]
    if last.start_point[0] == container.start_point[0]:  # all on one line
        compact = json.dumps(value, ensure_ascii=False).encode()
        return text[: last.end_byte] + b", " + name + compact + text[last.end_byte :]
    after = last.end_byte
    for comment in container.named_children:
        if comment.type == "comment" and comment.start_byte >= after and comment.start_point[0] == last.end_point[0]:
            after = comment.end_byte
    pair = lines.newline + lines.indent(last.start_byte) + name + lines.written(value, last.start_byte)
    return text[: last.end_byte] + b"," + text[last.end_byte : after] + pair + text[after:]


class _Layout:
    """How a file is laid out: its line ends and indentation."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.newline = b"\r\n" if b"\r\n" in text else b"\n"
        indented = (line for line in text.splitlines() if line[:1] in (b" ", b"\t") and line.strip())
        first = next(indented, b"")
        self.unit = first[: len(first) - len(first.lstrip())] or _UNIT.encode()

    def indent(self, position: int) -> bytes:
        """The white space that begins the line of a position."""
        start = self.text.rfind(b"\n", 0, position) + 1
        line = self.text[start:position]
        return line[: len(line) - len(line.lstrip(b" \t"))]

    def written(self, value: object, position: int, *, deeper: bool = False) -> bytes:
        """A value over several lines, as it stands where the line of `position` begins, or one level deeper."""
        indent = self.indent(position) + (self.unit if deeper else b"")
        lines = json.dumps(value, indent=self.unit.decode(), ensure_ascii=False).encode().split(b"\n")
        return (self.newline + indent).join(lines)


def _written_parts(container: Node, pair: Node) -> list[tuple[int, int]]:
    """From where to where a member and its comma are written, the last part first; comments between the two stay."""
    children = container.children
    place = next(index for index, child in enumerate(children) if child.start_byte == pair.start_byte and child.type == "pair")
    behind = next((child for child in children[place + 1 :] if child.type != "comment"), None)
    if behind is not None and behind.type == ",":
        return [(pair.start_byte, behind.end_byte)]
    before = next((child for child in reversed(children[:place]) if child.type != "comment"), None)
    if before is None or before.type != ",":
        return [(pair.start_byte, pair.end_byte)]
    if children[place - 1].type == ",":
        return [(before.start_byte, pair.end_byte)]
    return [(pair.start_byte, pair.end_byte), (before.start_byte, before.end_byte)]


def _cut(text: bytes, start: int, end: int) -> bytes:
    """The text without that part, and without the line that would be left empty."""
    line = text.rfind(b"\n", 0, start) + 1
    stop = text.find(b"\n", end)
    if stop >= 0 and not text[line:start].strip() and not text[end:stop].strip():
        return text[:line] + text[stop + 1 :]
    return text[:start] + text[end:]


SERVER_NAME: Final = "skillyard"
_LARGEST: Final = 32 * 1024 * 1024
_BACKUPS: Final = "agent-backups"


@dataclass(frozen=True, slots=True)
class McpServerEntry:
    """Our server as an agent starts or reaches it: a `command` with `environment`, or the `url` of one that runs."""

    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    url: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigurationChange(WireForm):
    """A planned change of one file: lines that go and come, and the whole text before and after, which JSON leaves out."""

    agent: str
    path: str
    status: Literal["added", "changed", "removed", "unchanged"]
    lines: tuple[str, ...] = ()
    before: bytes | None = field(default=None, metadata=wire(hidden=True))
    after: bytes = field(default=b"", metadata=wire(hidden=True))

    def write(self, data: str | os.PathLike[str]) -> Path | None:
        """Write it; the file before is kept below `data`, Skillyard's own folder. Returns where, or None without one.

        Raises:
            InvalidConfiguration: the file changed since the change was planned, or cannot be written.
        """
        if self.status == "unchanged":
            return None
        target = Path(real_path(self.path))  # a link to where somebody keeps such files stays one
        if _content(str(target)) != self.before:
            raise InvalidConfiguration(
                f"{self.path} was changed meanwhile by another program", hint="do it again", file=self.path
            )
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            kept = _backup(Path(data), self.agent, target.name, self.before) if self.before is not None else None
            mode = stat.S_IMODE(target.stat().st_mode) if self.before is not None else 0o600
            replace_file(target, self.after, mode=mode)
        except OSError as error:
            raise InvalidConfiguration(
                f"{self.path} cannot be written: {error.strerror}",
                hint="check who owns the file and its folder",
                file=self.path,
            ) from None
        return kept


def connect(
    agent: CodingAgent, server: McpServerEntry, *, project: str | None = None, name: str = SERVER_NAME
) -> ConfigurationChange:
    """The change that adds our server to an agent's configuration, for the user or for the project in that folder.

    Raises:
        InvalidInput: it is not known where that agent lists servers.
        PathRefused: a link in the project leads its file out of the project.
        InvalidConfiguration: its file cannot be understood.
    """
    place, path = _place(agent, project)
    form = place.remote if server.url else place.local
    entry = {key: _filled(value, server) for key, value in form.items()}
    named = {place.listed: name} if place.listed else {}
    return _planned(agent, place, path, name, named | {key: value for key, value in entry.items() if value != {}})


def disconnect(agent: CodingAgent, *, project: str | None = None, name: str = SERVER_NAME) -> ConfigurationChange:
    """The change that takes our server out again. Raises as `connect`."""
    place, path = _place(agent, project)
    return _planned(agent, place, path, name, None)


def connection(agent: CodingAgent, *, project: str | None = None, name: str = SERVER_NAME) -> Mapping[str, Any] | None:
    """What an agent's configuration says of our server; None when it says nothing, or cannot be understood."""
    try:
        place, path = _place(agent, project)
        value = place.entry(_values(path, _content(path) or b""), name)
    except (InvalidInput, PathRefused, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _place(agent: CodingAgent, project: str | None) -> tuple[McpServersLocation, str]:
    scope: Scope = "user" if project is None else "project"
    if agent.mcp is None or scope not in agent.mcp.files:
        hint = "add a server with the command `skillyard mcp` by the agent's own means"
        other: Scope = "project" if project is None else "user"
        if agent.mcp is not None and other in agent.mcp.files:
            hint = "use --in-project: it lists servers by project" if project is None else "without --in-project it can be done"
        whose = "for all projects" if project is None else "for one project"
        raise InvalidInput(f"it is not known where {agent.title} lists MCP servers {whose}", hint=hint)
    written = agent.mcp.files[scope]
    path = written if project is None else os.path.join(project, written)
    refuse_outside(path, project)
    return agent.mcp, path


def _filled(value: Any, server: McpServerEntry) -> Any:
    match value:
        case "{command}":
            return server.command[0]
        case "{arguments}":
            return list(server.command[1:])
        case "{whole_command}":
            return list(server.command)
        case "{environment}":
            return dict(server.environment)
        case "{url}":
            return server.url
    return value


def _planned(
    agent: CodingAgent, place: McpServersLocation, path: str, name: str, entry: dict[str, Any] | None
) -> ConfigurationChange:
    before = _content(path)
    try:
        known = place.entry(_values(path, before or b""), name)
        if known == entry:
            return ConfigurationChange(agent.name, path, "unchanged", (), before, before or b"")
        edit = _edited_toml if path.endswith(".toml") else _edited_json
        after = edit(before or b"", place, name, entry)
    except (ValueError, RecursionError) as error:
        raise InvalidConfiguration(
            f"{path} cannot be understood: {error}",
            hint=f"nothing was written; fix the file, or add the server by means of {agent.title}",
            file=path,
        ) from None
    status: Literal["added", "changed", "removed"] = "removed" if entry is None else "added" if known is None else "changed"
    return ConfigurationChange(agent.name, path, status, _difference(before or b"", after), before, after)


def _content(path: str) -> bytes | None:
    try:
        return read_limited(path, _LARGEST)
    except FileNotFoundError:
        return None
    except (OSError, FileTooLarge) as error:
        raise InvalidConfiguration(f"{path} cannot be read: {error}", hint="check the file", file=path) from None


def _values(path: str, data: bytes) -> dict[str, Any]:
    """What the file says. Raises ValueError: it cannot be understood."""
    if not path.endswith(".toml"):
        return json_value(data)
    import tomllib

    return tomllib.loads(data.decode())


def _edited_json(data: bytes, place: McpServersLocation, name: str, entry: dict[str, Any] | None) -> bytes:
    keys = [*place.key, name]
    return without_json_value(data, keys) if entry is None else with_json_value(data, keys, entry)


def _edited_toml(data: bytes, place: McpServersLocation, name: str, entry: dict[str, Any] | None) -> bytes:
    import tomllib

    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    text = data.decode()
    expected = tomllib.loads(text)
    try:
        document: Any = tomlkit.parse(text)
        for level, table, rows in ((document, lambda: tomlkit.table(is_super_table=True), tomlkit.aot), (expected, dict, list)):
            holder: Any = level
            for key in place.key[:-1] if place.listed else place.key:
                holder = holder.setdefault(key, table())
                if not isinstance(holder, dict):
                    raise ValueError(f"{key!r} in it is not a table")
            if place.listed:
                if place.key[-1] not in holder and level is document and text.strip():
                    holder.add(tomlkit.nl())
                _put_row(holder, rows(), place, name, entry)
            elif entry is None:
                del holder[name]
            else:
                holder[name] = dict(entry)
        changed = tomlkit.dumps(document).rstrip("\n") + "\n"
    except TOMLKitError as error:
        raise ValueError(str(error)) from None
    if _without_empty(tomllib.loads(changed)) != _without_empty(expected):
        raise ValueError("it is written in a way that cannot be changed safely")
    return changed.encode()


def _put_row(holder: Any, rows: Any, place: McpServersLocation, name: str, entry: dict[str, Any] | None) -> None:
    """Replace or remove the row of that name in the list of servers, or add it at the end; `rows` is a list to begin with."""
    rows = holder.setdefault(place.key[-1], rows)
    if not isinstance(rows, list):
        raise ValueError(f"{place.key[-1]!r} in it is not a list")
    at = next((at for at, row in enumerate(rows) if isinstance(row, dict) and row.get(place.listed) == name), len(rows))
    if entry is None and len(rows) == 1:
        del holder[place.key[-1]]
        return
    if at < len(rows):
        del rows[at]
    if entry is not None:
        rows.insert(at, dict(entry))


def _without_empty(values: dict[str, Any]) -> dict[str, Any]:
    """The tables without those at the top that are empty: a heading with nothing below says nothing."""
    return {key: value for key, value in values.items() if value not in ({}, [])}


def _difference(before: bytes, after: bytes) -> tuple[str, ...]:
    """The lines that go and come, without those around them: they may have secrets of other servers."""
    old, new = (data.decode("utf-8", "replace").splitlines() for data in (before, after))
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    if len(old) == len(new) == 1:
        return _difference_within(old[0], new[0])
    return tuple(line for line in difflib.ndiff(old, new) if line[:1] in "+-")


def _difference_within(old: str, new: str) -> tuple[str, ...]:
    """What goes and comes in one line, without the rest of it."""
    start = _shared(old, new)
    end = _shared(old[start:][::-1], new[start:][::-1])
    parts = (("-", old[start : len(old) - end]), ("+", new[start : len(new) - end]))
    return tuple(f"{sign} …{part}…" for sign, part in parts if part)


def _shared(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _backup(data: Path, agent: str, name: str, content: bytes) -> Path:
    folder = data / _BACKUPS
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{agent}-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}-{name}"
    replace_file(path, content)
    return path
