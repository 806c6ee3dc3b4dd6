"""Programs that run, read or delete what no word of their command line says: one table of facts.

A rule to deny cannot be held against what an interpreter, a build tool or an option such as `git -c alias.x='!rm y'` does. Such
a command is opaque: it is asked about wherever something is denied or asked about, unless a rule allows that very command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from skillyard.permissions.shell_builtins import assigned_names
from skillyard.permissions.shell_script import SimpleCommand
from skillyard.permissions.shell_words import SHELLS, ShellWord, word_set

_SYSTEM_FOLDERS: Final = frozenset({"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin"})
_ONLY_TELLS: Final = word_set("--version --help -h -V")
_INTERPRETERS: Final = (
    word_set(
        # languages
        "python pypy perl ruby node nodejs deno bun tsx ts-node php lua luajit Rscript julia tclsh wish guile racket osascript "
        "pwsh java jshell groovy scala swift erl elixir iex ghci runghc ocaml sbcl clisp bpython ipython jupyter "
        "csh tcsh "  # shells beside `SHELLS`: nothing reads their language
        # builders, runners of tests and packages: a file of the project says what they run
        "make gmake ninja cmake meson bazel just task rake gulp grunt ant mvn gradle tox nox pytest invoke fab npx bunx pipx "
        "uvx cargo go dotnet docker podman kubectl vagrant ansible ansible-playbook pre-commit "
        # editors, viewers and debuggers with commands of their own
        "vi vim nvim view ex ed emacs nano gdb lldb sqlite3 psql mysql ftp sftp lftp telnet nc ncat socat screen tmux expect"
    )
    | SHELLS
)
"""With any argument but a question for the version they may do anything."""

_VERSIONED: Final = re.compile(r"(python|pypy|perl|ruby|lua|php|node|tclsh|vim|guile)[0-9.]+")


@dataclass(frozen=True, slots=True)
class ProgramEscape:
    """How a program runs, writes or deletes what is no word of the shell's grammar.

    `options` do, also with a value behind `=`; short ones also in a group. `words` are subcommands that do. `script` is what
    the program's own language may hold at most where it is harmless: a word that is no option and does not fit it is opaque.
    `values` are options whose value must fit the pattern.
    """

    options: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    script: re.Pattern[str] | None = None
    values: Mapping[str, re.Pattern[str]] | None = None


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


def _escape(options: str = "", words: str = "", **more: object) -> ProgramEscape:
    return ProgramEscape(word_set(options), word_set(words), **more)  # type: ignore[arg-type] # its other fields


_TAR: Final = _escape(
    "--to-command --checkpoint-action -I --use-compress-program -F --info-script --new-volume-script --rsh-command "
    "--rmt-command"
)
_AWK: Final = _escape("-f --file -E --exec -l --load -i --include -e --source", script=_HARMLESS_AWK)
_SED: Final = _escape("-f --file", script=_HARMLESS_SED)
_PACKAGES: Final = _escape(
    words="run run-script test t start stop restart exec x dlx install i ci add rebuild create init explore publish pack"
)
_ESCAPES: Final[Mapping[str, ProgramEscape]] = {
    "git": _escape(
        "--exec-path --config-env --upload-pack --receive-pack --exec -x --ext-diff --textconv -O --open-files-in-pager "
        "--extcmd --template --config",
        "bisect filter-branch difftool mergetool send-email instaweb web--browse config submodule",
        values={"-c": _HARMLESS_GIT},
    ),
    "tar": _TAR, "bsdtar": _TAR, "gtar": _TAR,
    "find": _escape("-delete -fprint -fprintf -fprint0 -fls"),
    "fd": _escape("-x --exec -X --exec-batch"), "fdfind": _escape("-x --exec -X --exec-batch"),
    "rg": _escape("--pre --hostname-bin"),
    "ag": _escape("--pager"),
    "awk": _AWK, "gawk": _AWK, "mawk": _AWK, "nawk": _AWK, "original-awk": _AWK,
    "sed": _SED, "gsed": _SED,
    "env": _escape("-S --split-string"),
    "ssh": _escape("-o -F -S -J"), "scp": _escape("-o -F -S -J"),
    "rsync": _escape("-e --rsh --rsync-path"),
    "sort": _escape("--compress-program"),
    "split": _escape("--filter"),
    "zip": _escape("-T -TT --test --unzip-command"),
    "man": _escape("-P --pager -H --html"),
    "less": _escape(script=re.compile(r"(?!\+)[\s\S]*")), "more": _escape(script=re.compile(r"(?!\+)[\s\S]*")),
    "curl": _escape("-K --config"), "wget": _escape("--use-askpass -e --execute --config -i --input-file"),
    "npm": _PACKAGES, "pnpm": _PACKAGES, "yarn": _PACKAGES,
    "pip": _escape(words="install wheel download"), "pip3": _escape(words="install wheel download"),
    "uv": _escape(words="run tool pip sync build add"),
    "dpkg": _escape("-i --install --pre-invoke --post-invoke"),
    "apt": _escape("-o --option"), "apt-get": _escape("-o --option"),
    "logrotate": _escape(script=re.compile(r"")),
    "crontab": _escape(script=re.compile(r"")),
    "openssl": _escape("-engine -provider"),
    "gcc": _escape("-wrapper"), "g++": _escape("-wrapper"), "cc": _escape("-wrapper"),
    "install": _escape("--strip-program"),
}  # fmt: skip
_PROGRAM_VARIABLES: Final = re.compile(
    r"GIT_.*|.*PAGER|EDITOR|VISUAL|.*_EDITOR|BROWSER|LESSOPEN|LESSCLOSE|LESS|MORE|LD_.*|DYLD_.*|PERL5.*|PYTHON(?!UNBUFFERED|UTF8|"
    r"DONTWRITEBYTECODE|IOENCODING).*|NODE_OPTIONS|NODE_PATH|RUBYOPT|RUBYLIB|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|MAKEFLAGS|MAKE|SHELL|"
    r"TAR_OPTIONS|RIPGREP_CONFIG_PATH|FZF_.*|PATH|SSH_ASKPASS|SUDO_ASKPASS|RSYNC_RSH|CC|CXX|AWKPATH|MANOPT|ZIPOPT|GREP_OPTIONS|"
    r"HOME|XDG_CONFIG_HOME|npm_config_.*|PIP_.*",
    re.IGNORECASE,
)


class Opacity(NamedTuple):
    """Why what a command does cannot be seen, and the `word` that a rule must name to allow it.

    The word is the program itself where any call of it is opaque.
    """

    reason: str
    word: str


def opaque_reason(command: SimpleCommand) -> Opacity | None:
    """Why what a command does cannot be seen; None when it can be seen."""
    for name in assigned_names(command):
        if name is not None and _PROGRAM_VARIABLES.fullmatch(name):
            return Opacity(f"{name} names what other programs run", f"{name}=")
    if not command.words or not (name := command.words[0].text):
        return None
    folder, slash, base = name.rpartition("/")
    words = command.words[1:]
    if slash and folder not in _SYSTEM_FOLDERS:
        return Opacity(f"{name} is a file whose content is not known", name)
    if base in _INTERPRETERS or _VERSIONED.fullmatch(base):
        tells = bool(words) and all(word.text in _ONLY_TELLS for word in words)
        return None if tells else Opacity(f"{base} may run anything", name)
    escape = _ESCAPES.get(base)
    found = _escaping_word(escape, words) if escape else None
    return Opacity(f"{base} can run, write or delete something by {found[:40]!r}", found) if found else None


def _escaping_word(escape: ProgramEscape, words: Sequence[ShellWord]) -> str | None:
    values, before, scripted = escape.values or {}, "", escape.script is None
    for word in words:
        text, option, before = word.text, before, word.text or ""
        if option in values:
            if text is None or not values[option].fullmatch(text):
                return option
        elif text is not None and ((found := _option(escape, text)) or text in escape.words):
            return found or text
        elif not scripted and not before.startswith("-"):
            scripted = True
            if text is None or (escape.script and not escape.script.fullmatch(text)):
                return word.raw if text is None else text
    return None


def _option(escape: ProgramEscape, text: str) -> str | None:
    """The option of the table that a word is, also shortened, with a value, or in a group of short ones."""
    if not text.startswith("-") or text in ("-", "--"):
        return None
    name = text.partition("=")[0]
    if text.startswith("--"):
        return next((one for one in escape.options if one == name or (len(name) > 3 and one.startswith(name))), None)
    if name in escape.options:
        return name
    return next((one for one in escape.options if len(one) == 2 and text.startswith(one)), None)
