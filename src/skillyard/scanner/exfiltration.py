"""Data flow in shell and JavaScript: from a secret through variables to the network. Python is read as a tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from skillyard.scanner.credentials import CREDENTIAL_FILES
from skillyard.scanner.matching import chain, find, pattern
from skillyard.scanner.rule import Rule
from skillyard.scanner.source import Hit, Source

__all__ = ["FLOW_RULES", "look_for_flows", "look_into_unparsed"]

FLOW_RULES: Final = (
    Rule("secret-to-network", "data flow", "secrets go to the network",
         "What leaves the machine cannot be called back; a key that left must be replaced everywhere.",
         "send only what the service needs, and never a whole environment or a credential file", "high", "medium"),
    Rule("key-in-body", "data flow", "a key goes into an address or into the body of a request",
         "Addresses and bodies are logged on the way; a key belongs into a header, for the one service it is for.",
         "send the key in a header of the request, to its own service only", "low", "info"),
)  # fmt: skip

_SENDER: Final = r"\b(?:curl|wget|nc|ncat|netcat|scp|sendmail|socat|http|Invoke-WebRequest|Invoke-RestMethod)\b"
_DUMP: Final = r"(?:printenv|env|set|export -p|declare -x)"
_WORDS: Final = ("curl", "wget", "nc ", "http")
_SHELL: Final = (
    chain(
        "secret-to-network",
        r"\b(?:cat|tar|base64|zip|gzip|xxd|head|tail|less)\b",
        (120, "\n;", CREDENTIAL_FILES), (160, "\n;", r"\|"), (120, "\n;", _SENDER),
        words=("|",),
    ),
    chain(
        "secret-to-network",
        _SENDER,
        (240, "\n;|", rf"(?:@|<\s{{0,2}}|--post-file[= ]|-T\s{{1,2}}|-F\s{{1,2}}\S{{0,30}}=@)[\"']?(?:~|\$\{{?HOME\}}?|/home/[^/\s]{{1,40}}|/root)?/?(?:{CREDENTIAL_FILES})"),
        words=(*_WORDS, "scp"),
    ),
    chain(
        "secret-to-network",
        _SENDER,
        (240, "\n;|", r"(?:\$\(|`)\s{0,3}(?:cat|base64|head)\b"), (120, "\n)`", CREDENTIAL_FILES),
        words=_WORDS,
    ),
    chain(
        "secret-to-network",
        r"\bscp\s",
        (100, "\n;|", CREDENTIAL_FILES), (80, "\n;|", r"\s[\w.@-]{2,80}:"),
        words=("scp",),
    ),
    pattern("secret-to-network", rf"(?:^|[;&|(]\s{{0,3}}){_DUMP}\s{{0,3}}(?:\|[^\n;|]{{0,100}}){{0,3}}\|\s{{0,3}}{_SENDER}", "env", "set", "export", "declare"),
    chain("secret-to-network", _SENDER, (240, "\n;|", rf"(?:\$\(|`)\s{{0,3}}{_DUMP}\b"), words=_WORDS),
)  # fmt: skip

_UNPARSED: Final = (
    pattern("secret-to-network", r"\b(?:requests|httpx)\.(?:post|put|get)\([^\n]{0,240}?\bos\.environ(?![.\[]\w{0,4}[(\"'])", "os.environ"),
    pattern("download-and-run", r"\b(?:exec|eval)\([^\n]{0,120}?\b(?:requests\.get|urlopen|httpx\.get)\(", "exec(", "eval("),
    pattern("runs-text-as-code", r"(?<![\w.])(?:exec|eval)\((?!\s{0,3}[\"'])", "exec(", "eval("),
)  # fmt: skip
_ASSIGNS_SHELL: Final = re.compile(
    r"(?:^|[;&]\s{0,3}|\b(?:export|local|readonly)\s)\s{0,20}([A-Za-z_]\w{0,60})=[\"']?(?:\$\(|`)([^\n]{0,300})",
    re.MULTILINE,
)
_SECRET_SHELL: Final = re.compile(rf"{CREDENTIAL_FILES}|^\s{{0,3}}{_DUMP}\s{{0,3}}(?:[|)`]|$)|\bsecurity find-", re.IGNORECASE)
_SENDS_SHELL: Final = re.compile(rf"{_SENDER}[^\n]{{0,400}}")
_JS_NAME: Final = r"(?:const|let|var)\s{1,3}\{?\s{0,3}([A-Za-z_$][\w$]{0,60})\s{0,3}\}?\s{0,3}(?::\s{0,3}[\w<>\[\], ]{1,60})?=\s{0,3}([^\n;]{0,400})"
_ASSIGNS_JS: Final = re.compile(_JS_NAME)
_SECRET_JS: Final = re.compile(
    rf"process\.env(?![.\[\w])|readFile(?:Sync)?\([^\n]{{0,160}}?(?:{CREDENTIAL_FILES})|Deno\.env\.toObject\(|keytar\.getPassword\(",
    re.IGNORECASE,
)
_SENDS_JS: Final = re.compile(
    r"(?:\bfetch\(|\baxios(?:\.\w{1,10})?\(|\bgot(?:\.\w{1,10})?\(|\b(?:https?|req|request|client|socket|ws|sock)\.(?:request|write|send|post|put|end)\(|\bsendBeacon\()"
)
_WINDOW: Final = 400  # characters behind a call that are taken for its arguments
_MOST: Final = 60
_ROUNDS: Final = 3


def look_into_unparsed(source: Source) -> Iterator[Hit]:
    """Python that has no tree: what a single line shows of it."""
    yield from find(source, _UNPARSED)


def look_for_flows(source: Source) -> Iterator[Hit]:
    """Secrets that reach the network in shell commands or JavaScript."""
    if source.language in ("shell", "powershell", "markdown", "text"):
        yield from find(source, _SHELL)
        if "$" in source.text:
            yield from _followed(source.text, _ASSIGNS_SHELL, _SECRET_SHELL, _SENDS_SHELL, r"\$\{?")
    elif source.language == "javascript":
        yield from _followed(source.text, _ASSIGNS_JS, _SECRET_JS, _SENDS_JS, r"(?<![\w$.'\"])")


def _followed(
    code: str, assigns: re.Pattern[str], secret: re.Pattern[str], sends: re.Pattern[str], prefix: str
) -> Iterator[Hit]:
    """Calls that send what a variable holds that got a secret, or got it from another such variable."""
    if not secret.search(code):
        return
    assigned = [(found[1], found[2]) for _, found in zip(range(1000), assigns.finditer(code), strict=False)]
    held = {name for name, value in assigned if secret.search(value)}
    for _ in range(_ROUNDS):
        if held and len(held) <= _MOST:
            known = _uses(held, prefix)
            held |= {name for name, value in assigned if known.search(value)}
    uses = _uses(held, prefix) if held and len(held) <= _MOST else None
    for number, call in enumerate(sends.finditer(code)):
        if number == _MOST:
            return
        given = code[call.start() : call.start() + _WINDOW]
        if (uses is not None and uses.search(given)) or (sends is _SENDS_JS and secret.search(given)):
            yield Hit("secret-to-network", call.start())
            return


def _uses(names: set[str], prefix: str) -> re.Pattern[str]:
    return re.compile(prefix + "(?:" + "|".join(re.escape(name) for name in sorted(names)) + r")\b")
