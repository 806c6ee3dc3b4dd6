"""Runs skills: selects the entry and the policy, calls a sandbox or a remote service, and reads the result."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from skillyard.environments import (
    NO_GRANT,
    EnvironmentRequest,
    GrantStore,
    SkillGrant,
    granted_programs,
    index_settings,
    require_programs,
    with_registries,
)
from skillyard.errors import ExecutionProblem, FileMissing, InvalidInput, InvalidPolicy, SkillyardError
from skillyard.execution.kinds import (
    KindUnavailable,
    RemoteCall,
    conventional_entry,
    fallback_kinds,
    fallback_warning,
    find_entry,
    has_data,
    is_module_name,
    read_static,
    scripts_in,
    unavailable_message,
)
from skillyard.execution.remote_services import (
    NO_ENDPOINT,
    McpServer,
    call_server,
    call_service,
    declared_worker_pool,
    has_endpoint,
    read_servers,
    server_problem,
)
from skillyard.execution.run import Run, RunError, read_outcome, unwrapped
from skillyard.execution.run_inputs import collect_files, work_folder
from skillyard.execution.run_report import missing_execute, output_value, run_from_answer, run_from_outcome
from skillyard.execution.skill_call import (
    RunRequest,
    SkillCall,
    check_call,
    request_document,
    require_approved,
    verify_copy,
    with_defaults,
    without_credentials,
)
from skillyard.sandbox import (
    GrantedEnvironment,
    Job,
    Policy,
    RunMode,
    SandboxBackend,
    SandboxResult,
    can_start,
    choose_backend,
    container_image,
    effective_policy,
    lowered_ceiling,
    narrowing_warnings,
    prewarm_count,
)

if TYPE_CHECKING:
    from skillyard.catalog import Configuration, Skill
    from skillyard.document import Document, Metadata
    from skillyard.sandbox import WarmPool


_SDK_FILES: Final = ("__init__.py", "index.cjs", "index.mjs", "package.json", "testing.cjs", "testing.mjs")


@cache
def sdk_files() -> Mapping[str, bytes]:
    """What a script may import as `skillyard_sdk`, in Python and in JavaScript: relative paths and content."""
    folder = Path(__file__).with_name("sdk")
    return MappingProxyType({f"skillyard_sdk/{name}": folder.joinpath(name).read_bytes() for name in _SDK_FILES})


_ONLY_SCRIPTS: Final = "arguments, packages and files are for scripts: this skill works elsewhere and got its parameters only"
_NO_FILES: Final = (
    "the skill declares `requires_filesystem: true`, and the operator allows no files: "
    'set `filesystem = "read-only"` or `"read-write"` in [sandbox]'
)
REMOTE_KINDS: Final = ("service", "distributed")
"""The kinds of skills that a remote service or server executes."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A job within the operator's limits, the policy that was `asked` for, and the granted programs that are here."""

    job: Job
    asked: Policy
    programs: GrantedEnvironment


@dataclass(frozen=True, slots=True)
class RemoteSkills:
    """Remote targets: the registered MCP `servers`, and services; granted secrets go to `secret_hosts` only."""

    servers: Mapping[str, McpServer]
    ceiling: Policy
    secret_hosts: tuple[str, ...]

    def can_call(self, skill: Skill) -> bool:
        """Whether the skill names a service, or a server that is registered here."""
        try:
            config = skill.document().metadata.config
        except (SkillyardError, OSError):
            return False
        if skill.kind == "distributed" and server_problem(config, self.servers) is None:
            return True
        return has_endpoint(config)

    def problem(self, kind: str, config: Mapping[str, object]) -> str:
        """What is missing for a skill of that kind that cannot be called."""
        missing = server_problem(config, self.servers) if kind == "distributed" else None
        return missing or NO_ENDPOINT

    async def ask(self, kind: str, call: SkillCall) -> Run:
        """Run a skill as that kind, within its policy.

        Raises:
            KindUnavailable: no remote executor offers it.
            PermissionDenied: its content is not what was approved.
        """
        declared = Policy.from_security(call.metadata.security)
        policy = effective_policy(declared, self.ceiling)
        await require_approved(call)
        began = time.monotonic()
        remote = RemoteCall(call.metadata.config, call.request.parameters, policy, self.ceiling)
        if kind == "service":
            answer = await call_service(remote, self.secret_hosts)
        else:
            answer = await call_server(remote, self.servers)
        run = await run_from_answer(replace(call, warnings=(*call.warnings, *narrowing_warnings(declared, policy))), answer)
        return replace(run, duration_ms=round((time.monotonic() - began) * 1000))


class Executor:
    """Runs skills: scripts in a sandbox, never outside one; services and tools of MCP servers within the same policy.

    `ceiling` is the most any run may do (`Policy.ceiling()` when absent); `backend` names the only sandbox to use,
    otherwise the strongest that can enforce the run's policy is chosen. With `install` packages that a skill declares
    are downloaded when they are not there yet, from where the settings in `index` (`package-index`, `npm-registry`, …) say.
    `grants` tells what else was granted to which skill; with `requests_grant` a request grants what it names, because its
    caller speaks for the operator. Granted programs raise the limits they need, but for those in `fixed`, which the operator
    has set. `servers` are the MCP servers that skills of kind `distributed` may name. `secret_hosts` are the hosts that granted
    secrets may go to in a header; left out, those of the ceiling, and none at all when that allows any host. With `prewarm`
    (from 1 to 8) that many sandboxes are made ready for each Python skill that has run, so that its next runs start at once;
    `close` ends them, as the end of the event loop does.

    `pools` are the worker pools that this process works for: a skill that names one of them runs its own script.

    Raises:
        InvalidInput: that many sandboxes cannot be kept ready.
    """

    def __init__(
        self,
        *,
        ceiling: Policy | None = None,
        backend: str | None = None,
        container_image: str = "",
        install: bool = False,
        index: Mapping[str, object] | None = None,
        servers: Mapping[str, McpServer] | None = None,
        secret_hosts: Sequence[str] | None = None,
        prewarm: int = 0,
        pools: Collection[str] = (),
        grants: GrantStore | None = None,
        fixed: Collection[str] = (),
        requests_grant: bool = False,
    ) -> None:
        if prewarm:
            from skillyard.packages import tree_digest  # the one measure of a skill's content

        self._install = install
        self._requests_grant = requests_grant
        self._index = dict(index or {})
        self._grants = grants or GrantStore()
        self._fixed = frozenset(fixed)
        self._pools = frozenset(pools)
        self._pool: WarmPool | None = None
        if prewarm:
            from skillyard.sandbox import WarmPool  # with it comes bubblewrap, which a static skill does not need

            self._pool = WarmPool(prewarm, tree_digest)
        self._ceiling = ceiling or Policy.ceiling()
        self._backend = backend
        self._container_image = container_image
        hosts = self._ceiling.network_allowlist if secret_hosts is None else secret_hosts
        self._remote = RemoteSkills(dict(servers or {}), self._ceiling, tuple(hosts))

    @classmethod
    def from_configuration(
        cls,
        configuration: Configuration,
        *,
        timeout_ms: int | None = None,
        install: bool = False,
        requests_grant: bool = False,
        prewarm: int | None = None,
        pools: Collection[str] = (),
        data: str | None = None,
    ) -> Self:
        """An executor within the `[sandbox]` tables of a configuration, and at most `timeout_ms` milliseconds for each run.

        The user's table is the ceiling; the project's can only lower it. Secrets go to hosts that the user names, and the MCP
        servers are the user's own. With `install`, or where the user's table says `install-dependencies`, packages that skills
        declare are downloaded; with `requests_grant` a request grants what it names. `prewarm` replaces the number of the
        user's table. Consents to packages are kept in `data`, absent in Skillyard's own folder.

        Raises:
            InvalidPolicy: a table says something that cannot be meant.
            InvalidConfiguration: so does the table of a server.
        """
        ceiling = Policy.ceiling(configuration.sandbox)
        secret_hosts = ceiling.network_allowlist
        if configuration.project_sandbox:
            ceiling = lowered_ceiling(ceiling, configuration.project_sandbox)
        if timeout_ms is not None:
            ceiling = replace(ceiling, timeout_ms=min(timeout_ms, ceiling.timeout_ms))
        backend = configuration.sandbox.get("backend")
        allowed = configuration.sandbox.get("install-dependencies", False)
        if not isinstance(allowed, bool):
            raise InvalidPolicy("install-dependencies must be true or false", hint="fix the [sandbox] table")
        return cls(
            ceiling=ceiling,
            backend=backend if isinstance(backend, str) else None,
            container_image=container_image(configuration.sandbox),
            install=install or allowed,
            requests_grant=requests_grant,
            index=index_settings(configuration.sandbox),
            servers=read_servers(configuration.servers, configuration.user_file or "skillyard.toml"),
            secret_hosts=secret_hosts,
            prewarm=prewarm_count(configuration.sandbox) if prewarm is None else prewarm,
            pools=pools,
            grants=GrantStore.configured(configuration, data),
            fixed=[name.replace("-", "_") for name in (*configuration.sandbox, *configuration.project_sandbox)]
            + (["timeout_ms"] if timeout_ms is not None else []),
        )

    @property
    def timeout_ms(self) -> int:
        """The longest that any run may take, in milliseconds."""
        return self._ceiling.timeout_ms

    async def close(self) -> None:
        """Close the standby sandboxes; later runs start their own."""
        if self._pool is not None:
            await self._pool.close()

    def can_run(self, skill: Skill) -> bool:
        """Whether the skill has something this executor could start; looks at files, starts nothing."""
        if skill.kind in REMOTE_KINDS and self._remote.can_call(skill):
            return True
        if not skill.has_entry:  # part of the summary: the file need not be read
            entry = conventional_entry(skill.directory)
            return can_start(entry) if entry is not None else any(map(can_start, scripts_in(skill.directory, "scripts")))
        try:
            document = skill.document()
            if skill.kind == "static" and has_data(document.metadata.config):
                return True
            return can_start(find_entry(skill, document))
        except (SkillyardError, OSError):
            return False

    async def run(self, request: RunRequest) -> Run:
        """Execute a request and return the result.

        Raises:
            NotExecutable: the skill has nothing to run.
            PathRefused, FileMissing, FileTooLarge: its entry or a file cannot be used.
            InvalidPolicy: its `security:` block says something impossible.
            RuntimeUnavailable: no interpreter for its entry.
            DependenciesUnavailable: packages it asks for are not installed.
            SandboxUnavailable: nothing here can enforce its policy.
            PermissionDenied: its content is not what the request's `digest` says.
        """
        from skillyard.catalog.skill import held_version

        with held_version(request.skill) as skill:
            return await self._run(replace(request, skill=skill), skill.document())

    async def _run(self, request: RunRequest, document: Document) -> Run:
        metadata = document.metadata
        context, warnings = without_credentials(request.context)
        parameters = with_defaults(metadata.input_schema, request.parameters)
        request = replace(request, parameters=parameters, context=context)
        call = SkillCall(request, metadata, warnings)
        is_program = request.arguments and not request.parameters
        checked = call if is_program else await check_call(call)
        if isinstance(checked, Run):
            return checked if request.entry is not None else self._unfit(checked, request, metadata)
        if request.entry is not None:
            entry = find_entry(request.skill, document, request.entry)
            return await self._run_script(checked, entry, as_module=is_module_name(request.entry, entry))
        return await self._run_kind(checked, document)

    def _unfit(self, run: Run, request: RunRequest, metadata: Metadata) -> Run:
        """A run that failed because of its parameters; a skill that cannot run here at all fails with that reason instead."""
        skill = request.skill
        if skill.kind not in REMOTE_KINDS or self.can_run(skill):
            return run
        reason = request.unavailable or self._remote.problem(skill.kind, metadata.config)
        message = unavailable_message([KindUnavailable(skill.kind, reason)])
        return replace(run, status="unavailable", error=RunError("kind_unavailable", message))

    async def _run_kind(self, call: SkillCall, document: Document) -> Run:
        """Run the skill as its kind; where that is unavailable, as its fallback kind."""
        tried: list[KindUnavailable] = []
        unavailable = call.request.unavailable
        for kind in fallback_kinds(call.skill.kind):
            try:
                if unavailable is not None and not tried:
                    raise KindUnavailable(kind, unavailable)
                run = await self._run_as(kind, call, document, is_fallback=bool(tried))
            except KindUnavailable as reason:
                tried.append(reason)
                continue
            run = replace(run, kind=kind)
            return replace(run, warnings=(fallback_warning(tried[0], kind), *run.warnings)) if tried else run
        if tried[0].error is not None:
            raise tried[0].error
        return call.refused("kind_unavailable", unavailable_message(tried), status="unavailable")

    async def _run_as(self, kind: str, call: SkillCall, document: Document, *, is_fallback: bool) -> Run:
        config = call.metadata.config
        if kind == "static":
            output = read_static(call.skill.directory, config)
            await require_approved(call)
            return await run_from_outcome(call, read_outcome(output), None)
        is_local = kind == "distributed" and declared_worker_pool(config) in self._pools
        if kind in REMOTE_KINDS and not is_local:
            if not call.request.is_plain:
                call = replace(call, warnings=(*call.warnings, _ONLY_SCRIPTS))
            return await self._remote.ask(kind, call)
        try:
            return await self._run_script(call, find_entry(call.skill, document))
        except (ExecutionProblem, FileMissing) as problem:
            if is_fallback:
                raise KindUnavailable(kind, problem.message) from None
            raise

    async def run_test(self, skill: Skill, script: str, *, digest: str | None = None) -> Run:
        """Run a script of the skill that tests it: without parameters, seeing the whole skill, judged by its exit code alone.

        Raises:
            PathRefused, FileMissing, FileTooLarge, NotExecutable, InvalidPolicy, RuntimeUnavailable, SandboxUnavailable,
            PermissionDenied: as `run`.
        """
        metadata = skill.document().metadata
        declared = Policy.from_security(metadata.security)
        if declared.filesystem == "none":
            declared = replace(declared, filesystem="read-only")
        call = SkillCall(RunRequest(skill, digest=digest), metadata)
        call, result = await self._sandboxed(call, self._prepared(call, script, declared, request_document(call), mode="test"))
        return await run_from_outcome(call, read_outcome(None), result)

    def _granted(self, request: RunRequest) -> tuple[SkillGrant, SkillGrant]:
        """What is granted to this run, and what its request names beside; its programs have to be here."""
        granted = self._grants.granted(request.skill)
        if not request.packages:
            return granted, NO_GRANT
        requested = SkillGrant.from_words(request.packages)
        if self._requests_grant:
            granted = granted.merged(requested)
        require_programs(requested.programs, granted.programs)
        return granted, requested

    async def _run_script(self, call: SkillCall, entry: str, *, as_module: bool = False) -> Run:
        """Run one script of the skill, in a work folder of its own where it is given none and may need one."""
        try:
            stdin = request_document(call)
        except InvalidInput as error:
            return call.refused("VALIDATION_FAILED", error.message)
        declared = Policy.from_security(call.metadata.security)
        request, requires_files = call.request, _security_field(call.metadata.security, "requires_filesystem") is True
        if requires_files and self._ceiling.filesystem == "none":
            return call.refused("SECURITY_VALIDATION_ERROR", _NO_FILES, status="denied")
        begins_empty = request.workspace is None and bool(
            request.files
            or request.arguments
            or request.entry is not None
            or declared.filesystem == "read-write"
            or requires_files
        )
        with work_folder(request.files) if begins_empty and declared.filesystem != "none" else nullcontext() as folder:
            prepared = self._prepared(call, entry, declared, stdin, folder=folder or "", as_module=as_module)
            call, result = await self._sandboxed(call, prepared)
            made, problems = collect_files(folder, result.files) if folder else ((), ())
        run = await run_from_outcome(call, read_outcome(unwrapped(output_value(result))), result)
        if request.entry is None and not request.arguments:
            run = missing_execute(run, result, entry)
        if folder:
            run = replace(run, made=made, files=tuple(file.name for file in made), warnings=(*run.warnings, *problems))
        return run

    def _prepared(
        self, call: SkillCall, entry: str, declared: Policy, stdin: bytes, *,
        folder: str = "", mode: RunMode = "call", as_module: bool = False,
    ) -> _Prepared:  # fmt: skip
        """The job for one script of the skill, within what the operator allows."""
        request = call.request
        workspace = (request.workspace or folder) if declared.filesystem != "none" else ""
        asked = declared
        if workspace and not declares_filesystem(call.metadata.security):  # who gives files to work on wants them worked on
            asked = replace(declared, filesystem="read-write")
        grant, requested = self._granted(request)
        environment = EnvironmentRequest(entry, grant, self._install, self._index, requested)  # for the verified copy
        programs = granted_programs(grant.programs)
        if grant.registries:
            programs = with_registries(programs, self._index)
        asked = programs.raised(asked)
        policy = effective_policy(asked, programs.raised(self._ceiling, fixed=self._fixed))
        if folder and not request.files and declared.filesystem != "read-write":  # nobody has asked for the empty folder
            asked = replace(asked, filesystem=policy.filesystem)
        verify = partial(verify_copy, call) if request.digest else None
        job = Job(
            call.skill.directory, entry, stdin, policy, request.arguments, verify, sdk_files(), environment, mode, as_module,
            workspace if policy.filesystem != "none" else "",
        )  # fmt: skip
        return _Prepared(job, asked, programs)

    async def _sandboxed(self, call: SkillCall, prepared: _Prepared) -> tuple[SkillCall, SandboxResult]:
        """What the sandbox says about one script, and the call with the warnings on the way."""
        import asyncio  # only a run needs it; everything above works without a loop

        job = prepared.job
        # The first choice of a process attacks the backends, which takes a while.
        backend = await asyncio.to_thread(choose_backend, job.policy, self._backend, container_image=self._container_image)
        result = await (self._pool.run(backend, job) if self._pool and job.mode == "call" else backend.run(job))
        narrowed = narrowing_warnings(prepared.asked, job.policy)
        warnings = (*narrowed, *_socket_warnings(prepared.programs, backend), *result.warnings)
        return replace(call, warnings=(*call.warnings, *warnings)), result


def _socket_warnings(programs: GrantedEnvironment, backend: SandboxBackend) -> tuple[str, ...]:
    """That a granted program talks through sockets, where the backend has no network of its own to keep them in."""
    if not programs.local_sockets or backend.level != "lsm":
        return ()
    names = ", ".join(programs.programs)
    return (f"granted programs ({names}) talk through sockets, which the sandbox {backend.name} refuses: install bubblewrap",)


def declares_filesystem(security: object) -> bool:
    """Whether a skill says itself what it may do with files."""
    return _security_field(security, "filesystem") is not None


def _security_field(security: object, name: str) -> object:
    """What a skill's `security` says in a field; None when it says nothing."""
    return security.get(name) if isinstance(security, Mapping) else getattr(security, name, None)
