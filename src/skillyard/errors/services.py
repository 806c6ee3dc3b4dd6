"""Errors about the database, the service of a model, and requests to the server."""

from __future__ import annotations

import errno
from typing import Self

from skillyard.errors.base import SkillyardError
from skillyard.errors.inputs import InvalidInput


class ConversationBusy(SkillyardError):
    """A conversation has an open turn: it is being worked on, or waits for an answer."""

    code = "conversation_busy"
    status = 409


class ModelFailed(SkillyardError):
    """The service of a model refused a request, or could not be reached."""

    code = "model_failed"
    status = 502


class ModelKeyRefused(ModelFailed):
    """The service of a model does not accept the key, or gives it no such model."""

    code = "model_key_refused"


class ModelUnknown(ModelFailed):
    """The service knows no model of that name, or its address is another one."""

    code = "model_unknown"


class ModelLimited(ModelFailed):
    """What may be asked or spent with a key is used up, for the moment or for good."""

    code = "model_limited"


class ModelUnreachable(ModelFailed):
    """No connection to the service of a model comes about, or it breaks off."""

    code = "model_unreachable"


class DatabaseUnavailable(SkillyardError):
    """The records of runs and memories cannot be opened, read or written."""

    code = "database_unavailable"
    status = 503


class DatabaseDamaged(DatabaseUnavailable):
    """The file or the pages of the database do not hold together; it stays so until somebody repairs or replaces it."""

    code = "database_damaged"
    status = 500


class DiskFull(SkillyardError):
    """The disk takes nothing any more, or the quota on it is used up; nothing was kept of what was begun."""

    code = "disk_full"
    status = 503

    @classmethod
    def of(cls, error: BaseException) -> Self | None:
        """An error of the system as this one; None when it says something else."""
        if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return None
        return cls("there is no room on the disk", hint="free some, or give the user more; nothing was changed")


class RecordNotFound(SkillyardError):
    """There is no run, memory or agent with that id."""

    code = "record_not_found"
    status = 404


class RecordExists(SkillyardError):
    """A run, an agent or another record with that id or name is there already."""

    code = "record_exists"
    status = 409


class ValueRefused(InvalidInput):
    """The records do not take a value: it is too long, too large, or against a rule of their tables."""

    code = "value_refused"
    status = 422


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
