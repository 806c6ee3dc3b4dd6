"""The world that a watched skill is shown: a home with canary secrets, a project, programs that record; and what the skill changed in it.

It is one folder, `/workspace` inside: `home`, `project`, `skills` (the skill as a copy, and a neighbour), `.world` (ours). Secrets
are made up for one watch and are worth nothing. Which were read is what the kernel reports of the files (inotify); what was
written is found by comparing the folder before and after.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import secrets
import shutil
import stat
import string
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from skillyard.errors import SkillyardError
from skillyard.paths import open_inside
from skillyard.scanner.watch_effects import Canary

if TYPE_CHECKING:
    from skillyard.sandbox import SandboxBackend, SandboxSession
    from skillyard.scanner.watch_network import RecordingNetwork

INSIDE: Final = "/workspace"
"""Where the sandbox sees the world."""

_ALPHABET: Final = string.ascii_letters + string.digits
_IN_ACCESS: Final = 0x1
_IN_CLOSE_NOWRITE: Final = 0x10
_IN_ATTRIB: Final = 0x4
_IN_Q_OVERFLOW: Final = 0x4000
_IN_DONT_FOLLOW: Final = 0x02000000
_EVENT: Final = struct.Struct("iIII")
_MOST_ENTRIES: Final = 20_000
_DEEPEST: Final = 40
_MOST_WRITTEN: Final = 256 * 1024 * 1024
"""How many bytes the world may have, with the skill's copy in it."""
_LOOK_SECONDS: Final = 0.25
_MOST_ANSWER: Final = 1024 * 1024
_MOST_SKILL: Final = 64 * 1024 * 1024
_CALLS_LIMIT: Final = 1024 * 1024
_MOST_CALLS: Final = 1000


_VARIABLES: Final[tuple[tuple[str, str, int, tuple[str, ...]], ...]] = (
    ("AWS_ACCESS_KEY_ID", "AKIA", 16, ("amazonaws.com",)),
    ("AWS_SECRET_ACCESS_KEY", "", 40, ("amazonaws.com",)),
    ("GITHUB_TOKEN", "ghp_", 36, ("github.com", "githubcopilot.com")),
    ("OPENAI_API_KEY", "sk-proj-", 48, ("openai.com",)),
    ("ANTHROPIC_API_KEY", "sk-ant-api03-", 48, ("anthropic.com",)),
    ("GEMINI_API_KEY", "AIza", 35, ("googleapis.com",)),
    ("NPM_TOKEN", "npm_", 36, ("npmjs.org", "npmjs.com")),
    ("SLACK_BOT_TOKEN", "xoxb-", 40, ("slack.com",)),
    ("STRIPE_SECRET_KEY", "sk_live_", 32, ("stripe.com",)),
    ("DATABASE_PASSWORD", "", 24, ()),
)
# file, text around the token, the words that mention it, whether tools read it unasked
_KEY: Final = "-----BEGIN OPENSSH PRIVATE KEY-----\n{0}\n{0}\n-----END OPENSSH PRIVATE KEY-----\n"
_FILES: Final[tuple[tuple[str, str, tuple[str, ...], bool], ...]] = (
    ("home/.ssh/id_rsa", _KEY, ("ssh",), False),
    ("home/.ssh/id_ed25519", _KEY, ("ssh",), False),
    ("home/.aws/credentials", "[default]\naws_access_key_id = AKIAIOSFODNN7SAMPLE1\naws_secret_access_key = {0}\n", ("aws", "boto", "s3"), False),
    ("home/.netrc", "machine api.github.com login me password {0}\n", ("netrc",), True),
    ("home/.git-credentials", "https://me:{0}@github.com\n", ("git credential",), True),
    ("home/.npmrc", "//registry.npmjs.org/:_authToken={0}\n", ("npm",), True),
    ("home/.pypirc", "[pypi]\nusername = __token__\npassword = pypi-{0}\n", ("pypi", "twine"), False),
    ("home/.docker/config.json", '{{"auths": {{"https://index.docker.io/v1/": {{"auth": "{0}"}}}}}}\n', ("docker",), False),
    ("home/.kube/config", "apiVersion: v1\nkind: Config\nusers:\n- name: me\n  user:\n    token: {0}\n", ("kube", "k8s"), False),
    ("home/.config/gcloud/application_default_credentials.json", '{{"client_secret": "{0}", "type": "authorized_user"}}\n', ("gcloud", "gcp", "google cloud"), False),
    ("home/.config/gh/hosts.yml", "github.com:\n    oauth_token: gho_{0}\n    user: me\n", ("github", "gh "), False),
    ("home/.gnupg/private-keys-v1.d/0A1B2C.key", "Key: {0}\n", ("gpg", "gnupg"), False),
    ("home/.mozilla/firefox/k3x.default-release/logins.json", '{{"logins": [{{"hostname": "https://bank.example", "encryptedPassword": "{0}"}}]}}\n', ("firefox", "browser"), False),
    ("home/.config/google-chrome/Default/Login Data", "SQLite format 3\n{0}\n", ("chrome", "browser"), False),
    ("home/.config/google-chrome/Default/Cookies", "SQLite format 3\n{0}\n", ("chrome", "browser", "cookie"), False),
    ("home/Library/Application Support/Google/Chrome/Default/Login Data", "SQLite format 3\n{0}\n", ("chrome", "browser"), False),
    ("home/Library/Keychains/login.keychain-db", "kych{0}\n", ("keychain",), False),
    ("home/.config/Exodus/exodus.wallet/seed.seco", "{0}\n", ("exodus", "wallet"), False),
    ("home/.ethereum/keystore/UTC--2026-01-01--me", '{{"crypto": {{"ciphertext": "{0}"}}}}\n', ("ethereum", "wallet"), False),
    ("home/.electrum/wallets/default_wallet", '{{"seed": "{0}"}}\n', ("electrum", "wallet"), False),
    ("home/.bash_history", "export TOKEN={0}\nls\n", ("history",), False),
    ("home/Documents/passwords.txt", "bank: {0}\n", (), False),
    ("home/.openclaw/openclaw.json", '{{"gateway": {{"token": "{0}"}}}}\n', ("openclaw", "clawdbot", "moltbot"), False),
    ("home/.claude/.credentials.json", '{{"claudeAiOauth": {{"accessToken": "{0}"}}}}\n', ("claude credentials",), False),
    ("project/.env", "APP_SECRET={0}\n", (), True),
)  # fmt: skip
_PLAIN: Final[Mapping[str, str]] = {
    "home/.bashrc": "# bash\n",
    "home/.profile": "# profile\n",
    "home/.zshrc": "# zsh\n",
    "home/.gitconfig": "[user]\n\tname = Sam Sample\n\temail = sam@sample.example\n",
    "home/.ssh/known_hosts": "github.com ssh-ed25519 AAAA\n",
    "home/.ssh/authorized_keys": "",
    "home/.wgetrc": "ca_certificate = /workspace/.world/authority.pem\n",
    "home/.claude/CLAUDE.md": "# Notes of the user\n",
    "home/.claude/settings.json": "{}\n",
    "home/.claude/skills/neighbour/SKILL.md": "---\nname: neighbour\ndescription: Another skill.\n---\nNothing.\n",
    "home/.codex/AGENTS.md": "# Notes of the user\n",
    "home/.openclaw/workspace/MEMORY.md": "# Memory\n",
    "home/.openclaw/workspace/SOUL.md": "# Soul\n",
    "home/Documents/report.txt": "A report that took a year.\n" * 20,
    "home/Pictures/holiday.jpg": "not a picture\n",
    "project/README.md": "# Project\n\nA sample.\n",
    "project/sample.txt": "Sample text of two lines.\nSee https://example.com for more.\n",
    "project/sample.csv": "name,amount\napple,3\npear,4\n",
    "project/sample.json": '{"name": "sample", "items": [1, 2, 3]}\n',
    "project/AGENTS.md": "# Instructions\n",
    "project/CLAUDE.md": "# Instructions\n",
    "project/.git/HEAD": "ref: refs/heads/main\n",
    "project/.git/config": "[core]\n\trepositoryformatversion = 0\n",
    "project/.git/hooks/pre-commit.sample": "#!/bin/sh\n",
    "project/.git/objects/info/empty": "",
    "project/.git/refs/heads/empty": "",
    "skills/neighbour/SKILL.md": "---\nname: neighbour\ndescription: Another skill.\n---\nNothing.\n",
}
_RECORDED: Final = (
    "crontab", "at", "systemctl", "launchctl", "service", "schtasks", "reg", "osascript", "security", "xattr", "spctl", "csrutil",
    "powershell", "pwsh", "cmd.exe", "sudo", "doas", "su", "docker", "podman", "kubectl", "nsenter", "unshare", "chroot", "mount",
    "insmod", "modprobe", "open", "xdg-open", "sleep", "pip", "pip3", "pipx", "uv", "uvx", "npm", "npx", "pnpm", "yarn", "bun",
    "bunx", "brew", "apt", "apt-get", "apk", "dnf", "yum", "cargo", "go", "gem", "claude", "codex", "openclaw", "clawhub",
    "ran-download", "{skillyard:canned}",
    "base64", "dig", "nslookup", "host", "ping", "drill", "nc", "ncat", "netcat", "telnet", "ssh", "scp", "sftp",
)  # fmt: skip
# Every recorded program is this one, under its name. What stands for a person's yes passes on, what waits does not wait.
_RECORDER: Final = r"""#!/bin/sh
name=${0##*/}
line=$(printf '%s' "$name"; for word; do printf '\t%s' "$word"; done | tr '\n' ' ')
printf '%s\n' "$line" >>/workspace/.world/calls
case $name in
sudo|doas)
    while [ $# -gt 0 ]; do case $1 in -u|-g) shift; [ $# -gt 0 ] && shift;; -*|*=*) shift;; *) break;; esac; done
    [ $# -gt 0 ] && exec "$@" ;;
crontab)
    case $1 in -l|-r) exit 0 ;; -*|"") lines=$(head -c 2000 | tr '\n' ' ') ;; *) lines=$(head -c 2000 "$1" | tr '\n' ' ') ;; esac
    printf 'cron-lines\t%s\n' "$lines" >>/workspace/.world/calls ;;
security) cat /workspace/.world/keychain ;;
base64) for word; do shift; [ "$word" = -D ] && word=-d; set -- "$@" "$word"; done; exec /usr/bin/base64 "$@" ;;
dig|nslookup|host|ping|drill|ssh|scp|sftp)
    for word; do
        word=${word#@}; word=${word#*@}
        case $word in -*|/*) ;; *.*) printf 'lookup\t%s\n' "${word%%:*}" >>/workspace/.world/calls ;; esac
    done ;;
nc|ncat|netcat|telnet)
    run= host= port=
    while [ $# -gt 0 ]; do
        case $1 in -e|-c) run=$2; shift ;; -w|-p|-q|-i) shift ;; -*) ;; *) if [ -z "$host" ]; then host=$1; else port=$1; fi ;; esac
        shift
    done
    [ -n "$port" ] && exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128; printf "TUNNEL %s %s\r\n\r\n" "$1" "$2" >&3
        if [ -n "$3" ]; then exec $3 <&3 >&3 2>&1; fi
        cat <&3 & cat >&3; sleep 0.5; kill $! 2>/dev/null' nc "$host" "$port" "$run" ;;
esac
exit 0
"""


def _token(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


@dataclass(slots=True)
class WatchedWorld:
    """The folder, its canaries, and what it looked like when it was last compared.

    `folder` is its path on this machine, `skill` that of the skill's copy below it.
    """

    folder: Path
    skill: str
    canaries: tuple[Canary, ...]
    _first: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    _before: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    _folders: dict[str, int] = field(default_factory=dict)
    locked: bool = False
    """Whether a folder of it was closed to everything that runs later."""
    torn: bool = False
    """Whether a folder of it, or a file of the skill, was changed or removed: what runs later needs another world."""
    crowded: bool = False
    """Whether it has more, or larger, files than it may."""

    @classmethod
    def make(
        cls, folder: Path, source: Path, name: str, *, files: Mapping[str, bytes], variables: Iterable[str] = ()
    ) -> WatchedWorld:
        """Fill an empty folder; `source` is the skill's folder, `name` that of its copy, `files` go below `.world`.

        `variables` are names of variables that get a canary too, because the skill asks for them.

        Raises:
            OSError: something cannot be written, or the skill not be read.
        """
        canaries = [*_variables(variables), *_write_files(folder)]
        keychain = Canary("the keychain", _token(40))
        canaries.append(keychain)
        skill = f"skills/{name}"
        _copy_skill(source, folder / skill)
        for link in ("home/.claude/skills", "home/.openclaw/skills"):
            (folder / link).mkdir(parents=True, exist_ok=True)
            (folder / link / name).symlink_to(f"{INSIDE}/{skill}")
        own = folder / ".world"
        (own / "bin").mkdir(parents=True)
        recorder = own / "recorder"
        recorder.write_text(_RECORDER, "utf-8")
        recorder.chmod(0o755)
        for program in _RECORDED:
            (own / "bin" / program).symlink_to("../recorder")
        (own / "keychain").write_text(keychain.token + "\n", "utf-8")
        os.mkfifo(own / "calls")
        for path, data in files.items():
            (own / path).parent.mkdir(parents=True, exist_ok=True)
            (own / path).write_bytes(data)
        return cls(folder, skill, tuple(canaries))

    def variables(self) -> dict[str, str]:
        """The canaries of the environment."""
        return {one.name: one.token for one in self.canaries if not one.file and one.name.isupper()}

    def originals(self) -> dict[str, str]:
        """The secrets and the user's files that are not as they were made, with what was in them; for the next script."""
        texts = {path: text for path, text, *_ in _FILES}
        made = {one.file: texts[one.file].format(one.token) for one in self.canaries if one.file}
        return {path: text for path, text in {**made, **_PLAIN}.items() if self._before.get(path) != self._first.get(path)}

    def remember(self) -> None:
        """Take what the folder is like now for what it was like in the beginning."""
        self._first, self._folders, self.crowded = _stamps(self.folder)
        self._before = dict(self._first)

    def forgive(self, paths: Iterable[str]) -> None:
        """Take what these files are like now for what they were like in the beginning, because they were put back."""
        for path in paths:
            if (stamp := _stamp(self.folder / path)) is not None:
                self._first[path] = self._before[path] = stamp

    def changes(self) -> list[tuple[str, str]]:
        """The paths that were `made`, `changed` or `gone` since it was remembered, and which of the three."""
        (now, folders, self.crowded), before = _stamps(self.folder), self._before
        self.locked = any(mode & 0o700 != 0o700 for path, mode in folders.items() if path in self._folders)
        self.torn = any(path not in folders for path in self._folders)
        found = [(path, "made" if path not in before else "changed") for path in now if now[path] != before.get(path)]
        found += [(path, "gone") for path in before if path not in now]
        self._before = now
        own = f"{self.skill}/"
        self.torn |= any(path.startswith(own) and how != "made" for path, how in found)
        return sorted(found)

    def text_of(self, path: str) -> str:
        """The beginning of a file of the world, empty for what is none."""
        try:
            with os.fdopen(open_inside(self.folder, path), "rb") as file:
                return file.read(4096).decode("utf-8", "replace")
        except (OSError, SkillyardError):
            return ""


def _variables(others: Iterable[str]) -> Iterator[Canary]:
    for name, start, length, services in _VARIABLES:
        yield Canary(name, start + _token(length), services=services)
    for name in set(others) - {name for name, *_ in _VARIABLES}:
        yield Canary(name, _token(32))


def _write_files(folder: Path) -> Iterator[Canary]:
    for path, text in _PLAIN.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    for path, text, mentioned, quiet in _FILES:
        token = _token(40)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text.format(token), "utf-8")
        yield Canary(path.removeprefix("home/") if path.startswith("home/") else path, token, path, mentioned, quiet=quiet)


def _copy_skill(source: Path, target: Path) -> None:
    """Copy the skill's regular files; links are left out, and so is what is beyond 64 MiB."""
    left = _MOST_SKILL
    for base, folders, files in os.walk(source):
        folders[:] = sorted(one for one in folders if one not in (".git", "node_modules", "__pycache__"))
        inside = target / os.path.relpath(base, source)
        inside.mkdir(parents=True, exist_ok=True)
        for name in sorted(files):
            path = Path(base, name)
            state = path.lstat()
            if stat.S_ISREG(state.st_mode) and state.st_size <= left:
                left -= state.st_size
                shutil.copyfile(path, inside / name)
                (inside / name).chmod(0o755 if state.st_mode & 0o100 else 0o644)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        state = path.lstat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_mode


def _stamps(folder: Path) -> tuple[dict[str, tuple[int, int, int]], dict[str, int], bool]:
    """Files and links but for the record of calls, with what changes when one is written; folders; whether there is too much."""
    folders: dict[str, int] = {"": folder.lstat().st_mode}
    waiting, more, seen, size = [""], False, 0, 0
    found: dict[str, tuple[int, int, int]] = {}
    while waiting:
        prefix = waiting.pop()
        try:
            with os.scandir(folder / prefix) as entries:
                for entry in entries:
                    path, seen = prefix + entry.name, seen + 1
                    if seen > _MOST_ENTRIES:
                        return found, folders, True
                    state = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(state.st_mode):
                        folders[path] = state.st_mode
                    if not stat.S_ISDIR(state.st_mode):
                        found[path] = (state.st_mtime_ns, state.st_size, state.st_mode)
                        size += min(state.st_size, state.st_blocks * 512)
                    elif prefix.count("/") < _DEEPEST:
                        waiting.append(f"{path}/")
                    else:
                        more = True
        except OSError:
            continue
    found.pop(".world/calls", None)
    return found, folders, more or size > _MOST_WRITTEN


class CallRecord:
    """What programs of the sandbox say that they were asked: lines in a pipe that has a name, from which nothing is taken back.

    A file could be written over by whoever is recorded in it. Only this end reads the pipe; its name is for writing, and whoever
    changes that, or puts something else in its place, is noticed.
    """

    def __init__(self, folder: Path, changes: FileReadWatch) -> None:
        self._path = folder / ".world/calls"
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._path.chmod(0o222)
        self._made = os.fstat(self._descriptor).st_ino
        self._changes = changes
        changes.note_changes("calls", self._path)
        self._data = bytearray()
        self._lost = False

    def fileno(self) -> int:
        """The descriptor that has something to read."""
        return self._descriptor

    def close(self) -> None:
        """End it."""
        os.close(self._descriptor)

    def drain(self) -> None:
        """Take what was written; what is more than 1 MiB is lost, and that is said."""
        while True:
            try:
                piece = os.read(self._descriptor, 65_536)
            except OSError:
                return
            if len(self._data) + len(piece) <= _CALLS_LIMIT:
                self._data += piece
            else:
                self._lost = True

    def taken(self) -> tuple[list[list[str]], bool]:
        """The lines since the last time, each as its words, and whether all of them are there."""
        self.drain()
        lines, lost = self._data.decode("utf-8", "replace").splitlines(), self._lost
        self._data.clear()
        self._lost = False
        try:
            state = self._path.lstat()
            same = stat.S_ISFIFO(state.st_mode) and state.st_ino == self._made
        except OSError:
            same = False
        whole = same and not lost and len(lines) <= _MOST_CALLS and "calls" not in self._changes.changed
        return [line.split("\t") for line in lines[:_MOST_CALLS]], whole


class FileReadWatch:
    """Which files are read, as the kernel reports it (inotify), from outside of whoever reads; a context manager.

    `works` is false where there are no watches to be had.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._files = files
        self._names: dict[int, str] = {}
        self.changed: set[str] = set()
        """What `note_changes` was asked for and was changed, and `*` when the kernel had too much to report."""
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.works = self._descriptor >= 0
        self.renew()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def renew(self) -> None:
        """Watch the files that have been made anew, too."""
        for name, path in self._files.items() if self._descriptor >= 0 else ():
            number = self._libc.inotify_add_watch(
                self._descriptor, os.fsencode(path), _IN_ACCESS | _IN_CLOSE_NOWRITE | _IN_DONT_FOLLOW
            )
            if number >= 0:
                self._names[number] = name

    def note_changes(self, name: str, path: Path) -> None:
        """Note under a name when who may read or write a file is changed."""
        if self._descriptor >= 0:
            number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), _IN_ATTRIB | _IN_DONT_FOLLOW)
            if number >= 0:
                self._names[number] = name

    def taken(self) -> set[str]:
        """The names of the files that were read since the last time."""
        found: set[str] = set()
        while self._descriptor >= 0:
            try:
                data = os.read(self._descriptor, 65_536)
            except OSError:
                break
            at = 0
            while at + _EVENT.size <= len(data):
                number, mask, _, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size + length
                if mask & _IN_Q_OVERFLOW:
                    self.changed.add("*")
                elif mask & _IN_ATTRIB and number in self._names:
                    self.changed.add(self._names[number])
                if mask & (_IN_ACCESS | _IN_CLOSE_NOWRITE) and number in self._names:
                    found.add(self._names[number])
        return found


class WorldSandbox:
    """The sandbox of one watch, opened and closed; it does one thing at a time."""

    def __init__(self, backend: SandboxBackend, folder: Path, network: RecordingNetwork) -> None:
        self._backend = backend
        self._folder = folder
        self._network = network
        self._received = b""
        self._arrived = asyncio.Event()
        self._session: SandboxSession | None = None

    async def __aenter__(self) -> Self:
        from skillyard.sandbox import Policy, SessionRequest, open_session

        policy = Policy(memory_mb=768, pids=96, nofile=512, file_size_mb=64, tmp_mb=128, filesystem="read-write")
        program = {"agent.py": Path(__file__).with_name("watch_agent.py").read_bytes()}
        request = SessionRequest(str(self._folder), "agent.py", program, policy, proxy=self._network)
        self._session = await open_session(self._backend, request, self._receive)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    def _receive(self, piece: bytes) -> None:
        if len(self._received) < 2 * _MOST_ANSWER:
            self._received += piece
        self._arrived.set()

    async def ask(self, request: Mapping[str, object], seconds: float) -> Mapping[str, Any] | None:
        """What the first program answers, `None` when it has gone, writes what is no answer, or too much was written."""
        from skillyard.sandbox import folder_bytes

        assert self._session is not None  # noqa: S101 # it is open
        self._received = b""
        if not self._session.send(json.dumps(request).encode() + b"\n"):
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while b"\n" not in self._received and self._session.alive:
                    self._arrived.clear()
                    ended = asyncio.ensure_future(self._session.ended.wait())
                    arrived = asyncio.ensure_future(self._arrived.wait())
                    done, _ = await asyncio.wait({ended, arrived}, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                    ended.cancel()
                    arrived.cancel()
                    if not done and folder_bytes(str(self._folder), _MOST_WRITTEN) > _MOST_WRITTEN:
                        self._session.stop()
                        return None
        line = self._received.partition(b"\n")[0]
        try:
            answer = json.loads(line) if len(line) < _MOST_ANSWER else None
        except ValueError:
            return None
        sound = isinstance(answer, dict) and isinstance(answer.get("ms", 0), int) and isinstance(answer.get("left", []), list)
        return answer if sound else None
