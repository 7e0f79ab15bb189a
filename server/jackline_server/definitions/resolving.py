"""From shapes to the steps of a plan: names become what they name, and every default is put in.

Owns the checks that need one step and the catalog: models, tools, outcomes, effects. Does not own what
concerns the steps together (`check_flow`, `check_bounds`).
"""

import dataclasses
from dataclasses import dataclass, field
from itertools import count

from jackline_server.core.frozen import change
from jackline_server.core.plan import (
    FINISH,
    READ_RESULT,
    RESERVED_SIGNALS,
    AgentTool,
    AnswerForm,
    ChoiceMode,
    CompactionMode,
    CompactionPlan,
    Completion,
    Effect,
    FunctionAction,
    GroundPlan,
    ModelPlan,
    ModelStep,
    OnLimit,
    OnUnknown,
    OutcomePlan,
    RouterCase,
    RouterStep,
    StepBounds,
    StepPlan,
    TextToolCalls,
    ToolAction,
    ToolChoice,
    ToolEntry,
    ToolExecution,
    ToolStep,
)
from jackline_server.definitions import (
    approvals,
    child_steps,
    defaults,
    history,
    http_action,
    human_steps,
    model_choice,
    progress,
    sql_action,
    stop_conditions,
    tool_policies,
)
from jackline_server.definitions.assets import Assets
from jackline_server.definitions.catalog import Catalog, FunctionDescription, nearest
from jackline_server.definitions.child_inputs import ChildInputs
from jackline_server.definitions.contract import contract_of
from jackline_server.definitions.expression_checks import ExpressionChecker
from jackline_server.definitions.grpc_steps import GrpcSteps
from jackline_server.definitions.mcp_steps import McpSteps
from jackline_server.definitions.parameters import Parameters, as_json, json_text
from jackline_server.definitions.presets import Preset, default_form
from jackline_server.definitions.reading import Draft
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import (
    AgentBoundsShape,
    AgentShape,
    ChildShape,
    CompletionBoundsShape,
    CompletionShape,
    FunctionShape,
    GrpcShape,
    HttpShape,
    HumanShape,
    McpShape,
    NamedToolShape,
    RouterShape,
    SqlShape,
    ToolShape,
    ToolStepShape,
    WorkerShape,
)
from jackline_server.definitions.units import is_signal
from jackline_server.definitions.worker_steps import WorkerSteps
from jackline_server.definitions.yaml_nodes import Path

AnyToolStep = (
    HttpShape | FunctionShape | McpShape | SqlShape | GrpcShape | WorkerShape | ChildShape | HumanShape
)

MAX_TOOL_CHARACTERS = 1_000_000
"""Descriptions and parameters, counted for each agent that has the tool: the plan holds them so."""


_DescribedElsewhere = FunctionShape | McpShape | GrpcShape | WorkerShape
"""Steps whose tool somebody else describes."""


@dataclass(slots=True, kw_only=True)
class Resolver:
    """Resolves the steps of one draft; `models` fills with the profiles they use."""

    draft: Draft
    catalog: Catalog
    assets: Assets
    parameters: Parameters
    mcp: McpSteps
    grpc: GrpcSteps
    workers: WorkerSteps
    runs: ChildInputs
    expressions: ExpressionChecker
    report: Report
    preset: Preset
    models: dict[str, ModelPlan] = field(default_factory=dict[str, ModelPlan])
    _functions: dict[str, FunctionDescription] = field(default_factory=dict[str, FunctionDescription])
    _effects: dict[str, Effect] = field(default_factory=dict[str, Effect])
    _as_tools: dict[str, AgentTool] = field(default_factory=dict[str, AgentTool])
    _tool_characters: int = 0

    def steps(self) -> dict[str, StepPlan]:
        """Every step, ordered by name."""
        if READ_RESULT in self.draft.steps:
            message = f"`{READ_RESULT}` is the tool by which long results are read on in; rename the step"
            self.report.error("reserved_tool", message, ("steps", READ_RESULT))
        for step_id, shape in self.draft.steps.items():
            if isinstance(shape, ToolStepShape):
                described = self._described(step_id, shape)
                if described is not None:
                    self._functions[step_id] = described
                self._effects[step_id] = self._effect(step_id, shape)
        for step_id in child_steps.called_agents(self.draft.steps):
            self._as_tools[step_id] = AgentTool(
                effect=child_steps.effect_of_agent(step_id, self.draft.steps, self._effects),
                share=child_steps.share_of(self._agent_shape(step_id).share),
            )
        self._effects |= {step_id: tool.effect for step_id, tool in self._as_tools.items()}
        return {step_id: self._step(step_id) for step_id in sorted(self.draft.steps)}

    def _described(self, step_id: str, shape: ToolStepShape) -> FunctionDescription | None:
        """What somebody else says of the tool of a step, if anybody does."""
        match shape:
            case FunctionShape():
                return self._describe(step_id, shape)
            case McpShape():
                return self.mcp.describe(step_id, shape)
            case GrpcShape():
                return self.grpc.describe(step_id, shape)
            case WorkerShape():
                return self.workers.describe(step_id, shape)
            case ChildShape():
                return self.runs.describe(step_id, shape)
            case _:
                return None

    def _step(self, step_id: str) -> StepPlan:
        match self.draft.steps[step_id]:
            case AgentShape() as agent:
                return self._agent(step_id, agent)
            case CompletionShape() as completion:
                return self._completion(step_id, completion)
            case RouterShape() as router:
                return self._router(step_id, router)
            case tool:
                return self._tool_step(step_id, tool)

    # --- steps that ask a model ------------------------------------------------------------------

    def _agent(self, step_id: str, shape: AgentShape) -> ModelStep:
        path: Path = ("steps", step_id)
        tools = self._tools(step_id, shape)
        if not tools and not shape.tools and step_id not in self._as_tools:
            self.report.warning("no_tools", f"the agent `{step_id}` has no tools", path)
        if not (shape.steering or shape.steering_files):
            self.report.warning("no_steering", f"the agent `{step_id}` has no steering", path)
        model = self._model(step_id, shape)
        self._check_tools(step_id, shape, model)
        fallbacks = self._fallbacks(step_id, shape, model)
        unavailable = model_choice.on_unavailable(step_id, shape, self.draft.top, self.report)
        return ModelStep(
            step_id=step_id,
            kind="agent",
            description=shape.description or "",
            input=shape.input,
            routes=shape.routes,
            next_step=self._next(step_id),
            model=model,
            system=self.assets.sections(step_id, shape),
            prompt="",
            tools=tools,
            allow_effects=self._allowed(shape),
            tool_choice=self._tool_choice(shape, path),
            max_parallel=shape.max_parallel or defaults.MAX_PARALLEL,
            bounds=_agent_bounds(
                shape.bounds, self.preset, more=model_choice.more_requests(fallbacks, unavailable)
            ),
            outcome=self._outcome(step_id, shape),
            on_limit=OnLimit(shape.on_limit or self.preset.on_limit.value),
            limit_expiry_ms=self._limit_expiry(step_id, shape),
            tool_execution=ToolExecution(shape.tool_execution or self.preset.tool_execution.value),
            invalid_args=tool_policies.invalid_args(shape, self.preset),
            stop_when=None if shape.stop_when is None else stop_conditions.build(shape.stop_when),
            completion=self._completion_of(shape, path),
            repeat=progress.repeat_plan(shape.repeat, self.draft.top.repeat, self.preset),
            reflect=progress.reflect_plan(shape.reflect),
            ground=self._ground(step_id, shape, model),
            fallbacks=fallbacks,
            on_model_unavailable=unavailable,
            compaction=self._compaction(step_id, shape, model),
            thread=self._converses(step_id, shape),
            reads_results=True,
            text_tool_calls=TextToolCalls(shape.text_tool_calls or self.preset.text_tool_calls.value),
            as_tool=self._as_tools.get(step_id),
        )

    def _compaction(self, step_id: str, shape: AgentShape, model: str) -> CompactionPlan:
        own, top = shape.compaction, self.draft.top.compaction
        path: Path = ("compaction",) if own is None else ("steps", step_id, "compaction")
        said = history.written(own, top)
        plan = history.compaction_plan(said, model, self.preset)
        if plan.to_permille >= plan.at_permille:
            message = "a conversation is made shorter `at` a part of the window down `to` a smaller one"
            self.report.error("compaction_order", message, path)
        if said.model is None:
            return plan
        if plan.mode is not CompactionMode.SUMMARISE:
            message = "`model` writes summaries, and there are none: set `mode: summarise`"
            self.report.warning("compaction_model_unused", message, path)
        return history.compaction_plan(said, self.profile(said.model, (*path, "model")), self.preset)

    def _ground(self, step_id: str, shape: AgentShape, model: str) -> GroundPlan | None:
        path: Path = ("steps", step_id, "ground")
        if shape.ground is None:
            return None
        if not shape.tools:
            message = f"`{step_id}` has no tools, so there is nothing to hold its answer against"
            self.report.warning("ground_without_tools", message, path)
        if shape.answer == AnswerForm.FINISH_TOOL.value:
            message = "an answer by `finish_tool` can't be held against the tools yet; take another form"
            self.report.error("ground_form", message, path)
        judge = shape.ground.model
        name = model if judge is None else self.profile(judge, (*path, "model"))
        return progress.ground_plan(shape.ground, name)

    def _completion(self, step_id: str, shape: CompletionShape) -> ModelStep:
        for key, text in (("prompt", shape.prompt), ("steering", shape.steering or "")):
            if "{{" in text:
                message = f"`{key}` has no templates: the step's input is sent as JSON beside it"
                self.report.warning("template_ignored", message, ("steps", step_id, key))
        model = self._model(step_id, shape)
        fallbacks = self._fallbacks(step_id, shape, model)
        unavailable = model_choice.on_unavailable(step_id, shape, self.draft.top, self.report)
        return ModelStep(
            step_id=step_id,
            kind="completion",
            description=shape.description or "",
            input=shape.input,
            routes=shape.routes,
            next_step=self._next(step_id),
            model=model,
            system=self.assets.sections(step_id, shape),
            prompt=shape.prompt,
            tools=(),
            allow_effects=frozenset(),
            tool_choice=ToolChoice(),
            max_parallel=1,
            bounds=_completion_bounds(
                shape.bounds, self.preset, more=model_choice.more_requests(fallbacks, unavailable)
            ),
            outcome=self._outcome(step_id, shape),
            on_limit=OnLimit(shape.on_limit or self.preset.on_limit.value),
            fallbacks=fallbacks,
            on_model_unavailable=unavailable,
            thread=self._converses(step_id, shape),
            limit_expiry_ms=self._limit_expiry(step_id, shape),
        )

    def _converses(self, step_id: str, shape: AgentShape | CompletionShape) -> bool:
        """True for a step of the conversation: as it says, else the first agent of the flow.

        A flow without an agent leaves it to its first completion.
        """
        if shape.thread is not None:
            return shape.thread
        spine = [(name, self.draft.steps.get(name)) for name in self.draft.top.flow]
        first = [
            name for kind in (AgentShape, CompletionShape) for name, one in spine if isinstance(one, kind)
        ]
        return first[:1] == [step_id]

    def _limit_expiry(self, step_id: str, shape: AgentShape | CompletionShape) -> int:
        """How long a question about a limit stays open; 0 where none is asked."""
        if OnLimit(shape.on_limit or self.preset.on_limit.value) is OnLimit.ASK:
            return _or(shape.limit_expiry, defaults.LIMIT_EXPIRY_MS)
        if shape.limit_expiry is not None:
            message = "`limit_expiry` belongs to `on_limit: ask`; nothing is asked here"
            self.report.error("limit_expiry_unused", message, ("steps", step_id, "limit_expiry"))
        return 0

    def _model(self, step_id: str, shape: AgentShape | CompletionShape) -> str:
        name = shape.model if shape.model is not None else self.draft.top.model
        place: Path = ("steps", step_id, "model") if shape.model is not None else ("model",)
        if name is None:
            message = f"`{step_id}` has no model; set `model` here or at the top"
            self.report.error("model_missing", message, ("steps", step_id))
            return ""
        return self.profile(name, place)

    def profile(self, name: str, place: Path) -> str:
        """The profile of that name, noted as used; empty, and reported, if there is none."""
        model = self.catalog.model(name)
        if model is None:
            hint = nearest(name, self.catalog.models)
            message = f"there is no model profile `{name[:64]}` in the server's config{hint}"
            self.report.error("unknown_model", message, place)
            return ""
        retries = min(model.retries, self.preset.model_retries)
        self.models[name] = model if retries == model.retries else change(model, retries=retries)
        return name

    def _outcome(self, step_id: str, shape: AgentShape | CompletionShape) -> OutcomePlan:
        path: Path = ("steps", step_id, "outcome")
        outcome = shape.outcome
        enum = outcome.enum or () if outcome else ()
        for index, value in enumerate(enum):
            self._check_signal(value, (*path, "enum", index))
        if len(set(enum)) < len(enum):
            self.report.error("outcome_repeated", "an outcome stands twice in `enum`", (*path, "enum"))
        schema = outcome.schema_ if outcome else None
        sound = schema is None or self.parameters.check_schema(schema, (*path, "schema"))
        has_contract = bool(enum) or schema is not None
        form = self._form(shape, has_contract=has_contract)
        self._check_form(step_id, shape, form, has_contract=has_contract)
        contract = None
        if sound and form in (AnswerForm.NATIVE_SCHEMA, AnswerForm.FINISH_TOOL):
            contract = json_text(contract_of(enum, None if schema is None else as_json(schema)))
        return OutcomePlan(
            enum=tuple(enum),
            schema_json=None if schema is None else json_text(schema),
            output_key=(outcome.output_key if outcome else None) or f"{step_id}_result",
            repairs=_or(outcome.repairs if outcome else None, self.preset.repairs),
            form=form,
            contract_json=contract,
        )

    def _form_of(self, shape: AgentShape | CompletionShape) -> AnswerForm:
        outcome = shape.outcome
        has_contract = outcome is not None and (bool(outcome.enum) or outcome.schema_ is not None)
        return self._form(shape, has_contract=has_contract)

    def _form(self, shape: AgentShape | CompletionShape, *, has_contract: bool) -> AnswerForm:
        if shape.answer is not None:
            return AnswerForm(shape.answer)
        names = (shape.model or self.draft.top.model or "", *(shape.fallbacks or ()))
        models = [self.catalog.model(name) for name in names]
        takes_schema = all(model is not None and model.native_schema for model in models)
        return default_form(self.preset, has_contract=has_contract, takes_schema=takes_schema)

    def _allowed(self, shape: AgentShape) -> frozenset[Effect]:
        if shape.allow_effects is None:
            return self.preset.allow_effects
        return frozenset(Effect(effect) for effect in shape.allow_effects)

    def _check_form(
        self, step_id: str, shape: AgentShape | CompletionShape, form: AnswerForm, *, has_contract: bool
    ) -> None:
        """The form has to suit the contract, the model and the names of the steps."""
        path: Path = ("steps", step_id, "answer")
        if form is AnswerForm.TEXT and has_contract:
            message = "`answer: text` has neither enum nor schema; use `answer: json_text`"
            self.report.error("answer_form", message, path)
        if form is AnswerForm.NATIVE_SCHEMA:
            if not has_contract:
                message = "`answer: native_schema` needs `outcome` with an enum or a schema"
                self.report.error("answer_form", message, path)
            name = shape.model or self.draft.top.model or ""
            model = self.models.get(name)
            if model is not None and not model.native_schema:
                message = (
                    f"the model profile `{name}` can't be asked for an answer of a schema: its `supports` "
                    "lacks `json_schema`; use `answer: finish_tool` or `json_text`"
                )
                self.report.error("model_lacks", message, path)
        if form is AnswerForm.FINISH_TOOL and FINISH in self.draft.steps:
            message = f"a step is named `{FINISH}`, as the tool of `answer: finish_tool` is; rename the step"
            self.report.error("finish_clash", message, path)

    def _check_tools(self, step_id: str, shape: AgentShape, name: str) -> None:
        """The model has to take tools where the step has any."""
        model = self.models.get(name)
        if model is None or model.calls_tools:
            return
        key = "tools" if shape.tools else "answer"
        for words in model_choice.lacking(model, shape, self._form_of(shape)):
            self.report.error("model_lacks", f"the model profile {words}", ("steps", step_id, key))

    def _fallbacks(self, step_id: str, shape: AgentShape | CompletionShape, own: str) -> tuple[str, ...]:
        choice = model_choice.ModelChoice(
            step_id=step_id, shape=shape, form=self._form_of(shape), catalog=self.catalog
        )
        return choice.fallbacks(own, profile=self.profile, report=self.report)

    def _completion_of(self, shape: AgentShape, path: Path) -> Completion:
        completion = Completion(shape.completion or defaults.COMPLETION.value)
        if completion is Completion.EXPLICIT and shape.answer != AnswerForm.FINISH_TOOL.value:
            message = "`completion: explicit` ends by a call of `finish`: set `answer: finish_tool` as well"
            self.report.error("completion_form", message, (*path, "completion"))
        return completion

    def _check_signal(self, value: str, path: Path) -> None:
        if value in RESERVED_SIGNALS:
            self.report.error("outcome_reserved", f"`{value}` is a signal of the engine; take another", path)
        elif not is_signal(value):
            self.report.error("bad_name", "a signal is a letter, then letters, digits, `_` and `-`", path)

    # --- tools -----------------------------------------------------------------------------------

    def _tools(self, step_id: str, shape: AgentShape) -> tuple[ToolEntry, ...]:
        entries: dict[str, ToolEntry] = {}
        for index, entry in zip(self.draft.places.get(step_id) or count(), shape.tools, strict=False):
            path: Path = ("steps", step_id, "tools", index)
            step = self._tool_target(step_id, entry, path)
            if step is None:
                continue
            if entry.ref in entries:
                self.report.error("tool_repeated", f"the tool `{entry.ref}` stands twice", (*path, "ref"))
                continue
            if self._effects[entry.ref] not in self._allowed(shape):
                message = f"`{entry.ref}` can never be called: its effect is not in `allow_effects`"
                self.report.warning("effect_not_allowed", message, path)
            repeated = self._repeated(entry.ref, step)
            tool_policies.check(entry, repeated, path, self.report)
            description = self._tool_description(entry, step, path)
            parameters = self.parameters.of_entry(entry, step, path, self._functions.get(entry.ref))
            self._tool_characters += len(description) + len(parameters)
            if self._tool_characters > MAX_TOOL_CHARACTERS:
                message = f"the tools of all agents have at most {MAX_TOOL_CHARACTERS} characters together"
                self.report.error("too_large", message, path)
                break
            entries[entry.ref] = ToolEntry(
                ref=entry.ref,
                description=description,
                parameters_json=parameters,
                bind=entry.bind,
                max_calls=entry.max_calls,
                writes_context=entry.writes_context,
                policy=tool_policies.resolve(
                    repeated,
                    step if isinstance(step, ToolStepShape) else entry,
                    entry,
                    shape,
                    preset=self.preset,
                ),
                poll=entry.poll,
                approval=approvals.of_entry(
                    entry, step, shape, self._effects[entry.ref], self.draft.top.bounds.approval_expiry
                ),
            )
        return tuple(entries.values())

    def _repeated(self, ref: str, step: ToolStepShape | AgentShape) -> Effect:
        """The effect by which calls are repeated: a run is started once, whatever it may change."""
        return Effect.WRITE if isinstance(step, AgentShape | ChildShape) else self._effects[ref]

    def _agent_shape(self, step_id: str) -> AgentShape:
        step = self.draft.steps[step_id]
        if not isinstance(step, AgentShape):
            raise TypeError(f"{step_id} is no agent")
        return step

    def _tool_target(self, step_id: str, entry: ToolShape, path: Path) -> ToolStepShape | AgentShape | None:
        place: Path = (*path, "ref")
        if entry.ref == step_id:
            self.report.error("tool_is_itself", f"`{step_id}` can't be its own tool", place)
            return None
        step = self.draft.steps.get(entry.ref)
        if step is None:
            message = f"there is no step `{entry.ref[:64]}`{nearest(entry.ref, self.draft.steps)}"
            self.report.error("tool_unknown", message, place)
            return None
        if not isinstance(step, ToolStepShape | AgentShape):
            message = f"a step of kind `{step.kind}` can't be a tool; agents and those that do one thing can"
            self.report.error("tool_not_callable", message, place)
            return None
        return step

    def _tool_description(self, entry: ToolShape, step: ToolStepShape | AgentShape, path: Path) -> str:
        described = self._functions.get(entry.ref)
        text = step.description or entry.description or (described.docstring.strip() if described else "")
        is_unknown = described is None and isinstance(step, _DescribedElsewhere)  # which is reported already
        if not text and not is_unknown:
            message = f"the tool `{entry.ref}` needs a description: a model chooses by it"
            self.report.error("no_description", message, path)
        return text

    def _tool_choice(self, shape: AgentShape, path: Path) -> ToolChoice:
        place: Path = (*path, "tool_choice")
        choice = shape.tool_choice
        if choice != "auto" and not shape.tools:
            self.report.error("tool_choice_unknown", "there is no tool to choose", place)
        if isinstance(choice, NamedToolShape):
            refs = [entry.ref for entry in shape.tools]
            if shape.tools and choice.name not in refs:
                message = f"`{choice.name[:64]}` is no tool of this step{nearest(choice.name, refs)}"
                self.report.error("tool_choice_unknown", message, place)
            return ToolChoice(mode=ChoiceMode.NAMED, name=choice.name)
        return ToolChoice(mode=ChoiceMode(choice))

    # --- steps that do one thing, steps that choose ----------------------------------------------

    def _effect(self, step_id: str, shape: ToolStepShape) -> Effect:
        if isinstance(shape, McpShape):
            return self.mcp.effect(step_id, shape)
        if isinstance(shape, SqlShape):
            return sql_action.effect(shape)
        if isinstance(shape, GrpcShape):
            return self.grpc.effect(step_id, shape)
        if isinstance(shape, WorkerShape):
            return self.workers.effect(step_id, shape)
        if isinstance(shape, HumanShape):
            return Effect.READ
        is_unknown = isinstance(shape, FunctionShape) and step_id not in self._functions  # reported already
        if shape.effect is None and not is_unknown:
            message = f"`{step_id}` declares no effect and counts as `write`: it is never run twice"
            self.report.warning("effect_undeclared", message, ("steps", step_id))
        return Effect(shape.effect or defaults.EFFECT.value)

    def _tool_step(self, step_id: str, shape: AnyToolStep) -> ToolStep:
        path: Path = ("steps", step_id)
        if shape.parameters is not None:
            self.parameters.check_schema(shape.parameters, (*path, "parameters"))
        repeated = self._repeated(step_id, shape)
        if isinstance(shape, ChildShape):
            child_steps.check_keys(step_id, shape, self.report)
        elif isinstance(shape, HumanShape):
            human_steps.check_keys(step_id, shape, self.report)
            self._check_options(step_id, shape)
        else:
            tool_policies.check(shape, repeated, path, self.report)
        return ToolStep(
            step_id=step_id,
            kind=shape.kind,
            description=shape.description or "",
            input=shape.input,
            routes=shape.routes,
            next_step=self._next(step_id),
            effect=self._effects[step_id],
            action=self._action(step_id, shape),
            output_key=shape.output_key or f"{step_id}_result",
            timeout_ms=_or(shape.timeout, self.preset.tool_timeout_ms),
            result_chars=_or(shape.result_chars, self.preset.result_chars),
            on_unknown=OnUnknown(shape.on_unknown or self.preset.on_unknown.value),
            unknown_expiry_ms=self._question_expiry(shape),
            policy=tool_policies.resolve(repeated, shape, preset=self.preset),
            approval=approvals.of_step(shape, self._effects[step_id], self.draft.top.bounds.approval_expiry),
        )

    def _question_expiry(self, shape: AnyToolStep) -> int:
        if isinstance(shape, HumanShape):
            return _or(shape.expiry, defaults.HUMAN_EXPIRY_MS)
        return _or(shape.unknown_expiry, defaults.UNKNOWN_EXPIRY_MS)

    def _check_options(self, step_id: str, shape: HumanShape) -> None:
        path: Path = ("steps", step_id, "options")
        values = [option.value for option in human_steps.options(shape)]
        for index, value in enumerate(values):
            self._check_signal(value, (*path, index))
        if len(set(values)) < len(values):
            self.report.error("outcome_repeated", "an answer stands twice in `options`", path)

    def _action(self, step_id: str, shape: AnyToolStep) -> ToolAction:
        if isinstance(shape, HttpShape):
            return http_action.build(shape, ("steps", step_id), self.catalog, self.report)
        if isinstance(shape, McpShape):
            return self.mcp.action(step_id, shape)
        if isinstance(shape, SqlShape):
            return sql_action.build(shape, ("steps", step_id), self.catalog, self.report)
        if isinstance(shape, GrpcShape):
            return self.grpc.action(step_id, shape)
        if isinstance(shape, ChildShape):
            return child_steps.action(shape)
        if isinstance(shape, WorkerShape):
            return self.workers.action(step_id, shape)
        if isinstance(shape, HumanShape):
            return human_steps.action(step_id, shape, self.parameters, self.report)
        return FunctionAction(function=shape.function, isolated=shape.isolate == "process")

    def _describe(self, step_id: str, shape: FunctionShape) -> FunctionDescription | None:
        path: Path = ("steps", step_id, "function")
        module, colon, name = shape.function.partition(":")
        if not colon or not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
            self.report.error("bad_function", "a function is named as `package.module:name`", path)
            return None
        described = self.catalog.functions.describe(shape.function)
        if isinstance(described, str):
            self.report.error("unknown_function", described, path)
            return None
        return described

    def _router(self, step_id: str, shape: RouterShape) -> RouterStep:
        path: Path = ("steps", step_id)
        for index, case in enumerate(shape.conditions):
            place: Path = (*path, "conditions", index)
            if problem := self.expressions.check(case.when):
                self.report.error("bad_expression", problem, (*place, "when"))
            if case.signal != "default":
                self._check_signal(case.signal, (*place, "signal"))
        return RouterStep(
            step_id=step_id,
            kind="router",
            description=shape.description or "",
            routes=shape.routes,
            next_step=self._next(step_id),
            cases=tuple(RouterCase(when=case.when, signal=case.signal) for case in shape.conditions),
        )

    def _next(self, step_id: str) -> str:
        flow = self.draft.top.flow
        index = flow.index(step_id) if step_id in flow else len(flow)
        return flow[index + 1] if index + 1 < len(flow) else ""


def _agent_bounds(shape: AgentBoundsShape, preset: Preset, *, more: int) -> StepBounds:
    iterations = _or(shape.max_iterations, preset.max_iterations)
    per_turn = preset.tool_calls_per_iteration
    base = _completion_bounds(shape, preset, more=more)
    return dataclasses.replace(
        base,
        max_iterations=iterations,
        model_requests=_or(shape.model_requests, iterations * preset.model_requests_per_iteration + more),
        tool_calls=_or(shape.tool_calls, preset.tool_calls if per_turn is None else iterations * per_turn),
        tool_timeout_ms=_or(shape.tool_timeout, preset.tool_timeout_ms),
    )


def _completion_bounds(shape: CompletionBoundsShape, preset: Preset, *, more: int) -> StepBounds:
    return StepBounds(
        max_iterations=1,
        model_requests=_or(shape.model_requests, defaults.COMPLETION_MODEL_REQUESTS + more),
        tool_calls=0,
        token_budget=shape.token_budget,
        cost_budget_micros=shape.cost_budget_usd,
        timeout_ms=shape.timeout,
        model_timeout_ms=_or(shape.model_timeout, preset.model_timeout_ms),
        idle_timeout_ms=_or(shape.idle_timeout, preset.idle_timeout_ms),
        tool_timeout_ms=preset.tool_timeout_ms,
    )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
