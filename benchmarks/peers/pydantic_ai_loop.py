"""Pydantic AI: an agent with its function model. Nothing is stored."""

from contextlib import asynccontextmanager

from benchmarks.peers.workload import ANSWER, BERTH, QUESTION, STEERING, TOOL, Setup, Workload, play
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits


@asynccontextmanager
async def pydantic_ai(workload: Workload) -> Setup:
    """One agent; the model knows its turn by the messages."""

    def script(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        if turn == workload.turns:
            return ModelResponse(parts=[TextPart(ANSWER)])
        return ModelResponse(parts=[ToolCallPart(TOOL, {"berth": BERTH}, tool_call_id=f"call_{turn}")])

    agent = Agent(FunctionModel(script), instructions=STEERING)
    agent.tool_plain(workload.look_up, name=TOOL)
    limits = UsageLimits(request_limit=workload.turns + 2)

    async def run(_name: str) -> str:
        return (await agent.run(QUESTION, usage_limits=limits)).output

    yield run


if __name__ == "__main__":
    play(pydantic_ai)
