"""JavaScript and TypeScript for an ordinary user: no root, no cgroups, and a node that lies in a private home."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator

import pytest
from ordinary_user import OrdinaryUser, ordinary_user

from skillyard.sandbox.runtimes import find_tools

PROGRAM = r"""
import asyncio, json, os
from pathlib import Path
from skillyard.sandbox import Job, Policy, backends

home = Path(os.environ["HOME"])
secret = home / "secret.txt"
secret.write_text("own-secret")
tree = home / "skill"
tree.mkdir()
(tree / "typed.ts").write_text('''
import fs from 'node:fs';
import { answer } from 'library';
const code = (error: any): string => error.code;
const attempt = (call: () => unknown): string => { try { call(); return "done"; } catch (error) { return code(error); } };
export const execute = (path: string): unknown => ({
  answer, read: attempt(() => fs.readFileSync(path)), write: attempt(() => fs.writeFileSync(path, 'x')),
  home: attempt(() => fs.readdirSync(path.replace('/secret.txt', ''))), chmod: attempt(() => fs.chmodSync(path, 0o777)),
});
''')
(tree / "plain.js").write_text("console.log(JSON.stringify(process.argv.length))")
(tree / "hog.cjs").write_text("const all = []; for (;;) all.push(Buffer.alloc(8 << 20, 1));")
library = {"library/package.json": b'{"main": "index.cjs"}', "library/index.cjs": b"exports.answer = 42;"}

async def main():
    report = {}
    for backend in backends()[:2]:
        assert backend.probe().ok, backend.probe().reason
        async def run(entry, **policy):
            request = json.dumps({"input": str(secret)}).encode()
            return await backend.run(Job(str(tree), entry, request, Policy(timeout_ms=20_000, **policy), library=library))
        typed = await run("typed.ts")
        report[backend.name] = {
            "typed": typed.value, "stderr": typed.stderr.decode(), "program": typed.interpreter,
            "plain": (await run("plain.js")).stdout.decode().strip(),
            "hog": (await run("hog.cjs", memory_mb=96)).status,
            "secret": secret.read_text(),
        }
    print(json.dumps(report))

asyncio.run(main())
"""


@pytest.fixture
def user() -> Iterator[OrdinaryUser]:
    """A user with a private home and a node in it."""
    with ordinary_user(61_237) as user:
        (user.home / "bin").mkdir()
        node = find_tools(".ts", as_other=False).program
        try:
            os.link(node, user.home / "bin/node")
        except OSError:
            shutil.copy(node, user.home / "bin/node")
        for path in (user.home, user.home / "bin"):
            path.chmod(0o700)
            user.owns(path)
        yield user


@pytest.mark.row("C-28", "000-20")
@pytest.mark.abuse("A1", "C2", on="bwrap, landlock")
def test_node_in_a_private_home_runs_skills_and_reaches_nothing_else_there(user: OrdinaryUser) -> None:
    report = json.loads(user.run("-c", PROGRAM, path=f"{user.home}/bin:/usr/bin:/bin"))
    assert set(report) == {"bwrap", "landlock"}
    for found in report.values():
        assert found["typed"] is not None, found["stderr"]
        assert found["typed"].pop("answer") == 42
        assert set(found["typed"].values()) <= {"ENOENT", "EACCES", "EPERM", "EROFS"}
        assert found["program"].endswith("/node")
        assert (found["plain"], found["hog"], found["secret"]) == ("2", "memory", "own-secret")
