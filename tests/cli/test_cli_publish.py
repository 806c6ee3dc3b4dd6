"""`skillyard login`, `publish` and `owners`, and what the others of the team get, against a server in a process of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import preloaded
import pytest

from skillyard.registry.logins import Logins

Call = Callable[..., Any]


class Team:
    """A server that requires keys, and people who each have a home of their own."""

    def __init__(self, address: str, place: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        self.address, self._place, self._call, self._monkeypatch = address, place, call, monkeypatch

    def key(self, name: str, *scopes: str) -> str:
        self.at("server")
        return str(self._call("keys", "create", name, "--scope", *(scopes or ("skills:read", "skills:write"))).out).strip()

    def at(self, name: str) -> None:
        """Work in somebody's home."""
        self._monkeypatch.setenv("SKILLYARD_HOME", str(self._place / name))

    def member(self, name: str, *scopes: str) -> None:
        """Make a key for somebody, and log in with it in their home."""
        file = self._place / f"{name}.key"
        file.write_text(self.key(name, *scopes) + "\n")
        self.at(name)
        assert self._call("login", self.address, "--key-file", file).code == 0


@pytest.fixture
def team(tmp_path: Path, project: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    """A server on a port of this machine."""
    for name in ("SKILLYARD_KEY", "SKILLYARD_SERVER", "SKILLYARD_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "homes"
    environment = dict(os.environ) | {"SKILLYARD_HOME": str(home / "server")}
    preloaded.run(
        [sys.executable, "-m", "skillyard", "keys", "create", "operator", "--scope", "admin"],
        env=environment, cwd=project, check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    command = [sys.executable, "-m", "skillyard", "serve", "--port", "0", "--json", "--require-keys"]
    with preloaded.Popen(command, stdout=subprocess.PIPE, text=True, cwd=project, env=environment) as process:
        assert process.stdout is not None
        found, _ = json.JSONDecoder().raw_decode(process.stdout.readline())
        yield Team(str(found["address"]), home, call, monkeypatch)
        process.send_signal(signal.SIGTERM)


def _write(folder: Path, version: str, body: str = "Do it.", header: str = "", **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    text = f"---\nname: greet\ndescription: Greets people. Use when somebody comes.\nversion: {version}\n{header}---\n"
    (folder / "SKILL.md").write_text(f"{text}{body}\n")
    for name, content in files.items():
        (folder / f"{name}.md").write_text(content)
    return folder


def test_a_team_publishes_installs_updates_and_withdraws(team: Team, call: Call, tmp_path: Path) -> None:
    skill = _write(tmp_path / "greet", "1.0.0", extra="More.\n")
    team.member("ada")
    shown = call("publish", skill, "--dry-run")
    assert shown.code == 0
    for part in ("greet 1.0.0, the first version there", "2 files", "the scanner finds nothing", "instructions only"):
        assert part in shown.out
    assert "nothing was published" in shown.err
    assert call("publish", skill).out.endswith(f"published greet 1.0.0 to {team.address}\n")
    again = call("publish", skill)
    assert (again.code, "is published there already" in again.err) == (0, True)
    team.member("bob", "skills:read")
    assert call("install", team.address, "--skill", "greet").out.startswith("installed greet")
    assert call("update", "--check").code == 0

    team.at("ada")
    _write(skill, "1.0.0", "Do it twice.")
    taken = call("publish", skill)
    assert (taken.code, "version_unusable" in taken.out) == (1, True)
    _write(skill, "1.1.0", "Do it twice.", extra="More.\nAnd more.\n")
    listed = call("publish", skill, "--json", "--notes", "Twice as good.").data
    assert (listed["published"], listed["state"], listed["current"]) == (True, "update", "1.0.0")
    assert listed["changelog"].splitlines() == ["Twice as good.", "changed SKILL.md (+2 -2)", "changed extra.md (+1)"]
    team.at("bob")
    assert call("update", "--check").code == 1
    assert "updated greet" in call("update").out

    team.at("ada")
    assert call("deprecate", "greet@1.1.0", "--message", "use hello instead", "--on").code == 0
    team.at("bob")
    assert "deprecated by its publisher: use hello instead" in call("update", "--check").err
    assert "deprecated" not in call("list").out  # a check changes nothing
    call("update")
    assert "deprecated" in call("list").out
    assert "use hello instead" in call("list").err
    assert "use hello instead" in call("show", "greet").out
    assert "use hello instead" in call("search", "greet somebody").err
    team.at("ada")
    assert call("deprecate", "greet", "--undo", "--on", team.address).code == 0
    team.at("bob")
    call("update")
    assert "deprecated" not in call("list").out


def test_what_is_withdrawn_is_installed_no_more_and_told_to_who_has_it(team: Team, call: Call, tmp_path: Path) -> None:
    team.member("ada")
    for version in ("1.0.0", "1.1.0"):
        assert call("publish", _write(tmp_path / "greet", version, f"As {version}.")).code == 0
    team.member("bob", "skills:read")
    assert call("install", team.address).code == 0
    assert call("pin", "greet").code == 0
    team.at("ada")
    assert "is yanked on" in call("yank", "greet", "1.1.0", "--reason", "it greets the wrong people", "--on").out
    team.at("bob")
    noted = call("update", "--check")
    said = r"withdrawn by its publisher: it greets the wrong people \(ada, \d{4}-\d\d-\d\d\); 1\.0\.0 takes its place"
    assert re.search(said, noted.err)
    assert "is pinned" in call("update").err  # the pin goes on holding
    assert "it greets the wrong people" in call("verify").err
    assert "As 1.1.0." in call("read", "greet").out
    call("pin", "greet", "--undo")
    assert "updated greet" in call("update").out
    assert "As 1.0.0." in call("read", "greet").out
    team.at("ada")
    assert call("yank", "greet", "--on").code == 0
    team.at("bob")
    (state,) = call("update", "--check", "--json").data["skills"]
    assert (state["state"], state["reason"]) == ("withdrawn", state["notice"])
    assert re.fullmatch(r"withdrawn by its publisher \(ada, .*\); nothing takes its place yet", state["notice"])
    assert call("update", "--check").code == 1
    assert "was withdrawn by its publisher: it greets the wrong people (ada, " in call("update", "greet").err
    team.at("cleo")
    refused = call("install", team.address, "--skill", "greet", "--json")  # nobody who is not logged in gets anything
    assert refused.code == 1
    team.member("dan", "skills:read")
    gone = call("install", team.address, "--skill", "greet")
    assert (gone.code, "was withdrawn by its publisher" in gone.err) == (1, True)


def test_after_the_only_version_was_withdrawn_a_dry_run_names_it(team: Team, call: Call, tmp_path: Path) -> None:
    team.member("ada")
    skill = _write(tmp_path / "greet", "1.0.0")
    assert call("publish", skill).code == 0
    assert call("yank", "greet", "--reason", "it is rude", "--on").code == 0
    same = call("publish", skill, "--dry-run")
    assert same.code == 1
    assert "exactly this was published before as greet 1.0.0, and was withdrawn: it is rude" in same.out
    taken = call("publish", _write(skill, "1.0.0", "Do it politely."), "--dry-run")
    assert (taken.code, "first version there" in taken.out) == (1, False)
    for part in ("greet 1.0.0, after 1.0.0, which was withdrawn: it is rude", "published before, with other content, and was"):
        assert part in taken.out
    higher = call("publish", _write(skill, "1.0.1", "Do it politely."), "--dry-run")
    assert (higher.code, "the first version after 1.0.0, which was withdrawn: it is rude" in higher.out) == (0, True)
    assert call("publish", skill).code == 0
    team.member("bob", "skills:read")
    assert call("install", f"{team.address}@1.0.1").code == 0
    old = call("install", f"{team.address}@1.0.0")
    assert (old.code, "greet 1.0.0 was withdrawn by its publisher: it is rude (ada, " in old.err) == (1, True)


def test_a_name_belongs_to_who_published_it_first(team: Team, call: Call, tmp_path: Path) -> None:
    skill = _write(tmp_path / "greet", "1.0.0")
    team.member("ada")
    assert call("publish", skill).code == 0
    assert call("owners", "greet", "--on").out == "ada\n"
    team.member("bob")
    refused = call("publish", _write(tmp_path / "greet", "2.0.0", "Mine."))
    assert (refused.code, "not_yours: the name greet belongs to ada" in refused.out) == (1, True)
    refused = call("owners", "greet", "--transfer", "bob", "--on")
    assert (refused.code, "belongs to ada" in refused.err) == (1, True)
    team.at("ada")
    assert "no key of default is called" in call("owners", "greet", "--add", "nobody", "--on").err
    assert call("owners", "greet", "--transfer", "bob", "--on").out == "bob\n"
    team.at("bob")
    assert call("publish", skill).code == 0
    team.at("server")  # the operator decides about every name
    assert call("owners", "greet").out == "bob\n"
    assert call("owners", "greet", "--add", "*", "--json").data["owners"] == ["bob", "*"]


def test_more_power_is_asked_about(team: Team, call: Call, tmp_path: Path) -> None:
    team.member("ada")
    assert call("publish", _write(tmp_path / "greet", "1.0.0")).code == 0
    wider = _write(tmp_path / "greet", "1.1.0")
    (wider / "scripts").mkdir()
    (wider / "scripts/run.py").write_text("print('hello')\n")
    refused = call("publish", wider)
    assert (refused.code, "more than 1.0.0" in refused.out, "--yes" in refused.err) == (1, True, True)
    assert call("publish", wider, "--dry-run", "--json").data["widened"]
    assert call("publish", wider, "--yes").code == 0
    team.member("bob", "skills:read")
    assert call("install", team.address, "--yes").code == 0


def test_keys_are_kept_for_their_user_alone_and_sent_to_their_server_alone(team: Team, call: Call, tmp_path: Path) -> None:
    team.member("ada")
    path = Logins(os.environ["SKILLYARD_HOME"]).path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "sky_" not in call("login", "--json").out
    path.chmod(0o644)
    assert "chmod 600" in call("login").err
    path.chmod(0o600)
    other = team.address.rpartition(":")[0] + ":1"
    assert Logins(os.environ["SKILLYARD_HOME"]).find(f"{other}/mirror") is None
    assert call("logout", other).code == 1
    assert call("logout", team.address).code == 0
    answer = call("publish", _write(tmp_path / "greet", "1.0.0"))
    assert (answer.code, "`skillyard login SERVER`" in answer.err) == (2, True)


def test_wrong_keys_and_missing_scopes_are_reported(
    team: Team, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skill = _write(tmp_path / "greet", "1.0.0")
    team.member("reader", "skills:read")
    assert "this needs the scope skills:write" in call("publish", skill).err
    team.at("nobody")
    monkeypatch.setenv("SKILLYARD_KEY", "sky_wrong")
    for words in (("login", team.address), ("publish", skill, "--to", team.address)):
        answer = call(*words)
        assert (answer.code, "unknown, expired or revoked" in answer.err) == (1, True)
    monkeypatch.setenv("SKILLYARD_KEY", "two words")
    assert "that is not a key" in call("login", team.address).err
    monkeypatch.delenv("SKILLYARD_KEY")
    assert "skillyard login" in call("publish", skill, "--to", team.address).err
    assert "without encryption" in call("publish", skill, "--to", "http://10.0.0.9", "--key-file", _key(tmp_path)).err


def _key(folder: Path) -> Path:
    (folder / "key").write_text("sky_0000")
    return folder / "key"


def test_a_skill_that_no_install_would_take_is_not_sent(team: Team, call: Call, tmp_path: Path) -> None:
    team.member("ada")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "SKILL.md").write_text("---\nname: broken\n---\nNo description.\n")
    assert call("publish", broken).code == 1
    unnumbered = tmp_path / "greet"
    unnumbered.mkdir()
    (unnumbered / "SKILL.md").write_text("---\nname: greet\ndescription: Greets people. Use when asked.\n---\nDo it.\n")
    assert "has no version" in call("publish", unnumbered).err
    assert "is not a semantic version" in call("publish", unnumbered, "--as", "new").err
    assert call("publish", unnumbered, "--as", "1.0.0").code == 0
    assert "says version 2.0.0" in call("publish", _write(unnumbered, "2.0.0"), "--as", "3.0.0").err
    team.member("bob", "skills:read")
    call("install", team.address)
    assert call("versions", "--json").data["skills"][0]["skillId"] == "greet"


PAGE = Path(__file__).parents[2] / "docs/team-registry.md"
_BLOCK = re.compile(r"^```console recipe (\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.xdist_group("team registry page")
def test_the_page_about_a_registry_for_a_team_tells_what_happens(team: Team, call: Call, project: Path) -> None:
    """Its blocks in their order, each in the home of the person it names; the server is running already."""
    done = 0
    for who, text in _BLOCK.findall(PAGE.read_text("utf-8")):
        team.at(who)
        for session in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, shown = session.partition("\n")
            if command == "skillyard serve --require-keys":
                continue
            printed = _printed(call, command.replace("http://127.0.0.1:8787", team.address), project)
            pieces = [
                re.escape(" ".join(piece.split()))
                for piece in shown.replace("http://127.0.0.1:8787", team.address).split("...")
            ]
            assert re.fullmatch(rf"\s*{'.*'.join(pieces)}\s*", " ".join(printed.split()), re.DOTALL), f"{command}\n{printed}"
            done += 1
    assert done == 21


def _printed(call: Call, line: str, project: Path) -> str:
    """What a line prints beside what it writes into a file."""
    command, append, file = line.partition(" >> ")
    if append:
        with (project / file).open("a") as stream:
            stream.write(shlex.split(command)[1] + "\n")
        return ""
    command, redirected, file = line.partition(" > ")
    answer = call(*shlex.split(command)[1:])
    if redirected:
        (project / file).write_text(answer.out)
    return str(("" if redirected else answer.out) + answer.err)


def test_everything_that_is_installed_goes_to_a_server_that_takes_it(team: Team, call: Call, tmp_path: Path) -> None:
    team.member("ada")
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "SKILL.md").write_text("---\nname: plain\ndescription: Is plain. Use when asked.\nversion: first\n---\nDo it.\n")
    for folder in (_write(tmp_path / "greet", "1.0.0"), plain):
        assert call("install", folder).code == 0
    checked = call("mirror", "export", team.address, "--check")
    assert (checked.code, checked.out.splitlines()) == (1, ["would publish greet", "would publish plain"])
    assert call("mirror", "export", team.address).out.splitlines() == ["published greet", "published plain"]
    again = call("mirror", "export", team.address)
    assert (again.code, "the server has everything already" in again.out) == (0, True)
    team.member("bob")
    call("install", _write(tmp_path / "greet", "1.1.0", "Mine."))
    refused = call("mirror", "export", team.address)
    assert (refused.code, refused.out) == (1, "refused greet: the name greet belongs to ada\n")


class _Odd(BaseHTTPRequestHandler):
    """A server that answers what no Skillyard server does."""

    answers: ClassVar[dict[str, tuple[int, bytes]]] = {}

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, body = next((answer for part, answer in self.answers.items() if part in self.path), (200, b"<html>"))
        if status == 0:
            self.connection.close()
            return
        self.send_response(status)
        self.send_header("Location", "https://elsewhere.example/")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("status", "body", "reported"),
    [
        (200, b"<html>welcome</html>", "does not answer as a Skillyard server does"),
        (200, b'{"data": [{"skill_id": 7}]}', "does not answer as a Skillyard server does"),
        (200, b'{"data": {"results": []}}', "does not answer as a Skillyard server does"),
        (200, b"[" * 100_000, "does not answer as a Skillyard server does"),
        (500, b"oops", "does not answer as a Skillyard server does (status 500)"),
        (302, b"", "leads elsewhere"),
        (413, b"", "takes nothing so large"),
        (403, b'{"code": "not_yours", "detail": "it is\\u001b hers"}', "it is hers"),
        (0, b"", "127.0.0.1"),
    ],
)
def test_a_server_that_answers_anything_is_no_traceback(
    call: Call, tmp_path: Path, status: int, body: bytes, reported: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(_Odd, "answers", {"": (status, body)})
    with ThreadingHTTPServer(("127.0.0.1", 0), _Odd) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}"
            answer = call("publish", _write(tmp_path / "greet", "1.0.0"), "--to", address)
        finally:
            server.shutdown()
            thread.join()
    assert answer.code == 1
    assert reported in answer.err
    assert "\x1b" not in answer.err


def test_a_server_that_is_not_there_is_reported(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLYARD_HOME", str(tmp_path / "home"))
    answer = call("publish", _write(tmp_path / "greet", "1.0.0"), "--to", "http://127.0.0.1:1", "--json")
    assert (answer.code, answer.data["error"]["code"]) == (1, "network_failed")
    assert call("publish", tmp_path / "greet", "--to", "ftp://x").code in (1, 2)


def test_a_version_waits_for_somebody_else_to_approve_it(request: pytest.FixtureRequest, call: Call, tmp_path: Path) -> None:
    from skillyard.catalog.configuration import configuration_directory

    settings = Path(configuration_directory(os.environ))
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "skillyard.toml").write_text('[packages.approval]\nsources = ["upload"]\nsecond-person = ["*"]\n')
    team: Team = request.getfixturevalue("team")
    skill = _write(tmp_path / "greet", "1.0.0")
    team.member("ada", "skills:read", "skills:write", "skills:approve")
    waits = call("publish", skill)
    assert (waits.code, waits.out.splitlines()[-1]) == (0, f"greet 1.0.0 is at {team.address} and waits for approval")
    own = call("approve", "greet", "1.0.0", "--on")
    assert (own.code, "a second person approves every version" in own.err) == (1, True)
    team.member("bob", "skills:read")
    assert call("install", team.address, "--skill", "greet").code == 1
    team.member("carol", "skills:read", "skills:approve")
    listed = call("approve", "--on")
    assert "greet" in listed.out and "(1.0.0), by ada since" in listed.out
    assert call("approve", "greet@1.0.0", "--on").out == f"greet 1.0.0 is approved on {team.address}\n"
    assert call("approve", "--on", "--json").data["waiting"] == []
    team.at("bob")
    assert call("install", team.address, "--skill", "greet").out.startswith("waiting greet")  # his own settings ask him too


def test_a_server_is_searched_and_installed_from_by_its_ard_catalog(team: Team, call: Call, tmp_path: Path) -> None:
    team.member("ada")
    assert call("publish", _write(tmp_path / "greet", "1.0.0")).code == 0
    team.member("bob", "skills:read")
    found = call("search", "greets people", "--at", team.address, "--json").data["matches"]
    assert [(one["name"], one["version"]) for one in found] == [("greet", "1.0.0")]
    assert "greet" in call("search", "greets people", "--at", team.address).out
    assert call("search", "greets people", "--at", team.address, "--tag", "x").code == 2
    catalog = f"{team.address}/.well-known/ai-catalog.json"
    assert call("install", catalog, "--skill", "greet").out.startswith("installed greet")
    team.at("nobody")  # whose home has no login
    refused = call("install", catalog)
    assert (refused.code, "private-hosts" in refused.err) == (1, True), refused.err
