"""A model that is asked something beside the conversation: a judge, or whoever writes a summary.

Owns how such a call is held to the bounds and announced. It is a model call like any other: reserved under
every bound before it starts, retried as its profile says. It uses a request and no turn, has no tools, and
its words enter no conversation by themselves. Does not own what is asked, how the reply is read, or what
follows when there is no room for the call.
"""

from jackline_server.core import bounds
from jackline_server.core.bounds import Hold, Limit
from jackline_server.core.deciding import turns
from jackline_server.core.facts import ModelCallStarted, Purpose
from jackline_server.core.frozen import change, frozen
from jackline_server.core.messages import SystemMessage, UserMessage
from jackline_server.core.plan import ModelPlan, ModelStep, ToolChoice
from jackline_server.core.reading import transcript
from jackline_server.core.state import RunState, Visit
from jackline_server.core.steps import CallModel

VERDICT_TOKENS = 1_024
"""The longest reply of whoever is asked for a verdict."""


@frozen
class SideCall:
    """What is asked of whom. `case` is what is shown, in one message behind `instructions`.

    `failed` counts the attempts before this one. `kept_free` is what has to be left for the conversation;
    None is what its closing answer needs. `timeout_ms` bounds the request with its retries, beside the step's
    own bound; None leaves it to that. `summarised` is that of ModelCallStarted.
    """

    purpose: Purpose
    model: str
    instructions: str
    case: str
    most_tokens: int = VERDICT_TOKENS
    failed: int = 0
    kept_free: Hold | None = None
    timeout_ms: int | None = None
    summarised: int = 0


def call(
    state: RunState, visit: Visit, step: ModelStep, asked: SideCall, *, now_active_ms: int
) -> CallModel | Limit:
    """The next attempt with its reservation, or the bound that forbids it.

    The time of the request is counted from the visit's `request_since_ms`: who asks for the first time beside
    a request of the conversation hands in a visit without it.
    """
    counted = turns.requests_used_up(visit, step)
    if counted is not None:
        return counted
    model = profile(state, asked.model, most_tokens=asked.most_tokens)
    messages = (SystemMessage(text=asked.instructions), UserMessage(text=asked.case, provenance="input"))
    prompt = bounds.estimate(message.text for message in messages)
    free = asked.kept_free
    if free is None:
        free = turns.held_back(state, visit, step, transcript.prompt(state, visit, step).tokens)
    cap = bounds.output_cap(
        model, prompt_tokens=prompt, scopes=turns.scopes(state, visit, step), held_back=free
    )
    if isinstance(cap, Limit):
        return cap
    started = ModelCallStarted(
        iteration=max(visit.iteration, 1),
        purpose=asked.purpose,
        attempt=asked.failed + 1,
        model=asked.model,
        prompt_tokens=prompt,
        max_output_tokens=cap,
        reserved_cost_micros=bounds.price_of(model.price, prompt_tokens=prompt, completion_tokens=cap),
        summarised=asked.summarised,
    )
    request_ms = _shorter(turns.request_ms(visit, step, model, now_active_ms), visit, asked, now_active_ms)
    return CallModel(
        started=started,
        model=model,
        messages=messages,
        tools=(),
        tool_choice=ToolChoice(),
        total_ms=min(turns.total_ms(state, visit, step, model, now_active_ms), request_ms),
        request_ms=request_ms,
        idle_ms=turns.idle_ms(step, model),
    )


def profile(state: RunState, name: str, *, most_tokens: int = VERDICT_TOKENS) -> ModelPlan:
    """A profile of the plan as it is asked here: for no more than so long a reply."""
    own = state.plan.models[name]
    return change(own, max_output_tokens=min(own.max_output_tokens, most_tokens))


def _shorter(request_ms: int, visit: Visit, asked: SideCall, now_active_ms: int) -> int:
    """What is left of the request within its own bound. At least 1."""
    if asked.timeout_ms is None:
        return request_ms
    since = now_active_ms if visit.request_since_ms is None else visit.request_since_ms
    return min(request_ms, max(asked.timeout_ms - (now_active_ms - since), 1))
