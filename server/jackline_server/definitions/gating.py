"""Hooks, guardrails and the policy of a file, resolved for the run and for each of its steps.

Owns what of them concerns which step, and the findings about them. What stands at the top holds for every
step; what stands in a step comes after it.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jackline_server.core.gate_plans import (
    ArgumentsView,
    Check,
    DenyPattern,
    FitsSchema,
    GatesPlan,
    GuardrailPlan,
    HookPlan,
    Judged,
    MaskPlan,
    MaxChars,
    Pii,
    Point,
    PolicyPlan,
    hiding_both,
)
from jackline_server.core.plan import ModelStep, OnFailure, StepPlan, ToolStep
from jackline_server.definitions import defaults
from jackline_server.definitions.catalog import nearest
from jackline_server.definitions.parameters import json_text
from jackline_server.definitions.reading import Draft
from jackline_server.definitions.report import Report
from jackline_server.definitions.resolving import Resolver
from jackline_server.definitions.shapes import (
    GuardrailShape,
    GuardrailsShape,
    JudgeShape,
    ModelStepShape,
    PiiShape,
    PolicyUseShape,
    TopicShape,
)
from jackline_server.definitions.yaml_nodes import Path, path_text

_TOOL_POINTS = frozenset({Point.BEFORE_TOOL_CALL, Point.AFTER_TOOL_CALL})
_MODES = {"input": ("exit",), "output": ("repair", "exit"), "tools": ("deny", "exit")}
_EMPTY = GatesPlan()


@dataclass(slots=True, kw_only=True)
class Gating:
    """The gates of one draft."""

    draft: Draft
    resolver: Resolver
    _top: GatesPlan | None = field(default=None)

    @property
    def _report(self) -> Report:
        return self.resolver.report

    def around(self, steps: Mapping[str, StepPlan]) -> dict[str, StepPlan]:
        """The steps with what is asked and checked around each."""
        return {name: self._around(step) for name, step in steps.items()}

    def of_run(self, steps: Mapping[str, StepPlan]) -> GatesPlan | None:
        """What is asked and checked around the run itself; set, if only empty, where any step has some."""
        top = self._of_top()
        own = GatesPlan(hooks=top.hooks, input=top.input, mask_input=top.mask_input)
        gated = any(isinstance(step, ModelStep | ToolStep) and step.gates for step in steps.values())
        return own if gated or own != _EMPTY else None

    def _around(self, step: StepPlan) -> StepPlan:
        top = self._of_top()
        match step:
            case ModelStep():
                gates = self._of_model_step(step, top)
            case ToolStep():
                hooks = tuple(hook for hook in top.hooks if hook.points & _TOOL_POINTS)
                gates = GatesPlan(
                    hooks=hooks, policy=top.policy, tools=top.tools, mask_results=top.mask_results
                )
            case _:
                return step
        return step if gates == _EMPTY else dataclasses.replace(step, gates=gates)

    def _of_model_step(self, step: ModelStep, top: GatesPlan) -> GatesPlan:
        shape, path = self.draft.steps[step.step_id], ("steps", step.step_id)
        if not isinstance(shape, ModelStepShape):
            return _EMPTY
        refs = [entry.ref for entry in step.tools]
        own = self._gates(shape.guardrails, (*path, "guardrails"), tools=refs, model=step.model)
        if shape.guardrails.tools and not refs:
            message = f"`{step.step_id}` has no tools, so that nothing comes by this gate"
            self._report.warning("guardrail_idle", message, (*path, "guardrails", "tools"))
        return GatesPlan(
            hooks=(*top.hooks, *self._hooks(shape.hooks, (*path, "hooks"), known=top.hooks)),
            policy=top.policy if refs else None,
            input=own.input,
            output=(*top.output, *own.output),
            tools=(*top.tools, *own.tools) if refs else (),
            mask_replies=hiding_both(top.mask_replies, own.mask_replies),
            mask_arguments=hiding_both(top.mask_arguments, own.mask_arguments) if refs else None,
            mask_results=hiding_both(top.mask_results, own.mask_results) if refs else None,
        )

    def _of_top(self) -> GatesPlan:
        if self._top is None:
            top = self.draft.top
            steps = [name for name, step in self.draft.steps.items() if not isinstance(step, ModelStepShape)]
            found = self._gates(top.guardrails, ("guardrails",), tools=steps, model=None)
            self._top = dataclasses.replace(
                found, hooks=self._hooks(top.hooks, ("hooks",), known=()), policy=self._policy()
            )
        return self._top

    # --- hooks and policy ------------------------------------------------------------------------

    def _hooks(self, names: Sequence[str], path: Path, *, known: Sequence[HookPlan]) -> tuple[HookPlan, ...]:
        found: dict[str, HookPlan] = {}
        taken = {hook.name for hook in known}
        for index, name in enumerate(names):
            described = self.resolver.catalog.hooks.describe(name)
            if isinstance(described, str):
                hint = nearest(name, self.resolver.catalog.hooks.names())
                self._report.error("unknown_hook", f"{described}{hint}", (*path, index))
            elif name not in taken:
                found[name] = described
        return tuple(found.values())

    def _policy(self) -> PolicyPlan | None:
        given = self.draft.top.policy
        if given is None:
            return None
        use = PolicyUseShape(use=given) if isinstance(given, str) else given
        path: Path = ("policy",) if isinstance(given, str) else ("policy", "use")
        known = self.resolver.catalog.policies
        if use.use not in known:
            hint = nearest(use.use, known)
            message = f"there is no policy service `{use.use[:64]}` in the server's config{hint}"
            self._report.error("unknown_policy", message, path)
        fails_open = defaults.POLICY_FAILS_OPEN if use.fail is None else use.fail == "open"
        return PolicyPlan(
            name=use.use,
            view=ArgumentsView(use.view or defaults.POLICY_VIEW.value),
            timeout_ms=defaults.POLICY_TIMEOUT_MS if use.timeout is None else use.timeout,
            fails_open=fails_open,
            ends=OnFailure(use.on_deny or defaults.ON_DENY.value) is OnFailure.FAIL,
        )

    # --- guardrails ------------------------------------------------------------------------------

    def _gates(
        self, shape: GuardrailsShape, path: Path, *, tools: Sequence[str], model: str | None
    ) -> GatesPlan:
        """The guardrails of one place; `model` is the step's profile, None at the top."""
        found = _EMPTY
        for gate, entries in (("input", shape.input), ("output", shape.output), ("tools", shape.tools)):
            rails: list[GuardrailPlan] = []
            for index, rail in enumerate(entries):
                place: Path = (*path, gate, index)
                self._check_tools(rail, gate, place, tools)
                if rail.pii is not None:
                    found = self._masked(found, rail, gate, place, is_top=model is None)
                elif (check := self._check(rail, place, model)) is not None:
                    rails.append(self._rail(rail, check, gate, place))
            found = _with_rails(found, gate, tuple(rails))
        return found

    def _rail(self, rail: GuardrailShape, check: Check, gate: str, place: Path) -> GuardrailPlan:
        modes = _MODES[gate]
        if rail.on_violation is not None and rail.on_violation not in modes:
            message = f"at the gate `{gate}` a violation can lead to {' or '.join(modes)}"
            self._report.error("guardrail_mode", message, (*place, "on_violation"))
        return GuardrailPlan(
            place=path_text(place),
            check=check,
            ends=(rail.on_violation or modes[0]) == "exit",
            tools=frozenset(rail.tools or ()),
        )

    def _check_tools(self, rail: GuardrailShape, gate: str, place: Path, tools: Sequence[str]) -> None:
        if rail.tools is not None and gate != "tools":
            message = "`tools` belongs to the gate `tools`"
            self._report.error("guardrail_tool_unknown", message, (*place, "tools"))
            return
        for index, name in enumerate(rail.tools or ()):
            if name not in tools:
                message = f"`{name[:64]}` is no tool here{nearest(name, tools)}"
                self._report.error("guardrail_tool_unknown", message, (*place, "tools", index))

    def _check(self, rail: GuardrailShape, place: Path, model: str | None) -> Check | None:
        if rail.max_chars is not None:
            return MaxChars(most=rail.max_chars)
        if rail.deny is not None:
            refused = self.resolver.parameters.schemas.refusal(json_text({"pattern": rail.deny}))
            if refused is not None:
                message = (
                    "this pattern is refused: it has look-around or back references, is none, or is too large"
                )
                self._report.error("bad_pattern", message, (*place, "deny"))
            return DenyPattern(pattern=rail.deny)
        if rail.schema_ is not None:
            self.resolver.parameters.check_schema(rail.schema_, (*place, "schema"))
            return FitsSchema(schema_json=json_text(rail.schema_))
        return self._judged(rail.topic or rail.judge, place, model)

    def _judged(self, shape: TopicShape | JudgeShape | None, place: Path, model: str | None) -> Judged | None:
        key = "topic" if isinstance(shape, TopicShape) else "judge"
        if shape is None:
            return None
        if model is None:
            message = f"`{key}` asks a model, which a step pays for: put it into the `guardrails` of a step"
            self._report.error("guardrail_judge_place", message, (*place, key))
            return None
        if isinstance(shape, TopicShape) and not (shape.allow or shape.deny):
            self._report.error("bad_guardrail", "`topic` says what to `allow` or to `deny`", (*place, key))
        name = model if shape.model is None else self.resolver.profile(shape.model, (*place, key, "model"))
        criteria = _topics(shape) if isinstance(shape, TopicShape) else shape.criteria
        return Judged(model=name, criteria=criteria)

    # --- masks -----------------------------------------------------------------------------------

    def _masked(
        self, found: GatesPlan, rail: GuardrailShape, gate: str, place: Path, *, is_top: bool
    ) -> GatesPlan:
        shape = rail.pii if isinstance(rail.pii, PiiShape) else PiiShape(kinds=rail.pii or ())
        region = shape.region or ""
        if region and region not in self.resolver.catalog.regions:
            message = f"there is no region `{region}`; take the two letters of a country, such as NL"
            self._report.error("unknown_region", message, (*place, "pii", "region"))
        if rail.on_violation is not None or rail.tools is not None:
            message = "a mask hides and lets pass: it has neither `on_violation` nor `tools`"
            self._report.error("guardrail_mode", message, place)
        if shape.of is not None and gate != "tools":
            self._report.error("guardrail_mode", "`of` belongs to the gate `tools`", (*place, "pii", "of"))
        mask = MaskPlan(kinds=frozenset(Pii(kind) for kind in shape.kinds), region=region)
        if gate == "input" and not is_top:
            message = "the input is masked before the run is stored: put `pii` into `guardrails` at the top"
            self._report.error("guardrail_mask_place", message, (*place, "pii"))
        return _hidden(found, gate, mask, shape.of or "both")


def _with_rails(found: GatesPlan, gate: str, rails: tuple[GuardrailPlan, ...]) -> GatesPlan:
    match gate:
        case "input":
            return dataclasses.replace(found, input=rails)
        case "output":
            return dataclasses.replace(found, output=rails)
        case _:
            return dataclasses.replace(found, tools=rails)


def _hidden(found: GatesPlan, gate: str, mask: MaskPlan, of: str) -> GatesPlan:
    """The gates with one mask more."""
    match gate:
        case "input":
            return dataclasses.replace(found, mask_input=hiding_both(found.mask_input, mask))
        case "output":
            return dataclasses.replace(found, mask_replies=hiding_both(found.mask_replies, mask))
        case _:
            arguments, results = found.mask_arguments, found.mask_results
            return dataclasses.replace(
                found,
                mask_arguments=arguments if of == "results" else hiding_both(arguments, mask),
                mask_results=results if of == "arguments" else hiding_both(results, mask),
            )


def _topics(shape: TopicShape) -> str:
    parts: list[str] = []
    if shape.allow:
        parts.append(f"It is about nothing but these topics:\n{_listed(shape.allow)}")
    if shape.deny:
        parts.append(f"It is about none of these topics:\n{_listed(shape.deny)}")
    return "\n\n".join(parts)


def _listed(topics: Iterable[str]) -> str:
    return "\n".join(f"- {topic}" for topic in topics)
