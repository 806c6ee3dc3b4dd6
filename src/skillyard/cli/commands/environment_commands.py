"""This machine: `skillyard doctor` and `completion`; `environment`: packages and programs that skills were granted."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from skillyard.cli.command_options import add_package_option, open_catalog, open_skill, parse_positive, record_audit_event
from skillyard.cli.confirmation import confirm
from skillyard.cli.language import OWN_TEXT, translated_answer
from skillyard.cli.program import COMMANDS
from skillyard.cli.screen import FAILURE, OK, counted
from skillyard.errors import ApprovalRejected, DependenciesUnavailable, InvalidInput, UsageProblem

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.cli.screen import Screen
    from skillyard.doctor import MachineCheck
    from skillyard.environments import SkillGrant, SkillNeeds
    from skillyard.library import Catalog


_ACTIONS = ("show", "allow", "revoke", "prune")
_KINDS = {"packages": "Python", "npm": "npm", "programs": "program"}


def add_environment_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `environment`."""
    parser.add_argument(
        "action", nargs="?", choices=_ACTIONS, default="show", help="show (the default), allow, revoke or prune"
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="the skill; without one, show lists every skill")
    add_package_option(
        parser, "for allow and revoke, only this: pypdf, npm:docx or program:qpdf; may be repeated", dest="granted"
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="for allow, leave this out of the proposal, spelled as there; may be repeated",
    )
    parser.add_argument("--yes", action="store_true", help="for allow, do not ask")
    parser.add_argument(
        "--unused", type=parse_positive, metavar="DAYS", help="for prune, what was not used for this many days (default: 30)"
    )


def environment_command(arguments: argparse.Namespace) -> int:
    """Show, grant, take back or prune."""
    if arguments.action == "prune":
        return _prune(arguments)
    if arguments.action == "show":
        return _show(arguments)
    if arguments.name is None:
        raise UsageProblem("which skill?", hint=f"skillyard environment {arguments.action} NAME")
    return _allow(arguments) if arguments.action == "allow" else _revoke(arguments)


def _show(arguments: argparse.Namespace) -> int:
    screen: Screen = arguments.screen
    if arguments.name is None:
        catalog = open_catalog(arguments)
        grants = catalog.grants()
        every = [grants.needs(skill) for skill in catalog.all() if skill.status == "ok"]
        needs = [one for one in every if one.items or one.granted]
        if screen.as_json:
            screen.data({"skills": [one.to_dict() for one in needs]})
        elif needs:
            rows = ((one.name, one.sentence or "has what it needs") for one in needs)
            screen.table(rows, header=("SKILL", "NOT GRANTED"), stretch=1)
        else:
            screen.note("no skill needs packages or programs")
        return OK
    catalog, skill = open_skill(arguments, arguments.name)
    one = catalog.grants().needs(skill)
    if screen.as_json:
        screen.data(one.to_dict())
    else:
        draw_needs(screen, one)
    return OK


def draw_needs(screen: Screen, needs: SkillNeeds) -> None:
    """Draw what one skill needs, each thing with its state and where it is used, and the command that grants the rest."""
    if rows := tuple(needs_rows(needs)):
        screen.table(rows, header=("KIND", "NAME", "STATE", "WHERE"), stretch=3)
    else:
        screen.line(f"{needs.name} needs no packages and no programs")
    for sentence in needs.ignored:
        screen.note(f"warning: {sentence}")
    for name, remedy in needs.missing_programs:
        screen.note(f"{name} is not on this machine: {remedy}")
    if needs.command:
        screen.hint(f"`{needs.command}` grants what is proposed")


def needs_rows(needs: SkillNeeds) -> Iterator[tuple[str, str, str, str]]:
    """Kind, name, state and places of everything a skill needs."""
    for item in needs.items:
        yield _KINDS[item.kind], item.name, item.state, ", ".join(item.where) or "declared"


def _allow(arguments: argparse.Namespace) -> int:
    screen: Screen = arguments.screen
    catalog, skill = open_skill(arguments, arguments.name)
    needs = catalog.grants().needs(skill)
    grant = _asked_for(arguments, needs)
    if grant:
        for word in grant.words:
            screen.note(f"  + {word}")
        if not arguments.yes:
            if not screen.interactive or screen.as_json:
                raise ApprovalRejected("nobody is here to agree to these packages and programs", hint="pass --yes to agree")
            if not confirm(f"Install these and give them to {skill.name}?"):
                raise ApprovalRejected("nothing was granted", hint="`--with NAME` grants only one of them")
    grant = _install(arguments, catalog, skill, grant)
    record_audit_event(screen, lambda: catalog.records().database, "environments.grant", skill.id)
    after = catalog.grants().needs(skill)
    if screen.as_json:
        screen.data(after.to_dict())
        return OK
    screen.line(f"{skill.name} has {', '.join(after.granted.words) or 'nothing granted'}", style="ok")
    for name, remedy in after.missing_programs:
        if name in grant.programs:
            screen.note(f"{name} is not on this machine: {remedy}")
    return OK


def _asked_for(arguments: argparse.Namespace, needs: SkillNeeds) -> SkillGrant:
    """What the command names, else the proposal but for what it leaves out."""
    from skillyard.environments import SkillGrant

    if arguments.granted and arguments.without:
        raise UsageProblem("--with and --without do not go together", hint="--without leaves something out of the proposal")
    if arguments.granted:
        return SkillGrant.from_words(arguments.granted)
    left_out = SkillGrant.from_words(arguments.without)
    if unknown := [word for word in left_out.words if word not in needs.proposed.words]:
        hint = f"it proposes {', '.join(needs.proposed.words) or 'nothing'}"
        raise InvalidInput(f"{', '.join(unknown)} is not in the proposal for {needs.name}", hint=hint)
    return needs.proposed.without(left_out)


def _install(arguments: argparse.Namespace, catalog: Catalog, skill: Skill, grant: SkillGrant) -> SkillGrant:
    """Install and grant all of it, or nothing; where only some of it cannot be had, somebody may agree to the rest.

    What was granted.

    Raises:
        DependenciesUnavailable: it cannot be installed; the hint has the command that grants the rest.
    """
    screen: Screen = arguments.screen
    wanted = grant
    while True:
        try:
            catalog.grants().allow(skill, grant)
        except DependenciesUnavailable as error:
            rest = _without_packages(grant, error.details["dependencies"])
            if arguments.granted or not rest or rest == grant:
                raise
            missing = wanted.without(rest).words
            if not arguments.yes and screen.interactive and not screen.as_json:
                screen.note(f"{error.message}\n{error.hint}")
                if confirm(f"Install the rest, without {', '.join(missing)}?"):
                    grant = rest
                    continue
            options = " ".join(f"--without {shlex.quote(word)}" for word in missing)
            rest_of_it = f"`skillyard environment allow {shlex.quote(skill.name)} {options}` grants the rest"
            raise DependenciesUnavailable(error.message, hint=f"{error.hint}; {rest_of_it}", **error.details) from None
        return grant


def _without_packages(grant: SkillGrant, names: object) -> SkillGrant:
    """The grant but for these packages, of whichever kind."""
    from dataclasses import replace

    missing = set(names) if isinstance(names, list | tuple) else set()
    packages, npm = (tuple(name for name in one if name not in missing) for one in (grant.packages, grant.npm))
    return replace(grant, packages=packages, npm=npm)


def _revoke(arguments: argparse.Namespace) -> int:
    from skillyard.environments import SkillGrant

    screen: Screen = arguments.screen
    catalog, skill = open_skill(arguments, arguments.name)
    left = catalog.grants().revoke(skill, SkillGrant.from_words(arguments.granted) if arguments.granted else None)
    record_audit_event(screen, lambda: catalog.records().database, "environments.revoke", skill.id)
    if screen.as_json:
        screen.data({"granted": left.to_dict()})
    else:
        screen.line(f"{skill.name} has {', '.join(left.words) or 'nothing granted'}", style="ok")
        if left and not arguments.granted:
            screen.hint(f"what is left is in [skills.{skill.name}] of {catalog.configuration.user_file}")
    return OK


def _prune(arguments: argparse.Namespace) -> int:
    from skillyard.environments import prune_environments

    screen: Screen = arguments.screen
    if arguments.name is not None:
        raise UsageProblem("prune is about all skills", hint="`skillyard environment prune` removes what was not used for long")
    report = prune_environments(unused_days=arguments.unused) if arguments.unused else prune_environments()
    if screen.as_json:
        screen.data(report.to_dict())
    else:
        screen.line(
            f"removed {counted(report.environments, 'environment')}, {report.size:,} bytes with their downloads", style="ok"
        )
    return OK


def add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    """`doctor` takes the common options only."""


def doctor_command(arguments: argparse.Namespace) -> int:
    """Examine everything; 1 when something that is needed is broken."""
    from skillyard.catalog import home_directory
    from skillyard.doctor import check_machine
    from skillyard.sandbox import give_back_folders

    give_back_folders(home_directory())
    checks = check_machine(lambda: open_catalog(arguments))
    broken = any(check.status == "error" for check in checks)
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data({"ok": not broken, "checks": [check.to_dict() for check in checks]})
    else:
        _draw_checks(screen, checks)
    return FAILURE if broken else OK


def _draw_checks(screen: Screen, checks: list[MachineCheck]) -> None:
    screen.table((check.status, check.name, translated_answer(check.detail, words=OWN_TEXT)) for check in checks)
    remedies = [(check.name, check.fix) for check in checks if check.fix]
    if remedies:
        screen.heading("To fix")
        screen.table(remedies, indent=2)


_BASH: Final = """\
_skillyard() {
  local word
  COMPREPLY=()
  while IFS= read -r word; do
    COMPREPLY+=("$(printf %q "$word")")
  done < <(skillyard completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _skillyard skillyard
"""
_ZSH: Final = """\
#compdef skillyard
_skillyard() {
  local -a found
  found=("${(@f)$(skillyard completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then compadd -a found; else _files; fi
}
compdef _skillyard skillyard
"""
_FISH: Final = """\
function __skillyard_words
  set -l words (commandline -opc) (commandline -ct)
  skillyard completion words -- $words[2..-1] 2>/dev/null
end
complete -c skillyard -a '(__skillyard_words)'
"""
_SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
_NAMED: Final = frozenset(
    {"show", "read", "run", "test", "enable", "disable", "delete", "environment", "open", "publish", "scan"}
)
"""Commands whose words are names of skills, beside their choices."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9._:@/][A-Za-z0-9._:@/-]*")
"""Names that no shell takes for anything else: what is completed is put into the line as it is, and strangers name skills."""
_INSTALLED: Final = frozenset(
    {"update", "uninstall", "versions", "rollback", "history", "diff", "pin", "deprecate", "yank", "owners"}
)


def add_completion_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `completion`."""
    parser.add_argument(
        "shell", choices=(*_SCRIPTS, "words"), help="the shell; `words` is what its script calls, with the words after --"
    )
    parser.epilog = (
        'bash: eval "$(skillyard completion bash)" in ~/.bashrc; zsh: the same with zsh in ~/.zshrc, after compinit; '
        "fish: skillyard completion fish > ~/.config/fish/completions/skillyard.fish"
    )


def completion_command(arguments: argparse.Namespace) -> int:
    """Print the script, or the words that may come next."""
    screen: Screen = arguments.screen
    if arguments.shell != "words":
        screen.write(_SCRIPTS[arguments.shell])
        return OK
    for word in complete_words(arguments, arguments.command_line):
        screen.write(f"{word}\n")
    return OK


def complete_words(arguments: argparse.Namespace, words: Sequence[str]) -> list[str]:
    """What may stand in place of the last of `words`, which begin with the command; none where a path is meant."""
    *before, typed = words or ("",)
    if not before:
        return [name for name in COMMANDS if name.startswith(typed)]
    if before[0] not in COMMANDS or "--" in before:
        return []
    return [word for word in dict.fromkeys(_candidates(arguments, before, typed)) if word.startswith(typed)]


def _candidates(arguments: argparse.Namespace, before: list[str], typed: str) -> Iterator[str]:
    from skillyard.cli.program import parser_of

    name = before[0]
    actions = parser_of(name)._actions
    if typed.startswith("-"):
        yield from (option for action in actions for option in action.option_strings if option.startswith("--"))
        return
    takes = next((action for action in actions if before[-1] in action.option_strings and action.nargs != 0), None)
    if takes is not None:
        yield from map(str, takes.choices or ())
        return
    given = [word for word in before[1:] if not word.startswith("-")]
    choices = next((action.choices for action in actions if not action.option_strings and action.choices), None)
    if choices and not given:
        yield from map(str, choices)
    elif name in _NAMED | _INSTALLED:
        yield from _names(arguments, name)


def _names(arguments: argparse.Namespace, command: str) -> Iterator[str]:
    from skillyard.cli.command_options import open_catalog

    for skill in open_catalog(arguments).all():
        if command in _NAMED or skill.source == "installed":
            name = skill.slug if command in _INSTALLED else skill.name
            yield from [one for one in (name, skill.slug) if _PLAIN.fullmatch(one)][:1]
