"""Skills of kind `service`: one HTTP request, whose response is the output.

`config` has `endpoint`, `method` (POST when absent), `headers` and `timeoutMs`. The hosts are those of the skill's
`security.network_allowlist` that the operator allows too; redirects are not followed.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from skillyard.errors import InvalidInput, NetworkFailed, NetworkRefused, NotExecutable
from skillyard.execution.kinds import KindUnavailable, RemoteAnswer, RemoteCall, failed_answer, outcome_of_answer
from skillyard.execution.outcome import SkillOutcome
from skillyard.network import guarded_request
from skillyard.network.hosts import ANY_HOST, MalformedHost, permits, read_rules
from skillyard.network.messages import read_destination
from skillyard.plain_json import read_json
from skillyard.sandbox.environment import redact

if TYPE_CHECKING:
    from skillyard.network import GuardedResponse
    from skillyard.sandbox import Policy


_NAME: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,127})\}")


class MissingGrant(Exception):
    """A name that no operator granted; its text is a sentence."""


class SecretGrants:
    """What an operator grants, and the values that were handed out."""

    def __init__(self, ceiling: Policy) -> None:
        self._granted = {name: value for name, value in ceiling.environment.items() if name in ceiling.secrets and value}
        self._used: dict[str, str] = {}

    def fill(self, texts: Mapping[str, str]) -> dict[str, str]:
        """`texts` with every `${NAME}` in their values replaced.

        Raises:
            MissingGrant: a name is not granted, or has no value here.
        """
        return {key: _NAME.sub(self._value, text) for key, text in texts.items()}

    def names_secret(self, texts: Iterable[str]) -> bool:
        """Whether any of `texts` names a secret."""
        return any(_NAME.search(text) for text in texts)

    def redacted(self, value: object) -> object:
        """`value` without the values that were handed out, wherever in it they stand; keys included."""
        if not self._used:
            return value
        if isinstance(value, str):
            return self.redacted_bytes(value.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
        if isinstance(value, Mapping):
            return {self.redacted(key): self.redacted(item) for key, item in value.items()}
        return [self.redacted(item) for item in value] if isinstance(value, (list, tuple)) else value

    def redacted_text(self, text: str) -> str:
        """A text without the values that were handed out."""
        return str(self.redacted(text))

    def redacted_bytes(self, data: bytes) -> bytes:
        """Bytes without the values that were handed out, also where they are encoded in one of the usual ways."""
        return redact(data, sorted(self._used.values(), key=len, reverse=True))

    def _value(self, match: re.Match[str]) -> str:
        name = match[1]
        if name not in self._granted:
            raise MissingGrant(f"the secret {name} is not granted here")
        self._used[name] = self._granted[name]
        return self._granted[name]


NO_ENDPOINT: Final = "it has no config.endpoint"
"""Why a service without an endpoint cannot be called."""

_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
_IN_THE_QUERY: Final = ("GET", "DELETE", "HEAD")
_CHARSET: Final = re.compile(r"charset=\"?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_SHOWN: Final = 500


def has_endpoint(config: Mapping[str, object]) -> bool:
    """Whether there is something to call."""
    endpoint = config.get("endpoint")
    return isinstance(endpoint, str) and bool(endpoint.strip())


def timeout_of(config: Mapping[str, object], policy: Policy) -> int:
    """The time for a call in milliseconds: what `config.timeoutMs` says, and never more than the policy's."""
    timeout = config.get("timeoutMs", config.get("timeout_ms"))
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or timeout < 1:
        return policy.timeout_ms
    return min(int(timeout), policy.timeout_ms)


async def call_service(call: RemoteCall, secret_hosts: Sequence[str] = ()) -> RemoteAnswer:
    """Ask the service; secrets may go to `secret_hosts` only.

    Raises:
        KindUnavailable: there is no endpoint, or it does not answer; nothing was sent.
        NotExecutable: the endpoint, the method or a header cannot be used.
    """
    if not has_endpoint(call.config):
        raise KindUnavailable("service", NO_ENDPOINT)
    method = _method(call.config)
    url, body = _request(call, method)
    grants = SecretGrants(call.ceiling)
    try:
        headers = _headers(call, grants, secret_hosts, with_body=bool(body))
    except MissingGrant as error:
        return failed_answer("SECURITY_VALIDATION_ERROR", str(error), status="denied")
    return await _ask(call, method, url, headers, body, grants)


async def _ask(
    call: RemoteCall, method: str, url: str, headers: dict[str, str], body: bytes, grants: SecretGrants
) -> RemoteAnswer:
    import asyncio  # only a call waits for a network

    milliseconds = timeout_of(call.config, call.policy)
    try:
        async with asyncio.timeout(milliseconds / 1000):
            response = await guarded_request(
                method,
                url,
                allow=call.policy.network_allowlist,
                headers=headers,
                body=body,
                timeout_s=milliseconds / 1000 + 1,
                max_bytes=call.policy.result_bytes,
                allow_private=call.policy.private_networks,
            )
    except TimeoutError:
        return failed_answer("RESOURCE_LIMIT_ERROR", f"the service did not answer within {milliseconds} ms", status="timeout")
    except NetworkRefused as error:
        return failed_answer("SECURITY_VALIDATION_ERROR", grants.redacted_text(error.sentence), status="denied")
    except NetworkFailed as error:
        return _not_answered(error, grants)
    except InvalidInput as error:
        raise NotExecutable(grants.redacted_text(error.message), hint=error.hint) from None
    return _answer(response, grants)


def _not_answered(error: NetworkFailed, grants: SecretGrants) -> RemoteAnswer:
    message = grants.redacted_text(error.message)
    if error.details.get("sent") is False:
        raise KindUnavailable("service", message) from None
    if "limit" in error.details:
        return failed_answer("RESOURCE_LIMIT_ERROR", message, status="output_limit")
    return failed_answer("SANDBOX_EXECUTION_ERROR", message)


def _method(config: Mapping[str, object]) -> str:
    method = str(config.get("method") or "POST").upper()
    if method not in _METHODS:
        raise NotExecutable(f"config.method {method[:30]!r} cannot be used", hint=f"one of {', '.join(_METHODS)}")
    return method


def _request(call: RemoteCall, method: str) -> tuple[str, bytes]:
    """The address, with the parameters when the method has no body, and the body."""
    url = str(call.config["endpoint"]).strip()
    if method not in _IN_THE_QUERY:
        return url, json.dumps(call.parameters, ensure_ascii=False, allow_nan=False, default=dict).encode()
    query = urlencode([(name, text) for name, value in call.parameters.items() for text in _texts(value)])
    if not query:
        return url, b""
    return f"{url}{'&' if '?' in url else '?'}{query}", b""


def _texts(value: object) -> list[str]:
    """A value as it is written in a query: nothing for null, one for each entry of a list, JSON for an object."""
    if value is None:
        return []
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, Mapping):
        return [json.dumps(value, ensure_ascii=False, allow_nan=False, default=dict)]
    return [str(value)]


def _headers(call: RemoteCall, grants: SecretGrants, secret_hosts: Sequence[str], *, with_body: bool) -> dict[str, str]:
    """The skill's headers with their secrets filled in, and the usual headers of every request.

    Raises:
        MissingGrant: a secret is not granted, or the operator allows it to go to any host at all.
    """
    written = call.config.get("headers") or {}
    if not isinstance(written, Mapping):
        raise NotExecutable("config.headers is not a mapping", hint='for example headers: {"X-Key": "${WEATHER_KEY}"}')
    texts = {str(name): str(value) for name, value in written.items() if value is not None}
    if grants.names_secret(texts.values()) and not _may_know_secrets(str(call.config["endpoint"]).strip(), secret_hosts):
        raise MissingGrant(
            "a secret may only go to a host that the operator names: "
            "list the host in network-allowlist of your own [sandbox] settings"
        )
    names = {name.lower() for name in texts}
    usual = {"Accept": "application/json, */*;q=0.5"} | ({"Content-Type": "application/json"} if with_body else {})
    return {name: value for name, value in usual.items() if name.lower() not in names} | grants.fill(texts)


def _may_know_secrets(endpoint: str, secret_hosts: Sequence[str]) -> bool:
    """Whether the operator's own list names the host; that any host is allowed is not enough."""
    hosts = [host for host in secret_hosts if host != ANY_HOST]
    try:
        to = read_destination(endpoint)
        return permits(read_rules(hosts), to.scheme, to.host, to.port)
    except (InvalidInput, MalformedHost):
        return False


def _answer(response: GuardedResponse, grants: SecretGrants) -> RemoteAnswer:
    body = grants.redacted_bytes(response.body)
    outcome = _outcome(grants.redacted(_read(body)), body, response.headers.get("content-type", ""))
    if response.status < 300:
        return RemoteAnswer(outcome)
    if response.status < 400:
        return failed_answer(
            "SANDBOX_EXECUTION_ERROR", f"the service answered {response.status}, a redirect, which is not followed"
        )
    text = outcome.output if isinstance(outcome.output, str) else json.dumps(outcome.output, ensure_ascii=False)
    more = f": {text[:_SHOWN]}" if outcome.output is not None else ""
    return failed_answer("SANDBOX_EXECUTION_ERROR", f"the service answered {response.status}{more}", outcome=outcome)


def _read(body: bytes) -> object:
    """The body as JSON when it is, else the bytes."""
    if not body.strip():
        return None
    try:
        return read_json(body.decode("utf-8-sig"))
    except ValueError:
        return body


def _outcome(value: object, body: bytes, content_type: str) -> SkillOutcome:
    """What an answer says: read as JSON, else as text in its character set, else as binary data."""
    if not isinstance(value, bytes):
        return outcome_of_answer(value)
    charset = _CHARSET.search(content_type)
    try:
        return SkillOutcome(body.decode(charset[1] if charset else "utf-8"), "text")
    except (UnicodeError, LookupError):
        return SkillOutcome(base64.b64encode(body).decode(), "binary")
