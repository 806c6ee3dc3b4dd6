"""Logins: the keys that this machine's user has for servers of teams.

A login is the key for one server, kept in `logins.json` of Skillyard's own folder, which nobody else may read. It is sent to
the scheme, host and port that it was made for, and to no other.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from skillyard.errors import InvalidConfiguration, InvalidInput
from skillyard.files import locked, read_limited, replace_file
from skillyard.plain_json import read_json
from skillyard.wire import WireForm, wire

LOGINS_FILE: Final = "logins.json"
_LARGEST_FILE: Final = 1024 * 1024
_LONGEST_KEY: Final = 200


@dataclass(frozen=True, slots=True)
class Login(WireForm):
    """The key of this machine's user for one server; empty for a server that needs none."""

    server: str
    key: str = field(repr=False, metadata=wire(hidden=True))
    caller: str = ""
    organisation: str = ""


def server_address(text: str) -> str:
    """The address of a server as it is kept: without a slash at its end.

    Raises:
        InvalidInput: it is no http or https address.
    """
    from skillyard.network.hosts import read_destination

    destination = read_destination(text.strip())
    if "?" in destination.target or "@" in text.partition("://")[2].partition("/")[0]:
        raise InvalidInput("the address of a server has no query and no user", hint="as in https://skills.example.org")
    return f"{destination.scheme}://{destination.authority}{destination.target.rstrip('/')}"


def server_origin(address: str) -> tuple[str, str]:
    """The parts of an address that decide whether a login is for it."""
    from skillyard.network.hosts import read_destination

    destination = read_destination(address)
    return destination.scheme, destination.authority


@dataclass(frozen=True, slots=True)
class Logins:
    """The logins that are kept in the folder `home`.

    Raises, from every method:
        InvalidConfiguration: the file cannot be understood, or others may read it.
    """

    home: str

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self.home) / LOGINS_FILE

    def all(self) -> tuple[Login, ...]:
        """Every login, by server."""
        try:
            mode = self.path.stat().st_mode
            data = read_limited(self.path, _LARGEST_FILE)
        except FileNotFoundError:
            return ()
        if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
            raise InvalidConfiguration(
                f"others may read {self.path}, which has keys", hint=f"chmod 600 {self.path}, and make new keys if they did"
            )
        try:
            shape = read_json(data.decode())
            if not isinstance(shape, dict):
                raise ValueError("it is not an object")
            entries = [(server_address(server), _entry(value)) for server, value in shape.items()]
        except (ValueError, InvalidInput) as error:
            raise InvalidConfiguration(
                f"{self.path} cannot be understood: {error}", hint="delete it, and `skillyard login SERVER` again"
            ) from None
        return tuple(Login(server, *entry) for server, entry in sorted(entries))

    def find(self, address: str) -> Login | None:
        """The login for the server that an address leads to: of the same scheme, host and port."""
        if not os.path.lexists(self.path):
            return None
        origin = server_origin(address)
        return next((login for login in self.all() if server_origin(login.server) == origin), None)

    def save(self, login: Login) -> None:
        """Keep a login in place of one for the same server."""
        Path(self.home).mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self.path):
            others = [other for other in self.all() if server_origin(other.server) != server_origin(login.server)]
            self._write([*others, login])

    def remove(self, server: str) -> bool:
        """Forget the login for a server; whether there was one."""
        if self.find(server) is None:
            return False
        with locked(self.path):
            before = self.all()
            kept = [login for login in before if server_origin(login.server) != server_origin(server)]
            self._write(kept)
        return len(kept) < len(before)

    def _write(self, logins: Sequence[Login]) -> None:
        import json

        shape = {
            login.server: {"key": login.key, "caller": login.caller, "organisation": login.organisation} for login in logins
        }
        replace_file(self.path, (json.dumps(shape, indent=1, ensure_ascii=False) + "\n").encode(), mode=0o600)


def _entry(value: object) -> tuple[str, str, str]:
    fields = [value.get(name) if isinstance(value, dict) else None for name in ("key", "caller", "organisation")]
    key, caller, organisation = (one if isinstance(one, str) else None for one in fields)
    if key is None or caller is None or organisation is None:
        raise ValueError("a login is not one")
    return check_key(key), caller, organisation


def check_key(key: str) -> str:
    """The key, when it can be sent. Raises InvalidInput: it is no word; the message does not repeat it."""
    if len(key) > _LONGEST_KEY or not key.isascii() or any(not letter.isprintable() or letter.isspace() for letter in key):
        raise InvalidInput("that is not a key: a key is one word, as `sky_…`", hint="copy it whole, without blanks")
    return key
