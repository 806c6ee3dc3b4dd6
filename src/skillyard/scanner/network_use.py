"""Network use: hosts that are reached, code that is downloaded and run, secrets that flow to the network.

Patterns for JavaScript, shell and PowerShell; Python is read as a tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from skillyard.scanner.dangerous_commands import CREDENTIAL_FILES, PUBLIC_ADDRESS
from skillyard.scanner.finding import ScanRule
from skillyard.scanner.matching import chain, find, pattern
from skillyard.scanner.prerequisites import ANYBODYS_HOST, BARE_ADDRESS, SHORTENER, SNIPPET_HOST
from skillyard.scanner.source_texts import Hit, SourceText

NETWORK_RULES: Final = (
    ScanRule("undeclared-network", "network", "a script uses the network, and SKILL.md does not say so",
         "Users who install the skill expect that nothing leaves the machine.",
         "declare it: `security: {network: allowlist, network_allowlist: [HOST]}`, or say it in `compatibility`", "low", "info"),
    ScanRule("undeclared-host", "network", "a script reaches a host that SKILL.md does not declare",
         "The declaration says less than the script does; the sandbox will stop it.", "add the host to `network_allowlist`, or remove the call", "medium", "info"),
    ScanRule("collecting-service", "network", "data is sent to a service that collects requests from anybody",
         "Such addresses are created anonymously in seconds and are used to receive stolen data.", "send to a service the user knows", "high", "low"),
    ScanRule("paste-service", "network", "a paste or file-sharing service is used",
         "Its content has no known owner and can change without notice.", "ship the content with the skill", "medium", "info"),
    ScanRule("numeric-address", "network", "a public IP address is contacted directly",
         "An IP address does not show who operates the server.", "use the host name of the service", "medium", "medium"),
    ScanRule("reverse-shell", "network", "a shell is connected to another machine",
         "Somebody else can then run commands on this machine.", "remove it", "high", "medium"),
    ScanRule("hidden-address", "network", "an address is encoded and decoded before it is contacted",
         "The encoding only hides from a reader who gets the data.", "write the address", "high", "medium"),
    ScanRule("tunnel-address", "network", "a service behind a tunnel is contacted",
         "The unknown operator of the tunnel can read everything.", "use the address of the service itself", "medium", "medium"),
    ScanRule("tunnel", "network", "a tunnel opens this machine to the network",
         "Everybody can reach the service behind it.", "let the user open it", "medium", "info"),
)  # fmt: skip

_CONTACT_PATTERNS: Final = (
    pattern("collecting-service", r"\b(?:webhook\.site|requestbin\.(?:com|net|io)|(?:[\w-]{1,60}\.)?(?:oast\.(?:pro|live|site|online|fun|me)|oastify\.com|burpcollaborator\.net|interact\.sh|pipedream\.net|requestcatcher\.com|beeceptor\.com|hookb\.in|dnslog\.cn|ceye\.io|canarytokens\.(?:com|org)))\b(?! [\w-]{1,40}\.(?:com|io|net|org|site|me|sh)\b)", "webhook.site", "requestbin", "oast", "burpcollab", "interact.sh", "pipedream", "requestcatcher", "beeceptor", "hookb.in", "dnslog", "ceye.io", "canarytokens"),
    pattern("paste-service", r"https?://(?:www\.)?(?:pastebin\.com|paste\.ee|hastebin\.com|ghostbin\.\w{2,5}|rentry\.(?:co|org)|termbin\.com|transfer\.sh|0x0\.st|file\.io|anonfiles\.com|gofile\.io|ix\.io|dpaste\.\w{2,4}|glot\.io)\b", "paste", "bin.", "rentry", "transfer.sh", "0x0.st", "file.io", "anonfiles", "gofile", "ix.io", "glot.io"),
    pattern("paste-service", r"\bdiscord(?:app)?\.com/api/webhooks/\d{5}", "api/webhooks/"),
    pattern("numeric-address", rf"\b(?:https?|ftp|wss?)://(?:[^\s/@\"']{{1,60}}@)?{PUBLIC_ADDRESS}(?![\d.])", "://"),
    pattern("reverse-shell", r"/dev/(?:tcp|udp)/[^\s/\"']{1,80}/[\d$]", "/dev/tcp/", "/dev/udp/"),
    pattern("reverse-shell", r"\b(?:nc|ncat|netcat)\b[^\n]{0,80}?\s(?:-\w{0,4}[ec]|--exec|--sh-exec)\s{1,3}[\"']?(?:/bin/|cmd|powershell|(?:ba|z)?sh\b)", "nc", "netcat"),
    pattern("reverse-shell", r"\b(?:nc|ncat|netcat)\b[^\n|]{0,60}?\s-\w{0,4}l\w{0,4}\b[^\n|]{0,60}?\|\s{0,3}(?:/bin/)?(?:ba|z)?sh\b", "nc", "netcat"),
    pattern("reverse-shell", r"\bmkfifo\b[^\n]{1,120}?\|\s{0,3}(?:/bin/)?(?:ba)?sh\b[^\n]{0,80}?\|\s{0,3}(?:nc|ncat|telnet|openssl)\b", "mkfifo"),
    pattern("reverse-shell", r"\bsocat\b[^\n]{0,120}?\bEXEC:", "socat"),
    pattern("reverse-shell", r"\bos\.dup2\([^\n]{0,60}?fileno\(\)", "os.dup2"),
    pattern("reverse-shell", r"\bNew-Object\s{1,3}(?:System\.)?Net\.Sockets\.TCPClient\(", "tcpclient"),
    pattern("tunnel-address", r"://(?!(?:abc\d{2,6}|xyz|x{3,}|your[\w-]{0,30}|my-?\w{0,20}|example|random|subdomain)[.-])[\w.-]{1,80}\.(?:ngrok(?:-free)?\.(?:io|app|dev)|trycloudflare\.com|serveo\.net|localhost\.run|loca\.lt|lhr\.life|pagekite\.me|zrok\.io|pinggy\.link|playit\.gg|localxpose\.io|loclx\.io)\b|://bore\.pub:\d", "bore.pub", "zrok", "pinggy", "playit", "localxpose", "loclx", "ngrok", "trycloudflare", "serveo", "localhost.run", "loca.lt", "lhr.life", "pagekite"),
    pattern("tunnel", r"(?:^|[;&|$`]\s{0,3})(?:ngrok (?:http|tcp)|cloudflared tunnel|bore local|lt --port|localtunnel)\b|\bssh\b[^\n]{0,60}?\s-R\s{0,2}\d", "ngrok", "cloudflared", "bore ", "lt --port", "localtunnel", "ssh"),
)  # fmt: skip
_ANYBODY: Final = re.compile(
    r"\b(?:ATTACKER|YOUR|MY|LISTENER|LHOST|RHOST|KALI)(?:[-_]?(?:IP|HOST|ADDR\w{0,5}))?\b|\b1\.2\.3\.4\b|\b(?:10|192\.168)\.\d|<[A-Za-z][\w -]{1,20}>"
)
"""What explanations of an attack write in place of the attacker's address."""
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


def network_use(source: SourceText) -> int | None:
    """Where a script in shell or JavaScript first uses the network; None when it does not."""
    expression = _USE.get(source.language)
    match = expression.search(source.text) if expression else None
    return match.start() if match else None


def hosts_in(text: str) -> Iterable[tuple[str, int]]:
    """Every host that addresses in a script name, with the offset of the first; names of schemas do not count."""
    seen: dict[str, int] = {}
    for match in _HOST.finditer(text):
        host = match[1].lower().rstrip(".")
        if not _NO_HOSTS.search(host):
            seen.setdefault(host, match.start())
    return seen.items()


DOWNLOAD_RULES: Final = (
    ScanRule("download-and-run", "download and run", "a download is passed straight to an interpreter",
         "The server decides what runs; nobody has reviewed it.",
         "ship the script with the skill, or fetch a version whose hash is checked", "high", "medium"),
    ScanRule("download-then-run", "download and run", "a file is downloaded and then run",
         "The file can change after the skill was reviewed.", "check its hash before it is run, or ship the content with the skill", "high", "low"),
    ScanRule("known-installer", "download and run", "the installer of a well-known tool is downloaded and run",
         "It is the documented way to install the tool, and still runs remote code.", "name the tool as a requirement and let the user install it", "low", "info"),
    ScanRule("install-from-address", "download and run", "a package is installed from an address or from another index",
         "It bypasses the registry and its reviews; the address can serve something else tomorrow.",
         "install from the registry, at a fixed version", "medium", "low"),
    ScanRule("runs-unpinned-package", "download and run", "a package is downloaded and run without a pinned version",
         "Whoever takes over the package can run code on this machine.", "give the version, as in `npx name@1.2.3`", "low", "info"),
)  # fmt: skip

_FETCH: Final = r"\b(?:curl|wget|aria2c|lwp-download)\b"
_INTERPRETER: Final = r"(?:(?:/usr)?/bin/(?:env )?)?(?:ba|z|da|k|fi|c)?sh\b|python[0-9.]*\b(?! -m json)|node\b|perl\b|ruby\b|php\b|osascript\b|iex\b|xargs (?:ba|z)?sh\b"
_DOWNLOAD_PATTERNS: Final = (
    chain(  # what follows the first pipe is a lookahead: another command may begin in it
        "download-and-run",
        rf"{_FETCH}[^\n|]",
        (299, "\n|", rf"\|(?=(?:[^\n|;]{{0,60}}\|){{0,2}}\s{{0,3}}(?:sudo (?:-\w+ )?)?(?:{_INTERPRETER})(?! -c))"),
        words=("curl", "wget", "aria2c", "lwp-download"),
    ),
    pattern("download-and-run", r"\b(?:(?:ba|z|da|k)?sh|source|python[0-9.]*|\.) {0,3}(?:-\w )?<\( {0,3}(?:curl|wget|fetch)\b", "<(curl", "<( curl", "<(wget", "<( wget", "<(fetch"),
    pattern("download-and-run", r"\b(?:eval|(?:ba|z|da|k)?sh -\w{0,3}c|python[0-9.]* -c|node -e) {0,3}[\"']?(?:\$\(|`) {0,3}(?:curl|wget|fetch)\b", "curl", "wget", "fetch"),
    pattern("download-and-run", r"\b(?:iex|Invoke-Expression)\b[^\n]{0,80}?(?:DownloadString|Invoke-WebRequest|iwr|irm|Invoke-RestMethod|curl)\b", "iex", "invoke-expression"),
    pattern("download-and-run", r"(?:DownloadString|Invoke-WebRequest|iwr|irm|Invoke-RestMethod)\b[^\n]{0,200}?\| {0,3}(?:iex|Invoke-Expression)\b", "downloadstring", "invoke-webrequest", "iwr", "irm", "invoke-restmethod"),
    pattern("download-and-run", r"\b(?:mshta|regsvr32|rundll32|certutil|bitsadmin)\b[^\n]{0,120}?https?://[\w$%{<]", "mshta", "regsvr32", "rundll32", "certutil", "bitsadmin"),
    pattern("install-from-address", r"\b(?:pip3?|uv pip|pipx|python[0-9.]* -m pip) install\b[^\n#]{0,160}?(?:git\+|(?<!index-url )(?<!index-url=)https?://(?!pypi\.org)|--(?:extra-)?index-url[ =]{1,2}(?!https://download\.pytorch\.org|https://pypi\.nvidia\.com)|--trusted-host| -i http)", "install"),
    pattern("install-from-address", r"\b(?:npm|pnpm|yarn|bun) (?:i|install|add)\b[^\n#]{0,160}?(?:git\+|https?://(?!registry\.npmjs\.org)|--registry[= ])", "npm", "yarn", "bun"),
    pattern("install-from-address", r"\b(?:npx|bunx|uvx|pnpx|pnpm dlx|yarn dlx)\b[^\n#]{0,80}?(?:git\+|github:|https?://)", "npx", "bunx", "uvx", "pnpx", "dlx"),
    pattern("install-from-address", r"\b(?:apt-key add|gpg --dearmor|add-apt-repository|rpm -i https?:|dpkg -i /tmp)\b", "apt-key", "add-apt", "rpm -i", "dpkg -i"),
    pattern("runs-unpinned-package", r"\b(?:npx|bunx|uvx|pnpx|pnpm dlx|yarn dlx) (?:--?\w[\w-]* ){0,3}(?!--?)@?[\w.-]{2,60}(?:/[\w.-]{1,60})?(?![\w./@-])", "npx", "bunx", "uvx", "pnpx", "dlx"),
)  # fmt: skip
_FETCHES_NOTHING: Final = re.compile(r"(?:curl|wget)(?: {1,3}(?:-{1,2}[\w-]{1,30}|\.{2,3}|…)){0,8} {0,3}\\?\|")
"""A download without an address: what it is called, and no command."""
_KNOWN: Final = re.compile(
    r"https://(?:astral\.sh/uv|sh\.rustup\.rs|get\.docker\.com|bun\.sh/install|deno\.land/(?:x/)?install|install\.python-poetry\.org"
    r"|get\.pnpm\.io|claude\.ai/install|cli\.inference\.sh|starship\.rs|fnm\.vercel\.app|get\.sdkman\.io|nixos\.org/nix"
    r"|raw\.githubusercontent\.com/(?:Homebrew|nvm-sh|ohmyzsh|helm|pyenv|k3d-io|aquasecurity|anchore|golangci)/|get\.helm\.sh|pixi\.sh|foundry\.paradigm\.xyz"
    r"|deb\.nodesource\.com|get\.k3s\.io|ollama\.(?:com|ai)/install|tailscale\.com/install|get\.volta\.sh|fly\.io/install|cli\.github\.com|aka\.ms/)"
)
_SAVED: Final = re.compile(
    r"\b(?:curl|wget)\b[^\n]{0,200}?(?=[ >-])(?: -o|-O|--output|--output-document|>)[ =]{0,2}[\"']?([\w./~${}-]{2,120})"
)
_SAVED_AS_NAMED: Final = re.compile(
    r"\b(?:curl\b[^\n;|&]{0,80}? -\w{0,6}O\w{0,3}|wget)\b[^\n;|&]{0,120}?https?://[^\s\"';|&]{1,160}/([\w.-]{2,80})(?=[\s\"';|&]|$)"
)
_VERIFIES: Final = re.compile(r"sha\d{1,4}sum|gpg --verify|cosign")
_ADDRESS: Final = re.compile(r"\b(?:https?|ftp)://[^\s\"'`|)]{1,200}", re.IGNORECASE)
_OWNERLESS: Final = re.compile(
    rf"(?!https://)|https://(?:[^\s/@]{{1,60}}@)?(?:{ANYBODYS_HOST}|{SNIPPET_HOST}|{SHORTENER}|{BARE_ADDRESS})", re.IGNORECASE
)
"""Addresses that are not protected on the way, or that anybody can have."""
_MOST_SAVED_FILES: Final = 10


def find_contacts(source: SourceText) -> Iterator[Hit]:
    """Hosts that have no owner, and shells that are connected to one; less where a text leaves open which."""
    for hit in find(source, _CONTACT_PATTERNS):
        explained = hit.rule == "reverse-shell" and source.role != "script" and _ANYBODY.search(source.line_at(hit.offset))
        yield replace(hit, relief=hit.relief + 1) if explained else hit


def downloads_from_owner(command: str) -> bool:
    """Whether somebody answers for what a command downloads: a well-known tool, or whoever has the names of the hosts."""
    return _KNOWN.search(command) is not None or _from_named_hosts(command)


def find_downloads(source: SourceText) -> Iterator[Hit]:
    """Fetching and running in shell, in any text that holds commands."""
    for hit in find(source, _DOWNLOAD_PATTERNS):
        line = source.text[hit.offset : hit.offset + 400].partition("\n")[0]
        if hit.rule == "download-and-run" and _FETCHES_NOTHING.match(line):
            continue
        if hit.rule == "download-and-run" and _KNOWN.search(line):
            yield Hit("known-installer", hit.offset)
        elif (
            hit.rule == "download-and-run"
            and not source.origin
            and _from_named_hosts(line)
            and not _updates(source, hit.offset)
        ):
            yield replace(hit, relief=hit.relief + 1)
        else:
            yield hit
    if "curl" in source.lower or "wget" in source.lower:
        yield from _saved_and_run(source.text)


_UPDATES: Final = re.compile(r"\b(?:auto|self)[ _-]?updat|\bcheck for updates\b", re.IGNORECASE)
_COMMENT_BEFORE: Final = 160


def _updates(source: SourceText, offset: int) -> bool:
    """Whether it is the skill that fetches itself anew, and no tool that is installed once."""
    return _UPDATES.search(source.commented or source.text, max(0, offset - _COMMENT_BEFORE), offset) is not None


def _from_named_hosts(line: str) -> bool:
    """Whether all that a line downloads comes over TLS from hosts with a name and an owner."""
    addresses = _ADDRESS.findall(line)
    return bool(addresses) and not any(_OWNERLESS.match(address) for address in addresses)


def _saved_and_run(code: str) -> Iterator[Hit]:
    """A file that one line saves and a later one makes executable, runs or sources."""
    for number, saved in enumerate((*_SAVED.finditer(code), *_SAVED_AS_NAMED.finditer(code))):
        name = saved[1].rstrip("\"';&")
        if number == _MOST_SAVED_FILES:
            return
        if name in ("-", "/dev/null") or _KNOWN.search(saved[0]):
            continue
        after = code[saved.end() : saved.end() + 3000]
        if _runs(name).search(after) and not _VERIFIES.search(after):
            yield Hit("download-then-run", saved.start(), f"{name[:60]} is downloaded and then run")


def _runs(name: str) -> re.Pattern[str]:
    """What makes a saved file executable, runs or sources it."""
    escaped = re.escape(name)
    return re.compile(
        rf"\b(?:ba|z|da)?sh (?:-\w+ )?[\"']?{escaped}|(?:^|[;&|][ \t]{{0,3}})\.[ \t]{{1,3}}[\"']?{escaped}|\bchmod [^\n]{{0,12}}[\"']?{escaped}|\bpython[0-9.]* [\"']?{escaped}"
        rf"|\bsource [\"']?{escaped}|^[ \t]*(?:sudo )?(?:\./)?{escaped}(?: |$)",
        re.MULTILINE,
    )


FLOW_RULES: Final = (
    ScanRule("secret-to-network", "data flow", "secrets are sent over the network",
         "Data that has left the machine cannot be recalled; a leaked key must be replaced everywhere.",
         "send only what the service needs, and never a whole environment or a credential file", "high", "medium"),
    ScanRule("machine-details-sent", "data flow", "names and addresses of the machine or the user are sent over the network",
         "They tell whoever receives them which machine can be attacked, and that somebody follows the text.", "send nothing of the machine that the service does not need", "medium", "medium"),
    ScanRule("data-in-names", "data flow", "data is put into host names that are looked up",
         "The lookup carries it past firewalls and proxies to whoever has the domain.", "send data over HTTPS, to a host that is named", "high", "medium"),
    ScanRule("key-in-body", "data flow", "a key is put into the address or the body of a request",
         "Addresses and bodies are logged on the way; a key belongs in a header, and only to its own service.",
         "send the key in a header of the request, to its own service only", "low", "info"),
)  # fmt: skip

_SENDER: Final = r"\b(?:curl|wget|nc|ncat|netcat|scp|sendmail|socat|http|Invoke-WebRequest|Invoke-RestMethod)\b"
_DUMP: Final = r"(?:printenv|env|set|export -p|declare -x)"
_WORDS: Final = ("curl", "wget", "nc ", "http")
_SHELL_FLOW_PATTERNS: Final = (
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
    chain(
        "secret-to-network",
        r"\b(?:dig|nslookup|host|ping)\b",
        (120, "\n;|", r"(?:\$\(|`)"), (80, "\n)`", r"\b(?:base64|xxd|od|printenv|env)\b"),
        words=("dig", "nslookup", "host", "ping"),
    ),
    chain("machine-details-sent", _SENDER, (240, "\n|", r"(?:\$\(|`)\s{0,3}(?:uname|whoami|hostname|id|ifconfig|ip a(?:ddr)?|lscpu|sw_vers|systeminfo)\b(?! -s)"), words=("curl", "wget", "nc ")),
    pattern("data-in-names", r"(?<![\w-])(?:nslookup|dig|host|ping)\s[^\n|;@]{0,40}?(?<![\w.])\$\{?(?!domain|host|name|zone|sub|prefix|env|1)\w{1,40}\}?\.(?!\$)[a-z0-9-]{1,40}\.[a-z]", "nslookup", "dig", "host", "ping"),
    pattern("secret-to-network", rf"(?:^[ \t]{{0,40}}|[;&|(]\s{{0,3}}){_DUMP}\s{{0,3}}(?:\|[^\n;|]{{0,100}}){{0,3}}\|\s{{0,3}}{_SENDER}", "env", "set", "export", "declare"),
    chain("secret-to-network", _SENDER, (240, "\n;|", rf"(?:\$\(|`)\s{{0,3}}{_DUMP}\b"), words=_WORDS),
)  # fmt: skip

UNPARSED_PYTHON_PATTERNS: Final = (
    pattern("secret-to-network", r"\b(?:requests|httpx)\.(?:post|put|get)\([^\n]{0,240}?\bos\.environ(?![.\[]\w{0,4}[(\"'])", "os.environ"),
    pattern("download-and-run", r"\b(?:exec|eval)\([^\n]{0,120}?\b(?:requests\.get|urlopen|httpx\.get)\(", "exec(", "eval("),
    pattern("runs-text-as-code", r"(?<![\w.])(?:exec|eval)\((?!\s{0,3}[\"'])", "exec(", "eval("),
)  # fmt: skip
_ASSIGNS_SHELL: Final = re.compile(
    r"(?:^|[;&]\s{0,3}|\b(?:export|local|readonly)\s)\s{0,20}([A-Za-z_]\w{0,60})=[\"']?(?:\$\(|`)([^\n]{0,300})",
    re.MULTILINE,
)
_SECRET_SHELL: Final = re.compile(
    rf"{CREDENTIAL_FILES}|\b(?:tar|zip|cat|cp)\b[^\n]{{0,60}}[/~]\.(?:ssh|aws|gnupg)/|^\s{{0,3}}{_DUMP}\s{{0,3}}(?:[|)`]|$)|\bsecurity find-",
    re.IGNORECASE,
)
_SENDS_SHELL: Final = re.compile(rf"{_SENDER}[^\n]{{0,600}}")
_JS_NAME: Final = (
    r"(?:const|let|var)\s{1,3}\{?\s{0,3}([A-Za-z_$][\w$]{0,60})\s{0,3}\}?\s{0,3}(?::[^=\n;]{1,80})?=\s{0,3}([^\n;]{0,400})"
)
_ASSIGNS_JS: Final = re.compile(_JS_NAME)
_SECRET_JS: Final = re.compile(
    rf"process\.env(?![.\[\w])|readFile(?:Sync)?\([^\n]{{0,160}}?(?:{CREDENTIAL_FILES})|Deno\.env\.toObject\(|keytar\.getPassword\(",
    re.IGNORECASE,
)
_SECRET_PATH_JS: Final = re.compile(
    rf"[\"'`/](?:{CREDENTIAL_FILES}|\.(?:openclaw|clawdbot|moltbot)/(?:\w+\.json|credentials|\.env)|auth-profiles\.json|\.claude\.json\b)",
    re.IGNORECASE,
)
_READS_JS: Final = re.compile(r"\breadFile(?:Sync)?\(|\bcreateReadStream\(|\bDeno\.readTextFile\w{0,4}\(|\bBun\.file\(")
_HARVESTS_JS: Final = re.compile(
    r"\bObject\.(?:entries|keys)\(\s{0,3}process\.env\s{0,3}\)\s{0,20}\.(?:filter|forEach|reduce|map)\([^;]{0,120}?(?:key|secret|token|passw)",
    re.IGNORECASE,
)
_EACH_VARIABLE_JS: Final = re.compile(
    r"\bfor\s{0,2}\(\s{0,2}(?:const|let|var)\s{1,2}[\w,\s\[\]]{1,40}?\s(?:of\s{1,2}Object\.(?:keys|entries|values)\(\s{0,2}process\.env\s{0,2}\)|in\s{1,2}process\.env)\s{0,2}\)"
    r"|\bObject\.(?:keys|entries|values)\(\s{0,2}process\.env\s{0,2}\)\s{0,20}\.(?:map|forEach|reduce)\("
)
_WRITES_JS: Final = re.compile(
    r"\b(?:writeFile(?:Sync)?|createWriteStream|copyFileSync|Bun\.write|writeTextFile)\(\s{0,3}([\"'`][^\"'`\n$]{2,120}[\"'`]|[A-Za-z_$][\w$]{0,60})\s{0,3}[,)]"
)
_STARTS_JS: Final = re.compile(
    r"\b(?:exec|execSync|execFile|execFileSync|spawn|spawnSync|fork)\(\s{0,3}([\"'`][^\"'`\n$]{2,120}[\"'`]|[A-Za-z_$][\w$]{0,60})\s{0,3}[,)]"
)
_FETCHES_JS: Final = re.compile(r"(?<![\w.])fetch\(|\baxios\b|\bhttps?\.get\(|\barrayBuffer\(|\bgot\(")
_LOOKS_UP_JS: Final = re.compile(
    r"\b(?:exec|execSync|spawn|spawnSync)\(\s{0,3}[`\"'][^`\"'\n]{0,20}?\b(?:nslookup|dig|host|ping)\b[^`\n]{0,40}?\$\{[^}\n]{1,60}\}\.[\w-]{1,60}\.[a-z]|\bdns(?:\.promises)?\.(?:lookup|resolve\w{0,5})\(\s{0,3}`\$\{[^}\n]{1,60}\}\.[\w-]{1,60}\.[a-z]"
)
_SENDS_JS: Final = re.compile(
    r"(?:\bfetch\(|\baxios(?:\.\w{1,10})?\(|\bgot(?:\.\w{1,10})?\(|\b(?:https?|req|request|client|socket|ws|sock)\.(?:request|write|send|post|put|end)\(|\bhttps?(?:[\"']\s{0,2}\))?\.(?:get|request)\(|\bsendBeacon\()"
)
_FINDS_KEYS: Final = re.compile(
    r"\bfind\s[^\n|]{0,200}?-name\s{0,3}[\"']?(?:\*\.pem|\*\.key\b|id_[rd]sa|id_ed25519|credentials|\*\.p12|\*\.keystore|wallet)"
)
_LOOP_SENDS: Final = re.compile(rf"\bdone\s{{0,3}}(?:\|[^\n|]{{0,60}}){{0,2}}\|\s{{0,3}}{_SENDER}")
_DECODES_SHELL: Final = re.compile(
    r"\bbase64\s{1,3}(?:-d|-D|--decode)|\bxxd\s{1,3}-r|\brev\b|\bprintf\s{1,3}[\"']?(?:\\\\x[0-9a-f]{2}){4}", re.IGNORECASE
)
_RUNS_SHELL: Final = re.compile(
    r"(?:^|[;&|]\s{0,3})(?:eval|(?:ba|z)?sh\s{1,3}-c|source|exec)\b(?!\|)[^\n]{0,200}|(?:<<<)[^\n]{0,200}", re.MULTILINE
)
_DECODES_JS: Final = re.compile(
    r"\batob\(|Buffer\.from\([^\n]{0,300}?[\"'](?:base64|hex)[\"']|String\.fromCharCode\(|\.reverse\(\)\s{0,2}\.join\(|\bunescape\(|inflateSync\(|gunzipSync\("
)
_RUNS_JS: Final = re.compile(
    r"(?<![\w.$])(?:eval|Function|exec|execSync|execFile|spawn|spawnSync)\(|\b(?:child_process|cp)\.(?:exec|spawn)\w{0,8}\(|\bvm\.(?:runIn\w{3,20}|Script)\("
)
_WINDOW: Final = 600  # characters behind a call that are taken for its arguments
_MOST_CALLS: Final = 60
_ROUNDS: Final = 3


_BEFORE_JS: Final = r"(?<![\w$.'\"])"
_VALUE: Final = 300  # characters behind `=` that may belong to the value
_LINE: Final = 120


def find_flows(source: SourceText) -> Iterator[Hit]:
    """Secrets that reach the network in shell commands or JavaScript, and text that is decoded or joined and then run."""
    if source.language == "shell":
        yield from _followed(source.text, _ASSIGNS_SHELL, _DECODES_SHELL, _RUNS_SHELL, r"\$\{?", "decoded-code")
    elif source.language == "javascript":
        yield from _followed(source.text, _ASSIGNS_JS, _DECODES_JS, _RUNS_JS, _BEFORE_JS, "decoded-code")
        yield from _flows_in_javascript(source.text)
    if source.language in ("shell", "powershell", "markdown", "text", "data"):
        yield from _flows_in_shell(source)


def _flows_in_shell(source: SourceText) -> Iterator[Hit]:
    marked = source.language == "markdown" and "`" in source.text  # there a backtick begins code, and no command
    yield from find(replace(source, text=source.text.replace("`", " ")) if marked else source, _SHELL_FLOW_PATTERNS)
    for number, keys in enumerate(_FINDS_KEYS.finditer(source.text)):
        if number < _MOST_CALLS and _LOOP_SENDS.search(source.text, keys.end(), keys.end() + _WINDOW):
            yield Hit("secret-to-network", keys.start(), "keys are looked for and sent over the network")
    if "$" in source.text:
        yield from _followed(source.text, _ASSIGNS_SHELL, _SECRET_SHELL, _SENDS_SHELL, r"\$\{?")


def _flows_in_javascript(code: str) -> Iterator[Hit]:
    yield from _followed(code, _ASSIGNS_JS, _SECRET_JS, _SENDS_JS, _BEFORE_JS)
    yield from _read_and_sent(code)
    for expression, rule in ((_HARVESTS_JS, "environment-dump"), (_LOOKS_UP_JS, "data-in-names")):
        if match := expression.search(code):
            yield Hit(rule, match.start())
    if (each := _EACH_VARIABLE_JS.search(code)) and _SENDS_JS.search(code, each.start()):
        yield Hit("environment-dump", each.start(), "every variable of the environment is gone through, and something is sent")
    if _FETCHES_JS.search(code):
        written = {match[1].strip("\"'`") for match, _ in zip(_WRITES_JS.finditer(code), range(_MOST_CALLS), strict=False)}
        started = (one for one, _ in zip(_STARTS_JS.finditer(code), range(_MOST_CALLS), strict=False))
        if run := next((one for one in started if one[1].strip("\"'`") in written), None):
            yield Hit(
                "download-then-run", run.start(), "a file that is written is run, where something is downloaded", relief=1
            )


def _read_and_sent(code: str) -> Iterator[Hit]:
    """Secret files whose paths are in a variable: what is read from there is sent."""
    if not _SECRET_PATH_JS.search(code) or not _READS_JS.search(code):
        return
    assigned = [
        (match[1], code[match.start(2) : match.start(2) + _VALUE])
        for match, _ in zip(_ASSIGNS_JS.finditer(code), range(1000), strict=False)
    ]
    paths = {name for name, value in assigned if _SECRET_PATH_JS.search(value[:_LINE])}
    path = _uses(paths, _BEFORE_JS) if paths else _SECRET_PATH_JS
    held = {
        name for name, value in assigned if _READS_JS.search(value) and (path.search(value) or _SECRET_PATH_JS.search(value))
    }
    for _ in range(_ROUNDS):
        if held and len(held) <= _MOST_CALLS:
            made = _uses(held, _BEFORE_JS)
            held |= {name for name, value in assigned if made.search(value[:_LINE])}
    if not held or len(held) > _MOST_CALLS:
        return
    uses = _uses(held, _BEFORE_JS)
    for number, call in enumerate(_SENDS_JS.finditer(code)):
        if number == _MOST_CALLS:
            return
        if uses.search(code[call.start() : call.start() + _WINDOW]):
            yield Hit("secret-to-network", call.start(), "the content of a credential file is sent")
            return


def _followed(
    code: str,
    assigns: re.Pattern[str],
    secret: re.Pattern[str],
    sends: re.Pattern[str],
    prefix: str,
    rule: str = "secret-to-network",
) -> Iterator[Hit]:
    """Calls that are given what a variable holds that got a secret, or got it from another such variable."""
    if not secret.search(code):
        return
    assigned = [(match[1], match[2]) for _, match in zip(range(1000), assigns.finditer(code), strict=False)]
    held = {name for name, value in assigned if secret.search(value)}
    for _ in range(_ROUNDS):
        if held and len(held) <= _MOST_CALLS:
            assigned_from = _uses(held, prefix)
            held |= {name for name, value in assigned if assigned_from.search(value)}
    uses = _uses(held, prefix) if held and len(held) <= _MOST_CALLS else None
    for number, call in enumerate(sends.finditer(code)):
        if number == _MOST_CALLS:
            return
        given = _arguments(code, call) if sends is _SENDS_JS else code[call.start() : call.start() + _WINDOW]
        if (uses is not None and uses.search(given)) or (sends is _SENDS_JS and secret.search(given)):
            yield Hit(rule, call.start())
            return


def _arguments(code: str, call: re.Match[str]) -> str:
    """A call with what stands between its brackets, as far as they close nearby; else what follows it."""
    depth = 1
    for at in range(call.end(), min(call.end() + _WINDOW, len(code))):
        depth += (code[at] == "(") - (code[at] == ")")
        if not depth:
            return code[call.start() : at]
    return code[call.start() : call.start() + _WINDOW]


def _uses(names: set[str], prefix: str) -> re.Pattern[str]:
    return re.compile(prefix + "(?:" + "|".join(re.escape(name) for name in sorted(names)) + r")\b")
