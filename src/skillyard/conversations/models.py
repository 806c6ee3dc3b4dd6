"""Models by name: `openai:gpt-5`, `anthropic:claude-…`, `google:gemini-…`, or one at an address; and which can be chosen here.

`openai:` speaks the Responses API, `openai-chat:` Chat Completions; every provider that pydantic-ai has works by its own
name, with the key in its usual variable. `llama3@http://127.0.0.1:11434/v1` is a model at an address that speaks Chat
Completions (Ollama, vLLM and others); its key, where it wants one, is in `SKILLYARD_MODEL_KEY`.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

from skillyard.errors import InvalidInput
from skillyard.text import single_line

if TYPE_CHECKING:
    from pydantic_ai.models import Model


VARIABLE: Final = "SKILLYARD_MODEL"
_KEY: Final = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:API_KEY|BASE_URL|TOKEN)\b")
_HINT: Final = (
    "name one such as openai:gpt-5, anthropic:claude-sonnet-4-6, google:gemini-2.5-flash or llama3@http://127.0.0.1:11434/v1"
)
_SHOWN: Final = 300


def open_model(name: str | None, *, addresses: bool = True) -> Model:
    """The model that `name`, or the variable SKILLYARD_MODEL, means.

    Without `addresses` one at an address may only be the one of the variable, which whoever runs the program has set.

    Raises:
        InvalidInput: nothing is named, the provider is unknown, or its key is missing.
    """
    usual = os.environ.get(VARIABLE, "").strip()
    wanted = (name or usual).strip()
    if not wanted or wanted == "test":
        raise InvalidInput("no model is named", hint=f"{_HINT}, or set {VARIABLE}")
    plain, _, address = wanted.partition("@http")
    if address:
        if not addresses and wanted != usual:
            raise InvalidInput("a model at an address cannot be chosen here", hint="name a provider and a model")
        return _at(plain.removeprefix("openai-chat:"), f"http{address}")
    return _known(wanted)


def _at(name: str, address: str) -> Model:
    try:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider
    except ImportError:
        raise _not_installed() from None
    if not name.strip():
        raise InvalidInput("the address has no model before it", hint=_HINT)
    key = os.environ.get("SKILLYARD_MODEL_KEY", "none")
    return OpenAIChatModel(name, provider=OpenAIProvider(base_url=address, api_key=key))


def _known(name: str) -> Model:
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError:
        raise _not_installed() from None
    try:
        return infer_model(name)
    except (UserError, ImportError, ValueError) as error:
        raise _unusable(name, single_line(str(error))) from None


def _unusable(name: str, message: str) -> InvalidInput:
    """Why a model cannot be used; where its key is missing, what to set."""
    shown = repr(single_line(name)[:80])
    if (variable := _KEY.search(message)) and message.startswith("Set "):
        hint = f"set {variable[0]} in the environment of this program, and start it again; or choose another model"
        return InvalidInput(f"the model {shown} needs {variable[0]}, which is not set", hint=hint, variable=variable[0])
    return InvalidInput(f"the model {shown} cannot be used: {message[:_SHOWN]}", hint=_HINT)


def _not_installed() -> InvalidInput:
    hint = "pip install 'pydantic-ai-slim[anthropic,google,openai]>=1'"
    return InvalidInput("what speaks to models is not installed", hint=hint)


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
    """A service: its name before the colon, the variable it wants, whether that is set, and the models known of it."""

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
    """What can be chosen in this process; no service is asked."""
    known = _known_models()
    providers = [
        Provider(name, variables[0], any(os.environ.get(variable) for variable in variables), known.get(name, ()))
        for name, variables in KEY_VARIABLES.items()
    ]
    return AvailableModels(os.environ.get(VARIABLE, "").strip() or None, tuple(providers))


def _known_models() -> dict[str, tuple[str, ...]]:
    """The models that pydantic-ai knows by name, by their service."""
    from pydantic_ai.models import KnownModelName

    found: dict[str, list[str]] = defaultdict(list)
    for name in get_args(KnownModelName.__value__):
        provider, colon, _ = str(name).partition(":")
        if colon:
            found[provider].append(str(name))
    return {provider: tuple(sorted(names)) for provider, names in found.items()}
