"""Agents over HTTP: defined, changed, and shown with the exact prompt that each comes to; coding agents of this machine."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from skillyard.access import set_audit_subject
from skillyard.agent_definitions import AgentDraft, AgentPrompt, AgentSkill, choose_agent_skill, write_agent_prompt
from skillyard.coding_agents import LinkCheck, LinkReport, chosen_agents, coding_agents, skills_folders
from skillyard.coding_agents.skill_links import LinkForm, LinkState
from skillyard.errors import PermissionDenied, SkillNotFound
from skillyard.paths import real_path
from skillyard.permissions import CommandPolicy, CommandRuling
from skillyard.prompt import Style
from skillyard.server.authorization import UNRECORDED, CurrentCaller, require_scope, sits_here
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import READ_PROBLEMS, WRITE_PROBLEMS
from skillyard.server.shapes import Answer, Listed, RequestBody, ResponseShape, listed
from skillyard.server.shapes.chat_shapes import Permission, ToolName, ToolRules

routes: Final = APIRouter(prefix="/api/v1/agents", tags=["agents"], dependencies=[require_scope("skills:read")])

_WRITE: Final = require_scope("skills:write")
_WORKSPACE: Final = "/workspace"  # where paths in rules begin in a conversation
_Request = Annotated[str | None, Query(max_length=2000, description="what a person asks: the index is ranked for it")]


class AgentSkillChoice(RequestBody):
    """A skill for an agent, by its id or name; `version_lock` is a version or a range such as `^1.2.0`."""

    skill: str = Field(min_length=1, max_length=300)
    version_lock: str | None = Field(default=None, min_length=1, max_length=100)
    auto_update: bool = True


class AgentSettings(RequestBody):
    """What else holds for an agent.

    `permissions` and `commands` can only be stricter than the configured rules, `tool_permissions` switch tools by name,
    `pinned` skills are listed first, without `tools` its model has everything in text, without `workspace` it has no shell,
    code and files; without `pictures` it is sent none; `index_tokens` and `history_tokens` are budgets.
    """

    permissions: dict[str, Permission] | None = None
    commands: ToolRules | None = None
    tool_permissions: dict[ToolName, Permission] | None = None
    workspace: bool | None = None
    pinned: list[str] | None = Field(default=None, max_length=500)
    tools: bool | None = None
    index_tokens: int | None = Field(default=None, ge=0, le=100_000)
    history_tokens: int | None = Field(default=None, ge=1_000, le=10_000_000)
    temperature: float | None = Field(default=None, ge=0, le=2)
    pictures: bool | None = None


class AgentBody(RequestBody):
    """An agent as somebody writes it; no skills means all."""

    name: str = Field(min_length=1, max_length=100)
    description: str = Field(default="", max_length=2_000)
    system_prompt: str = Field(default="", max_length=200_000)
    model: str | None = Field(default=None, max_length=200)
    settings: AgentSettings = AgentSettings()
    skills: list[AgentSkillChoice] = Field(default=[], max_length=500)


class AgentPreview(AgentBody):
    """An agent that need not be kept, and how its prompt is to be written."""

    style: Style | None = None
    request: str | None = Field(default=None, max_length=2000)


class ToolCallCheck(RequestBody):
    """A call of a tool, to be decided with the rules of an agent that need not be kept; `argument` is its command or path."""

    argument: str = Field(min_length=1, max_length=20_000)
    tool: ToolName = "bash"
    commands: ToolRules = ToolRules()
    tool_permissions: dict[ToolName, Permission] = Field(default={})


class AgentSkillDetail(BaseModel):
    """A skill of an agent: `skill_id` is the id of an installed skill, or of another one in the catalog."""

    skill_id: str
    position: int
    version_lock: str | None
    auto_update: bool


class AgentDetail(ResponseShape):
    """An agent that is kept; `skills` by position, none means all."""

    id: str
    name: str
    description: str
    system_prompt: str
    model: str | None
    settings: AgentSettings
    skills: list[AgentSkillDetail]
    created_at: str
    updated_at: str


@routes.get("", responses=READ_PROBLEMS)
def list_agents(
    service: CurrentServices,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
) -> Listed[AgentDetail]:
    """The agents, by name."""
    agents = listed(service.catalog.agents().list(), page, limit)
    return Listed(data=[AgentDetail.of(agent) for agent in agents.data], meta=agents.meta)


@routes.post("", status_code=201, responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def create_agent(service: CurrentServices, body: AgentBody) -> Answer[AgentDetail]:
    """Create an agent; its skills must exist."""
    set_audit_subject(body.name)
    return Answer(data=AgentDetail.of(service.catalog.agents().create(_draft(service, body))))


@routes.post("/prompt-preview", responses=WRITE_PROBLEMS, dependencies=[UNRECORDED])
def preview_prompt(service: CurrentServices, body: AgentPreview) -> Answer[AgentPrompt]:
    """The exact prompt of an unsaved agent, and the tokens of each skill."""
    draft = _draft(service, body, existing=[choice.skill for choice in body.skills])
    return Answer(data=write_agent_prompt(draft, service.catalog, style=body.style, request=body.request))


@routes.post("/command-check", responses=WRITE_PROBLEMS, dependencies=[_WRITE, UNRECORDED])
def check_command(service: CurrentServices, body: ToolCallCheck) -> Answer[CommandRuling]:
    """Whether an unsaved agent with these rules may call a tool so in the workspace of a conversation."""
    policy = CommandPolicy.of(
        service.catalog.configuration,
        agent=body.commands.model_dump(exclude_none=True),
        tools={str(name): said for name, said in body.tool_permissions.items()},
    )
    ruling = policy.authorize(body.tool, body.argument, _WORKSPACE, root=_WORKSPACE)
    return Answer(data=ruling)


@routes.get("/{agent}", responses=READ_PROBLEMS)
def get_agent(service: CurrentServices, agent: str) -> Answer[AgentDetail]:
    """One agent, by its id or name."""
    return Answer(data=AgentDetail.of(service.catalog.agents().get(agent)))


@routes.put("/{agent}", responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def update_agent(service: CurrentServices, agent: str, body: AgentBody) -> Answer[AgentDetail]:
    """Replace an agent; skills that it has already may have been removed."""
    book = service.catalog.agents()
    before = book.get(agent)
    return Answer(
        data=AgentDetail.of(book.update(before.id, _draft(service, body, existing=[one.skill_id for one in before.skills])))
    )


@routes.delete("/{agent}", responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def delete_agent(service: CurrentServices, agent: str) -> Answer[AgentDetail]:
    """Delete an agent; the response has its last state."""
    return Answer(data=AgentDetail.of(service.catalog.agents().delete(agent)))


@routes.get("/{agent}/prompt", responses=READ_PROBLEMS)
def agent_prompt(
    service: CurrentServices, agent: str, style: Style | None = None, request: _Request = None
) -> Answer[AgentPrompt]:
    """The exact system prompt of an agent before the first message, and the tokens of each skill."""
    definition = service.catalog.agents().get(agent)
    return Answer(data=write_agent_prompt(definition, service.catalog, style=style, request=request))


def _draft(service: OrganisationServices, body: AgentBody, *, existing: Collection[str] = ()) -> AgentDraft:
    """The agent of a request; the `existing` skills of the agent may be missing."""
    return AgentDraft(
        name=body.name,
        description=body.description,
        system_prompt=body.system_prompt,
        model=body.model,
        settings=body.settings.model_dump(exclude_none=True),
        skills=tuple(_chosen(service, choice, existing) for choice in body.skills),
    )


def _chosen(service: OrganisationServices, choice: AgentSkillChoice, existing: Collection[str]) -> AgentSkill:
    try:
        return choose_agent_skill(
            service.catalog, choice.skill, version_lock=choice.version_lock, auto_update=choice.auto_update
        )
    except SkillNotFound:
        if choice.skill not in existing:
            raise
        return AgentSkill(choice.skill, choice.version_lock, choice.auto_update)


machine_routes: Final = APIRouter(
    prefix="/api/v1/coding-agents", tags=["coding agents"], dependencies=[require_scope("skills:read")]
)


class LinkedSkill(BaseModel):
    """A skill in the folder of a coding agent; `skill` is its id in the catalog, while it is there."""

    name: str
    skill: str | None
    path: str
    form: LinkForm
    state: LinkState


class MachineAgent(BaseModel):
    """A coding agent on this machine, the folder it has for skills of the user, and what Skillyard has put into its folders."""

    name: str
    title: str
    folder: str
    skills: list[LinkedSkill]


class MachineAgents(BaseModel):
    """The coding agents on this machine (`here`); only for users of this machine."""

    here: bool
    agents: list[MachineAgent]


class SkillInAgent(RequestBody):
    """Which skill is to be in the folder of which coding agent, or in it no more."""

    skill: str = Field(min_length=1, max_length=300)
    agent: str = Field(min_length=1, max_length=100)
    linked: bool


@machine_routes.get("", responses=READ_PROBLEMS)
def list_coding_agents(service: CurrentServices, request: Request, caller: CurrentCaller) -> Answer[MachineAgents]:
    """The coding agents on this machine and the skills in their folders; only for users of this machine without a key."""
    if not sits_here(request, caller):
        return Answer(data=MachineAgents(here=False, agents=[]))
    ids = {real_path(skill.directory): skill.id for skill in service.catalog.all() if skill.status != "shadowed"}
    links = [check for check in service.registry.links.check() if check.state != "withdrawn"]
    agents = [
        MachineAgent(
            name=agent.name,
            title=agent.title,
            folder=agent.user_skills,
            skills=[_linked(check, ids) for check in links if agent.name in check.link.agents],
        )
        for agent in coding_agents().values()
        if agent.detected
    ]
    return Answer(data=MachineAgents(here=True, agents=agents))


@machine_routes.put("", responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def link_skill(
    service: CurrentServices, request: Request, caller: CurrentCaller, body: SkillInAgent
) -> Answer[list[LinkReport]]:
    """Link a skill into the folder of a coding agent on this machine, or unlink it; an edited copy is kept."""
    if not sits_here(request, caller):
        raise PermissionDenied(
            "folders of coding agents are changed only by who sits at the server's machine",
            hint="`skillyard link NAME --to AGENT` does it on your own",
        )
    set_audit_subject(f"{body.skill} {'in' if body.linked else 'out of'} {body.agent}")
    registry, skill = service.registry, service.catalog.get(body.skill)
    with service.change_lock:
        if body.linked:
            folders = skills_folders(chosen_agents([body.agent]))
            return Answer(data=list(registry.agent_folders.put(service.catalog, skill, folders, copy=sys.platform == "win32")))
        return Answer(data=list(registry.links.remove(skill.slug, [body.agent])))


def _linked(check: LinkCheck, ids: Mapping[str, str]) -> LinkedSkill:
    link = check.link
    skill = f"installed:{link.skill_id}" if link.skill_id else ids.get(real_path(link.source))
    return LinkedSkill(name=link.name, skill=skill, path=link.path, form=link.form, state=check.state)
