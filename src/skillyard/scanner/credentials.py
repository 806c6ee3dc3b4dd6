"""Credentials: files, stores and variables that hold secrets, and secrets in the skill itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from skillyard.scanner.finding import ScanRule
from skillyard.scanner.matching import find, pattern
from skillyard.scanner.sources import Hit, SourceText

CREDENTIAL_RULES: Final = (
    ScanRule("credential-files", "credentials", "a file with keys, passwords or sessions is referenced",
         "Whoever reads it can act as the user elsewhere.", "ask the user for the one value that is needed, by the name of a variable",
         "medium", "low"),
    ScanRule("credential-store", "credentials", "the keychain or password store of the machine is queried",
         "It contains every password of the user, not just the one the skill needs.", "ask the user for the one value that is needed",
         "medium", "low"),
    ScanRule("environment-dump", "credentials", "the whole environment is written out or searched for secrets",
         "It contains every exported key.", "read the one variable that is needed, by its name", "medium", "low"),
    ScanRule("hard-coded-secret", "credentials", "the file contains a key or token",
         "Everyone who has the skill has the key, and with a stranger's key the user's data goes to the stranger's account.",
         "revoke it, and read it from a variable", "high", "medium"),
    ScanRule("hard-coded-password", "credentials", "the file contains a password",
         "Everyone who has the skill has the password.", "read it from a variable", "low", "info"),
    ScanRule("cloud-metadata", "credentials", "the metadata service of the cloud is queried",
         "It returns the credentials of the machine to any process.", "give the skill a key of its own", "medium", "low"),
)  # fmt: skip

CREDENTIAL_FILES: Final = (
    r"\.ssh/(?:id_\w+|identity|\*|config\b)|\.aws/(?:credentials|config\b)|\.netrc\b|\.kube/config\b|\.docker/config\.json|\.config/gcloud\b|\.azure/\w+"
    r"|\.pypirc\b|\.git-credentials\b|\.gnupg\b|\.config/gh/hosts|\.claude/\.credentials|\.codex/auth\.json|\.cargo/credentials"
    r"|\.(?:bash|zsh)_history\b|/etc/(?:shadow|sudoers|master\.passwd)\b|\.password-store\b|\.electrum\b|\.bitcoin/wallet|wallet\.dat\b"
    r"|(?:Chrome|Chromium|Firefox|Brave-Browser)[\w/ .\\-]{0,60}(?:Login Data|Cookies|logins\.json|key4\.db)|cookies\.sqlite\b|\.vault-token\b"
    r"|\.terraform\.d/credentials|\.npmrc\b(?=[^\n]{0,40}(?:token|auth|cat|read))|/proc/(?:self|\d+|\*)/environ\b"
)
CREDENTIAL_PATH: Final = re.compile(CREDENTIAL_FILES + r"|\.ssh/?$|\.aws/?$", re.IGNORECASE)
"""A path that holds secrets."""
SECRET_NAME: Final = re.compile(
    r"(?:api_?key|secret|token|passw(?:or)?d|credential|private_?key|access_?key|auth)", re.IGNORECASE
)
"""The name of a variable that holds a secret."""

_SECRET_WORDS: Final = (
    ".ssh", ".aws", "netrc", "kube", ".docker", "gcloud", ".azure", "pypirc", ".git-cred", "gnupg", "hosts", ".credentials", "auth.json", ".cargo",
    "_history", "/etc/", "password-store", "electrum", "wallet", "chrome", "chromium", "firefox", "brave", "cookies", "vault-token", "terraform", "npmrc",
    "environ",
)  # fmt: skip
_PATTERNS: Final = (
    pattern("credential-files", rf"(?<![\w.])(?:~|\$HOME|\$\{{HOME\}}|%USERPROFILE%|/home/[\w*]+|/root|/Users/[\w*]+)?[/\\]?(?:{CREDENTIAL_FILES})", *_SECRET_WORDS),
    pattern("credential-store", r"\bsecurity (?:find-(?:generic|internet)-password|dump-keychain|unlock-keychain)\b", "security "),
    pattern("credential-store", r"\b(?:secret-tool (?:lookup|search)|gnome-keyring-\w+ |kwallet-query|op item get --reveal|lpass show|bw list items|cmdkey /list|vaultcmd /list)", "secret-tool", "keyring", "kwallet", "op item", "lpass", "bw list", "cmdkey", "vaultcmd"),
    pattern("environment-dump", r"\b(?:curl|wget|nc)\b[^\n]{0,160}?(?:\$\(|`)\s{0,3}(?:env|printenv)\b", "env"),
    pattern("environment-dump", r"\bJSON\.stringify\(\s{0,3}process\.env\s{0,3}[,)]", "process.env"),
    pattern("cloud-metadata", r"\b169\.254\.169\.254\b|\bmetadata\.google\.internal\b|\b100\.100\.100\.200\b", "169.254.169.254", "metadata.google", "100.100.100.200"),
)  # fmt: skip
_ENVIRONMENT_PATTERNS: Final = (
    pattern("environment-dump", r"(?:^|[;&|(`]\s{0,3})(?:env|printenv|export -p|set)\s{0,3}(?:\|(?! {0,3}(?:sort|less|head)\b)|>>?|&&)", "env", "export -p", "set"),
)  # fmt: skip
_REFUSED: Final = re.compile(r"block|den[iy]|forbid|private|ssrf|refuse|unsafe", re.IGNORECASE)
"""Words of a line that names an address so that it is not contacted."""
_SECRETS: Final = (
    pattern("hard-coded-secret", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", "akia", "asia", case=True),
    pattern("hard-coded-secret", r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b|\bgithub_pat_[A-Za-z0-9_]{50,255}\b", "gh", case=True),
    pattern("hard-coded-secret", r"\bglpat-[\w-]{20}\b|\bxox[abprs]-[0-9A-Za-z-]{20,255}\b", "glpat-", "xox", case=True),
    pattern("hard-coded-secret", r"\bsk-(?:ant-|proj-|live-)?[A-Za-z0-9_-]{32,255}\b|\b[rs]k_live_[A-Za-z0-9]{20,255}\b", "sk-", "k_live_", case=True),
    pattern("hard-coded-secret", r"\bAIza[0-9A-Za-z_-]{35}\b|\bnpm_[A-Za-z0-9]{36}\b|\bhf_[A-Za-z]{34}\b|\bpypi-[A-Za-z0-9_-]{60,255}", "aiza", "npm_", "hf_", "pypi-", case=True),
    pattern("hard-coded-secret", r"-----BEGIN (?:RSA |EC |DSA |OPENSSH |PGP |ENCRYPTED )?PRIVATE KEY(?: BLOCK)?-----\s{0,4}[\w+/=\\\"',: .-]{60}", "private key", case=True),
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
        refused = hit.rule == "cloud-metadata" and _REFUSED.search(source.line_at(hit.offset))
        yield replace(hit, relief=hit.relief + 1) if refused else hit
    if source.language not in ("python", "javascript"):
        yield from find(source, _ENVIRONMENT_PATTERNS)


def find_secrets(source: SourceText) -> Iterator[Hit]:
    """Keys and passwords in the text, comments too; what is plainly a placeholder does not count."""
    for hit in find(source, _SECRETS):
        value = source.text[hit.offset : hit.offset + 120].partition("\n")[0]
        private = value.startswith("-----BEGIN")
        shown = value if private else re.split(r"[\s,;)]", value.partition("=")[2] or value)[0]
        if private or (not _PLACEHOLDER.search(value) and len(set(shown)) >= _MANY_KINDS):
            yield Hit(hit.rule, hit.offset, evidence=f"{value[:12]}… (not shown)")
