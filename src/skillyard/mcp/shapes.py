"""The messages of the Skills extension (SEP-2640) that the SDK does not know."""

from __future__ import annotations

from mcp import types

__all__ = ["FolderListing", "FolderParams", "SkillEntries", "SkillEntry", "UriParams"]


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
