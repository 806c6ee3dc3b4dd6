"""Lists of commands that are allowed, asked about and denied: what they hold, and everything that tries to slip by."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.catalog import Configuration
from skillyard.errors import ApprovalRejected, InvalidInput
from skillyard.permissions import (
    SKILL_TOOL_NAMES,
    WORKSPACE_TOOL_NAMES,
    AllowedTools,
    ApprovalAnswer,
    Approvals,
    CommandGate,
    CommandPolicy,
    CommandRequest,
    CommandRules,
    check_tool_permissions,
    question_lines,
)

RULES = CommandRules(
    allow=["Bash(git:*)", "Bash(npm run test:*)", "Bash(python scripts/*)", "Bash(ls)", "Bash(head:*)", "Bash(find:*)",
           "Bash(./build.sh:*)", "Write(out/**)", "Read(src/**)"],
    ask=["Bash(git commit:*)"],
    deny=["Bash(rm:*)", "Bash(git push:*)", "Bash(curl:*)"],
)  # fmt: skip

ALLOWED = r"""
git status
git   log⇥--oneline
git log | head -5
git log && git diff; git show
(git status); { git diff; }
git log \⏎ --stat
/usr/bin/git status
'git' "log"
g""it log
git log --format='%h (%s); $(x)'
git log "a; b && c | d"
git log $range
git log 2>/dev/null
git log 2>&1 | head
git log > out/log.txt
git diff < src/a.txt
git log --grep "$(git rev-parse HEAD)"
diff=1; git log
LANG=C git log
env LANG=C git log
timeout 5 git log
timeout -k 1 --signal=KILL 5 git log
nohup git fetch &
nice -n 5 git log
time git log
command git log
git ls-files | xargs git log --
bash -c 'git log | head'
sh -c "git status"
eval "git status"
if git diff --quiet; then git log; else git status; fi
for f in a b; do git log $f; done
while git fetch; do git log; done
npm run test
npm run test -- -k x
python scripts/a.py
python scripts/a.py --x 1
ls
./build.sh all
./build.sh
find . -name '*.py'
find . -exec git log {} \;
git log # rm -rf /
! git diff
git log⏎git diff
"""

ASKED = r"""
git commit -m x
git -C /project commit
git log && git commit
git log > elsewhere
git log >> ../out/x
git diff < /etc/hosts
whoami
git log | whoami
git log; whoami
git log⏎whoami
git log & whoami
git $(whoami)
git `whoami`
git "$(whoami)"
git log <(whoami)
git log >(whoami)
gitk
./git log
/tmp/git log
../usr/bin/git log
~/bin/git log
$git log
${GIT} log
x=git; $x log
$(echo git) log
/usr/bin/g?t log
{git,log}
PATH=/tmp git log
GIT_SSH_COMMAND=x git fetch
LD_PRELOAD=x git log
env PATH=/tmp git log
env -S 'git log'
export PATH=/tmp
PATH=/tmp
sudo git log
doas git log
git() { whoami; }; git log
function git { whoami; }
alias git=whoami
f() { git log; }; f
bash script.sh
bash
bash -c "$x"
sh -c 'git log; whoami'
bash -c 'bash -c "bash -c whoami"'
eval "$x"
eval 'git log; whoami'
source x
. ./x
exec whoami
command whoami
builtin cd
nohup whoami
timeout 5 whoami
timeout --unknown 5 git log
xargs whoami
echo x | xargs -I{} whoami {}
find . -exec whoami {} +
find . -exec sh -c 'whoami' \;
npm run test:unit
npm run deploy
npm run
python scripts
python scripts/../evil.py
python evil.py scripts/a.py
python -c 'x' scripts/a.py
python -m scripts/a
python "$x"
ls -l
ls src
./build.sh/../x
build.sh
if whoami; then git log; fi
for f in $(whoami); do git log; done
case $(whoami) in x) git log;; esac
until whoami; do git log; done
git log || (whoami)
echo $((x))
(( x = 1 ))
git log 'unclosed
git log )
git ${x:-$(whoami)}
git "${x@P}"
git log <<END⏎$(whoami)⏎END
git log <<END⏎`whoami`⏎END
git log; git $[x]
coproc whoami
trap 'whoami' EXIT
[[ -f x ]]
git\ log
git⍽log
git log ⇠
git log␍whoami
"""

DENIED = r"""
rm x
rm
/bin/rm -rf /
./rm x
RM x
r""m x
r\m x
$'\x72m' x
$'\162\155' x
'rm' x
git log; rm x
git log && rm x
git log || rm x
git log | rm x
git log & rm x
git log⏎rm x
$(rm x)
`rm x`
git "$(rm x)"
git "`rm x`"
git log <(rm x)
(rm x)
{ rm x; }
! rm x
if true; then rm x; fi
for f in a; do rm $f; done
while rm x; do :; done
case x in x) rm x;; esac
f() { rm x; }; f
x=1 rm x
x=rm; $x y
x=rm⏎$x y
env rm x
env -i A=b rm x
env -u A rm x
env -S 'rm x'
sudo rm x
sudo -u root rm x
sudo -u root A=b rm x
doas rm x
nohup rm x
timeout 5 rm x
timeout -s KILL 5 rm x
timeout --odd 5 rm x
nice rm x
nice -n 5 rm x
stdbuf -oL rm x
setsid rm x
time rm x
time -p rm x
time x=1 rm y
coproc x=1 rm y
command rm x
command -p rm x
builtin rm x
exec rm x
exec -a git rm x
coproc rm x
busybox rm x
watch -n 1 rm x
xargs rm
xargs -0 -n 1 rm
echo x | xargs -I{} rm {}
find . -exec rm {} +
find . -name x -execdir /bin/rm {} \;
find . -exec sh -c 'rm "$1"' _ {} \;
bash -c 'rm x'
bash -lc "rm x"
bash -c "bash -c 'rm x'"
bash -e -c 'rm x'
bash -c -e 'rm x'
sh -c 'git log; rm x'
bash -c '"$@"' _ rm x
bash <<< 'rm x'
echo 'rm x' | bash
bash <<'END'⏎rm x⏎END
cat <<END⏎$(rm x)⏎END
cat <<END⏎`rm x`⏎END
eval rm x
eval 'r''m x'
eval "git log; rm x"
trap 'rm x' EXIT
su -c 'rm x'
alias git=rm
alias ls='rm x'
echo ${x:-$(rm y)}
echo "${x:-'$(rm y)'}"
echo $((a[$(rm x)]))
echo "${a[$(rm x)]}"
x[$(rm y)]=1
[ -f $(rm x) ]
git log 'unclosed; rm x
git log )) rm x
rm\⏎ x
r\⏎m x
git push
git push origin main
git -C /project push
git -c a=b -C x push --force
GIT_DIR=x git push
/usr/bin/git push
git log && timeout 5 git push
x=push; git $x
curl http://example.org
/usr/bin/curl x | git apply
"""


RUN_LATER = r"""
echo rm v | xargs env
echo rm v | xargs nice -n 5 env
echo rm v | xargs -n 9 timeout 5
echo rm | xargs -I% % v
echo rm | xargs -I % env % v
echo rm | xargs -i {} v
echo 'rm v' | xargs -I{} sh -c {}
echo 'rm v' | xargs -I{} sh -c 'echo; {}'
echo '. -exec rm {} +' | xargs find
echo 'rm v' | parallel
parallel ::: 'rm v'
find /bin/rm -exec {} v \;
find /bin/rm -exec env {} v \;
find /bin/rm -exec timeout 5 {} v \;
PS4='$(rm v)'; set -x; :
export PS4='$(rm v)'; set -x; :
export 'PS4=$(rm v)'; set -x; :
builtin export PS4='$(rm v)'; set -x
declare -x BASH_ENV=/dev/stdin; bash x <<< 'rm v'
env BASH_ENV=rm bash x
BASH_ENV=rm bash x
PROMPT_COMMAND='rm v'
read PS4 <<< '$(rm v)'; set -x; :
printf -v PS4 '$(rm v)'; set -x; :
printf -vPS4 '$(rm v)'; set -x; :
printf "$x" y '$(rm v)'
for PS4 in '$(rm v)'; do set -x; done
BASH_CMDS=([ls]=/bin/rm); ls v
mapfile -C 'rm v;:' -c 1 <<< a
readarray -tC 'rm v;:' -c 1 <<< a
compgen -C 'rm v'
compgen -W '$(rm v)'
complete -C 'rm v' x
hash -p /bin/rm ls; ls v
enable -f ./x.so rm
. /dev/stdin <<< 'rm v'
source x; rm
cat <<< 'rm v' > s.sh; . ./s.sh
command . rm
builtin source rm
bash /dev/stdin <<< 'rm v'
[ -v 'a[$(rm v)]' ]
[ -v "a[\$(rm v)]" ]
test -v 'a[$(rm v)]'
[[ -v 'a[$(rm v)]' ]]
read n <<< 'a[$(rm v)]'; [[ n -eq 1 ]]
read n <<< 'a[$(rm v)]'; [ -v $n ]
read n <<< 'a[$(rm v)]'; declare -i m=n
read n <<< 'a[$(rm v)]'; printf -v "$n" x
setpriv rm v
setpriv --reuid=1 rm v
setpriv --reuid 1 rm v
prlimit rm v
prlimit --nofile=5 rm v
linux32 rm v
linux64 rm v
setarch x86_64 rm v
setarch -R rm v
sg root -c 'rm v'
runuser -u root -- rm v
runuser -c 'rm v'
script -c 'rm v'
/lib64/ld-linux-x86-64.so.2 /bin/rm v
/lib/ld-musl-x86_64.so.1 --library-path x /bin/rm v
ionice -c 3 rm v
chrt -f 5 rm v
taskset 1 rm v
numactl -m 0 rm v
unshare -r rm v
unshare --root=x rm v
nsenter -t 1 rm v
flock x rm v
flock x -c 'rm v'
watch 'rm v'
watch ls ';rm v'
strace -f rm v
ltrace rm v
gdb --args rm v
gdb -ex 'shell rm v'
faketime '1 day ago' rm v
dbus-run-session -- rm v
systemd-run --pty rm v
chroot x rm v
catchsegv rm v
coproc rm v
coproc { rm v; }
coproc A { rm v; }
time { rm v; }
time ! rm v
trap 'rm v' EXIT
trap -- 'rm v' EXIT
timeout -s $x rm v
find . $x -name rm
"""


UNKNOWN = r"""
echo x | xargs env
echo x | xargs -I% % v
find x -exec {} v \;
PS4=$x
. ./s.sh
source s.sh
mapfile -C x a
complete -C x y
enable -f x y
hash -p /x ls
printf -v "$x" y
unset "$x"
export "$x"
declare -n r=x
setarch -R x
watch x
"""

KNOWN = r"""
echo x | xargs
echo x | xargs cat
find . -name x
find "$x" -name y
find . -exec cat {} \;
printf '%s' "$x"
printf "Total: $x"
printf -v name y
read -r line
read -p "a $x" line
x=1; export x
export A=$x
unset x
wait $x
mapfile -t rows < x
compgen -c
complete
[ -v x ]
[[ -v x ]]
[ -f "$x" ]
[ $x -eq 1 ]
trap - EXIT
"""


FILES = r"""
cat .env
git log .env
git show HEAD:x < .env
head ./a/.env
head --lines=1 --file=.env
head secrets/key
cd secrets && cat secrets/key
cat x > /etc/passwd
git log > /etc/cron.d/x
git log >> ../etc/passwd
"""

SIGNS = {"⏎": "\n", "⇥": "\t", "␍": "\r", "⍽": "\u00a0", "⇠": "\u202e"}


def lines(table):
    return [line.translate(str.maketrans(SIGNS)) for line in table.split("\n") if line]


def decide(command, rules=RULES):
    return CommandPolicy([("operator", rules)]).authorize("bash", command, "/project", root="/project")


@pytest.mark.parametrize("command", lines(ALLOWED))
def test_what_the_lists_allow_needs_no_question(command):
    assert decide(command).permission == "allow", decide(command).sentence


@pytest.mark.parametrize("command", lines(ASKED))
def test_what_is_not_listed_or_not_understood_is_asked_about(command):
    assert decide(command).permission == "ask", decide(command).sentence


@pytest.mark.parametrize("command", lines(DENIED))
def test_no_spelling_slips_past_a_rule_that_denies(command):
    assert decide(command).permission == "deny", decide(command).sentence


@pytest.mark.parametrize("command", lines(RUN_LATER))
def test_what_is_run_later_or_by_another_program_is_no_way_past_a_rule(command):
    assert decide(command, CommandRules(deny=["Bash(rm:*)"])).permission == "deny", decide(command).sentence
    assert not decide(command, CommandRules(allow=["Bash(git:*)"], ask=["Bash(nothing:*)"])).allowed


@pytest.mark.parametrize("command", lines(UNKNOWN))
def test_what_is_not_known_before_it_runs_is_asked_about_where_a_rule_denies_or_asks(command):
    assert decide(command, CommandRules(deny=["Bash(rm:*)"])).permission == "ask"
    assert decide(command, CommandRules(ask=["Bash(rm:*)"])).permission == "ask"


@pytest.mark.parametrize("command", lines(KNOWN))
def test_what_can_be_read_is_not_asked_about_for_a_rule_about_something_else(command):
    ruling = decide(command, CommandRules(deny=["Bash(rm:*)"]))
    assert ruling.allowed, ruling.sentence


SETS_PATH = r"""
printf -v PATH /b; ls
printf -vPATH /b; ls
read PATH <<< /b; ls
read -r -d x PATH <<< /b; ls
read -a PATH <<< /b; ls
mapfile PATH <<< /b; ls
readarray -t PATH <<< /b; ls
getopts a: PATH; ls
unset PATH; ls
wait -p PATH; ls
let PATH=1; ls
for PATH in /b; do ls; done
select PATH in /b; do ls; done
declare -n r=PATH; r=/b; ls
declare -n r; r=PATH; r=/b; ls
export 'PATH=/b'; ls
builtin export PATH=/b; ls
exec {PATH}>/dev/null; ls
read "$x" <<< /b; ls
"""


@pytest.mark.parametrize("command", lines(SETS_PATH))
def test_no_way_to_set_a_variable_changes_what_an_allowed_command_is(command):
    names = ("printf", "ls", "read", "mapfile", "readarray", "getopts", "unset", "wait", "let", "declare", "export", "exec")
    rules = CommandRules(allow=[f"Bash({name}:*)" for name in names], default="deny")
    assert decide(command, rules).permission == "deny"
    assert decide("read -r line; printf -v text a; ls", rules).allowed


@pytest.mark.parametrize("command", lines(FILES))
def test_a_rule_that_denies_a_file_holds_for_commands_that_name_it(command):
    rules = CommandRules(allow=["Bash"], deny=["Read(.env)", "Read(secrets/**)", "Write(/etc/**)"])
    assert decide(command, rules).permission == "deny", decide(command, rules).sentence


@given(
    command=st.sampled_from(["rm x", "git push"]),
    before=st.sampled_from(
        ["", "git log; ", "git log && ", "git log | ", "(", "if git log; then ", "timeout 5 ", "env -u A ", "echo $("]
    ),
    after=st.text(alphabet="ab'\"\\$;&|<>()`\n{}#= ", max_size=12),
)
def test_whatever_surrounds_it_a_denied_command_is_never_allowed(command, before, after):
    rules = CommandRules(allow=["Bash(git:*)", "Bash(echo:*)", "Bash(timeout:*)"], deny=["Bash(rm:*)", "Bash(git push:*)"])
    assert decide(f"{before}{command} {after}", rules).permission == "deny"


@given(text=st.text(max_size=40), tool=st.sampled_from(["bash", "file_read", "file_write", "WebFetch"]))
def test_every_call_gets_a_ruling_that_can_be_sent(text, tool):
    ruling = CommandPolicy([("operator", RULES), ("agent", CommandRules(default="ask"))]).authorize(
        tool, text, "/project", root="/project"
    )
    assert ruling.permission in ("ask", "deny")
    assert ruling.to_dict()["argument"] == text


def test_the_narrowest_level_wins_and_the_ruling_names_it():
    operator = CommandRules(allow=["Bash(git:*)", "Bash(ls:*)"], deny=["Bash(git push:*)"])
    agent = CommandRules(ask=["Bash(git commit:*)"])
    skill = AllowedTools(["Bash(git log:*)", "Bash(git commit:*)", "Bash(git push:*)"], mode="enforce")
    policy = CommandPolicy([("operator", operator), ("agent", agent)]).following(skill.command_rules())
    asked = {
        command: policy.authorize("bash", command, "/project", root="/project")
        for command in ("git log", "git commit", "git push", "ls")
    }
    assert {command: (ruling.permission, ruling.level, ruling.rule) for command, ruling in asked.items()} == {
        "git log": ("allow", "operator", "allow Bash(git:*)"),
        "git commit": ("ask", "agent", "ask Bash(git commit:*)"),
        "git push": ("deny", "operator", "deny Bash(git push:*)"),
        "ls": ("deny", "skill", None),
    }
    assert [decision.level for decision in asked["git log"].levels] == ["operator", "agent", "skill"]
    assert (
        policy.following(AllowedTools().command_rules()).authorize("bash", "ls", "/project", root="/project").permission
        == "allow"
    )


def test_a_question_shows_the_very_command_the_part_and_the_files_it_names():
    ruling = decide("git log src/a.py > out.txt && git commit -m 'x y' ./b")
    assert ruling.to_dict() == {
        "permission": "ask",
        "tool": "bash",
        "argument": "git log src/a.py > out.txt && git commit -m 'x y' ./b",
        "level": "operator",
        "rule": "ask Bash(git commit:*)",
        "reason": "this rule matches",
        "part": "git commit -m 'x y' ./b",
        "files": ["out.txt", "src/a.py", "./b"],
        "folder": "/project",
        "levels": [{"level": "operator", "ruling": {"permission": "ask", "rule": "ask Bash(git commit:*)",
                    "reason": "this rule matches", "part": "git commit -m 'x y' ./b"}}],
        "allowed": False,
    }  # fmt: skip
    assert ruling.sentence == "to be asked about by the operator's rule `ask Bash(git commit:*)`"


@pytest.mark.parametrize(
    ("tool", "argument", "permission"),
    [
        ("file_read", "src/a.py", "allow"),
        ("file_read", "/project/src/a.py", "allow"),
        ("file_read", "/elsewhere/src/a.py", "ask"),
        ("file_read", "src/../.env", "deny"),
        ("file_read", "/project/./.ENV", "deny"),
        ("file_read", "a/b/.env", "deny"),
        ("file_write", "out/a", "allow"),
        ("file_edit", "out/../src/a", "ask"),
        ("file_write", "out/release/a", "ask"),
        ("file_write", "src/a.py", "ask"),
        ("code_run", "print(1)", "ask"),
    ],
)
def test_files_are_decided_by_the_same_lists(tool, argument, permission):
    rules = CommandRules(allow=["Read(src/**)", "Edit(out/**)"], ask=["Write(out/release/**)"], deny=["Read(.env)"])
    assert CommandPolicy([("operator", rules)]).authorize(tool, argument, "/project", root="/project").permission == permission


def test_without_rules_everything_is_allowed_and_what_only_denies_leaves_the_rest():
    assert CommandPolicy().authorize("bash", "$x", "/", root="/").sentence == "allowed: no rule applies"
    denying = CommandPolicy([("operator", CommandRules(deny=["Bash(rm:*)"]))])
    assert [denying.authorize("bash", command, "/", root="/").permission for command in ("ls", "$x", "rm")] == [
        "allow",
        "ask",
        "deny",
    ]


@pytest.mark.parametrize(
    "settings",
    [{"allow": "Bash"}, {"allow": ["Bash("]}, {"allow": [1]}, {"default": "never"}, {"other": []}, {"deny": ["Bash"] * 501}],
)
def test_lists_that_cannot_be_meant_are_refused(settings):
    with pytest.raises(InvalidInput) as refused:
        CommandRules.of(settings)
    assert refused.value.hint


def test_a_configuration_an_agent_and_skills_make_one_policy():
    configuration = Configuration(command_rules={"deny": ["Bash(rm:*)"]}, project_command_rules={"ask": ["Bash(wget:*)"]})
    policy = CommandPolicy.of(configuration, agent={"default": "deny", "allow": ["Bash(wget:*)", "Bash(rm:*)"]})
    levels = [policy.authorize("bash", command, "/project", root="/project").level for command in ("rm x", "wget x", "ls")]
    assert levels == ["operator", "project", "agent"]


def test_rules_name_paths_from_the_root_of_the_workspace_wherever_a_command_works() -> None:
    rules = CommandRules(allow=["Write(out/**)", "Bash(cat:*)"], deny=["Read(secret/**)", "Write(secret/**)"])
    policy = CommandPolicy([("operator", rules)])

    def said(tool: str, argument: str, folder: str) -> str:
        return policy.authorize(tool, argument, folder, root="/project").permission

    assert said("file_write", "a.txt", "/project/out") == "allow"
    assert said("file_write", "out/a.txt", "/project/sub") == "ask", "that is sub/out"
    assert said("file_write", "a.txt", "/project/secret") == "deny"
    assert said("file_read", "key", "/project/secret") == "deny"
    assert said("bash", "cat key", "/project/secret") == "deny"
    assert said("bash", "cd ../secret && cat key", "/project/out") == "deny"
    assert said("bash", "cat x > a.txt", "/project/out") == "allow"
    assert said("bash", "cat x > out/a.txt", "/project/sub") == "ask"


@pytest.mark.parametrize(
    ("rules", "language", "said"),
    [
        (CommandRules(allow=["Bash(git:*)"]), "python", "ask"),
        (CommandRules(allow=["Bash(python3:*)"]), "python", "allow"),
        (CommandRules(allow=["Bash(python3:*)"]), "javascript", "ask"),
        (CommandRules(deny=["Bash(node:*)"]), "typescript", "deny"),
        (CommandRules(deny=["Bash"]), "python", "deny"),
        (CommandRules(allow=["code_run"], default="deny"), "python", "allow"),
        (CommandRules(deny=["Bash(rm:*)"]), "python", "ask"),
        (CommandRules(deny=["Bash(rm:*)"], allow=["code_run"]), "python", "allow"),
    ],
)
def test_code_is_judged_as_the_command_that_runs_it(rules: CommandRules, language: str, said: str) -> None:
    ruling = CommandPolicy([("operator", rules)]).authorize(
        "code_run", f"{language}\nprint(1) # git push; $(", "/project", root="/project"
    )
    assert ruling.permission == said, ruling


def test_a_tool_is_switched_by_its_name_alone() -> None:
    policy = CommandPolicy([("operator", CommandRules(deny=["Bash(rm:*)"]))], tools={"bash": "ask", "file_read": "allow"})
    assert policy.authorize("bash", "ls", "/", root="/").permission == "ask"
    assert policy.authorize("bash", "rm a", "/", root="/").level == "operator", "the narrowest wins"
    assert policy.authorize("file_read", "a", "/", root="/").permission == "allow"
    assert [policy.switch(name) for name in ("bash", "file_read", "skill")] == ["ask", "allow", "allow"]
    assert policy.following(CommandRules(deny=["Bash"])).authorize("bash", "ls", "/", root="/").level == "skill"
    assert [str(rule.rule) for rule in policy.listed() if rule.level == "agent"] == ["bash"]


@pytest.mark.parametrize("values", [{"Bash": "deny"}, {"bash": "never"}, {"bash": None}, {"": "ask"}])
def test_an_unknown_tool_or_permission_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="tool_permissions") as refused:
        check_tool_permissions(values)
    assert refused.value.hint


class _Answers:
    """Answers questions about commands in turn."""

    def __init__(self, *words: str) -> None:
        self.words, self.asked = list(words), list[CommandRequest]()

    async def ask(self, request: object) -> ApprovalAnswer:
        raise AssertionError("no skill is asked about")

    async def ask_command(self, request: CommandRequest) -> ApprovalAnswer:
        self.asked.append(request)
        return ApprovalAnswer.parse(self.words.pop(0), "not now")


async def test_a_gate_asks_about_the_very_call_and_an_answer_for_the_session_holds_for_that_alone() -> None:
    policy = CommandPolicy([("operator", CommandRules(ask=["Bash(rm:*)"], deny=["Bash(dd:*)"]))])
    answers = _Answers("session", "once", "reject", "once")
    approvals = Approvals(answers)
    gate = CommandGate(lambda: policy, approvals, lambda: "/project", "one", lambda: ("pdf",))
    assert (await gate.authorize("bash", "ls", folder="/project")).allowed
    assert (
        await gate.authorize("bash", "ls | dd of=x", folder="/project")
    ).reason == "denied by the operator's rule `deny Bash(dd:*)`"
    for _ in range(2):
        assert (await gate.authorize("bash", "rm a | cat", folder="/project")).allowed
    (asked,) = answers.asked
    assert (asked.argument, asked.part, asked.skills) == ("rm a | cat", "rm a", ("pdf",))
    assert question_lines(asked.to_dict())[:3] == ["Run a command in /project?", "  | rm a | cat", "  about     rm a"]
    assert (await gate.authorize("bash", "rm a | cat", folder="/project/sub")).allowed, "elsewhere it is another question"
    with pytest.raises(ApprovalRejected, match="not now"):
        await gate.authorize("bash", "rm b", folder="/project")
    other = CommandGate(lambda: policy, approvals, lambda: "/project", "two")
    assert (await other.authorize("bash", "rm a | cat", folder="/project")).allowed
    assert len(answers.asked) == 4
    nobody = CommandGate(lambda: policy, Approvals(), lambda: "/project")
    with pytest.raises(ApprovalRejected, match="nobody to ask"):
        await nobody.authorize("bash", "rm a", folder="/project")
    long = await gate.authorize("bash", f"rm a # {'x' * 30_000}", folder="/project")
    assert not long.allowed, "nobody can read that before they agree"


def test_the_names_of_tools_are_those_that_there_are() -> None:
    from skillyard.tools.tool_dispatch import TOOLS
    from skillyard.tools.workspace_tools import WORKSPACE_TOOLS
    from skillyard.workspace import Workspace

    assert (tuple(TOOLS), tuple(WORKSPACE_TOOLS)) == (SKILL_TOOL_NAMES, WORKSPACE_TOOL_NAMES)
    assert all(callable(getattr(Workspace, name)) for name in WORKSPACE_TOOL_NAMES)


def test_the_folder_that_paths_in_rules_start_from_is_never_assumed() -> None:
    with pytest.raises(TypeError, match="root"):
        CommandPolicy().authorize("file_read", "a", "/project")  # type: ignore[call-arg]


DESCRIPTORS = r"""
printf '/workspace\0x\n' >&250
echo x >&9
echo x >&3
echo x 3>&250
echo x >&3 3>f
true 3>f; echo x >&3
cat <&9
echo x >&$n
echo x > /dev/fd/250
echo x > //dev//fd/../fd/250
echo x > /proc/self/fd/250
echo x > /proc/$$/fd/250
echo x > /dev/tcp/127.0.0.1/80
cat < /dev/udp/127.0.0.1/80
tee /dev/fd/250
cd /dev/fd; echo x > 250
cd /proc/self && echo x > fd/250
exec 250>&-
"""

OPENED = r"""
echo x >&2
echo x 2>&1 >/dev/null
cat 3>&1 1>&2 2>&3
exec 3>f; echo x >&3
{ echo x >&3; } 3>f
exec 3<f; cat <&3; exec 3<&-
echo x > /dev/stdout
cat /dev/fd/0
cd dev && ls
"""


@pytest.mark.parametrize("command", lines(DESCRIPTORS))
def test_a_descriptor_that_the_line_did_not_open_is_unknown(command):
    assert decide(command, CommandRules(deny=["Bash(rm:*)"])).permission == "ask"
    assert decide(command, CommandRules(allow=["Bash(git:*)"], default="deny")).permission == "deny"


def test_no_path_is_known_where_devices_are():
    policy = CommandPolicy([("operator", CommandRules(deny=["Bash(rm:*)"]))])
    calls = [("echo x > fd/250", "/dev"), ("cd dev; echo x > fd/250", "/"), ("cd src; echo x > a", "/")]
    assert [policy.authorize("bash", *call, root="/").permission for call in calls] == ["ask", "ask", "allow"]


@pytest.mark.parametrize("command", lines(OPENED))
def test_a_descriptor_that_the_line_opens_is_known(command):
    ruling = decide(command, CommandRules(deny=["Bash(rm:*)"]))
    assert ruling.allowed, ruling.sentence


SECRETS = r"""
cat /proc/self/cwd/secret/key
cat < /proc/self/cwd/secret/key
cat /proc/1/root/project/secret/key
cat /proc/self/task/1/../cwd/../project/secret/key
env -C a cat ../secret/key
env --chdir=a cat ../secret/key
env --chdir a cat ../secret/key
env -C secret cat key
git -C secret show :key
make -C secret key
make -Csecret key
tar -C a -xf ../secret/key
tar --directory=secret -cf x key
command cd secret; cat key
"""

MAY_BE_SECRET = r"""
cat /proc/self/cwd/x
cat /proc/self/root/x
env -C "$x" cat key
chroot / cat project/x
CDPATH=/project; cd a; cat b
find -name key | xargs cat
find -type f -exec cat {} +
find . -name key | xargs -I{} cat {}
grep -r KEY
grep -rn --include=*.py KEY
grep --recursive KEY
grep -r -A 3 KEY
rg KEY
rg -A 3 KEY
rg -e KEY
rg --glob x KEY
git grep KEY
. ./x
"""

NOT_SECRET = r"""
cat public/key
git -C public show :key
env -C public cat key
grep -r KEY public
grep -rn -A 3 KEY public
grep KEY public/x
rg KEY public
rg -n -e KEY public
"""


@pytest.mark.parametrize("command", lines(SECRETS))
def test_no_way_round_leads_to_a_denied_file(command):
    rules = CommandRules(deny=["Read(secret/**)"])
    assert decide(command, rules).permission == "deny", decide(command, rules).sentence


@pytest.mark.parametrize("command", lines(MAY_BE_SECRET))
def test_a_command_that_may_meet_a_denied_file_is_asked_about(command):
    rules = CommandRules(deny=["Read(secret/**)"])
    assert decide(command, rules).permission == "ask"
    assert decide(command, CommandRules(allow=["Bash"], ask=["Read(secret/**)"])).permission == "ask"


@pytest.mark.parametrize("command", lines(NOT_SECRET))
def test_a_command_that_names_another_folder_is_not_asked_about(command):
    ruling = decide(command, CommandRules(deny=["Read(secret/**)"]))
    assert ruling.allowed, ruling.sentence


@pytest.mark.parametrize(
    ("tool", "path", "permission"),
    [
        ("file_search", ".", "ask"),
        ("file_search", "/project", "ask"),
        ("file_list", ".", "ask"),
        ("file_search", "secret", "deny"),
        ("file_search", "public", "allow"),
        ("file_list", "public", "allow"),
        ("file_read", "public", "allow"),
        ("file_read", "/proc/self/cwd/x", "deny"),
        ("file_search", "/proc/self/cwd", "deny"),
    ],
)
def test_a_search_of_a_folder_may_meet_what_is_denied_below_it(tool, path, permission):
    rules = CommandRules(allow=["Read"], deny=["Read(secret/**)"])
    ruling = CommandPolicy([("operator", rules)]).authorize(tool, path, "/project", root="/project")
    assert ruling.permission == permission, ruling.sentence


_OPAQUE = r"""
awk 'BEGIN{system("rm x")}'
awk '{print > "f"}' a
git -c alias.x='!rm y' x
git -c core.pager=x log
git --config-env=alias.x=Y x
git submodule foreach rm x
GIT_PAGER=x git log
export PAGER=x
EDITOR=x git commit
perl -e 'unlink 1'
python3.12 -c 'import os'
/usr/bin/python3 s.py
bash s.sh
./s.sh
scripts/tool --help
make -f-
npm run x
find . -delete
tar --to-command=x -xf a
tar --checkpoint-act=exec=x -cf a b
ssh -o ProxyCommand=x h
rsync -ex a b
vim -c '!rm y' a
sed e a
sed -n 's/a/b/e' a
sed 's/a/b/w .env' a
env -S 'rm y'
timeout 5 node s.js
printf 'x\n' | sed -e '1e rm victim'
sed -e '1e rm victim' p
sed -n --expression='1e rm victim'
sed -n -e p -e '1e rm victim' f
sed -n 1p f -e '1e rm victim'
sed -ne '1e rm victim' f
awk -F : 'BEGIN{system("rm victim")}'
awk -v a=1 'BEGIN{system("rm victim")}'
awk -F '\t' 'BEGIN{system("rm victim")}'
gawk -e 'BEGIN{system("rm victim")}'
busybox awk -F : 'BEGIN{system("rm victim")}'
tar cIf 'rm victim' t.tar f
tar cfI t.tar 'rm victim;' f
tar -cvI 'rm victim' -f t.tar f
ssh -qo ProxyCommand='rm victim' localhost
ssh -vvoProxyCommand='rm victim' localhost
ssh -4oProxyCommand=x localhost
scp -qoProxyCommand='rm victim' f localhost:
scp -3qDrm f localhost:
git clone -u 'rm victim;' ./r y
git clone -qu 'rm victim;' ./r y
git -C x clone -qu 'rm victim;' ./r y
git rebase -mx 'rm victim' y
git grep -nOrm y
vim.basic -es -c '!rm victim' -c q
vimdiff -es -c '!rm victim'
perl5.36-x86_64-linux-gnu -e 'system("rm victim")'
python3.11-dbg -c 'import os'
PYTHON3 -c 'import os'
pip3.11 install x
gpg-agent --daemon rm victim
prove -e rm victim
prove --exec rm victim
gcc -wrapper rm,victim a.c
gcc-12 -wrapper rm,victim a.c
x86_64-linux-gnu-gcc-12 -wrapper rm,victim a.c
cpp -wrapper rm,victim a.c
c99 -wrapper rm,victim a.c
gcc -fplugin=./x.so a.c
gcc @options
sdiff --diff-program=rm a b
pandoc -F rm a.md
pandoc --lua-filter f.lua a.md
pandoc -t ./writer.lua a.md
zip -qTT 'rm victim' a.zip b
rsync -ae 'rm victim' a b
curl -qK c
wget -qe use_proxy=no u
npm ex x
npm tes
npm it
npm cit
npm --cache ls ex rm
yarn
poetry run rm victim
ssh-keygen -D ./x.so
less +'!rm victim' a
tcpdump -z rm -w f
unlink victim
shred -u victim
zip -m a.zip victim
tar --remove-files -cf a.tar victim
git clean -fdx
git rm victim
gio remove victim
zstd --rm victim
xz victim
gzip -9 victim
gzip -S k victim
rsync -a --delete-after a b
"""

_SEEN = r"""
sed -n 5p a.txt
sed -n -e 1p -e '3p' a.txt
sed -i.bak 's/a/b/g' a.txt
sed --expression='s/a/b/' a.txt
awk -F : '{print $1}' /etc/passwd
awk -F: -v n=1 'NR==n' a
tar czf a.tar.gz src
tar -tzf a.tar.gz
tar -xzfIt.tar
ssh -p 22 -i key host
git clone -b main x y
git commit -m 'fix: remove x and O'
git commit -mfixOx
git add -u
git push -u origin main
git grep -n x
git log -n 5 --oneline
gcc -Wall -O2 -o a a.c
find . -name '*.o' -type f
curl -sSL -o K http://x
npm ls
npm ls --depth 0
npm --version
pip list
pip3.11 show x
pandoc -f markdown -t html a.md -o a.html
gzip -dc a.gz
gzip -k a
xz --list a.xz
rsync -avz a b
zip -r a.zip b
less a.txt
apt list
poetry show
dpkg -l
ssh-keygen -t ed25519 -f key
git diff --stat
"""


@pytest.mark.parametrize("command", [line for line in _OPAQUE.splitlines() if line])
def test_what_may_run_anything_is_asked_about_where_something_is_denied(command: str) -> None:
    for rules in (CommandRules(deny=["Bash(chmod:*)"]), CommandRules(allow=["Bash"], ask=["Read(key)"])):
        assert CommandPolicy([("operator", rules)]).authorize("bash", command, "/w", root="/w").permission == "ask"
    without = CommandPolicy([("operator", CommandRules(allow=["Bash"]))])
    assert without.authorize("bash", command, "/w", root="/w").permission == "allow"


@pytest.mark.parametrize("command", [line for line in _SEEN.splitlines() if line])
def test_what_a_program_does_by_its_words_alone_is_not_asked_about(command: str) -> None:
    ruling = CommandPolicy([("operator", CommandRules(deny=["Bash(chmod:*)"]))]).authorize("bash", command, "/w", root="/w")
    assert ruling.allowed, ruling.sentence


@pytest.mark.parametrize(
    ("allowed", "command", "said"),
    [
        ("Bash(git clone --unshallow:*)", "git clone --unshallow -u x y", "ask"),
        ("Bash(git clone -u:*)", "git clone -u x y", "allow"),
        ("Bash(npm ci)", "npm ci", "allow"),
        ("Bash(python3:*)", "python3 s.py", "allow"),
        ("Bash(make test)", "make test", "allow"),
        ("Bash(make test)", "make clean", "ask"),
        ("Bash(./s.sh:*)", "./s.sh a", "allow"),
        ("Bash(git:*)", "git -c alias.x='!rm y' x", "ask"),
        ("Bash(git -c:*)", "git -c core.pager=less log", "allow"),
        ("Bash(git:*)", "git -c user.name=A commit -m 'x; y'", "allow"),
        ("Bash(sed:*)", "sed -i 's/a/b/g;5d' a.txt", "allow"),
        ("Bash(awk:*)", "awk -F, '{print $1, NR}' a.csv", "allow"),
        ("Bash(tar:*)", "tar -xzf a.tar.gz", "allow"),
        ("Bash(find:*)", "find . -name '*.py'", "allow"),
        ("Bash(python3:*)", "python3 --version", "allow"),
    ],
)
def test_a_rule_allows_what_may_run_anything_by_naming_that_very_command(allowed: str, command: str, said: str) -> None:
    policy = CommandPolicy([("operator", CommandRules(allow=[allowed], deny=["Bash(chmod:*)"]))])
    assert policy.authorize("bash", command, "/w", root="/w").permission == said


@pytest.mark.parametrize(
    ("tool", "argument", "said"),
    [
        ("bash", "grep -r KEY .", "ask"),
        ("bash", "grep -r KEY src", "ask"),
        ("bash", "rg KEY", "ask"),
        ("bash", "git grep KEY", "ask"),
        ("bash", "cat *", "ask"),
        ("bash", "grep KEY a.txt", "allow"),
        ("file_search", ".", "ask"),
        ("file_search", "src", "ask"),
        ("file_read", "src/.env", "deny"),
        ("file_list", ".", "allow"),
    ],
)
def test_a_denied_name_holds_for_a_search_of_a_whole_folder(tool: str, argument: str, said: str) -> None:
    policy = CommandPolicy([("operator", CommandRules(deny=["Read(.env)"]))])
    assert policy.authorize(tool, argument, "/w", root="/w").permission == said


_MOVES = "cd a; cd b; cd c; "


@pytest.mark.parametrize(
    ("tool", "command", "rules"),
    [
        ("bash", _MOVES + "; ".join(f"ls x{number}/y" for number in range(1650)), {"ask": ["Read(a{}/**/b*)"]}),
        ("bash", "ls " + " ".join(f"f{number}" for number in range(3500)), {"deny": ["Read(**/x{})"]}),
        ("bash", ";".join("a" for _ in range(4000)), {"deny": ["Bash(b{}:*)", "Bash(c{}:*)"]}),
        ("bash", "a " + "b " * 9000, {"deny": ["Bash(a b c{}:*)"]}),
        ("bash", " ".join(f">x{number}" for number in range(3000)), {"allow": ["Write(a{}/**)", "Write(x*)"]}),
        ("file_read", "a/" * 9000, {"deny": ["Read(**/x{}/**/y)"]}),
    ],
)
def test_what_is_too_much_to_compare_with_all_rules_is_not_compared_to_the_end(
    tool: str, command: str, rules: dict[str, list[str]]
) -> None:
    many = {name: [rule.format(n) for rule in entries for n in range(249)] for name, entries in rules.items()}
    level = CommandRules(**many, default="ask")  # type: ignore[arg-type] # mypy takes the lists for the default
    ruling = CommandPolicy([("agent", level)]).authorize(tool, command, "/work", root="/work")
    assert ruling.permission == ("deny" if level.deny else "ask")
    assert "too much in it to compare" in ruling.reason


def test_an_ordinary_command_is_compared_with_many_rules() -> None:
    secrets = [f"Read(**/secret{number}/**)" for number in range(200)]
    rules = CommandRules(allow=["Bash(cat:*)"], deny=secrets, ask=[f"Bash(rm{number}:*)" for number in range(200)])
    policy = CommandPolicy([("agent", rules)])
    names = " ".join(f"src/f{number}.py" for number in range(100))
    assert policy.authorize("bash", f"cat {names}", "/work", root="/work").allowed
    denied = policy.authorize("bash", f"cat {names} x/secret7/key", "/work", root="/work")
    assert (denied.permission, denied.rule) == ("deny", "deny Read(**/secret7/**)")
