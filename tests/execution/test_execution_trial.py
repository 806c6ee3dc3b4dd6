"""Trying a skill out: its test scripts, its examples and its evals."""

from __future__ import annotations

import json

import pytest

from skillyard.execution import Executor, TrialReport, try_skill
from skillyard.execution.trial import differences

ECHO = """
def execute(p, context):
    if p.get("bad"):
        raise ValueError("bad input")
    return {"got": p, "user": context.get("userId")}
"""


async def _try(write_skill, files: dict[str, str], *, declared: object = None, **fields: object) -> TrialReport:
    skill = write_skill({"scripts/execute.py": ECHO, **files}, **fields)
    return await try_skill(skill, Executor(), name="example", declared=declared)


def _reported(report: TrialReport) -> dict[str, str]:
    return {trial.name: trial.message for trial in report.trials}


@pytest.mark.row("000-5")
async def test_scripts_pass_with_exit_code_zero_in_every_language(write_skill) -> None:
    files = {
        "tests/a.py": "import sys; sys.path += ['scripts']\nfrom execute import execute\nassert execute({}, {})['got'] == {}",
        "tests/b.sh": "test -f scripts/execute.py",
        "tests/c.js": "require('node:assert').equal(require('node:fs').existsSync('scripts/execute.py'), true);",
        "tests/d.ts": "const one: number = 1;\nif (one !== 1) throw new Error('no');",
        "tests/_part.py": "raise SystemExit(1)",
        "tests/conftest.py": "raise SystemExit(1)",
        "tests/notes.md": "no script",
    }
    report = await _try(write_skill, files)
    assert _reported(report) == dict.fromkeys(("tests/a.py", "tests/b.sh", "tests/c.js", "tests/d.ts"), "")
    assert report.ok


async def test_a_script_that_fails_shows_why(write_skill) -> None:
    files = {
        "tests/a.py": "print('so far so good')\nassert 1 == 2, 'one is not two'",
        "tests/b.sh": "exit 3",
        "tests/c.mjs": "throw new RangeError('far');",
    }
    report = await _try(write_skill, files)
    assert [trial.passed for trial in report.trials] == [False, False, False]
    assert "AssertionError: one is not two" in report.trials[0].message
    assert report.trials[0].log.startswith("so far so good")
    assert "exit code 3" in report.trials[1].message
    assert "RangeError: far" in report.trials[2].message


async def test_a_script_cannot_touch_the_skill_or_the_network(write_skill) -> None:
    source = "import socket\ntry:\n    open('scripts/execute.py', 'a'); raise SystemExit(1)\nexcept OSError: pass\n"
    source += "try:\n    socket.socket(); raise SystemExit(2)\nexcept OSError: pass\n"
    assert (await _try(write_skill, {"tests/a.py": source})).ok


async def test_a_skill_that_runs_alone_still_has_its_tests(write_skill) -> None:
    report = await _try(write_skill, {"tests/a.sh": "test -f scripts/execute.py"}, security={"filesystem": "none"})
    assert report.ok, _reported(report)


async def test_tests_that_nothing_calls_do_not_pass(write_skill) -> None:
    functions = '"""Tests."""\nimport math\ndef test_pi():\n    assert math.pi == 3\n'
    report = await _try(write_skill, {"tests/a.py": functions, "tests/b.py": functions + "test_pi()\n"})
    assert "nothing calls" in report.trials[0].message
    assert "AssertionError" in report.trials[1].message


async def test_examples_are_run_and_compared(write_skill) -> None:
    examples = [
        {"name": "same", "input": {"n": 1}, "context": {"userId": "ada"}, "output": {"got": {"n": 1}, "user": "ada"}},
        {"name": "less is fine", "input": {"n": [1, {"a": 2, "b": 3}]}, "output": {"got": {"n": [1, {"a": 2}]}}},
        {"name": "other", "input": {"n": 1}, "output": {"got": {"n": 2, "m": 0}}},
        {"name": "wanted to fail", "input": {}, "error": True},
        {"name": "fails", "input": {"bad": True}, "error": "SANDBOX_EXECUTION_ERROR"},
        {"name": "fails otherwise", "input": {"bad": True}, "error": "VALIDATION_FAILED"},
        {"name": "fails unasked", "input": {"bad": True}, "output": {}},
        {"name": "half", "input": {}},
        "no object",
    ]
    reported = _reported(await _try(write_skill, {"tests/examples.json": json.dumps(examples)}))
    assert {reported[name] for name in ("same", "less is fine", "fails")} == {""}
    assert reported["other"] == "output.got.n is 1, expected 2; output.got.m is missing"
    assert reported["wanted to fail"].startswith("an error was expected")
    assert "VALIDATION_FAILED was expected, not SANDBOX_EXECUTION_ERROR" in reported["fails otherwise"]
    assert "ValueError: bad input" in reported["fails unasked"]
    assert reported["tests/examples.json #8"] == "it must have either the expected `output` or the expected `error`"
    assert reported["tests/examples.json #9"] == "it has no `input` object"


async def test_declared_examples_run_and_mere_texts_are_only_noted(write_skill) -> None:
    declared = [{"input": {"n": 1}, "output": {"got": {"n": 1}}}, "ask for the weather"]
    report = await _try(write_skill, {}, declared=declared)
    assert (_reported(report), report.ok) == ({"examples #1": ""}, True)
    assert report.notes == ("examples #2 was not run: it has no `input` object",)


@pytest.mark.parametrize("text", ["{", '{"examples": 1}', "3"])
async def test_an_examples_file_that_cannot_be_read_is_a_failure(write_skill, text: str) -> None:
    report = await _try(write_skill, {"tests/examples.json": text})
    assert [(trial.name, trial.passed) for trial in report.trials] == [("tests/examples.json", False)]


@pytest.mark.parametrize(
    ("expected", "actual", "found"),
    [
        (1, 1.0, []),
        (1, True, ["output is true, expected 1"]),
        ([1], [1, 2], ["output is [1, 2], expected [1]"]),
        ([{"a": [1]}], [{"a": [2]}], ["output[0].a[0] is 2, expected 1"]),
        (None, {}, ["output is {}, expected null"]),
    ],
)
def test_differences_name_their_place(expected: object, actual: object, found: list[str]) -> None:
    assert differences(expected, actual) == found


async def test_evals_are_checked_without_a_model(write_skill) -> None:
    evals = {
        "skill_name": "other",
        "evals": [
            {"id": 1, "prompt": "Do it.", "expected_output": "It is done.", "files": ["evals/files/a.csv"]},
            {"id": 1, "prompt": "", "files": ["../secret", "nowhere.txt", 3], "assertions": "none"},
            "text",
        ],
    }
    files = {"evals/evals.json": json.dumps(evals), "evals/files/a.csv": "a"}
    report = await _try(write_skill, files)
    assert [trial.kind for trial in report.trials] == ["eval"] * 4
    messages = [trial.message for trial in report.trials]
    assert messages[0] == "skill_name is 'other', the skill is 'example'"
    assert messages[1] == ""
    for part in ("no prompt", "must be a list", "leaves the skill", "'nowhere.txt'", "3 is not a path", "used twice"):
        assert part in messages[2]
    assert messages[3] == "it is not an object"


async def test_nothing_to_try_is_not_fine(write_skill) -> None:
    report = await _try(write_skill, {})
    assert (report.trials, report.ok) == ((), False)
    assert report.to_dict() == {"ok": False, "skill_id": "user:example", "passed": 0, "failed": 0, "trials": [], "notes": []}


async def test_tests_written_for_jest_run_in_the_sandbox(write_skill) -> None:
    good = """
    import { Color, paint } from '../scripts/execute';
    import { ten } from './helper';
    describe('paint', () => {
      let colour: Color;
      beforeEach(() => { colour = Color.Red; });
      it('paints', () => { expect(paint(colour)).toEqual({ colour: 'red', coats: 1 }); });
      test.each([[1, 11], [2, 12]])('adds %d', (a: number, b: number) => expect(a + ten).toBe(b));
      it('is refused', async () => { await expect(Promise.reject(new Error('no'))).rejects.toThrow(/n/); });
      it('calls', () => {
        const told = jest.fn().mockReturnValue(3);
        expect(told(1, 'two')).toBe(3);
        expect(told).toHaveBeenCalledWith(1, expect.any(String));
        expect({ a: 1, b: undefined }).toEqual({ a: 1 });
        expect(() => { throw new TypeError('bad'); }).toThrow(TypeError);
        expect([1, 2]).not.toContain(3);
      });
    });
    """
    bad = "import { expect, it } from '@jest/globals';\nit('fails', () => expect({ a: 1 }).toStrictEqual({ a: 2 }));"
    skill = write_skill(
        {
            "scripts/execute.ts": "export enum Color { Red = 'red' }\n"
            "export const paint = (colour: Color) => ({ colour, coats: 1 });\nexport const execute = () => paint(Color.Red);",
            "tests/helper.ts": "export const ten: number = 10;",
            "tests/good.test.ts": good,
            "tests/bad.spec.ts": bad,
        }
    )
    report = await try_skill(skill, Executor(), name="example")
    assert [(trial.name, trial.passed) for trial in report.trials] == [
        ("tests/bad.spec.ts", False),
        ("tests/good.test.ts", True),
    ]
    assert "expect({ a: 1 }).toStrictEqual({ a: 2 })" in report.trials[0].log
