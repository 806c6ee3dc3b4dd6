"""Obfuscation: code that is hidden from whoever reads it. Long encoded texts are decoded, and looked into like any other."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

from skillyard.scanner.finding import ScanRule
from skillyard.scanner.matching import find, pattern
from skillyard.scanner.sources import Hit, SourceText

OBFUSCATION_RULES: Final = (
    ScanRule("decoded-code", "obfuscation", "something is decoded and run at once",
         "The encoding has no use but to hide from a reader what runs.", "write the code as code", "high", "medium"),
    ScanRule("encoded-payload", "obfuscation", "encoded text holds commands or orders",
         "What a reader takes for data is something that runs, or that a model follows.", "write it in the open, or leave it out", "high"),
    ScanRule("built-name", "obfuscation", "the name of a function or module is put together from pieces",
         "It is done so that a search for the name finds nothing.", "write the name", "medium", "low"),
    ScanRule("scrambled-code", "obfuscation", "the code was made unreadable",
         "What nobody can read nobody has reviewed.", "ship the source it was made from", "medium", "low"),
    ScanRule("native-program", "obfuscation", "the file is a compiled program",
         "Nobody can see what it does.", "ship its source, or name the program as a requirement", "medium"),
    ScanRule("compiled-code", "obfuscation", "the file is compiled Python or Java",
         "It can do something else than the source beside it.", "leave it out: it is made again from the source", "medium"),
    ScanRule("not-all-read", "obfuscation", "a part of the skill was not looked into",
         "Harm can be put where nobody looks any more.", "keep large data out of the skill, or look at that part yourself", "medium"),
    ScanRule("not-scanned", "obfuscation", "a file could not be scanned in time",
         "A file that is made so that no scanner gets to its end has something to hide.", "make it smaller, or look at it yourself", "high"),
    ScanRule("not-parsed", "obfuscation", "a script cannot be read as Python, and was only searched",
         "What is found by following values is not found here.", "fix its syntax, or look at it yourself", "low"),
    ScanRule("known-test-virus", "obfuscation", "the file holds the test text that virus scanners know",
         "It does nothing, and every virus scanner stops the skill.", "leave it out", "high"),
)  # fmt: skip

_TO_SHELL: Final = r"\|\s{0,3}(?:sudo\s{1,3})?(?:/(?:usr/)?bin/)?(?:(?:ba|z|da|k)?sh\b|(?:python[0-9.]*|perl|node|ruby|php)\b(?!\s{1,3}-[cemnp]))"
_DECODES: Final = r"\b(?:base64\s{1,3}(?:-d|-D|--decode|-di)|xxd\s{1,3}-r\b|openssl\s{1,3}(?:enc|base64)\b[^\n|]{0,60}-d|uudecode|rev\b|tr\s{1,3}['\"]?[A-Za-z]-)"
_PATTERNS: Final = (
    pattern("decoded-code", rf"{_DECODES}[^\n|]{{0,200}}(?:\|[^\n|]{{0,100}}){{0,2}}{_TO_SHELL}", "base64", "xxd", "openssl", "uudecode", "rev", "tr "),
    pattern("decoded-code", rf"\b(?:eval|(?:ba|z)?sh -c|source)\s{{1,3}}[\"']?(?:<\(|\$\(|`)[^\n]{{0,300}}?{_DECODES}", "base64", "xxd", "openssl", "uudecode"),
    pattern("decoded-code", r"\b(?:exec|eval)\([^\n]{0,120}?\b(?:b64decode|fromhex|unhexlify|decompress|rot_?13|a2b_base64)\b", "exec(", "eval("),
    pattern("decoded-code", r"\b(?:eval|Function|execSync|exec|runInThisContext)\(\s{0,3}(?:atob\(|Buffer\.from\([^\n]{0,400}?[\"'](?:base64|hex)[\"']|decodeURIComponent\(escape|unescape\()", "atob", "buffer.from", "unescape", "decodeuricomponent"),
    pattern("decoded-code", r"\b(?:powershell|pwsh)(?:\.exe)?\b[^\n]{0,120}?\s-(?:e|ec|en|enc|encodedcommand)\s{1,3}[\"']?[A-Za-z0-9+/=]{16}", "powershell", "pwsh"),
    pattern("decoded-code", r"\b(?:iex|Invoke-Expression)\b[^\n]{0,160}?FromBase64String", "frombase64string"),
    pattern("scrambled-code", r"\b_0x[0-9a-f]{4,8}\b[^\n]{0,200}\b_0x[0-9a-f]{4,8}\b[^\n]{0,200}\b_0x[0-9a-f]{4,8}\b", "_0x"),
    pattern("scrambled-code", r"(?:\\x[0-9a-f]{2}){24}|(?:\\u00[0-9a-f]{2}){24}", "\\x", "\\u00"),
    pattern("scrambled-code", r"(?:\bchr\(\d{1,3}\)\s{0,3}\+\s{0,3}){8}|String\.fromCharCode\((?:\s{0,2}\d{1,3}\s{0,2},){12}", "chr(", "fromcharcode"),
    pattern("scrambled-code", r"(?:\$\{?IFS\}?[^\s]{1,20}){3}", "$ifs", "${ifs"),
    pattern("known-test-virus", r"EICAR-STANDARD-ANTIVIRUS-TEST-FILE!\$H\+H\*", "eicar"),
)  # fmt: skip
_BASE64: Final = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/_-]{40,}={0,2}(?![A-Za-z0-9+/=])")
_HEX: Final = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{2}){30,}(?![0-9A-Za-z])")
_MOST: Final = 40
_LONGEST: Final = 20_000
_MAGIC: Final[tuple[tuple[bytes, str, str], ...]] = (
    (b"\x7fELF", "native-program", "a program for Linux"),
    (b"MZ", "native-program", "a program for Windows"),
    (b"\xcf\xfa\xed\xfe", "native-program", "a program for macOS"),
    (b"\xce\xfa\xed\xfe", "native-program", "a program for macOS"),
    (b"\xca\xfe\xba\xbe", "compiled-code", "compiled Java, or a program for macOS"),
    (b"\0asm", "native-program", "a program in WebAssembly"),
)


def look_for_obfuscation(source: SourceText) -> Iterator[Hit]:
    """Code that decodes itself or was made unreadable."""
    yield from find(source, _PATTERNS)


def payloads(source: SourceText) -> Iterator[SourceText]:
    """What base64 and hexadecimal texts in the source say, where it is text, each as a text of its own line."""
    found = 0
    for expression, decode in ((_BASE64, _from_base64), (_HEX, bytes.fromhex)):
        for match in expression.finditer(source.text):
            text = _text(decode, match[0]) if len(match[0]) <= _LONGEST else None
            if text is None:
                continue
            line = source.place(match.start())[0]
            yield SourceText(source.file, text, "shell", "script", origin="in encoded text", fixed_line=line)
            found += 1
            if found == _MOST:
                return


def program_in(name: str, data: bytes) -> Hit | None:
    """What a file that is no text is, when it is a program."""
    for magic, rule, words in _MAGIC:
        if data.startswith(magic) and (magic != b"MZ" or b"PE\0\0" in data[:1024]):
            return Hit(rule, 0, f"the file is {words}", evidence=f"begins with {magic[:4]!r}")
    if name.lower().endswith((".pyc", ".pyo")):
        return Hit("compiled-code", 0, "the file is compiled Python", evidence=f"{len(data)} bytes")
    if b"EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*" in data[:4096]:
        return Hit("known-test-virus", 0, evidence="the test text of virus scanners")
    return None


def _from_base64(text: str) -> bytes:
    standard = text.replace("-", "+").replace("_", "/").rstrip("=")
    return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)


def _text(decode: object, encoded: str) -> str | None:
    try:
        data: bytes = decode(encoded) if callable(decode) else b""
        text = data.decode("utf-8")
    except (ValueError, binascii.Error):
        return None
    ordinary = sum(letter.isprintable() or letter in "\n\t\r" for letter in text)
    return text if len(text) >= 12 and ordinary >= 0.95 * len(text) else None
