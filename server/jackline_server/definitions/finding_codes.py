"""The codes of findings: what each means, and what to do about it.

Owns this table and nothing else; the words of a single finding are those of the check that makes it. A code is
stable: programs may look for it. Its page is made of this table by `scripts/generate`.
"""

# ruff: noqa: E501  # a code of the table is one line

from collections.abc import Mapping
from itertools import chain

from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.definitions import Severity

_ERROR, _WARNING, _INFO = (Severity.ERROR,), (Severity.WARNING,), (Severity.INFO,)


@frozen
class FindingCode:
    """One code: what is found, what to do, and how much it can weigh."""

    means: str
    do: str
    severities: tuple[Severity, ...]


def _codes(**codes: tuple[str, str] | tuple[str, str, tuple[Severity, ...]]) -> dict[str, FindingCode]:
    return {
        code: FindingCode(means=said[0], do=said[1], severities=_ERROR if len(said) == 2 else said[2])  # noqa: PLR2004  # what weighs nothing else is an error
        for code, said in codes.items()
    }


GROUPS: Mapping[str, Mapping[str, FindingCode]] = {
    "The text": _codes(
        yaml_syntax=("The text is no YAML.", "Correct it where the finding points."),
        yaml_version=("The file asks for another YAML than 1.2.", "Leave the directive out."),
        bad_character=("A character that a file may not have: a lone carriage return, NUL, a control code.", "Remove it."),
        bad_encoding=("A file is not UTF-8.", "Save it as UTF-8."),
        unreadable=("A file can't be read.", "Look at its rights, and that it is a plain file inside the folder."),
        too_large=("A text, a file, or everything together is larger than allowed.", "Make it shorter, or split the workflow."),
        too_many_files=("A workflow has more files than allowed.", "Join some."),
        too_many_nodes=("The document has more values than allowed.", "Split the workflow."),
        too_deep=("Values are nested deeper than allowed.", "Flatten them."),
        empty_document=("There is nothing in the file.", "Write a workflow."),
        several_documents=("The file holds more than one document.", "Keep one; `---` begins another."),
        not_a_mapping=("The top is a list or a single value.", "Begin with `name:`."),
        alias=("A YAML alias (`*name`).", "Write the value out."),
        anchor=("A YAML anchor (`&name`).", "Leave it out."),
        tag=("A YAML tag (`!!str`, `!custom`).", "Leave it out; put quotes around a text."),
        merge_key=("A YAML merge key (`<<`).", "Write the keys out."),
        duplicate_key=("A key stands twice in one mapping.", "Keep one of them."),
        bad_key=("A key that is no text.", "Put it into quotes, or choose a name."),
        bad_number=("A number that JSON does not have: infinity, not-a-number, one that is too long.", "Write a plain number."),
        secret=("What looks like a secret stands in the file. It is not printed.", "Put it into the operator's config, and replace it where it came from."),
        config_reference=("`${env:…}` or `${file:…}` in a workflow.", "Use it in the operator's config, where it works."),
    ),
    "Keys and values": _codes(
        unknown_key=("There is no such key here.", "Take the name that the finding suggests, or leave it out."),
        not_built=("The key or value is known and does nothing yet, so that it is refused.", "Leave it out for now."),
        missing_key=("A key that has to be there is not.", "Write it."),
        bad_type=("A value of another type; nothing is converted.", "Write the type that the finding names: `10`, not `\"10\"`."),
        bad_value=("A value that is none of those allowed.", "Take one of those that the finding lists."),
        out_of_range=("A number or a length outside its range.", "Stay inside it."),
        bad_name=("A name with characters, or of a length, that names may not have.", "Rename it."),
        reserved_name=("A step has the name of a signal of the engine, or of a device.", "Rename it."),
        bad_duration=("A time without unit, of 0, or too long.", "Write `500ms`, `90s`, `15m`, `2h` or `1d`."),
        bad_money=("An amount below 0 or with more than six decimals.", "Write US dollars as `0.50`."),
        bad_share=("A share outside 0 to 1, or with more than three decimals.", "Write it as `0.65`."),
        blank_text=("A text that has to say something is white space alone.", "Write it, or leave the key out where it may be."),
        bad_pointer=("A pointer that is no JSON pointer.", "Write `/input/message`."),
        more=("There are more findings than are shown.", "Correct these and validate again.", _INFO),
        not_all_checked=("Errors kept further checks from being made.", "Correct them and validate again.", _INFO),
    ),
    "Models": _codes(
        model_missing=("A step has no model.", "Set `model` in the step or at the top."),
        unknown_model=("The server's config has no such model profile.", "Take one that it has, or add the profile."),
        model_lacks=("The profile can't do what the step needs: tools, or answers of a schema.", "Take another profile or another form of answer; if the model can, add it to `supports`."),
        fallback_repeated=("A fallback that is asked already.", "Take it out."),
        fallback_left_out=("A fallback of the profile can't do what the step needs, and is not asked here.", "Nothing, if that is meant; else give the step `fallbacks` of its own.", _WARNING),
        wait_unbounded=("Waiting for a model without a bound of time that somebody chose.", "Set `timeout` in the step's `bounds`, or `run_timeout`."),
        price_unknown=("A cost budget, and a model whose price nobody knows.", "Set `price` in the profile; 0 is legal."),
    ),
    "Tools": _codes(
        no_tools=("An agent without tools.", "Add tools, or make it a `completion`.", _WARNING),
        no_steering=("An agent that nobody told how to behave.", "Write `steering`.", _WARNING),
        no_description=("A tool without description: a model chooses by it.", "Write `description` in its step."),
        bad_tool=("An entry of `tools` with none or several of `ref`, `from` and `builtin`, or with keys of another.", "Write `{ref: STEP}`, `{from: CONNECTION}` or `{builtin: ask_person}`."),
        tool_unknown=("A tool that is no step of the file, or that the server of the connection does not have.", "Correct the name."),
        tool_is_itself=("An agent is its own tool.", "Take it out."),
        tool_not_callable=("A step of a kind that can't be a tool.", "Take a step of kind `http`, `function` or `mcp`."),
        tool_repeated=("A tool stands twice.", "Keep one entry."),
        tool_clash=("A tool of a connection would become a step that is there already.", "Write a step of kind `mcp` under another name."),
        reserved_tool=("A step has the name of a built-in tool: `read_result` or `ask_person`.", "Rename it."),
        too_many_tools=("More tools than make sense to a model.", "Choose some with `allow`."),
        tool_choice_unknown=("`tool_choice` names no tool of the step, or there is none.", "Correct the name, or write `auto`."),
        effect_undeclared=("A tool says nothing of its effect and counts as `write`: it is never run twice.", "Declare `effect`; for MCP, set `trusted` if the server is.", _WARNING),
        effect_not_allowed=("A tool whose effect the step does not allow: it can never be called.", "Add it to `allow_effects`, or take the tool out.", _WARNING),
        retry_of_write=("A write that would be repeated by itself.", "Leave `retry` out, or declare the step `idempotent` if it is."),
        timeout_of_write=("`on_timeout` of a write: whether it happened is unknown then.", "Use `on_unknown`."),
        retry_cap=("The longest wait is below the first.", "Raise `cap`, or lower `base`."),
        bind_unknown=("`bind` sets a parameter that the tool does not have.", "Correct the name."),
        argument_unknown=("A fixed argument that the tool does not have.", "Correct the name, or leave it out.", _WARNING),
        child_unknown=("A workflow that a step runs, and that is not there. No run starts until it is.", "Put it, or correct the name.", _WARNING),
        child_input=("What a step gives a workflow is not what its `input.schema` takes.", "Correct the step's `input`.", _WARNING),
        child_recursion=("A workflow that runs itself, directly or through others, or agents that are tools of each other.", "Take one of the two calls out."),
        child_too_deep=("Child runs below each other, more than `child_depth` allows.", "Raise `child_depth`, or take a level out.", _WARNING),
        child_key=("A key that means nothing for a step that is a run of its own.", "Leave it out; the time of a run is `run_timeout` in `share`."),
        human_key=("A key that means nothing for a question to a person.", "Leave it out; how long it stays open is `expiry`."),
        bad_form=("A form that nobody could fill in, or one beside `options`.", "Write a schema of `type: object` whose properties are texts, numbers, yes or no, or `enum`."),
        bad_default=("A default that is no answer to its question.", "Write one of the options, or what fits the schema."),
        share_too_large=("A share that is more than the whole run has.", "Lower it, or raise the bound of the run."),
        share_unused=("A share of an agent that is no tool.", "Leave it out.", _WARNING),
        bad_parameters=("`parameters` that are no object.", "Write a schema of `type: object`."),
        unknown_connection=("The server's config has no such connection or data source of that kind.", "Correct the name, or add it."),
        tool_needs_task=("A tool that its MCP server runs as a task alone.", "Leave it out with `allow`."),
        mcp_unavailable=("An MCP server gives no list of its tools.", "Look at it with `jackline doctor`."),
        grpc_unavailable=("A gRPC service does not say what it serves.", "Look at it with `jackline doctor`, or set `descriptors`."),
        worker_unavailable=("No worker serves the pool, so that nobody says what its tool takes.", "Connect a worker, or give the step `parameters` and `effect`."),
        grpc_streaming=("A method that streams requests or replies.", "Call one that has one of each."),
        grpc_request=("A method whose request has no schema that could be shown to a model.", "Give the service a smaller one, that does not hold itself."),
        bad_pins=("A file of pinned tools that can't be read.", "Write it anew with `jackline tools lock`."),
        unknown_function=("No such function below the roots that the operator allows.", "Correct the name, or add its module to `[functions] roots`."),
        bad_function=("A name that is no function's, or a function that needs what nobody gives it.", "Write `package.module:name`; give its parameters defaults."),
        function_input=("What a step of the flow gives its function is not what that takes.", "Correct the step's `input`; `input: {}` gives nothing.", _WARNING),
        bad_path=("A path that leaves its host, or whose first segments are not fixed.", "Begin with `/` and put templates inside segments."),
        bad_header=("A header that a workflow may not set.", "Set it in the connection, if the operator wants it."),
        bad_body=("A body where the method has none.", "Use `POST`, `PUT` or `PATCH`."),
        bad_statement=("A statement that no step runs, more than one, or a parameter where none can stand.", "Write one statement about rows, with `{{ name }}` outside of quotes."),
        sql_writes=("A statement that writes in a step that reads.", "Declare `effect: write` or `idempotent`."),
        read_only_source=("A step that writes to a data source that is only read.", "Take another, or ask the operator for `writes = true`."),
        bad_template=("`{{ … }}` that is not closed, or holds more than a name.", "Write `{{ name }}`."),
        template_unknown=("A template that nothing gives a value.", "Add the name to `input` or to `parameters`."),
        template_ignored=("A template in a text that has none.", "Read the value from the step's input, which is sent beside it.", _WARNING),
    ),
    "Outcomes and answers": _codes(
        outcome_reserved=("An outcome has the name of a signal of the engine.", "Take another name."),
        outcome_repeated=("An outcome stands twice.", "Keep one."),
        outcome_unrouted=("A signal of the step leads nowhere: it ends the run.", "Add a route for it, or `\"*\"`.", (Severity.ERROR, Severity.WARNING)),
        answer_form=("A form of answer that does not suit the contract.", "Write `outcome`, or take another form."),
        completion_form=("`completion: explicit` without the tool that ends it.", "Set `answer: finish_tool`."),
        finish_clash=("A step has the name of the tool `finish`.", "Rename it."),
        ground_form=("An answer in a form that can't be held against the tools.", "Take another form."),
        ground_without_tools=("Nothing to hold the answer against.", "Add tools, or leave `ground` out.", _WARNING),
        bad_schema=("A schema that is refused: remote, file or recursive `$ref`, an unsafe pattern, an unknown word, or one that nothing can fit.", "Correct it where the finding points."),
        too_many_patterns=("More patterns than a workflow may have.", "Join or drop some."),
    ),
    "Routes": _codes(
        unknown_step=("`flow` names a step that is not there.", "Correct the name."),
        flow_repeats=("A step stands twice in `flow`.", "Lead back to it by a route."),
        unknown_signal=("A route of a signal that the step never gives.", "Correct the name."),
        unknown_target=("A route to a step that is not there.", "Correct the name, or write `end`."),
        exit_unrouted=("A failure or a limit of the step ends the run.", "Route `error` or `\"*\"`, if that is not meant.", _WARNING),
        step_unreachable=("No route leads to the step, and none has it as a tool.", "Route to it, or take it out.", _WARNING),
        cycle=("Steps can repeat; the bound `steps` ends it.", "Nothing, if it is meant.", _INFO),
        cycle_idle=("Routers that lead to each other and to nothing else: what they read never changes.", "Put a step that changes something into the circle.", _WARNING),
        cleanup_asks_model=("The cleanup after an abort asks a model, which it may not.", "Route `aborted` to a tool step."),
        cleanup_leads_to_model=("The cleanup can lead to a step that asks a model, and ends there.", "Route it to `end`.", _WARNING),
        output_key_clash=("Two steps write the same key.", "Give one of them another `output_key`."),
        output_key_private=("An output key that begins with `_`.", "Rename it."),
        pointer_unknown=("A pointer to what nothing writes.", "Correct it; a pointer that leads nowhere leaves its name out.", _WARNING),
    ),
    "Conditions": _codes(
        bad_expression=("An expression that is no CEL, or reads what is not there.", "Correct it where the finding points."),
        expression_unknown=("An expression reads what nothing writes or no tool takes, and counts as false.", "Correct the name.", _WARNING),
        expression_text_unknown=("An expression holds the name of a tool, or an effect, against a text that is none.", "Correct the text.", _WARNING),
        bad_condition=("A stop condition with no key or with several.", "Join several by `all` or `any`."),
        stop_too_large=("A stop condition with too many parts.", "Make it smaller, or ask a function."),
        stop_tool_unknown=("A stop condition about a tool that the step does not have.", "Correct the name."),
        stop_outcome_unknown=("A stop condition about an outcome that the step does not have.", "Correct the name."),
        stop_always=("A condition that is true after the first turn, whatever happens.", "Correct it, or leave it out.", _WARNING),
        stop_never=("A condition that can't become true.", "Correct it, or leave it out.", _WARNING),
    ),
    "Bounds": _codes(
        bound_unreachable=("A bound that keeps the step from ever answering.", "Raise it.", _WARNING),
        bound_idle=("A bound that a tighter one always comes before.", "Lower it, or leave it out.", _WARNING),
        bounds_cap_low=("A cap below the bound that it caps.", "Raise the cap, or lower the bound."),
        limit_expiry_unused=("`limit_expiry` where nothing is asked.", "Set `on_limit: ask`, or leave it out."),
        approval_unasked=("A call that has to be approved where `on_question: review` asks nobody.", "Set `on_question: wait`, or `approval: none`.", _WARNING),
        approval_always=("The condition of an approval reads what nothing writes or no tool takes, so that each call is asked about.", "Correct the name.", _WARNING),
        approval_expiry_unused=("`approval_expiry` where no call has to be approved.", "Leave it out, or set `approval`.", _WARNING),
        question_unasked=("A question where `on_question: review` puts none to anybody.", "Set `on_question: wait`, or say what follows without asking.", _WARNING),
        worst_case=("The most that one run can spend.", "Nothing; tighten the bounds if it is too much.", _INFO),
        compaction_order=("`to` is not below `at`.", "Lower `to`."),
        compaction_model_unused=("A model for summaries that nobody writes.", "Set `mode: summarise`, or leave it out.", _WARNING),
    ),
    "A supervisor": _codes(
        bad_rule=("A rule without what its condition looks at, or with a key of another; a supervisor of nothing.", "Write what the finding names."),
        rule_stage=("An action, `rearm` or `expiry` that does not go with when the rule is asked, or with what follows.", "Take what the finding names."),
        rule_tool_unknown=("A rule about a tool that nothing it watches has.", "Correct the name."),
        rule_never=("A rule that can't fire, or a judge that is never asked.", "Correct it, or leave it out.", _WARNING),
        supervisor_idle=("A supervisor where there is no agent.", "Leave it out, or add one.", _WARNING),
    ),
    "Hooks, guardrails and policy": _codes(
        unknown_hook=("The server's config has no such hook, or it can't be loaded.", "Correct the name; `jackline doctor` says why a hook can't be loaded."),
        unknown_policy=("The server's config has no such policy service.", "Correct the name, or add `[policies.NAME]`."),
        bad_guardrail=("A guardrail with no check or with several, or a topic that says nothing.", "Write one check an entry."),
        bad_pattern=("A pattern that is refused: look-around, back references, or too large.", "Write it without them."),
        guardrail_mode=("A word that does not go with this gate or with a mask.", "Take one that the finding names, or leave it out."),
        guardrail_judge_place=("A check that asks a model, where no step pays for it.", "Put it into the `guardrails` of a step."),
        guardrail_mask_place=("A mask of the input inside a step, which comes too late.", "Put it into `guardrails` at the top."),
        guardrail_tool_unknown=("A guardrail of a tool that is not there.", "Correct the name."),
        guardrail_idle=("A gate that nothing comes by.", "Leave it out, or add tools.", _WARNING),
        unknown_region=("No such region for telephone numbers.", "Take the two letters of a country."),
    ),
    "Files": _codes(
        file_missing=("A steering or skill file is not there. The run says so and goes on.", "Add it, or take the name out.", _WARNING),
        file_unused=("A file that no step names.", "Name it in `steering_files` or `skills`, or take it out.", _WARNING),
        path_escape=("A path that leaves the step's folder.", "Put the file into it."),
    ),
}  # fmt: skip
"""Every code, by what it is about."""

CODES: Mapping[str, FindingCode] = dict(chain.from_iterable(group.items() for group in GROUPS.values()))
