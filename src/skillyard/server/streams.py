"""Answers that go on: server-sent events, with a sign of life every 15 seconds."""

from __future__ import annotations

from typing import Any, Final

from sse_starlette import EventSourceResponse

__all__ = ["EventStream", "describe_streams", "streaming"]

_MEDIA_TYPE: Final = "text/event-stream"


class EventStream(EventSourceResponse):
    """Server-sent events; the stream ends when all is told, when its client goes, or when the server stops."""

    media_type = _MEDIA_TYPE
    DEFAULT_PING_INTERVAL = 15


def streaming(model: Any, name: str, events: str) -> dict[int | str, dict[str, Any]]:
    """What a route says of its events: the shape of their `data`, its name in the description of the API, and their names."""
    content = {_MEDIA_TYPE: {"schema": {"x-event-data": name}}}
    return {200: {"model": model, "description": f"server-sent events: {events}", "content": content}}


def describe_streams(described: dict[str, Any]) -> None:
    """Say in OpenAPI that a stream is text, and that the data of its events is JSON of the shape `x-event-data`."""
    shapes = described["components"]["schemas"]
    for methods in described["paths"].values():
        for route in methods.values():
            content = route["responses"].get("200", {}).get("content", {})
            if (schema := content.get(_MEDIA_TYPE, {}).get("schema")) is not None:
                name = schema["x-event-data"]
                shapes[name] = {key: schema[key] for key in ("oneOf", "discriminator")} | {"title": name}
                told = {"type": "string", "x-event-data": {"$ref": f"#/components/schemas/{name}"}}
                content[_MEDIA_TYPE]["schema"] = told
