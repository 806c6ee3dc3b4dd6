"""`skillyard schedule`: skills that run at a time, and `event`: something that happened, for skills that subscribe to it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from skillyard.cli.command_options import open_database, open_organisation
from skillyard.cli.commands.run_commands import add_request_arguments, given_files, given_work
from skillyard.cli.confirmation import require_consent
from skillyard.cli.screen import FAILURE, OK
from skillyard.errors import UsageProblem

if TYPE_CHECKING:
    from datetime import datetime

    from skillyard.cli.screen import Screen
    from skillyard.engine import Event, Schedule, ScheduleOwners
    from skillyard.library import Catalog

_SCHEDULE_ACTIONS: Final = ("show", "edit", "run", "remove", "pause", "resume", "take-over")
_SCHEDULE_HINT: Final = "`skillyard schedule add NAME SKILL --cron '0 8 * * mon-fri'`, or `list`, `show NAME`, `remove NAME`"


def add_schedule_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `schedule`."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=("list", "add", "show", "edit", "run", "remove", "pause", "resume", "take-over", "due"),
        default="list",
        help="list (the default), add, show, edit, remove, pause, resume; run starts a run now and waits for it; take-over "
        "continues a held schedule as yours; due runs what is due, if no server is running",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="the name of the schedule: lower-case letters, digits, dashes")
    parser.add_argument("skill", nargs="?", metavar="SKILL", help="for add: the skill's name or id, or event:TYPE")
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--cron", metavar="FIELDS", help="for add, edit: minute, hour, day, month, weekday, as '0 8 * * mon-fri'")
    when.add_argument("--at", metavar="TIME", help="for add, edit: once, as 2027-01-31T08:00")
    parser.add_argument("--zone", metavar="NAME", help="the time zone (default: UTC)")
    parser.add_argument(
        "--missed",
        choices=("skip", "once", "all"),
        help="what happens to times that passed while no server ran (default: once)",
    )
    add_request_arguments(parser)
    parser.set_defaults(input=None)  # what is not given stays in `edit`
    parser.add_argument("--priority", type=int, metavar="N", help="as for `skillyard run` (default: 0)")
    parser.add_argument(
        "--skill-version",
        metavar="VERSION",
        help="for edit: the version of an installed skill to run, or `current`",
    )
    parser.add_argument("--organisation", metavar="NAME", help="the organisation (default: the server's own)")


def schedule_command(arguments: argparse.Namespace) -> int:
    """List, add, change, or run what is due."""
    action, name = arguments.action, arguments.name
    valid = (action in (*_SCHEDULE_ACTIONS, "add")) == (name is not None) and (action == "add") == (arguments.skill is not None)
    if not valid:
        raise UsageProblem("which schedule, and of which skill?" if action == "add" else "which schedule?", hint=_SCHEDULE_HINT)
    if (action == "add") != bool(arguments.cron or arguments.at) and action != "edit":
        raise UsageProblem("when? --cron or --at" if action == "add" else f"{action} takes no time", hint=_SCHEDULE_HINT)
    catalog = open_organisation(arguments)
    makers = _schedule_owners(arguments)
    if action == "due":
        return _run_due(catalog, makers, arguments.screen)
    if action == "list":
        return _list_schedules(makers.held(catalog.schedules().all()), arguments.screen)
    if action == "run":
        return _run_now(catalog, makers, arguments)
    said = {"show": "", "add": "added", "edit": "changed", "take-over": "taken over"}.get(action, f"{action.rstrip('e')}ed")
    return _report_schedule(makers.held((_changed(catalog, arguments),))[0], arguments.screen, said)


def _changed(catalog: Catalog, arguments: argparse.Namespace) -> Schedule:
    """The schedule that the command names, after what it says was done to it."""
    action, name, store = arguments.action, arguments.name, catalog.schedules()
    match action:
        case "add":
            return _added(catalog, arguments)
        case "edit":
            return _edited(catalog, arguments)
        case "remove":
            return store.remove(name)
        case "take-over":
            return store.take_over(name, made_by=_me(), context=_context(arguments))
        case "pause" | "resume":
            return store.pause(name, paused=action == "pause")
    return store.get(name)


def _schedule_owners(arguments: argparse.Namespace) -> ScheduleOwners:
    """The makers whose keys are still valid, by the server's main database."""
    from skillyard.access import DEFAULT_ORGANISATION, Keys
    from skillyard.engine import ScheduleOwners

    return ScheduleOwners(Keys(lambda: open_database(arguments)), arguments.organisation or DEFAULT_ORGANISATION)


def _me() -> str:
    from skillyard.access import actor_name

    return actor_name()


def _context(arguments: argparse.Namespace) -> dict[str, Any]:
    from skillyard.cli.command_options import parse_context

    return parse_context(arguments.context)


def _added(catalog: Catalog, arguments: argparse.Namespace) -> Schedule:
    from skillyard.cli.command_options import parse_json_object
    from skillyard.engine import EVENT_PREFIX, Schedule

    skill = None if arguments.skill.startswith(EVENT_PREFIX) else catalog.get(arguments.skill)
    schedule = Schedule(
        name=arguments.name,
        skill=skill.id if skill else arguments.skill,
        parameters=parse_json_object("--input", arguments.input or "{}"),
        context=_context(arguments),
        made_by=_me(),
        cron=arguments.cron,
        time_zone=arguments.zone or "UTC",
        missed=arguments.missed or "once",
        priority=arguments.priority or 0,
        digest=require_consent(catalog, skill, arguments.screen) if skill else None,
        entry=arguments.entry,
        arguments=arguments.command_line,
        packages=tuple(arguments.packages),
        workspace=given_work(arguments),
    )
    return catalog.schedules().add(schedule, at=_moment(arguments.at), files=given_files(arguments))


def _edited(catalog: Catalog, arguments: argparse.Namespace) -> Schedule:
    from skillyard.cli.command_options import parse_json_object

    given = {
        "cron": arguments.cron,
        "time_zone": arguments.zone,
        "missed": arguments.missed,
        "priority": arguments.priority,
        "entry": arguments.entry,
        "arguments": arguments.command_line or None,
        "packages": tuple(arguments.packages) or None,
        "workspace": given_work(arguments),
        "parameters": None if arguments.input is None else parse_json_object("--input", arguments.input),
    }
    values = {name: value for name, value in given.items() if value is not None}
    if arguments.skill_version is not None:
        values["digest"] = _agreed_version(catalog, catalog.schedules().get(arguments.name), arguments)
    if not (values or arguments.at or arguments.file):
        raise UsageProblem("what is to be changed?", hint="--cron, --at, --zone, --missed, --input, --skill-version, ...")
    return catalog.schedules().change(
        arguments.name, at=_moment(arguments.at), files=given_files(arguments) if arguments.file else None, **values
    )


def _agreed_version(catalog: Catalog, schedule: Schedule, arguments: argparse.Namespace) -> str | None:
    """The digest of the version that is to run, agreed to; of the current one None where no rule asks."""
    from skillyard.registry import version_skill

    if schedule.event is not None:
        raise UsageProblem("an event has no version", hint="leave --skill-version out")
    skill = catalog.get(schedule.skill)
    if arguments.skill_version == "current":
        return require_consent(catalog, skill, arguments.screen)
    found = version_skill(catalog, skill.id, arguments.skill_version)
    require_consent(catalog, found, arguments.screen)
    return found.digest()


def _run_now(catalog: Catalog, makers: ScheduleOwners, arguments: argparse.Namespace) -> int:
    """Begin a run of a schedule and wait for it; 1 when it did not succeed."""
    import asyncio

    async def all_of_it() -> tuple[str, list[Any]]:
        run_id, begun = await catalog.scheduler(makers=makers).begin_now(arguments.name)
        return run_id, await asyncio.gather(*(one.ended for one in begun), return_exceptions=True)

    screen: Screen = arguments.screen
    run_id, done = asyncio.run(all_of_it())
    good = all(getattr(outcome, "ok", False) for outcome in done)
    if screen.as_json:
        screen.data({"run_id": run_id, "begun": len(done), "ok": good})
    else:
        screen.line(f"{arguments.name}: {run_id} {'succeeded' if good else 'failed'}", style="ok" if good else "error")
    return OK if good else FAILURE


def _moment(text: str | None) -> datetime | None:
    from datetime import datetime

    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        raise UsageProblem(
            f"--at {text} is not a time", hint="write it as 2027-01-31T08:00, or with Z or +01:00 behind"
        ) from None


def _run_due(catalog: Catalog, makers: ScheduleOwners, screen: Screen) -> int:
    """Start the runs that are due and wait for them; 1 when one did not succeed."""
    import asyncio

    async def all_of_it() -> list[Any]:
        begun = await catalog.scheduler(makers=makers).begin_due()
        return await asyncio.gather(*(one.ended for one in begun), return_exceptions=True)

    done = asyncio.run(all_of_it())
    good = [outcome for outcome in done if getattr(outcome, "ok", False)]
    if screen.as_json:
        screen.data({"begun": len(done), "succeeded": len(good)})
    else:
        screen.line(f"{len(done)} came due, {len(good)} succeeded" if done else "no schedule is due")
    return OK if len(good) == len(done) else FAILURE


def _report_schedule(schedule: Schedule, screen: Screen, what: str) -> int:
    if screen.as_json:
        screen.data(schedule.to_dict())
    elif what:
        screen.line(
            f"{schedule.name} {what}"
            if schedule.paused or schedule.held or what == "removed"
            else f"{schedule.name} {what}; next {_next_start(schedule)}"
        )
    else:
        screen.table([(name.replace("_", " "), _text(value)) for name, value in schedule.to_dict().items()])
    return OK


def _list_schedules(schedules: tuple[Schedule, ...], screen: Screen) -> int:
    if screen.as_json:
        screen.data({"schedules": [schedule.to_dict() for schedule in schedules]})
    elif schedules:
        rows = [
            (one.name, one.skill, one.cron or "once", one.time_zone, _next_start(one), one.last_run or "") for one in schedules
        ]
        screen.table(rows, header=("SCHEDULE", "SKILL", "WHEN", "ZONE", "NEXT", "LAST RUN"))
    else:
        screen.note("no schedules")
        screen.hint(_SCHEDULE_HINT)
    return OK


def _next_start(schedule: Schedule) -> str:
    """When it comes due, in its own time zone."""
    if schedule.paused or schedule.held:
        return "held" if schedule.held else "paused"
    if schedule.next_at is None:
        return "never"
    from zoneinfo import ZoneInfo

    return f"{schedule.next_at.astimezone(ZoneInfo(schedule.time_zone)):%Y-%m-%d %H:%M %Z}"


def _text(value: object) -> str:
    import json

    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def add_event_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `event`."""
    parser.add_argument(
        "type",
        nargs="?",
        metavar="TYPE",
        help="the type of the event, such as calendar.reminder; without it: the types that skills subscribe to",
    )
    parser.add_argument(
        "--data",
        default="{}",
        metavar="JSON",
        help="its data, the parameters of the skills: a JSON object, @FILE to read one, or -",
    )
    parser.add_argument("--id", metavar="ID", help="its id: the same event runs each skill once (default: a new one)")
    parser.add_argument("--context", default="{}", metavar="JSON", help="the context, as for `skillyard run`")
    parser.add_argument("--dry-run", action="store_true", help="only show which skills would run")


def event_command(arguments: argparse.Namespace) -> int:
    """Run what waits for an event; 1 when something was refused or failed."""
    from skillyard.cli.command_options import open_catalog, parse_json_object
    from skillyard.engine import Event, waiting_skills

    catalog, screen = open_catalog(arguments), arguments.screen
    if arguments.type is None:
        return _list_event_types(catalog, screen)
    given = {} if arguments.id is None else {"id": arguments.id}
    event = Event(arguments.type, parse_json_object("--data", arguments.data), source="cli", **given)
    if arguments.dry_run:
        names = [match.skill.id for match in waiting_skills(catalog.all(), event.type)]
        if screen.as_json:
            screen.data({"type": event.type, "skills": names})
        else:
            screen.line(f"{event.type} would run {', '.join(names) or 'nothing'}")
        return OK
    return _fire(catalog, event, _context(arguments), screen)


def _fire(catalog: Catalog, event: Event, context: dict[str, Any], screen: Screen) -> int:
    import asyncio

    from skillyard.cli.confirmation import ConsoleApprover

    approver = ConsoleApprover() if screen.interactive else None
    fired = asyncio.run(catalog.events().fire(event, context=context, approver=approver))
    if screen.as_json:
        screen.data(fired.to_dict())
        return OK if fired.ok else FAILURE
    for run in fired.runs:
        said = run.reason or run.status or ""
        screen.line(
            f"{run.skill}: {run.state}{', ' if said else ''}{said}  {run.run_id if run.state != 'refused' else ''}".rstrip()
        )
    if any(run.state == "needs_approval" for run in fired.runs):
        screen.hint("call this at a terminal to be asked, or write an 'allow' rule for the skill")
    screen.note(f"event {fired.id}" if fired.runs else f"no skill subscribes to {fired.type}")
    return OK if fired.ok else FAILURE


def _list_event_types(catalog: Catalog, screen: Screen) -> int:
    waiting: dict[str, list[str]] = {}
    for skill in catalog.all():
        if skill.status == "ok":
            for declared in skill.event_types:
                waiting.setdefault(declared, []).append(skill.id)
    if screen.as_json:
        screen.data({"types": [{"type": name, "skills": skills} for name, skills in sorted(waiting.items())]})
    elif waiting:
        screen.table([(name, ", ".join(skills)) for name, skills in sorted(waiting.items())], header=("EVENT", "SKILLS"))
    else:
        screen.note("no skill subscribes to events")
        screen.hint("a skill does with `triggers: {event_types: [calendar.reminder]}` in its front matter")
    return OK
