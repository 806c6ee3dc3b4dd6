"""The environment a run sees, the names a skill may not set, and the removal of secret values from what comes back.

The environment starts empty; nothing of the host's own environment ever enters.
"""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from collections.abc import Collection, Iterable, Mapping
from typing import Final

REDACTED: Final = b"[redacted]"

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_VALUE_LIMIT: Final = 32 * 1024
_TOTAL_LIMIT: Final = 48 * 1024  # the whole of it travels through one pipe before the run starts
_SHORTEST_SECRET: Final = 4
# Names that change how a program is loaded or interpreted, reach for other credentials, or belong to the sandbox.
_REFUSED: Final = frozenset({
    "BASH_ENV", "DOCKER_HOST", "ENV", "HOME", "IFS", "NODE_OPTIONS", "NODE_PATH", "PATH", "PS4", "PWD", "RUBYLIB", "RUBYOPT",
    "SHELL", "SHELLOPTS", "BASHOPTS", "TMPDIR",
})  # fmt: skip
_REFUSED_PREFIXES: Final = ("LD_", "DYLD_", "PYTHON", "GIT_", "SSH_", "PERL5", "SKILL_", "BASH_FUNC_", "GLIBC_", "MALLOC_")
_REFUSED_SUFFIXES: Final = ("_PROXY",)
_SECRET: Final = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTH|COOKIE|PRIVATE)", re.IGNORECASE)


def base_environment(*, scratch: str) -> dict[str, str]:
    """The few variables every run has; `scratch` is its private temporary folder, which is also its home."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": scratch,
        "TMPDIR": scratch,
        "LANG": "C.UTF-8",
        "SKILL_RESULT_FD": "3",
        "SKILL_PROTOCOL": "1",
    }


def proxy_environment(port: int) -> dict[str, str]:
    """The variables that lead programs to the run's own proxy, in both spellings; no host is exempt."""
    address = f"http://127.0.0.1:{port}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    variables = dict.fromkeys((*names, *(name.lower() for name in names)), address)
    return {**variables, "NO_PROXY": "", "no_proxy": "", "NODE_USE_ENV_PROXY": "1"}


def environment_problems(environment: Mapping[str, str]) -> list[str]:
    """One sentence for each variable that cannot be granted; a value is never repeated."""
    if not isinstance(environment, Mapping):
        return ["environment must be a mapping of names to text"]
    problems = [problem for name, value in environment.items() if (problem := _problem(name, value))]
    total = 0 if problems else sum(len(f"{name}{value}".encode("utf-8", "replace")) for name, value in environment.items())
    if total > _TOTAL_LIMIT:
        problems.append(f"environment is over {_TOTAL_LIMIT} bytes in all")
    return problems


def _problem(name: object, value: object) -> str | None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"environment name {name!r} is not a variable's name (letters, digits and _; no patterns)"
    upper = name.upper()
    if upper in _REFUSED or upper.startswith(_REFUSED_PREFIXES) or upper.endswith(_REFUSED_SUFFIXES):
        return f"environment variable {name} may not be set by a skill"
    if not isinstance(value, str) or "\0" in value or len(value) > _VALUE_LIMIT:
        return f"environment variable {name} must be text without NUL of at most {_VALUE_LIMIT} characters"
    return None


def name_problem(name: str) -> str | None:
    """Why a variable of this name may not be given to a run, or `None`."""
    return _problem(name, "")


def granted_values(requested: Mapping[str, str], grants: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """The variables a run gets: the skill's own words, and for the names an operator grants the operator's values.

    `names` are all granted names, also those without a value here. A skill requests a variable by leaving its value
    empty; what is requested for and not granted, or granted and not set, is absent.
    """
    chosen = {name: grants.get(name, "" if name in names else value) for name, value in requested.items()}
    return {name: value for name, value in chosen.items() if value}


def is_secret_name(name: str) -> bool:
    """Whether a variable's name says that its value is a secret (`API_KEY`, `githubToken`)."""
    return bool(_SECRET.search(name))


def redact(data: bytes, secrets: Iterable[str]) -> bytes:
    """`data` with every secret replaced: as it is, and as base64, URL-quoted or inside JSON text.

    A secret a program encodes in some other way, or cuts into pieces, is not recognized: redaction guards against accidents.
    """
    for form in secret_forms(secrets):
        data = data.replace(form, REDACTED)
    return data


def secret_forms(secrets: Iterable[str]) -> list[bytes]:
    """Every form in which a secret is looked for, the longest of each secret first; those of under four characters are not."""
    return [form for secret in secrets if len(secret) >= _SHORTEST_SECRET for form in _forms(secret)]


def _forms(secret: str) -> list[bytes]:
    raw = secret.encode("utf-8", "surrogateescape")
    texts = [urllib.parse.quote(raw, safe=""), urllib.parse.quote_plus(raw)]
    texts += [json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)]
    forms = {raw, *_base64_forms(raw), *(text.encode("utf-8", "surrogateescape") for text in texts)}
    return sorted(forms, key=len, reverse=True)


def _base64_forms(raw: bytes) -> list[bytes]:
    """The whole secret in base64, and the part that does not depend on what stands before it, at each of the three offsets."""
    forms = [base64.b64encode(raw), base64.urlsafe_b64encode(raw), raw.hex().encode()]
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + raw)
        inner = encoded[(0, 2, 3)[offset] : len(raw + b"\0" * offset) // 3 * 4]
        if len(inner) >= 8:
            forms += [inner, inner.translate(bytes.maketrans(b"+/", b"-_"))]
    return forms
