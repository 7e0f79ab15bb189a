"""OpenAI Agents SDK: an agent with a model class of its own and its session in SQLite. Tracing is off."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    Model,
    ModelResponse,
    Runner,
    SQLiteSession,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from benchmarks.peers.workload import ANSWER, BERTH, QUESTION, STEERING, TOOL, Setup, Workload, play
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText


class ScriptedModel(Model):
    """The framework's interface of models, playing the script by the messages alone."""

    def __init__(self, turns: int) -> None:
        self._turns = turns

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002 - its name there
        *_: Any,
        **__: Any,
    ) -> ModelResponse:
        items = input if isinstance(input, list) else []
        turn = sum(item.get("type") == "function_call" for item in items)
        return ModelResponse(output=[self._said(turn)], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError

    def _said(self, turn: int) -> ResponseOutputMessage | ResponseFunctionToolCall:
        if turn >= self._turns:
            text = ResponseOutputText(text=ANSWER, type="output_text", annotations=[])
            return ResponseOutputMessage(
                id="answer", type="message", role="assistant", status="completed", content=[text]
            )
        return ResponseFunctionToolCall(
            call_id=f"call_{turn}", type="function_call", name=TOOL, arguments=f'{{"berth": "{BERTH}"}}'
        )


@asynccontextmanager
async def openai_agents(workload: Workload) -> Setup:
    """One agent; a run is a session in one file."""
    set_tracing_disabled(True)
    file = workload.folder / "sessions.db"

    async def look_up(berth: str) -> dict[str, str]:
        """Looks a berth up."""
        return await workload.look_up(berth)

    tool: FunctionTool = function_tool(look_up)
    agent = Agent(name="harbour", instructions=STEERING, tools=[tool], model=ScriptedModel(workload.turns))

    async def run(name: str) -> str:
        session = SQLiteSession(name, str(file))
        try:
            result = await Runner.run(agent, QUESTION, session=session, max_turns=workload.turns + 2)
        finally:
            session.close()
        return result.final_output

    yield run
    with closing(sqlite3.connect(file)) as connection:
        workload.notes["items"] = connection.execute("SELECT count(*) FROM agent_messages").fetchone()[0]
        workload.notes["journal_mode"] = connection.execute("PRAGMA journal_mode").fetchone()[0]


if __name__ == "__main__":
    play(openai_agents)
