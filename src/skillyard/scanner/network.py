"""Network use: where a skill reaches, and whether it said so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from skillyard.scanner.matching import find, pattern
from skillyard.scanner.rule import Rule
from skillyard.scanner.source import Hit, Source

__all__ = ["NETWORK_RULES", "hosts_in", "look_for_network_traps", "network_use"]

NETWORK_RULES: Final = (
    Rule("undeclared-network", "network", "a script uses the network, and SKILL.md does not say so",
         "Who installs the skill expects that nothing leaves the machine.",
         "declare it: `security: {network: allowlist, network_allowlist: [HOST]}`, or say it in `compatibility`", "low", "info"),
    Rule("undeclared-host", "network", "a script reaches a host that SKILL.md does not declare",
         "The declaration says less than the script does; the sandbox will stop it.", "add the host to `network_allowlist`, or remove the call", "medium", "info"),
    Rule("collecting-service", "network", "data goes to a service that takes in anything from anybody",
         "Such addresses are made in seconds, belong to nobody, and are what stolen data is sent to.", "send to a service the user knows", "high", "low"),
    Rule("paste-service", "network", "something is fetched from or sent to a paste or file-sharing service",
         "What stands there belongs to nobody and changes without notice.", "ship it with the skill", "medium", "info"),
    Rule("numeric-address", "network", "a public address without a name is reached",
         "An address without a name says nothing about who answers.", "reach the service by its name", "medium", "low"),
    Rule("reverse-shell", "network", "a shell is connected to another machine",
         "Somebody elsewhere types commands here.", "leave it out", "high", "medium"),
    Rule("tunnel-address", "network", "a service behind a tunnel is reached",
         "Who opened the tunnel reads everything; nobody can say who that is.", "use the address of the service itself", "medium", "medium"),
    Rule("tunnel", "network", "a tunnel opens this machine to the network",
         "What listens behind it is reachable by everybody.", "let the user open it", "medium", "info"),
)  # fmt: skip

_PUBLIC: Final = r"(?!0\.|10\.|127\.|169\.254\.|172\.(?:1[6-9]|2\d|3[01])\.|192\.168\.|192\.0\.2\.|198\.51\.100\.|203\.0\.113\.|22[4-9]\.|2[3-5]\d\.|1\.1\.1\.1|8\.8\.[48]\.[48]|1\.2\.3\.4)(?:\d{1,3}\.){3}\d{1,3}"
_PATTERNS: Final = (
    pattern("collecting-service", r"\b(?:webhook\.site|requestbin\.(?:com|net|io)|(?:[\w-]{1,60}\.)?(?:oast\.(?:pro|live|site|online|fun|me)|oastify\.com|burpcollaborator\.net|interact\.sh|pipedream\.net|requestcatcher\.com|beeceptor\.com|hookb\.in|dnslog\.cn|ceye\.io|canarytokens\.(?:com|org)))\b", "webhook.site", "requestbin", "oast", "burpcollab", "interact.sh", "pipedream", "requestcatcher", "beeceptor", "hookb.in", "dnslog", "ceye.io", "canarytokens"),
    pattern("paste-service", r"https?://(?:www\.)?(?:pastebin\.com|paste\.ee|hastebin\.com|ghostbin\.\w{2,5}|rentry\.(?:co|org)|termbin\.com|transfer\.sh|0x0\.st|file\.io|anonfiles\.com|gofile\.io|ix\.io|dpaste\.\w{2,4}|glot\.io)\b", "paste", "bin.", "rentry", "transfer.sh", "0x0.st", "file.io", "anonfiles", "gofile", "ix.io", "glot.io"),
    pattern("paste-service", r"\bdiscord(?:app)?\.com/api/webhooks/\d{5}", "api/webhooks/"),
    pattern("numeric-address", rf"\b(?:https?|ftp|wss?)://(?:[^\s/@\"']{{1,60}}@)?{_PUBLIC}(?![\d.])", "://"),
    pattern("reverse-shell", r"/dev/(?:tcp|udp)/[^\s/\"']{1,80}/[\d$]", "/dev/tcp/", "/dev/udp/"),
    pattern("reverse-shell", r"\b(?:nc|ncat|netcat)\b[^\n]{0,80}?\s(?:-\w{0,4}[ec]|--exec|--sh-exec)\s{1,3}[\"']?(?:/bin/|cmd|powershell|(?:ba|z)?sh\b)", "nc", "netcat"),
    pattern("reverse-shell", r"\bmkfifo\b[^\n]{1,120}?\|\s{0,3}(?:/bin/)?(?:ba)?sh\b[^\n]{0,80}?\|\s{0,3}(?:nc|ncat|telnet|openssl)\b", "mkfifo"),
    pattern("reverse-shell", r"\bsocat\b[^\n]{0,120}?\bEXEC:", "socat"),
    pattern("reverse-shell", r"\bos\.dup2\([^\n]{0,60}?fileno\(\)", "os.dup2"),
    pattern("reverse-shell", r"\bNew-Object\s{1,3}(?:System\.)?Net\.Sockets\.TCPClient\(", "tcpclient"),
    pattern("tunnel-address", r"://[\w.-]{1,80}\.(?:ngrok(?:-free)?\.(?:io|app|dev)|trycloudflare\.com|serveo\.net|localhost\.run|loca\.lt|lhr\.life|pagekite\.me)\b", "ngrok", "trycloudflare", "serveo", "localhost.run", "loca.lt", "lhr.life", "pagekite"),
    pattern("tunnel", r"(?:^|[;&|$`]\s{0,3})(?:ngrok (?:http|tcp)|cloudflared tunnel|bore local|lt --port|localtunnel)\b|\bssh\b[^\n]{0,60}?\s-R\s{0,2}\d", "ngrok", "cloudflared", "bore ", "lt --port", "localtunnel", "ssh"),
)  # fmt: skip
_HOST: Final = re.compile(r"\bhttps?://([A-Za-z0-9][A-Za-z0-9.-]{0,252}\.[A-Za-z]{2,24})(?=[:/?#\"'`\s)>\]]|$)")
_USE: Final = {
    "shell": re.compile(r"(?:^|[;&|(`]|\b(?:sudo|then|do|if|!))\s{0,20}(?:curl|wget|nc|ncat|scp|rsync|sftp|ftp|telnet)\s+[\w\"'$@-]", re.MULTILINE),
    "javascript": re.compile(r"(?<![\w.])fetch\(|\baxios\b\s{0,2}[.(]|\bhttps?\.(?:request|get)\(|\bnew WebSocket\(|\brequire\([\"'](?:node:)?(?:https?|net|dgram|tls|axios|got|node-fetch|ws)[\"']\)"),
    "powershell": re.compile(r"\b(?:Invoke-WebRequest|Invoke-RestMethod|iwr|irm|Net\.WebClient|Start-BitsTransfer)\b", re.IGNORECASE),
}  # fmt: skip
_NO_HOSTS: Final = re.compile(
    r"(?:^|\.)(?:localhost|local|test|invalid|example|example\.(?:com|org|net)|w3\.org|schemas\.\w+\.\w+|json-schema\.org|xmlsoap\.org|openxmlformats\.org|purl\.org)$",
    re.IGNORECASE,
)


def look_for_network_traps(source: Source) -> Iterator[Hit]:
    """Addresses and connections that have no good use in a skill."""
    yield from find(source, _PATTERNS)


def network_use(source: Source) -> int | None:
    """Where a script in shell or JavaScript first uses the network; None when it does not."""
    expression = _USE.get(source.language)
    found = expression.search(source.text) if expression else None
    return found.start() if found else None


def hosts_in(text: str) -> Iterable[tuple[str, int]]:
    """Every host that addresses in a script name, with the offset of the first; names of schemas do not count."""
    seen: dict[str, int] = {}
    for found in _HOST.finditer(text):
        host = found[1].lower().rstrip(".")
        if not _NO_HOSTS.search(host):
            seen.setdefault(host, found.start())
    return seen.items()
