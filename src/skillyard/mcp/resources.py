"""Skills as MCP resources: lists, templates, reading, folders, and the index document."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Final

from mcp import types

from skillyard.catalog import media_type
from skillyard.document import DESCRIPTION_LIMIT
from skillyard.errors import FileMissing
from skillyard.mcp.published_skills import FILE_NAME_LIMIT, INDEX_URI, MAIN_FILE, PublishedSkill, PublishedSkills, cut_page
from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from skillyard.catalog import FileContent


DIRECTORY: Final = "inode/directory"
TEMPLATE: Final = "skill://{skill}/{+path}"
_SKILLS_A_PAGE: Final = 50
_CHILDREN_A_PAGE: Final = 200
_SCHEMA: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"


def list_page(skills: PublishedSkills, cursor: str | None) -> types.ListResourcesResult:
    """Every file of the next skills; the first page begins with the index. A skill is never split across pages."""
    found, following = cut_page(skills, cursor, size=_SKILLS_A_PAGE, key=lambda published: published.uri)
    first = [_index_resource()] if cursor is None else []
    listed = [resource(published, name) for published in found for name in published.files()]
    return types.ListResourcesResult(resources=first + listed, next_cursor=following)


def templates() -> types.ListResourceTemplatesResult:
    """The one pattern all files of all skills follow."""
    template = types.ResourceTemplate(
        name="skill-file",
        title="File of a skill",
        uri_template=TEMPLATE,
        description="Any file of a skill: SKILL.md, reference documents, scripts, assets.",
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


def resource(published: PublishedSkill, file: str) -> types.Resource:
    """What a list says about one file; SKILL.md is named and described by its front matter (SEP-2640)."""
    if file != MAIN_FILE:
        return types.Resource(uri=published.address(file), name=_name(file), mime_type=media_type(file))
    return types.Resource(
        uri=published.uri,
        name=published.skill.label,
        title=published.title,
        description=shorten(single_line(published.skill.description), DESCRIPTION_LIMIT),
        mime_type="text/markdown",
    )


def children(skills: PublishedSkills, uri: str, cursor: str | None) -> tuple[list[types.Resource], str | None]:
    """What is directly in a folder, files and folders alike, and the cursor of the next page.

    Raises:
        FileProblem: `uri` is not a folder of a skill.
    """
    found, following = cut_page(skills.children(uri), cursor, size=_CHILDREN_A_PAGE, key=lambda child: child[0])
    return [_child(skills, address, folder) for address, folder in found], following


def _child(skills: PublishedSkills, uri: str, folder: bool) -> types.Resource:
    published, file = skills.locate(uri)
    name = _name(file.rsplit("/", 1)[-1])
    if folder:
        return types.Resource(uri=uri, name=name, mime_type=DIRECTORY)
    return resource(published, file) if file == MAIN_FILE else types.Resource(uri=uri, name=name, mime_type=media_type(file))


def read(published: PublishedSkill, file: str) -> types.TextResourceContents | types.BlobResourceContents:
    """The bytes of one file as they are, so that their digest holds: as text when they are UTF-8, else as base64.

    Raises:
        FileProblem: there is no such file, or it may not be read.
    """
    if not file:
        raise FileMissing(f"{published.address()!r} is a folder", hint=f"read {published.uri}, or list it")
    content = published.read(file)
    uri = published.address(file if file == MAIN_FILE else content.path)
    text = _as_text(content)
    kind = media_type(content.path, content.media_type)
    if text is None:
        return types.BlobResourceContents(uri=uri, mime_type=kind, blob=base64.b64encode(content.data).decode())
    return types.TextResourceContents(uri=uri, mime_type=kind, text=text)


def _name(file: str) -> str:
    return shorten(single_line(file), FILE_NAME_LIMIT)


def _as_text(content: FileContent) -> str | None:
    """The text whose UTF-8 form is exactly the file; None when there is none (binary, or another encoding)."""
    try:
        return None if content.binary else content.data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def index_document(skills: PublishedSkills) -> types.TextResourceContents:
    """Every skill with its address, for clients that look for `skill://index.json` instead of asking `skills/list`."""
    listed = [
        {
            "name": published.skill.label,
            "type": "skill-md",
            "description": shorten(single_line(published.skill.description), DESCRIPTION_LIMIT),
            "url": published.uri,
        }
        for published in skills
    ]
    text = json.dumps({"$schema": _SCHEMA, "skills": listed}, ensure_ascii=False, indent=2)
    return types.TextResourceContents(uri=INDEX_URI, mime_type="application/json", text=text)


def _index_resource() -> types.Resource:
    description = "Every skill with its description and address."
    return types.Resource(
        uri=INDEX_URI, name="index.json", title="All skills", description=description, mime_type="application/json"
    )
