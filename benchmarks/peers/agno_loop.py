"""Agno: an agent with a model class of its own and its session in SQLite."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from agno.agent import Agent
from agno.db.sqlite import AsyncSqliteDb
from agno.models.base import Model
from agno.models.response import ModelResponse
from benchmarks.peers.workload import ANSWER, BERTH, QUESTION, STEERING, TOOL, Setup, Workload, play
from sqlalchemy import text


class ScriptedModel(Model):
    """The framework's base class of models, playing the script by the messages alone."""

    turns: int = 0

    async def ainvoke(self, *_: Any, messages: list, **__: Any) -> ModelResponse:
        turn = sum(message.role == "assistant" for message in messages)
        if turn >= self.turns:
            return ModelResponse(role="assistant", content=ANSWER)
        function = {"name": TOOL, "arguments": f'{{"berth": "{BERTH}"}}'}
        call = {"id": f"call_{turn}", "type": "function", "function": function}
        return ModelResponse(role="assistant", tool_calls=[call])

    def invoke(self, *_: Any, **__: Any) -> ModelResponse:
        raise NotImplementedError

    def invoke_stream(self, *_: Any, **__: Any) -> Iterator[ModelResponse]:
        raise NotImplementedError

    def ainvoke_stream(self, *_: Any, **__: Any) -> AsyncIterator[ModelResponse]:
        raise NotImplementedError

    def _parse_provider_response(self, response: ModelResponse, **_: Any) -> ModelResponse:
        return response

    def _parse_provider_response_delta(self, response: ModelResponse) -> ModelResponse:
        return response


@asynccontextmanager
async def agno(workload: Workload) -> Setup:
    """An agent a run, as the framework advises against sharing one between sessions that run at once."""
    database = AsyncSqliteDb(db_file=str(workload.folder / "sessions.db"))

    async def look_up(berth: str) -> dict[str, str]:
        """Looks a berth up."""
        return await workload.look_up(berth)

    async def run(name: str) -> str:
        model = ScriptedModel(id="scripted")
        model.turns = workload.turns
        agent = Agent(model=model, tools=[look_up], db=database, instructions=STEERING, telemetry=False)
        return (await agent.arun(QUESTION, session_id=name)).content

    yield run
    async with database.db_engine.connect() as connection:
        tables = await connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'"))
        for (table,) in tables.fetchall():
            rows = await connection.execute(text(f'SELECT count(*) FROM "{table}"'))  # noqa: S608 - its own table's name
            workload.notes[f"rows in {table}"] = rows.scalar_one()


if __name__ == "__main__":
    play(agno)
