"""The Python of README and docs passes `mypy --strict`, as a reader's own program should."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```python([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_every_python_block_is_typed(tmp_path: Path) -> None:
    """All at once, with the options and the cache of the project, which `make check` has filled: then it takes a few seconds.

    The Chinese pages have the same blocks. mypy's gigabyte of memory ends with its process.
    """
    files = []
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for match in _BLOCK.finditer(text := page.read_text("utf-8")):
            if not match[1].startswith((" skill", " recipe")):
                name = re.sub(r"\W", "_", str(page.relative_to(ROOT)))
                files.append(tmp_path / f"{name}_{text.count(chr(10), 0, match.start()) + 1}.py")
                files[-1].write_text(match[2], "utf-8")
    assert len(files) > 40
    options = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    done = subprocess.run([sys.executable, "-m", "mypy", *options, *map(str, files)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
