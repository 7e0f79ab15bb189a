"""From a source to a plan, or to the findings that say why not.

Owns the order of the stages: text, tree, shapes, steps, checks, digest. Does not own any of them.
"""

import dataclasses
import hashlib
import re
from collections.abc import Callable, Mapping

from jackline_server.core.frozen import frozen
from jackline_server.core.plan import OnPauseMax, OnQuestion, PausePlan, Plan, RunBounds
from jackline_server.definitions import (
    approvals,
    assets,
    bounds_caps,
    check_bounds,
    check_flow,
    check_limits,
    check_names,
    check_stop,
    check_supervisor,
    child_inputs,
    child_steps,
    defaults,
    given_inputs,
    human_steps,
    reading,
    yaml_text,
)
from jackline_server.definitions.assets import Assets
from jackline_server.definitions.catalog import Catalog
from jackline_server.definitions.child_inputs import ChildInputs
from jackline_server.definitions.expression_checks import ExpressionChecker
from jackline_server.definitions.gating import Gating
from jackline_server.definitions.grpc_steps import GrpcSteps
from jackline_server.definitions.mcp_steps import McpSteps
from jackline_server.definitions.parameters import Parameters, SchemaChecker, json_text
from jackline_server.definitions.pinned_source import GRPC_WORDS, WORKER_WORDS, PinnedSource
from jackline_server.definitions.presets import PRESETS, Preset
from jackline_server.definitions.reading import Draft
from jackline_server.definitions.report import Report, TooManyErrors
from jackline_server.definitions.resolving import Resolver
from jackline_server.definitions.shapes import WorkflowShape
from jackline_server.definitions.supervising import Supervising
from jackline_server.definitions.worker_steps import WorkerSteps
from jackline_server.definitions.yaml_nodes import MapNode, Path, ScalarNode, scalars
from jackline_server.runtime.ports.definitions import Compilation, Signature, Source, WorstCase

_REFERENCE = re.compile(r"\$\{\s*(?:env|file)\s*:", re.IGNORECASE)
MAX_PATTERNS = 100
"""Compiling one takes up to 20 ms, and it may stand in thousands of places."""

MAX_REFERENCES = 20
"""So many are pointed out; they are of one kind."""

_CONTINUABLE = frozenset({"duplicate_key", "tag", "anchor", "bad_key", "bad_number", "yaml_version"})
"""Problems of the text that leave a tree worth checking, so that all is reported at once."""


class WorkflowCompiler:
    """Implements the runtime's Compiler. Keeps nothing between calls; safe to share between threads."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        expressions: ExpressionChecker,
        schemas: SchemaChecker,
        encode_plan: Callable[[Plan], bytes],
    ) -> None:
        self._catalog = catalog
        self._expressions = expressions
        self._schemas = schemas
        self._encode_plan = encode_plan

    def compile(self, source: Source) -> Compilation:
        """Check and compile. CPU only, bounded by the sizes of the source; raises nothing."""
        report = Report(file=source.file)
        root: MapNode | None = None
        try:
            assets.check_source(source, report)
            root = _tree(source, report)
            draft = reading.read(root, report) if root is not None else None
            if draft is not None:
                return self._compiled(draft, source, report)
            if root is not None:
                report.not_all_checked()
        except TooManyErrors:
            pass  # the report says so
        return Compilation(
            name=_name(root),
            revision=revision(source),
            plan=None,
            findings=report.findings(),
            worst_case=None,
        )

    def signature(self, source: Source) -> Signature | None:
        """See `Compiler.signature`."""
        report = Report(file=source.file)
        try:
            root = _tree(source, report)
            draft = None if root is None else reading.read(root, report)
        except TooManyErrors:
            draft = None
        return None if draft is None else child_inputs.signature_of(draft)

    def _compiled(self, draft: Draft, source: Source, report: Report) -> Compilation:
        mcp = PinnedSource(source=source, known=self._catalog.mcp, report=report)
        parameters = Parameters(schemas=self._schemas, report=report)
        steps = McpSteps(mcp=mcp, parameters=parameters, report=report)
        methods = PinnedSource(source=source, known=self._catalog.grpc, report=report, words=GRPC_WORDS)
        grpc = GrpcSteps(source=methods, parameters=parameters, report=report)
        served = PinnedSource(source=source, known=self._catalog.workers, report=report, words=WORKER_WORDS)
        workers = WorkerSteps(source=served, parameters=parameters, report=report)
        draft = human_steps.expanded(steps.expanded(draft), report)
        runs = ChildInputs(known=source.known, parameters=parameters, report=report)
        plan = self._plan(draft, source, _Elsewhere(mcp=steps, grpc=grpc, workers=workers, runs=runs))
        worst = self._check(plan, draft, runs, report)
        pins = {**mcp.pins(), **methods.pins(), **served.pins()}
        if not report.has_errors:
            plan = dataclasses.replace(plan, revision=revision(source, pins))
        return Compilation(
            name=plan.name,
            revision=plan.revision,
            plan=None if report.has_errors else self._sealed(plan),
            findings=report.findings(),
            worst_case=worst,
            catalogs={**mcp.catalogs, **methods.catalogs, **served.catalogs},
            pins={} if report.has_errors else pins,
            runs=child_inputs.references(draft.steps),
        )

    def _plan(self, draft: Draft, source: Source, elsewhere: "_Elsewhere") -> Plan:
        top, parameters, report = draft.top, elsewhere.mcp.parameters, elsewhere.mcp.report
        preset = PRESETS[top.preset]
        files = Assets(source=source, steps=draft.steps, report=report)
        resolver = Resolver(
            draft=draft,
            catalog=self._catalog,
            assets=files,
            parameters=parameters,
            mcp=elsewhere.mcp,
            grpc=elsewhere.grpc,
            workers=elsewhere.workers,
            runs=elsewhere.runs,
            expressions=self._expressions,
            report=report,
            preset=preset,
        )
        gating = Gating(draft=draft, resolver=resolver)
        watching = Supervising(draft=draft, profile=resolver.profile, report=report)
        steps = watching.around(gating.around(resolver.steps()))
        if top.input is not None:
            parameters.check_schema(top.input.schema_, ("input", "schema"))
        return Plan(
            digest="",
            revision=revision(source),
            name=top.name,
            flow=top.flow,
            steps=steps,
            models=dict(sorted(resolver.models.items())),
            bounds=_run_bounds(top, preset),
            preset=preset.name,
            bounds_cap=bounds_caps.resolve(top),
            pause=_pause(top, preset),
            input_schema_json=None if top.input is None else json_text(top.input.schema_),
            on_question=OnQuestion(top.on_question or preset.on_question.value),
            warnings=tuple(files.warnings),
            gates=gating.of_run(steps),
        )

    def _check(self, plan: Plan, draft: Draft, runs: ChildInputs, report: Report) -> WorstCase | None:
        check_flow.check(plan, draft, report)
        found = check_flow.graph(plan)
        child_steps.check(plan, draft, report)
        runs.check(plan, found.visited)
        given_inputs.check_functions(plan, found.visited, self._catalog.functions, report)
        check_names.check(plan, draft, self._expressions, report)
        check_stop.check(plan, self._catalog.functions, self._expressions, report)
        check_supervisor.check(plan, self._expressions, report)
        check_bounds.check(plan, found, report)
        check_limits.check(plan, draft, report)
        bounds_caps.check(plan, report)
        approvals.check(plan, draft, self._expressions, report)
        return None if report.has_errors else check_bounds.worst_case(plan, found)

    def _sealed(self, plan: Plan) -> Plan:
        digest = hashlib.sha256(self._encode_plan(plan)).hexdigest()
        return dataclasses.replace(plan, digest=digest)


@frozen
class _Elsewhere:
    """The steps whose tools, or workflows, somebody else describes."""

    mcp: McpSteps
    grpc: GrpcSteps
    workers: WorkerSteps
    runs: ChildInputs


def revision(source: Source, pins: Mapping[str, bytes] | None = None) -> str:
    """SHA-256 over the YAML and the files, pins included, each length-prefixed, files by sorted path."""
    digest = hashlib.sha256()
    parts = [source.yaml.encode("utf-8", "surrogatepass")]
    files = {**source.files, **(pins or {})}
    for name in sorted(files):
        parts += [name.encode("utf-8", "surrogatepass"), files[name]]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def _tree(source: Source, report: Report) -> MapNode | None:
    parsed = yaml_text.parse(source.yaml)
    for problem in parsed.problems:
        report.error_at(problem.code, problem.message, problem.mark)
    root = parsed.root
    if root is None or not all(problem.code in _CONTINUABLE for problem in parsed.problems):
        return None
    report.locate_in(root)
    patterns = references = 0
    for path, text in scalars(root):
        patterns += _patterns(path, text)
        if patterns > MAX_PATTERNS:
            message = f"a workflow has at most {MAX_PATTERNS} patterns in its schemas and conditions"
            report.error("too_many_patterns", message, path)
            return None
        if "$" in text and _REFERENCE.search(text) and (references := references + 1) <= MAX_REFERENCES:
            message = "`${env:…}` and `${file:…}` work in the operator's config only, never in a workflow"
            report.error("config_reference", message, path)
    return root


def _patterns(path: Path, text: str) -> int:
    """How many patterns a key or text of the file brings: the key `pattern`, each of `patternProperties`."""
    if path[-1:] == (text,):
        return int(text == "pattern" or path[-2:-1] == ("patternProperties",))
    return text.count("matches") if path[-1:] in (("when",), ("expression",)) else 0


def _name(root: MapNode | None) -> str:
    node = root.get("name") if root is not None else None
    written = node.value if isinstance(node, ScalarNode) else None
    return written if isinstance(written, str) and re.fullmatch(r"[a-z][a-z0-9_-]{0,62}", written) else ""


def _pause(top: WorkflowShape, preset: Preset) -> PausePlan | None:
    most = top.bounds.pause_max or preset.pause_max_ms
    then = defaults.ON_PAUSE_MAX if top.on_pause_max is None else OnPauseMax(top.on_pause_max)
    return None if most is None else PausePlan(max_ms=most, then=then)


def _run_bounds(top: WorkflowShape, preset: Preset) -> RunBounds:
    bounds = top.bounds
    return RunBounds(
        run_timeout_ms=bounds.run_timeout or preset.run_timeout_ms,
        token_budget=bounds.token_budget,
        cost_budget_micros=bounds.cost_budget_usd,
        steps=bounds.steps or preset.steps,
        events=bounds.events or preset.events,
        child_depth=preset.child_depth if bounds.child_depth is None else bounds.child_depth,
    )
