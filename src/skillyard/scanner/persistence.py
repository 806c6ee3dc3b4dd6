"""Persistence: what stays on the machine and runs again when the skill is done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skillyard.scanner.matching import chain, find, pattern
from skillyard.scanner.rule import Rule
from skillyard.scanner.source import Hit, Source

__all__ = ["PERSISTENCE_RULES", "look_for_persistence"]

_FIX: Final = "leave it out, or describe it and let the user do it"

PERSISTENCE_RULES: Final = (
    Rule("scheduled-job", "persistence", "a job is scheduled that runs again and again",
         "It goes on when the conversation is over and nobody looks any more.", _FIX, "medium", "low"),
    Rule("scheduled-download", "persistence", "a scheduled job fetches something, or connects to somebody",
         "It goes on when nobody looks, and does what the other side says that day.", _FIX, "high", "low"),
    Rule("shell-startup", "persistence", "a file that every new shell reads is changed",
         "Whatever is written there runs in every terminal from then on.", _FIX, "medium", "low"),
    Rule("background-service", "persistence", "a service is installed that starts with the machine or the login",
         "It outlives the skill and restarts when it is stopped.", _FIX, "medium", "low"),
    Rule("git-hooks", "persistence", "hooks are put into a repository or into git's settings",
         "They run with every commit, as the user, wherever the repository is used.", _FIX, "medium", "low"),
    Rule("agent-settings", "persistence", "the settings or the standing instructions of an agent are changed",
         "They hold for every later conversation: hooks run commands, instructions steer the model.", _FIX, "medium", "low"),
    Rule("login-keys", "persistence", "a key is added to those that may log in",
         "Whoever has the other half of the key can come back at any time.", _FIX, "high", "medium"),
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
    "claude",
    "agents.md",
    "gemini",
    "cursor",
    "codex",
    "mcp.json",
    "copilot",
    "soul.md",
    "memory.md",
    ".vscode",
)
_PATTERNS: Final = (
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


def look_for_persistence(source: Source) -> Iterator[Hit]:
    """Commands that change what starts by itself."""
    yield from find(source, _PATTERNS)
