"""Commands of which no word says what they do: programs that run, read or delete something else, and builtins of the shell.

A rule to deny cannot be held against what an interpreter, a build tool or an option such as `git -c alias.x='!rm y'` does.
Such a command is opaque: it is asked about wherever something is denied or asked about, unless a rule allows that very
command. The programs are one table of facts.

Builtins change the shell itself: a variable such as PATH changes what the other commands are, and a text that is run later is
no command of the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from skillyard.permissions.shell_script import SimpleCommand
from skillyard.permissions.shell_words import SHELLS, ShellWord, word_set

_SYSTEM_FOLDERS: Final = frozenset({"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin"})
_ONLY_TELLS: Final = word_set("--version --help -h -V")
_INTERPRETERS: Final = SHELLS | word_set(
    # languages
    "python pypy perl ruby node nodejs deno bun tsx ts-node php lua luajit rscript julia tclsh wish guile racket osascript "
    "pwsh java jshell groovy scala kotlin dart swift erl elixir iex ghci runghc ocaml sbcl clisp bpython ipython jupyter "
    "irb pry m4 dc gnuplot octave maxima latex pdflatex xelatex lualatex tex pdftex "
    "csh tcsh "  # shells beside `SHELLS`: nothing reads their language
    # builders, runners of tests and packages: a file of the project says what they run
    "make gmake ninja cmake meson bazel just task rake gulp grunt ant mvn gradle sbt mix stack cabal zig tox nox pytest prove "
    "invoke fab npx bunx pipx uvx yarn bundle gem composer rails hatch pdm pipenv rye conda mamba micromamba "
    "jest mocha vitest webpack vite rollup cargo go dotnet docker podman kubectl vagrant terraform ansible ansible-playbook "
    "pre-commit gpg-agent xdg-open open "
    # editors, viewers and debuggers with commands of their own
    "vi vim rvim gvim evim vimx vimdiff nvim view rview gview ex ed red emacs emacsclient nano pico visudo vipw sudoedit gdb "
    "lldb sqlite3 psql mysql mariadb mail mailx mutt ftp sftp lftp telnet nc ncat socat screen tmux expect"
)
"""With any argument but a question for the version they may do anything."""


@dataclass(frozen=True, slots=True)
class ProgramEscape:
    """How a program runs, writes or deletes what is no word of the shell's grammar.

    `options` do, also with a value behind `=` and anywhere in a group of short ones; with `whole` words such as `-wrapper` are
    one option and there are no groups. `takes` are other options with a value, which is no option and no operand.
    `words` are operands that do. `values` and `scripts` are options whose value must fit a pattern; `script` is what the first
    operand must fit where no option of `scripts` stood before, `operand` what every operand must fit, unless an option of
    `spares` is there. `commands` are the subcommands that are harmless. `bundle` says that the first word is a group of options
    without a dash too. `under` are further facts from a subcommand on.
    """

    options: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    takes: frozenset[str] = frozenset()
    values: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    script: re.Pattern[str] | None = None
    scripts: frozenset[str] = frozenset()
    operand: re.Pattern[str] | None = None
    spares: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()
    whole: bool = False
    bundle: bool = False
    under: Mapping[str, ProgramEscape] = field(default_factory=dict)


class Opacity(NamedTuple):
    """Why what a command does cannot be seen, and the `word` that a rule must name to allow it."""

    reason: str
    word: str


_HARMLESS_GIT: Final = re.compile(
    r"(?:user|color|advice|column|log|safe)\.[\w.-]+(?:=.*)?"
    r"|(?:core\.(?:quotepath|autocrlf|abbrev|filemode)|init\.defaultbranch|(?:commit|tag)\.gpgsign)(?:=[\w-]*)?",
    re.IGNORECASE | re.DOTALL,
)
_HARMLESS_SED: Final = re.compile(
    r"(?:(?:[0-9$]{1,9}(?:,[0-9$]{1,9})?)?(?:[pdqQ=]|s/[^/\n]*/[^/\n]*/[gpiI0-9]*|s\|[^|\n]*\|[^|\n]*\|[gpiI0-9]*"
    r"|s,[^,\n]*,[^,\n]*,[gpiI0-9]*))(?:;[0-9$]{0,9}[pdq])*"
)
_HARMLESS_AWK: Final = re.compile(r"(?!.*(?:system|getline|[|>@]|close))[\s\S]*", re.DOTALL)
_NOTHING: Final = re.compile(r"-?")
_NO_COMMAND: Final = re.compile(r"(?!\+)[\s\S]*")
_NO_FILE_OF_OPTIONS: Final = re.compile(r"(?!@)[\s\S]*")
_FORMAT: Final = re.compile(r"[a-z0-9_+-]+")


def _escape(options: str = "", words: str = "", takes: str = "", **more: object) -> ProgramEscape:
    texts = {name: word_set(value) if isinstance(value, str) else value for name, value in more.items()}
    return ProgramEscape(*(word_set(text) for text in (options, words, takes)), **texts)  # type: ignore[arg-type] # its fields


_GIT_OPTIONS: Final = (
    "--exec-path --config-env --upload-pack --receive-pack --exec --ext-diff --textconv --open-files-in-pager --extcmd "
    "--template --config"
)
_GIT_VALUES: Final = {"-c": _HARMLESS_GIT}
_TAR: Final = _escape(
    "--to-command --checkpoint-action -I --use-compress-program -F --info-script --new-volume-script --rsh-command "
    "--rmt-command --remove-files --recursive-unlink",
    takes="-f -C -b -T -X -g -K -L -N -V -H",
    bundle=True,
)
_AWK: Final = _escape(
    "-f --file -E --exec -l --load -i --include -W -D --debug -o --pretty-print -p --profile -d --dump-variables",
    takes="-F -v --field-separator --assign",
    script=_HARMLESS_AWK,
    scripts="-e --source",
)
_SED: Final = _escape("-f --file", takes="-l --line-length", script=_HARMLESS_SED, scripts="-e --expression")
_NPM: Final = _escape(
    commands="ls list la ll view info show outdated search root prefix bin help whoami ping why explain fund version -v"
)
_PIP: Final = _escape(commands="list show freeze check help inspect index hash debug")
_COMPILER: Final = _escape(
    "-wrapper -B -specs --specs -fplugin -fuse-ld -Xclang -load --config", operand=_NO_FILE_OF_OPTIONS, whole=True
)
_FD: Final = _escape("-x --exec -X --exec-batch", takes="-e -E -t -d -S -c -j -g -C --extension --exclude --type")
_PAGER: Final = _escape(
    "-k --lesskey-file --lesskey-src --lesskey-content -o -O --log-file --LOG-FILE", takes="-p -P -b -h -j -t -T -x -y -z",
    operand=_NO_COMMAND,
)  # fmt: skip
_COMPRESSOR: Final = _escape(
    takes="-S --suffix -T --threads", operand=_NOTHING, spares="-c -k -l -t --stdout --to-stdout --keep --list --test"
)
_DELETES: Final = _escape(operand=_NOTHING)
_APT: Final = _escape(
    "-o --option -c --config-file",
    "install reinstall remove purge autoremove autopurge upgrade full-upgrade dist-upgrade source build-dep edit-sources",
)
_ESCAPES: Final[Mapping[str, ProgramEscape]] = {
    "git": _escape(
        f"{_GIT_OPTIONS} -x -O",
        "bisect filter-branch difftool mergetool send-email instaweb web--browse config submodule clean rm",
        "-C -m -F -S -G -L -U --git-dir --work-tree --namespace --attr-source --message --grep --author",
        values=_GIT_VALUES,
        under={
            "clone": _escape(f"{_GIT_OPTIONS} -u", takes="-b -o -j", values=_GIT_VALUES),
            "rebase": _escape(f"{_GIT_OPTIONS} -x", "", "-s -X", values=_GIT_VALUES),
            "grep": _escape(f"{_GIT_OPTIONS} -O", takes="-e -f -m -A -B -C", values=_GIT_VALUES),
        },
    ),
    "tar": _TAR, "bsdtar": _TAR, "gtar": _TAR,
    "find": _escape("-delete -fprint -fprintf -fprint0 -fls", whole=True),
    "fd": _FD, "fdfind": _FD,
    "rg": _escape("--pre --hostname-bin"),
    "ag": _escape("--pager"),
    "awk": _AWK, "gawk": _AWK, "mawk": _AWK, "nawk": _AWK, "original-awk": _AWK,
    "sed": _SED, "gsed": _SED,
    "env": _escape("-S --split-string", takes="-u -C --unset --chdir"),
    "ssh": _escape("-o -F -S -J -I -E", takes="-p -l -i -L -R -D -b -c -e -m -w -W -B -O -Q"),
    "scp": _escape("-o -F -S -J -D", takes="-P -c -i -l -X"),
    "ssh-keygen": _escape("-D -w"), "ssh-add": _escape("-s -S -T -D -d"),
    "rsync": _escape(
        "-e --rsh --rsync-path -M --remote-option --del --delete --delete-before --delete-during --delete-delay --delete-after "
        "--delete-excluded --delete-missing-args --remove-source-files --remove-sent-files",
        takes="-f -T -B",
    ),
    "sort": _escape("--compress-program"),
    "split": _escape("--filter"),
    "sdiff": _escape("--diff-program"), "diff3": _escape("--diff-program"),
    "pandoc": _escape(
        "-F --filter -L --lua-filter --pdf-engine --pdf-engine-opt -d --defaults --data-dir --extract-media",
        takes="-o -V -M -H -A -B -c -T --output",
        values=dict.fromkeys(("-f", "-r", "-t", "-w", "--from", "--read", "--to", "--write"), _FORMAT),
    ),
    "zip": _escape("-T --test --unzip-command -m --move"),
    "man": _escape("-P --pager -H --html -C --config-file", takes="-M -S -s -L -m -e -R -E -p -r"),
    "groff": _escape("-U -I"), "troff": _escape("-U"),
    "less": _PAGER, "more": _PAGER,
    "curl": _escape(
        "-K --config --engine", takes="-A -b -c -C -d -D -e -E -F -h -H -m -o -P -Q -r -t -T -u -U -w -x -X -y -Y -z"
    ),
    "wget": _escape(
        "--use-askpass -e --execute --config -i --input-file", takes="-o -a -P -O -t -T -w -Q -l -B -A -R -D -I -X -U"
    ),
    "tcpdump": _escape("-z --postrotate-command"), "nmap": _escape("--script --datadir"),
    "npm": _NPM, "pnpm": _NPM,
    "pip": _PIP,
    "poetry": _escape(commands="show check version about help list search"),
    "uv": _escape(commands="version help"),
    "dpkg": _escape(
        "-i --install --unpack --configure -r --remove -P --purge --pre-invoke --post-invoke --force-all --root --admindir"
    ),
    "apt": _APT, "apt-get": _APT, "apt-cache": _escape("-o --option -c --config-file"),
    "logrotate": _escape(operand=_NOTHING),
    "crontab": _escape("-e -r", operand=_NOTHING),
    "openssl": _escape("-engine -provider -provider-path", whole=True),
    **dict.fromkeys(
        ("gcc", "g++", "cc", "c++", "cpp", "c89", "c99", "clang", "clang++", "gfortran", "gnat", "gdc", "gccgo"), _COMPILER
    ),
    "install": _escape("--strip-program"),
    "unlink": _DELETES, "shred": _DELETES, "srm": _DELETES, "wipe": _DELETES,
    "gio": _escape(words="remove trash launch open"),
    "zstd": _escape("--rm"), "unzstd": _escape("--rm"), "lz4": _escape("--rm"), "brotli": _escape("-j --rm"),
    **dict.fromkeys(
        ("gzip", "gunzip", "pigz", "bzip2", "bunzip2", "xz", "unxz", "lzma", "unlzma", "lzip", "compress"), _COMPRESSOR
    ),
}  # fmt: skip
_PROGRAM_VARIABLES: Final = re.compile(
    r"GIT_.*|.*PAGER|EDITOR|VISUAL|.*_EDITOR|BROWSER|LESSOPEN|LESSCLOSE|LESS|MORE|LD_.*|DYLD_.*|PERL5.*|PYTHON(?!UNBUFFERED|UTF8|"
    r"DONTWRITEBYTECODE|IOENCODING).*|NODE_OPTIONS|NODE_PATH|RUBYOPT|RUBYLIB|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|MAKEFLAGS|MAKE|SHELL|"
    r"TAR_OPTIONS|RIPGREP_CONFIG_PATH|FZF_.*|PATH|SSH_ASKPASS|SUDO_ASKPASS|RSYNC_RSH|CC|CXX|AWKPATH|MANOPT|ZIPOPT|GREP_OPTIONS|"
    r"HOME|XDG_CONFIG_HOME|npm_config_.*|PIP_.*",
    re.IGNORECASE,
)


def opaque_reason(command: SimpleCommand) -> Opacity | None:
    """Why what a command does cannot be seen, with the word that a rule must name to allow it; None when it can be seen.

    The word is the program itself where any call of it is opaque.
    """
    for name in assigned_names(command):
        if name is not None and _PROGRAM_VARIABLES.fullmatch(name):
            return Opacity(f"{name} names what other programs run", f"{name}=")
    if not command.words or not (name := command.words[0].text):
        return None
    folder, slash, base = name.rpartition("/")
    words = command.words[1:]
    if slash and folder not in _SYSTEM_FOLDERS:
        return Opacity(f"{name} is a file whose content is not known", name)
    known = _known_name(base)
    if known in _INTERPRETERS:
        tells = bool(words) and all(word.text in _ONLY_TELLS for word in words)
        return None if tells else Opacity(f"{base} may run anything", name)
    found = _EscapeSearch(_ESCAPES[known]).search(words) if known in _ESCAPES else None
    return Opacity(f"{base} can run, write or delete something by {found[:40]!r}", found) if found else None


def _known_name(base: str) -> str:
    """The name of the tables that a program goes by: also with a version, a variant or the triplet of a target.

    `python3.11-dbg`, `vim.basic`, `perl5.36-x86_64-linux-gnu` and `x86_64-linux-gnu-gcc-12` are python, vim, perl and gcc.
    """
    base = base.casefold().removesuffix(".exe")
    parts = base.split("-", 20)
    for one in (base, *(part for part in parts if part)):
        plain = one.partition(".")[0]
        for name in (one, plain, plain.rstrip("0123456789_")):
            if name in _INTERPRETERS or name in _ESCAPES:
                return name
    return base


class _EscapeSearch:
    """Looks for the word by which a command is opaque."""

    def __init__(self, escape: ProgramEscape) -> None:
        self.escape = escape
        self.scripted = False  # whether the script, or the subcommand, has been seen
        self.found: str | None = None
        self.operands: list[str] = []  # those that are opaque unless an option spares them
        self.spared = False

    def search(self, words: Sequence[ShellWord]) -> str | None:
        """The option, subcommand, script or operand; as written where it is known only when it runs."""
        at, ended = 0, False
        while at < len(words) and self.found is None:
            word, text = words[at], words[at].text
            before = words[at - 1].text or "" if at else ""
            at += 1
            if text is None:
                self._operand(word, before)
            elif text == "--" and not ended:
                ended = True
            elif ended or not text.startswith("-") or text == "-":
                if self.escape.bundle and at == 1:
                    self._group(f"-{text}", bundle=True)
                else:
                    self._operand(word, before)
            elif (option := self._option(text)) is not None:
                self._value(option, words[at] if at < len(words) else None)
                at += 1
        return self.found or (self.operands[0] if self.operands and not self.spared else None)

    def _operand(self, word: ShellWord, before: str) -> None:
        escape, text = self.escape, word.text
        if text is not None and text in escape.words:
            self.found = text
        elif escape.operand is not None and (text is None or not escape.operand.fullmatch(text)):
            self.operands.append(word.raw if text is None else text)
        elif escape.commands and not self.scripted:
            if text is None or text not in escape.commands:
                self.found = word.raw if text is None else text
            self.scripted = not before.startswith("-") or "=" in before  # else it may be the value of that option
        elif escape.script is not None and not self.scripted:
            self.scripted = True
            if text is None or not escape.script.fullmatch(text):
                self.found = word.raw if text is None else text
        elif text is not None and text in escape.under:
            self.escape = escape.under[text]

    def _option(self, text: str) -> str | None:
        """Judge a word that begins with a dash; the option whose value is the next word, None when there is no such."""
        name, joined, value = text.partition("=")
        if not text.startswith("--") and not self.escape.whole:
            return self._group(text)
        options = self.escape.options
        short = (one for one in options if len(one) == 2 and one != "--" and text.startswith(one) and text[:2] != "--")
        if dangerous := (_long(name, options) or next(short, None)):
            self.found = dangerous
            return None
        self.spared = self.spared or bool(_long(name, self.escape.spares))
        taking = _long(name, self._valued())
        if taking is None or not joined:
            return taking
        self._value(taking, ShellWord(value, value))
        return None

    def _group(self, text: str, *, bundle: bool = False) -> str | None:
        """The same for a group of short options; in a `bundle` the values are further words, whichever letters follow."""
        for at, letter in enumerate(text[1:], 1):
            option = f"-{letter}"
            if option in self.escape.options:
                self.found = option
                return None
            self.spared = self.spared or option in self.escape.spares
            if option in self._valued() and not bundle:
                value = text[at + 1 :]
                if not value:
                    return option
                self._value(option, ShellWord(value, value))
                return None
        return None

    def _value(self, option: str, word: ShellWord | None) -> None:
        """Judge the value of an option."""
        pattern = self.escape.values.get(option)
        if option in self.escape.scripts:
            pattern, self.scripted = self.escape.script, True
        if pattern is not None and (word is None or word.text is None or not pattern.fullmatch(word.text)):
            self.found = option

    def _valued(self) -> frozenset[str]:
        return self.escape.takes | self.escape.scripts | self.escape.values.keys()


def _long(name: str, options: frozenset[str]) -> str | None:
    """The option that a long one is, also shortened."""
    if name in options:
        return name
    return next((one for one in sorted(options) if len(name) > 3 and name[:2] == "--" and one.startswith(name)), None)


_NAMED: Final = re.compile(r"[\"']?([A-Za-z_]\w*)(?:\[.*\])?\+?=", re.DOTALL)
_IN_ARITHMETIC: Final = re.compile(r"[A-Za-z_]\w*")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_MAY_BE_OPTION: Final = re.compile(r"[\"']*[-$`*?\[{\\]")
_DECLARING: Final = word_set("export declare typeset local readonly")
_VALUES: Final[Mapping[str, str]] = {"read": "dinNptu", "mapfile": "dnOsuCc", "readarray": "dnOsuCc"}  # options with a value
_RUN_LATER: Final = word_set("PS0 PS1 PS2 PS4 PROMPT_COMMAND BASH_ENV ENV BASH_CMDS BASH_ALIASES")
_OPTIONS_THAT_RUN: Final[Mapping[str, str]] = {
    "mapfile": "C", "readarray": "C", "compgen": "CFW", "complete": "CFW", "hash": "p", "bind": "x",
}  # fmt: skip
_ALWAYS_RUN: Final[Mapping[str, str]] = {
    ".": "it runs a file in the shell itself",
    "source": "it runs a file in the shell itself",
    "enable": "it changes which commands are the shell's own",
    "fc": "it runs earlier commands",
}


def assigned_names(command: SimpleCommand) -> Iterator[str | None]:
    """The variables that a command sets, also the assignments before it; None is one that is known only when it runs."""
    yield from (name for name, _ in command.assignments)
    if command.words:
        name, words = command.words[0].text or "", command.words[1:]
        if name in _DECLARING:
            yield from _declared(words, references=name not in ("export", "readonly"))
        elif name == "let":
            for word in words:
                yield from [None] if word.text is None else _IN_ARITHMETIC.findall(word.text)
        elif name == "printf":
            yield from map(_name, _option_values(words, "v"))
        elif name == "wait":  # its operands are numbers of processes
            yield from map(_name, _option_values([word for word in words if word.text is not None], "p"))
        elif name == "getopts":
            yield from map(_name, words[1:2])
        elif name == "unset":
            yield from (_name(word) for word in words if not _is_option(word))
        elif name in _VALUES:
            yield from map(_name, _operands(words, _VALUES[name]))


def runs_later(command: SimpleCommand) -> str | None:
    """Why a command runs something that is no command of the line, or changes what one is; None when it does not."""
    for variable in assigned_names(command):
        if variable is None:
            return "which variable it sets is known only when it runs"
        if variable in _RUN_LATER:
            return f"it sets {variable}, which the shell runs"
    name, words = command.words[0].text or "" if command.words else "", command.words[1:]
    if name in _ALWAYS_RUN and words:
        return _ALWAYS_RUN[name]
    if name in _DECLARING and any(_is_option(word) and "i" in (word.text or "") for word in words):
        return "it calculates with names, whose values can be commands"
    letters = _OPTIONS_THAT_RUN.get(name)
    if letters and any(word.text is None or (_is_option(word) and set(letters) & set(word.text)) for word in words):
        return f"{name} can run a text with these options"
    return None


def _is_option(word: ShellWord) -> bool:
    return word.text is not None and len(word.text) > 1 and word.text.startswith("-")


def _name(word: ShellWord) -> str | None:
    """The variable that a word names, also as an element of an array."""
    name = (word.text or "").partition("[")[0]
    return name if _NAME.fullmatch(name) else None


def _declared(words: Sequence[ShellWord], *, references: bool) -> Iterator[str | None]:
    """What `export` and its like set by words; their plain assignments are those of the command."""
    for word in words:
        match = _NAMED.match(word.raw if word.text is None else word.text)
        if match:
            yield match[1]
        elif word.text is None or (references and _is_option(word) and "n" in word.text):  # a reference may be to any variable
            yield None


def _option_values(words: Sequence[ShellWord], letter: str) -> Iterator[ShellWord]:
    """What follows the option of one letter, before the operands of the command begin."""
    for at, word in enumerate(words):
        if word.text is None and _MAY_BE_OPTION.match(word.raw):
            yield word
        if not _is_option(word) or word.text == "--":
            return
        text = word.text or ""
        if letter in text[1:]:
            after = text.partition(letter)[2]
            yield from [ShellWord(after, after)] if after else words[at + 1 : at + 2]
            return


def _operands(words: Sequence[ShellWord], values: str) -> Iterator[ShellWord]:
    """The words that are neither options nor values of the options with these letters."""
    at = 0
    while at < len(words):
        text = words[at].text if _is_option(words[at]) else None
        if text is None:
            yield words[at]
        elif taking := next((n for n, letter in enumerate(text[1:], 1) if letter in values), 0):
            separate = taking == len(text) - 1
            if separate and at + 1 < len(words) and words[at + 1].text is None and words[at + 1].raw[:1] not in ("'", '"'):
                yield words[at + 1]
            at += separate
        elif "a" in text and text.partition("a")[2]:
            yield ShellWord(text, text.partition("a")[2])
        at += 1
