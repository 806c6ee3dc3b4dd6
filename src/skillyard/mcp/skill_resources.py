"""Skills as MCP resources and prompts: lists, templates, reading, folders, the index document; completion of arguments.

Resources have the Skills extension (SEP-2640). A prompt, which a person picks by name like a slash command, is the skill
itself, as the tool `skill` gives it, its text in a fence. What the person adds follows behind it in the same message, because
some clients send only the first. Skills with `user-invocable: false` are no prompts.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from mcp import types

from skillyard.catalog import media_type
from skillyard.document import COMPATIBILITY_LIMIT, DESCRIPTION_LIMIT, read_front_matter
from skillyard.errors import FileMissing, FileProblem, SkillNotFound, SkillyardError
from skillyard.mcp.skill_uris import (
    FILE_NAME_LIMIT,
    INDEX_URI,
    MAIN_FILE,
    SCHEME,
    PublishedSkill,
    PublishedSkills,
    cut_page,
)
from skillyard.text import sanitize, shorten, single_line

if TYPE_CHECKING:
    from skillyard.catalog import FileContent
    from skillyard.tools import ToolResult

DIRECTORY: Final = "inode/directory"
MANIFEST: Final = "_manifest"
TEMPLATE: Final = "skill://{skill}/{+path}"
_SKILLS_A_PAGE: Final = 50
_CHILDREN_A_PAGE: Final = 200
_SCHEMA: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"


def list_resources(skills: PublishedSkills, cursor: str | None) -> types.ListResourcesResult:
    """One entry for each of the next skills, its SKILL.md; the first page begins with the index.

    Clients put the list before a model, or fetch all that is in it: what else is in a skill its folder and its manifest say.
    """
    page, following = cut_page(skills, cursor, size=_SKILLS_A_PAGE, key=lambda published: published.uri)
    first = [_index_resource()] if cursor is None else []
    listed = [resource(published, MAIN_FILE) for published in page]
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
    page, following = cut_page(skills.children(uri), cursor, size=_CHILDREN_A_PAGE, key=lambda child: child[0])
    return [_child(skills, address, folder) for address, folder in page], following


def _child(skills: PublishedSkills, uri: str, folder: bool) -> types.Resource:
    published, file = skills.locate(uri)
    name = _name(file.rsplit("/", 1)[-1])
    if folder:
        return types.Resource(uri=uri, name=name, mime_type=DIRECTORY)
    return resource(published, file) if file == MAIN_FILE else types.Resource(uri=uri, name=name, mime_type=media_type(file))


def read(published: PublishedSkill, file: str) -> types.TextResourceContents | types.BlobResourceContents:
    """The bytes of one file as they are, so that their digest holds: as text when they are UTF-8, else as base64.

    A skill without a file `_manifest` has one that is made: `{"skill", "files": [{"path", "size", "hash"}]}`, by which clients
    of FastMCP fetch a whole skill.

    Raises:
        FileProblem: there is no such file, or it may not be read.
    """
    if not file:
        raise FileMissing(f"{published.address()!r} is a folder", hint=f"read {published.uri}, or list it")
    try:
        content = published.read(file)
    except FileMissing:
        if file == MANIFEST:
            return _manifest(published)
        raise
    uri = published.address(file if file == MAIN_FILE else content.path)
    text = _as_text(content)
    kind = media_type(content.path, content.media_type)
    if text is None:
        return types.BlobResourceContents(uri=uri, mime_type=kind, blob=base64.b64encode(content.data).decode())
    return types.TextResourceContents(uri=uri, mime_type=kind, text=text)


def _manifest(published: PublishedSkill) -> types.TextResourceContents:
    files = [
        {"path": name, "size": len(data), "hash": _digest(data)}
        for name in published.files()
        if (data := _bytes(published, name)) is not None
    ]
    text = json.dumps({"skill": "/".join(published.path), "files": files}, ensure_ascii=False, indent=2)
    return types.TextResourceContents(uri=published.address(MANIFEST), mime_type="application/json", text=text)


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


class UriParams(types.RequestParams):
    """Parameters of `skills/get`."""

    uri: str


class FolderParams(types.PaginatedRequestParams):
    """Parameters of `resources/directory/read`."""

    uri: str


class SkillEntries(types.PaginatedResult):
    """Result of `skills/list`."""

    skills: list[dict[str, object]]


class SkillEntry(types.Result):
    """Result of `skills/get`."""

    skill: dict[str, object]


class FolderListing(types.PaginatedResult):
    """Result of `resources/directory/read`."""

    resources: list[types.Resource]


ADJUSTED: Final = "skillyard/adjusted"
FILES_LIMIT: Final = 512
BYTES_LIMIT: Final = 16 * 1024 * 1024
_TEXTS: Final = ("name", "description", "license", "compatibility", "allowed-tools")


def skill_entry(published: PublishedSkill) -> dict[str, object] | None:
    """`{"uri", "frontmatter", "resources": [{"uri", "digest", "size"}], "_meta"?}`; None when the skill is over the limits.

    Raises:
        FileProblem: its SKILL.md cannot be read.
    """
    resources = _resources(published)
    if not resources:
        return None
    written, exact = json_front_matter(published.read(MAIN_FILE).data)
    shown, adjusted = conforming_front_matter(written, name=published.path[-1], description=published.skill.description)
    fields = [*([] if exact else ["yaml"]), *adjusted]
    entry: dict[str, object] = {"uri": published.uri, "frontmatter": shown, "resources": resources}
    return entry | {"_meta": {ADJUSTED: fields}} if fields else entry


def json_front_matter(data: bytes) -> tuple[dict[str, object], bool]:
    """The front matter as JSON values, and whether any YAML 1.2 reader sees the same (not so when it had to be recovered).

    What the specification calls text is text, also where it looks like a number (`version: 1.0` in `metadata`).
    """
    read = read_front_matter(data)
    values = dict(read.values) | {key: text for key in _TEXTS if isinstance(text := read.texts.get(key), str)}
    metadata, written = values.get("metadata"), read.texts.get("metadata")
    if isinstance(metadata, dict) and isinstance(written, dict):
        values["metadata"] = {key: written[key] if isinstance(written[key], str) else metadata[key] for key in metadata}
    return values, read.exact


def conforming_front_matter(
    written: Mapping[str, object], *, name: str, description: str
) -> tuple[dict[str, object], list[str]]:
    """The front matter with the fields of the specification brought to its rules, and which were changed for that.

    `name` is the last segment of the skill's address, which the name must be; `description` replaces a missing one.
    """
    shown = dict(written)
    shown["name"] = name
    shown["description"] = shorten(_text(written.get("description")).strip() or description.strip() or name, DESCRIPTION_LIMIT)
    for key in ("license", "allowed-tools", "compatibility"):
        if key in written:
            shown[key] = _text(written[key])
    if "compatibility" in shown:
        shown["compatibility"] = shorten(str(shown["compatibility"]), COMPATIBILITY_LIMIT) or "-"
    if "metadata" in written:
        shown["metadata"] = _texts(written["metadata"])
    if isinstance(written.get("description"), str) and str(written["description"]).strip() == shown["description"]:
        shown["description"] = written["description"]
    return shown, [key for key in shown if shown[key] != written.get(key)]


def _text(value: object) -> str:
    """A value as the one text the specification wants: a list of words with spaces between, anything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(_text(item) for item in value)
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def _texts(value: object) -> dict[str, str]:
    return {str(key): _text(item) for key, item in value.items()} if isinstance(value, Mapping) else {}


def _resources(published: PublishedSkill) -> list[dict[str, object]]:
    """Every file that may be read; empty when the skill is over the extension's limits."""
    files = published.files()
    if len(files) > FILES_LIMIT:
        return []
    resources: list[dict[str, object]] = []
    total = 0
    for name in files:
        data = _bytes(published, name)
        if data is None:
            continue
        total += len(data)
        if total > BYTES_LIMIT:
            return []
        resources.append({"uri": published.address(name), "digest": _digest(data), "size": len(data)})
    return resources


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _bytes(published: PublishedSkill, name: str) -> bytes | None:
    try:
        return published.read(name).data
    except FileProblem:  # a denied name or a link that leads out is not part of what is served
        return None


_PROMPTS_A_PAGE: Final = 50
_REQUEST: Final = "request"
_ASKED: Final = "The request of the user, for which this skill was picked:"


def list_prompts(skills: PublishedSkills, cursor: str | None) -> types.ListPromptsResult:
    """The prompts of the next skills, by their address."""
    page, following = cut_page(skills, cursor, size=_PROMPTS_A_PAGE, key=lambda published: published.uri)
    listed = [prompt for published in page if (prompt := _prompt(published))]
    return types.ListPromptsResult(prompts=listed, next_cursor=following)


def find_prompt(skills: PublishedSkills, name: str) -> PublishedSkill:
    """The skill behind a prompt.

    Raises:
        SkillNotFound: there is no such prompt.
    """
    match = next((published for published in skills if _prompt_name(published) == name), None)
    if match is None or _prompt(match) is None:
        raise SkillNotFound(f"there is no prompt {single_line(name)[:200]!r}", hint="list the prompts to see their names")
    return match


def prompt_messages(published: PublishedSkill, loaded: ToolResult, request: str | None) -> types.GetPromptResult:
    """The loaded skill, and behind it what the person wants, as one message."""
    text = f"{loaded.text}\n\n{_ASKED}\n{sanitize(request)}" if request else loaded.text
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.GetPromptResult(description=_described(published), messages=[message])


def _prompt(published: PublishedSkill) -> types.Prompt | None:
    """None for a skill that people do not call by name, or that cannot be read just now."""
    try:
        metadata = published.skill.document().metadata
    except (SkillyardError, OSError):
        return None
    if not metadata.user_invocable:
        return None
    hint = single_line(metadata.argument_hint or "")
    argument = types.PromptArgument(
        name=_REQUEST, description=shorten(hint, 200) or "What it shall be used for.", required=False
    )
    return types.Prompt(
        name=_prompt_name(published), title=published.title, description=_described(published), arguments=[argument]
    )


def _prompt_name(published: PublishedSkill) -> str:
    return "/".join(published.path)


def _described(published: PublishedSkill) -> str:
    return shorten(single_line(published.skill.description), DESCRIPTION_LIMIT)


_MOST_COMPLETIONS: Final = 100  # as many as the protocol lets a server send


def complete_argument(skills: PublishedSkills, params: types.CompleteRequestParams) -> types.CompleteResult:
    """The values that complete what was typed, those that begin with it first; none where there are none."""
    values: Iterable[str] = ()
    if isinstance(params.ref, types.ResourceTemplateReference) and params.ref.uri == TEMPLATE:
        if params.argument.name == "skill":
            values = ("/".join(published.path) for published in skills)
        elif params.argument.name == "path":
            given = params.context.arguments if params.context else None
            values = _files(skills, (given or {}).get("skill", ""))
    fitting = _fitting(values, params.argument.value)
    return types.CompleteResult(
        completion=types.Completion(
            values=fitting[:_MOST_COMPLETIONS], total=len(fitting), has_more=len(fitting) > _MOST_COMPLETIONS
        )
    )


def _files(skills: PublishedSkills, name: str) -> tuple[str, ...]:
    """The files of the skill that was chosen before."""
    try:
        published, _ = skills.locate(f"{SCHEME}{name}")
        return tuple(name for name in published.files() if single_line(name) == name and len(name) <= FILE_NAME_LIMIT)
    except (SkillyardError, OSError):
        return ()


def _fitting(values: Iterable[str], typed: str) -> list[str]:
    part = typed.casefold()
    fitting = [value for value in values if part in value.casefold()]
    return sorted(fitting, key=lambda value: (not value.casefold().startswith(part), value))
