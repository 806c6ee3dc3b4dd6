"""What a server says of the one who asks, and of itself."""

from __future__ import annotations

from skillyard.errors.base import SkillyardError

__all__ = [
    "NotOffered",
    "ServerStopping",
    "SignInRequired",
    "TooManyRequests",
]


class SignInRequired(SkillyardError):
    """The server does not know who asks: there is no key, or it is unknown, expired or revoked."""

    code = "sign_in_required"
    status = 401


class TooManyRequests(SkillyardError):
    """Somebody asks faster than the server lets them; `details["retry_after"]` is how many seconds to wait."""

    code = "too_many_requests"
    status = 429


class ServerStopping(SkillyardError):
    """The server was asked to stop and takes nothing new."""

    code = "server_stopping"
    status = 503


class NotOffered(SkillyardError):
    """A client asks for what services of its kind do elsewhere, and this server does not."""

    code = "not_offered"
    status = 404
