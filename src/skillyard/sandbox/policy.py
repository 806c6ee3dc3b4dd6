"""What one run may do: the policy a skill declares, the ceiling an operator sets, and the smaller of the two.

A skill's `security:` block is a request. The effective policy is the minimum of what the skill declares and what the operator
allows; a skill that declares nothing gets no network, a read-only skill folder and an empty environment: nothing of the
host's own ever enters it. Below the policy are the variables of every run, the names that cannot be granted, and the removal of
secret values from what comes back.
"""

from __future__ import annotations

import base64
import json
import os
import re
import urllib.parse
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final, Literal, get_args

from skillyard.errors import InvalidPolicy
from skillyard.network.hosts import ANY_HOST, covers, host_problem
from skillyard.times import MAX_RUN_MS

Network = Literal["none", "allowlist"]
Filesystem = Literal["none", "read-only", "read-write"]

RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "timeout_ms": (1, MAX_RUN_MS),
    "memory_mb": (16, 65_536),
    "pids": (1, 4_096),
    "nofile": (16, 65_536),
    "file_size_mb": (1, 16_384),
    "tmp_mb": (1, 16_384),
    "output_bytes": (1, 64 * 1024 * 1024),
    "result_bytes": (1, 16 * 1024 * 1024),
    "input_bytes": (1, 64 * 1024 * 1024),
}
"""The least and the most each number may be."""
_WORK_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "work_files": (1, 100_000),
    "work_mb": (1, 16_384),
    "work_levels": (1, 64),
}
_ALL_RANGES: Final = {**RANGES, **_WORK_RANGES}

_IMAGE: Final = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254})?")
_FILESYSTEM_RANK: Final[Mapping[str, int]] = {"none": 0, "read-only": 1, "read-write": 2}
_DECLARABLE: Final = ("timeout_ms", "memory_mb", "network", "network_allowlist", "filesystem", "environment")
_DECLARED_NUMBERS: Final = tuple(name for name in RANGES if name in _DECLARABLE)
# what an operator allows is what a run gets: no skill declares them
_OPERATORS_NUMBERS: Final = tuple(name for name in _ALL_RANGES if name not in _DECLARABLE)
_SETTABLE: Final = (
    *_ALL_RANGES, "network", "network_allowlist", "private_networks", "hidden_files", "filesystem", "environment",
    "pass_environment",
)  # fmt: skip
# settings of the same table that are not about a policy
_OTHERS: Final = (
    "backend", "container-image", "install-dependencies", "npm-hosts", "npm-registry", "package-hosts", "package-index",
    "prewarm",
)  # fmt: skip
_GRANTS: Final = (
    "container-image", "environment", "hidden-files", "install-dependencies", "npm-hosts", "npm-registry", "package-hosts",
    "package-index", "pass-environment", "prewarm", "private-networks",
)  # fmt: skip
_ALIASES: Final[Mapping[str, str]] = {
    "timeoutMs": "timeout_ms",
    "memoryMb": "memory_mb",
    "memoryMB": "memory_mb",
    "networkAllowlist": "network_allowlist",
}


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits and permissions of one run; built whole and valid, or not at all.

    Times are in milliseconds, `*_mb` in mebibytes, `*_bytes` in bytes. `secrets` names the variables of `environment` whose
    values must not come back in output; names that look like secrets are always among them. `private_networks` lets hosts of
    the allow-list have addresses of this machine and of private networks; `trusted_hosts` are those of its hosts that the
    operator has named as registries of packages, wherever they are; `hidden_files` lets a run write hidden and control
    files back into a work folder. `work_files`, `work_mb` and `work_levels` are how many files, mebibytes and levels of folders
    a run is given to work on, and gives back. All six are the operator's. In a ceiling `environment` holds what an operator
    grants, and `secrets` every granted name.

    Raises:
        InvalidPolicy: a value is unknown, out of range or contradictory; `details["problems"]` lists every one.
    """

    timeout_ms: int = 30_000
    memory_mb: int = 256
    network: Network = "none"
    network_allowlist: tuple[str, ...] = ()
    filesystem: Filesystem = "read-only"
    environment: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    secrets: frozenset[str] = frozenset()
    private_networks: bool = False
    trusted_hosts: tuple[str, ...] = ()
    hidden_files: bool = False
    pids: int = 64
    nofile: int = 256
    file_size_mb: int = 64
    tmp_mb: int = 64
    output_bytes: int = 1024 * 1024
    result_bytes: int = 1024 * 1024
    input_bytes: int = 10 * 1024 * 1024
    work_files: int = 1_000
    work_mb: int = 200
    work_levels: int = 8

    def __post_init__(self) -> None:
        problems = [problem for name in _ALL_RANGES if (problem := _number_problem(name, getattr(self, name)))]
        problems += _choice_problems(self)
        hosts = (*self.network_allowlist, *self.trusted_hosts)
        problems += [problem for host in hosts if host != ANY_HOST and (problem := host_problem(host))]
        problems += environment_problems(self.environment)
        if problems:
            raise InvalidPolicy("; ".join(problems), hint="fix the skill's `security:` block", problems=problems)

    @classmethod
    def from_security(cls, values: object) -> Policy:
        """The policy a skill declares in its `security:` block.

        `values` is a mapping, or any object with the block's fields as attributes; what is absent or `None` is undeclared.
        `filesystem: read` means `read-only`, variables that are not text are dropped, an allow-list without hosts
        is no network.

        Raises:
            InvalidPolicy: an unknown field or an impossible value.
        """
        chosen = _declared(values)
        if chosen.get("filesystem") == "read":
            chosen["filesystem"] = "read-only"
        environment = chosen.get("environment", {})
        if isinstance(environment, Mapping):
            chosen["environment"] = {str(name): text for name, text in environment.items() if isinstance(text, str)}
        hosts = _host_tuple(chosen.get("network_allowlist", ()))
        if ANY_HOST in hosts:
            raise InvalidPolicy("network_allowlist may not be '*'", hint="name the hosts the skill needs")
        return cls(**(chosen | _network_values(chosen.get("network", "none"), hosts)))  # type: ignore[arg-type] # checked inside

    @classmethod
    def ceiling(cls, settings: Mapping[str, object] | None = None, *, environ: Mapping[str, str] | None = None) -> Policy:
        """The most an operator allows: the defaults, raised or lowered by `settings` (the `[sandbox]` table, kebab-case keys).

        Any host and a writable workspace may be requested unless the settings say otherwise. `pass-environment` names variables
        of `environ` (`os.environ` when absent) that skills may ask for.

        Raises:
            InvalidPolicy: an unknown setting or an impossible value.
        """
        chosen = {name.replace("-", "_"): value for name, value in (settings or {}).items() if name not in _OTHERS}
        if unknown := sorted(set(chosen) - set(_SETTABLE)):
            raise InvalidPolicy(f"unknown sandbox setting: {', '.join(unknown)}", hint=f"known: {', '.join(_SETTABLE)}")
        if "network_allowlist" in chosen:
            chosen["network_allowlist"] = _host_tuple(chosen["network_allowlist"])
        chosen |= _grants(chosen.pop("environment", {}), chosen.pop("pass_environment", ()), environ)
        open_to = {"network": "allowlist", "network_allowlist": (ANY_HOST,), "filesystem": "read-write"}
        try:
            policy = cls(**(open_to | chosen))  # type: ignore[arg-type] # checked inside
        except InvalidPolicy as error:
            raise _error_of_settings(error) from None
        if policy.private_networks and ANY_HOST in policy.network_allowlist:
            raise InvalidPolicy(
                "private-networks needs a network-allowlist", hint="name the hosts that may be reached inside your network"
            )
        return policy

    @property
    def reaches_network(self) -> bool:
        """Whether a run has any host to reach; an allow-list without hosts is no network."""
        return self.network == "allowlist" and bool(self.network_allowlist)

    @property
    def memory_bytes(self) -> int:
        """The memory limit in bytes."""
        return self.memory_mb * 1024 * 1024

    @property
    def secret_values(self) -> tuple[str, ...]:
        """The values that must not come back in output, longest first."""
        values = {text for name, text in self.environment.items() if name in self.secrets or is_secret_name(name)}
        return tuple(sorted((text for text in values if text), key=len, reverse=True))


def effective_policy(declared: Policy, ceiling: Policy) -> Policy:
    """The smaller of the two in everything that a skill can declare, and the ceiling's other numbers: what a run really gets.

    Hosts are kept when the ceiling names them, or a pattern that covers them. No host left means no network. Variables are the
    skill's own words; for names the ceiling grants they are the ceiling's values, which stay secret.
    """
    numbers = {name: min(getattr(declared, name), getattr(ceiling, name)) for name in _DECLARED_NUMBERS}
    numbers |= {name: getattr(ceiling, name) for name in _OPERATORS_NUMBERS}
    filesystem = min(declared.filesystem, ceiling.filesystem, key=lambda value: _FILESYSTEM_RANK[value])
    both = declared.network == ceiling.network == "allowlist"
    hosts = _shared_hosts(declared.network_allowlist, ceiling.network_allowlist) if both else ()
    return replace(
        declared,
        **numbers,
        filesystem=filesystem,
        network="allowlist" if hosts else "none",
        network_allowlist=hosts,
        private_networks=ceiling.private_networks,
        trusted_hosts=ceiling.trusted_hosts,
        hidden_files=ceiling.hidden_files,
        environment=granted_values(declared.environment, ceiling.environment, ceiling.secrets),
        secrets=declared.secrets | ceiling.secrets,
    )


def lowered_ceiling(ceiling: Policy, settings: Mapping[str, object]) -> Policy:
    """A user's ceiling, lowered by the `[sandbox]` table of a project, which is not trusted.

    Raises:
        InvalidPolicy: an impossible value, or a project that grants itself its user's variables or private networks.
    """
    if own := sorted({name.replace("_", "-") for name in settings} & set(_GRANTS)):
        raise InvalidPolicy(
            f"a project cannot decide {' and '.join(own)} in [sandbox]", hint="move it to your own skillyard.toml"
        )
    wanted = Policy.ceiling(settings)
    low = effective_policy(wanted, ceiling)
    named = {key.replace("-", "_") for key in settings}
    least = {name: min(getattr(wanted, name), getattr(ceiling, name)) for name in _ALL_RANGES if name in named}
    numbers = {name: least.get(name, getattr(ceiling, name)) for name in _ALL_RANGES}
    return replace(low, **numbers, environment=ceiling.environment, secrets=ceiling.secrets, hidden_files=ceiling.hidden_files)


def _shared_hosts(declared: tuple[str, ...], allowed: tuple[str, ...]) -> tuple[str, ...]:
    """The hosts of both lists; «any host» is no limit of its own."""
    return allowed if ANY_HOST in declared else tuple(host for host in declared if covers(allowed, host))


def narrowing_warnings(declared: Policy, granted: Policy) -> tuple[str, ...]:
    """One sentence for each thing the skill declares and is not granted in full."""
    names = [item.name for item in fields(Policy) if item.name in _DECLARABLE and item.name != "environment"]
    missing = sorted(set(declared.environment) - set(granted.environment))
    withheld = tuple(f"the skill asks for the variable {name}, which is not granted or not set here" for name in missing)
    return withheld + tuple(
        f"the skill asks for {name} {_shown(getattr(declared, name))}, the operator allows {_shown(getattr(granted, name))}"
        for name in names
        if getattr(declared, name) != getattr(granted, name)
    )


def _shown(value: object) -> str:
    return ", ".join(value) or "none" if isinstance(value, tuple) else str(value)


def _declared(values: object) -> dict[str, object]:
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        return {name: value for name in _DECLARABLE if (value := getattr(values, name, None)) is not None}
    chosen = {_ALIASES.get(str(name), str(name)): value for name, value in values.items() if value is not None}
    if chosen.pop("requires_filesystem", None) is False:
        chosen.setdefault("filesystem", "none")
    if unknown := sorted(set(chosen) - set(_DECLARABLE)):
        raise InvalidPolicy(f"unknown security field: {', '.join(unknown)}", hint=f"known: {', '.join(_DECLARABLE)}")
    return chosen


def _network_values(network: object, hosts: tuple[str, ...]) -> dict[str, object]:
    if network == "allowlist" and not hosts:
        return {"network": "none", "network_allowlist": ()}
    return {"network": network, "network_allowlist": hosts if network == "allowlist" else ()}


def _error_of_settings(error: InvalidPolicy) -> InvalidPolicy:
    """An error of a policy in the words of the settings it was made from, which are written with hyphens."""
    details = error.details["problems"]
    problems = [
        f"{name.replace('_', '-') if name in _SETTABLE else name}{space}{rest}"
        for name, space, rest in (str(problem).partition(" ") for problem in (details if isinstance(details, list) else ()))
    ]
    hint = "correct the sandbox settings: the [sandbox] table of your own skillyard.toml, or the limits that were given"
    return InvalidPolicy("; ".join(problems), hint=hint, problems=problems)


def _host_tuple(hosts: object) -> tuple[str, ...]:
    if isinstance(hosts, str) or not isinstance(hosts, (list, tuple, set, frozenset)):
        raise InvalidPolicy(
            "network_allowlist must be a list of hosts", hint="for example network_allowlist: [api.example.com]"
        )
    if not all(isinstance(host, str) for host in hosts):
        raise InvalidPolicy("network_allowlist may hold only text", hint="for example network_allowlist: [api.example.com]")
    return tuple(hosts)


def _grants(values: object, names: object, environ: Mapping[str, str] | None) -> dict[str, object]:
    """The operator's variables: values from the settings, and the named ones of this process."""
    if not isinstance(values, Mapping) or not all(isinstance(text, str) for text in values.values()):
        raise InvalidPolicy("environment must be a table of texts", hint='for example environment = {UNIT = "celsius"}')
    if isinstance(names, str) or not isinstance(names, (list, tuple)):
        raise InvalidPolicy("pass-environment must be a list of names", hint='for example pass-environment = ["WEATHER_KEY"]')
    if problems := [problem for name in names if (problem := name_problem(name))]:
        raise InvalidPolicy("; ".join(problems), hint="name each variable exactly", problems=problems)
    source = os.environ if environ is None else environ
    passed = {name: source[name] for name in names if source.get(name)}
    return {"environment": {**values, **passed}, "secrets": frozenset((*values, *names))}


def _number_problem(name: str, value: object) -> str | None:
    least, most = _ALL_RANGES[name]
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{name} must be a whole number from {least} to {most}, not {value!r}"
    if not least <= value <= most:
        return f"{name} must be from {least} to {most}, not {value}"
    return None


def _choice_problems(policy: Policy) -> list[str]:
    problems = []
    if policy.network not in get_args(Network):
        problems.append(f"network must be none or allowlist, not {policy.network!r}")
    if policy.filesystem not in get_args(Filesystem):
        problems.append(f"filesystem must be none, read-only or read-write, not {policy.filesystem!r}")
    if not isinstance(policy.private_networks, bool):
        problems.append("private_networks must be true or false")
    if not isinstance(policy.hidden_files, bool):
        problems.append("hidden_files must be true or false")
    return problems


def container_image(settings: Mapping[str, object]) -> str:
    """The image that containers are made from, of an operator's table; empty for one of what is installed.

    Raises:
        InvalidPolicy: it is no name of an image.
    """
    name = settings.get("container-image", "")
    if not isinstance(name, str) or not _IMAGE.fullmatch(name):
        raise InvalidPolicy(
            f"container-image must be the name of an image, not {name!r}",
            hint='for example container-image = "python:3.12-slim"',
        )
    return name


MAXIMUM_STANDING: Final = 8


def prewarm_count(settings: Mapping[str, object]) -> int:
    """The number of sandboxes that the operator's `[sandbox]` table wants ready for each kind of job; 0 without a setting.

    Raises:
        InvalidPolicy: it says something that cannot be meant.
    """
    count = settings.get("prewarm", 0)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAXIMUM_STANDING:
        raise InvalidPolicy(
            f"prewarm must be a whole number from 0 to {MAXIMUM_STANDING}, not {count!r}", hint="fix the [sandbox] table"
        )
    return count


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
