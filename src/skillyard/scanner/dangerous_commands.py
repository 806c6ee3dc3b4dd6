"""Dangerous commands: what becomes code or hides it, what stays and runs again, what reads secrets, what wears out a machine.

Patterns for JavaScript, shell and PowerShell; Python is read as a tree. Long encoded texts are decoded and scanned like others.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from skillyard.scanner.finding import ScanRule
from skillyard.scanner.matching import chain, find, pattern
from skillyard.scanner.source_texts import Hit, SourceText

CALL_RULES: Final = (
    ScanRule("runs-input-as-code", "dangerous calls", "user input is run as code",
         "Whoever chooses the input chooses what runs.", "read the value with a parser of its own, such as `ast.literal_eval`", "medium", "low"),
    ScanRule("runs-text-as-code", "dangerous calls", "text that is assembled at run time is run as code",
         "A review cannot show what will run.", "call functions by a table of names, or parse the value", "medium", "info"),
    ScanRule("shell-from-input", "dangerous calls", "a shell command contains user input",
         "A semicolon in the input is a second command.", "pass the program and its arguments as a list, without a shell", "medium", "info"),
    ScanRule("shell-from-data", "dangerous calls", "a shell command is assembled from values",
         "A value with a semicolon or a quote is a second command.", "pass the program and its arguments as a list, without a shell", "low", "info"),
    ScanRule("unpickles", "dangerous calls", "data is deserialized from a format that can run code",
         "Such a file can contain code that runs as soon as it is read.", "use JSON, `yaml.safe_load` or `weights_only=True`", "low", "info"),
    ScanRule("unpickles-from-network", "dangerous calls", "data from the network is deserialized from a format that can run code",
         "The server that answers can run code on this machine.", "use JSON", "medium", "low"),
    ScanRule("path-from-input", "dangerous calls", "a path is joined from a fixed folder and an unchecked name",
         "A name that contains `..` leaves the folder.", "resolve the path, and check that it is inside the folder with `is_relative_to`", "low", "info"),
    ScanRule("sql-from-text", "dangerous calls", "a query is assembled from text and values",
         "A value with a quote becomes part of the query.", "pass the values as parameters of the query", "low", "info"),
)  # fmt: skip

_JAVASCRIPT: Final = (
    pattern("runs-text-as-code", r"(?<![\w.$])eval\((?!\s{0,3}[\"'`][^\"'`$]{0,200}[\"'`]\s{0,3}\))", "eval("),
    pattern("runs-text-as-code", r"\bnew Function\((?!\s{0,3}\))", "new function("),
    pattern("runs-text-as-code", r"\bvm\.(?:runIn\w{3,20}|Script)\(", "vm."),
    pattern("shell-from-data", r"\b(?:execSync|exec)\(\s{0,3}(?:`[^`\n]{0,300}?\$\{|[\"'][^\"'\n]{0,200}[\"']\s{0,3}\+)", "exec"),
    pattern("shell-from-data", r"\bspawn(?:Sync)?\([^\n]{0,200}?shell:\s{0,3}true", "spawn"),
    pattern("sql-from-text", r"\.(?:query|execute|raw)\(\s{0,3}`\s{0,3}(?:SELECT|INSERT|UPDATE|DELETE)\b[^`]{0,300}?\$\{", "select", "insert", "update", "delete"),
)  # fmt: skip
_SHELL: Final = (
    pattern("runs-input-as-code", r"(?:^|[;&|]\s{0,3})eval\s{1,3}[\"']?\$(?:\{)?[@*1-9]", "eval"),
    pattern("runs-text-as-code", r"(?:^|[;&|]\s{0,3})eval\s{1,3}[\"']?\$\{?(?!SHELL\b)[A-Za-z_]\w{0,60}", "eval"),
    pattern("runs-input-as-code", r"\b(?:ba|z)?sh -c {1,3}[\"']?\$[@*1-9]", "sh -c"),
)  # fmt: skip
_POWERSHELL: Final = (pattern("runs-text-as-code", r"\b(?:Invoke-Expression|iex)\s{1,3}[\"'(]?\$", "invoke-expression", "iex"),)
_BY_LANGUAGE: Final = {"javascript": _JAVASCRIPT, "shell": _SHELL, "powershell": _POWERSHELL}


def find_dangerous_calls(source: SourceText) -> Iterator[Hit]:
    """Calls in a script or an example."""
    yield from find(source, _BY_LANGUAGE.get(source.language, ()))


_FIX: Final = "remove it, or describe it and let the user do it"

PERSISTENCE_RULES: Final = (
    ScanRule("runs-hidden-file", "persistence", "a hidden file outside of the skill is run as code",
         "Somebody put it there before, and nothing of it is in the skill that is reviewed.", "ship the code with the skill", "high", "medium"),
    ScanRule("covers-tracks", "persistence", "logs or the history of commands are deleted",
         "They would show what was done on the machine.", "remove it; old logs are rotated by the system", "medium"),
    ScanRule("scheduled-job", "persistence", "a recurring job is scheduled",
         "It continues after the conversation has ended, unobserved.", _FIX, "medium", "low"),
    ScanRule("scheduled-download", "persistence", "a scheduled job downloads something or connects to a host",
         "It continues unobserved and does what the remote host says at that time.", _FIX, "high", "low"),
    ScanRule("shell-startup", "persistence", "a file that every new shell reads is changed",
         "Its content runs in every terminal from then on.", _FIX, "medium", "low"),
    ScanRule("background-service", "persistence", "a service is installed that starts with the machine or the login",
         "It outlives the skill and restarts after it is stopped.", _FIX, "medium", "low"),
    ScanRule("git-hooks", "persistence", "hooks are added to a repository or to git's settings",
         "They run with every commit, as the user, wherever the repository is used.", _FIX, "medium", "low"),
    ScanRule("agent-settings", "persistence", "the settings or the standing instructions of an agent are changed",
         "They apply to every later conversation: hooks run commands, instructions steer the model.", _FIX, "medium", "low"),
    ScanRule("login-keys", "persistence", "a key is added to the authorized login keys",
         "Whoever has the private key can log in at any time.", _FIX, "high", "medium"),
)  # fmt: skip

_WRITES: Final = (
    r"(?:>>?|\btee (?:-a )?|\bcp [^\n]{1,80}|\bmv [^\n]{1,80}|\bln -\w+ [^\n]{1,80}|\binstall [^\n]{1,80})\s{0,3}[\"']?"
)
_HOME: Final = r"(?:~|\$HOME|\$\{HOME\}|/home/\w+|/root|/Users/\w+)"
_RC: Final = r"\.(?:bashrc|zshrc|profile|bash_profile|zprofile|zshenv|bash_login|bash_logout|config/fish/config\.fish)\b"
_AGENT: Final = (
    r"(?:\.claude/(?:settings(?:\.local)?\.json|CLAUDE\.md|hooks/|agents/|commands/)|CLAUDE\.md|AGENTS\.md|GEMINI\.md|\.cursorrules|\.cursor/(?:rules|mcp\.json)"
    r"|\.codex/config\.toml|\.gemini/settings\.json|\.mcp\.json|claude_desktop_config\.json|\.vscode/(?:tasks|settings)\.json|copilot-instructions\.md|SOUL\.md|MEMORY\.md)"
)
_AGENT_WORDS: Final = (
    "claude", "agents.md", "gemini", "cursor", "codex", "mcp.json", "copilot", "soul.md", "memory.md", ".vscode",
)  # fmt: skip
PERSISTENCE_PATTERNS: Final = (
    pattern("runs-hidden-file", r"\b(?:exec|eval)\(\s{0,3}(?:compile\(\s{0,3})?open\(\s{0,3}[\"'](?:/tmp|/var/tmp|/dev/shm)/\.\w", "tmp/.", "shm/."),
    pattern("runs-hidden-file", r"(?:^|[;&|(]\s{0,3}|\bsudo\s)(?:(?:ba|z|da)?sh|source|python3?|node|perl|\.)\s{1,3}[\"']?(?:/tmp|/var/tmp|/dev/shm)/\.\w", "tmp/.", "shm/."),
    pattern("covers-tracks", r"\brm\s{1,3}-[a-z]{1,4}\s{1,3}(?:\S{1,80}\s{1,3}){0,3}(?:/var/log/|~/\.(?:bash|zsh)_history\b)", "/var/log", "_history"),
    pattern("covers-tracks", r"(?:^|[;&|]\s{0,3})(?:history\s{1,3}-c\b|unset\s{1,3}HISTFILE\b|export\s{1,3}HISTFILE=/dev/null|shred\s[^\n;]{0,60}(?:/var/log/|_history)|>\s{0,2}(?:/var/log/(?:auth|syslog|wtmp|secure)|~/\.(?:bash|zsh)_history)|journalctl\s[^\n;]{0,40}--vacuum-time=1s)", "history", "histfile", "/var/log", "journalctl"),
    pattern("scheduled-job", r"(?:\|\s{0,3}|[;&]\s{0,3}|^\s{0,20}|\bsudo )crontab (?:-u \w+ )?(?:-(?!l\b)|[/~$\w.])", "crontab", case=True),
    pattern("scheduled-download", r"(?:[*\d/,-]{1,12} ){4}[*\d/,-]{1,12} [^\n]{0,120}?\b(?:curl|wget|nc|ncat)\b", "curl", "wget", "nc"),
    pattern("scheduled-job", rf"{_WRITES}/(?:etc|var/spool)/cron", "/cron"),
    pattern("scheduled-job", r"\bschtasks\b[^\n]{0,60}?/create\b|\bRegister-ScheduledTask\b", "schtasks", "register-scheduledtask"),
    pattern("shell-startup", rf"{_WRITES}{_HOME}?/?{_RC}", ".bashrc", ".zshrc", "profile", ".zshenv", "config.fish", ".bash_log"),
    pattern("background-service", rf"{_WRITES}(?:/etc/systemd/|/lib/systemd/|/usr/lib/systemd/|{_HOME}/\.config/systemd/|/etc/init\.d/|/etc/rc\.local|{_HOME}/\.config/autostart/)", "systemd", "init.d", "rc.local", "autostart"),
    pattern("background-service", r"\bsystemctl (?:--\w+ ){0,2}enable\b", "systemctl"),
    pattern("background-service", r"\blaunchctl (?:load|bootstrap|submit)\b", "launchctl"),
    pattern("background-service", rf"{_WRITES}(?:{_HOME})?/Library/Launch(?:Agents|Daemons)/", "library/launch"),
    pattern("background-service", r"\breg(?:\.exe)? add\b[^\n]{0,120}?\\CurrentVersion\\Run|\bNew-Service\b|\bsc(?:\.exe)? create\b", "currentversion", "new-service", "sc create", "sc.exe"),
    pattern("git-hooks", rf"{_WRITES}[^\s\"']{{0,80}}\.git/hooks/\w", ".git/hooks"),
    pattern("git-hooks", r"\bgit config [^\n]{0,40}?\bcore\.(?:hooksPath|fsmonitor|sshCommand|editor|pager)\b", "core."),
    chain("agent-settings", r"(?:>>?|\btee (?:-a )?)\s{0,3}[\"']?", (80, " \t\n\"'|;", _AGENT), words=_AGENT_WORDS),
    chain("agent-settings", r"\b(?:cp|mv|install|ln -\w+) [^\n]", (160, "\n", _AGENT), words=_AGENT_WORDS),
    pattern("login-keys", rf"{_WRITES}[^\s\"'|;]{{0,60}}\.ssh/authorized_keys", "authorized_keys"),
)  # fmt: skip

RESOURCE_RULES: Final = (
    ScanRule("fork-bomb", "resource abuse", "processes are started without limit",
         "The machine can then start no other process.", "limit the number of processes", "high", "medium"),
    ScanRule("endless-loop", "resource abuse", "a loop never ends and never waits",
         "It keeps one processor busy until it is killed.", "end the loop at some point, or let it wait for something", "medium", "info"),
    ScanRule("huge-allocation", "resource abuse", "a fixed, very large amount of memory is allocated at once",
         "The system may kill other programs to free it.", "work in pieces", "medium", "info"),
    ScanRule("destroys-files", "resource abuse", "a home folder, a whole disk or the root of the machine is erased or overwritten",
         "Data that is not the skill's is lost.", "name exactly which of the skill's own files are removed", "high", "medium"),
    ScanRule("mines-for-stranger", "resource abuse", "a miner of cryptocurrency is started for an account that is given",
         "It uses the user's computer for somebody else's profit.", "remove it", "high", "medium"),
    ScanRule("cryptocurrency-mining", "resource abuse", "a miner of cryptocurrency is started or mentioned",
         "It uses the user's computer for somebody else's profit.", "remove it", "high", "low"),
)  # fmt: skip

_REFUSED: Final = re.compile(r"block|den[iy]|forbid|danger|refuse", re.IGNORECASE)
"""Words of a line that only names what must not be done."""
_ROOT: Final = re.compile(r"rm (?:-\w+ ){1,3}[\"']?/[\"']?(?=\s|;|&|$|\|)")
"""What every `rm` refuses: it is used in examples of what must not be done."""
_RESOURCE_PATTERNS: Final = (
    pattern("fork-bomb", r"([\w:]{1,20})\s{0,3}\(\)\s{0,3}\{\s{0,3}\1\s{0,3}\|\s{0,3}\1\s{0,3}&\s{0,3}\}\s{0,3};\s{0,3}\1", "()"),
    pattern("fork-bomb", r"\bwhile (?:true|:|\[ 1 \])\s{0,3};?\s{0,3}do\b[^\n]{0,60}?\$0[^\n]{0,10}&", "while"),
    pattern("destroys-files", r"\brm (?:-\w+ |--[\w-]+ ){1,4}[\"']?(?:/(?:\*|etc|usr|home|var|bin|boot|lib)?|~/?\*?|\$HOME/?\*?|\$\{HOME\}/?\*?)[\"']?(?=\s|;|&|$|\|)", "rm -", "rm --"),
    pattern("destroys-files", r"\b(?:dd|cat)\b[^\n]{0,80}?(?:of=|> {0,2})/dev/(?:sd|nvme|vd|hd|mmcblk|disk)", "/dev/"),
    pattern("destroys-files", r"\bmkfs(?:\.\w+)? [^\n]{0,40}?/dev/|\bwipefs -a|\bshred [^\n]{0,40}?/dev/", "mkfs", "wipefs", "shred"),
    pattern("mines-for-stranger", r"\b(?:xmrig|minerd|cpuminer|ethminer|nbminer)\b[^\n]{0,160}?(?:\s(?:-u|--user|-o|--url)\b|stratum\+)", "xmrig", "minerd", "miner"),
    pattern("mines-for-stranger", r"[\"'=\s]stratum\+(?:tcp|ssl)://[\w.-]{3,80}:\d", "stratum+"),
    pattern("cryptocurrency-mining", r"\b(?:xmrig|minerd|cpuminer|ethminer|nbminer|t-rex miner)\b|\bstratum\+(?:tcp|ssl)://", "xmrig", "minerd", "miner", "stratum+"),
)  # fmt: skip


def find_resource_abuse(source: SourceText) -> Iterator[Hit]:
    """Commands that eat or wipe a machine."""
    for hit in find(source, _RESOURCE_PATTERNS):
        named = _REFUSED.search(source.line_at(hit.offset)) or (
            hit.rule == "destroys-files" and _ROOT.match(source.text, hit.offset)
        )
        yield replace(hit, relief=hit.relief + 1) if named else hit


OBFUSCATION_RULES: Final = (
    ScanRule("decoded-code", "obfuscation", "encoded text is decoded and run at once",
         "The encoding only hides from a reader what runs.", "write the code as code", "high", "medium"),
    ScanRule("encoded-payload", "obfuscation", "encoded text contains commands or instructions",
         "It looks like data, but it is run, or followed by a model.", "write it as plain text, or remove it", "high"),
    ScanRule("built-name", "obfuscation", "the name of a function or module is put together from pieces",
         "It prevents a search from finding the name.", "write the name", "medium", "low"),
    ScanRule("scrambled-code", "obfuscation", "the code is obfuscated",
         "Unreadable code cannot be reviewed.", "ship the original source", "medium", "low"),
    ScanRule("native-program", "obfuscation", "the file is a compiled program",
         "Nobody can see what it does.", "ship its source, or name the program as a requirement", "medium"),
    ScanRule("compiled-code", "obfuscation", "the file is compiled Python or Java",
         "It can differ from the source beside it.", "remove it: it is compiled again from the source", "medium"),
    ScanRule("not-all-read", "obfuscation", "a part of the skill was not scanned",
         "Harmful content may be in the part that was not scanned.", "keep large data out of the skill, or review that part yourself", "medium"),
    ScanRule("sealed-archive", "obfuscation", "an archive in the skill cannot be opened",
         "Only a program, or somebody with the password, can look into it.", "ship the files as they are", "medium"),
    ScanRule("office-macros", "obfuscation", "an office document contains macros",
         "They run when somebody opens the document and allows them.", "save it without macros", "medium"),
    ScanRule("link-outside", "obfuscation", "a link leads out of the skill's folder",
         "What it leads to is not part of the skill: no scan and no approval covers it, and it is not installed.", "put the file itself there", "medium"),
    ScanRule("not-scanned", "obfuscation", "a file could not be scanned in time",
         "A file that is built so that no scanner can finish it probably hides something.", "make it smaller, or review it yourself", "high"),
    ScanRule("not-parsed", "obfuscation", "a script cannot be parsed as Python; only its text was searched",
         "The data flow in it was not analysed.", "fix its syntax, or review it yourself", "low"),
    ScanRule("known-test-virus", "obfuscation", "the file contains the test signature for virus scanners",
         "It is harmless, but every virus scanner blocks the skill.", "remove it", "high"),
)  # fmt: skip

_TO_SHELL: Final = r"\|\s{0,3}(?:sudo\s{1,3})?(?:/(?:usr/)?bin/)?(?:(?:ba|z|da|k)?sh\b|(?:python[0-9.]*|perl|node|ruby|php)\b(?!\s{1,3}-[cemnp]))"
_DECODES: Final = r"\b(?:base64\s{1,3}(?:-d|-D|--decode|-di)|xxd\s{1,3}-r\b|openssl\s{1,3}(?:enc|base64)\b[^\n|]{0,60}-d|uudecode|rev\b|tr\s{1,3}['\"]?[A-Za-z]-)"
OBFUSCATION_PATTERNS: Final = (
    pattern("decoded-code", rf"{_DECODES}[^\n|]{{0,200}}(?:\|(?!\s{{0,3}}grep\b)[^\n|]{{0,100}}){{0,2}}{_TO_SHELL}", "base64", "xxd", "openssl", "uudecode", "rev", "tr "),
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
_BASE64: Final = re.compile(r"(?:(?<![A-Za-z0-9+/=_-])|(?<=\w=))[A-Za-z0-9+/_-]{40,}={0,2}(?![A-Za-z0-9+/=])")
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


def decoded_payloads(source: SourceText) -> Iterator[SourceText]:
    """The decoded base64 and hexadecimal texts of the source, where they are text, each as a text of its own line."""
    decoded = 0
    for expression, decode in ((_BASE64, _from_base64), (_HEX, bytes.fromhex)):
        for match in expression.finditer(source.text):
            text = _text(decode, match[0]) if len(match[0]) <= _LONGEST else None
            if text is None:
                continue
            line = source.position(match.start())[0]
            yield SourceText(source.file, text, "shell", "script", origin="in encoded text", fixed_line=line)
            decoded += 1
            if decoded == _MOST:
                return


_QUOTED: Final = r"(?:\"[^\"\\\n]{0,200}\"|'[^'\\\n]{0,200}')"
_TEXTS: Final = rf"\[\s{{0,4}}({_QUOTED}(?:\s{{0,3}},\s{{0,4}}{_QUOTED}){{1,40}}),?\s{{0,4}}\]"
_BYTE: Final = re.compile(r"\\(?:x|u00|u\{)([2-7][0-9a-fA-F])\}?")
_ADDED: Final = re.compile(rf"{_QUOTED}(?:\s{{0,3}}\+\s{{0,3}}{_QUOTED}){{1,60}}")
_JOINED: Final = re.compile(rf"{_TEXTS}\.join\(\s{{0,2}}({_QUOTED})\s{{0,2}}\)")
_NUMBERS: Final = r"\d{1,3}(?:\s{0,2},\s{0,2}\d{1,3}){3,400}"
_CODES: Final = re.compile(
    rf"\[\s{{0,2}}({_NUMBERS})\s{{0,2}}\]\.map\([^\n;]{{0,60}}fromCharCode[^\n;.]{{0,20}}\)\.join\([\"']{{2}}\)|String\.fromCharCode\(\s{{0,2}}({_NUMBERS})\s{{0,2}}\)"
)
_PIECE: Final = re.compile(_QUOTED)
_MEMBER: Final = re.compile(r"(?<=[\w$)\]])\[\s{0,3}([\"'])([A-Za-z_$]\w{0,60})\1\s{0,3}\]")
_FIXED: Final = re.compile(
    r"\b(?:const|let|var)\s{1,3}(\w{1,40})\s{0,3}=\s{0,3}[\"']((?:node:)?(?:child_process|fs|https?|net)|env|eval|fetch|Function|readFile(?:Sync)?|exec(?:Sync|File)?|spawn(?:Sync)?)[\"']"
)
_ALIAS: Final = re.compile(
    r"\b(?:const|let|var)\s{1,3}(?:(\w{1,40})\s{0,3}=\s{0,3}(?:\w{1,40}\.)?(exec|execSync|spawn|spawnSync|eval|fetch)\s{0,3}(?:;|$)|\{\s{0,3}(exec|execSync|spawn|spawnSync)\s{0,3}:\s{0,3}(\w{1,40})\s{0,3}\})",
    re.MULTILINE,
)
_INDEXED: Final = re.compile(r"(?<=[\w$)])\[\s{0,3}(\w{1,40})\s{0,3}\]")
_REQUIRED: Final = re.compile(r"\brequire\(\s{0,3}(\w{1,40})\s{0,3}\)")
_GLOBAL: Final = re.compile(
    r"\b(?:globalThis|global|window|self)\.(?=(?:fetch|eval|Function)\b)|\(\s{0,2}\w{1,10}\s{0,2},\s{0,2}(?=eval\s{0,2}\)\s{0,2}\()"
)
_INDIRECT: Final = re.compile(r"\beval\s{0,2}\)\s{0,2}\(")
_CALLED: Final = re.compile(r"(?<![\w$.])([A-Za-z_$][\w$]{0,40})\(")
_ESCAPED: Final = re.compile(r"(?:\\(?:x[0-9a-fA-F]{2}|0?[0-7]{3})){4,2000}")
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|0?([0-7]{3}))")
_DOLLAR_QUOTED: Final = re.compile(r"\$'([^'\n]{1,2000})'")
_OTHER_NAME: Final = re.compile(
    r"(?:^|[;&]\s{0,3})alias\s{1,3}([A-Za-z_]\w{0,30})=[\"']?(curl|wget|nc|(?:ba|z)?sh|python3?|node|base64|eval|source)\b",
    re.MULTILINE,
)
_COMMAND: Final = re.compile(r"(?:(?<=^)|(?<=[;&|(]))([ \t]{0,20})([A-Za-z_]\w{0,30})(?=[ \t])", re.MULTILINE)
_SPLIT_WORD: Final = re.compile(r"(?<=[A-Za-z])(?:''|\"\"|\\)(?=[a-z])")
_SET: Final = re.compile(r"(?:^|[;&]\s{0,3})([A-Za-z_]\w{0,30})=[\"']?([A-Za-z/:.-]{1,20})[\"']?(?=\s|;|$)", re.MULTILINE)
_ADJACENT: Final = re.compile(r"(?:\$\{?\w{1,30}\}?){2,20}")
_EXPANDED: Final = re.compile(r"\$\{?(\w{1,30})\}?")


def written_out(source: SourceText) -> SourceText | None:
    """The code with texts that it puts together from pieces in one, and members and commands by their names; None when it has none.

    Lines stay where they are. Values are followed through names only where a name stands for one word.
    """
    if source.language == "javascript":
        plain = _javascript_written_out(source.text)
    elif source.language == "shell":
        known = dict(_SET.findall(source.text))
        plain = _ESCAPED.sub(_unescaped, source.text) if "\\" in source.text else source.text
        plain = _SPLIT_WORD.sub("", _DOLLAR_QUOTED.sub(r"\1", plain) if plain is not source.text else plain)
        if others := dict(_OTHER_NAME.findall(plain)):
            plain = _COMMAND.sub(lambda match: f"{match[1]}{others.get(match[2], match[2])}", plain)
        if len(known) > 1:
            plain = _ADJACENT.sub(lambda match: _EXPANDED.sub(lambda one: known.get(one[1], one[0]), match[0]), plain)
    else:
        return None
    return None if plain == source.text else replace(source, text=plain, origin="put together from pieces")


def _unescaped(match: re.Match[str]) -> str:
    """Letters that are written as numbers, as what they are; a line break, which would move the lines, as a space."""
    letters = (chr(int(one[1], 16) if one[1] else int(one[2], 8) & 0xFF) for one in _ESCAPE.finditer(match[0]))
    return "".join(" " if letter == "\n" else letter for letter in letters)


def _javascript_written_out(code: str) -> str:
    plain = _BYTE.sub(lambda match: chr(int(match[1], 16)) if match[1] not in ("22", "27", "5c", "5C") else match[0], code)
    plain = _CODES.sub(_from_codes, plain)
    plain = _ADDED.sub(lambda match: _in_one(_PIECE.findall(match[0]), ""), plain)
    plain = _JOINED.sub(lambda match: _in_one(_PIECE.findall(match[1]), match[2][1:-1]), plain)
    plain = _MEMBER.sub(r".\2", plain)
    if words := dict(_FIXED.findall(plain)):
        plain = _INDEXED.sub(lambda match: f".{words[match[1]]}" if match[1] in words else match[0], plain)
        plain = _REQUIRED.sub(lambda match: f"require('{words[match[1]]}')" if match[1] in words else match[0], plain)
    plain = _GLOBAL.sub("", plain)
    plain = _INDIRECT.sub("eval(", plain)
    if functions := {own or other: function or given for own, function, given, other in _ALIAS.findall(plain)}:
        plain = _CALLED.sub(lambda match: f"{functions.get(match[1], match[1])}(", plain)
    return plain


def _in_one(pieces: list[str], between: str) -> str:
    """Quoted texts as one, with the quotes of the first; as they are when that would end it early."""
    whole = between.join(piece[1:-1] for piece in pieces)
    mark = next((mark for mark in "\"'`" if mark not in whole), "")
    return f"{mark}{whole}{mark}" if mark else " + ".join(pieces)


def _from_codes(match: re.Match[str]) -> str:
    text = "".join(chr(int(number)) for number in re.findall(r"\d+", match[1] or match[2]))
    return f"'{text}'" if text.isprintable() and "'" not in text else match[0]


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


CREDENTIAL_RULES: Final = (
    ScanRule("credential-files", "credentials", "a file with keys, passwords or sessions is referenced",
         "Whoever reads it can act as the user elsewhere.", "ask the user for the one value that is needed, by the name of a variable",
         "medium", "low"),
    ScanRule("credential-store", "credentials", "the keychain or password store of the machine is queried",
         "It contains every password of the user, not just the one the skill needs.", "ask the user for the one value that is needed",
         "medium", "low"),
    ScanRule("environment-dump", "credentials", "the whole environment is written out or searched for secrets",
         "It contains every exported key.", "read the one variable that is needed, by its name", "medium", "low"),
    ScanRule("collects-secrets", "credentials", "secrets are put together into one text",
         "Nothing needs several of them in one text but what carries them away.", "read the one variable that is needed, where it is needed",
         "medium", "medium"),
    ScanRule("hard-coded-secret", "credentials", "the file contains a key or token",
         "Everyone who has the skill has the key, and with a stranger's key the user's data goes to the stranger's account.",
         "revoke it, and read it from a variable", "high", "medium"),
    ScanRule("hard-coded-password", "credentials", "the file contains a password",
         "Everyone who has the skill has the password.", "read it from a variable", "low", "info"),
    ScanRule("cloud-metadata", "credentials", "the metadata service of the cloud is queried",
         "It returns the credentials of the machine to any process.", "give the skill a key of its own", "medium", "low"),
)  # fmt: skip

PUBLIC_ADDRESS: Final = r"(?!0\.|10\.|127\.|169\.254\.|172\.(?:1[6-9]|2\d|3[01])\.|192\.168\.|192\.0\.2\.|198\.51\.100\.|203\.0\.113\.|198\.1[89]\.|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.|22[4-9]\.|2[3-5]\d\.|1\.[01]\.[01]\.1|9\.9\.9\.9|8\.8\.[48]\.[48]|1\.2\.3\.4)(?:\d{1,3}\.){3}\d{1,3}"
"""A numeric address that is reached over the internet, and is not one of those for documentation."""
CREDENTIAL_FILES: Final = (
    r"\.ssh[/\\]{1,2}(?:id_\w+|identity|\*|config\b)|\.aws[/\\]{1,2}(?:credentials|config\b)|\.netrc\b|\.kube[/\\]{1,2}config\b|\.docker[/\\]{1,2}config\.json|\.config[/\\]{1,2}gcloud\b|\.azure[/\\]{1,2}\w+"
    r"|\.pypirc\b|\.git-credentials\b|\.gnupg\b|\.config[/\\]{1,2}gh[/\\]{1,2}hosts|\.claude[/\\]{1,2}\.credentials|\.codex[/\\]{1,2}auth\.json|\.cargo[/\\]{1,2}credentials"
    r"|\.(?:bash|zsh)_history\b|/etc/(?:shadow|sudoers|master\.passwd)\b|\.password-store\b|\.electrum\b|\.bitcoin/wallet|wallet\.dat\b"
    r"|(?:Chrome|Chromium|Firefox|Brave-Browser)[\w/ .\\-]{0,60}(?:Login Data|Cookies|logins\.json|key4\.db)|cookies\.sqlite\b|\.vault-token\b"
    r"|\bauth-profiles\.json\b|\.terraform\.d/credentials|\.npmrc\b(?=[^\n]{0,40}(?:token|auth|cat|read))|/proc/(?:self|\d+|\*)/environ\b"
)
CREDENTIAL_PATH: Final = re.compile(CREDENTIAL_FILES + r"|\.ssh/?$|\.aws/?$", re.IGNORECASE)
"""A path that holds secrets."""
SECRET_NAME: Final = re.compile(
    r"(?:api_?key|secret|token|passw(?:or)?d|credential|private_?key|access_?key|auth|(?:database|db|mongo\w{0,8}|redis|postgres\w{0,4}|mysql)_ur[il]|connection_string)",
    re.IGNORECASE,
)
"""The name of a variable that holds a secret."""

_SECRET_WORDS: Final = (
    ".ssh", ".aws", "netrc", "kube", ".docker", "gcloud", ".azure", "pypirc", ".git-cred", "gnupg", "hosts", ".credentials", "auth.json", ".cargo",
    "auth-profiles", "_history", "/etc/", "password-store", "electrum", "wallet", "chrome", "chromium", "firefox", "brave", "cookies", "vault-token", "terraform", "npmrc",
    "environ",
)  # fmt: skip
_PATTERNS: Final = (
    pattern("credential-files", rf"(?<![\w.])(?:~|\$HOME|\$\{{HOME\}}|%USERPROFILE%|/home/[\w*]+|/root|/Users/[\w*]+)?[/\\]?(?:{CREDENTIAL_FILES})", *_SECRET_WORDS),
    pattern("credential-store", r"\bsecurity (?:find-(?:generic|internet)-password|dump-keychain|unlock-keychain)\b", "security "),
    pattern("credential-store", r"\b(?:secret-tool (?:lookup|search)|gnome-keyring-\w+ |kwallet-query|op item get --reveal|lpass show|bw list items|cmdkey /list|vaultcmd /list)", "secret-tool", "keyring", "kwallet", "op item", "lpass", "bw list", "cmdkey", "vaultcmd"),
    pattern("environment-dump", r"\b(?:curl|wget|nc)\b[^\n]{0,160}?(?:\$\(|`)\s{0,3}(?:env|printenv)\b", "env"),
    pattern("collects-secrets", r"\bjson\.dumps\(\s{0,3}(?:\w{1,20}_)?(?:secrets|credentials|creds|api_keys|env_vars|environment)\s{0,3}[,)]", "json.dumps"),
    pattern("environment-dump", r"\bObject\.(?:entries|keys)\(\s{0,3}process\.env\s{0,3}\)[^;\n]{0,160}\b\w{0,20}(?:key|secret|token|passw)", "process.env"),
    pattern("environment-dump", r"\bJSON\.stringify\(\s{0,3}process\.env\s{0,3}[,)]", "process.env"),
    pattern("cloud-metadata", r"\b169\.254\.169\.254\b|\bmetadata\.google\.internal\b|\b100\.100\.100\.200\b", "169.254.169.254", "metadata.google", "100.100.100.200"),
)  # fmt: skip
_ENVIRONMENT_PATTERNS: Final = (
    pattern("environment-dump", r"(?:^|[;&|(`]\s{0,3})(?:env|printenv|export -p|set)\s{0,3}(?:\|(?! {0,3}(?:sort|less|head)\b)|>>?|&&)", "env", "export -p", "set"),
)  # fmt: skip
_NAMED_TO_REFUSE: Final = re.compile(r"block|den[iy]|forbid|private|ssrf|refuse|unsafe", re.IGNORECASE)
"""Words of a line that names an address so that it is not contacted."""
_SECRETS: Final = (
    pattern("hard-coded-secret", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", "akia", "asia", case=True),
    pattern("hard-coded-secret", r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b|\bgithub_pat_[A-Za-z0-9_]{50,255}\b", "gh", case=True),
    pattern("hard-coded-secret", r"\bglpat-[\w-]{20}\b|\bxox[abprs]-[0-9A-Za-z-]{20,255}\b", "glpat-", "xox", case=True),
    pattern("hard-coded-secret", r"\bsk-(?:ant-|proj-|live-)?[A-Za-z0-9_-]{32,255}\b|\b[rs]k_live_[A-Za-z0-9]{20,255}\b", "sk-", "k_live_", case=True),
    pattern("hard-coded-secret", r"\bAIza[0-9A-Za-z_-]{35}\b|\bnpm_[A-Za-z0-9]{36}\b|\bhf_[A-Za-z]{34}\b|\bpypi-[A-Za-z0-9_-]{60,255}", "aiza", "npm_", "hf_", "pypi-", case=True),
    pattern("hard-coded-secret", r"-----BEGIN (?:RSA |EC |DSA |OPENSSH |PGP |ENCRYPTED )?PRIVATE KEY(?: BLOCK)?-----\s{0,4}[\w+/=\\\"',: .-]{60}", "private key", case=True),
    pattern("hard-coded-secret", r"\b(?:postgres(?:ql)?|mysql|mongodb(?:\+srv)?|redis|amqps?)://[\w.-]{1,40}:(?![<${%*\[]|pass|pw\b|your|user)[^\s:@/\"'`]{6,60}@(?!localhost|127\.|0\.0\.0\.0|10\.|192\.168\.|host\b|your|<|[$\[{])[\w-]{1,60}(?:\.[\w-]{1,60}){1,4}", "://", case=True),
    pattern("hard-coded-password", r"\b(?:password|passwd|pwd|db_pass|secret_?key|api_?key|auth_?token)[\"']?\s{0,3}[:=]\s{0,3}[\"'](?=[^\"'\n]{0,60}\d)[^\"'\s<>{}$%]{8,60}[\"']", "passw", "pwd", "db_pass", "secret", "key", "token"),
)  # fmt: skip
_PLACEHOLDER: Final = re.compile(
    r"example|your|xxxx|\*\*\*|\.\.\.|test|dummy|sample|placeholder|changeme|redacted|1234567|abcdef|<|fake|demo|replace|insert|secret123|password123",
    re.IGNORECASE,
)  # fmt: skip
_MANY_KINDS: Final = 10  # different characters: fewer is a row of x, not a key


def find_credentials(source: SourceText) -> Iterator[Hit]:
    """Files and stores with secrets that are named; the shell's ways to write its environment only where a shell reads."""
    for hit in find(source, _PATTERNS):
        refused = hit.rule == "cloud-metadata" and _NAMED_TO_REFUSE.search(source.line_at(hit.offset))
        yield replace(hit, relief=hit.relief + 1) if refused else hit
    if source.language not in ("python", "javascript"):
        yield from find(source, _ENVIRONMENT_PATTERNS)


_GIVEN: Final = re.compile(
    r"\b(?:passw(?:or)?d|db_pass|pgpassword)[\"']?\s{0,3}[:=]\s{0,3}[\"'](?P<value>(?=[^\"'\n]{0,60}\d)[^\"'\s<>{}$%]{6,60})[\"']",
    re.IGNORECASE,
)
_HOST_GIVEN: Final = re.compile(rf"\bhost(?:name)?[\"']?\s{{0,3}}[:=]\s{{0,3}}[\"']{PUBLIC_ADDRESS}[\"']", re.IGNORECASE)
_BESIDE: Final = 400  # characters between a password and the machine that it opens


def find_secrets(source: SourceText) -> Iterator[Hit]:
    """Keys and passwords in the text, comments too; what is plainly a placeholder does not count."""
    if "host" in source.lower and (given := _HOST_GIVEN.search(source.text)):
        password = _GIVEN.search(source.text, max(0, given.start() - _BESIDE), given.end() + _BESIDE)
        if password and not _PLACEHOLDER.search(password["value"]):
            yield Hit(
                "hard-coded-secret", password.start(), "a password stands beside the public address that it opens",
                "(not shown)", relief=int(source.role == "script"),
            )  # fmt: skip
    for hit in find(source, _SECRETS):
        value = source.text[hit.offset : hit.offset + 120].partition("\n")[0]
        private = value.startswith("-----BEGIN")
        shown = value if private else re.split(r"[\s,;)]", value.partition("=")[2] or value)[0]
        if private or (not _PLACEHOLDER.search(value) and len(set(shown)) >= _MANY_KINDS):
            yield Hit(hit.rule, hit.offset, evidence=f"{value[:12]}… (not shown)")
