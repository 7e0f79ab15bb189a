"""The events of runs, read for a recording: what models said in conversations, and what people answered.

Owns which events count. Asks nobody (`door` does), and makes no script of them (`recording`).
"""

from jackline.v1.event_pb2 import FinishReason, ModelCallPurpose, StepEvent
from jackline_server.commands.evaluation.recording import Answered, AskedCall, Reply
from jackline_server.core.frozen import change

_CONVERSATION = frozenset(
    {
        ModelCallPurpose.MODEL_CALL_PURPOSE_TURN,
        ModelCallPurpose.MODEL_CALL_PURPOSE_REPAIR,
        ModelCallPurpose.MODEL_CALL_PURPOSE_FINAL_ANSWER,
    }
)
"""Calls whose replies become part of a conversation, which a script counts."""

_Key = tuple[str, str, int]


class EventReading:
    """What was read so far. Takes the events of a run in their order, of one run after the other.

    `conversations` are visits of steps that a model replied in, each by its run, step and visit; a reply
    names its own by the number there. `side_calls` are replies outside of any.
    """

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.answers: list[Answered] = []
        self.side_calls = 0
        self.conversations: dict[_Key, int] = {}
        self._started: StepEvent | None = None
        self._wanted_calls = 0
        self._asked: dict[tuple[str, str], str] = {}

    def take(self, event: StepEvent) -> None:
        """Take in the next event."""
        match event.WhichOneof("fact"):
            case "model_call_started":
                self._started = event
            case "model_replied":
                self._reply(event)
            case "tool_call_requested":
                self._call(event)
            case "interrupt_raised":
                self._asked[event.run_id, event.interrupt_raised.interrupt_id] = event.step_id
            case "interrupt_resolved" if event.interrupt_resolved.option:
                resolved = event.interrupt_resolved
                step = self._asked.get((event.run_id, resolved.interrupt_id), event.step_id)
                said = event.content.answer
                output = said.output_json.decode(errors="replace")
                self.answers.append(
                    Answered(step=step, option=resolved.option, text=said.text, output=output)
                )
            case _:
                pass

    def _reply(self, event: StepEvent) -> None:
        started, replied, said = self._started, event.model_replied, event.content.reply
        if started is None or started.model_call_started.purpose not in _CONVERSATION:
            self.side_calls += 1
            self._wanted_calls = 0
            return
        usage = replied.usage
        self._wanted_calls = 0 if replied.calls_in_text else replied.tool_calls
        self.replies.append(
            Reply(
                conversation=self.conversations.setdefault(_key(event), len(self.conversations)),
                model=started.model_call_started.model,
                text=said.text,
                reasoning=said.reasoning,
                calls=(),
                finish=FinishReason.Name(replied.finish_reason).removeprefix("FINISH_REASON_").lower(),
                usage=None
                if usage.estimated
                else {
                    "prompt_tokens": usage.prompt_tokens,
                    "completion_tokens": usage.completion_tokens,
                    "cached_tokens": usage.cached_tokens,
                    "reasoning_tokens": usage.reasoning_tokens,
                },
            )
        )

    def _call(self, event: StepEvent) -> None:
        """A call that the last reply asks for; one of a step of the flow has no reply before it."""
        last = self.replies[-1] if self.replies else None
        if last is None or not self._wanted_calls or self.conversations.get(_key(event)) != last.conversation:
            return
        self._wanted_calls -= 1
        call = event.content.call
        asked = AskedCall(tool=call.tool, arguments=call.arguments.decode(errors="replace"))
        self.replies[-1] = change(last, calls=(*last.calls, asked))


def _key(event: StepEvent) -> _Key:
    return event.run_id, event.step_id, event.visit
