"""Rules of the richer formats: what a published manifest and a complete package ask for, and what has to fit the files."""

from __future__ import annotations

from typing import Final

from skillyard.document.rule import Rule, levels

__all__ = ["PROFILE_RULES"]

_MANIFEST: Final = levels(None, None, None, "error", None)
_FULL: Final = levels(None, None, None, None, "error")
_FULL_WARNING: Final = levels(None, None, None, None, "warning")

_MANIFEST_RULES: Final = (
    Rule(
        "manifest-field-missing",
        "a field every manifest needs is missing",
        "A published package is found by `skill_id`, `name` and `version` (row 002-4).",
        "add the field",
        _MANIFEST,
    ),
    Rule(
        "manifest-limit",
        "a field is longer, or a list has more items, than a manifest allows",
        "Marketplaces store these fields in columns of a fixed size and refuse what does not fit (row 002-5).",
        "shorten it",
        _MANIFEST,
    ),
    Rule(
        "manifest-format",
        "a field does not have the form a manifest wants",
        "Identifiers, addresses and tool declarations are used by programs and have to have one form (row 002-5).",
        "write the field in the form named",
        _MANIFEST,
    ),
    Rule(
        "version-format",
        "the version is not three numbers",
        "Versions are compared by program: `1.2.3`, with an optional `-suffix` (rows 000-10 and 002-5).",
        "write the version as three numbers, for example `1.0.0`",
        levels(None, None, None, "error", "error"),
    ),
)

_FULL_RULES: Final = (
    Rule(
        "field-required",
        "a field the complete format requires is missing",
        "The complete format says when and how a skill runs, so that no person is needed (rows 000-7 to 000-21).",
        "add the field",
        _FULL,
    ),
    Rule(
        "type-unknown",
        "the type is not one that can be run",
        "There are six types (row 000-11); anything else is taken as direct.",
        "use one of: direct, service, distributed, static, preprocessor, internal",
        levels(None, "info", None, "info", "error"),
    ),
    Rule(
        "schema-invalid",
        "a schema is not JSON Schema",
        "Parameters and results are checked against it; a schema that cannot be read checks nothing (row 000-17).",
        "fix the schema as JSON Schema 2020-12",
        levels(None, None, None, None, "error"),
    ),
    Rule(
        "security-invalid",
        "the security block says something that cannot be meant",
        "What is wrong there falls back to the strictest value, so the skill may not run as intended (row 000-20).",
        "fix or delete the setting",
        levels(None, "warning", "warning", "warning", "error"),
    ),
    Rule(
        "permissions-legacy",
        "`permissions` is the old form of `security`",
        "It is still read and mapped, but only `security` can say everything (row 000-23).",
        "write the same as `security:` with `network` and `filesystem`",
        levels(None, "info", None, "info", "warning"),
    ),
    Rule(
        "section-missing",
        "a section the complete format requires is missing",
        "Each of the six sections answers a question of whoever runs the skill (row 000-26).",
        "add the section as a `##` heading",
        _FULL,
    ),
    Rule(
        "metadata-too-long",
        "name, description and tags together are over 50 words",
        "These fields are paid for in every conversation (row 000-25).",
        "shorten the description",
        _FULL_WARNING,
    ),
    Rule(
        "body-too-long",
        "the instructions are over 5,000 words",
        "A model reads all of it when the skill is used (row 000-28).",
        "move detail into files under references/",
        levels(None, None, "warning", None, "warning"),
    ),
    Rule(
        "code-in-body",
        "the code is in SKILL.md and no entry script is declared",
        "Only an entry script is run; code inside the text is a legacy form and needs migrating (C-4).",
        "move the code into scripts/ and name the file in `resources.entry`",
        levels(None, "info", None, None, "warning"),
    ),
)

_FILES_RULES: Final = (
    Rule(
        "resource-outside",
        "a path leads out of the skill's folder",
        "Such a path is dropped: a skill may only name its own files (row 000-21).",
        "give a path inside the skill's folder, such as ./scripts/main.py",
        levels(None, "warning", "warning", "warning", "error"),
    ),
    Rule(
        "resource-missing",
        "a file that `resources` names is not there",
        "The skill will fail when it needs the file (row 000-21).",
        "add the file, or fix the path",
        levels(None, "warning", "warning", "warning", "error"),
    ),
    Rule(
        "scripts-missing",
        "an executable skill has no scripts folder",
        "A skill that declares how it runs needs something to run (rows 000-1 and 000-3).",
        "add the entry script under scripts/",
        levels(None, None, None, None, "error"),
    ),
    Rule(
        "manifest-json-ignored",
        "there is a manifest.json beside SKILL.md",
        "SKILL.md alone describes a skill; manifest.json is only read on import (row 003-1).",
        "move what it says into the front matter and delete it",
        levels(None, "warning", None, None, "warning"),
    ),
)

PROFILE_RULES: Final = _MANIFEST_RULES + _FULL_RULES + _FILES_RULES
