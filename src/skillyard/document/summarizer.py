"""The summary of a SKILL.md: a fast reader for files that are plainly in order, the precise one for every other file.

A Rust parser reads the YAML. It is faster and more forgiving than the precise reader, and it turns unquoted scalars into
numbers, so its answer is only used where both readers are known to agree. A test holds the two against each other.
"""

from __future__ import annotations

import re
import threading
from codecs import utf_8_decode
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from skillyard.document.document_rules import (
    DEPTH_LIMIT,
    DESCRIPTION_LIMIT,
    DOCUMENT_LIMIT,
    HEADER_LIMIT,
    KEY_LIMIT,
    Facets,
    Summary,
)
from skillyard.document.spelling import KINDS, SPELLINGS, split_tools, split_words, tool_parts
from skillyard.text import sanitize

if TYPE_CHECKING:
    from skillyard.document.document_rules import Profile


_ORDINARY: Final = bytes(set(range(32, 127)) - set(b"&!{[")) + b"\n"
"""The bytes that mean the same to both parsers at any place."""
_ASCII: Final = bytes(range(128))
_HIGH: Final = bytes(range(128, 256))
_SIGN: Final = re.compile(r"[&!]")
# Inside brackets the parsers differ in which signs may begin a word, and in what may stand behind a colon.
_BRACKETS: Final = re.compile(r"[\[{,:](?:(?<=[\[{,])\s*[?:>|]|(?<=:)(?:[?,\]}]|[ ]*[:>|?](?![-+0-9]*\n)))")
# The fast parser nests without limit on `- - - -` and would run out of stack; a short header cannot take it that far.
_NESTED: Final = re.compile(r"(?:[-?:][ ]*){16}")
_SAFE_LENGTH: Final = 1024


def _fast_parser() -> Any:
    """The module `yaml_rs`, loaded by a thread that does not end while the process lives.

    Its allocator takes the thread that loads it for the main one. When that thread ended, and a later one came to lie at its
    address, the process crashed (yaml_rs 0.1.6).
    """
    if threading.current_thread() is threading.main_thread():
        return import_module("yaml_rs")
    loaded: list[Any] = []
    done, never = threading.Event(), threading.Event()

    def load_and_stay() -> None:
        try:
            loaded.append(import_module("yaml_rs"))
        finally:
            done.set()
        never.wait()

    threading.Thread(target=load_and_stay, name="yaml_rs", daemon=True).start()
    done.wait()
    return loaded[0] if loaded else import_module("yaml_rs")  # which raises what went wrong


_PARSER: Final = _fast_parser()
_loads: Final = _PARSER.loads
_REFUSE_ALIASES: Final = _PARSER.AliasLimits(0, 0, 0)

_EMPTY: Final = type(None)
_TEXT: Final[frozenset[type]] = frozenset((str, _EMPTY))
_SCALAR: Final[frozenset[type]] = frozenset((str, int, float, bool, _EMPTY))
_BLOCK: Final[frozenset[type]] = frozenset((dict, _EMPTY))
_LIST: Final[frozenset[type]] = frozenset((str, list, _EMPTY))
_FLAG: Final[frozenset[type]] = frozenset((bool, _EMPTY))
_NOTHING: Final[frozenset[type]] = frozenset((_EMPTY,))
_ONE_SPELLING: Final = (
    "license", "compatibility", "category", "author", "homepage", "documentation", "repository", "model",
)  # fmt: skip
_UNUSED: Final[dict[str, frozenset[type]]] = {  # a summary does not contain these
    **dict.fromkeys(_ONE_SPELLING, _SCALAR),
    **dict.fromkeys(("metadata", "config"), _BLOCK),
    "cacheable": _FLAG,
    "tools": _LIST,
}
_USED: Final[dict[str, frozenset[type]]] = {
    **dict.fromkeys(("version", "display_name", "type"), _TEXT),
    **dict.fromkeys(("tags", "keywords", "trigger_keywords", "allowed_tools", "capabilities", "argument_hint"), _LIST),
    "domain": _TEXT,
    **dict.fromkeys(("created_at", "updated_at", "skill_id", "icon_url"), _SCALAR),  # here only because of their spellings
    **dict.fromkeys(("disable_model_invocation", "user_invocable"), _FLAG),
}
_KNOWN: Final[dict[str, tuple[str, frozenset[type]]]] = {
    spelling: ("" if name in _UNUSED else name, _UNUSED.get(name) or _USED.get(name, _NOTHING))
    for spelling, name in SPELLINGS.items()
} | {"<<": ("<<", frozenset()), "name": ("", frozenset((str,))), "description": ("", frozenset((str,)))}
"""For each spelling of a known field the types with which it needs no second look, and its name if a summary shows it."""
_RICH: Final = frozenset(spelling for spelling, (name, expected) in _KNOWN.items() if name or str not in expected)
"""The fields that need a look even when their value is text."""
_ONLY_TEXT: Final = frozenset((str,))
_CONTAINERS: Final = frozenset((dict, list))
_LISTS: Final = frozenset(("keywords", "trigger_keywords", "tags", "capabilities", "argument_hint"))


def fast_summary(data: bytes, *, complete: bool) -> Summary | None:
    """The summary of a file that has nothing to report in the profiles `minimal` and `standard`; None when in any doubt."""
    if not data.startswith(b"---\n") or b"\0" in data or len(data) > DOCUMENT_LIMIT:
        return None
    end = data.find(b"\n---", 3, HEADER_LIMIT)
    if end < 0 or data[end + 4 : end + 5] != b"\n" or data.find(b"\n...", 3, end) >= 0:
        return None
    header = data[4 : end + 1]
    unusual = header.translate(None, _ORDINARY)
    try:
        utf_8_decode(data, "strict", complete)
        text = header.decode()
        if (unusual and _is_doubtful(unusual, text)) or (len(text) > _SAFE_LENGTH and _NESTED.search(text)):
            return None
        raw = _loads(text, parse_datetime=False, alias_limits=_REFUSE_ALIASES)
    except (ValueError, TypeError):  # not UTF-8, not YAML, or a key that is a list
        return None
    return _from_fields(raw, b"\\" in header) if raw.__class__ is dict else None


def _is_doubtful(unusual: bytes, text: str) -> bool:
    """Whether the unusual bytes of a header are more than punctuation in a sentence and letters of another script."""
    signs = unusual.translate(None, _HIGH)
    if signs.strip(b"&!{["):
        return True
    if len(signs) < len(unusual):
        letters = unusual.translate(None, _ASCII).decode()
        if sanitize(letters) != letters:
            return True
    if (b"[" in signs or b"{" in signs) and _has_odd_brackets(text):
        return True
    return (b"&" in signs or b"!" in signs) and any(_begins_a_value(text, sign.start()) for sign in _SIGN.finditer(text))


def _has_odd_brackets(text: str) -> bool:
    """Whether the parsers may differ inside brackets: unusual words, or a quoted text over more than one line."""
    return _BRACKETS.search(text) is not None or any(line.count('"') & 1 for line in text.split("\n"))


def _begins_a_value(text: str, at: int) -> bool:
    """Whether what is at an index stands where YAML would look for an anchor or a tag."""
    before = text[:at].rstrip(" ")
    return not before or before[-1] in "\n:?-[{,"


def _from_fields(raw: dict[str, object], escapes: bool) -> Summary | None:
    name, description = raw.get("name"), raw.get("description")
    if not isinstance(name, str) or not isinstance(description, str):
        return None
    name, description = name.strip(), description.strip()
    if not name or not description or len(description) > DESCRIPTION_LIMIT:
        return None
    if "/" in name or "\\" in name or name[0] in "~." or not name.isascii():
        return None
    if escapes and (sanitize(description) != description or sanitize(name) != name):
        return None
    if _RICH.isdisjoint(raw) and _ONLY_TEXT.issuperset(map(type, raw.values())) and _ONLY_TEXT.issuperset(map(type, raw)):
        return Summary(name, description) if len(raw) <= KEY_LIMIT else None
    fields = _used_fields(raw)
    if not fields:
        return None if fields is None else Summary(name, description)
    return _rich_summary(name, description, fields)


def _used_fields(raw: dict[str, object]) -> dict[str, object] | None:
    """The values of the fields a summary shows, by their names; None when a field needs a second look."""
    fields: dict[str, object] = {}
    keys = len(raw)
    for key, value in raw.items():
        kind = type(value)
        if key in _RICH or (kind is not str and key in _KNOWN):
            name, expected = _KNOWN[key]
            if kind not in expected or name in fields:
                return None
            if name:
                fields[name] = value
        elif key.__class__ is not str:
            return None
        if kind is dict or kind is list:
            keys += _weight(value, 2)
    return fields if keys <= KEY_LIMIT else None


def _weight(value: object, depth: int) -> int:
    """The number of keys inside a value; more than is allowed when it is nested too deeply or has unusual keys."""
    if depth > DEPTH_LIMIT:
        return KEY_LIMIT
    weight = 0
    if isinstance(value, dict):
        weight = len(value)
        # A quote inside a key is the trace of a lost comma, which only the precise parser notices.
        if "<<" in value or not _ONLY_TEXT.issuperset(map(type, value)) or '"' in "".join(value):
            return KEY_LIMIT
        value = value.values()
    for item in value:  # type: ignore[attr-defined]
        if item.__class__ in _CONTAINERS:
            weight += _weight(item, depth + 1)
    return weight


def _rich_summary(name: str, description: str, fields: dict[str, object]) -> Summary | None:
    tools = _tools(fields["allowed_tools"]) if "allowed_tools" in fields else ()
    keywords = () if _LISTS.isdisjoint(fields) else _keywords(fields)
    if tools is None or keywords is None:
        return None
    kind = str(fields.get("type") or "").strip().lower()
    return Summary(
        name,
        description,
        True,
        str(fields.get("display_name") or "").strip() or None,
        str(fields.get("version") or "").strip() or None,
        kind if kind in KINDS else "direct",
        tools,
        keywords,
        (),
        fields.get("disable_model_invocation") is not True and kind != "internal",
        kind in KINDS,
        _facets(fields),
    )


def _facets(fields: dict[str, object]) -> Facets:
    """The domain and the tags; triggers are left to the precise reader."""
    domain, tags = str(fields.get("domain") or "").strip(), _words(fields.get("tags")) or ()
    return ((), (), None, domain or "general", tags) if domain or tags else ()


def _keywords(fields: dict[str, object]) -> tuple[str, ...] | None:
    """The words of the three fields that hold keywords; None when a list among them, or another one, holds more than text."""
    lists = [_words(fields.get(field)) for field in ("keywords", "trigger_keywords", "tags", "capabilities", "argument_hint")]
    if None in lists:
        return None
    return tuple(dict.fromkeys(word for words in lists[:3] for word in words or ()))


def _words(value: object) -> tuple[str, ...] | None:
    """A list of texts from a list or from one text with commas; None when an item is not text."""
    if not value:
        return ()
    if isinstance(value, str):
        return split_words(value)
    if not isinstance(value, list) or not _ONLY_TEXT.issuperset(map(type, value)):
        return None
    return tuple(word for item in value if (word := item.strip()))


def _tools(value: object) -> tuple[str, ...] | None:
    """The tools of a list or a text; None when an item is not text, or one of them is no tool, which has to be reported."""
    if isinstance(value, str):
        return _checked(split_tools(value))
    words = _words(value)
    return words and _checked(tuple(dict.fromkeys(tool for word in words for tool in split_tools(word))))


def _checked(tools: tuple[str, ...]) -> tuple[str, ...] | None:
    try:
        for tool in tools:
            tool_parts(tool)
    except ValueError:
        return None
    return tools


_QUICK_PROFILES: Final = frozenset({"minimal", "standard"})


def summarize(
    data: bytes, *, file: str = "SKILL.md", directory_name: str = "", profile: Profile = "standard", complete: bool = True
) -> Summary:
    """The summary of a SKILL.md from its bytes, or from its first bytes when `complete` is false.

    Bad content never raises. With `complete=False` the body is not read beyond these bytes.

    Raises:
        NeedMore: the data is incomplete and ends before the front matter does.
    """
    if profile in _QUICK_PROFILES and file.endswith("SKILL.md"):
        summary = fast_summary(data, complete=complete)
        if summary is not None:
            return summary
    # A catalog in good order never gets here, and so never pays for the import of the precise reader.
    from skillyard.document.document import precise_summary

    return precise_summary(data, file=file, directory_name=directory_name, profile=profile, complete=complete)
