"""Errors of a model's provider, as one of our errors with a hint; what the service said is kept in its details.

Each provider's library has errors of its own. pydantic-ai sorts them where it can: by a class for each kind of error, in
its newer versions, and by the status of the answer in all of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from skillyard.conversations.models import KEY_VARIABLES
from skillyard.errors import ModelFailed, ModelKeyRefused, ModelLimited, ModelUnknown, ModelUnreachable
from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from pydantic_ai.models import Model


_SHOWN: Final = 300
_OWN_KEY: Final = "SKILLYARD_MODEL_KEY"
_OPENAI: Final = "https://api.openai.com/v1"
_LOOKS_LIKE_A_KEY: Final = re.compile(r"\b(?:AIza|(?:sk|sky|gsk|xai|hf|pk|key)[-_])[\w.*-]{6,}", re.ASCII)
_OTHER: Final = "choose another model"
_BY_STATUS: Final[Mapping[int, str]] = {
    401: "ModelAuthenticationError", 403: "ModelAuthenticationError", 404: "ModelNotFoundError",
    402: "ModelQuotaExceededError", 429: "ModelRateLimitError", 529: "ModelOverloadedError",
}  # fmt: skip


def provider_error(error: Exception, model: Model) -> ModelFailed:
    """What a model's service did wrong; `said` in its details are the service's own words, without any key."""
    found = _described(error, model)
    if said := _said(error):
        found.details["said"] = said
    return found


def _described(error: Exception, model: Model) -> ModelFailed:
    kinds, status = _kinds(error), getattr(error, "status_code", None)
    with_status = f" ({status})" if status else ""
    name = single_line(model.model_name)[:80]
    if "ModelAuthenticationError" in kinds:
        return ModelKeyRefused(
            f"the service of the model {name!r} refuses the key{with_status}",
            hint=f"look at {_variable(model)} in the environment of this program, and start it again; or {_OTHER}",
        )
    if "ModelNotFoundError" in kinds:
        return ModelUnknown(
            f"the service knows no model {name!r}{with_status}",
            hint=f"look at the name of the model{_and_address(model)}, or {_OTHER}",
        )
    if "ModelQuotaExceededError" in kinds:
        return ModelLimited(
            f"what the key may spend on the model {name!r} is used up{with_status}",
            hint=f"look at plan and bill at the service, or {_OTHER}",
        )
    if "ModelRateLimitError" in kinds:
        return ModelLimited(
            f"the service takes no more requests for the model {name!r} just now{with_status}: a rate or a quota is used up",
            hint=f"wait a little and try again; when it goes on, look at plan and bill at the service, or {_OTHER}",
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
            f"the service of the model {name!r} has trouble of its own{with_status}", hint=f"try again in a while, or {_OTHER}"
        )
    if status:
        return ModelFailed(
            f"the service of the model {name!r} refused the request{with_status}",
            hint=f"see what it said; begin a new conversation, or {_OTHER}",
        )
    return ModelFailed(
        f"the service of the model {name!r} answered what cannot be understood", hint=f"try again; when it goes on, {_OTHER}"
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
    look = "look at the network of this machine (and HTTPS_PROXY, where it needs one), then try again"
    if _is_own(model):
        look = "start what serves the model there, or look at its address"
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


def _said(error: Exception) -> str:
    """The words of the service, or of what kept us from reaching it."""
    body = getattr(error, "body", None)
    words = _words(body)
    if not words and getattr(error, "status_code", None) is None:
        deepest = [str(cause) for cause in _causes(error) if str(cause)]
        words = deepest[-1] if deepest else str(error)
    return shorten(_without_keys(single_line(words)), _SHOWN)


def _words(body: object) -> str:
    """The sentence in the body of an answer, wherever this service puts it."""
    if isinstance(body, Mapping):
        for name in ("error", "message", "detail"):
            if found := _words(body.get(name)):
                return found
        return ""
    if isinstance(body, list):
        return _words(body[0]) if body else ""
    return body if isinstance(body, str) else ""


def _without_keys(words: str) -> str:
    """The words without any key of this program, and without what looks like one: services repeat those they refuse."""
    words = _LOOKS_LIKE_A_KEY.sub("***", words)
    variables = {variable for names in KEY_VARIABLES.values() for variable in names} | {_OWN_KEY}
    for variable in variables:
        secret = os.environ.get(variable, "").strip()
        if len(secret) >= 4 and not variable.endswith("_URL"):
            words = words.replace(secret, "***")
    return words
