"""The body's sections and code blocks, with the lines they are on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.document import CodeBlock, Section, parse_document
from skillyard.document.front_matter import read_body

BODY = """# Title

Intro.

## 描述 ##
Text.

```typescript
## not a heading
code();
```

### Deeper
~~~~
```
inner
```
~~~~
#### Too deep
##No space
## Last
```py
never closed"""


@pytest.mark.row("000-28")
def test_sections_and_code_blocks_are_found_with_their_lines() -> None:
    data = f"---\nname: a\ndescription: b\n---\n{BODY}".encode()
    document = parse_document(data, directory_name="a")
    assert document.body == BODY
    assert document.body_line == 5
    assert [(section.title, section.level, section.line) for section in document.sections] == [
        ("描述", 2, 9),
        ("Deeper", 3, 17),
        ("Last", 2, 25),
    ]
    assert document.code_blocks == (
        CodeBlock("typescript", "## not a heading\ncode();\n", 12),
        CodeBlock("", "```\ninner\n```\n", 18),
        CodeBlock("py", "never closed", 26),
    )
    lines = data.decode().split("\n")
    assert all(lines[block.line - 1].startswith(("```", "~~~")) for block in document.code_blocks)


def test_a_sections_text_reaches_to_the_next_heading() -> None:
    sections, _ = read_body("## A\n\none\n\n## B\r\n\r\ntwo\r\n")
    assert sections == (Section("A", 2, "one", 1), Section("B", 2, "two", 5))


@given(st.text(st.sampled_from(list("#` ~\nab\r")), max_size=80))
def test_no_body_makes_the_reader_fail(body: str) -> None:
    sections, blocks = read_body(body)
    lines = len(body.splitlines())
    assert all(1 <= part.line <= lines for part in (*sections, *blocks))


@pytest.mark.parametrize(
    "body",
    [
        "## x" + " " * 60_000 + "y",
        "## " + "# " * 30_000,
        "## x" + " #" * 30_000,
        "```" + " " * 60_000 + "`",
        "~~~" + " a" * 30_000,
        "````\n```\n" * 8_000,
        "".join("`" * length + "\n" for length in range(3, 350)),
    ],
)
def test_a_body_made_to_be_slow_is_read_at_once(body: str) -> None:
    sections, blocks = read_body(body)
    assert sections or blocks or "`" in body
