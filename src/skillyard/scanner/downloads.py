"""Download and run: code that comes from elsewhere at the moment it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from skillyard.scanner.matching import chain, find, pattern
from skillyard.scanner.rule import Rule
from skillyard.scanner.source import Hit, Source

__all__ = ["DOWNLOAD_RULES", "look_for_downloads"]

DOWNLOAD_RULES: Final = (
    Rule(
        "download-and-run",
        "download and run",
        "something is fetched and handed straight to an interpreter",
        "What runs is whatever the other side sends at that moment; no review has seen it.",
        "ship the script with the skill, or fetch a version whose hash is checked",
        "high",
        "medium",
    ),
    Rule(
        "download-then-run",
        "download and run",
        "a file is fetched and then run",
        "The file can change after the skill was reviewed.",
        "check its hash before it is run, or ship it with the skill",
        "high",
        "low",
    ),
    Rule(
        "known-installer",
        "download and run",
        "the installer of a well-known tool is fetched and run",
        "It is the way the tool's makers describe, and still code from elsewhere.",
        "name the tool as a requirement and let the user install it",
        "low",
        "info",
    ),
    Rule(
        "install-from-address",
        "download and run",
        "a package is installed from an address or an index of its own",
        "It passes by the registry, its reviews and its names; the address can serve something else tomorrow.",
        "install from the registry, at a fixed version",
        "medium",
        "low",
    ),
    Rule(
        "runs-unpinned-package",
        "download and run",
        "a package is fetched and run at whatever version there is",
        "Whoever takes over the package runs code here.",
        "give the version, as in `npx name@1.2.3`",
        "low",
        "info",
    ),
)

_FETCH: Final = r"\b(?:curl|wget|aria2c|lwp-download)\b"
_INTERPRETER: Final = r"(?:(?:/usr)?/bin/(?:env )?)?(?:ba|z|da|k|fi|c)?sh\b|python[0-9.]*\b(?! -m json)|node\b|perl\b|ruby\b|php\b|osascript\b|iex\b|xargs (?:ba|z)?sh\b"
_SHELL: Final = (
    chain(  # what follows the first pipe is only looked at: another command may begin in it
        "download-and-run",
        rf"{_FETCH}[^\n|]",
        (299, "\n|", rf"\|(?=(?:[^\n|;]{{0,60}}\|){{0,2}}\s{{0,3}}(?:sudo (?:-\w+ )?)?(?:{_INTERPRETER})(?! -c))"),
        words=("curl", "wget", "aria2c", "lwp-download"),
    ),
    pattern("download-and-run", r"\b(?:(?:ba|z|da|k)?sh|source|python[0-9.]*|\.) {0,3}(?:-\w )?<\( {0,3}(?:curl|wget|fetch)\b", "<(curl", "<( curl", "<(wget", "<( wget", "<(fetch"),
    pattern("download-and-run", r"\b(?:eval|(?:ba|z|da|k)?sh -\w{0,3}c|python[0-9.]* -c|node -e) {0,3}[\"']?(?:\$\(|`) {0,3}(?:curl|wget|fetch)\b", "curl", "wget", "fetch"),
    pattern("download-and-run", r"\b(?:iex|Invoke-Expression)\b[^\n]{0,80}?(?:DownloadString|Invoke-WebRequest|iwr|irm|Invoke-RestMethod|curl)\b", "iex", "invoke-expression"),
    pattern("download-and-run", r"(?:DownloadString|Invoke-WebRequest|iwr|irm|Invoke-RestMethod)\b[^\n]{0,200}?\| {0,3}(?:iex|Invoke-Expression)\b", "downloadstring", "invoke-webrequest", "iwr", "irm", "invoke-restmethod"),
    pattern("download-and-run", r"\b(?:mshta|regsvr32|rundll32|certutil|bitsadmin)\b[^\n]{0,120}?https?://", "mshta", "regsvr32", "rundll32", "certutil", "bitsadmin"),
    pattern("install-from-address", r"\b(?:pip3?|uv pip|pipx|python[0-9.]* -m pip) install\b[^\n#]{0,160}?(?:git\+|https?://(?!pypi\.org)|--(?:extra-)?index-url|--trusted-host| -i http)", "install"),
    pattern("install-from-address", r"\b(?:npm|pnpm|yarn|bun) (?:i|install|add)\b[^\n#]{0,160}?(?:git\+|https?://(?!registry\.npmjs\.org)|--registry[= ])", "npm", "yarn", "bun"),
    pattern("install-from-address", r"\b(?:npx|bunx|uvx|pnpx|pnpm dlx|yarn dlx)\b[^\n#]{0,80}?(?:git\+|github:|https?://)", "npx", "bunx", "uvx", "pnpx", "dlx"),
    pattern("install-from-address", r"\b(?:apt-key add|gpg --dearmor|add-apt-repository|rpm -i https?:|dpkg -i /tmp)\b", "apt-key", "add-apt", "rpm -i", "dpkg -i"),
    pattern("runs-unpinned-package", r"\b(?:npx|bunx|uvx|pnpx|pnpm dlx|yarn dlx) (?:--?\w[\w-]* ){0,3}(?!--?)@?[\w.-]{2,60}(?:/[\w.-]{1,60})?(?![\w./@-])", "npx", "bunx", "uvx", "pnpx", "dlx"),
)  # fmt: skip
_KNOWN: Final = re.compile(
    r"https://(?:astral\.sh/uv|sh\.rustup\.rs|get\.docker\.com|bun\.sh/install|deno\.land/(?:x/)?install|install\.python-poetry\.org"
    r"|get\.pnpm\.io|claude\.ai/install|cli\.inference\.sh|starship\.rs|fnm\.vercel\.app|get\.sdkman\.io|nixos\.org/nix"
    r"|raw\.githubusercontent\.com/(?:Homebrew|nvm-sh|ohmyzsh|helm|pyenv|k3d-io|aquasecurity|anchore|golangci)/|get\.helm\.sh|pixi\.sh|foundry\.paradigm\.xyz"
    r"|deb\.nodesource\.com|get\.k3s\.io|ollama\.(?:com|ai)/install|tailscale\.com/install|get\.volta\.sh|fly\.io/install|cli\.github\.com|aka\.ms/)"
)
_SAVED: Final = re.compile(
    r"\b(?:curl|wget)\b[^\n]{0,200}?(?=[ >-])(?: -o|-O|--output|--output-document|>)[ =]{0,2}[\"']?([\w./~${}-]{2,120})"
)
_VERIFIES: Final = re.compile(r"sha\d{1,4}sum|gpg --verify|cosign")
_MOST: Final = 10


def look_for_downloads(source: Source) -> Iterator[Hit]:
    """Fetching and running in shell, in any text that holds commands."""
    for hit in find(source, _SHELL):
        line = source.text[hit.offset : hit.offset + 400].partition("\n")[0]
        yield Hit("known-installer", hit.offset) if hit.rule == "download-and-run" and _KNOWN.search(line) else hit
    if "curl" in source.lower or "wget" in source.lower:
        yield from _saved_and_run(source.text)


def _saved_and_run(code: str) -> Iterator[Hit]:
    """A file that one line saves and a later one makes executable, runs or sources."""
    for number, saved in enumerate(_SAVED.finditer(code)):
        name = saved[1].rstrip("\"';&")
        if number == _MOST:
            return
        if name in ("-", "/dev/null") or _KNOWN.search(saved[0]):
            continue
        after = code[saved.end() : saved.end() + 3000]
        if _runs(name).search(after) and not _VERIFIES.search(after):
            yield Hit("download-then-run", saved.start(), f"{name[:60]} is fetched and then run")


def _runs(name: str) -> re.Pattern[str]:
    """What makes a saved file executable, runs or sources it."""
    escaped = re.escape(name)
    return re.compile(
        rf"\b(?:ba|z|da)?sh (?:-\w+ )?[\"']?{escaped}|\bchmod [^\n]{{0,12}}[\"']?{escaped}|\bpython[0-9.]* [\"']?{escaped}"
        rf"|\bsource [\"']?{escaped}|^[ \t]*(?:sudo )?(?:\./)?{escaped}(?: |$)",
        re.MULTILINE,
    )
