"""What installing costs: a package of a thousand files, against `unzip` and `cp`; a tree's digest, against `sha256sum`.

`python -m benchmarks.packages [rounds]`. The ways take turns in one run; read the ratios.
"""

from __future__ import annotations

import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures.goals import Goal, print_goals
from skillyard.packages import pack, tree_digest
from skillyard.registry import Registry

FILES = 1_000
LARGEST = 16_000  # bytes of one file
SHA256SUM = "find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum"


def tree(folder: Path) -> Path:
    """A skill of a thousand files: half words, half noise."""
    chance = random.Random(1)
    (folder / "SKILL.md").parent.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: large\ndescription: Large. Use when measuring.\n---\nDo it.\n")
    for number in range(FILES - 1):
        path = folder / f"references/part-{number % 20:02}/file-{number:04}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        size = chance.randrange(100, LARGEST)
        path.write_bytes(chance.randbytes(size) if number % 2 else (b"some words of a reference, again " * 600)[:size])
    return folder


def installed(archive: Path, folder: Path) -> Callable[[], object]:
    """Install into a home that is new but for its records."""
    small = folder / "small/SKILL.md"
    small.parent.mkdir(parents=True)
    small.write_text("---\nname: small\ndescription: Small. Use when measuring.\n---\n")
    registry = Registry(str(folder / "home"))
    registry.install(str(small.parent))
    return lambda: registry.install(str(archive))


def unzipped(archive: Path, folder: Path) -> Callable[[], object]:
    """What a person would do by hand."""
    folder.mkdir()
    command = f"unzip -q {archive} -d {folder}/unpacked && cp -r {folder}/unpacked {folder}/installed"
    return lambda: subprocess.run(command, shell=True, check=True)


def timed(work: Callable[[], object]) -> float:
    """Milliseconds."""
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def main(rounds: int) -> None:
    """Measure and print."""
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="skillyard-bench-") as scratch:
        work = Path(scratch)
        source = tree(work / "large")
        archive = pack(source, work / "large.zip").path
        by_hand = shutil.which("unzip") is not None
        for number in range(rounds):
            ways = {
                "install": installed(archive, work / f"ours-{number}"),
                "digest": lambda: tree_digest(source),
                "sha256sum": lambda: subprocess.run(SHA256SUM, shell=True, check=True, cwd=source, capture_output=True),
            }
            if by_hand:
                ways["unzip + cp"] = unzipped(archive, work / f"theirs-{number}")
            for name in random.sample(list(ways), len(ways)):
                times.setdefault(name, []).append(timed(ways[name]))
    middle = {name: statistics.median(taken) for name, taken in times.items()}
    print(f"{'way':12} {'median ms':>10} {'best ms':>10}")
    for name in ("unzip + cp", "install", "sha256sum", "digest"):
        if name in middle:
            print(f"{name:12} {middle[name]:10.1f} {min(times[name]):10.1f}")
    against_hand = middle["install"] / middle["unzip + cp"] if by_hand else None
    speed = middle["sha256sum"] / middle["digest"]
    print_goals([
        Goal("install of 1,000 files, against unzip and cp", against_hand, 3, " x"),
        Goal("digest of 1,000 files, speed against sha256sum", speed, 0.7, " x", at_least=True),
    ])  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
