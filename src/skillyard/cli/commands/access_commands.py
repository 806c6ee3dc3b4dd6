"""`skillyard keys`, `webhooks`, `organisations`, `audit`: who may do what, and did; `approvals`, `permissions`: of skills."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from skillyard.cli.command_options import (
    LOCAL_OWNER,
    configured_database,
    open_approvals,
    open_catalog,
    open_database,
    open_home,
    parse_lifetime,
    parse_moment,
    parse_positive,
    record_audit_event,
)
from skillyard.cli.screen import FAILURE, OK, counted
from skillyard.errors import AmbiguousSkill, RecordNotFound, UsageProblem

if TYPE_CHECKING:
    from skillyard.access import ApiKey, AuditLog, AuditRecord, Keys, OAuthGrant, Webhook, Webhooks
    from skillyard.cli.screen import Screen
    from skillyard.permissions import ApprovalRecord, CommandPolicy, CommandRuling, SqlApprovalStore


_SCOPES = ("skills:read", "skills:write", "skills:approve", "runs:execute", "workspaces:use", "admin")


def add_keys_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `keys`."""
    parser.add_argument(
        "action", nargs="?", choices=("list", "create", "revoke", "clients", "disconnect"), default="list",
        help="default: list; clients lists the programs that signed in, disconnect revokes one",
    )  # fmt: skip
    parser.add_argument(
        "key",
        nargs="?",
        metavar="NAME|ID",
        help="for create: the name of the key; for revoke and disconnect: an id",
    )
    parser.add_argument(
        "--scope", action="extend", nargs="+", choices=_SCOPES, metavar="SCOPE",
        help=f"for create: the scopes of the key: {', '.join(_SCOPES)}; admin grants everything",
    )  # fmt: skip
    parser.add_argument("--organisation", metavar="NAME", help="whose skills the key is for (default: the server's own)")
    parser.add_argument("--expires", type=parse_lifetime, metavar="TIME", help="for create: how long it is valid: 12h, 90d, 4w")


def keys_command(arguments: argparse.Namespace) -> int:
    """List, make or revoke keys, and what people allowed clients with them."""
    listing = arguments.action in ("list", "clients")
    if listing != (arguments.key is None) or (arguments.action == "create") != bool(arguments.scope):
        hint = "`skillyard keys list`, `skillyard keys create NAME --scope skills:read` or `skillyard keys revoke ID`"
        raise UsageProblem("which key?", hint=hint)
    if arguments.expires and arguments.action != "create":
        raise UsageProblem("only a new key gets a time", hint="leave --expires out")
    from skillyard.access import Keys, OAuthStore

    database = open_database(arguments)
    keys, oauth = Keys(lambda: database), OAuthStore(lambda: database)
    if arguments.action == "create":
        _create(arguments, keys)
    elif arguments.action == "clients":
        _list_clients(arguments.screen, oauth.grants(arguments.organisation))
    elif arguments.action == "disconnect":
        _disconnect(arguments.screen, oauth.revoke(arguments.key, arguments.organisation))
    elif arguments.action == "revoke":
        _revoke(arguments.screen, keys.revoke(arguments.key, arguments.organisation))
    else:
        _list(arguments.screen, keys.all(arguments.organisation))
    return OK


def _create(arguments: argparse.Namespace, keys: Keys) -> None:
    from skillyard.access import DEFAULT_ORGANISATION

    screen: Screen = arguments.screen
    organisation = arguments.organisation or DEFAULT_ORGANISATION
    key, secret = keys.create(arguments.key, arguments.scope, organisation=organisation, lifetime=arguments.expires)
    if screen.as_json:
        screen.data({"key": key.to_dict(), "secret": secret})
        return
    screen.note(f"created {key.id} for {key.organisation}: {', '.join(key.scopes)}; keep what follows, it is not shown again")
    screen.line(secret)


def _revoke(screen: Screen, key: ApiKey) -> None:
    if screen.as_json:
        screen.data({"revoked": key.to_dict()})
    else:
        screen.line(f"revoked {key.name}: servers that run forget it within a second")


def _list(screen: Screen, keys: tuple[ApiKey, ...]) -> None:
    if screen.as_json:
        screen.data({"keys": [key.to_dict() for key in keys]})
    elif keys:
        moments = [[str(key.to_dict()[name] or "never") for name in ("expires_at", "last_used_at")] for key in keys]
        rows = [
            (key.id, key.name, key.organisation, " ".join(key.scopes), key.state, *moments[number])
            for number, key in enumerate(keys)
        ]
        screen.table(rows, header=("ID", "NAME", "ORGANISATION", "SCOPES", "STATE", "EXPIRES", "LAST USED"), stretch=1)
    else:
        screen.note("no keys; `skillyard keys create NAME --scope skills:read` makes one")


def _list_clients(screen: Screen, grants: tuple[OAuthGrant, ...]) -> None:
    if screen.as_json:
        screen.data({"clients": [grant.to_dict() for grant in grants]})
    elif grants:
        rows = [
            (grant.id, grant.client_name, grant.key_name, grant.organisation, " ".join(grant.scopes),
             str(grant.to_dict()["last_used_at"] or "never"))
            for grant in grants
        ]  # fmt: skip
        screen.table(rows, header=("ID", "CLIENT", "ALLOWED BY", "ORGANISATION", "SCOPES", "LAST USED"), stretch=1)
    else:
        screen.note("no client is signed in")


def _disconnect(screen: Screen, grant: OAuthGrant) -> None:
    if screen.as_json:
        screen.data({"disconnected": grant.to_dict()})
    else:
        screen.line(f"disconnected {grant.client_name}: servers that run refuse it within a second")


def add_webhooks_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `webhooks`."""
    parser.add_argument("action", nargs="?", choices=("list", "create", "remove"), default="list", help="list is the default")
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="the name of the webhook, the last part of its address: github-main"
    )
    parser.add_argument("--event", metavar="TYPE", help="for create: the type of its events, such as github.push")
    parser.add_argument(
        "--id-field",
        metavar="NAME",
        help="for create: the field of the body with the event's id (default: a digest of the body)",
    )
    parser.add_argument("--organisation", metavar="NAME", help="the organisation whose skills run (default: the server's own)")


def webhooks_command(arguments: argparse.Namespace) -> int:
    """List, make or remove."""
    making = arguments.action == "create"
    if (arguments.action == "list") != (arguments.name is None) or making != bool(arguments.event):
        hint = "`skillyard webhooks`, `skillyard webhooks create NAME --event TYPE` or `skillyard webhooks remove NAME`"
        raise UsageProblem("which webhook?", hint=hint)
    if arguments.id_field and not making:
        raise UsageProblem("only a new webhook gets a field", hint="leave --id-field out")
    from skillyard.access import Webhooks

    screen: Screen = arguments.screen
    database = open_database(arguments)
    store = Webhooks(lambda: database)
    if making:
        _create_webhook(arguments, store)
    elif arguments.action == "remove":
        removed = store.remove(arguments.name, arguments.organisation)
        if screen.as_json:
            screen.data({"removed": removed.to_dict()})
        else:
            screen.line(f"removed {removed.name}: its address accepts no more events")
    else:
        _list_webhooks(screen, store.all(arguments.organisation))
    return OK


def _create_webhook(arguments: argparse.Namespace, store: Webhooks) -> None:
    from skillyard.access import DEFAULT_ORGANISATION, actor_name
    from skillyard.engine import Event

    screen: Screen = arguments.screen
    organisation = arguments.organisation or DEFAULT_ORGANISATION
    owner = LOCAL_OWNER if organisation == DEFAULT_ORGANISATION else f"{organisation}/{actor_name()}"
    made, secret = store.create(
        arguments.name,
        Event(arguments.event).type,
        owner=owner,
        made_by=actor_name(),
        organisation=organisation,
        id_field=arguments.id_field,
    )
    path = f"/api/v1/webhooks/{made.name}"
    if screen.as_json:
        screen.data({"webhook": made.to_dict(), "secret": secret, "path": path})
        return
    screen.note(f"created {made.name}: events go to {path} of the server; the secret is not shown again")
    screen.line(secret)


def _list_webhooks(screen: Screen, webhooks: tuple[Webhook, ...]) -> None:
    if screen.as_json:
        screen.data({"webhooks": [hook.to_dict() for hook in webhooks]})
    elif webhooks:
        rows = [
            (hook.name, hook.event, hook.organisation, hook.made_by, str(hook.to_dict()["last_used_at"] or "never"))
            for hook in webhooks
        ]
        screen.table(rows, header=("NAME", "EVENT", "ORGANISATION", "MADE BY", "LAST USED"))
    else:
        screen.note("no webhooks; `skillyard webhooks create NAME --event TYPE` makes one")


def add_organisations_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `organisations`."""
    parser.add_argument("action", nargs="?", choices=("list", "create"), default="list", help="list is the default")
    parser.add_argument("name", nargs="?", metavar="NAME", help="for create: lower-case letters, digits and dashes")


def organisations_command(arguments: argparse.Namespace) -> int:
    """List or make."""
    if (arguments.action == "create") != (arguments.name is not None):
        hint = "`skillyard organisations list` or `skillyard organisations create NAME`"
        raise UsageProblem("which organisation?", hint=hint)
    from skillyard.access import Organisations

    screen: Screen = arguments.screen
    database = open_database(arguments)
    organisations = Organisations(lambda: database)
    if arguments.action == "create":
        made = organisations.create(arguments.name)
        if screen.as_json:
            screen.data(made.to_dict())
        else:
            screen.line(f"created {made.name}", style="ok")
            screen.note(f"`skillyard keys create NAME --scope skills:read --organisation {made.name}` creates a key for it")
        return OK
    data, _ = configured_database(arguments)
    listed = [organisation.to_dict() | {"home": organisation.home(data)} for organisation in organisations.all()]
    if screen.as_json:
        screen.data({"organisations": listed})
    else:
        screen.table([(str(each["name"]), str(each["home"])) for each in listed], header=("ORGANISATION", "HOME"))
    return OK


def add_audit_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `audit`."""
    parser.add_argument("do", nargs="?", choices=("list", "prune"), default="list", metavar="list|prune",
                        help="list (the default), or prune: delete records for good")  # fmt: skip
    parser.add_argument(
        "--older-than", type=parse_moment, metavar="TIME", help="with prune: from before 2026-01-31, or 90d ago"
    )
    parser.add_argument("--keep", type=parse_positive, metavar="N", help="with prune: all but the newest N")
    parser.add_argument("--actor", metavar="NAME", help="only actions of this key or user")
    parser.add_argument("--action", metavar="ACTION", help="only this action: install, rollback, uninstall, keys.create, …")
    parser.add_argument("--subject", metavar="SUBJECT", help="only about this skill, key or run")
    parser.add_argument("--outcome", choices=("success", "failed", "refused"), help="only with this outcome")
    parser.add_argument("--since", type=parse_moment, metavar="TIME", help="not before: 2026-01-31, or 7d for a week ago")
    parser.add_argument("--until", type=parse_moment, metavar="TIME", help="before: 2026-01-31, or 7d for a week ago")
    parser.add_argument("--text", metavar="WORDS", help="only with these words in actor, action, subject or address")
    parser.add_argument(
        "--limit", type=parse_positive, default=50, metavar="N", help="at most this many (default: %(default)s)"
    )
    parser.add_argument("--organisation", metavar="NAME", help="the audit log of this organisation (default: the server's own)")


def audit_command(arguments: argparse.Namespace) -> int:
    """Show the audit log, the newest first, or prune it."""
    from skillyard.access import AuditLog

    _refuse_ambiguous(arguments)
    database = open_database(arguments, arguments.organisation)
    audit_log = AuditLog(lambda: database)
    if arguments.do == "prune":
        return _prune(arguments, audit_log)
    events = audit_log.events(
        actor=arguments.actor,
        action=arguments.action,
        subject=arguments.subject,
        outcome=arguments.outcome,
        since=arguments.since,
        until=arguments.until,
        text=arguments.text,
        limit=arguments.limit,
    )
    _show(arguments.screen, events)
    return OK


def _refuse_ambiguous(arguments: argparse.Namespace) -> None:
    """Refuse what could be meant otherwise: nothing is deleted by accident."""
    bounds = arguments.older_than is not None or arguments.keep is not None
    if arguments.do == "list" and bounds:
        raise UsageProblem("--older-than and --keep are for prune", hint="skillyard audit prune --older-than 90d")
    if arguments.do == "prune" and not bounds:
        raise UsageProblem("how much is to be deleted?", hint="skillyard audit prune --older-than 90d, or --keep 100000")
    narrowed = any((arguments.actor, arguments.action, arguments.subject, arguments.outcome, arguments.since))
    narrowed = narrowed or any((arguments.until, arguments.text))
    if arguments.do == "prune" and narrowed:
        raise UsageProblem("the audit log is pruned by age and number only", hint="leave out what narrows the list")


def _prune(arguments: argparse.Namespace, audit_log: AuditLog) -> int:
    pruned = audit_log.prune(older_than=arguments.older_than, keep=arguments.keep)
    if arguments.screen.as_json:
        arguments.screen.data({"pruned": pruned})
    else:
        arguments.screen.line(f"{counted(pruned, 'record')} deleted")
    return OK


def _show(screen: Screen, events: tuple[AuditRecord, ...]) -> None:
    if screen.as_json:
        screen.data({"events": [event.to_dict() for event in events]})
    elif events:
        rows = [
            (str(event.to_dict()["at"]), event.actor, event.action, event.subject, event.outcome, event.address or "")
            for event in events
        ]
        screen.table(rows, header=("AT", "ACTOR", "ACTION", "SUBJECT", "OUTCOME", "FROM"), stretch=3)
    else:
        screen.note("no matching records")


def add_approvals_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `approvals`."""
    parser.add_argument(
        "action", nargs="?", choices=("list", "approve", "revoke"), default="list", help="list (the default), approve or revoke"
    )
    parser.add_argument("skill", nargs="?", metavar="SKILL", help="the id or name of the skill; list then shows only that one")
    parser.add_argument("--all", action="store_true", help="for revoke: every skill of this workspace")
    parser.add_argument("--everywhere", action="store_true", help="for list: those of all workspaces")


def approvals_command(arguments: argparse.Namespace) -> int:
    """List, approve or revoke."""
    if not _are_options_valid(arguments):
        hint = (
            "`skillyard approvals list [SKILL]`, `skillyard approvals approve SKILL`, `skillyard approvals revoke SKILL` or "
            "`… revoke --all`, without --everywhere"
        )
        raise UsageProblem(_approvals_problem(arguments), hint=hint)
    store = open_approvals(arguments)
    if arguments.action == "approve":
        _approve_skill(arguments, store)
    elif arguments.action == "list":
        approved = store.everywhere() if arguments.everywhere else store.approved()
        _list_approvals(
            arguments.screen,
            tuple(item for item in approved if arguments.skill is None or _fits(item.skill_id, arguments.skill)),
        )
    else:
        _revoke_approvals(arguments.screen, store, arguments.skill)
    return OK


def _are_options_valid(arguments: argparse.Namespace) -> bool:
    """Whether the options belong to the action: nothing is revoked in another workspace, or all of it by accident."""
    if arguments.action == "list":
        return not arguments.all
    if arguments.action == "approve":
        return not arguments.all and not arguments.everywhere and arguments.skill is not None
    return not arguments.everywhere and arguments.all != (arguments.skill is not None)


def _approvals_problem(arguments: argparse.Namespace) -> str:
    if arguments.action != "list" and arguments.skill is None and not arguments.all:
        return f"say which skill to {arguments.action}"
    return "these options do not go together"


def _fits(skill_id: str, name: str) -> bool:
    return name in (skill_id, skill_id.rpartition(":")[2])


def _list_approvals(screen: Screen, approved: tuple[ApprovalRecord, ...]) -> None:
    if screen.as_json:
        screen.data({"approvals": [item.to_dict() for item in approved]})
    elif approved:
        rows = [(item.skill_id, item.digest[:19], item.to_dict()["approved_at"], item.workspace) for item in approved]
        screen.table(rows, header=("SKILL", "CONTENT", "APPROVED", "WORKSPACE"), stretch=3)
    else:
        screen.note("no approvals")


def _approve_skill(arguments: argparse.Namespace, store: SqlApprovalStore) -> None:
    """Agree to a skill as it is now, for this workspace: also where nobody can be asked later."""
    skill, screen = open_catalog(arguments).get(arguments.skill), arguments.screen
    digest = skill.digest()
    store.add(skill.id, digest)
    record_audit_event(screen, store.database, "approvals.grant", skill.id)
    if screen.as_json:
        screen.data({"approved": skill.id, "digest": digest})
    else:
        screen.line(f"approved {skill.id} as it is now ({digest[:19]}): you will be asked again when it changes")


def _revoke_approvals(screen: Screen, store: SqlApprovalStore, name: str | None) -> None:
    from skillyard.permissions import SqlSessionApprovals

    sessions = SqlSessionApprovals(store.database)
    skill_ids = sorted({*(item.skill_id for item in store.approved()), *sessions.skills()})
    chosen = skill_ids if name is None else [_one(skill_ids, name)]
    revoked = [skill_id for skill_id in chosen if any([store.remove(skill_id), sessions.remove(skill_id)])]
    record_audit_event(screen, store.database, "approvals.revoke", *revoked)
    if screen.as_json:
        screen.data({"revoked": revoked})
    else:
        screen.line("\n".join(f"revoked {skill_id}: you will be asked again" for skill_id in revoked) or "no approvals")


def _one(skill_ids: list[str], name: str) -> str:
    """The id that equals `name`, or ends in it as a name."""
    fitting = [name] if name in skill_ids else [skill_id for skill_id in skill_ids if _fits(skill_id, name)]
    if not fitting:
        message = f"nothing was agreed to for {name!r} in this workspace"
        raise RecordNotFound(message, hint="`skillyard approvals` lists what was; --project names another workspace")
    if len(fitting) > 1:
        raise AmbiguousSkill(f"{name!r} can be several skills", candidates=fitting)
    return fitting[0]


def add_permissions_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `permissions`."""
    parser.add_argument(
        "action", nargs="?", choices=("list", "check-command"), default="list",
        help="list the rules (the default), or check-command: whether a command is allowed, asked about or denied, and why",
    )  # fmt: skip
    parser.add_argument("call", nargs="?", metavar="COMMAND", help="for check-command: the command, path or address")
    parser.add_argument("--tool", default="bash", metavar="TOOL", help="the tool that is called (default: %(default)s)")
    parser.add_argument("--agent", metavar="NAME", help="with the rules of this agent")
    parser.add_argument(
        "--skill",
        action="append",
        metavar="NAME",
        help="as if this skill were loaded, with its allowed-tools enforced; may be repeated",
    )
    parser.add_argument("--folder", metavar="FOLDER", help="the folder it works in (default: this one)")


def permissions_command(arguments: argparse.Namespace) -> int:
    """List the rules, or decide on a command; a command that is not simply allowed is a failure."""
    if (arguments.action == "check-command") != (arguments.call is not None):
        hint = "`skillyard permissions check-command 'git push'`, or `skillyard permissions` for the rules"
        raise UsageProblem("which command?", hint=hint)
    policy = _policy(arguments)
    screen: Screen = arguments.screen
    if arguments.action == "list":
        _list_rules(screen, policy)
        return OK
    from skillyard.permissions import SKILL_TOOL_NAMES, WORKSPACE_TOOL_NAMES

    if arguments.tool not in (*WORKSPACE_TOOL_NAMES, *SKILL_TOOL_NAMES):
        raise UsageProblem(f"there is no tool {arguments.tool!r}", hint=f"the tools are: {', '.join(WORKSPACE_TOOL_NAMES)}")
    folder = str(Path(arguments.folder or ".").absolute())
    ruling = policy.authorize(arguments.tool, arguments.call, folder, root=folder)
    if screen.as_json:
        screen.data(ruling.to_dict())
    else:
        _show_ruling(screen, ruling)
    return OK if ruling.allowed else FAILURE


def _policy(arguments: argparse.Namespace) -> CommandPolicy:
    from skillyard.permissions import AllowedTools, CommandPolicy

    home = open_home(arguments)
    agent = home.agents().get(arguments.agent).settings if arguments.agent else {}
    followed = None
    if arguments.skill:
        catalog = open_catalog(arguments)
        tools = [tool for name in arguments.skill for tool in catalog.get(name).allowed_tools]
        followed = AllowedTools(tools, mode="enforce").command_rules()
    return CommandPolicy.of(
        home.configuration, agent=agent.get("commands"), tools=agent.get("tool_permissions"), skills=followed
    )


def _list_rules(screen: Screen, policy: CommandPolicy) -> None:
    rows = [(rule.level, rule.permission, rule.rule) for rule in policy.listed()]
    if screen.as_json:
        screen.data({"rules": [rule.to_dict() for rule in policy.listed()]})
    elif rows:
        screen.table(rows, header=("LEVEL", "SAYS", "RULE"), stretch=2)
    else:
        screen.note("no rules about commands; [permissions.commands] in skillyard.toml has them")


def _show_ruling(screen: Screen, ruling: CommandRuling) -> None:
    style = {"allow": "ok", "ask": "warning", "deny": "error"}[ruling.permission]
    screen.line(ruling.permission, style=style)
    screen.line(f"  {ruling.sentence}")
    if ruling.part and ruling.part != ruling.argument:
        screen.line(f"  it is about: {ruling.part}")
    if ruling.files:
        screen.line(f"  files it names: {', '.join(ruling.files)}")
    for decision in ruling.levels:
        screen.line(f"  {decision.level}: {decision.ruling.permission}, {decision.ruling.rule or decision.ruling.reason}")
