"""A shell command line as its simple commands: read by the grammar of Bash, then checked against the bytes of the line.

The grammar (tree-sitter) reads any text and never fails, so it may also understand a line in another way than the shell does.
Whatever could be such a place is noted in `ShellScript.unclear`: a caller allows nothing of a script in which something is
unclear. Time is bounded: by the length of a line, by a deadline for the grammar, and by the depth of scripts inside scripts.
"""

from __future__ import annotations

import itertools
import re
import time
from collections import deque
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from skillyard.permissions.shell_words import ShellWord, WordReader, is_visible, unescaped_backquotes, word_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tree_sitter import Node, Parser

LONGEST_COMMAND: Final = 64 * 1024  # characters
_PARSE_SECONDS: Final = 0.5
_MOST_NODES: Final = 40_000
_DEEPEST: Final = 60  # levels of the syntax tree that are followed
_MOST_NESTED: Final = 5  # scripts inside scripts
_MOST_COMMANDS: Final = 2_000
_CONTAINERS: Final = word_set(
    "program list pipeline subshell compound_statement if_statement elif_clause else_clause while_statement do_group "
    "case_statement case_item negated_command redirected_statement command_substitution process_substitution"
)
_OPERATORS: Final = word_set(
    '; ;; ;& ;;& | |& & && || ( ) { } [ ] [[ ]] ! < > >> &> &>> <& >& <&- >&- >| << <<- <<< $( <( >( ` " $ = += == != =~ '
    "if then elif else fi while until do done for in select case esac function export declare typeset local readonly unset "
    "${ - -a -o"
) | {"", "\n"}
_GAP: Final = re.compile(rb"(?:(?:\\\n)*[ \t\n](?:[ \t\n]|\\\n)*)?")  # a joined line alone is no blank: it joins words
_DASH: Final = re.compile(rb"[ \t]+-[ \t]+")
_GAP_IN_COMMAND: Final = re.compile(rb"(?:(?:\\\n)*[ \t](?:[ \t]|\\\n)*)?")
_OPENERS: Final = re.compile(rb"`|\$\(|\$\[|[<>]\(")
_STAND_ALONE: Final = word_set("! { <&- >&- heredoc_start")
_ONLY_ASCII: Final = bytes(range(128)) + b"." * 128
_AFTER_A_WORD: Final = b" \t\n;|&<>()"
_BEFORE_A_WORD: Final = b" \t\n;&|()"
_RESERVED: Final = word_set("if then else elif fi do done case esac while until for select function { } ! [[ ]] in")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ARITHMETIC_TEST: Final = re.compile(r"\s-(?:eq|ne|lt|le|gt|ge|v)\s")
_PLAIN_NAME_TEST: Final = re.compile(r"\s-v\s+[A-Za-z_]\w*\s")
_ASKS_ABOUT_NAME: Final = re.compile(r"\s-v\s")
_EVALUATING: Final = word_set("[ [[ test let declare typeset export local readonly printf read unset mapfile wait")
_OWN_DESCRIPTORS: Final = word_set("3 4 5 6 7 8 9")
_MOST_OPENED: Final = 200
_QUOTED_SUBSTITUTION: Final = re.compile(r"\$\(|`|\$\{")


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One command with its words, the first of which is its name, and the assignments before it; `text` is as written.

    Without words it only assigns. `open_ended` commands get more words than these when they run.
    """

    words: tuple[ShellWord, ...]
    assignments: tuple[tuple[str, ShellWord], ...] = ()
    text: str = ""
    open_ended: bool = False


@dataclass(frozen=True, slots=True)
class Redirection:
    """A file that a command reads from or writes to by `<` or `>`."""

    target: ShellWord
    writes: bool


@dataclass(frozen=True, slots=True)
class ShellScript:
    """What a line of shell does: its commands, also those inside substitutions, and what of it could not be understood.

    `unclear` has a reason for each such place, for people; nothing of such a script may be called harmless.
    """

    text: str
    commands: tuple[SimpleCommand, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    unclear: tuple[str, ...] = ()


def parse_shell(text: str, depth: int = 0) -> ShellScript:
    """The simple commands of `text`; `depth` counts the scripts that it is inside of.

    Time is at most about half a second, for the worst text of `LONGEST_COMMAND` characters; a longer one is not read at all.
    """
    if len(text) > LONGEST_COMMAND:
        return ShellScript(text, unclear=(f"it is longer than {LONGEST_COMMAND:,} characters",))
    if depth > _MOST_NESTED:
        return ShellScript(text, unclear=("it has too many scripts inside scripts",))
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return ShellScript(text, unclear=("it is not Unicode text",))
    root = _tree(data)
    if root is None:
        return ShellScript(text, unclear=("it takes too long to read",))
    reading = _Reading(text, data, depth)
    reading.read(root)
    return ShellScript(text, tuple(reading.commands), tuple(reading.redirections), tuple(dict.fromkeys(reading.unclear)))


@cache
def _parser() -> Parser:
    import tree_sitter  # not at the top: most programs never decide on a command
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _tree(data: bytes) -> Node | None:
    """The root of the syntax tree; None when the deadline has passed.

    The grammar's own scanner asks C's `isalpha` about any character, which reads past its table for most and can end the
    process. Bytes outside ASCII are therefore shown to it as `.`, which is part of a word as they are, and of no name.
    """
    data = data.translate(_ONLY_ASCII)
    parser, ends = _parser().__class__(_parser().language), time.monotonic() + _PARSE_SECONDS
    try:
        return parser.parse(
            lambda offset, _point: data[offset : offset + 4096], progress_callback=lambda *_: time.monotonic() > ends
        ).root_node
    except ValueError:
        return None


@dataclass(slots=True)
class _Reading:
    """One walk over the syntax tree of a line."""

    text: str
    data: bytes
    depth: int
    commands: list[SimpleCommand] = field(default_factory=list)
    redirections: list[Redirection] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)
    accounted: set[int] = field(default_factory=set)  # where a substitution begins or ends that was read
    literal: list[tuple[int, int]] = field(default_factory=list)  # bytes in which nothing is expanded
    dashes: set[int] = field(default_factory=set)  # ends of commands that a lone `-` follows, which the grammar drops
    opened: list[tuple[str, int, int]] = field(default_factory=list)  # descriptors, and the bytes in which they are open
    words: WordReader = field(init=False)

    def __post_init__(self) -> None:
        self.words = WordReader(self.source, self.visit, self.doubt)

    def source(self, node: Node) -> str:
        return self.data[node.start_byte : node.end_byte].decode(errors="replace")

    def doubt(self, reason: str) -> None:
        self.unclear.append(reason)

    def read(self, root: Node) -> None:
        """Read the whole tree, and hold it against the bytes of the line."""
        if not is_visible(self.text):
            self.doubt("it has characters that cannot be seen")
        if root.has_error:
            self.doubt("its syntax cannot be understood")
        leaves = _leaves(root)
        if leaves is None:
            self.doubt("it has too many parts")
            return
        self._find_dashes(leaves)
        self._find_opened(leaves)
        self.visit(root, 0)
        if self.words.touching():
            self.doubt("where one of its words ends is not clear")
        self._check_leaves(leaves)
        self._check_openers()

    def visit(self, node: Node, level: int = 0) -> None:
        """Read one statement, or the substitution that a word has."""
        if level > _DEEPEST or len(self.commands) > _MOST_COMMANDS:
            self.doubt("it is nested too deeply, or has too many commands")
            return
        if node.type in ("command_substitution", "process_substitution"):
            self.accounted |= {node.start_byte, node.end_byte - 1}
            if self.data[node.start_byte : node.start_byte + 1] == b"`":
                self._nested(unescaped_backquotes(self.source(node)[1:-1]))
                self.literal.append((node.start_byte + 1, node.end_byte - 1))
                return
        reader = _STATEMENTS.get(node.type)
        if reader is not None:
            reader(self, node, level)
            return
        if node.type not in _CONTAINERS:
            self.doubt(f"it has a {node.type.replace('_', ' ')}")
        if node.type == "compound_statement" and self.source(node).startswith("(("):
            self.doubt("it calculates with names, whose values can be commands")
        self._children(node, level)

    def _children(self, node: Node, level: int) -> None:
        for child in node.named_children:
            if child.type in ("file_redirect", "heredoc_redirect", "herestring_redirect"):
                self._redirect(child, level)
            elif child.type in _WORDS:
                self.words.read(child, level)
            else:
                self.visit(child, level + 1)

    def _nested(self, text: str) -> None:
        script = parse_shell(text, self.depth + 1)
        self.commands.extend(script.commands)
        self.redirections.extend(script.redirections)
        self.unclear.extend(script.unclear)

    def _command(self, node: Node, level: int) -> None:
        words: list[ShellWord] = []
        assignments: list[tuple[str, ShellWord]] = []
        end = node.start_byte
        for child in node.children:
            if not _GAP_IN_COMMAND.fullmatch(self.data, end, child.start_byte):
                self.doubt("its words are separated by something that is not a blank")
            end = child.end_byte
            if child.type == "variable_assignment":
                assignments.append(self._assignment(child, level))
            elif child.type.endswith("_redirect"):
                self._redirect(child, level)
            elif child.type == "command_name":
                words.append(self.words.read(child.children[0] if child.child_count else child, level))
            elif child.type in _WORDS or not child.is_named:
                words.append(self.words.read(child, level))
            else:
                self.visit(child, level + 1)
                words.append(ShellWord(self.source(child), None))
        if node.end_byte in self.dashes:
            words.append(ShellWord("-", "-"))
        if words and words[0].raw in _RESERVED:
            self.doubt(f"{words[0].raw!r} is a word of the shell's own there")
        self._add(words, assignments, self.source(node))

    def _add(self, words: list[ShellWord], assignments: list[tuple[str, ShellWord]], text: str) -> None:
        name = words[0].text if words else None
        values = [value for _, value in assignments] + (words[1:] if name in _EVALUATING else [])
        if _runs_in_test(values) if name == "test" else any(map(_quotes_command, values)):
            self.doubt("it quotes a command that the shell may still run")
        self.commands.append(SimpleCommand(tuple(words), tuple(assignments), text))

    def _assignment(self, node: Node, level: int) -> tuple[str, ShellWord]:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or name.type != "variable_name":
            self.doubt("it assigns to a part of an array")
            if name is not None:
                self._children(name, level + 1)
        named = name is None or name.type != "variable_name" or _NAME.fullmatch(self.source(name))
        if not named or self.data[node.start_byte - 1 : node.start_byte] not in _BEFORE_A_WORD:
            self.doubt("where the name of a variable begins is not clear")
        if value is not None and self.data[value.start_byte - 1 : value.start_byte] != b"=":
            self.doubt("where the value of a variable begins is not clear")
        if value is None:
            word = ShellWord("", "")
        elif value.type == "array":
            self._children(value, level + 1)
            word = ShellWord(self.source(value), None)
        else:
            word = self.words.read(value, level)
        return self.source(name) if name is not None else "", word

    def _assignments(self, node: Node, level: int) -> None:
        pairs = [self._assignment(child, level) for child in node.named_children] if node.type.endswith("s") else None
        self._add([], pairs if pairs is not None else [self._assignment(node, level)], self.source(node))

    def _declaration(self, node: Node, level: int) -> None:
        words, assignments = [], []
        for child in node.children:
            if child.type == "variable_assignment":
                assignments.append(self._assignment(child, level))
            elif child.type == "variable_name" or not child.is_named:
                words.append(ShellWord(self.source(child), self.source(child)))
            else:
                words.append(self.words.read(child, level))
        self._add(words, assignments, self.source(node))

    def _test(self, node: Node, level: int) -> None:
        text = self.source(node)
        name = "[[" if text.startswith("[[") else "["
        if text.startswith("((") or (name == "[[" and _ARITHMETIC_TEST.search(_PLAIN_NAME_TEST.sub(" ", text))):
            self.doubt("it calculates with names, whose values can be commands")
        operands = [self.words.read(leaf, level) for leaf in _expressions(node)]
        if _runs_in_test([*operands, *([ShellWord("-v", "-v")] if _ASKS_ABOUT_NAME.search(text) else [])]):
            self.doubt("it quotes a command that the shell may still run")
        self._add([ShellWord(name, name), ShellWord(text, None)], [], text)

    def _for(self, node: Node, level: int) -> None:
        name = node.child_by_field_name("variable")
        if name is not None:
            self._add([], [(self.source(name), ShellWord("", None))], self.source(node).partition("\n")[0])
        self._children(node, level)

    def _function(self, node: Node, level: int) -> None:
        self.doubt("it defines a function, which may have the name of a command")
        body = node.child_by_field_name("body")
        if body is not None:
            self.visit(body, level + 1)

    def _redirect(self, node: Node, level: int) -> None:
        if node.type == "heredoc_redirect":
            self._here_document(node, level)
        elif node.type == "herestring_redirect":
            for child in node.named_children:
                self.words.read(child, level)
        else:
            self._file_redirect(node, level)

    def _file_redirect(self, node: Node, level: int) -> None:
        if self.data[node.start_byte - 1 : node.start_byte] == b"}":
            self.doubt("a redirection may set a variable")
        operator = "".join(self.source(child) for child in node.children if not child.is_named)
        targets = [child for child in node.named_children if child.type != "file_descriptor"]
        if any(child.type == "file_descriptor" and len(self.source(child)) > 1 for child in node.named_children):
            self.doubt("it opens or closes a descriptor that is not its own")
        if len(targets) != 1 and not (operator in ("<&-", ">&-") and not targets):
            self.doubt("a redirection has more than one target")
        for target in targets:
            word = self.words.read(target, level)
            if operator in ("<&", ">&"):
                if not self._is_open(word.text or "", node.start_byte):
                    self.doubt("what a redirection leads to is not clear")
                continue
            if word.text is None and "/fd/" in word.raw:
                self.doubt("what a redirection leads to is not clear")
            self.redirections.append(Redirection(word, writes=operator != "<"))

    def _find_opened(self, leaves: list[Node]) -> None:
        """Note where in the line which descriptors from 3 to 9 are open: the shell and others use the higher ones."""
        for leaf in leaves:
            redirect = leaf.parent if leaf.type == "file_descriptor" else None
            statement = redirect.parent if redirect is not None else None
            number = self.source(leaf)
            if redirect is None or statement is None or number not in _OWN_DESCRIPTORS or len(self.opened) > _MOST_OPENED:
                continue
            body = statement.child_by_field_name("body")
            if body is not None and body.type != "command":
                self.opened.append((number, body.start_byte, statement.end_byte))
            stays = body is not None and self.source(body).split()[:1] == ["exec"]
            self.opened.append((number, redirect.end_byte, len(self.data) if stays else statement.end_byte))

    def _is_open(self, number: str, at: int) -> bool:
        """Whether a descriptor is one that every command has, or one that the line itself has opened there."""
        if number in ("0", "1", "2"):
            return True
        return number in _OWN_DESCRIPTORS and any(own == number and start <= at < end for own, start, end in self.opened)

    def _here_document(self, node: Node, level: int) -> None:
        start = next((child for child in node.children if child.type == "heredoc_start"), None)
        body = next((child for child in node.children if child.type == "heredoc_body"), None)
        last = next((child for child in node.children if child.type == "heredoc_end"), None)
        if start is None or body is None or last is None:
            self.doubt("a here document has no end")
            return
        delimiter, content = self.source(start), self.source(body)
        name = re.sub(r"[\\'\"]", "", delimiter)
        if not self._ends_where_it_should(start, body, name, self.source(last)):
            self.doubt("where a here document ends is not clear")
        if name != delimiter:
            self.literal.append((body.start_byte, body.end_byte))
        elif re.search(r"[`\\]|\$[({\[]", content):
            self.doubt("a here document runs something")
        for child in node.named_children:
            if child.type in ("heredoc_start", "heredoc_body", "heredoc_end", "file_descriptor"):
                continue
            if child.type in _WORDS or child.type.endswith("_redirect"):
                self.doubt("words follow the start of a here document")
                self._children(node, level + 1)
                break
            self.visit(child, level + 1)

    def _ends_where_it_should(self, start: Node, body: Node, name: str, last: str) -> bool:
        """Whether the body of a here document is the lines up to the first one that is its delimiter."""
        tabs = "\t" if self.data[start.start_byte - 1 : start.start_byte] == b"-" else ""
        *lines, rest = self.source(body).split("\n")
        line_end = self.data.find(b"\n", start.end_byte)
        begins = self.data[line_end + 1 : body.start_byte].decode(errors="replace").strip(tabs or "\n")
        delimiters = [line for line in lines if (line.lstrip(tabs) if tabs else line) == name]
        one = line_end >= 0 and b"<<" not in self.data[start.end_byte : line_end]
        return one and not begins and not delimiters and not rest.strip(tabs or "\n") and last == name

    def _find_dashes(self, leaves: list[Node]) -> None:
        """The grammar drops a word `-` before the start of a here document, as in `python - <<'END'`."""
        for before, leaf in itertools.pairwise(leaves):
            if leaf.type == "<<" and _DASH.fullmatch(self.data, before.end_byte, leaf.start_byte):
                self.dashes.add(before.end_byte)

    def _check_leaves(self, leaves: list[Node]) -> None:
        """Nothing but blanks may stand between the parts of the line, and no part may hide an operator."""
        end, understood = 0, deque(sorted(self.words.understood))
        for leaf in leaves:
            start = leaf.start_byte
            while understood and understood[0][1] <= start:
                understood.popleft()
            if understood and understood[0][0] <= start:
                end = max(end, leaf.end_byte)
                continue
            if start >= end and end not in self.dashes and not _GAP.fullmatch(self.data, end, start):
                self.doubt("between its words is something that is not a blank")
            end = max(end, leaf.end_byte)
            if leaf.is_missing or not (leaf.is_named or self.source(leaf).strip(" \t\\") in _OPERATORS or leaf.type == "\n"):
                self.doubt("it has a sign that cannot be understood here")
            after = self.data[leaf.end_byte : leaf.end_byte + 1]
            if (leaf.type == "$" and after == b'"') or (leaf.type in _STAND_ALONE and after not in _AFTER_A_WORD):
                self.doubt("it has a sign that cannot be understood here")
            self._check_comment(leaf)
        if not _GAP.fullmatch(self.data, end):
            self.doubt("between its words is something that is not a blank")

    def _check_comment(self, leaf: Node) -> None:
        start, before = leaf.start_byte, self.data[leaf.start_byte - 1 : leaf.start_byte]
        may_begin = before in _BEFORE_A_WORD and self.data[start - 2 : start - 1] != b"\\"  # nothing is in every text
        if leaf.type in ("comment", "raw_string", "ansi_c_string"):
            self.literal.append((start, leaf.end_byte))
        if leaf.type == "comment" and not may_begin:
            self.doubt("where a comment begins is not clear")
        if leaf.type == "word" and self.data[start : start + 1] == b"#" and before in _BEFORE_A_WORD:
            self.doubt("where a comment begins is not clear")

    def _check_openers(self) -> None:
        """Whatever looks like a substitution was read as one, or stands where nothing is expanded."""
        literal = sorted(self.literal)
        at, until = 0, -1
        for match in _OPENERS.finditer(self.data):
            start = match.start()
            while at < len(literal) and literal[at][0] <= start:
                until = max(until, literal[at][1])
                at += 1
            if start < until or start in self.accounted or start in self.words.accounted:
                continue
            if _backslashes_before(self.data, start) % 2 == 0:
                self.doubt("it has a substitution that cannot be understood")


def _quotes_command(word: ShellWord) -> bool:
    """Whether a word has a part of an array whose number is a command: `a[$(b)]`."""
    return "[" in (word.text or "") and _QUOTED_SUBSTITUTION.search(word.text or "") is not None


def _runs_in_test(words: list[ShellWord]) -> bool:
    """Whether these words of a test, with its operators, could have it run something."""
    asks = any(word.text == "-v" for word in words) and any(word.text is None for word in words)
    return asks or any(map(_quotes_command, words))


def _backslashes_before(data: bytes, at: int) -> int:
    count = 0
    while count < min(at, 64) and data[at - count - 1] == 0x5C:
        count += 1
    return count


def _leaves(root: Node) -> list[Node] | None:
    """The leaves of a tree in their order; None of a tree with more than `_MOST_NODES` nodes."""
    leaves: list[Node] = []
    cursor = root.walk()
    for _ in range(_MOST_NODES):
        if cursor.goto_first_child():
            continue
        if cursor.node is not None:
            leaves.append(cursor.node)
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return leaves
    return None


_WORDS: Final = word_set(
    "word string raw_string ansi_c_string translated_string number concatenation simple_expansion expansion "
    "arithmetic_expansion brace_expression extglob_pattern regex"
)


def _expressions(node: Node) -> Iterator[Node]:
    """The words and substitutions of a test."""
    waiting = list(node.named_children)
    while waiting:
        child = waiting.pop()
        if child.type in _WORDS or child.type.endswith("_substitution"):
            yield child
        else:
            waiting.extend(child.named_children)


def _ignore(reading: _Reading, node: Node, level: int) -> None:
    """A part that does nothing."""


_STATEMENTS: Final[dict[str, Callable[[_Reading, Node, int], None]]] = {
    "command": _Reading._command,
    "variable_assignment": _Reading._assignments,
    "variable_assignments": _Reading._assignments,
    "declaration_command": _Reading._declaration,
    "unset_command": _Reading._declaration,
    "test_command": _Reading._test,
    "for_statement": _Reading._for,
    "function_definition": _Reading._function,
    "comment": _ignore,
    "variable_name": _ignore,
}
