"""From a source to a plan, or to the findings that say why not.

Owns the order of the stages: text, tree, shapes, steps, checks, digest. Does not own any of them.
"""

import dataclasses
import hashlib
import re
from collections.abc import Callable

from jackline_server.core.plan import OnQuestion, Plan, RunBounds
from jackline_server.definitions import assets, check_bounds, check_flow, defaults, reading, yaml_text
from jackline_server.definitions.assets import Assets
from jackline_server.definitions.catalog import Catalog
from jackline_server.definitions.expression_checks import ExpressionChecker
from jackline_server.definitions.parameters import Parameters, SchemaChecker, json_text
from jackline_server.definitions.reading import Draft
from jackline_server.definitions.report import Report
from jackline_server.definitions.resolving import Resolver
from jackline_server.definitions.shapes import WorkflowShape
from jackline_server.definitions.yaml_nodes import MapNode, ScalarNode, scalars
from jackline_server.runtime.ports import Compilation, Source, WorstCase

_REFERENCE = re.compile(r"\$\{\s*(?:env|file)\s*:", re.IGNORECASE)
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
        digest = revision(source)
        assets.check_source(source, report)
        root = _tree(source, report)
        draft = reading.read(root, report) if root is not None else None
        if draft is None or root is None:
            return Compilation(
                name=_name(root), revision=digest, plan=None, findings=report.findings(), worst_case=None
            )
        plan = self._plan(draft, source, digest, report)
        worst = self._check(plan, draft, report)
        return Compilation(
            name=plan.name,
            revision=digest,
            plan=None if report.has_errors else self._sealed(plan),
            findings=report.findings(),
            worst_case=worst,
        )

    def _plan(self, draft: Draft, source: Source, digest: str, report: Report) -> Plan:
        top = draft.top
        files = Assets(source=source, steps=draft.steps, report=report)
        parameters = Parameters(schemas=self._schemas, report=report)
        resolver = Resolver(
            draft=draft,
            catalog=self._catalog,
            assets=files,
            parameters=parameters,
            expressions=self._expressions,
            report=report,
        )
        steps = resolver.steps()
        if top.input is not None:
            parameters.check_schema(top.input.schema_, ("input", "schema"))
        return Plan(
            digest="",
            revision=digest,
            name=top.name,
            flow=top.flow,
            steps=steps,
            models=dict(sorted(resolver.models.items())),
            bounds=_run_bounds(top),
            input_schema_json=None if top.input is None else json_text(top.input.schema_),
            on_question=OnQuestion(top.on_question or defaults.ON_QUESTION.value),
            warnings=tuple(files.warnings),
        )

    def _check(self, plan: Plan, draft: Draft, report: Report) -> WorstCase | None:
        check_flow.check(plan, draft, report)
        found = check_flow.graph(plan)
        check_bounds.check(plan, found, report)
        return None if report.has_errors else check_bounds.worst_case(plan, found)

    def _sealed(self, plan: Plan) -> Plan:
        digest = hashlib.sha256(self._encode_plan(plan)).hexdigest()
        return dataclasses.replace(plan, digest=digest)


def revision(source: Source) -> str:
    """SHA-256 over the YAML and the files, each length-prefixed, files by sorted path."""
    digest = hashlib.sha256()
    parts = [source.yaml.encode("utf-8", "surrogatepass")]
    for name in sorted(source.files):
        parts += [name.encode("utf-8", "surrogatepass"), source.files[name]]
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
    for path, text in scalars(root):
        if _REFERENCE.search(text):
            message = "`${env:…}` and `${file:…}` work in the operator's config only, never in a workflow"
            report.error("config_reference", message, path)
    return root


def _name(root: MapNode | None) -> str:
    node = root.get("name") if root is not None else None
    written = node.value if isinstance(node, ScalarNode) else None
    return written if isinstance(written, str) and re.fullmatch(r"[a-z][a-z0-9_-]{0,62}", written) else ""


def _run_bounds(top: WorkflowShape) -> RunBounds:
    bounds = top.bounds
    return RunBounds(
        run_timeout_ms=bounds.run_timeout or defaults.RUN_TIMEOUT_MS,
        token_budget=bounds.token_budget,
        cost_budget_micros=bounds.cost_budget_usd,
        steps=bounds.steps or defaults.STEPS,
        events=bounds.events or defaults.EVENTS,
    )
