"""Every rule by its id, and what reading and checking give: findings, the summary for a list; and the limits of both.

docs/rules.md says of each rule why it matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, get_args

from skillyard.wire import WireForm

HEADER_LIMIT: Final = 64 * 1024
"""The closing fence must start within this many bytes of the file."""
DOCUMENT_LIMIT: Final = 1024 * 1024
"""A SKILL.md of more bytes is refused."""
DEPTH_LIMIT: Final = 8
"""How many lists and mappings may be inside one another, the front matter itself included."""
KEY_LIMIT: Final = 256
"""How many keys a front matter may have, nested ones included."""
NAME_LIMIT: Final = 64
"""Agent Skills specification, name: characters."""
DESCRIPTION_LIMIT: Final = 1024
"""Agent Skills specification, description: characters."""
COMPATIBILITY_LIMIT: Final = 500
"""Agent Skills specification, compatibility: characters."""


Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Diagnostic(WireForm):
    """One finding: the rule's id, its severity, what, where (1-based line) and how to fix it."""

    rule: str
    severity: Severity
    message: str
    file: str = "SKILL.md"
    line: int = 1
    fix: str | None = None


Profile = Literal["minimal", "standard", "spec", "manifest", "full"]
"""How strict to be: `minimal` requires nothing, `standard` a description or a paragraph of the instructions instead,
`spec` the Agent Skills specification to the letter, `manifest` the fields and limits of a published package, `full` every field
and section of the rich format."""

PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)
ALWAYS: Final[frozenset[Profile]] = frozenset(PROFILES)
"""A finding makes the skill unusable in every profile."""
REQUIRED: Final[frozenset[Profile]] = ALWAYS - {"minimal"}
"""A finding makes the skill unusable in every profile but `minimal`."""
DECLARED: Final[frozenset[Profile]] = REQUIRED - {"standard"}
"""A finding makes the skill unusable in every profile that requires its fields to be written, not inferred."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is checked: its stable id, how to fix it, and what it weighs in each profile."""

    id: str
    title: str
    remedy: str
    """The fix text of a finding that has none more exact."""
    severity: Mapping[Profile, Severity]
    """The severity in each profile; a profile that is not here does not check it."""
    breaks: frozenset[Profile] = frozenset()
    """The profiles in which a finding makes the skill unusable."""
    fixable: bool = False
    """Whether `fix_document` can fix it safely."""


def levels(
    minimal: Severity | None, standard: Severity | None, spec: Severity | None, manifest: Severity | None, full: Severity | None
) -> Mapping[Profile, Severity]:
    """The severity in each profile, in the order of `PROFILES`; None where the profile does not check it."""
    severities = zip(PROFILES, (minimal, standard, spec, manifest, full), strict=True)
    return {profile: severity for profile, severity in severities if severity}


Facets = tuple[()] | tuple[tuple[str, ...], tuple[str, ...], float | None, str, tuple[str, ...]]
"""Intents, event types and priority of the `triggers`, the domain (`general` by default), and the tags."""


class NeedMore(Exception):
    """The bytes end before the front matter does: call again with more of the file (up to `HEADER_LIMIT` bytes)."""


class Summary(NamedTuple):
    """The few facts about a skill that lists, indexes and search need; every value but the diagnostics is plain data.

    A named tuple rather than a dataclass: it is built once per file on the hot path, where that is five times cheaper.
    """

    name: str
    """The name as written, without surrounding space; the folder's name when there is none."""
    description: str
    """The description as written, without surrounding space; empty when there is none."""
    usable: bool = True
    """False for a broken file: listed with its diagnostics, never offered to a model."""
    display_name: str | None = None
    version: str | None = None
    kind: str = "direct"
    """The `type` field: direct, service, distributed, static, preprocessor or internal."""
    allowed_tools: tuple[str, ...] = ()
    """One list whatever the notation: `("Read", "Bash(git:*)")`."""
    keywords: tuple[str, ...] = ()
    """`keywords`, `trigger_keywords` and `tags` without repeats, for search."""
    phrases: tuple[str, ...] = ()
    """The intents and phrases of `triggers`."""
    model_invocable: bool = True
    """Whether a model may pick the skill: no `disable-model-invocation`, and not of the kind `internal`."""
    has_entry: bool = False
    """Whether the skill declares something to run: an entry, or a kind."""
    facets: Facets = ()
    """What few skills declare, for filters and triggers; empty when nothing of it is there."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """Errors and warnings; notes (severity `info`) are left to `check_document`."""


_BROKEN: Final = levels("error", "error", "error", "error", "error")
_UNREADABLE: Final = levels("warning", "error", "error", "error", "error")
_STYLE: Final = levels(None, "info", "warning", "info", "info")
_RECOVERED: Final = levels("warning", "warning", "error", "error", "error")
_INFERRED: Final = levels("info", "warning", "error", "error", "error")
_NAME: Final = levels(None, "info", "error", "info", "warning")
_SPEC_ONLY: Final = levels(None, None, "error", None, None)
_MANIFEST: Final = levels(None, None, None, "error", None)
_FULL: Final = levels(None, None, None, None, "error")

_RULES: Final = (
    # The file
    Rule("file-not-regular", "SKILL.md is not a regular file", "replace it with a text file named SKILL.md", _BROKEN, ALWAYS),
    Rule("file-unreadable", "SKILL.md cannot be opened",
         "give the user who runs this permission to read the file", _BROKEN, ALWAYS),
    Rule("file-not-utf8", "the file is not UTF-8", "save the file as UTF-8", _BROKEN, ALWAYS),
    Rule("file-nul", "the file holds a NUL byte", "remove the NUL byte, or save the file as UTF-8 text", _BROKEN, ALWAYS),
    Rule("file-too-large", "the file is over 1 MiB",
         "move long material into files of its own, for example under references/", _BROKEN, ALWAYS),
    Rule("file-name-case", "the file is named in another case than SKILL.md",
         "rename the file to SKILL.md", levels("warning", "warning", "error", "warning", "warning")),
    Rule("package-refused", "a file of the skill keeps it from being installed or packed",
         "take it out of the folder, or put the file itself there",
         levels(None, "warning", "warning", "error", "error")),
    Rule("legacy-metadata", "the metadata comes from METADATA.yml, which only old packages have",
         "move the content of METADATA.yml to the front matter of SKILL.md",
         levels("warning", "warning", "warning", "warning", "warning")),
    # Its fences
    Rule("front-matter-missing", "there is no front matter",
         "begin the file with a line `---`, then `name:` and `description:`, then a line `---`",
         _INFERRED, DECLARED, fixable=True),
    Rule("front-matter-unclosed", "the front matter is never closed",
         "put a line `---` after the last field", _UNREADABLE, REQUIRED),
    Rule("front-matter-language", "the opening fence names a language",
         "make the first line `---` and nothing else, and write the fields as YAML", _BROKEN, ALWAYS),
    Rule("front-matter-too-large", "the front matter is over 64 KiB",
         "close the front matter, and move long text into the body", _BROKEN, ALWAYS),
    Rule("style-bom", "the file begins with a byte order mark",
         "save the file as UTF-8 without a byte order mark", _STYLE, fixable=True),
    Rule("style-line-endings", "lines end in CRLF or CR", "save the file with LF line endings", _STYLE, fixable=True),
    Rule("style-blank-start", "blank lines come before the opening fence",
         "delete the blank lines before the first `---`", _STYLE, fixable=True),
    Rule("style-closing-dots", "the front matter is closed with `...`",
         "close the front matter with `---`", _STYLE, fixable=True),
    Rule("style-final-newline", "no newline follows the closing fence",
         "end the line of the closing fence with a newline", _STYLE, fixable=True),
    # Its YAML
    Rule("yaml-syntax", "the front matter is not YAML",
         "fix the line; when in doubt put the value in single quotes", _UNREADABLE, REQUIRED),
    Rule("yaml-not-a-mapping", "the front matter is not a list of fields",
         "write the fields as `key: value` lines", _UNREADABLE, REQUIRED),
    Rule("yaml-key-not-text", "a key is a list or a mapping", "write the key as plain text", _UNREADABLE, REQUIRED),
    Rule("yaml-unquoted-colon", "a value holds a colon and is not in quotes",
         "put the value in quotes", _RECOVERED, fixable=True),
    Rule("yaml-unquoted-value", "a value is not YAML", "put the value in quotes, or fix it", _RECOVERED, fixable=True),
    Rule("yaml-duplicate-key", "a key is there twice", "delete one of the two lines", _BROKEN, ALWAYS),
    Rule("yaml-alias", "the front matter uses an alias",
         "write the value out; put text that begins with `*` in quotes", _BROKEN, ALWAYS),
    Rule("yaml-anchor", "the front matter sets an anchor",
         "delete the anchor; put text that begins with `&` in quotes", _BROKEN, ALWAYS),
    Rule("yaml-merge-key", "the front matter uses the merge key `<<`", "write the fields out", _BROKEN, ALWAYS),
    Rule("yaml-tag", "the front matter uses a tag", "delete the tag; put text that begins with `!` in quotes", _BROKEN, ALWAYS),
    Rule("yaml-too-deep", "the front matter is nested too deeply",
         "flatten the value, or move it into a file of its own", _BROKEN, ALWAYS),
    Rule("yaml-too-many-keys", "the front matter has more than 256 keys", "move data into a file of its own", _BROKEN, ALWAYS),
    Rule("yaml-control-character", "the front matter holds a control character", "delete the character", _BROKEN, ALWAYS),
    # Agent Skills specification: the name
    Rule("name-missing", "there is no name", "add a line `name:` with the name of the folder", _INFERRED, fixable=True),
    Rule("name-blank", "the name is empty", "write the name of the folder after `name:`", _INFERRED, fixable=True),
    Rule("name-not-text", "the name is not text", "write the name as plain text", _INFERRED),
    Rule("name-characters", "the name has characters other than lower-case letters, digits and hyphens",
         "use lower-case letters, digits and hyphens", _NAME, fixable=True),
    Rule("name-hyphens", "the name begins or ends with a hyphen, or has two in a row",
         "keep single hyphens between words only", _NAME, fixable=True),
    Rule("name-too-long", "the name is over 64 characters", "choose a shorter name", _NAME),
    Rule("name-not-ascii", "the name has letters outside a to z",
         "use the letters a to z, and put the native name into `displayName`", levels(None, "info", "warning", "info", "info")),
    Rule("name-folder-mismatch", "the name differs from the folder's name",
         "give the folder and the name the same spelling", levels(None, "info", "error", "info", "info"), fixable=True),
    Rule("name-unsafe", "the name looks like a path",
         "use lower-case letters, digits and hyphens", levels("warning", "warning", "error", "error", "error")),
    # and the description
    Rule("description-missing", "there is no description",
         "add a line `description:` that says what the skill does and when to use it", _INFERRED, DECLARED, fixable=True),
    Rule("description-blank", "the description is empty",
         "say after `description:` what the skill does and when to use it", _INFERRED, DECLARED, fixable=True),
    Rule("description-not-text", "the description is not text",
         "write the description as one sentence or a `|` block", _INFERRED, DECLARED),
    Rule("description-not-found", "there is no description, and no paragraph of the instructions that could stand in for it",
         "add a line `description:` that says what the skill does and when to use it",
         levels("info", "error", None, None, None), frozenset({"standard"})),
    Rule("description-too-long", "the description is over 1,024 characters",
         "shorten it to 1,024 characters; move detail into the body", levels(None, "warning", "error", "warning", "error")),
    Rule("text-hidden-characters", "the name or the description holds invisible characters",
         "delete the invisible characters", levels(None, "warning", "warning", "warning", "warning")),
    # and the other fields
    Rule("field-unknown", "a field is not in the specification", "move the field under `metadata:`, or delete it", _SPEC_ONLY),
    Rule("field-type", "a field has a value of the wrong type",
         "give the field a value of the type it wants", levels(None, "warning", "warning", "error", "error")),
    Rule("field-value", "a field has a value outside what is allowed",
         "choose one of the allowed values", levels(None, "warning", "warning", "error", "error")),
    Rule("field-repeated", "a field is there in two spellings",
         "keep one of the two", levels(None, "warning", "warning", "warning", "warning")),
    Rule("field-of-extension", "a field does not hold what the extension that defines it requires",
         "write the field as the extension's own documentation says", levels("error", "error", "error", "error", "error")),
    Rule("extension-failed", "a field could not be checked, because the extension that defines it failed",
         "update or remove the extension, or switch it off", levels("warning", "warning", "warning", "warning", "warning")),
    Rule("license-not-text", "the license is not text",
         "write the name of the license, or of the file that holds it", _SPEC_ONLY),
    Rule("compatibility-not-text", "the compatibility note is not text",
         "write what the skill needs as one sentence", _SPEC_ONLY),
    Rule("compatibility-too-long", "the compatibility note is over 500 characters",
         "shorten it to 500 characters", levels(None, "info", "error", "info", "info")),
    Rule("metadata-not-mapping", "`metadata` is not `key: value` lines",
         "write `metadata:` and indented `key: value` lines below it", _SPEC_ONLY),
    Rule("metadata-value-not-text", "a value in `metadata` is a list or a mapping", "write the value as one text", _SPEC_ONLY),
    Rule("allowed-tools-list", "`allowed-tools` is not one text",
         "write the tools in one line, separated by spaces", _SPEC_ONLY, fixable=True),
    Rule("allowed-tools-grammar", "an entry of `allowed-tools` does not name a tool",
         "write a tool's name, or Tool(argument), such as `Bash(git:*)`",
         levels(None, "warning", "error", "warning", "warning")),
    # The manifest of a published package
    Rule("manifest-field-missing", "a field every manifest needs is missing", "add the field", _MANIFEST),
    Rule("manifest-limit", "a field is longer, or a list has more items, than a manifest allows", "shorten it", _MANIFEST),
    Rule("manifest-format", "a field does not have the form a manifest requires",
         "write the field in the form named", _MANIFEST),
    Rule("version-format", "the version is not three numbers",
         "write the version as three numbers, for example `1.0.0`", levels(None, None, None, "error", "error")),
    # The complete format
    Rule("field-required", "a field the complete format requires is missing", "add the field", _FULL),
    Rule("type-unknown", "the type is not one that can be run",
         "use one of: direct, service, distributed, static, preprocessor, internal",
         levels(None, "info", None, "info", "error")),
    Rule("schema-invalid", "a schema is not JSON Schema",
         "fix the schema as JSON Schema 2020-12", levels(None, "error", "error", "error", "error")),
    Rule("network-hosts-missing", "`security.network` is `allowlist`, but `network_allowlist` names no host",
         "name the hosts in `network_allowlist`, or write `network: none`",
         levels("error", "error", "error", "error", "error")),
    Rule("security-invalid", "the security block has an invalid value",
         "fix or delete the setting", levels(None, "warning", "warning", "warning", "error")),
    Rule("permissions-legacy", "`permissions` is the old form of `security`",
         "write the same as `security:` with `network` and `filesystem`", levels(None, "info", None, "info", "warning")),
    Rule("section-missing", "a section the complete format requires is missing", "add the section as a `##` heading", _FULL),
    Rule("metadata-too-long", "name, description and tags together are over 50 words",
         "shorten the description", levels(None, None, None, None, "warning")),
    Rule("body-too-long", "the instructions are over 5,000 words",
         "move detail into files under references/", levels(None, None, "warning", None, "warning")),
    Rule("code-in-body", "the code is in SKILL.md and no entry script is declared",
         "move the code into scripts/ and name the file in `resources.entry`",
         levels(None, "warning", None, "warning", "error")),
    # The files that it names
    Rule("resource-outside", "a path leads out of the skill's folder",
         "give a path inside the skill's folder, such as ./scripts/main.py",
         levels(None, "warning", "warning", "warning", "error")),
    Rule("resource-missing", "a file that `resources` names is not there",
         "add the file, or fix the path", levels(None, "warning", "warning", "warning", "error")),
    Rule("code-outside-scripts", "a file of code is not in scripts/, where alone code of a skill is run",
         "move the file to scripts/", levels(None, "warning", "warning", "warning", "error")),
    Rule("link-broken", "the instructions link to a file that is not there",
         "add the file, or fix the link", levels(None, "warning", "warning", "warning", "error")),
    Rule("scripts-missing", "an executable skill has no scripts folder",
         "add the entry script under scripts/", _FULL),
    Rule("manifest-json-ignored", "there is a manifest.json beside SKILL.md",
         "move what it says into the front matter and delete it", levels(None, "warning", None, None, "warning")),
)  # fmt: skip

RULES: Final = MappingProxyType({rule.id: rule for rule in _RULES})
"""Every rule that exists, by id, in the order of `docs/rules.md`."""


def diagnose(
    rule: str, *, file: str = "SKILL.md", line: int = 1, message: str = "", fix: str = "", profile: Profile = "standard"
) -> Diagnostic:
    """A finding of the rule `rule`, with the texts of the rule where no message or fix is passed.

    For findings about the file itself, such as `file-not-regular`, which only the caller can see. A rule that the profile does
    not check is reported as a note.
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
        self._diagnostics: list[Diagnostic] = []

    def add(self, rule: str, *, line: int = 1, message: str = "", fix: str = "") -> None:
        """Add a finding, if the profile checks the rule; the rule's own text replaces a missing message or fix."""
        definition = RULES[rule]
        if self.profile in definition.breaks:
            self.usable = False
        if self.checks(rule):
            finding = diagnose(rule, file=self.file, line=max(line, 1), message=message, fix=fix, profile=self.profile)
            self._diagnostics.append(finding)

    def checks(self, rule: str) -> bool:
        """Whether the profile has a severity for a rule."""
        return self.profile in RULES[rule].severity

    def sorted(self) -> tuple[Diagnostic, ...]:
        """The findings in the order of the file's lines, those on one line in the order they were added."""
        return tuple(sorted(self._diagnostics, key=lambda diagnostic: diagnostic.line))
