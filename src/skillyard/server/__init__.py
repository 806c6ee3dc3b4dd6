"""The HTTP service: skills are listed, read, installed, rolled back and run over one API, for authenticated callers.

`create_app` gives the ASGI application, `serve` listens with `ListenOptions`. Every protocol is a module with `routes`.
"""

from __future__ import annotations

from skillyard.server.application import create_app
from skillyard.server.http_server import ListenOptions, serve
from skillyard.server.server_settings import AccessPolicy

__all__ = ["AccessPolicy", "ListenOptions", "create_app", "serve"]
