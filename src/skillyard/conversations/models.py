"""Models by name: `openai:gpt-5`, `anthropic:claude-…`, `google:gemini-…`, or one at an address; and which can be chosen here.

`openai:` speaks the Responses API, `openai-chat:` Chat Completions; every provider that pydantic-ai has works by its own
name, with the key in its usual variable. `llama3@http://127.0.0.1:11434/v1` is a model at an address that speaks Chat
Completions (Ollama, vLLM and others); its key, where it wants one, is in `SKILLYARD_MODEL_KEY`.

`provider_error` gives what went wrong at a provider as one of our errors with a hint. Each provider's library has errors of
its own. pydantic-ai sorts them where it can: by a class for each kind of error, in its newer versions, and by the status of
the answer in all of them.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

from skillyard.errors import InvalidInput, ModelFailed, ModelKeyRefused, ModelLimited, ModelUnknown, ModelUnreachable
from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from pydantic_ai.models import Model


VARIABLE: Final = "SKILLYARD_MODEL"
_KEY: Final = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:API_KEY|BASE_URL|TOKEN)\b")
_EXAMPLES: Final = "openai:gpt-5, anthropic:claude-sonnet-4-6, google:gemini-2.5-flash"
_HINT: Final = f"name one such as {_EXAMPLES} or llama3@http://127.0.0.1:11434/v1"
_HINT_OF_PROVIDERS: Final = f"choose one such as {_EXAMPLES}"
_SHOWN: Final = 300
_OWN_KEY: Final = "SKILLYARD_MODEL_KEY"
_OPENAI: Final = "https://api.openai.com/v1"
_LOOKS_LIKE_A_KEY: Final = re.compile(r"\b(?:AIza|(?:sk|sky|gsk|xai|hf|pk|key)[-_])[\w.*-]{6,}", re.ASCII)
_OTHER: Final = "choose another model"
_NO_PICTURES: Final = "if the model takes none, begin a conversation with pictures: false in its settings (or --no-pictures)"
_BY_STATUS: Final[Mapping[int, str]] = {
    401: "ModelAuthenticationError", 403: "ModelAuthenticationError", 404: "ModelNotFoundError",
    402: "ModelQuotaExceededError", 429: "ModelRateLimitError", 529: "ModelOverloadedError",
}  # fmt: skip


def open_model(name: str | None, *, addresses: bool = True) -> Model:
    """The model that `name`, or the variable SKILLYARD_MODEL, means.

    Without `addresses` a model at an address may only be that of the variable, which the operator has set.

    Raises:
        InvalidInput: nothing is named, the provider is unknown, or its key is missing.
    """
    usual = os.environ.get(VARIABLE, "").strip()
    chosen = (name or usual).strip()
    if not chosen or chosen == "test":
        hint = f"{_HINT}, or set" if addresses else f"{_HINT_OF_PROVIDERS}; whoever runs this server can set one for all:"
        raise InvalidInput("no model is named", hint=f"{hint} {VARIABLE}")
    plain, _, address = chosen.partition("@http")
    if address:
        if not addresses and chosen != usual:
            raise InvalidInput("a model at an address cannot be chosen here", hint=_HINT_OF_PROVIDERS)
        return _at(plain.removeprefix("openai-chat:"), f"http{address}")
    return _provider_model(chosen, hint=_HINT if addresses else _HINT_OF_PROVIDERS)


def _at(name: str, address: str) -> Model:
    try:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider
    except ImportError:
        raise _not_installed() from None
    if not name.strip():
        raise InvalidInput("the address has no model before it", hint=_HINT)
    key = os.environ.get(_OWN_KEY, "none")
    return OpenAIChatModel(name, provider=OpenAIProvider(base_url=address, api_key=key))


def _provider_model(name: str, *, hint: str) -> Model:
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError:
        raise _not_installed() from None
    try:
        return infer_model(name)
    except (UserError, ImportError, ValueError) as error:
        raise _unusable(name, single_line(str(error)), hint=hint) from None


def _unusable(name: str, message: str, *, hint: str) -> InvalidInput:
    """Why a model cannot be used; where its key is missing, what to set."""
    shown = repr(single_line(name)[:80])
    if (variable := _KEY.search(message)) and message.startswith("Set "):
        hint = f"set {variable[0]} in the environment of this program, and start it again; or choose another model"
        return InvalidInput(f"the model {shown} needs {variable[0]}, which is not set", hint=hint, variable=variable[0])
    return InvalidInput(f"the model {shown} cannot be used: {message[:_SHOWN]}", hint=hint)


def _not_installed() -> InvalidInput:
    hint = "pip install 'pydantic-ai-slim[anthropic,google,openai]>=1'"
    return InvalidInput("the packages for talking to models are not installed", hint=hint)


KEY_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "openai": ("OPENAI_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "moonshotai": ("MOONSHOTAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "cerebras": ("CEREBRAS_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "ollama": ("OLLAMA_BASE_URL",),
}
"""What each service that needs no further package reads its key, or its address, from; the first is the usual one."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A service: its name before the colon, its variable, whether that is set, and its known models."""

    name: str
    variable: str
    ready: bool
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AvailableModels:
    """The model that is used when none is named, and the services."""

    usual: str | None
    providers: tuple[Provider, ...]


def available_models() -> AvailableModels:
    """The models that can be chosen in this process; no request is sent."""
    models = _known_models()
    providers = [
        Provider(name, variables[0], any(os.environ.get(variable) for variable in variables), models.get(name, ()))
        for name, variables in KEY_VARIABLES.items()
    ]
    return AvailableModels(os.environ.get(VARIABLE, "").strip() or None, tuple(providers))


def _known_models() -> dict[str, tuple[str, ...]]:
    """The names of models in pydantic-ai, by their service."""
    from pydantic_ai.models import KnownModelName

    by_provider: dict[str, list[str]] = defaultdict(list)
    for name in get_args(KnownModelName.__value__):
        provider, colon, _ = str(name).partition(":")
        if colon:
            by_provider[provider].append(str(name))
    return {provider: tuple(sorted(names)) for provider, names in by_provider.items()}


def provider_error(error: Exception, model: Model, *, pictures: bool = False) -> ModelFailed:
    """The error of a model's service; `said` in its details is the service's own message, without any key.

    With `pictures` the request had some: where it was refused, the hint says how to go on without.
    """
    failure = _described(error, model)
    if pictures and type(failure) is ModelFailed and (getattr(error, "status_code", None) or 0) < 500:
        failure.hint = f"the request has pictures: {_NO_PICTURES}; otherwise {failure.hint}"
    if message := _service_message(error):
        failure.details["said"] = message
    return failure


def _described(error: Exception, model: Model) -> ModelFailed:
    kinds, status = _kinds(error), getattr(error, "status_code", None)
    with_status = f" ({status})" if status else ""
    name = single_line(model.model_name)[:80]
    if "ModelAuthenticationError" in kinds:
        return ModelKeyRefused(
            f"the service of the model {name!r} refuses the key{with_status}",
            hint=f"check {_variable(model)} in the environment of this program, and start it again; or {_OTHER}",
        )
    if "ModelNotFoundError" in kinds:
        return ModelUnknown(
            f"the service knows no model {name!r}{with_status}",
            hint=f"check the name of the model{_and_address(model)}, or {_OTHER}",
        )
    if "ModelQuotaExceededError" in kinds:
        return ModelLimited(
            f"what the key may spend on the model {name!r} is used up{with_status}",
            hint=f"check plan and bill at the service, or {_OTHER}",
        )
    if "ModelRateLimitError" in kinds:
        return ModelLimited(
            f"the service takes no more requests for the model {name!r} just now{with_status}: a rate or a quota is used up",
            hint=f"wait a little and try again; if it persists, check plan and bill at the service, or {_OTHER}",
        )
    if "ModelContextWindowExceededError" in kinds:
        return ModelFailed(
            f"the conversation is longer than the model {name!r} takes{with_status}",
            hint=f"begin a new conversation, or {_OTHER}",
        )
    if kinds & {"ModelConnectionError", "ConnectError", "OSError", "ModelRequestTimeout"}:
        return _unreachable(model)
    if kinds & {"ModelOverloadedError", "ModelUnavailableError", "ModelServerError"} or (status or 0) >= 500:
        return ModelFailed(
            f"the service of the model {name!r} has a problem of its own{with_status}",
            hint=f"try again in a while, or {_OTHER}",
        )
    if status:
        return ModelFailed(
            f"the service of the model {name!r} refused the request{with_status}",
            hint=f"see what it said; begin a new conversation, or {_OTHER}",
        )
    return ModelFailed(
        f"the service of the model {name!r} gave an answer that cannot be read", hint=f"try again; if it persists, {_OTHER}"
    )


def _kinds(error: Exception) -> set[str]:
    """The names of the classes of an error and of what caused it, and the class that its status stands for."""
    names = {kind.__name__ for kind in type(error).__mro__}
    status = getattr(error, "status_code", None)
    if status is None:
        return names | {kind.__name__ for cause in _causes(error) for kind in type(cause).__mro__}
    named = {name for name in names if name.startswith("Model")} - {"ModelHTTPError", "ModelAPIError"}
    return named or {_BY_STATUS.get(status, "")}


def _causes(error: BaseException) -> Iterator[BaseException]:
    """What caused an error, and what caused that."""
    seen: set[int] = set()
    cause = error.__cause__ or error.__context__
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def _unreachable(model: Model) -> ModelUnreachable:
    address = _address(model)
    there = f" at {address}" if address else ""
    look = "check the network of this machine (and HTTPS_PROXY, where it needs one), then try again"
    if _is_own(model):
        look = "start what serves the model there, or check its address"
    return ModelUnreachable(
        f"the service of the model {single_line(model.model_name)[:80]!r} cannot be reached{there}", hint=f"{look}; or {_OTHER}"
    )


def _variable(model: Model) -> str:
    if _is_own(model):
        return _OWN_KEY
    return " or ".join(KEY_VARIABLES.get(model.system.partition("-")[0], ("the variable of its key",)))


def _is_own(model: Model) -> bool:
    """Whether the model is at an address that was given with its name."""
    address = _address(model).rstrip("/")
    return model.system == "openai" and address not in {_OPENAI, os.environ.get("OPENAI_BASE_URL", "").rstrip("/"), ""}


def _address(model: Model) -> str:
    address = single_line(str(model.base_url or ""))[:200]
    return re.sub(r"//[^/@]*@", "//", address)


def _and_address(model: Model) -> str:
    return f" and at the address {_address(model)}" if _is_own(model) else ""


def _service_message(error: Exception) -> str:
    """The message of the service, or of the connection error."""
    body = getattr(error, "body", None)
    text = _message_in(body)
    if not text and getattr(error, "status_code", None) is None:
        deepest = [str(cause) for cause in _causes(error) if str(cause)]
        text = deepest[-1] if deepest else str(error)
    return shorten(_without_keys(single_line(text)), _SHOWN)


def _message_in(body: object) -> str:
    """The message in the body of an answer, at any of the usual positions."""
    if isinstance(body, Mapping):
        for name in ("error", "message", "detail"):
            if text := _message_in(body.get(name)):
                return text
        return ""
    if isinstance(body, list):
        return _message_in(body[0]) if body else ""
    return body if isinstance(body, str) else ""


def _without_keys(text: str) -> str:
    """The text without any key of this program, and without what looks like one: services repeat refused keys."""
    text = _LOOKS_LIKE_A_KEY.sub("***", text)
    variables = {variable for names in KEY_VARIABLES.values() for variable in names} | {_OWN_KEY}
    for variable in variables:
        secret = os.environ.get(variable, "").strip()
        if len(secret) >= 4 and not variable.endswith("_URL"):
            text = text.replace(secret, "***")
    return text
