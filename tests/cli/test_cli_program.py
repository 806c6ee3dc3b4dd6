"""The frame: dispatch, help, errors, exit codes, streams."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import preloaded
import pytest

from skillyard import Catalog
from skillyard.cli.commands import show_commands as list_command
from skillyard.cli.program import COMMANDS, GROUPS

Call = Callable[..., Any]


def test_no_command_shows_the_overview_and_is_wrong_usage(call: Call) -> None:
    answer = call()
    assert answer.code == 2
    assert answer.out == ""
    assert all(f"\n  {name} " in answer.err for name in COMMANDS)


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("help",), ("--json", "--help")])
def test_help_lists_every_command_with_its_sentence(call: Call, arguments: tuple[str, ...]) -> None:
    answer = call(*arguments)
    assert answer.code == 0
    words = " ".join(answer.out.split())
    assert all(command.help in words for command in COMMANDS.values())
    assert all(f"{group}:" in answer.out for group in GROUPS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_and_takes_the_common_options(call: Call, name: str) -> None:
    answer = call(name, "--help")
    assert answer.code == 0
    assert answer.out.startswith(f"usage: skillyard {name}")
    assert all(
        option in answer.out for option in ("--root PATH", "--project DIR", "--json", "--no-cache", "--no-color", "--quiet")
    )
    assert call("help", name).out == answer.out


def test_every_command_has_a_module_with_its_two_functions() -> None:
    assert len(COMMANDS) > 40
    for name, command in COMMANDS.items():
        module = importlib.import_module(f"skillyard.cli.commands.{command.module}_commands")
        function = command.function or name
        assert callable(getattr(module, f"add_{function}_arguments"))
        assert callable(getattr(module, f"{function}_command"))


def test_the_version_is_reported(call: Call) -> None:
    from skillyard import __version__

    assert call("--version").out == f"skillyard {__version__}\n"


def test_an_unknown_command_gets_the_nearest_one(call: Call) -> None:
    answer = call("serch", "pdf")
    assert answer.code == 2
    assert answer.err == "error: there is no command 'serch'\nhint: did you mean `skillyard search`?\n"


def test_an_unknown_option_points_to_the_help(call: Call) -> None:
    answer = call("list", "--recursive")
    assert answer.code == 2
    assert answer.err == "error: unrecognized arguments: --recursive\nhint: see `skillyard list --help`\n"


def test_options_are_never_guessed_from_their_beginning(call: Call) -> None:
    assert call("list", "--js").code == 2


def test_common_options_may_stand_before_the_command(call: Call, examples: Path, skills_root: Path) -> None:
    before = call("--root", examples, "--json", "list", "--root", skills_root)
    after = call("list", "--root", examples, "--root", skills_root, "--json")
    assert before.code == 0
    assert before.out == after.out
    assert [root["path"] for root in before.data["roots"]] == [str(examples), str(skills_root)]


def test_an_error_is_two_lines_and_with_json_also_data(call: Call, examples: Path) -> None:
    answer = call("show", "pdf-minor", "--root", examples, "--json")
    assert answer.code == 1
    error = answer.data["error"]
    assert error["code"] == "skill_not_found"
    assert answer.err == f"error: {error['message']}\nhint: {error['hint']}\n"
    assert "pdf-miner" in error["hint"]


def test_a_defect_is_reported_without_a_traceback(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_command, "open_catalog", lambda arguments: 1 // 0)
    answer = call("list", "--json")
    assert answer.code == 1
    assert answer.data["error"]["code"] == "internal_error"
    assert "ZeroDivisionError" in answer.data["error"]["message"]
    assert "SKILLYARD_DEBUG=1" in answer.err


@pytest.mark.parametrize(
    ("error", "told", "helps"),
    [
        (RuntimeError("can't start new thread"), "can't start new thread", "ulimit -u"),
        (MemoryError(), "Cannot allocate memory", "too little memory"),
        (OSError(24, "Too many open files"), "Too many open files", "ulimit -n"),
    ],
)
def test_a_limit_of_the_machine_is_no_defect(
    call: Call, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str, helps: str
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(list_command, "list_command", fail)
    answer = call("list")
    assert answer.code == 1
    assert answer.err.startswith(f"error: {told}\nhint: ")
    assert helps in answer.err


def test_the_debug_variable_shows_where_a_defect_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from skillyard.cli import main

    monkeypatch.setattr(list_command, "open_catalog", lambda arguments: 1 // 0)
    monkeypatch.setenv("SKILLYARD_DEBUG", "1")
    assert main(["list"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_trouble_with_the_system_names_the_path(call: Call, examples: Path, tmp_path: Path) -> None:
    answer = call("read", "pdf-miner", "--root", examples, "--output", tmp_path / "missing" / "file", "--json")
    assert answer.code == 1
    assert answer.data["error"]["code"] == "system_error"
    assert str(tmp_path / "missing" / "file") in answer.data["error"]["message"]


@pytest.mark.parametrize("command", ["list", "check", "doctor", "run"])
def test_a_current_folder_that_was_deleted_is_named(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    result = call(command, *(["pdf"] if command == "run" else []))
    assert result.code == 1
    assert "the current folder no longer exists" in result.out + result.err


def test_ctrl_c_ends_quietly(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(list_command, "open_catalog", interrupted)
    answer = call("list")
    assert (answer.code, answer.out, answer.err) == (130, "", "")


def test_a_reader_that_goes_away_ends_it_quietly(examples: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "skillyard", "list", "--json", "--root", str(examples)]
    with os.fdopen(writing, "wb") as gone:
        done = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 141
    assert done.stderr == b""


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a pipe is set")
def test_a_stream_that_does_not_wait_for_its_reader_loses_nothing(process: Call) -> None:
    import fcntl

    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)  # less than the help
    os.set_blocking(write, False)
    with subprocess.Popen([sys.executable, "-m", "skillyard", "--help"], stdout=write, stderr=subprocess.PIPE) as started:
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as file:
            out = file.read()
        assert started.wait() == 0
    assert out == process("--help").stdout


def test_a_run_ends_where_the_parent_ignores_the_ends_of_children(examples: Path) -> None:
    ignoring = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.executable, sys.argv[1:])"
    words = ("run", "text-statistics", "--root", str(examples), "--input", '{"text": "One."}', "--timeout", "20s", "--json")
    command = [sys.executable, "-c", ignoring, sys.executable, "-m", "skillyard", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    run = json.loads(done.stdout)
    assert (run["status"], run["isolation"] in {"bwrap", "landlock"}) == ("ok", True)


def test_text_that_a_stream_cannot_encode_becomes_question_marks(process: Call, examples: Path) -> None:
    done = process("show", "weather-query", "--root", examples, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "??" in done.stdout


def test_help_imports_nothing_but_the_frame() -> None:
    loaded = _modules("--help")
    assert not {"rich", "yaml", "asyncio", "subprocess", "mcp", "pydantic"} & loaded
    assert not any(name.startswith(("skillyard.catalog", "skillyard.document", "skillyard.cli.commands.")) for name in loaded)


def test_a_list_for_programs_imports_only_what_it_needs(skills_root: Path, make_skill: Call) -> None:
    make_skill(skills_root, "plain")
    loaded = _modules("list", "--json", "--root", str(skills_root))
    assert (
        not {"rich", "yaml", "asyncio", "subprocess", "mcp", "pydantic", "jsonschema_rs", "watchfiles", "platformdirs"} & loaded
    )
    assert [name for name in loaded if name.startswith("skillyard.cli.commands.")] == ["skillyard.cli.commands.show_commands"]


def test_a_run_imports_nothing_of_events_commands_search_and_keys(examples: Path) -> None:
    command = ("run", "text-statistics", "--input", '{"text": "One fish."}', "--root", str(examples), "--quiet")
    preloaded.run([sys.executable, "-m", "skillyard", *command], check=True, capture_output=True)  # makes the database
    loaded = _modules(*command)
    assert "skillyard.engine.local_engine" in loaded
    assert (
        not {"skillyard.engine.events", "skillyard.permissions.command_policy", "skillyard.search", "skillyard.access"} & loaded
    )
    assert (
        not {
            "skillyard.database.registry_tables",
            "skillyard.environments.locked_packages",
            "skillyard.sandbox.session_preparation",
        }
        & loaded
    )


def test_a_search_of_unchanged_skills_imports_nothing_that_reads_them(skills_root: Path, make_skill: Call) -> None:
    file = make_skill(skills_root, "plain") / "SKILL.md"
    os.utime(file, ns=(10**18, 10**18))
    Catalog.discover(roots=[skills_root])
    loaded = _modules("search", "plain thing", "--root", str(skills_root))
    assert "skillyard.search.ranker" in loaded
    reading = {name for name in loaded if name.startswith(("skillyard.document.", "yaml"))}
    assert reading == {"skillyard.document.document_rules"}  # what a finding is


def test_what_is_known_of_a_skill_is_shown_without_the_rules_of_the_scanner(examples: Path) -> None:
    loaded = _modules("show", "text-statistics", "--root", str(examples))
    assert "skillyard.scanner.late_links" in loaded
    assert "skillyard.scanner.scanner_rules" not in loaded


def test_a_server_starts_without_the_rules_of_the_scanner_and_where_nothing_that_speaks_to_models_is_installed() -> None:
    script = (
        "import sys; sys.modules['pydantic_ai'] = None; import skillyard.server.application, skillyard.server.http_server; "
        "sys.exit('skillyard.scanner.scanner_rules' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_process_of_a_command_keeps_numpy_from_starting_threads(skills_root: Path, make_skill: Call) -> None:
    make_skill(skills_root, "plain")
    script = (
        "import os, sys; from skillyard.cli import program; "
        "os._exit = lambda code: print(len(os.listdir('/proc/self/task')), 'numpy' in sys.modules, file=sys.stderr); "
        f"sys.argv = ['skillyard', 'search', 'plain thing', '--root', {str(skills_root)!r}]; program.console()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "1 True"


def _modules(*arguments: str) -> set[str]:
    """The modules a call has imported when it is done."""
    script = (
        "import sys, io; from skillyard.cli import main; out, sys.stdout = sys.stdout, io.StringIO(); "
        f"main({list(arguments)!r}); out.write('\\n'.join(sys.modules))"
    )
    return set(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split())


def test_a_terminal_gets_colours_and_no_color_takes_them_away(on_terminal: Call, examples: Path) -> None:
    assert "\x1b[" in on_terminal("list", "--root", examples)[1]
    assert "\x1b[" in on_terminal("list", "--help")[1]
    assert "\x1b[" not in on_terminal("list", "--root", examples, "--no-color")[1]
    assert "\x1b[" not in on_terminal("list", "--root", examples, env={"NO_COLOR": "1"})[1]
    assert "\x1b[" not in on_terminal("list", "--help", env={"NO_COLOR": "1"})[1]


@pytest.mark.abuse("G11", "G12")
def test_what_a_skill_says_cannot_drive_the_terminal(on_terminal: Call, skills_root: Path, make_skill: Call) -> None:
    evil = 'name: evil\ndescription: "red \\e[31m bell \\a title \\e]0;owned\\a hidden \\u202e bidi"'
    make_skill(skills_root, "evil", front_matter=evil, body="# Body \x1b[2J\x1b]0;owned\x07\n")
    for command in (("list",), ("show", "evil"), ("read", "evil"), ("prompt",), ("list", "--json"), ("search", "red bell")):
        shown = on_terminal(*command, "--root", skills_root, "--no-color")[1]
        assert "red" in shown or "Body" in shown, command
        assert not {"\x1b", "\x07", "\u202e"} & set(shown), command


def _buffered() -> dict[str, str]:
    """The environment of most people, in which Python keeps what it writes to a pipe for a while."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def test_an_answer_comes_before_the_notes_on_it(examples: Path) -> None:
    command = [sys.executable, "-m", "skillyard", "list", "--root", str(examples)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, text=True, env=_buffered())
    assert done.stdout.splitlines()[0].startswith("NAME")
    assert done.stdout.splitlines()[-1] == "9 skills in 1 root: 9 ok"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["list", "show text-statistics", "run text-statistics --input -", "show nothing-like-it"])
def test_a_stream_that_is_closed_is_no_defect(examples: Path, command: str, closed: str) -> None:
    line = f"{sys.executable} -m skillyard {command} --root {examples} {closed}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, stdin=subprocess.DEVNULL, timeout=60, text=True)
    assert done.returncode == {"run": 2, "show nothing-like-it": 1}.get(command.removesuffix(" text-statistics --input -"), 0)
    assert "Traceback" not in done.stderr
    assert "defect" not in done.stderr


def test_a_full_disk_is_reported(examples: Path) -> None:
    command = [sys.executable, "-m", "skillyard", "list", "--root", str(examples)]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60, text=True, env=_buffered())
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, "error: No space left on device")


def test_the_package_itself_can_be_started(examples: Path) -> None:
    command = [sys.executable, "-m", "skillyard", "list", "--root", str(examples)]
    done = subprocess.run(command, capture_output=True, timeout=60, text=True)
    assert (done.returncode, done.stdout[:4]) == (0, "NAME")


def test_the_help_of_a_terminal_has_the_words_of_the_page(on_terminal: Call) -> None:
    _, shown = on_terminal("--help")
    assert "find and read:" in shown
    assert "\x1b[1mwrite and check:" in shown
