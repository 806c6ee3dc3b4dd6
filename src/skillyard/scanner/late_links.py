"""What a skill's text tells its reader to fetch and nothing pins: documents, scripts, repositories, packages without a version.

A review sees today's content; the owner of the address decides about tomorrow's. A link is pinned when it names
a commit or a digest, a package when it names one version. Plain references («see https://…» to a page) are no instruction to fetch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

from skillyard.scanner.source_texts import SourceText, read_files, reading_rank, readings, split
from skillyard.text import single_line
from skillyard.wire import WireForm

LinkKind = Literal["document", "script", "archive", "repository", "package"]


@dataclass(frozen=True, slots=True)
class LateLink(WireForm):
    """One thing that is fetched when the skill is followed: its address, or `npm:NAME`, `pypi:NAME`, and where the text says so."""

    kind: LinkKind
    address: str
    file: str
    line: int


_MOST_LINKS: Final = 200
_MOST_ON_LINE: Final = 20
_LONGEST_LINE: Final = 2_000
_BEFORE: Final = 160  # characters before an address that say what is done with it
_BEHIND: Final = 120

_ADDRESS: Final = re.compile(r"https?://[^\s<>\"'`|\\^{}\[\]]{3,400}", re.IGNORECASE)
_OPEN_END: Final = ("{", "<", "$", "[", "*", "%s")
_BLANKS: Final = re.compile(
    r"\.\.\.|…|\$|\*|\bYOUR\b|your[-_]|x{3,}|/(?:owner|user|username|org|USER|OWNER|ORG)/|/(?:repo|REPO)\b|:port\b",
    re.IGNORECASE,
)
_NOWHERE: Final = re.compile(
    r"(?:localhost|.*\.(?:local|localhost|test|example|invalid|internal)|(?:.*\.)?example\.(?:com|org|net|edu)"
    r"|127\..*|10\..*|192\.168\..*|0\.0\.0\.0|\[.*)"
)
_COMMIT: Final = re.compile(r"(?:^|[/@=])[0-9a-f]{40}(?:[/?#]|$)|sha256[-:=]?[0-9a-f]{64}")
_CHECKED: Final = re.compile(r"sha(?:256|512)sum|shasum|Get-FileHash|openssl dgst")
_RAW: Final = re.compile(r"raw\.githubusercontent\.com|gist\.githubusercontent\.com|raw\.github\.com")
_RAW_PATH: Final = re.compile(r"/(?:-/)?raw/")
_TEXTS: Final = (
    ".md", ".mdx", ".txt", ".rst", ".markdown", ".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".ps1", ".rb", ".pl", ".lua",
)  # fmt: skip
_SCRIPTS: Final = _TEXTS[5:]
_ARCHIVES: Final = (
    ".zip",
    ".tar.gz",
    ".tgz",
    ".tar.xz",
    ".7z",
    ".rar",
    ".deb",
    ".rpm",
    ".dmg",
    ".pkg",
    ".exe",
    ".msi",
    ".appimage",
    ".whl",
    ".jar",
)
_GETS: Final = re.compile(
    r"\b(?:curl|wget|iwr|irm|Invoke-WebRequest|Invoke-RestMethod|DownloadString|DownloadFile)\b", re.IGNORECASE
)
_PIPED: Final = re.compile(
    r"[^|;&\n]{0,60}\|\s{0,3}(?:sudo\s(?:-\w\s)?\s{0,2})?(?:env\s\S{1,40}\s)?(?:\S{0,20}/)?(?:sh|bash|zsh|dash|fish|python3?|node|deno|perl|ruby|iex|Invoke-Expression)\b(?!\s{1,3}(?:-[cmep]\b|-\w?[ne]e?\b|[\w./-]{1,60}\.\w))",
    re.IGNORECASE,
)
_FED: Final = re.compile(
    r"(?:\b(?:bash|sh|zsh|source|python3?|node)|^\.|[\s;&(]\.)\s{0,3}<\(|\b(?:eval|iex|Invoke-Expression|bash|sh|zsh|python3?)\s{0,3}(?:-c\s{0,3})?[\"']?\s{0,3}(?:\$\(|`|\(|&\s?\()",
    re.IGNORECASE,
)
_FETCH: Final = re.compile(
    r"\b(?:(?:web)?fetch(?:ing)?|load|retrieve|pull(?! request)|curl)\b[^.!?\n]{0,60}$|(?:获取|读取|抓取|加载)[^。！？\n]{0,30}$",
    re.IGNORECASE,
)
_READ: Final = re.compile(
    r"\b(?:(?:web)?fetch\w{0,3}|load|retrieve|pull|download|read|follow|open|visit|get|consult|see|refer(?: to)?|check|use|per|from|install)\b[^!?\n]{0,100}$"
    r"|(?:获取|读取|下载|打开|访问|阅读|参考|参见|查看|遵循)[^！？\n]{0,60}$",
    re.IGNORECASE,
)
_OBEY: Final = re.compile(
    r"[^!?\n]{0,40}\b(?:and|then|to)\b[^.!?\n]{0,30}\b(?:follow|obey|execute|apply|do what|act on|perform)\b", re.IGNORECASE
)
_MARKS: Final = re.compile(r"http|git|npx|bunx|pnpm|yarn|uv[x\s]|pip|npm|gh\s")  # a line without one of them fetches nothing
_MARKS_OF_BYTES: Final = re.compile(_MARKS.pattern.encode())
_CLONE: Final = re.compile(
    r"\bgit\s{1,3}(?:clone|submodule\s{1,3}add)(?:\s{1,3}-{1,2}[\w-]{1,30}(?:[= ](?!https?:|git@)[\w./-]{1,60})?){0,6}\s{1,3}(https?://[^\s\"'`<>{}$]{4,300}|git@[\w.-]{1,80}:[\w./-]{1,200})"
    r"|\bgh\s{1,3}repo\s{1,3}clone\s{1,3}([\w.-]{1,60}/[\w.-]{1,100})"
)
_CHECKOUT: Final = re.compile(r"\b(?:checkout|reset --hard|switch --detach|--revision)\b[ =]{1,3}[0-9a-f]{40}\b")
_RUNNER: Final = re.compile(
    r"\b(npx|bunx|pnpm\s{1,2}dlx|yarn\s{1,2}dlx|uvx|pipx\s{1,2}run|uv\s{1,2}tool\s{1,2}run)((?:\s{1,3}--?[\w-]{1,30}(?:=[\w@./-]{1,60})?){0,5})\s{1,3}([@\w][^\s`\"'|;&)<>]{1,100})"
)
_INSTALL: Final = re.compile(
    r"\b(pip3?\s{1,2}install|pipx\s{1,2}install|uv\s{1,2}(?:pip|tool)\s{1,2}install|npm\s{1,2}(?:install|i|add)|pnpm\s{1,2}add|yarn\s{1,2}(?:global\s{1,2})?add)\b([^\n`|;&#<>]{1,300})"
)
_NAME: Final = re.compile(r"(@[a-z0-9][\w.-]{0,60}/)?[A-Za-z][\w.-]{0,80}(\[[\w,.-]{1,60}\])?([@=<>~!^][^\s]{0,60})?")
_ONE_VERSION: Final = re.compile(r"(?:@|==)v?\d+\.\d+[\w.+-]*")
_WORDS: Final = frozenset(
    {
        "the",
        "a",
        "an",
        "and",
        "or",
        "is",
        "are",
        "it",
        "to",
        "for",
        "in",
        "with",
        "this",
        "will",
        "if",
        "these",
        "your",
        "from",
        "command",
        "commands",
        "package",
        "packages",
        "then",
        "can",
        "on",
        "of",
        "all",
    }
)


def find_late_links(folder: str | os.PathLike[str]) -> tuple[LateLink, ...]:
    """What the texts and shell scripts of a skill tell to fetch and nothing pins, each address once, at most 200.

    Files are read as the scanner reads them: up to 1 MiB each and 8 MiB together.
    """
    found: dict[str, LateLink] = {}
    for file in read_files(folder, []):
        if reading_rank(file.name) > 2 or len(found) >= _MOST_LINKS:
            break
        if not _MARKS_OF_BYTES.search(file.data.replace(b"\0", b"")):  # without NULs UTF-16 has the same letters
            continue
        for text in readings(file.name, file.data)[:1]:
            sources = (one for one in split(file.name, text) if one.language in ("markdown", "shell", "powershell", "text"))
            for link in sorted((link for source in sources for link in _links(source)), key=lambda link: link.line):
                found.setdefault(link.address, link)
    return tuple(list(found.values())[:_MOST_LINKS])


def _links(source: SourceText) -> Iterator[LateLink]:
    text = source.text.replace("\\\n", "  ") if source.language == "shell" else source.text
    start = 0
    for whole in text.split("\n"):
        line = whole[:_LONGEST_LINE]
        if _MARKS.search(line):
            for kind, address, at in _on_line(source, text, line, start):
                yield LateLink(kind, single_line(address), source.file, source.position(start + at)[0])
        start += len(whole) + 1


def _on_line(source: SourceText, text: str, line: str, start: int) -> Iterator[tuple[LinkKind, str, int]]:
    """The kind, address and offset of what one line tells to fetch."""
    cloned = set()
    for match in _CLONE.finditer(line):
        address = (match[1] or f"https://github.com/{match[2]}").rstrip(").,;:")
        cloned.add(address)
        after = text[start + match.end() : start + match.end() + 400]
        if not (_is_blank(address) or address.count("/") < 4 - 3 * address.startswith("git@") or _CHECKOUT.search(after)):
            yield "repository", address, match.start()
    for number, match in enumerate(_ADDRESS.finditer(line)):
        if number == _MOST_ON_LINE:
            return
        address = _trimmed(match[0])
        if address in cloned or line.startswith(_OPEN_END, match.end()) or _is_blank(address) or _COMMIT.search(address):
            continue
        before, behind = line[max(0, match.start() - _BEFORE) : match.start()], line[match.end() : match.end() + _BEHIND]
        checked = _CHECKED.search(text, start, start + len(line) + 300)
        kind = _kind(address, before, behind, source)
        if kind is not None and not (checked and kind != "document"):
            yield kind, address, match.start()
    yield from _packages(source, line)


def _kind(address: str, before: str, behind: str, source: SourceText) -> LinkKind | None:
    """What an address is to the reader; None when nothing says to fetch it."""
    parts = urlsplit(address)
    path = parts.path.lower()
    raw = bool(_RAW.fullmatch(parts.netloc.lower()) or _RAW_PATH.search(path))
    if _GETS.search(before):
        if _PIPED.match(behind) or _FED.search(before):
            return "script"
        if path.endswith(_ARCHIVES):
            return "archive"
        return ("script" if path.endswith(_SCRIPTS) else "document") if raw or path.endswith(_TEXTS) else None
    if source.role != "prose":
        return None
    if path.endswith(_ARCHIVES):
        return (
            "archive"
            if re.search(r"\b(?:download|install|get|unpack|extract)\b[^!?\n]{0,100}$", before, re.IGNORECASE)
            else None
        )
    instruction = _READ.search(before) if raw or path.endswith(_TEXTS) else _FETCH.search(before) or _OBEY.match(behind)
    if not instruction and not raw:
        return None
    return "script" if path.endswith(_SCRIPTS) else "document"


def _trimmed(address: str) -> str:
    address = address.rstrip(".,;:!?*_。，；：、）】」")
    while address.endswith(")") and address.count(")") > address.count("("):
        address = address[:-1].rstrip(".,;:!?*_")
    return address


def _is_blank(address: str) -> bool:
    """Whether it is only the form of an address: a placeholder, an example, this machine."""
    if address.startswith("git@"):
        return bool(_BLANKS.search(address))
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return True
    return "." not in host or len(address.rstrip("/")) < 12 or bool(_NOWHERE.fullmatch(host)) or bool(_BLANKS.search(address))


def _packages(source: SourceText, line: str) -> Iterator[tuple[LinkKind, str, int]]:
    """Packages that are run or installed in whatever version is newest; in prose only between backquotes."""
    for match in _RUNNER.finditer(line):
        if _in_code(source, line, match.start()) and (name := _unpinned(match[3])):
            index = "pypi" if match[1].startswith(("uv", "pipx")) else "npm"
            yield "package", f"{index}:{name}", match.start()
    for match in _INSTALL.finditer(line):
        if not _in_code(source, line, match.start()) or " -r" in match[2] or " -e" in match[2]:
            continue
        index = "npm" if match[1].startswith(("npm", "pnpm", "yarn")) else "pypi"
        for word in match[2].split()[:_MOST_ON_LINE]:
            if word.startswith("-"):
                continue
            if word in _WORDS or not _NAME.fullmatch(word.strip("\"'")):
                break
            if name := _unpinned(word.strip("\"'")):
                yield "package", f"{index}:{name}", match.start()


def _in_code(source: SourceText, line: str, at: int) -> bool:
    return source.role != "prose" or line.count("`", 0, at) % 2 == 1


def _unpinned(word: str) -> str:
    """The name of a package that is written without one version; empty for others."""
    match = _NAME.fullmatch(word)
    if not match or word in _WORDS or _ONE_VERSION.search(word):
        return ""
    return word[: match.start(3)] if match[3] else word
