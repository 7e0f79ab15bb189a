"""The composition root: the only module that names concrete classes together.

Owns the order in which a server comes up and goes down. `running` is one async context manager: inside it
the server serves; leaving it drains runs, ends streams and closes the store, bounded by the drain grace.
"""

import asyncio
import hashlib
import logging
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from jackline_server import failpoints
from jackline_server.api.server_info import ServerInfo
from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.config import Config, RunSettings, TenantLimits, model_plans
from jackline_server.config.masking import Veil
from jackline_server.core.frozen import frozen
from jackline_server.core.gate_plans import HookPlan
from jackline_server.core.instruments import Instruments
from jackline_server.core.plan import BoundsCap
from jackline_server.definitions.catalog import Catalog, FunctionDescription
from jackline_server.definitions.compiler import WorkflowCompiler
from jackline_server.definitions.shapes import KINDS
from jackline_server.egress.late import LateClients
from jackline_server.expressions.cel import CelExpressions
from jackline_server.expressions.linear_regex import LinearPatterns
from jackline_server.expressions.schemas import JsonSchemas
from jackline_server.folder import WorkflowFolder
from jackline_server.identity.local_token import LOCAL_PRINCIPAL, local_token, state_directory, token_path
from jackline_server.identity.principals import Principal
from jackline_server.identity.tokens import TokenRegister
from jackline_server.models.late import LateLiteLLMModels
from jackline_server.models.openai_adapter import OpenAIModels
from jackline_server.models.places import Places
from jackline_server.models.profile import ModelProfile
from jackline_server.models.router import ModelRouter
from jackline_server.models.script import Script, ScriptError, load_script
from jackline_server.models.scripted import ScriptedModels
from jackline_server.policies.consulting import EveryConsultant
from jackline_server.policies.hook_catalog import HookCatalog, HookProblem
from jackline_server.policies.hooks import HookConsultants
from jackline_server.policies.masking import REGIONS, PiiMasks
from jackline_server.policies.policy_services import PolicyServices
from jackline_server.rpc.server import RpcServer, Served, create_server
from jackline_server.runtime.assembly import Ring, Runtime, assemble
from jackline_server.runtime.driving.outboxes import Outbox
from jackline_server.runtime.driving.scheduler import SchedulerSettings
from jackline_server.runtime.driving.sweeping import Sweeper
from jackline_server.runtime.machine import SystemChance, SystemClock
from jackline_server.runtime.model_providers import LITELLM, OPENAI, SCRIPTED
from jackline_server.runtime.ports.connection_views import Connections
from jackline_server.runtime.ports.consultants import Consultants
from jackline_server.runtime.ports.models import Models
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.store_errors import StoreError
from jackline_server.runtime.run_limits import RunLimits
from jackline_server.runtime.service.webhooking import Webhooks
from jackline_server.signals.in_process import InProcessSignals
from jackline_server.storage.memory.store import memory_store
from jackline_server.storage.sqlite.store import SqliteSettings, open_sqlite
from jackline_server.storage.sqlite.upgrade import UpgradeSettings
from jackline_server.tools.catalogs import EveryCatalog
from jackline_server.tools.consulting import FunctionConsultants
from jackline_server.tools.function import FunctionTool
from jackline_server.tools.function_catalog import FunctionCatalog
from jackline_server.tools.grpc.targets import GrpcTargets
from jackline_server.tools.grpc.tool import GrpcCalls
from jackline_server.tools.http import HttpTool
from jackline_server.tools.isolated.hiding import hide_this_process
from jackline_server.tools.isolated.homes import Homes, temporary_homes
from jackline_server.tools.isolated.process import IsolatedFunctions
from jackline_server.tools.mcp.servers import McpServers
from jackline_server.tools.mcp.tool import McpToolCalls
from jackline_server.tools.sql.tool import SqlTool
from jackline_server.tools.toolbox import StepToolbox
from jackline_server.tools.worker.calls import WorkerCalls
from jackline_server.tools.worker.pools import WorkerPools
from jackline_server.webhooks.delivering import Deliverer, DeliveryTools
from jackline_server.webhooks.outbox import EndpointOutbox
from jackline_server.webhooks.sweeping import DeliverySweeper

_log = logging.getLogger(__name__)

FAILPOINTS_VARIABLE = "FAILPOINTS"
FUNCTION_THREADS = 32
CONSULT_THREADS = 8


@frozen
class Running:
    """A server that serves. `address` is `host:port` as bound."""

    address: str
    runtime: Runtime


@asynccontextmanager
async def running(
    config: Config, *, environ: Mapping[str, str], on_broken_store: Callable[[StoreError], None]
) -> AsyncGenerator[Running]:
    """Serve inside the context.

    `on_broken_store` is called when the store stops acknowledging for good; the process should end then.

    Raises:
        StoreError: the store can't be opened; its kinds are in `storage.boot_errors`.
        ScriptError: the script of a scripted model can't be read.
        AddressRefused: nothing can listen there.
        TokenFileRefused: the token of this machine can't be kept.
        BadSpecification: a failpoint is misspelt.
    """
    for notice in config.notices:
        _log.info("config: %s", notice)
    if config.server.enable_failpoints:
        failpoints.configure(environ.get(FAILPOINTS_VARIABLE, ""))
    broken = asyncio.Event()

    def on_broken(error: StoreError) -> None:
        broken.set()
        on_broken_store(error)

    async with AsyncExitStack() as stack:
        store, name = await _open_store(config, stack, on_broken)
        tools = await _tools(config, stack, keeps_data=not config.server.volatile)
        models = await _models(config, stack, tools, environ)
        consultants = _consultants(config, stack, tools)
        deliverer = _deliverer(config, stack, store, tools)
        runtime = assemble(
            _ring(config, store, models, tools, consultants, _outbox(config, deliverer)),
            _scheduling(config),
        )
        register = _Register()
        served = Served(
            runs=runtime.runs,
            threads=runtime.threads,
            workflows=runtime.workflows,
            webhooks=_webhooks(config, store, deliverer),
            kill_switch=runtime.kill_switch,
            workers=tools.workers,
            authenticate=register.authenticate,
            info=_info(config, store),
            connections=_connections(config, tools, models),
            clock=SystemClock(),
            page_key=hashlib.sha256(f"page tokens {name}".encode()).digest(),
        )
        server = create_server(served, reflection=config.server.reflection)
        folder = _folder(config, runtime)
        await folder.import_at_hand()
        address = await server.start(str(config.server.listen))
        stack.push_async_callback(_go_down, server, runtime, broken)
        register.open(config, environ, address)
        await runtime.scheduler.start()
        _beside(stack, folder.watch(), name="workflow folder")
        _look_after(runtime, store, stack)
        if config.webhooks:
            _beside(stack, deliverer.run(), name="webhooks")
        await server.set_serving(serving=True)
        yield Running(address=address, runtime=runtime)


@frozen
class Workbench:
    """What a config stands for without a server: its compiler, and tools behind the runtime's own doors."""

    compiler: WorkflowCompiler
    toolbox: StepToolbox
    catalogs: EveryCatalog
    sql: SqlTool
    clients: LateClients
    hooks: HookCatalog
    policies: PolicyServices


@asynccontextmanager
async def workbench(config: Config) -> AsyncGenerator[Workbench]:
    """The tools of a config, as a server would have them, for as long as the block runs.

    Opens no store and listens nowhere. An MCP server starts when it is first asked, and ends with the block.
    """
    async with AsyncExitStack() as stack:
        tools = await _tools(config, stack, keeps_data=False)
        policies = PolicyServices(config.policies, masks=PiiMasks())
        stack.push_async_callback(policies.close)
        yield Workbench(
            compiler=_compiler(config, tools),
            toolbox=_toolbox(config, tools),
            catalogs=tools.catalogs,
            sql=tools.sql,
            clients=tools.clients,
            hooks=tools.hooks,
            policies=policies,
        )


def _folder(config: Config, runtime: Runtime) -> WorkflowFolder:
    locked = {name for name, one in config.pinned_connections.items() if one.lock is not None}
    at_hand = locked | config.worker_connections.keys()
    return WorkflowFolder(config.server.workflows, workflows=runtime.workflows, at_hand=at_hand)


async def _go_down(server: RpcServer, runtime: Runtime, broken: asyncio.Event) -> None:
    """Say that the server goes, let runs and streams end, then close what is left."""
    await server.set_serving(serving=False)
    await runtime.shut_down(at_once=broken.is_set())
    await server.drain()
    await server.stop(grace_s=2)


def _look_after(runtime: Runtime, store: Store, stack: AsyncExitStack) -> None:
    """End what nobody owns any more and clear away what is over, for as long as the server serves."""
    _beside(stack, runtime.owning.run(), name="owners of runs")
    clock = SystemClock()
    _beside(stack, Sweeper(blobs=store.blobs, clock=clock).run(), name="sweeping blobs")
    _beside(stack, DeliverySweeper(queue=store.deliveries, clock=clock).run(), name="sweeping deliveries")


def _beside(stack: AsyncExitStack, work: Coroutine[object, object, object], *, name: str) -> None:
    """Have something done beside the runs for as long as the server serves."""
    task = asyncio.create_task(work, name=name)

    async def end() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(end)


# --- the ring ----------------------------------------------------------------------------------


async def _open_store(
    config: Config, stack: AsyncExitStack, on_broken: Callable[[StoreError], None]
) -> tuple[Store, str]:
    """The store and its random name."""
    lease_ms = config.server.lease_ttl_ms
    if config.server.volatile:
        return memory_store(lease_ms=lease_ms), SystemChance().new_id("")
    settings = SqliteSettings(
        lease_ms=lease_ms, on_broken=on_broken, upgrade=UpgradeSettings(release=own_version())
    )
    opened = await open_sqlite(config.server.data, settings)
    stack.push_async_callback(opened.close)
    if not opened.checked_whole:
        _log.warning("the search for damage in the store ran out of time; the rest is checked as it is read")
    return opened.store, opened.generation


async def _models(
    config: Config, stack: AsyncExitStack, tools: "_Tools", environ: Mapping[str, str]
) -> "_Models":
    profiles = {
        name: ModelProfile(
            api_key=profile.api_key,
            base_url=profile.base_url,
            script=profile.script,
            concurrency=profile.concurrency,
            requests_per_minute=profile.requests_per_minute,
            tokens_per_minute=profile.tokens_per_minute,
            headers=profile.headers,
            parameters=profile.params,
            api_version=profile.api_version,
            max_tokens_key=profile.max_tokens_key,
            streams="streaming" in profile.supports,
        )
        for name, profile in config.models.items()
    }
    scripts = await asyncio.to_thread(_scripts, config)
    litellm = LateLiteLLMModels(profiles=profiles)
    stack.push_async_callback(litellm.close)
    openai = OpenAIModels(profiles=profiles, pools=tools.clients, environ=environ)
    stack.push_async_callback(openai.close)
    router = ModelRouter(
        adapters={OPENAI: openai, LITELLM: litellm, SCRIPTED: ScriptedModels(scripts=scripts)},
        profiles=profiles,
    )
    return _Models(router=router, places=Places(profiles))


def _scripts(config: Config) -> dict[str, Script]:
    """The scripts of the scripted models. Raises ScriptError, with the place in the config first."""
    found: dict[str, Script] = {}
    for name, profile in config.models.items():
        if profile.script is None:
            continue
        try:
            found[name] = load_script(profile.script)
        except ScriptError as error:
            raise ScriptError(f"{profile.script_where}: models.{name}.script: {error}") from None
    return found


@frozen
class _Models:
    """How models are reached, and who may reach them when."""

    router: Models
    places: Places


@frozen
class _Tools:
    """Where tools come from."""

    clients: LateClients
    http: HttpTool
    functions: FunctionCatalog
    isolated: IsolatedFunctions
    mcp: McpServers
    grpc: GrpcTargets
    workers: WorkerPools
    catalogs: EveryCatalog
    sql: SqlTool
    hooks: HookCatalog


async def _tools(config: Config, stack: AsyncExitStack, *, keeps_data: bool) -> _Tools:
    clients = LateClients(own_ports=frozenset({config.server.listen.port} - {0}))
    mcp = McpServers(config.mcp_connections, clients=clients)
    stack.push_async_callback(mcp.close)
    grpc = GrpcTargets(config.grpc_connections)
    stack.push_async_callback(grpc.close)
    workers = WorkerPools(config.worker_connections, schemas=JsonSchemas(), clock=SystemClock())
    stack.push_async_callback(workers.close)
    sql = SqlTool(config.data_sources)
    stack.push_async_callback(sql.close)
    isolated = _isolated(config, stack, keeps_data=keeps_data)
    return _Tools(
        clients=clients,
        http=HttpTool(clients=clients, connections=config.connections),
        isolated=isolated,
        functions=FunctionCatalog(roots=config.function_roots),
        mcp=mcp,
        grpc=grpc,
        workers=workers,
        catalogs=EveryCatalog(mcp, grpc, workers),
        sql=sql,
        hooks=HookCatalog(tuple(config.hooks.values())),
    )


def _isolated(config: Config, stack: AsyncExitStack, *, keeps_data: bool) -> IsolatedFunctions:
    """`keeps_data`: there is a data folder, and it is ours."""
    processes = config.function_processes
    usual = config.server.data / "functions" if keeps_data else temporary_homes()
    homes = Homes(processes.folder or usual)
    stack.push_async_callback(homes.close)
    isolated = IsolatedFunctions(roots=config.function_roots, processes=processes, homes=homes)
    stack.push_async_callback(isolated.close)
    if config.function_roots:
        homes.tidy()
        if processes.hide_server:
            hide_this_process()
    return isolated


def _consultants(config: Config, stack: AsyncExitStack, tools: _Tools) -> EveryConsultant:
    hooks = HookConsultants(tools.hooks, threads=CONSULT_THREADS)
    stack.push_async_callback(hooks.close)
    policies = PolicyServices(config.policies, masks=PiiMasks())
    stack.push_async_callback(policies.close)
    functions = FunctionTool(catalog=tools.functions, threads=CONSULT_THREADS)
    return EveryConsultant(functions=FunctionConsultants(functions=functions), hooks=hooks, policies=policies)


def _ring(
    config: Config,
    store: Store,
    models: _Models,
    tools: _Tools,
    consultants: Consultants,
    outbox: Outbox | None,
) -> Ring:
    return Ring(
        store=store,
        models=models.router,
        places=models.places,
        toolbox=_toolbox(config, tools),
        codec=ProtoCodec(),
        compiler=_compiler(config, tools),
        instruments=Instruments(
            expressions=CelExpressions(), schemas=JsonSchemas(), patterns=LinearPatterns()
        ),
        signals=InProcessSignals(),
        clock=SystemClock(),
        chance=SystemChance(),
        catalogs=tools.catalogs,
        run_result_bytes=config.run.stored_bytes,
        consultants=consultants,
        masks=PiiMasks(),
        held=tools.mcp,
        outbox=outbox,
        limits=_run_limits(config.tenant, config.run),
    )


def _connections(config: Config, tools: _Tools, models: _Models) -> Connections:
    veil = Veil(secret.reveal() for secret in config.all_hidden)
    return Connections(
        tools.http, tools.mcp, tools.grpc, tools.sql, tools.workers, models.places, veil=veil.over
    )


def _deliverer(config: Config, stack: AsyncExitStack, store: Store, tools: _Tools) -> Deliverer:
    deliverer = Deliverer(
        tuple(config.webhooks.values()),
        tools=DeliveryTools(
            queue=store.deliveries, pools=tools.clients, clock=SystemClock(), chance=SystemChance()
        ),
    )
    stack.push_async_callback(deliverer.close)
    return deliverer


def _outbox(config: Config, deliverer: Deliverer) -> Outbox | None:
    if not config.webhooks:
        return None
    return EndpointOutbox(tuple(config.webhooks.values()), on_owed=deliverer.nudge)


def _webhooks(config: Config, store: Store, deliverer: Deliverer) -> Webhooks:
    return Webhooks(config.webhooks, log=store.deliveries, sender=deliverer, clock=SystemClock())


def _run_limits(tenant: TenantLimits, run: RunSettings) -> RunLimits:
    return RunLimits(
        most=BoundsCap(
            run_timeout_ms=tenant.run_timeout_ms,
            token_budget=tenant.run_token_budget,
            cost_budget_micros=tenant.run_cost_budget_micros,
        ),
        starter_adjusts=tenant.adjust_own_runs,
        start_delay_ms=run.start_delay_ms,
        own_approvals=_own_approvals(tenant.approve_own_runs),
    )


def _own_approvals(allowed: bool | None) -> frozenset[str] | None:  # noqa: FBT001 - the value of a key
    """Who may approve calls of runs of their own; left out, it is whoever sits at this machine."""
    if allowed is None:
        return frozenset({LOCAL_PRINCIPAL})
    return None if allowed else frozenset()


def _toolbox(config: Config, tools: _Tools) -> StepToolbox:
    return StepToolbox(
        http=tools.http,
        functions=FunctionTool(
            catalog=tools.functions,
            threads=FUNCTION_THREADS,
            isolated=tools.isolated,
        ),
        mcp=McpToolCalls(servers=tools.mcp, schemas=JsonSchemas()),
        sql=tools.sql,
        grpc=GrpcCalls(targets=tools.grpc),
        workers=WorkerCalls(pools=tools.workers, schemas=JsonSchemas()),
    )


def _compiler(config: Config, tools: _Tools) -> WorkflowCompiler:
    return WorkflowCompiler(
        catalog=Catalog(
            models=model_plans(config),
            fallbacks={name: profile.fallbacks for name, profile in config.models.items()},
            http_connections=frozenset(config.connections),
            functions=_Described(tools.functions),
            mcp=tools.mcp,
            grpc=tools.grpc,
            workers=tools.workers,
            data_sources=config.data_sources,
            hooks=_DeclaredHooks(tools.hooks),
            policies=frozenset(config.policies),
            regions=REGIONS,
        ),
        expressions=CelExpressions(),
        schemas=JsonSchemas(),
        encode_plan=ProtoCodec().encode_plan,
    )


@dataclass(frozen=True, slots=True)
class _Described:
    """The function catalog in the words of the compiler."""

    catalog: FunctionCatalog

    def describe(self, function: str) -> FunctionDescription | str:
        found = self.catalog.describe(function)
        if isinstance(found, str):
            return found
        return FunctionDescription(parameters_json=found.parameters_json, docstring=found.description)


@dataclass(frozen=True, slots=True)
class _DeclaredHooks:
    """The hook catalog in the words of the compiler."""

    catalog: HookCatalog

    def names(self) -> tuple[str, ...]:
        return self.catalog.names

    def describe(self, name: str) -> HookPlan | str:
        try:
            found = self.catalog.find(name)
        except HookProblem as problem:
            return str(problem)
        return HookPlan(
            name=name,
            points=frozenset(found.methods),
            timeout_ms=found.declaration.timeout_ms,
            on_error=found.declaration.on_error,
        )


def _scheduling(config: Config) -> SchedulerSettings:
    server = config.server
    limit = server.max_active_runs
    if config.tenant.active_runs is not None:
        limit = min(limit, config.tenant.active_runs)
    return SchedulerSettings(
        worker=SystemChance().new_id(f"{socket.gethostname()}-"),
        max_active_runs=limit,
        lease_ms=server.lease_ttl_ms,
        drain_grace_ms=server.drain_grace_ms,
    )


def _info(config: Config, store: Store) -> ServerInfo:
    return ServerInfo(
        version=own_version(),
        durability=store.durability,
        step_kinds=sorted(KINDS),
        models=sorted(config.models),
    )


def own_version() -> str:
    """The version of this installation, `0+unknown` when it runs from source."""
    try:
        return version("jackline")
    except PackageNotFoundError:
        return "0+unknown"


class _Register:
    """Who may call. Nobody until the address is bound: the token's file is named after it."""

    def __init__(self) -> None:
        self._register = TokenRegister(())

    def open(self, config: Config, environ: Mapping[str, str], address: str) -> None:
        """Take in the token of this machine, made now if there is none. Raises TokenFileRefused."""
        host, port = config.server.listen.host, int(address.rpartition(":")[2])
        self._register = TokenRegister([local_token(token_path(state_directory(environ), host, port))])

    def authenticate(self, token: str) -> Principal | None:
        """The principal of a token, if it is one of ours."""
        return self._register.authenticate(token)
