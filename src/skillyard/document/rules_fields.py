"""Rules about the fields of the Agent Skills specification, and about the type of every field that is known."""

from __future__ import annotations

from typing import Final

from skillyard.document.rule import REQUIRED, Rule, levels

__all__ = ["FIELD_RULES"]

_REQUIRED: Final = levels("info", "error", "error", "error", "error")
_NAME: Final = levels(None, "info", "error", "info", "warning")
_SPEC_ONLY: Final = levels(None, None, "error", None, None)

_NAME_RULES: Final = (
    Rule(
        "name-missing",
        "there is no name",
        "The name is how people and models ask for the skill. The folder's name stands in for it where it must (row 003-2).",
        "add a line `name:` with the name of the folder",
        _REQUIRED,
        fixable=True,
    ),
    Rule(
        "name-blank",
        "the name is empty",
        "An empty name cannot be asked for. The folder's name stands in for it where it must.",
        "write the name of the folder after `name:`",
        _REQUIRED,
        fixable=True,
    ),
    Rule(
        "name-not-text",
        "the name is not text",
        "A list or a mapping cannot be a name. The folder's name stands in for it where it must.",
        "write the name as plain text",
        _REQUIRED,
    ),
    Rule(
        "name-characters",
        "the name has characters other than lower-case letters, digits and hyphens",
        "Agent Skills specification, name. Clients use it in tool names and addresses, and many refuse the skill otherwise.",
        "use lower-case letters, digits and hyphens",
        _NAME,
        fixable=True,
    ),
    Rule(
        "name-hyphens",
        "the name begins or ends with a hyphen, or has two in a row",
        "Agent Skills specification, name.",
        "keep single hyphens between words only",
        _NAME,
        fixable=True,
    ),
    Rule(
        "name-too-long",
        "the name is over 64 characters",
        "Agent Skills specification, name. Longer names do not fit into the tool names of some models.",
        "choose a shorter name",
        _NAME,
    ),
    Rule(
        "name-not-ascii",
        "the name has letters outside a to z",
        "The specification's validator takes them, several clients do not, and look-alike letters can imitate another skill.",
        "use the letters a to z, and put the native name into `displayName`",
        levels(None, "info", "warning", "info", "info"),
    ),
    Rule(
        "name-folder-mismatch",
        "the name differs from the folder's name",
        "Agent Skills specification, name. Clients that look a skill up by folder will not find it by its name.",
        "give the folder and the name the same spelling",
        levels(None, "info", "error", "info", "info"),
        fixable=True,
    ),
    Rule(
        "name-unsafe",
        "the name looks like a path",
        "A name such as `../x` is never used as a path here, but it may harm a client that does.",
        "use lower-case letters, digits and hyphens",
        levels("warning", "warning", "error", "error", "error"),
    ),
)

_DESCRIPTION_RULES: Final = (
    Rule(
        "description-missing",
        "there is no description",
        "The description is all a model sees before it chooses. Without one the skill is never offered.",
        "add a line `description:` that says what the skill does and when to use it",
        _REQUIRED,
        REQUIRED,
    ),
    Rule(
        "description-blank",
        "the description is empty",
        "The description is all a model sees before it chooses. Without one the skill is never offered.",
        "say after `description:` what the skill does and when to use it",
        _REQUIRED,
        REQUIRED,
    ),
    Rule(
        "description-not-text",
        "the description is not text",
        "A list or a mapping is not a sentence a model can read; clients would show its notation, or fail.",
        "write the description as one sentence or a `|` block",
        _REQUIRED,
        REQUIRED,
    ),
    Rule(
        "description-too-long",
        "the description is over 1,024 characters",
        "Agent Skills specification, description. It is paid for in every conversation; clients cut it or refuse it.",
        "shorten it to 1,024 characters; move detail into the body",
        levels(None, "warning", "error", "warning", "error"),
    ),
    Rule(
        "text-hidden-characters",
        "the name or the description holds invisible characters",
        "Zero-width, bidirectional and tag characters hide instructions from people. No model is shown them.",
        "delete the invisible characters",
        levels(None, "warning", "warning", "warning", "warning"),
    ),
)

_OTHER_RULES: Final = (
    Rule(
        "field-unknown",
        "a field is not in the specification",
        "Agent Skills specification. It is kept and harmless here; strict clients refuse the file.",
        "move the field under `metadata:`, or delete it",
        _SPEC_ONLY,
    ),
    Rule(
        "field-type",
        "a field has a value of the wrong type",
        "The field is ignored and its default used; the rest of the skill is not affected.",
        "give the field a value of the type it wants",
        levels(None, "warning", "warning", "error", "error"),
    ),
    Rule(
        "field-value",
        "a field has a value outside what is allowed",
        "The field is ignored and its default used; the rest of the skill is not affected.",
        "choose one of the allowed values",
        levels(None, "warning", "warning", "error", "error"),
    ),
    Rule(
        "field-repeated",
        "a field is there in two spellings",
        "`allowed-tools`, `allowed_tools` and `allowedTools` are one field; only the first one written counts.",
        "keep one of the two",
        levels(None, "warning", "warning", "warning", "warning"),
    ),
    Rule(
        "license-not-text",
        "the license is not text",
        "Agent Skills specification, license.",
        "write the name of the license, or of the file that holds it",
        _SPEC_ONLY,
    ),
    Rule(
        "compatibility-not-text",
        "the compatibility note is not text",
        "Agent Skills specification, compatibility.",
        "write what the skill needs as one sentence",
        _SPEC_ONLY,
    ),
    Rule(
        "compatibility-too-long",
        "the compatibility note is over 500 characters",
        "Agent Skills specification, compatibility.",
        "shorten it to 500 characters",
        levels(None, "info", "error", "info", "info"),
    ),
    Rule(
        "metadata-not-mapping",
        "`metadata` is not `key: value` lines",
        "Agent Skills specification, metadata.",
        "write `metadata:` and indented `key: value` lines below it",
        _SPEC_ONLY,
    ),
    Rule(
        "metadata-value-not-text",
        "a value in `metadata` is a list or a mapping",
        "Agent Skills specification, metadata: values are text. Kept as written here; strict clients refuse it.",
        "write the value as one text",
        _SPEC_ONLY,
    ),
    Rule(
        "allowed-tools-list",
        "`allowed-tools` is not one text",
        "Agent Skills specification, allowed-tools: one text, split by spaces. Some clients refuse a list.",
        "write the tools in one line, separated by spaces",
        _SPEC_ONLY,
        fixable=True,
    ),
    Rule(
        "allowed-tools-grammar",
        "an entry of `allowed-tools` does not name a tool",
        "An entry is a tool's name, or Tool(argument). What cannot be read permits nothing, and no model is shown it.",
        "write a tool's name, or Tool(argument), such as `Bash(git:*)`",
        levels(None, "warning", "error", "warning", "warning"),
    ),
)

FIELD_RULES: Final = _NAME_RULES + _DESCRIPTION_RULES + _OTHER_RULES
