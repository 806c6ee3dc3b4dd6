"""Lines of shell as their simple commands, held against what Bash itself runs, and hostile text in bounded time."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from skillyard.permissions.command_line import CommandLine
from skillyard.permissions.shell_script import LONGEST_COMMAND, parse_shell
from skillyard.permissions.shell_words import ansi_c


def words_of(text):
    return [[word.text for word in command.words] for command in parse_shell(text).commands]


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("git status", [["git", "status"]]),
        ("g\"\"it 'pu'sh a\\ b", [["git", "push", "a b"]]),
        (r"$'\x67it' $'pu\163h' $'a\'b'", [["git", "push", "a'b"]]),
        ("a | b; c && d || e & f\ng", [[name] for name in "abcdefg"]),
        ("$(a) `b`", [["a"], ["b"], [None, None]]),
        ("diff <(a) >(b)", [["a"], ["b"], ["diff", None, None]]),
        ("if a; then b; elif c; then d; else e; fi", [[name] for name in "abcde"]),
        ("while a; do b; done; until c; do d; done", [[name] for name in "abcd"]),
        ("case $(a) in x) b ;; esac", [["a"], ["b"]]),
        ("echo `a \\`b\\``", [["b"], ["a", None], ["echo", None]]),
        ('echo "$(a "$(b)")"', [["b"], ["a", None], ["echo", None]]),
        ("cat <<'END'\n$(a) `b`; c\nEND\nd", [["cat"], ["d"]]),
        ("python - <<'END'\nprint(1)\nEND", [["python", "-"]]),
        ("cat <<-'END'\n\ta\n\tEND\nb", [["cat"], ["b"]]),
        ("cat <<END | a && b\n$x\nEND", [["cat"], ["a"], ["b"]]),
        ("<<<$(a) b", [["a"], ["b"]]),
        ("export A=`b`", [["b"], ["export"]]),
        ("[ -f $(a) ] && b", [["a"], ["[", None], ["b"]]),
        ("[[ $x == a* ]] && b", [["[[", None], ["b"]]),
        ("a # b; c\nd", [["a"], ["d"]]),
        ("echo a#b '#c' \\#d", [["echo", "a#b", "#c", "#d"]]),
        ("echo $((1 + 2)) ${x} ${x%.py} ${#x} *.c {a,b} ~", [["echo", None, None, None, None, None, None, None]]),
        ("find . -exec a {} \\;", [["find", ".", "-exec", "a", "{}", ";"]]),
        ("! a; time b", [["a"], ["time", "b"]]),
    ],
)
def test_a_line_is_read_as_its_simple_commands(text, commands):
    assert [words for words in words_of(text) if words] == commands
    assert parse_shell(text).unclear == ()


@pytest.mark.parametrize(
    "text",
    [
        "a 'b",
        "{ a",
        "a )",
        "f() { a; }",
        "function f { a; }",
        "(( x = 1 ))",
        "echo $((x))",
        "echo $[x]",
        "echo ${x:-$(a)}",
        "echo \"${x:-'$(a)'}\"",
        'echo "${x@P}"',
        "echo ${x[$(a)]}",
        "x[$(a)]=1",
        "cat <<END\n`a`\nEND",
        "cat <<END\n$(a)\nEND",
        "cat <<'A' <<'B'\nx\nA\ny\nB\n",
        "cat <<END\nno end",
        "a\rb",
        "a\0b",
        "a \u202eb",
        "a\u00a0b",
        "if",
        "[[ $x -eq 1 ]]",
        "test -v 'a[$(b)]'",
        "x='a[$(b)]'",
        'echo $"a"',
        "a\\",
        "\ud800",
        "a" * (LONGEST_COMMAND + 1),
        "$(" * 300 + "a" + ")" * 300,
    ],
)
def test_what_the_shell_could_read_in_another_way_is_unclear(text):
    assert parse_shell(text).unclear


BASH = shutil.which("bash") or "bash"
RECORDED = 'command_not_found_handle() { printf "%s\\0" "$1" >&9; }; '
PIECES = [*"ab", " ", " ", ";", "|", "&", "\n", "'", '"', "\\", "$", "(", ")", "`", "{", "}", "<", "#", "=", "!", "~", "*",
          "$(", "<<E", "\nE\n", "<<<", "$'", "if ", "; then ", "; fi", "for x in ", "; do ", "; done", "${x", "-", "[[ ", " ]]",
          "case ", " in ", ";;", " esac", "((", "))", "\t"]  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@example(text="cat <<E\n`a`\nE")
@example(text="a\\ #b\nc")
@example(text="a #'\nb'")
@example(text="x=\\\n a")
@example(text="*x=")
@example(text="{}")
@example(text="!'a b'")
@example(text="]\\a")
@example(text="'a b'\"a\"$=")
@example(text=">& -!&>for x in a")
@example(text="a <<E - b\nE\nb")
@given(text=st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_bash_runs_no_command_that_a_clear_line_does_not_have(tmp_path_factory, text):
    tmp_path = tmp_path_factory.getbasetemp()
    script = parse_shell(text)
    if script.unclear:
        return
    record = tmp_path / "record"
    record.unlink(missing_ok=True)  # what an earlier line has left in the background writes to its own
    with record.open("wb") as written:
        try:
            subprocess.run(
                [BASH, "-c", f"exec 9>&1 >/dev/null\n{RECORDED}\n{text}"], stdin=subprocess.DEVNULL, stdout=written,
                stderr=subprocess.DEVNULL, env={"PATH": "/nowhere"}, cwd=tmp_path, timeout=20, check=False,
            )  # fmt: skip
        except ValueError:  # a byte no program can be given
            return
    names = [command.words[0].text for command in script.commands if command.words]
    for ran in record.read_text(errors="replace").split("\0")[:-1]:
        assert ran in names or None in names, (text, ran, names)


@pytest.mark.parametrize(
    "piece",
    [
        "a|",
        "a=(",
        "f()",
        "$[",
        "${",
        "<<a ",
        "$(",
        "`",
        "((",
        "{",
        "[[ a =~ ",
        "a;",
        "a\n",
        "case a in ",
        '"$(',
        "'",
        "\\",
        "a=b ",
        "<(",
    ],
)
def test_hostile_text_is_given_up_and_never_called_clear(piece):
    line = CommandLine.parse(piece * (LONGEST_COMMAND // len(piece)))
    assert line.unclear or piece in ("a\n", "a;", "a=b ", "'", "\\")


@given(text=st.text(max_size=60))
@example(text="t\u00b82\b{\U000f65a8\U000eed63\u00c2k:\U000d6963")  # ended the process inside the grammar's scanner
def test_any_text_is_read(text):
    parse_shell(text)
    ansi_c(text)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("é=1 rm x", ["é=1"]),
        ("a=1 größe x", ["größe"]),
        ("echo 文件 | grep 模式; ls", ["echo", "grep", "ls"]),
        ("cd 'été' && rm -rf été", ["cd", "rm"]),
    ],
)
def test_letters_of_every_script_are_parts_of_words_and_not_of_names(line, names):
    script = parse_shell(line)
    assert [command.words[0].text for command in script.commands] == names
    assert not script.unclear
