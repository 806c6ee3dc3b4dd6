"""The model that a name means: `openai:gpt-5`, `anthropic:claude-…`, `google:gemini-…`, or one at an address of your own.

`openai:` speaks the Responses API, `openai-chat:` Chat Completions; every provider that pydantic-ai has works by its own name,
with the key in its usual variable. `llama3@http://127.0.0.1:11434/v1` is a model at an address that speaks Chat Completions
(Ollama, vLLM and others); its key, where it wants one, is in `SKILLYARD_MODEL_KEY`.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from skillyard.errors import InvalidInput
from skillyard.text import single_line

if TYPE_CHECKING:
    from pydantic_ai.models import Model

__all__ = ["VARIABLE", "open_model"]

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
