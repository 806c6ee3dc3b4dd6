"""Hosts: the rules of an allow-list, destinations, and the requests, responses and contacts of a run as plain data.

An entry is `host`, `*.host`, `host:port`, `http://host`, `https://host` or `[v6]:port`. A host is compared, resolved and
dialled in one canonical form: lower case, names of other scripts as their `xn--` form, one dot at the end removed, addresses
as the standard writes them. What two programs could read in two ways is refused.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, Protocol, get_args
from urllib.parse import quote

from skillyard.errors import InvalidInput
from skillyard.wire import WireForm

if TYPE_CHECKING:
    import socket

ANY_HOST: Final = "*"
"""An operator's entry for «no limit of my own»; never valid in a skill."""

Scheme = Literal["http", "https"]

_ENTRY: Final = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://)?(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{1,5}))?"
)
_PORTS: Final[dict[Scheme, int]] = {"http": 80, "https": 443}
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"0x[0-9a-f]*|[0-9]+")
_LONGEST: Final = 253
# No host holds these: they end or split a host for some parser, or look like a dot and are none.
_FORBIDDEN: Final = re.compile(
    r"[\x00-\x20\x7f-\xa0\s%@/\\?#<>^|`{}\"'*,;&=+$!()~\u00ad\u200b-\u200f\u2060\u3002\uff0e\uff61\ufeff]"
)
# Below these anyone can get a name of their own. Not the whole public suffix list: the ones that skills meet.
_REGISTRIES: Final = frozenset({"ac", "co", "com", "edu", "gob", "gov", "go", "ltd", "mil", "ne", "net", "nom", "or", "org"})
_SHARED: Final = frozenset({
    "amazonaws.com", "appspot.com", "azureedge.net", "azurewebsites.net", "blogspot.com", "cloudapp.net", "cloudfront.net",
    "deno.dev", "fly.dev",
    "firebaseapp.com", "github.io", "gitlab.io", "glitch.me", "herokuapp.com", "netlify.app", "ngrok.app", "ngrok.io",
    "ngrok-free.app", "onrender.com", "pages.dev", "r2.dev", "railway.app", "readthedocs.io", "replit.app", "run.app",
    "s3.amazonaws.com", "surge.sh", "trycloudflare.com", "vercel.app", "web.app", "windows.net", "workers.dev",
})  # fmt: skip


class MalformedHost(ValueError):
    """A text that is no host, or could be read as two different ones."""


@dataclass(frozen=True, slots=True)
class HostRule:
    """What one entry allows: a host, or with `wildcard` everything below it, on one port, with these schemes."""

    host: str
    port: int
    wildcard: bool
    schemes: frozenset[Scheme]

    def permits(self, scheme: Scheme, host: str, port: int) -> bool:
        """Whether a connection to this canonical host is allowed."""
        return port == self.port and scheme in self.schemes and self._fits(host)

    def includes(self, other: HostRule) -> bool:
        """Whether this rule allows all that the other one does."""
        if other.wildcard:
            same = self.wildcard and (other.host == self.host or other.host.endswith("." + self.host))
        else:
            same = self._fits(other.host)
        return same and other.port == self.port and other.schemes <= self.schemes

    def _fits(self, host: str) -> bool:
        return host.endswith("." + self.host) if self.wildcard else host == self.host


def canonical_host(text: str) -> str:
    """The one form of a host that is compared, resolved and dialled; IPv6 addresses are in brackets.

    Raises:
        MalformedHost: no host, or one that different programs read differently (`127.1`, `0x7f.1`, `a%00.b`).
    """
    if text.startswith("["):
        return _canonical_v6(text)
    if _FORBIDDEN.search(text):
        raise MalformedHost("has characters that no host may have")
    if text.isascii():
        name = text.lower()
    else:
        name = _ascii_form(text)
        if _is_numeric(name):
            raise MalformedHost("is an address in unusual digits")
    name = name.removesuffix(".")
    if _is_numeric(name):
        return _canonical_v4(name)
    _check_labels(name)
    return name


def _canonical_v6(text: str) -> str:
    try:
        return f"[{ipaddress.IPv6Address(text[1:-1] if text.endswith(']') and '%' not in text else '')}]"
    except ValueError:
        raise MalformedHost("is not an IPv6 address") from None


def _canonical_v4(name: str) -> str:
    try:
        return str(ipaddress.IPv4Address(name))
    except ValueError:
        raise MalformedHost("is an ambiguous address (write all four decimal numbers)") from None


def _is_numeric(name: str) -> bool:
    """Whether some resolver would read the name as a number, by the rule of the URL standard: its last label is one."""
    return bool(_NUMBER.fullmatch(name.rstrip(".").rpartition(".")[2]))


def _ascii_form(text: str) -> str:
    """A name of any script in its `xn--` form (UTS 46, strict)."""
    import idna  # only a name of another script needs its tables

    try:
        return idna.encode(text, uts46=True, std3_rules=True, transitional=False).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError):
        raise MalformedHost("is not an international domain name") from None


def _check_labels(name: str) -> None:
    labels = name.split(".")
    if len(name) > _LONGEST or not all(_LABEL.fullmatch(label) for label in labels):
        raise MalformedHost("is not a host name (labels of letters, digits and hyphens, with dots between)")
    for label in labels:
        if not label.strip("_-"):
            raise MalformedHost("has a part without letters and digits")
        if label.startswith("xn--"):
            _check_punycode(label)


def _check_punycode(label: str) -> None:
    """An `xn--` label must be the one spelling of a valid name."""
    import idna  # only such a label needs its tables

    try:
        valid = idna.encode(idna.decode(label)).decode("ascii") == label
    except (idna.IDNAError, UnicodeError):
        valid = False
    if not valid:
        raise MalformedHost("has a part that is not a valid international name")


def _read_rule(entry: str) -> HostRule:
    match = _ENTRY.fullmatch(entry)
    if not match:
        raise MalformedHost("is not a host" + _why(entry))
    scheme, text = (match["scheme"] or "").lower(), match["host"]
    if scheme and scheme not in get_args(Scheme):
        raise MalformedHost(f"has the scheme {scheme!r}; http and https can be allowed")
    if re.search(r"[/@?#]", text):
        raise MalformedHost("is not a host" + _why(entry))
    wildcard = text.startswith("*.")
    host = canonical_host(text[2:] if wildcard else text)
    if wildcard:
        _check_wildcard(host)
    schemes: frozenset[Scheme] = frozenset(name for name in get_args(Scheme) if scheme in ("", name))
    if match["port"] is None:
        # A bare host means the encrypted port alone.
        secure = scheme != "http"
        return HostRule(host, _PORTS["https" if secure else "http"], wildcard, frozenset({"https" if secure else "http"}))
    port = int(match["port"])
    if not 0 < port < 65_536:
        raise MalformedHost("has an impossible port")
    return HostRule(host, port, wildcard, schemes)


def _why(entry: str) -> str:
    if "@" in entry:
        return " (a user name cannot be allowed)"
    return " (a path cannot be enforced: name the host alone)" if "/" in entry.partition("://")[2] or "/" in entry else ""


def _check_wildcard(host: str) -> None:
    labels = host.split(".")
    if len(labels) < 2 or host.startswith("[") or _is_numeric(host):
        raise MalformedHost("covers a whole top-level domain")
    if host in _SHARED or (len(labels) == 2 and labels[0] in _REGISTRIES and len(labels[1]) == 2):
        raise MalformedHost("covers a domain below which anyone can have a name")


def host_problem(entry: str) -> str | None:
    """Why `entry` cannot be in an allow-list, or `None`."""
    try:
        _read_rule(entry)
    except MalformedHost as error:
        return f"network_allowlist entry {entry[:200]!r} {error}"
    return None


def read_rules(entries: Iterable[str]) -> tuple[HostRule, ...]:
    """The rules of an allow-list.

    Raises:
        MalformedHost: an entry cannot be enforced; `*` never can.
    """
    return tuple(_read_rule(entry) for entry in entries)


def permits(rules: Iterable[HostRule], scheme: Scheme, host: str, port: int) -> bool:
    """Whether any rule allows a connection to this canonical host."""
    return any(rule.permits(scheme, host, port) for rule in rules)


def covers(allowed: Iterable[str], entry: str) -> bool:
    """Whether an operator's list allows all that `entry` names."""
    if ANY_HOST in (rules := tuple(allowed)):
        return True
    rule_of_entry = _read_rule(entry)
    return any(rule.includes(rule_of_entry) for rule in read_rules(rules))


@dataclass(frozen=True, slots=True)
class HostSet:
    """What the entries of an allow-list permit, each rule with one scheme; `unread` are entries that name no host.

    Two lists that permit the same have equal sets: what another rule covers is left out.
    """

    rules: frozenset[HostRule]
    unread: frozenset[str] = frozenset()

    @classmethod
    def read(cls, entries: Iterable[str]) -> HostSet:
        """The set of a list, in time that grows with its length."""
        rules, unread = set(), set()
        for entry in entries:
            try:
                rule = _read_rule(entry)
            except MalformedHost:
                unread.add(entry)
            else:
                rules |= {replace(rule, schemes=frozenset({scheme})) for scheme in rule.schemes}
        return cls(frozenset(rule for rule in rules if not any(wider in rules for wider in _wider(rule))), frozenset(unread))

    def __sub__(self, other: HostSet) -> HostSet:
        """What of this the other does not permit."""
        lacking = (rule for rule in self.rules if rule not in other.rules)
        left = frozenset(rule for rule in lacking if not any(wider in other.rules for wider in _wider(rule)))
        return HostSet(left, self.unread - other.unread)

    def entries(self) -> tuple[str, ...]:
        """The shortest entries that say this, sorted."""
        schemes: dict[tuple[str, int], set[Scheme]] = {}
        for rule in self.rules:
            schemes.setdefault((f"*.{rule.host}" if rule.wildcard else rule.host, rule.port), set()).update(rule.schemes)
        return tuple(sorted({*self.unread, *(_entry(name, port, both) for (name, port), both in schemes.items())}))


def _wider(rule: HostRule) -> Iterator[HostRule]:
    """The rules with a wildcard that include a rule with one scheme, without itself."""
    labels = rule.host.split(".")
    for first in range(1, len(labels)):
        yield replace(rule, host=".".join(labels[first:]), wildcard=True)


def _entry(name: str, port: int, schemes: set[Scheme]) -> str:
    if len(schemes) > 1:
        return f"{name}:{port}"
    (scheme,) = schemes
    usual = _PORTS[scheme] == port
    return f"{'' if usual and scheme == 'https' else f'{scheme}://'}{name}{'' if usual else f':{port}'}"


_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]*\]|[^\s/?#@:\[\]\\]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<target>(?:[/?][^\s#\\\x00-\x1f\x7f]*)?)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class GuardedResponse:
    """An answer: its status, its headers (lower-case names, equal names joined by a comma) and its whole body."""

    status: int
    headers: Mapping[str, str] = field(hash=False)
    body: bytes


@dataclass(frozen=True, slots=True)
class Destination:
    """A URL taken apart, its host canonical; `target` is the path and query as they go over the wire."""

    scheme: Scheme
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """The value of the `Host` header."""
        usual = {"http": 80, "https": 443}[self.scheme]
        return self.host if self.port == usual else f"{self.host}:{self.port}"


def read_destination(url: str) -> Destination:
    """Take a URL apart.

    Raises:
        InvalidInput: it is no `http` or `https` URL, or could be read in two ways.
    """
    match = _URL.fullmatch(url)
    port = int(match["port"]) if match and match["port"] else None
    if not match or port == 0 or (port or 0) > 65_535:
        raise InvalidInput(
            f"{_shown(url)} is not a URL that can be requested",
            hint="write https:// and a host, such as https://example.com/path",
        )
    try:
        host = canonical_host(match["host"])
    except MalformedHost as error:
        raise InvalidInput(f"the host of {_shown(url)} {error}", hint="write the host's plain name") from None
    scheme: Scheme = "https" if match["scheme"].lower() == "https" else "http"
    target = quote(match["target"], safe="/?:@!$&'()*+,;=-._~%[]")
    return Destination(scheme, host, port or (443 if scheme == "https" else 80), target if target[:1] == "/" else "/" + target)


def _shown(url: str) -> str:
    """The URL without its query, which may hold secrets."""
    return repr(re.sub(r"//[^/@]*@", "//", url.partition("?")[0])[:200])


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request that passed the allow-list."""

    method: str
    destination: Destination
    headers: tuple[tuple[str, str], ...]
    body: bytes
    max_bytes: int


Verdict = Literal["allowed", "denied", "refused", "failed"]
"""`denied`: not on the list, or an address that is closed. `refused`: no proper request. `failed`: no proper answer."""


@dataclass(frozen=True, slots=True)
class Contact(WireForm):
    """Requests of one run to one host and port that ended in the same way.

    `reason` says in a few words why it was not allowed, or how it was cut. `address` is what was dialled, empty when nothing
    was. Bytes sent and received are the run's.
    """

    host: str
    port: int
    verdict: Verdict
    reason: str = ""
    address: str = ""
    requests: int = 1
    sent_bytes: int = 0
    received_bytes: int = 0


class RunProxy(Protocol):
    """What serves the one listener in a run's network: the proxy with its allow-list, or who plays the whole network."""

    @property
    def contacts(self) -> tuple[Contact, ...]:
        """The hosts that were requested so far."""

    def open(self, listener: socket.socket) -> None:
        """Start to serve a listening socket; takes ownership of it."""

    async def close(self) -> None:
        """End the listener and every connection."""
