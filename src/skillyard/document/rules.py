"""Every rule by its id, those about fields and profiles in full, and the findings that are made from them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from skillyard.document.records import REQUIRED, Diagnostic, Profile, Rule, levels
from skillyard.document.syntax_rules import READING_RULES

_REQUIRED: Final = levels("info", "error", "error", "error", "error")
_NAME: Final = levels(None, "info", "error", "info", "warning")
_SPEC_ONLY: Final = levels(None, None, "error", None, None)

_NAME_RULES: Final = (
    Rule(
        "name-missing",
        "there is no name",
        "The name is how people and models ask for the skill. The folder's name stands in for it where it must.",
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
_MANIFEST: Final = levels(None, None, None, "error", None)
_FULL: Final = levels(None, None, None, None, "error")
_FULL_WARNING: Final = levels(None, None, None, None, "warning")

_MANIFEST_RULES: Final = (
    Rule(
        "manifest-field-missing",
        "a field every manifest needs is missing",
        "A published package is found by `skill_id`, `name` and `version`.",
        "add the field",
        _MANIFEST,
    ),
    Rule(
        "manifest-limit",
        "a field is longer, or a list has more items, than a manifest allows",
        "Marketplaces store these fields in columns of a fixed size and refuse what does not fit.",
        "shorten it",
        _MANIFEST,
    ),
    Rule(
        "manifest-format",
        "a field does not have the form a manifest wants",
        "Identifiers, addresses and tool declarations are used by programs and have to have one form.",
        "write the field in the form named",
        _MANIFEST,
    ),
    Rule(
        "version-format",
        "the version is not three numbers",
        "Versions are compared by program: `1.2.3`, with an optional `-suffix`.",
        "write the version as three numbers, for example `1.0.0`",
        levels(None, None, None, "error", "error"),
    ),
)

_FULL_RULES: Final = (
    Rule(
        "field-required",
        "a field the complete format requires is missing",
        "The complete format says when and how a skill runs, so that no person is needed.",
        "add the field",
        _FULL,
    ),
    Rule(
        "type-unknown",
        "the type is not one that can be run",
        "There are six types; anything else is taken as direct.",
        "use one of: direct, service, distributed, static, preprocessor, internal",
        levels(None, "info", None, "info", "error"),
    ),
    Rule(
        "schema-invalid",
        "a schema is not JSON Schema",
        "Parameters and results are checked against it; a schema that cannot be read checks nothing.",
        "fix the schema as JSON Schema 2020-12",
        levels(None, None, None, None, "error"),
    ),
    Rule(
        "security-invalid",
        "the security block says something that cannot be meant",
        "What is wrong there falls back to the strictest value, so the skill may not run as intended.",
        "fix or delete the setting",
        levels(None, "warning", "warning", "warning", "error"),
    ),
    Rule(
        "permissions-legacy",
        "`permissions` is the old form of `security`",
        "It is still read and mapped, but only `security` can say everything.",
        "write the same as `security:` with `network` and `filesystem`",
        levels(None, "info", None, "info", "warning"),
    ),
    Rule(
        "section-missing",
        "a section the complete format requires is missing",
        "Each of the six sections answers a question of whoever runs the skill.",
        "add the section as a `##` heading",
        _FULL,
    ),
    Rule(
        "metadata-too-long",
        "name, description and tags together are over 50 words",
        "These fields are paid for in every conversation.",
        "shorten the description",
        _FULL_WARNING,
    ),
    Rule(
        "body-too-long",
        "the instructions are over 5,000 words",
        "A model reads all of it when the skill is used.",
        "move detail into files under references/",
        levels(None, None, "warning", None, "warning"),
    ),
    Rule(
        "code-in-body",
        "the code is in SKILL.md and no entry script is declared",
        "Only an entry script is run; code inside the text is a legacy form and needs migrating.",
        "move the code into scripts/ and name the file in `resources.entry`",
        levels(None, "info", None, None, "warning"),
    ),
)

_FILES_RULES: Final = (
    Rule(
        "resource-outside",
        "a path leads out of the skill's folder",
        "Such a path is dropped: a skill may only name its own files.",
        "give a path inside the skill's folder, such as ./scripts/main.py",
        levels(None, "warning", "warning", "warning", "error"),
    ),
    Rule(
        "resource-missing",
        "a file that `resources` names is not there",
        "The skill will fail when it needs the file.",
        "add the file, or fix the path",
        levels(None, "warning", "warning", "warning", "error"),
    ),
    Rule(
        "scripts-missing",
        "an executable skill has no scripts folder",
        "A skill that declares how it runs needs something to run.",
        "add the entry script under scripts/",
        levels(None, None, None, None, "error"),
    ),
    Rule(
        "manifest-json-ignored",
        "there is a manifest.json beside SKILL.md",
        "SKILL.md alone describes a skill; manifest.json is only read on import.",
        "move what it says into the front matter and delete it",
        levels(None, "warning", None, None, "warning"),
    ),
)

PROFILE_RULES: Final = _MANIFEST_RULES + _FULL_RULES + _FILES_RULES


RULES: Final = MappingProxyType({rule.id: rule for rule in (*READING_RULES, *FIELD_RULES, *PROFILE_RULES)})
"""Every rule that exists, by id, in the order of `docs/rules.md`."""


def diagnose(
    rule: str, *, file: str = "SKILL.md", line: int = 1, message: str = "", fix: str = "", profile: Profile = "standard"
) -> Diagnostic:
    """A finding of the rule `rule`, worded by the rule where no message or fix is given.

    For findings about the file itself, such as `file-not-regular`, which only the caller can see. A rule that the profile does
    not look for is reported as a note.
    """
    definition: Rule = RULES[rule]
    severity = definition.severity.get(profile, "info")
    return Diagnostic(rule, severity, message or definition.title, file, line, fix or definition.remedy)


class Findings:
    """The findings about one file so far, and whether they leave it usable."""

    def __init__(self, file: str, profile: Profile) -> None:
        self.file = file
        self.profile = profile
        self.usable = True
        self._found: list[Diagnostic] = []

    def add(self, rule: str, *, line: int = 1, message: str = "", fix: str = "") -> None:
        """Note a finding, if the profile looks for the rule; the rule's own text replaces a missing message or fix."""
        definition = RULES[rule]
        if self.profile in definition.breaks:
            self.usable = False
        if self.wants(rule):
            self._found.append(
                diagnose(rule, file=self.file, line=max(line, 1), message=message, fix=fix, profile=self.profile)
            )

    def wants(self, rule: str) -> bool:
        """Whether the profile looks for a rule at all."""
        return self.profile in RULES[rule].severity

    def sorted(self) -> tuple[Diagnostic, ...]:
        """The findings in the order of the file's lines, those on one line in the order they were found."""
        return tuple(sorted(self._found, key=lambda diagnostic: diagnostic.line))
