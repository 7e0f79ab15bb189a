"""Router steps: the first condition that is true names the signal.

Owns their evaluation. A condition that can't be evaluated counts as false and leaves a notice.
"""

from jackline_server.core.deciding import leaving
from jackline_server.core.exits import DEFAULT, Exit
from jackline_server.core.facts import Fact, NoticeCode, Noticed, StopReason
from jackline_server.core.instruments import ExpressionError, ExpressionEvaluator
from jackline_server.core.plan import RouterStep
from jackline_server.core.state import RunState, Visit
from jackline_server.core.steps import Record


def choose(state: RunState, visit: Visit, step: RouterStep, expressions: ExpressionEvaluator) -> Record:
    """End the visit with the signal of the first true case, or `default`."""
    notices: list[Fact] = []
    signal = DEFAULT
    for case in step.cases:
        try:
            chosen = expressions.is_true(case.when, state.context)
        except ExpressionError as error:
            text = f"condition `{case.when}` of {step.step_id} counts as false: {error}"
            notices.append(Noticed(code=NoticeCode.CONDITION_FAILED, text=text))
            continue
        if chosen:
            signal = case.signal
            break
    reason = StopReason.DEFAULT if signal == DEFAULT else StopReason.OUTCOME
    left = leaving.leave(state, visit, Exit(signal=signal, reason=reason))
    return Record(facts=(*notices, *left.facts))
