"""The skills a client may see, each at its address `skill://<name>/<path>` (SEP-2640), lists of them, and notices of changes.

A skill whose name another skill also has gets its source in front, `skill://user/pdf/SKILL.md`: the last segment before the
file stays the skill's name, as the extension wants it. Clients of both generations of the protocol are notified of changes.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args
from urllib.parse import quote, unquote

import anyio
from mcp import types
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from skillyard.document import NAME_LIMIT, is_name
from skillyard.errors import FileMissing, InvalidInput, PathRefused
from skillyard.paths import safe_relative
from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession

    from skillyard.catalog import FileContent, Skill


SCHEME: Final = "skill://"
MAIN_FILE: Final = "SKILL.md"
INDEX_URI: Final = "skill://index.json"


def skill_uri(skill_path: Sequence[str], file: str = "") -> str:
    """The address of `file` in the skill at `skill_path`; without a file that of the skill's folder."""
    parts = [*skill_path, *(part for part in file.split("/") if part)]
    return SCHEME + "/".join(quote(part, safe="-._~!$&'()*+,;=:@") for part in parts)


def uri_segments(uri: str) -> tuple[str, ...]:
    """The decoded segments of an address.

    Raises:
        FileMissing: not a `skill://` address.
        PathRefused: the address climbs, or hides a slash or a second encoding.
    """
    if not uri.startswith(SCHEME):
        raise FileMissing(f"{uri!r} is not an address of a skill", hint="addresses look like skill://<name>/SKILL.md")
    parts = [unquote(part, errors="strict") for part in _split(uri.removeprefix(SCHEME).removesuffix("/"))]
    if any("/" in part for part in parts):
        raise PathRefused(f"{uri!r} hides a slash in a segment", hint="write the path with plain slashes")
    return tuple(safe_relative("/".join(parts)).split("/"))


def _split(path: str) -> list[str]:
    try:
        path.encode("utf-8")
        unquote(path, errors="strict")
    except UnicodeError:
        raise PathRefused("the address is not UTF-8", hint="encode it as UTF-8, then percent-encode it") from None
    return path.split("/")


FILE_LIMIT: Final = 16 * 1024 * 1024
FILE_NAME_LIMIT: Final = 200
"""Characters of the name that a list gives to a file; its address has all of it."""
_TITLE: Final = 100


@dataclass(frozen=True, slots=True)
class PublishedSkill:
    """One skill, the segments of its address, and the address of its SKILL.md."""

    path: tuple[str, ...]
    skill: Skill
    uri: str

    @property
    def title(self) -> str:
        """What the skill is called on a screen, on one line of at most 100 characters."""
        return shorten(single_line(self.skill.display_name or self.skill.name), _TITLE)

    def address(self, file: str = "") -> str:
        """The address of one of its files, or of its folder."""
        return skill_uri(self.path, file)

    def files(self) -> tuple[str, ...]:
        """Its files by the path they are published at, SKILL.md first; an address can only name what is UTF-8."""
        names = (file.name for file in self.skill.files())
        return MAIN_FILE, *(name for name in names if _is_utf8(name))

    def read(self, file: str) -> FileContent:
        """One of its files, at most 16 MiB.

        Raises:
            FileProblem: there is no such file, or it may not be read.
        """
        real = self.skill.path.rpartition("/")[2] if file == MAIN_FILE else file
        return self.skill.read_file(real, limit=FILE_LIMIT)


class PublishedSkills:
    """The offered skills of a catalog, sorted by address."""

    def __init__(self, skills: tuple[Skill, ...]) -> None:
        self.skills = skills
        published = sorted(_published(skills), key=lambda each: each.uri)
        self._by_path = {each.path: each for each in published}

    def __iter__(self) -> Iterator[PublishedSkill]:
        return iter(self._by_path.values())

    def main(self, uri: str) -> PublishedSkill:
        """The skill whose SKILL.md has this address.

        Raises:
            FileMissing: no skill is published there.
        """
        published, file = self.locate(uri)
        if file != MAIN_FILE:
            raise FileMissing(f"{uri!r} is not the address of a skill", hint="a skill's address ends in /SKILL.md")
        return published

    def locate(self, uri: str) -> tuple[PublishedSkill, str]:
        """The skill an address leads to, and the path of the file or folder in it (empty for the skill's own folder).

        Raises:
            FileProblem: no skill is published there, or the address is unsafe.
        """
        parts = uri_segments(uri)
        for length in (2, 1):  # a skill with its source in front comes first
            if published := self._by_path.get(parts[:length]):
                return published, "/".join(parts[length:])
        raise FileMissing(f"no skill is published at {uri!r}", hint="list the skills to see their addresses")

    def children(self, uri: str) -> list[tuple[str, bool]]:
        """Address and whether it is a folder, of everything directly in the folder `uri`.

        Raises:
            FileMissing: it is not a folder of a published skill.
        """
        published, folder = self.locate(uri)
        prefix = f"{folder}/" if folder else ""
        below = [name.removeprefix(prefix) for name in published.files() if name.startswith(prefix)]
        if not below:
            raise FileMissing(f"{uri!r} is not a folder of a skill", hint="read a file with resources/read")
        names = {name.split("/", 1)[0]: "/" in name for name in below}
        return sorted((published.address(prefix + name), is_folder) for name, is_folder in names.items())


def _published(skills: tuple[Skill, ...]) -> Iterator[PublishedSkill]:
    names = [(_published_name(skill), skill) for skill in skills]
    count = Counter(name for name, _ in names)
    taken: set[tuple[str, ...]] = set()
    for name, skill in names:
        path = (name,) if count[name] == 1 else (skill.source, name)
        number = 2
        while path in taken:  # two of one source: only when both names were cut or folded to the same
            path = (*path[:-1], f"{name[:58]}-{number}")
            number += 1
        taken.add(path)
        yield PublishedSkill(path, skill, skill_uri(path, MAIN_FILE))


def _published_name(skill: Skill) -> str:
    """The name itself where the specification allows it, else its slug, cut to 64 characters."""
    return skill.name if is_name(skill.name) else skill.slug[:NAME_LIMIT].rstrip("-")


def _is_utf8(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


_Item = TypeVar("_Item")


def cut_page(
    items: Iterable[_Item], cursor: str | None, *, size: int, key: Callable[[_Item], str]
) -> tuple[list[_Item], str | None]:
    """At most `size` of the items that come after `cursor`, and the cursor of the next page if there is one.

    The items are in the order of `key`.

    Raises:
        InvalidInput: the cursor was not given out here.
    """
    after = _decode(cursor) if cursor is not None else ""
    page = list(islice((item for item in items if key(item) > after), size + 1))
    return page[:size], _encode(key(page[size - 1])) if len(page) > size else None


def _encode(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def _decode(cursor: str) -> str:
    try:
        return base64.b64decode(cursor.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        raise InvalidInput("that cursor is not one of this server's", hint="start again without a cursor") from None


_KEPT: Final = 4096  # connections of older clients; the least recently used is forgotten first
_WATCHED: Final = 1000  # addresses that one connection may subscribe to
_LONGEST: Final = 2000
_DISCONNECTED: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError)
_LEVELS: Final[tuple[str, ...]] = get_args(types.LoggingLevel)
"""From the least to the gravest, as the protocol lists them."""


@dataclass(slots=True)
class _LegacyConnection:
    """The connection of a client that cannot listen: the addresses it watches, and from which level on it wants messages."""

    session: ServerSession
    watched: set[str] = field(default_factory=set)
    level: types.LoggingLevel | None = None

    def wants(self, level: types.LoggingLevel) -> bool:
        return self.level is not None and _LEVELS.index(level) >= _LEVELS.index(self.level)


class ChangeAnnouncer:
    """Publishes to clients that listen (2026-07-28 and later), and notifies the connections of older ones."""

    def __init__(self, announced: tuple[Skill, ...] = ()) -> None:
        self.bus = InMemorySubscriptionBus()
        self._announced = announced
        self._older: OrderedDict[str, _LegacyConnection] = OrderedDict()

    def remember_connection(self, context: ServerRequestContext[Any, Any]) -> None:
        """Remember the connection of a client that cannot listen, so that it can be notified."""
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._connection(context)

    def subscribe(self, context: ServerRequestContext[Any, Any], uri: str) -> None:
        """Notify this client when what is at an address changes; the skill there need not exist yet.

        Raises:
            InvalidInput: it watches too many already, or that is no address.
        """
        if len(uri) > _LONGEST:
            raise InvalidInput(f"an address has at most {_LONGEST} characters", hint="list the resources to see theirs")
        watched = self._connection(context).watched
        if len(watched) >= _WATCHED and uri not in watched:
            raise InvalidInput(f"a client may watch {_WATCHED} addresses", hint="unsubscribe from some")
        watched.add(uri)

    def unsubscribe(self, context: ServerRequestContext[Any, Any], uri: str) -> None:
        """Stop notifying this client of that address."""
        self._connection(context).watched.discard(uri)

    def set_level(self, context: ServerRequestContext[Any, Any], level: types.LoggingLevel) -> None:
        """Send this client messages of that level and graver ones; clients that never set a level get none."""
        self._connection(context).level = level

    async def announce_changes(self, offered: tuple[Skill, ...]) -> None:
        """Announce what is different since the last time, whoever scanned the folders; else do nothing."""
        before, self._announced = self._announced, offered
        if before is offered or before == offered:
            return
        earlier, now = {skill.id: skill for skill in before}, {skill.id: skill for skill in offered}
        changed = [one for one in PublishedSkills(offered) if earlier.get(one.skill.id, one.skill) != one.skill]
        for event in (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()):
            await self.bus.publish(event)
        for published in changed:
            await self.bus.publish(ResourceUpdated(uri=published.uri))
        other = {skill_id for skill_id in earlier.keys() | now.keys() if earlier.get(skill_id) != now.get(skill_id)}
        both = (*PublishedSkills(before), *PublishedSkills(offered))
        await self._notify({one.address() for one in both if one.skill.id in other})
        await self.log("info", {"changed": sorted(other)})

    async def log(self, level: types.LoggingLevel, data: object) -> None:
        """Send a message to the older clients that set such a level."""
        params = types.LoggingMessageNotificationParams(level=level, logger="skillyard", data=data)
        for name, older in list(self._older.items()):
            if older.wants(level):
                with self._forgotten(name):
                    await older.session.send_notification(types.LoggingMessageNotification(params=params))

    async def _notify(self, folders: set[str]) -> None:
        """Notify older clients that the lists changed, and of each address they watch below these folders of skills."""
        for name, older in list(self._older.items()):
            with self._forgotten(name):
                await older.session.send_tool_list_changed()
                await older.session.send_prompt_list_changed()
                await older.session.send_resource_list_changed()
                for uri in sorted(older.watched):
                    if any(uri.startswith(f"{folder}/") for folder in folders):
                        await older.session.send_resource_updated(uri)

    def _connection(self, context: ServerRequestContext[Any, Any]) -> _LegacyConnection:
        """The connection of an older client.

        One over HTTP is identified by its session; the one of standard input and output has none.
        """
        headers = getattr(context.request, "headers", {})
        name = headers.get("mcp-session-id", "")
        older = self._older.setdefault(name, _LegacyConnection(context.session))
        older.session = context.session
        self._older.move_to_end(name)
        while len(self._older) > _KEPT:
            self._older.popitem(last=False)
        return older

    @contextlib.contextmanager
    def _forgotten(self, name: str) -> Iterator[None]:
        """Forget a connection whose session has ended."""
        try:
            yield
        except _DISCONNECTED:
            self._older.pop(name, None)
