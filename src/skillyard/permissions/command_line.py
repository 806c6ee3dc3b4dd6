"""What a line of shell would run: its simple commands, and the commands that these run in their turn.

`sudo`, `env x=y`, `timeout 5`, `xargs`, `find -exec` and their like are looked through, the scripts of `bash -c` and `eval` are
read as scripts. A step that passes through is as harmless as what it runs; one that does not also needs a rule of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from skillyard.errors import WorkProblem
from skillyard.permissions.opaque_commands import runs_later
from skillyard.permissions.shell_script import LONGEST_COMMAND, Redirection, ShellScript, SimpleCommand, parse_shell
from skillyard.permissions.shell_words import SHELLS, ShellWord, ansi_c, is_descriptor, word_set

_DEEPEST: Final = 8  # commands that run a command that runs a command
_SIGNS: Final = "|([{$`<"
_MOST_SIGNS_HERE: Final = 800
_HELPER_SECONDS: Final = 3.0
_HELPER_MB: Final = 512
_MOST_STEPS: Final = 4_000
_MOST_FILES: Final = 200


@dataclass(frozen=True, slots=True)
class CommandStep:
    """One command that the line would run; `passes` means that only what it runs needs to be allowed."""

    command: SimpleCommand
    passes: bool = False

    @property
    def name(self) -> str | None:
        """The program as it is called, with its folder if that is there; None when it cannot be known."""
        return self.command.words[0].text if self.command.words else None


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A whole line: its steps in order, the files it reads and writes by redirection, and what is unclear about it."""

    text: str
    steps: tuple[CommandStep, ...]
    redirections: tuple[Redirection, ...]
    unclear: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> CommandLine:
        """Read a line of shell; it never fails, and what it cannot understand is in `unclear`.

        A line with many signs of syntax is read by a helper process with a deadline: the grammar takes the square of their
        number for some of them, and cannot be interrupted there.
        """
        if len(text) > LONGEST_COMMAND or sum(map(text.count, _SIGNS)) <= _MOST_SIGNS_HERE:
            return read_command_line(text)
        from skillyard.offload import WorkLimits, run_in_helper  # not for ordinary lines

        try:
            limits = WorkLimits(seconds=_HELPER_SECONDS, memory_mb=_HELPER_MB)
            return run_in_helper(read_command_line, text, subject="a command", limits=limits)
        except WorkProblem:
            return cls(text, (), (), ("it takes too long to read",))

    def tokens(self) -> frozenset[str]:
        """Everything in the line that could be a word of some command once quotes and escapes are gone, in small letters."""
        plain = re.sub(r"\\\n|['\"\\]", "", self.text)
        decoded = re.sub(r"['\"]", "", ansi_c(self.text))
        found = {word for text in (self.text, plain, decoded) for word in _TOKEN.findall(text.casefold())}
        return frozenset(found | {word.rpartition("/")[2] for word in found})

    def files(self) -> tuple[str, ...]:
        """The files that the line names, as written: what it is redirected to, and words that look like paths."""
        named = dict.fromkeys(_shown(redirection.target) for redirection in self.redirections)
        for step in self.steps:
            named |= dict.fromkeys(_shown(word) for word in step.command.words[1:] if _names_file(word))
            if len(named) > _MOST_FILES:
                break
        return tuple(named)[:_MOST_FILES]


def read_command_line(text: str) -> CommandLine:
    """Read a line of shell in this process."""
    return _LineExpansion().line(text)


_TOKEN: Final = re.compile(r"[^\s;|&()<>'\"`$\\{}=,\[\]]+")
_LIKE_A_FILE: Final = re.compile(r"[^\s/]+\.[A-Za-z]\w{0,7}")


def _shown(word: ShellWord) -> str:
    return word.raw if word.text is None else word.text


def _names_file(word: ShellWord) -> bool:
    text = word.raw if word.text is None else word.text
    if text.startswith("-") or "://" in text or len(text) > 1024 or "\n" in text:
        return False
    return "/" in text or text in (".", "..") or text.startswith("~") or _LIKE_A_FILE.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class _Wrapper:
    """A program that runs the command after its own options.

    `values` are options that take the next word as their value, `flags` those that take none; `skip` words stand before the
    command. `passes` as in `CommandStep`. `more` says that the command gets more words when it runs.
    """

    values: frozenset[str] = frozenset()
    flags: str = ""
    skip: int = 0
    passes: bool = True
    more: bool = False
    assignments: bool = False


def _wrapper(values: str = "", flags: str = "", **more: bool | int) -> _Wrapper:
    return _Wrapper(frozenset(values.split()), flags, **more)  # type: ignore[arg-type] # skip is the only int


_WRAPPERS: Final = {
    "command": _wrapper(flags="p"),
    "builtin": _wrapper(),
    "exec": _wrapper("-a", "cl"),
    "time": _wrapper("-f -o --format --output", "pvaqV", assignments=True),
    "coproc": _wrapper(assignments=True),
    "nohup": _wrapper(),
    "setsid": _wrapper(flags="cfw"),
    "nice": _wrapper("-n --adjustment", "0123456789"),
    "ionice": _wrapper("-c -n --class --classdata", "t0123456789"),
    "timeout": _wrapper("-k -s --kill-after --signal", "v", skip=1),
    "stdbuf": _wrapper("-i -o -e --input --output --error"),
    "env": _wrapper("-u --unset -C --chdir", "i0v", assignments=True),
    "xargs": _wrapper("-I -n -P -L -s -d -E -a --max-args --max-procs --max-lines --delimiter --arg-file", "0rtpxi", more=True),
    "busybox": _wrapper(),
    "sudo": _wrapper("-u -g -h -p -C -T -r -t -D -R --user --group --host", "AbEHnPSsik", passes=False, assignments=True),
    "doas": _wrapper("-u -C", "ns", passes=False),
    "watch": _wrapper("-n --interval", "bcdegptx", passes=False),
    "flock": _wrapper("-w -E --timeout", "nsxeou", skip=1, passes=False),
    "chroot": _wrapper("", "", skip=1, passes=False),
    "unshare": _wrapper("", "muinpUCTrf", passes=False),
    "nsenter": _wrapper("-t --target", "amuinpUCTF", passes=False),
    "taskset": _wrapper("", "cpa", skip=1, passes=False),
    "chrt": _wrapper("", "bfior", skip=1, passes=False),
    "strace": _wrapper("-e -o -p -s -u", "fcqvytTi", passes=False),
    "ltrace": _wrapper("-e -o -p -s -u", "fcSti", passes=False),
    "parallel": _wrapper("-j --jobs", "kX", passes=False, more=True),
    "setpriv": _wrapper("--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits", "d", passes=False),
    "prlimit": _wrapper("-p -o --pid --output", passes=False),
    "linux32": _wrapper(flags="vRFBILSTXZ3", passes=False),
    "linux64": _wrapper(flags="vRFBILSTXZ3", passes=False),
    "i386": _wrapper(flags="vRFBILSTXZ3", passes=False),
    "x86_64": _wrapper(flags="vRFBILSTXZ3", passes=False),
    "uname26": _wrapper(flags="vRFBILSTXZ3", passes=False),
    "numactl": _wrapper("-i -m -N -C -p -P --interleave --membind --cpunodebind --physcpubind", "al", passes=False),
    "faketime": _wrapper("-f -p", "m", skip=1, passes=False),
    "dbus-run-session": _wrapper("--config-file --dbus-daemon", passes=False),
    "dbus-launch": _wrapper(passes=False),
    "catchsegv": _wrapper(passes=False),
    "fakeroot": _wrapper("-l -s -i -b", "u", passes=False),
    "unbuffer": _wrapper(flags="p", passes=False),
    "rlwrap": _wrapper(passes=False),
    "eatmydata": _wrapper(passes=False),
    "proxychains": _wrapper("-f", "q", passes=False),
    "torsocks": _wrapper(passes=False),
    "choom": _wrapper("-n -p", passes=False),
    "gosu": _wrapper(skip=1, passes=False),
    "su-exec": _wrapper(skip=1, passes=False),
    "setuidgid": _wrapper(skip=1, passes=False),
    "tini": _wrapper("-p -e", "sgvw", passes=False),
    "dumb-init": _wrapper(flags="cv", passes=False),
    "toybox": _wrapper(),
    "entr": _wrapper("", "cdnprsz", passes=False, more=True),
}
_LOADER: Final = _wrapper("--library-path --preload --argv0 --audit --inhibit-rpath", passes=False)
_LOADER_NAME: Final = re.compile(r"ld(?:-linux|-musl|64|\.so|-\d)|ld\.so")
_RUNNERS: Final = word_set(  # they run a text, or a command that stands where it cannot be told from their other words
    "parallel watch entr setarch sg runuser gdb lldb systemd-run firejail bwrap proot pkexec valgrind perf hyperfine "
    "xvfb-run ssh-agent screen tmux expect at batch crontab start-stop-daemon run-parts capsh cpulimit s6-setuidgid chpst"
)
_RESERVED: Final = word_set("{ } ! if while until for case select function ( ((")
_MAY_SPLIT: Final = re.compile(r"[^'\"]*[$`]|\"\$@|\"\$\{\w+\[@")
_FIND_RUNS: Final = word_set("-exec -execdir -ok -okdir")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


class _LineExpansion:
    """Follows the commands of one line; everything unclear on the way is collected."""

    def __init__(self) -> None:
        self.steps: list[CommandStep] = []
        self.redirections: list[Redirection] = []
        self.unclear: list[str] = []
        self._left = False  # whether the working folder may be above the one that it was

    def line(self, text: str) -> CommandLine:
        self._script(parse_shell(text), 0)
        return CommandLine(text, tuple(self.steps), tuple(self.redirections), tuple(dict.fromkeys(self.unclear)))

    def _script(self, script: ShellScript, depth: int) -> None:
        self.redirections.extend(script.redirections)
        if any(is_descriptor(redirection.target.text or "") for redirection in script.redirections):
            self.unclear.append("it uses a descriptor by its path")
        self.unclear.extend(script.unclear)
        for command in script.commands:
            self._follow(command, depth)

    def _follow(self, command: SimpleCommand, depth: int) -> None:
        if depth > _DEEPEST or len(self.steps) > _MOST_STEPS:
            self.unclear.append("it has too many commands inside commands")
            return
        self._doubt_effects(command)
        if not command.words:
            self.steps.append(CommandStep(command, passes=True))
            return
        name = command.words[0].text
        if not name or name.startswith("-") or name in _RESERVED or (name == "[[" and command.words[-1].raw != command.text):
            self.unclear.append(f"the command {command.words[0].raw!r} is known only when it runs")
            self.steps.append(CommandStep(command))
            return
        self._program(name.rpartition("/")[2], command, depth)

    def _program(self, base: str, command: SimpleCommand, depth: int) -> None:
        """Follow a command whose program is known."""
        if base in _RUNNERS:
            self.unclear.append(f"what {base} runs cannot be understood")
        if base in SHELLS or base in ("eval", "trap", "su", "script", "runuser"):
            self._shell(base, command, depth)
        elif base == "find":
            self.steps.append(CommandStep(command))
            if command.open_ended or any(word.text is None and _MAY_SPLIT.match(word.raw) for word in command.words):
                self.unclear.append("what find runs is known only when it runs")
            self._inner(command, _find_commands(command.words), depth, more=True, placeholder="{}")
        elif base == "alias" and len(command.words) > 1:
            self.unclear.append("it gives a command another name")
            self.steps.append(CommandStep(command))
        elif (wrapper := _WRAPPERS.get(base) or (_LOADER if _LOADER_NAME.match(base) else None)) is not None:
            self._wrapped(wrapper, command, depth)
        else:
            self.steps.append(CommandStep(command))

    def _doubt_effects(self, command: SimpleCommand) -> None:
        """Note what a command does beyond running: to the shell, and to descriptors that are open."""
        if any(is_descriptor(word.text or "") for word in command.words[1:]) or self._enters_devices(command):
            self.unclear.append("it uses a descriptor by its path")
        if reason := runs_later(command):
            self.unclear.append(reason)

    def _enters_devices(self, command: SimpleCommand) -> bool:
        """Whether it makes a folder of processes or devices the working folder, where any path may lead to a descriptor."""
        if not command.words or command.words[0].text not in ("cd", "pushd"):
            return False
        for word in command.words[1:]:
            names = (word.text or "").split("/")
            self._left = self._left or names[0] == "" or ".." in names
            if "proc" in names or (self._left and "dev" in names):
                return True
        return False

    def _inner(
        self,
        outer: SimpleCommand,
        commands: Sequence[Sequence[ShellWord]],
        depth: int,
        *,
        more: bool = False,
        placeholder: str | None = None,
    ) -> None:
        """Follow the commands inside another one; words with its `placeholder` are known only when they run."""
        for words in commands:
            text = " ".join(word.raw for word in words)
            if placeholder:
                words = [ShellWord(word.raw, None) if placeholder in (word.text or "") else word for word in words]
            self._follow(SimpleCommand(tuple(words), (), text, outer.open_ended or more), depth + 1)

    def _wrapped(self, wrapper: _Wrapper, command: SimpleCommand, depth: int) -> None:
        words = list(command.words[1:])
        at = self._after_options(wrapper, words)
        assignments = []
        while wrapper.assignments and at < len(words) and (match := _ASSIGNMENT.fullmatch(words[at].text or words[at].raw)):
            assignments.append((match[1], ShellWord(match[2], match[2] if words[at].text is not None else None)))
            at += 1
        rest = words[at + wrapper.skip :]
        asks_only = command.words[0].raw == "command" and any(word.text in ("-v", "-V") for word in words[:1])
        runs = bool(rest) and not asks_only
        own = SimpleCommand(command.words, (*command.assignments, *assignments), command.text, command.open_ended)
        self.steps.append(CommandStep(own, passes=wrapper.passes and runs))
        if reason := runs_later(SimpleCommand((), tuple(assignments))):
            self.unclear.append(reason)
        if runs:
            self._inner(
                command, [rest], depth, more=wrapper.more, placeholder=_placeholder(words[:at]) if wrapper.more else None
            )
        elif command.open_ended:
            self.unclear.append(f"what {command.words[0].raw} runs is known only when it runs")

    def _after_options(self, wrapper: _Wrapper, words: Sequence[ShellWord]) -> int:
        """Where the words after a program's own options begin."""
        at = 0
        while at < len(words):
            text = words[at].text
            if text is None:
                self.unclear.append(f"what {words[at].raw!r} is here is known only when it runs")
                return at
            if text == "--":
                return at + 1
            if not text.startswith("-") or text == "-":
                return at
            at += 1
            if text in wrapper.values:
                if at < len(words) and words[at].text is None and (text in ("-I", "-J") or _MAY_SPLIT.match(words[at].raw)):
                    self.unclear.append(f"what {words[at].raw!r} is here is known only when it runs")
                at += 1
            elif not self._is_known(wrapper, text):
                self.unclear.append(f"whether the option {text!r} takes a value is not known")
        return at

    @staticmethod
    def _is_known(wrapper: _Wrapper, option: str) -> bool:
        joined = option.partition("=")[0] in wrapper.values if option.startswith("--") else option[:2] in wrapper.values
        return joined or (not option.startswith("--") and set(option[1:]) <= set(wrapper.flags))

    def _shell(self, base: str, command: SimpleCommand, depth: int) -> None:
        """A program that runs a text as a script."""
        words = command.words[1:]
        if base == "eval":
            script = None if any(word.text is None for word in words) else " ".join(word.text or "" for word in words)
            self._text(command, script, depth)
        elif base == "trap":
            self._text(command, next((word.text for word in words if not (word.text or "").startswith("-")), ""), depth)
        else:
            self._shell_with_options(base, command, depth)

    def _shell_with_options(self, base: str, command: SimpleCommand, depth: int) -> None:
        words = command.words[1:]
        at = next((n for n, word in enumerate(words) if _SCRIPT_OPTION.fullmatch(word.text or "")), None)
        file = next((n for n, word in enumerate(words) if not (word.text or "").startswith(("-", "+"))), None)
        if at is not None and (file is None or at < file or base in ("su", "script", "runuser")):
            after = next((word for word in words[at + 1 :] if not (word.text or "").startswith(("-", "+"))), None)
            self._text(command, after.text if after else None, depth, passes=base in SHELLS)
            if any((word.text or "--").startswith(("--", "+", "-O")) for word in words[:at]):
                self.unclear.append(f"the options of {base} cannot be understood")
            return
        if file is None or (words[file].text or "").startswith(("/dev/", "/proc/")):
            self.unclear.append(f"{base} runs what it is given as input")
        self.steps.append(CommandStep(command))

    def _text(self, command: SimpleCommand, script: str | None, depth: int, *, passes: bool = True) -> None:
        self.steps.append(CommandStep(command, passes=passes))
        if script is None or (script == "" and command.open_ended):
            self.unclear.append(f"the script in {command.text[:60]!r} is known only when it runs")
        else:
            self._script(parse_shell(script, depth + 1), depth + 1)


_SCRIPT_OPTION: Final = re.compile(r"-[a-zA-Z]*c")


def _placeholder(words: Sequence[ShellWord]) -> str:
    """What `xargs` replaces by its input: the value of its last `-I`, else `{}`."""
    found = "{}"
    for at, word in enumerate(words):
        text = word.text or ""
        if not text.startswith("-"):
            continue
        if text in ("-I", "-J") and at + 1 < len(words):
            found = words[at + 1].text or found
        elif match := _REPLACED.fullmatch(text):
            found = match[1]
    return found


_REPLACED: Final = re.compile(r"(?:-[IJi]|--replace=)(.+)", re.DOTALL)


def _find_commands(words: Sequence[ShellWord]) -> list[Sequence[ShellWord]]:
    """What a `find` runs: the words between `-exec` and `;` or `+`."""
    return list(_between(words))


def _between(words: Sequence[ShellWord]) -> Iterator[Sequence[ShellWord]]:
    at = 0
    while at < len(words):
        if words[at].text in _FIND_RUNS:
            end = next((n for n in range(at + 1, len(words)) if words[n].text in (";", "+")), len(words))
            yield words[at + 1 : end]
            at = end
        at += 1
