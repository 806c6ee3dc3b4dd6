"""Draw `docs/images/session.svg`: a real terminal session on the example skills, as the README shows it (`make docs`)."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/images/session.svg"
COLUMNS = 104
SESSION = (
    ("list", "--root", "examples/skills"),
    ("search", "how long does it take to read", "--root", "examples/skills"),
    ("run", "text-statistics", "--root", "examples/skills", "--input", '{"text": "One fish. Two fish."}'),
)
# No web fonts and no window buttons: a picture that needs nothing from anywhere.
_FORMAT = """<svg class="rich-terminal" viewBox="0 0 {terminal_width} {terminal_height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px; line-height: {line_height}px;
}}
{styles}
</style>
<defs>{lines}</defs>
<rect width="{terminal_width}" height="{terminal_height}" rx="10" fill="#15181c"/>
<g transform="translate(12, 10)">{backgrounds}<g class="{unique_id}-matrix" xml:space="preserve">{matrix}</g></g>
</svg>
"""


def printed(words: tuple[str, ...]) -> str:
    """What `skillyard WORDS` prints on a terminal."""
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
        os.execv(sys.executable, [sys.executable, "-m", "skillyard", *words])  # noqa: S606 - our own command
    output = b""
    try:
        while data := os.read(terminal, 65_536):
            output += data
    except OSError:  # how Linux says that the other side has closed
        pass
    os.waitpid(child, 0)
    return output.decode()


def main() -> None:
    """Run the session in a private home and write the picture."""
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(HOME=home, SKILLYARD_HOME=home, TERM="xterm-256color")
        os.environ.pop("NO_COLOR", None)
        console = Console(record=True, width=COLUMNS, file=io.StringIO(), color_system="truecolor")
        for words in SESSION:
            command = " ".join(f"'{word}'" if " " in word else word for word in words)
            console.print(Text(f"$ skillyard {command}", style="bold bright_blue"), no_wrap=True)
            console.print(Text.from_ansi(printed(words).replace("\r", "")), no_wrap=True)
            console.print()
        PICTURE.write_text(console.export_svg(code_format=_FORMAT, unique_id="session"), "utf-8")


if __name__ == "__main__":
    main()
