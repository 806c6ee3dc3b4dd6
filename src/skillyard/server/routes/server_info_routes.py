"""Information about the server: health, metrics, the protocols it speaks, its settings, and the doctor's checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from skillyard import __version__
from skillyard.doctor import MachineCheck, check_machine
from skillyard.errors import NotConfigured, ServerStopping
from skillyard.network.hosts import read_destination
from skillyard.server.authorization import OPEN, SERVER_ADMIN, CurrentCaller, require_scope
from skillyard.server.background.running_work import Notification
from skillyard.server.organisation_services import CurrentServices
from skillyard.server.responses import READ_PROBLEMS, WRITE_PROBLEMS
from skillyard.server.server_settings import NotificationKind, NotificationSettings
from skillyard.server.server_state import CurrentState
from skillyard.server.shapes import Answer, ResponseShape
from skillyard.times import utc_now, utc_text

health_routes: Final = APIRouter(tags=["health"])


class Health(BaseModel):
    """All is well; anything else is a problem."""

    status: Literal["ok"] = "ok"


@health_routes.get("/healthz", responses=READ_PROBLEMS, openapi_extra=OPEN)
async def alive() -> Health:
    """The process answers."""
    return Health()


@health_routes.get("/readyz", responses=READ_PROBLEMS, openapi_extra=OPEN)
def ready(service: CurrentServices, state: CurrentState) -> Health:
    """The records can be read, and the server is not shutting down."""
    if state.stopping.begun:
        raise ServerStopping("the server is about to stop", hint="ask another one, or this one when it is back")
    service.registry.installed.history(limit=1)
    return Health()


about_routes: Final = APIRouter(tags=["clients"])

_DOCUMENTATION: Final = "/openapi.json"


def _about(protocol: str, resources: list[str], use: str) -> dict[str, Any]:
    return {
        "server": "Skillyard",
        "version": __version__,
        "protocol": protocol,
        "resources": resources,
        "use": use,
        "documentation": _DOCUMENTATION,
    }


@about_routes.get("/anthropic", responses=READ_PROBLEMS, openapi_extra=OPEN)
@about_routes.get("/anthropic/v1", responses=READ_PROBLEMS, openapi_extra=OPEN, include_in_schema=False)
async def anthropic(request: Request) -> dict[str, Any]:
    """The protocol below /anthropic."""
    use = f'Anthropic(base_url="{_base(request)}/anthropic").beta.skills'
    return _about("Anthropic API, skills", ["/anthropic/v1/skills"], use)


@about_routes.get("/openai", responses=READ_PROBLEMS, openapi_extra=OPEN)
@about_routes.get("/openai/v1", responses=READ_PROBLEMS, openapi_extra=OPEN, include_in_schema=False)
async def openai(request: Request) -> dict[str, Any]:
    """The protocol below /openai/v1."""
    return _about("OpenAI API, skills", ["/openai/v1/skills"], f'OpenAI(base_url="{_base(request)}/openai/v1").skills')


@about_routes.get("/api/v1", responses=READ_PROBLEMS, openapi_extra=OPEN)
async def api(request: Request) -> dict[str, Any]:
    """The protocols below /api/v1: Skillyard's own routes, and ClawHub's."""
    resources = ["/api/v1/search", "/api/v1/skills", "/api/v1/resolve", "/api/v1/download", "/api/v1/whoami"]
    return _about("ClawHub v1, beside Skillyard's own routes", resources, f"clawhub --registry {_base(request)}")


@about_routes.get("/.well-known/clawhub.json", responses=READ_PROBLEMS, openapi_extra=OPEN)
@about_routes.get("/.well-known/clawdhub.json", responses=READ_PROBLEMS, openapi_extra=OPEN, include_in_schema=False)
async def clawhub(request: Request) -> dict[str, str]:
    """Where ClawHub's client, given this site, finds its registry."""
    return {"apiBase": _base(request), "authBase": _base(request), "minCliVersion": "0.18.0"}


def _base(request: Request) -> str:
    return str(request.base_url).rstrip("/")


machine_routes: Final = APIRouter(prefix="/api/v1", tags=["this machine"], dependencies=[require_scope("admin"), SERVER_ADMIN])


class RootDetail(BaseModel):
    """A folder that is looked at for skills, and how many it has."""

    path: str
    source: str
    status: str
    variable: str | None = Field(default=None, description="the environment variable that names it")
    reason: str | None
    skills: int


class RuleDetail(BaseModel):
    """One permission rule; the first or the last that fits decides, as `permission_match` says."""

    pattern: str
    permission: str


class NotificationsDetail(BaseModel):
    """Where notifications go, about which events, and whether they are signed."""

    host: str
    events: list[NotificationKind]
    signed: bool


class SettingsDetail(BaseModel):
    """What the settings files come to; `sandbox` is the user's table, with the names of what it grants and no value of them."""

    version: str
    project_root: str
    data_directory: str
    files: list[str]
    database: str
    package_store: str | None
    private_hosts: bool
    profile: str
    allowed_tools: Literal["off", "advise", "enforce"]
    allow_external_paths: bool
    permission_match: Literal["first", "last"]
    permissions: list[RuleDetail]
    roots: list[RootDetail]
    servers: list[str]
    sandbox: dict[str, Any]
    notifications: NotificationsDetail | None = Field(description="to a webhook, which the server's settings name")


class DoctorReport(ResponseShape):
    """Whether nothing that is needed is broken, and every check."""

    ok: bool
    checks: list[MachineCheck]


@machine_routes.get("/settings", responses=READ_PROBLEMS)
def settings(service: CurrentServices, state: CurrentState) -> Answer[SettingsDetail]:
    """The settings in force, without passwords and keys; change them in the settings files, not over HTTP."""
    catalog = service.catalog
    configuration = catalog.configuration
    files = (configuration.file, configuration.user_file)
    counts: dict[str, int] = {}
    for skill in catalog.all():
        counts[skill.root.path] = counts.get(skill.root.path, 0) + 1
    return Answer(
        data=SettingsDetail(
            version=__version__,
            project_root=catalog.project_root,
            data_directory=catalog.data_directory,
            files=[file for file in files if file and Path(file).is_file()],
            database=catalog.records().database.name,
            package_store=configuration.package_store,
            private_hosts=configuration.private_hosts,
            profile=configuration.profile,
            allowed_tools=configuration.allowed_tools,
            allow_external_paths=configuration.allow_external_paths,
            permission_match=configuration.permission_match,
            permissions=[RuleDetail(pattern=name, permission=word) for name, word in configuration.permissions.items()],
            roots=[
                RootDetail(
                    path=root.path,
                    source=root.source,
                    status=root.status,
                    variable=root.variable,
                    reason=root.reason,
                    skills=counts.get(root.path, 0),
                )
                for root in catalog.roots
            ],
            servers=sorted(configuration.servers),
            sandbox=_without_values(configuration.sandbox),
            notifications=_notifications(state.settings.notifications),
        )
    )


def _notifications(settings: NotificationSettings) -> NotificationsDetail | None:
    if not settings.url:
        return None
    host = read_destination(settings.url).host
    return NotificationsDetail(host=host, events=list(settings.events), signed=bool(settings.secret_variable))


@machine_routes.post("/notifications/test", responses=WRITE_PROBLEMS, dependencies=[require_scope("admin"), SERVER_ADMIN])
async def test_notification(state: CurrentState, caller: CurrentCaller) -> Answer[NotificationsDetail]:
    """Send a notification of the event `test` to the webhook of the settings, and report the result."""
    detail = _notifications(state.settings.notifications)
    if detail is None:
        raise NotConfigured("no webhook is set", hint="set its url in [server.notifications] of the user's settings")
    now = utc_now()
    text = f"{caller.name} tries the notifications of Skillyard"
    await state.notifier.send(Notification(f"test:{utc_text(now)}", "test", caller.organisation, text, "/settings", now))
    return Answer(data=detail)


@machine_routes.get("/doctor", responses=READ_PROBLEMS)
def doctor(service: CurrentServices) -> Answer[DoctorReport]:
    """Diagnose this machine, with a fix for what is missing; takes a second or two."""
    checks = check_machine(lambda: service.catalog)
    return Answer(data=DoctorReport(ok=all(check.status != "error" for check in checks), checks=checks))


def _without_values(table: Mapping[str, object]) -> dict[str, Any]:
    """The table; of variables that are granted only the names."""
    return {name: sorted(map(str, value)) if isinstance(value, Mapping) else value for name, value in table.items()}


_MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
metrics_routes: Final = APIRouter(tags=["metrics"], dependencies=[require_scope("admin"), SERVER_ADMIN])


@metrics_routes.get("/metrics", responses=READ_PROBLEMS, response_class=Response)
async def metrics(state: CurrentState) -> Response:
    """The counters of this server, for Prometheus."""
    return Response(await run_in_threadpool(state.metrics.text), media_type=_MEDIA_TYPE)
