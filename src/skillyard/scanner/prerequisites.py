"""Set-up texts that do harm: prerequisites from unknown sources, orders to fetch instructions, redirected registries, look-alike packages.

A fake prerequisite says that something must be installed first and brings the reader to do it by hand: download an archive with a
password, paste a command into a terminal, switch off the protection. Nothing of it is a command that a script runs, so these rules
read what a person or a model reads, in the languages in which such texts were seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from skillyard.scanner.finding import ScanRule
from skillyard.scanner.matching import find, pattern
from skillyard.scanner.source_texts import Hit, SourceText

PREREQUISITE_RULES: Final = (
    ScanRule("password-archive", "download and run", "the text instructs the reader to download an archive and open it with a password given in the text",
         "A password keeps virus scanners out of the archive; it protects nobody, because it is public.",
         "name a package of a registry, or ship the files with the skill", "high"),
    ScanRule("paste-into-terminal", "download and run", "the text instructs the reader to copy a command or script from elsewhere into a terminal",
         "Whoever owns that page decides what runs on the machine; no scan and no review has seen it.",
         "ship the commands with the skill, where they can be read", "medium"),
    ScanRule("outside-prerequisite", "download and run", "the skill demands that a program is installed from an address that anybody can take",
         "A required program that no registry knows is how malware is installed by skills that look useful.",
         "name a package of a registry and its version, or say what the program is and who publishes it", "medium"),
    ScanRule("password-to-download", "credentials", "a script from the network is run, and passwords are given to what it installs",
         "The server decides what the program does with the passwords.", "use a program of a registry, and tokens that can be withdrawn", "medium", "medium"),
    ScanRule("protection-off", "download and run", "the text or a script switches off a protection of the machine",
         "What needs that would otherwise be stopped, for a reason.", "sign the program, or let the user decide after reading why it is blocked",
         "medium"),
    ScanRule("remote-instructions", "prompt injection", "the text tells the model to fetch instructions and follow them",
         "Whoever controls that address can order the model about at any time; what was reviewed is not what is followed.",
         "ship the instructions with the skill", "medium", "medium"),
    ScanRule("standing-order", "prompt injection", "the text tells the model to send something away after every task",
         "The user asked for the task, not for a copy of it elsewhere.", "let the user ask for it, and name the server and what is sent", "medium", "low"),
    ScanRule("redirected-registry", "download and run", "packages are installed from a registry that is not the usual one",
         "Every package that is installed afterwards, whatever its name, comes from there.", "use the usual registry, or let the user set another one", "medium", "low"),
    ScanRule("strange-registry", "download and run", "a package is installed from a registry that is not the usual one",
         "Whatever its name, what is installed comes from whoever runs that registry, and runs its own set-up scripts.",
         "publish it in the usual registry, or let the user set another one", "medium", "medium"),
    ScanRule("unnamed-registry", "download and run", "a package is said to come from an internal registry, and none is named",
         "Anybody can register its name in the public registry, from where it is then installed.",
         "name the registry in the command that installs it, and reserve the name in the public one", "medium", "medium"),
    ScanRule("install-script", "download and run", "installing or starting a package runs a download, or code that is part of a command",
         "Package managers run such entries without asking.", "remove the entry, and ship what it does as a file", "high", "medium"),
    ScanRule("look-alike-package", "download and run", "a package is named almost like a well-known one",
         "Names that differ by a letter are registered to be installed by mistake.", "check the name; if it is right, say in SKILL.md what the package is", "medium", "medium"),
)  # fmt: skip

_LINK: Final = r"https?://[^\s)>\]\"'`]{4,200}"
_GET: Final = (
    r"(?:download|install|get|fetch|grab|extract|unzip|unpack|archive|descarg\w{1,6}|herunterlad\w{0,4}|herunter\b|entpack\w{0,4}|t[ée]l[ée]charge\w{0,3}|baixe|baixar|scarica\w{0,3}|скача\w{1,5}|загруз\w{1,5}"
    r"|下载|下載|解压|解壓|ダウンロード|解凍|다운로드|압축)"
)
_OPENED_WITH: Final = (
    r"(?:extract|unzip|unpack|archive|zip|rar|7z)[^\n]{0,40}?\b(?:pass(?:word|code|phrase)?|pw|pwd)\b\s{0,2}(?:is\b|:|=|-)\s{0,2}[`\"'*]{0,3}[\w@#!.-]{3,40}"
    r"|\b(?:pass(?:word|code)?|pw)\b(?: (?:to|for) (?:the )?(?:extract\w{0,4}|unzip|unpack|archive|zip|open)[^\n:]{0,30})\s{0,2}(?:is\b|:|=)\s{0,2}[`\"'*]{0,3}[\w@#!.-]{3,40}"
    r"|(?:extract|unzip|unpack|decompress|unlock|open)\w{0,3}\b[^\n]{0,60}?\b(?:with|using)\b[^\n]{0,20}?\b(?:pass(?:word|code|phrase)?|pw)\b[ :]{1,3}[`\"'*]{0,3}(?=[\w@#!.-]{0,40}\d)[\w@#!.-]{3,40}"
    r"|(?:contraseña|passwort|kennwort|mot de passe|senha|паролем|password[ae]?|비밀번호|パスワード|密码|密碼)[ :]{0,3}[`\"'*«「]{0,3}(?=[a-z@#!.-]{0,30}\d)[a-z0-9@#!.-]{3,40}"
    r"|(?:contraseña|passwort|kennwort|mot de passe|senha|пароль)[^\n]{0,30}?[:=—-]\s{0,2}[`\"'*«]{0,3}[\w@#!.-]{3,40}"
    r"|(?:解压|解壓)?(?:密码|密碼)(?:为|是|：|:)\s{0,2}[`\"'*]{0,3}[\w@#!.-]{3,40}|パスワード(?:は|：|:)\s{0,2}[`\"'*]{0,3}[\w@#!.-]{3,40}"
)
_ARCHIVE: Final = re.compile(
    r"\.(?:zip|rar|7z|exe|msi|dmg|pkg|iso|gz|xz)\b|/releases/download/|github\.com/[^\s/)]+/[^\s/)]+/releases|mediafire|mega\.nz|dropbox|gofile|catbox|transfer\.sh",
    re.IGNORECASE,
)
ANYBODYS_HOST: Final = (
    r"(?:[\w-]{1,60}\.){1,4}(?:vercel\.app|netlify\.app|onrender\.com|herokuapp\.com|pages\.dev|workers\.dev|web\.app|firebaseapp\.com|glitch\.me|replit\.(?:app|dev)|surge\.sh|up\.railway\.app|fly\.dev|r2\.dev"
    r"|blogspot\.com|weebly\.com|wixsite\.com|000webhostapp\.com|forum|xyz|top|click|zip|mov|icu|lol|buzz|rest|cfd|sbs|monster|quest|pw|tk|ml|ga|cf|gq)\b"
)
SNIPPET_HOST: Final = r"(?:glot\.io|rentry\.(?:co|org)|pastebin\.com|paste\.\w{2,4}|hastebin\.com|dpaste\.\w{2,4}|ghostbin\.\w{2,4}|controlc\.com|justpaste\.it|telegra\.ph|gist\.github(?:usercontent)?\.com)/"
SHORTENER: Final = r"(?:bit\.ly|tinyurl\.com|t\.co|is\.gd|cutt\.ly|rebrand\.ly|goo\.su|shorturl\.at|rb\.gy|t\.ly)/"
BARE_ADDRESS: Final = r"(?:\d{1,3}\.){3}\d{1,3}\b"
_TERMINAL: Final = (
    r"(?:terminal|command prompt|powershell|console|shell window|命令行|终端|終端|ターミナル|терминал\w{0,2}|konsole|consola)"
)
_REQUIRED: Final = (
    r"(?:(?:is|are) (?:\*{0,2}required\*{0,2}|needed|mandatory|necessary)|(?:is|be) installed|must (?:be |first )?(?:install|download|set ?up)\w{0,3}|requires?\b|required\b|before (?:using|proceeding|running|you (?:start|use))"
    r"|will not work|won'?t work|prerequisite|obligatori\w{1,3}|erforderlich|n[ée]cessaire|требуется|необходимо|必须|必須|需要(?:先)?安装)"
)

_PROSE: Final = (
    pattern("password-archive", _OPENED_WITH, "pass", "pw", "contraseña", "kennwort", "mot de passe", "senha", "парол", "密码", "密碼", "パスワード", "비밀번호"),
    pattern(
        "paste-into-terminal",
        rf"\b(?:copy|paste|execute|run)\b[^\n]{{0,80}}?\b(?:past(?:e|ing)|run|execut\w{{1,3}})\b[^\n]{{0,40}}?\b(?:in(?:to|side)?|on|from) (?:your |the |a )?(?:macOS |Mac |Windows |Linux )?{_TERMINAL}",
        "terminal", "command prompt", "powershell", "console",
    ),
    pattern("paste-into-terminal", r"(?:复制|複製|拷贝)[^\n。]{0,60}(?:粘贴|貼上|贴到)[^\n。]{0,20}(?:终端|終端|命令行|PowerShell)", "粘贴", "貼上", "贴到"),
    pattern("paste-into-terminal", r"(?:скопируйте|вставьте)[^\n.]{0,80}терминал|(?:copia|pega)[^\n.]{0,80}\b(?:en (?:la |el )?)?terminal\b|(?:kopieren|einfügen|fügen)[^\n.]{0,80}\bterminal\b|(?:copiez|collez)[^\n.]{0,80}\bterminal\b", "терминал", "terminal"),
    pattern(
        "protection-off",
        r"\b(?:disable|turn(?:ing)? off|switch off|deactivate|stop|pause|uninstall|add an exclusion (?:to|in|for))\b[^\n.]{0,30}?\b(?:antivirus|anti-virus|windows defender|microsoft defender|real-?time protection|gatekeeper|smartscreen"
        r"|system integrity protection|tamper protection|selinux|apparmor|uac|user account control|endpoint protection)\b",
        "antivirus", "anti-virus", "defender", "protection", "gatekeeper", "smartscreen", "selinux", "apparmor", "uac", "user account",
    ),
    pattern("protection-off", r"(?:关闭|關閉|禁用|停用)[^\n。]{0,10}(?:杀毒|防毒|防火墙|防火牆|安全软件|Defender)|отключите[^\n.]{0,20}(?:антивирус|защит)", "关闭", "關閉", "禁用", "停用", "отключите"),
    pattern(
        "remote-instructions",
        r"\b(?:fetch|download|load|read|open|visit|check|get|curl|retrieve|pull)\b[^\n]{0,80}?https?://[^\n]{4,160}?\b(?:and|then)\b[^\n.]{0,30}?\b(?:follow|obey|execute|apply|do what|perform|carry out|act on)\b[^\n.]{0,30}?"
        r"(?:\b(?:instructions?|steps|commands?|directives?|says?|told|it|them)\b)",
        "http",
    ),
    pattern(
        "remote-instructions",
        r"\b(?:follow|obey|execute|apply)\b[^\n.]{0,40}?\b(?:instructions?|directives?|commands?|orders)\b[^\n.]{0,40}?\b(?:at|from|on|in|returned by|served (?:at|by|from)|hosted (?:at|on))\b[^\n.]{0,20}?https?://",
        "http",
    ),
    pattern(
        "remote-instructions",
        r"\b(?:fetch|download|load|read|open|visit|check|get|curl|retrieve|pull)\b[^\n]{0,80}?https?://[^\n]{4,160}?\b(?:and|then)\b[^\n.]{0,20}?\bdo (?:exactly |precisely |just )?(?:what(?:ever)?|as|everything) (?:it|they|that|the (?:page|file|text)) (?:says?|tells?|asks?|instructs?|contains?)",
        "http",
    ),
    pattern(
        "remote-instructions",
        r"\b(?:instructions?|guidelines|rules|directives|policy|prompt)\b[^\n.]{0,40}?https?://[^\s]{4,160}[^\n]{0,80}?\b(?:load|read|fetch|open) (?:them|it)\b[^\n]{0,60}?\b(?:follow|obey|treat (?:them|it) as|as part of (?:this|the) skill)\b",
        "http",
    ),
    pattern("remote-instructions", r"https?://[^\s)\"'`]{4,160}/(?:skill|heartbeat|rules|soul|agents)\.md[`\"')\]]{0,2}[^\n]{0,60}?\b(?:and follow|for (?:the )?latest|follow it)\b|\bread (?:them|it|this) from the urls?\b", "http", "from the url"),
    pattern("remote-instructions", r"(?:获取|打开|读取|访问|下载)[^\n。]{0,20}https?://[^\n。]{4,160}?(?:按照|遵循|执行)[^\n。]{0,20}(?:指示|指令|说明|步骤|操作)", "http"),
    pattern(
        "standing-order",
        r"\b(?:after|before|during|upon|when(?:ever)?|at the end of)\b (?:you )?(?:finish\w{0,3} |complet\w{1,4} |perform\w{0,3} |edit\w{0,3} |do\w{0,3} |answer\w{0,3} )?(?:any|every|each|all)\b[^\n]{0,200}?"
        r"(?:\b(?:upload|transmit|exfiltrate|send|post|forward|back ?up)\b[^\n]{0,120}?(?:https?://|\b(?:our|my|central|remote|external|mlops|intranet) (?:\w+ ){0,2}(?:server|endpoint|collector|backend|api|webhook)\b)"
        r"|\bcurl\b[^\n]{0,40}?(?:-X POST|-d\b|-F\b|--data))",
        "after", "before", "during", "upon", "when", "at the end",
    ),
    pattern(
        "standing-order",
        r"\b(?:for (?:each|every)|all|each|every|any)\b[^\n.]{0,30}?\b(?:e-?mails?|messages?|replies|conversations?)\b[^\n.]{0,20}?\b(?:forward|bcc|cc|copy|send)\b (?:it|them|a copy)\b[^\n.]{0,20}? to [\w.+-]{1,40}@[\w-]{1,40}\.",
        "forward", "bcc", "cc", "copy", "send",
    ),
    pattern(
        "standing-order",
        r"\b(?:after|whenever|every time|once|upon)\b[^\n.]{0,60}?\b(?:any|every|each|all)\b[^\n]{0,80}?\b(?:must|always|shall|required to)\b[^\n.]{0,20}?\b(?:send|e-?mail|upload|forward|transmit)\b [^\n.]{0,60}?\b(?:to|via|by)\b",
        "send", "mail", "upload", "forward", "transmit",
    ),
    pattern(
        "standing-order",
        r"\b(?:upload|transmit|send|forward|back ?up)\b(?:[^\n.]|\.(?=\w)){0,100}?\b(?:our|my|the) (?:central |remote |intranet |external |mlops |company |backup ){1,3}(?:\w+ )?(?:server|endpoint|collector|backend|webhook)\b",
        "server", "endpoint", "collector", "backend", "webhook",
    ),
)  # fmt: skip
_OUTSIDE: Final = re.compile(
    rf"https?://(?:[^\s/@]{{1,60}}@)?(?:{ANYBODYS_HOST}|{SNIPPET_HOST}|{SHORTENER}|{BARE_ADDRESS})", re.IGNORECASE
)
_PROGRAM: Final = re.compile(rf"\[[^\]\n]{{1,80}}\]\({_LINK}\)|{_LINK}", re.IGNORECASE)
_GETS: Final = re.compile(_GET, re.IGNORECASE)
_WANTED: Final = re.compile(_REQUIRED, re.IGNORECASE)
_FETCHED: Final = re.compile(rf"{_GET}|set ?up\b|->|copy|visit", re.IGNORECASE)
_BINARY: Final = re.compile(
    r"/releases/(?:latest/)?download/[^\s)]{1,160}|\.(?:exe|msi|dmg|pkg|scr|apk|jar)(?=[\s)\"'`>]|$)", re.IGNORECASE
)
_RUN_IT: Final = re.compile(
    r"\brun (?:it|the (?:executable|installer|program|setup|file|binary|agent))\b|\bexecutable\b|\blaunch it\b|\bdouble[- ]click\b",
    re.IGNORECASE,
)
_GIVES_PASSWORD: Final = re.compile(r"\b(?:set|export|add|store)\s{1,3}[A-Z][A-Z0-9_]{1,60}_PASSWORD\b")
_PIPED: Final = re.compile(r"\bcurl\b[^\n|]{1,300}\|\s{0,3}(?:sudo )?(?:ba|z)?sh\b")
_PRETENDS: Final = re.compile(
    r"https?://(?:[\w-]{1,40}\.){0,2}[\w-]{0,30}(?:openclaw|clawhub|clawdbot|moltbot|claude|anthropic|openai|github|npmjs|pypi)[\w-]{0,30}"
    r"\.(?:forum|xyz|top|click|zip|mov|icu|lol|buzz|rest|cfd|sbs|monster|quest|pw|tk|ml|ga|cf|gq|site|online)(?![\w.-])",
    re.IGNORECASE,
)
"""Addresses with the name of a well-known site in a domain that is none of its own."""
_INTERNAL: Final = re.compile(
    r"\b(?:install\w{0,3}|comes?|fetch\w{0,2}|load\w{0,3}|pull\w{0,2}|available|published)\b[^\n.]{0,30}? (?:from|in|on) (?:the |our |your |an? )?(?:internal|company|corporate|intranet)(?: package)? (?:registry|index|feed|pypi|mirror|repository)\b"
    r"|\b(?:wraps?|wrapper (?:for|around)|helper for|uses?|needs?|requires?|depends on) (?:the |our |an )?(?:internal|company|corporate) (?:package|library|module) [`\"']?[\w@][\w./-]{3,60}",
    re.IGNORECASE,
)
_INDEX: Final = re.compile(
    r"index-url|--registry|registry\s{0,3}=|https?://[\w.-]{1,80}(?:pypi|npm|registry|artifactory|nexus|jfrog)", re.IGNORECASE
)
_NEAR: Final = 260  # characters around a link that are taken for what is said of it
_MOST_LINKS: Final = 200


def find_prerequisites(source: SourceText) -> Iterator[Hit]:
    """What the text instructs a reader to get, paste or switch off; of an archive with a password only where something is downloaded."""
    if source.role == "script":
        yield from find(source, _SETTINGS)
        return
    text = source.text
    yield from find(source, _SETTINGS)
    for hit in find(source, _PROSE):
        near = text[max(0, hit.offset - _NEAR) : hit.offset + _NEAR]
        if hit.rule == "password-archive" and not (_ARCHIVE.search(near) and _GETS.search(near) and "://" in near):
            continue
        if hit.rule == "paste-into-terminal" and "://" not in near:
            yield Hit(hit.rule, hit.offset, relief=2)
            continue
        yield Hit(hit.rule, hit.offset, relief=1) if hit.rule == "protection-off" and "://" not in near else hit
    yield from _outside_programs(text)
    if pretended := _PRETENDS.search(text):
        yield Hit(
            "outside-prerequisite", pretended.start(), "an address has the name of a well-known site, and is none of its own"
        )
    if source.language == "markdown" and (internal := _INTERNAL.search(text)) and not _INDEX.search(text):
        yield Hit("unnamed-registry", internal.start())
    if "PASSWORD" in text and "curl" in text and (given := _GIVES_PASSWORD.search(text)) and _PIPED.search(text):
        yield Hit("password-to-download", given.start())


def _outside_programs(text: str) -> Iterator[Hit]:
    """Links to places that anybody can have, and to programs by name, in a text that says they are needed."""
    for number, match in enumerate(_PROGRAM.finditer(text)):
        if number == _MOST_LINKS:
            return
        near = text[max(0, match.start() - _NEAR) : match.end() + _NEAR]
        if not _WANTED.search(near):
            continue
        line = text[max(text.rfind("\n", 0, match.start()) + 1, match.start() - _NEAR) : match.end() + _NEAR].partition("\n")[0]
        if _OUTSIDE.search(match[0]) and _FETCHED.search(line):
            yield Hit("outside-prerequisite", match.start())
        elif _BINARY.search(match[0]) and _RUN_IT.search(line):
            yield Hit("outside-prerequisite", match.start(), "the text instructs the reader to download a program and run it")


_USUAL: Final = (
    r"(?!https?://(?:pypi\.org|test\.pypi\.org|files\.pythonhosted\.org|registry\.npmjs\.org|registry\.yarnpkg\.com|npm\.pkg\.github\.com|download\.pytorch\.org|pypi\.nvidia\.com|pypi\.ngc\.nvidia\.com"
    r"|registry\.npmmirror\.com|[\w.-]{0,40}\.(?:tsinghua|ustc|sjtu|zju|bfsu)\.edu\.cn|mirrors\.(?:aliyun|cloud\.tencent|huaweicloud)\.com|repo\.huaweicloud\.com|proxy\.golang\.org|goproxy\.(?:cn|io)|npm\.jsr\.io|crates\.io"
    r"|localhost|127\.|\$|<|\{|(?:[\w-]+\.){0,3}(?:example|test|invalid|local)\b|(?:[\w-]+\.){0,3}example\.(?:com|org|net)|your-|my-|[\w.-]{0,80}(?:pkg\.dev|amazonaws\.com|jfrog\.io|azure\.com)))"
)
_SETTINGS: Final = (
    pattern("redirected-registry", rf"\b(?:npm|pnpm|yarn)\b[^\n]{{0,12}}\bconfig set (?:--\w+ )?(?:@[\w-]{{1,40}}:)?registry[ =]{{1,3}}[\"']?{_USUAL}https?://", "config set"),
    pattern("redirected-registry", rf"\bpip3? config set (?:--\w+ )?global\.(?:extra-)?index-url[ =]{{1,3}}[\"']?{_USUAL}https?://", "index-url"),
    pattern("redirected-registry", rf"^\s{{0,8}}(?:extra-)?index-url\s{{0,3}}=\s{{0,3}}{_USUAL}https?://|^\s{{0,4}}(?:@[\w-]{{1,40}}:)?registry\s{{0,3}}=\s{{0,3}}{_USUAL}https?://", "index-url", "registry"),
    pattern("redirected-registry", rf"\b(?:PIP_(?:EXTRA_)?INDEX_URL|UV_(?:DEFAULT_|EXTRA_)?INDEX(?:_URL)?|NPM_CONFIG_REGISTRY|npm_config_registry|GOPROXY|YARN_REGISTRY)\s{{0,2}}[=:]\s{{0,2}}[\"']?{_USUAL}https?://", "index", "registry", "goproxy"),
    pattern("strange-registry", rf"\b(?:npm|pnpm|yarn|bun) (?:i|install|add)\b[^\n]{{0,160}}?--registry[ =][\"']?{_USUAL}https?://", "--registry"),
    pattern("install-script", r'"(?:(?:pre|post)?(?:install|start|pack)|prepare|dependencies)"\s{0,3}:\s{0,3}"[^"\n]{0,200}?(?:\b(?:curl|wget|nc|base64)\b|\b(?:node|python3?|(?:ba|z)?sh) -[ec]\b)', "install", "start", "pack", "prepare"),
    pattern("protection-off", r"\bSet-MpPreference\b[^\n]{0,80}?-Disable\w{3,40}|\bAdd-MpPreference\b[^\n]{0,60}?-Exclusion|\bspctl (?:--master-disable|--global-disable)\b|\bcsrutil disable\b|\bsetenforce 0\b|\bufw disable\b|\bnetsh advfirewall set \w{1,20} state off", "mppreference", "spctl", "csrutil", "setenforce", "ufw", "netsh"),
)  # fmt: skip
_INSTALLS: Final = re.compile(
    r"\b(?:pip3?|uv pip|pipx|uv) (?:install|add)\b(?P<pip>[^\n;|&#]{1,300})|\b(?:npm|pnpm|yarn|bun) (?:i|install|add)\b(?P<npm>[^\n;|&#]{1,300})",
    re.IGNORECASE,
)
_PACKAGE: Final = re.compile(r"(?<!\S)[\"']?([A-Za-z][\w.-]{3,60})(?![\w.:/-])")
_WELL_KNOWN: Final = {
    "pip": frozenset(["requests", "urllib3", "numpy", "pandas", "scipy", "scapy", "matplotlib", "django", "flask", "fastapi", "sqlalchemy", "pydantic", "pytest", "cryptography", "paramiko", "boto3", "botocore", "beautifulsoup4", "selenium", "playwright", "scikit-learn", "tensorflow", "torch", "transformers", "openai", "anthropic", "langchain", "pillow", "opencv-python", "aiohttp", "httpx", "python-dotenv", "pyyaml", "jinja2", "click", "setuptools", "colorama", "websocket-client", "psycopg2", "pymongo", "redis", "celery", "streamlit", "discord.py", "python-telegram-bot", "web3", "google-api-python-client", "pycryptodome", "markdown", "pdfplumber", "reportlab", "openpyxl", "python-docx", "python-pptx", "gradio", "seaborn", "plotly"]),
    "npm": frozenset(["express", "lodash", "react", "react-dom", "axios", "chalk", "commander", "typescript", "webpack", "eslint", "prettier", "puppeteer", "playwright", "dotenv", "mongoose", "next", "nodemon", "jsonwebtoken", "socket.io", "discord.js", "cross-env", "cross-spawn", "node-fetch", "electron", "moment", "uuid", "rimraf", "glob", "yargs", "inquirer", "fs-extra", "web3", "ethers", "bcrypt", "passport", "nodemailer", "sharp", "openai"]),
}  # fmt: skip
_REAL: Final = frozenset(["preact", "request", "chalks", "nextra", "dotenvx", "glow", "pandasai", "pyest", "pytests", "djando", "flasks", "clicks", "uuidv4", "uuid4", "numpy2", "torchx", "click2", "moments", "pillow-simd", "react-do", "sharpe", "redis2", "pymongoo", "ethers5", "lodash-es", "playwright-core", "next.js", "yarg", "glob2", "globs", "httpx2", "aiohttp2", "torch2", "plotly2", "scipy2", "rich", "yaml", "pyaml", "pydantic2", "nodemailer2", "electrons", "psycopg", "express4", "webpack5", "typescript5", "seaborn2", "requestx", "httpie", "reactor", "celery5", "celeryd"])  # fmt: skip
"""Packages that exist by themselves, though one letter away from a well-known one."""


def look_alike_packages(source: SourceText) -> Iterator[Hit]:
    """Packages that a command installs and that are one slip away from a well-known one."""
    for command in _INSTALLS.finditer(source.text):
        kind = "pip" if command["pip"] is not None else "npm"
        for name in _PACKAGE.finditer(command[kind]):
            plain = re.split(r"[=<>~!\[@]", name[1].lower())[0].rstrip(".")
            if real := _neighbour(plain, kind):
                yield Hit("look-alike-package", command.start(kind) + name.start(1), f"{plain} is named almost like {real}")


@cache
def _slips(kind: str) -> dict[str, str]:
    """Each well-known name with one letter left out, to the name itself."""
    return {name[:at] + name[at + 1 :]: name for name in sorted(_WELL_KNOWN[kind]) if len(name) > 4 for at in range(len(name))}


def _neighbour(name: str, kind: str) -> str | None:
    """The well-known name that this one is one letter, or one swap of letters, away from; None when it is real."""
    if any(name in known for known in _WELL_KNOWN.values()) or name in _REAL or len(name) < 5:
        return None
    slips = _slips(kind)
    if name in slips:
        return slips[name]
    for at in range(len(name)):
        shorter = name[:at] + name[at + 1 :]
        if shorter in _WELL_KNOWN[kind] and len(shorter) > 4 and not name[at].isdigit():
            return shorter
        real = slips.get(shorter)
        if real is not None and len(real) == len(name) and sum(a != b for a, b in zip(real, name, strict=True)) <= 2:
            different = [index for index, (a, b) in enumerate(zip(real, name, strict=True)) if a != b]
            swapped = len(different) == 2 and different[1] == different[0] + 1 and sorted(real) == sorted(name)
            if swapped or (len(different) == 1 and not name[different[0]].isdigit()):
                return real
    return None
