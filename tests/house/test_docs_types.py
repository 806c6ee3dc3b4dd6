"""The Python of README and docs passes `mypy --strict`, as a reader's own program should."""

from __future__ import annotations

import re
from pathlib import Path

from mypy import api

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```python([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_every_python_block_is_typed(tmp_path: Path) -> None:
    """All at once, with the options and the cache of the project: a second call takes a few seconds.

    The Chinese pages have the same blocks.
    """
    files = []
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for match in _BLOCK.finditer(text := page.read_text("utf-8")):
            if not match[1].startswith((" skill", " recipe")):
                name = re.sub(r"\W", "_", str(page.relative_to(ROOT)))
                files.append(tmp_path / f"{name}_{text.count(chr(10), 0, match.start()) + 1}.py")
                files[-1].write_text(match[2], "utf-8")
    assert len(files) > 40
    found, problem, code = api.run(
        ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache"), *map(str, files)]
    )
    assert code == 0, found + problem
