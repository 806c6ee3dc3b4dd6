"""Rules about the file, its fences and its YAML: whether there is a front matter that can be read at all."""

from __future__ import annotations

from typing import Final

from skillyard.document.records import ALWAYS, REQUIRED, Rule, levels

_BROKEN: Final = levels("error", "error", "error", "error", "error")
_UNREADABLE: Final = levels("warning", "error", "error", "error", "error")
_STYLE: Final = levels(None, "info", "warning", "info", "info")
_RECOVERED: Final = levels("warning", "warning", "error", "error", "error")

_FILE: Final = (
    Rule(
        "file-not-regular",
        "SKILL.md is not a regular file",
        "A folder, pipe, device or broken link cannot hold instructions, and reading one may never end.",
        "replace it with a text file named SKILL.md",
        _BROKEN,
        ALWAYS,
    ),
    Rule(
        "file-unreadable",
        "SKILL.md cannot be opened",
        "The operating system refused to open the file, so nothing is known about the skill.",
        "give the user who runs this permission to read the file",
        _BROKEN,
        ALWAYS,
    ),
    Rule(
        "file-not-utf8",
        "the file is not UTF-8",
        "Text in another encoding would reach a model as garbage, or differ from client to client.",
        "save the file as UTF-8",
        _BROKEN,
        ALWAYS,
    ),
    Rule(
        "file-nul",
        "the file holds a NUL byte",
        "A NUL byte means the file is not text; some programs stop reading at it and so see another skill than others do.",
        "remove the NUL byte, or save the file as UTF-8 text",
        _BROKEN,
        ALWAYS,
    ),
    Rule(
        "file-too-large",
        "the file is over 1 MiB",
        "Instructions of that size fit no model, and reading them would slow down everything else.",
        "move long material into files of its own, for example under references/",
        _BROKEN,
        ALWAYS,
    ),
    Rule(
        "file-name-case",
        "the file is named in another case than SKILL.md",
        "Most clients look for SKILL.md exactly; on a case-sensitive file system they will not find this one.",
        "rename the file to SKILL.md",
        levels("warning", "warning", "error", "warning", "warning"),
    ),
    Rule(
        "legacy-metadata",
        "the metadata comes from METADATA.yml, which only old packages have",
        "SKILL.md has no front matter, so the older file is read in its place; no other client does that.",
        "move the content of METADATA.yml to the front matter of SKILL.md",
        levels("warning", "warning", "warning", "warning", "warning"),
    ),
)

_FENCES: Final = (
    Rule(
        "front-matter-missing",
        "there is no front matter",
        "Without front matter there is no description, and a model cannot tell when to use the skill.",
        "begin the file with a line `---`, then `name:` and `description:`, then a line `---`",
        _UNREADABLE,
        REQUIRED,
    ),
    Rule(
        "front-matter-unclosed",
        "the front matter is never closed",
        "Without the closing fence nobody can tell where the front matter ends and the instructions begin.",
        "put a line `---` after the last field",
        _UNREADABLE,
        REQUIRED,
    ),
    Rule(
        "front-matter-language",
        "the opening fence names a language",
        "Some readers run front matter opened with `---js` as a program. It is refused, whatever it holds.",
        "make the first line `---` and nothing else, and write the fields as YAML",
        _BROKEN,
        ALWAYS,
    ),
    Rule(
        "front-matter-too-large",
        "the front matter is over 64 KiB",
        "A header of that size is a mistake or an attack on the reader; reading stops there.",
        "close the front matter, and move long text into the body",
        _BROKEN,
        ALWAYS,
    ),
    Rule(
        "style-bom",
        "the file begins with a byte order mark",
        "The mark is invisible, but several clients then miss the opening fence.",
        "save the file as UTF-8 without a byte order mark",
        _STYLE,
        fixable=True,
    ),
    Rule(
        "style-line-endings",
        "lines end in CRLF",
        "It is read correctly here; several clients miss fences that end in CRLF.",
        "save the file with LF line endings",
        _STYLE,
    ),
    Rule(
        "style-blank-start",
        "blank lines come before the opening fence",
        "It is read correctly here; most clients want the fence on the first line.",
        "delete the blank lines before the first `---`",
        _STYLE,
        fixable=True,
    ),
    Rule(
        "style-closing-dots",
        "the front matter is closed with `...`",
        "YAML allows it and it is read here; most clients look for `---`.",
        "close the front matter with `---`",
        _STYLE,
        fixable=True,
    ),
    Rule(
        "style-final-newline",
        "no newline follows the closing fence",
        "It is read correctly here; several clients want a newline after the closing fence.",
        "end the line of the closing fence with a newline",
        _STYLE,
        fixable=True,
    ),
)

_YAML: Final = (
    Rule(
        "yaml-syntax",
        "the front matter is not YAML",
        "What cannot be parsed has no fields. Common slips are fixed on reading; this one is not.",
        "fix the line; when in doubt put the value in single quotes",
        _UNREADABLE,
        REQUIRED,
    ),
    Rule(
        "yaml-not-a-mapping",
        "the front matter is not a list of fields",
        "Front matter is `key: value` lines; a list or a lone sentence has no name and no description.",
        "write the fields as `key: value` lines",
        _UNREADABLE,
        REQUIRED,
    ),
    Rule(
        "yaml-key-not-text",
        "a key is a list or a mapping",
        "Such keys are legal YAML but no field of a skill has one; it is nearly always a misplaced bracket.",
        "write the key as plain text",
        _UNREADABLE,
        REQUIRED,
    ),
    Rule(
        "yaml-unquoted-colon",
        "a value holds a colon and is not in quotes",
        "To YAML a colon and a space begin a new field, so strict clients cannot read the file. It was read as text here.",
        "put the value in quotes",
        _RECOVERED,
        fixable=True,
    ),
    Rule(
        "yaml-unquoted-value",
        "a value is not YAML",
        "The value begins with a sign that means something to YAML, or breaks off. It was read as plain text here.",
        "put the value in quotes, or fix it",
        _RECOVERED,
        fixable=True,
    ),
    Rule(
        "yaml-duplicate-key",
        "a key is there twice",
        "Readers differ in which one they keep, so a reviewer may see another skill than the one that runs.",
        "delete one of the two lines",
        _BROKEN,
        ALWAYS,
    ),
    Rule(
        "yaml-alias",
        "the front matter uses an alias",
        "Aliases can blow a small file up to gigabytes; no field of a skill needs them.",
        "write the value out; put text that begins with `*` in quotes",
        _BROKEN,
        ALWAYS,
    ),
    Rule(
        "yaml-anchor",
        "the front matter sets an anchor",
        "Anchors are half of an alias bomb; no field of a skill needs them.",
        "delete the anchor; put text that begins with `&` in quotes",
        _BROKEN,
        ALWAYS,
    ),
    Rule(
        "yaml-merge-key",
        "the front matter uses the merge key `<<`",
        "Merging hides where a value comes from, and readers differ in how they do it.",
        "write the fields out",
        _BROKEN,
        ALWAYS,
    ),
    Rule(
        "yaml-tag",
        "the front matter uses a tag",
        "Tags such as `!!python/object` make some readers build objects and run code.",
        "delete the tag; put text that begins with `!` in quotes",
        _BROKEN,
        ALWAYS,
    ),
    Rule(
        "yaml-too-deep",
        "the front matter is nested too deeply",
        "Deep nesting exhausts the stack of some readers; no field of a skill needs more than eight levels.",
        "flatten the value, or move it into a file of its own",
        _BROKEN,
        ALWAYS,
    ),
    Rule(
        "yaml-too-many-keys",
        "the front matter has more than 256 keys",
        "Every client reads the front matter of every skill at start; it has to stay small.",
        "move data into a file of its own",
        _BROKEN,
        ALWAYS,
    ),
    Rule(
        "yaml-control-character",
        "the front matter holds a control character",
        "YAML forbids it, or readers differ in whether it ends a line; so they may see different fields.",
        "delete the character",
        _BROKEN,
        ALWAYS,
    ),
)

READING_RULES: Final = _FILE + _FENCES + _YAML
