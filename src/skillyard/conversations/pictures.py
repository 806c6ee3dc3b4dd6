"""Pictures that tools give, in the messages to a model: sent after the results they belong to, within a bound of bytes."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pydantic_ai.messages import BinaryContent, ModelMessage, ModelRequest, UserContent, UserPromptPart

MOST_PICTURE_BYTES: Final = 4 * 1024 * 1024
"""Bytes of pictures that the messages of one turn keep, and as many those of all earlier turns together."""

_REPLACED: Final = "[A picture was here, which is not sent any more. Read its file again to see it.]"


def picture_content(calls: Iterable[tuple[str, str]], pictures: Mapping[str, Sequence[BinaryContent]]) -> list[UserContent]:
    """What a user message has after the results of these calls (id and tool); `pictures` are by the ids of calls."""
    content: list[UserContent] = []
    for call_id, tool in calls:
        if given := pictures.get(call_id):
            content += [f"What {tool[:64]} gave as pictures, as data:", *given]
    return content


def limit_pictures(messages: Sequence[ModelMessage], most: int = MOST_PICTURE_BYTES) -> list[ModelMessage]:
    """The messages with at most that many bytes of pictures, the newest; a sentence is in the place of each other one."""
    room, limited = most, list(messages)
    for index in range(len(limited) - 1, -1, -1):
        message = limited[index]
        if not isinstance(message, ModelRequest) or not _has_pictures(message):
            continue
        parts: list[Any] = list(message.parts)
        for at, part in enumerate(parts):
            if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
                content: list[UserContent] = []
                for item in part.content:
                    if isinstance(item, BinaryContent):
                        kept = len(item.data) <= room
                        room -= len(item.data) if kept else room  # nothing older comes after a gap
                        content.append(item if kept else _REPLACED)
                    else:
                        content.append(item)
                parts[at] = replace(part, content=content)
        limited[index] = replace(message, parts=parts)
    return limited


def any_pictures(messages: Sequence[ModelMessage]) -> bool:
    """Whether a picture is among the messages."""
    return any(isinstance(message, ModelRequest) and _has_pictures(message) for message in messages)


def _has_pictures(message: ModelRequest) -> bool:
    contents = [
        part.content for part in message.parts if isinstance(part, UserPromptPart) and not isinstance(part.content, str)
    ]
    return any(isinstance(item, BinaryContent) for content in contents for item in content)


def text_of_content(content: object) -> str:
    """The content of a part as text, without the bytes of pictures."""
    if isinstance(content, (list, tuple)):
        return " ".join("[picture]" if isinstance(item, BinaryContent) else str(item) for item in content)
    return str(content)


def write_pictures(pictures: Mapping[str, Sequence[BinaryContent]]) -> dict[str, list[dict[str, str]]]:
    """Pictures by the ids of calls as plain data, for a turn that waits."""
    return {
        call: [{"media_type": item.media_type, "data": base64.b64encode(item.data).decode()} for item in given]
        for call, given in pictures.items()
    }


def read_pictures(values: Mapping[str, Sequence[Mapping[str, str]]]) -> dict[str, list[BinaryContent]]:
    """The pictures that `write_pictures` wrote."""
    return {
        call: [BinaryContent(base64.b64decode(item["data"]), media_type=item["media_type"]) for item in given]
        for call, given in values.items()
    }
