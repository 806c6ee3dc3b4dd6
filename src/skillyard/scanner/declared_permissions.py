"""Permissions: what SKILL.md declares beside what its scripts do, and declarations that are wider than any use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from skillyard.errors import InvalidPolicy
from skillyard.scanner.dangerous_commands import CREDENTIAL_FILES
from skillyard.scanner.finding import ScanRule
from skillyard.scanner.matching import find, pattern
from skillyard.scanner.source_texts import Hit, SourceText

if TYPE_CHECKING:
    from skillyard.document import Document


PERMISSION_RULES: Final = (
    ScanRule("all-tools", "permissions", "the skill requests every tool",
         "The model can then follow its text without asking the user.", "name the tools it needs in `allowed-tools`", "medium"),
    ScanRule("unlimited-shell", "permissions", "the skill requests to run any command",
         "`Bash` without a pattern allows every command without asking the user.", "name the commands, such as `Bash(git status:*)`", "info"),
    ScanRule("undeclared-commands", "permissions", "a script starts programs, and `allowed-tools` names no shell",
         "The skill does more than it requests.", "add the command to `allowed-tools`, as in `Bash(python:*)`", "low"),
    ScanRule("hooks", "permissions", "SKILL.md sets hooks, which run commands automatically",
         "They run on events, without asking the user.", "remove them, or describe what the user may set", "medium"),
    ScanRule("all-hosts", "permissions", "every host is allowed",
         "An allow-list with a `*` restricts nothing.", "name the hosts", "medium"),
    ScanRule("unused-permission", "permissions", "the network is declared, and no script uses it",
         "An unneeded permission can be misused by a later version of the skill.", "remove the declaration", "info"),
    ScanRule("undeclared-variable", "permissions", "a script reads a secret that SKILL.md never names",
         "Users who install the skill do not know which secret it uses.", "name the variable in `security.environment` or in the text", "low"),
    ScanRule("undeclared-key-sent", "permissions", "a key that SKILL.md never names is sent in an address or a body",
         "The user does not know that it is used, nor where it is sent.", "name the variable and the service in SKILL.md, and send the key in a header", "medium", "low"),
    ScanRule("skips-permissions", "permissions", "an agent is started without its permission checks",
         "The user is then asked about none of its actions.", "start it with the permissions it needs", "medium", "medium"),
    ScanRule("raises-privilege", "permissions", "a script uses administrator rights, or gives all permissions to everybody",
         "A mistake then affects the whole machine.", "run as the user, and list the packages that the user must install", "low", "info"),
    ScanRule("opens-to-everybody", "permissions", "a folder of the system is made writable for everybody, or a program runs as its owner",
         "Every program and every user of the machine can then change what others run.", "give the one user the right that is needed", "medium", "medium"),
    ScanRule("no-password-asked", "permissions", "a user is allowed to become administrator without a password",
         "It applies permanently to everything that runs as this user.", "remove it", "high", "medium"),
)  # fmt: skip

_ALL_TOOLS: Final = {"*", "all", "all tools"}
_ANY_COMMAND: Final = {"bash", "bash(*)", "bash(*:*)", "shell"}
_SHELLS: Final = re.compile(
    r"^(?:bash|shell|sh|terminal|exec|execute|run_?\w*|\*|all|python|code\w*|mcp__\w*)\b", re.IGNORECASE
)
PURPOSE_RULES: Final = (
    ScanRule("beside-purpose", "identity", "the skill does something that its description does not mention",
         "Who picks a skill for what its description says does not expect it.", "say it in the description, or leave it out", "medium"),
)  # fmt: skip
_ACTS: Final = tuple(
    (what, takes, re.compile(does, re.IGNORECASE), re.compile(says, re.IGNORECASE))
    for what, takes, does, says in (
        ("sends mail", False, r"\bsmtplib\.SMTP|\bnodemailer\.createTransport|\bsendmail\s{1,3}-|\bsmtps?://|\bSend-MailMessage\b",
            r"mail|smtp|inbox|newsletter|notif|alert|messag|digest|邮"),
        ("writes to a messenger", False, r"api\.telegram\.org/bot|discord(?:app)?\.com/api/webhooks/|hooks\.slack\.com/services/",
            r"telegram|discord|slack|chat|messag|notif|alert|webhook|bot\b|channel|消息|通知"),
        ("reads keys or passwords", True, CREDENTIAL_FILES,
            r"ssh|key|credential|secret|passw|login|auth|token|aws|cloud|kube|docker|git|npm|deploy|secur|audit|config|backup|browser|cookie|密|钥|凭"),
        ("reads wallets", True, r"wallet\.dat\b|\.config/solana/id\.json|\.ethereum/keystore|\b(?:Exodus|Electrum)/wallets?\b|nkbihfbeogaeaoehlefnkodbefgpgknn",
            r"wallet|crypto|coin|chain|token|defi|nft|solana|ethereum|web3|trad|钱包|币"),
        ("records the screen, the keyboard or the clipboard", True, r"\bpynput\.keyboard|\bImageGrab\.grab\b|\bpyperclip\.paste\b|\bGetAsyncKeyState\b|\bpbpaste\b|\bxclip\s[^\n]{0,20}-o\b",
            r"screen|captur|record|clip|paste|keyboard|mouse|automat|desktop|gui|macro|input|截|屏|剪贴"),
    )
)  # fmt: skip
"""What a skill may do, whether that takes something from the user, what shows it in a script, and what a description says of it."""
_PRIVILEGE_PATTERNS: Final = (
    pattern("skips-permissions", r"--dangerously-skip-permissions\b|--dangerously-bypass-approvals-and-sandbox\b|\bbypassPermissions\b|--allow-all-tools\b|--yolo\b", "--dangerously", "bypasspermissions", "--allow-all", "--yolo"),
    pattern("raises-privilege", r"(?:^|[;&|(`]\s{0,3})sudo\s{1,3}(?!-k\b)[\w/-]", "sudo"),
    pattern("raises-privilege", r"\bchmod\s{1,3}(?:-R\s{1,3})?(?:0?777|a\+rwx|[ug]\+s|[2467][0-7]{3})\s", "chmod"),
    pattern("opens-to-everybody", r"\bchmod\s{1,3}(?:-R\s{1,3})?(?:0?777|a\+rwx|o\+w)\s{1,3}[\"']?/(?:opt|etc|usr|var(?!/www)|root|s?bin|lib|boot|\s|$)", "chmod"),
    pattern("opens-to-everybody", r"\bchmod\s{1,3}(?:-R\s{1,3})?(?:[ug]{1,2}\+s|[2467]7[0-7]{2})\s", "chmod"),
    pattern("opens-to-everybody", r"\bchown\s{1,3}(?:-R\s{1,3})?(?!root)[\w:$(){}-]{1,40}\s{1,3}/(?:etc|usr/s?bin|s?bin|lib|boot|root)\b", "chown"),
    pattern("no-password-asked", r"\bNOPASSWD\s{0,2}:", "nopasswd"),
    pattern("no-password-asked", r"\busermod\s{1,3}-a?G\s{1,3}(?:sudo|wheel|root)\b", "usermod"),
    pattern("raises-privilege", r"\busermod\s{1,3}-a?G\s{1,3}docker\b", "usermod"),
)  # fmt: skip
_VARIABLE: Final = re.compile(
    r"(?:os\.environ(?:\.get\(|\[)|os\.getenv\(|process\.env(?:\.|\[))\s{0,2}[\"']?([A-Z][A-Z0-9_]{1,60}(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?))\b"
)
_SAYS_NETWORK: Final = re.compile(
    r"network|internet|online|https?://|\bAPI\b|download|upload|web\b|fetch|remote|server|cloud", re.IGNORECASE
)


_DELETES: Final = re.compile(
    r"\bfor (\w{1,30}) in [^\n]{1,120}:[^\n]{0,80}\n(?:[^\n]{0,160}\n){0,2}?[^\n]{0,80}?(?:\bos\.(?:remove|unlink)\(\1\)|(?<!\w)\1\.unlink\()"
    r"|\bfor (\w{1,30}) in [^\n]{0,60}\*[^\n]{0,60};?\s{0,3}\n?\s{0,8}do\b\s{0,8}\n?[^\n]{0,60}\brm (?:-\w{1,3} )?[\"']?\$\{?\2\b"
)
_SCRATCH: Final = re.compile(r"te?mp|cache|scratch|\.lock|\bold\b|stale|expired|backup|rotat|partial|chunk", re.IGNORECASE)
_SAYS_DELETE: Final = re.compile(
    r"delet|remov|clean|purg|eras|trash|overwrit|replac|prun|discard|uninstall|reset|\brm\b|删|清", re.IGNORECASE
)
_NAMED_ONLY: Final = re.compile(
    r"\bnever use\b|\b(?:do not|don'?t) use\b|\bcannot be used\b|\benum\b|\bacceptEdits\b[^\n]{0,40}\bbypassPermissions|\b(?:default|true\|false)\b[^\n]{0,20}\)$",
    re.IGNORECASE,
)
"""A line that names a way to start an agent among others, or forbids it."""
_TOLD: Final = re.compile(r"\b(?:run|execute|use|call|start|launch)\b:?[^\n`]{0,20}`[^\n`]{0,400}$", re.IGNORECASE)
"""What stands before a part of a command that prose tells to run."""


def find_privileges(source: SourceText) -> Iterator[Hit]:
    """Commands that take or give rights; that an agent can be started without questions weighs less where it is only mentioned."""
    for hit in find(source, _PRIVILEGE_PATTERNS):
        line, column = source.whole_line(hit.offset)
        mentioned = _NAMED_ONLY.search(line) or (source.role not in ("script", "example") and not _TOLD.search(line[:column]))
        yield replace(hit, relief=hit.relief + 1) if hit.rule == "skips-permissions" and mentioned else hit


@dataclass
class ObservedBehavior:
    """What the scripts of a skill were seen to do: where each thing is first done, as source and offset."""

    network: list[tuple[SourceText, int]] = field(default_factory=list)
    commands: list[tuple[SourceText, int]] = field(default_factory=list)
    hosts: list[tuple[SourceText, int, str]] = field(default_factory=list)
    variables: list[tuple[SourceText, int, str]] = field(default_factory=list)
    sent_keys: list[tuple[SourceText, int]] = field(default_factory=list)
    acts: dict[str, tuple[SourceText, int]] = field(default_factory=dict)
    """What is done first where, of that which a description should mention."""
    deletions: list[tuple[SourceText, int]] = field(default_factory=list)
    """Where every file of a kind is deleted."""

    def note_acts(self, source: SourceText, text: str) -> None:
        """Note what the text of a script does."""
        if (match := _DELETES.search(text)) and not _SCRATCH.search(text, max(0, match.start() - 400), match.end()):
            self.deletions.append((source, match.start()))
        for what, _, does, _ in _ACTS:
            if what not in self.acts and (match := does.search(text)):
                self.acts[what] = source, match.start()


def variables_in(text: str) -> dict[str, int]:
    """Secrets a script takes from its environment, with the offset of the first use of each."""
    variables: dict[str, int] = {}
    for match in _VARIABLE.finditer(text):
        variables.setdefault(match[1], match.start())
    return variables


def compare_declarations(document: Document, skill_md: SourceText, facts: ObservedBehavior) -> Iterator[tuple[SourceText, Hit]]:
    """SKILL.md beside what its scripts do."""
    for hit in _declared(document, skill_md, used=bool(facts.network)):
        yield skill_md, hit
    yield from _tools(document, facts)
    yield from _beside_purpose(document, facts)
    yield from _network(document, facts)
    unnamed = [(source, offset, name) for source, offset, name in facts.variables if name not in document.text]
    for sender, at in facts.sent_keys:
        if any(source is sender for source, _, _ in unnamed):
            yield sender, Hit("undeclared-key-sent", at)
    for source, offset, name in unnamed:
        yield source, Hit("undeclared-variable", offset, f"a script reads {name}, which SKILL.md never names")


def _beside_purpose(document: Document, facts: ObservedBehavior) -> Iterator[tuple[SourceText, Hit]]:
    """What is done and not mentioned; it weighs more where something is taken and sent, and neither is mentioned."""
    metadata = document.metadata
    head = f"{metadata.name} {metadata.description} {metadata.compatibility or ''}"
    if not metadata.description:
        return
    unsaid = {what: takes for what, takes, _, says in _ACTS if what in facts.acts and not says.search(head)}
    sends = not all(unsaid.values()) or (bool(facts.network) and not _SAYS_NETWORK.search(head))
    if facts.deletions and not _SAYS_DELETE.search(document.text):
        source, offset = facts.deletions[0]
        yield source, Hit("beside-purpose", offset, "the skill deletes files of a kind, and SKILL.md does not mention it")
    for what, takes in unsaid.items():
        source, offset = facts.acts[what]
        together = sends and any(unsaid.values())
        message = (
            f"the skill {what}{' and sends something' if takes and together else ''}, and its description does not mention it"
        )
        yield source, Hit("beside-purpose", offset, message, relief=0 if together else 1)


def _declared(document: Document, skill_md: SourceText, *, used: bool) -> Iterator[Hit]:
    metadata = document.metadata
    tools = {tool.strip().lower() for tool in metadata.allowed_tools}
    if rule := "all-tools" if tools & _ALL_TOOLS else "unlimited-shell" if tools & _ANY_COMMAND else "":
        yield Hit(rule, _at(skill_md, ("allowed-tools", "allowed_tools", "allowedTools")))
    if "hooks" in metadata.extra:
        yield Hit("hooks", _at(skill_md, ("hooks",)))
    if any(host.strip() in ("*", "*.*", "0.0.0.0/0") for host in metadata.security.network_allowlist):
        yield Hit("all-hosts", _at(skill_md, ("network_allowlist", "external_apis")))
    if metadata.security.network == "allowlist" and not used:
        yield Hit("unused-permission", _at(skill_md, ("network_allowlist", "external_apis", "network")))


def _tools(document: Document, facts: ObservedBehavior) -> Iterator[tuple[SourceText, Hit]]:
    metadata = document.metadata
    if metadata.allowed_tools and facts.commands and not any(_SHELLS.match(tool) for tool in metadata.allowed_tools):
        source, offset = facts.commands[0]
        yield source, Hit("undeclared-commands", offset)


def _network(document: Document, facts: ObservedBehavior) -> Iterator[tuple[SourceText, Hit]]:
    security = document.metadata.security
    if security.network is None:
        head = f"{document.metadata.description} {document.metadata.compatibility or ''}"
        if facts.network and not _SAYS_NETWORK.search(head):
            source, offset = facts.network[0]
            yield source, Hit("undeclared-network", offset)
        return
    if security.network == "none" and facts.network:
        source, offset = facts.network[0]
        yield source, Hit("undeclared-host", offset, "a script uses the network, and SKILL.md declares that none is used")
    elif security.network == "allowlist":
        for source, offset, host in facts.hosts:
            if not _covered(security.network_allowlist, host) and any(one is source for one, _ in facts.network):
                yield source, Hit("undeclared-host", offset, f"a script names {host}, which SKILL.md does not declare")


def _covered(patterns: Sequence[str], host: str) -> bool:
    from skillyard.network import covers

    try:
        return covers(tuple(patterns), host)
    except InvalidPolicy:
        return True  # the declaration itself is wrong, which `check` reports


def _at(skill_md: SourceText, keys: Sequence[str]) -> int:
    return next((offset for key in keys if (offset := skill_md.text.find(key)) >= 0), 0)
