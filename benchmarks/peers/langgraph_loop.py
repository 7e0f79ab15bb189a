"""LangGraph: a graph of a model and a tool node, every step checkpointed in SQLite before the next begins."""

from contextlib import asynccontextmanager

from benchmarks.peers.workload import ANSWER, BERTH, QUESTION, STEERING, TOOL, Run, Setup, Workload, play
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


def _script(turns: int) -> GenericFakeChatModel:
    """The framework's own fake model, playing one run."""
    calls = [
        AIMessage("", tool_calls=[{"name": TOOL, "args": {"berth": BERTH}, "id": f"call_{number}"}])
        for number in range(turns)
    ]
    return GenericFakeChatModel(messages=iter([*calls, AIMessage(ANSWER)]))


@asynccontextmanager
async def langgraph(workload: Workload) -> Setup:
    """One compiled graph; a run is a thread of it."""
    models: dict[str, GenericFakeChatModel] = {}

    async def model(state: MessagesState, config: RunnableConfig) -> dict:
        script = models[config["configurable"]["thread_id"]]
        return {"messages": [await script.ainvoke([SystemMessage(STEERING), *state["messages"]])]}

    tool = StructuredTool.from_function(coroutine=workload.look_up, name=TOOL)
    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([tool]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")

    async with AsyncSqliteSaver.from_conn_string(str(workload.folder / "checkpoints.db")) as saver:
        compiled = graph.compile(checkpointer=saver)

        async def run(name: str) -> str:
            models[name] = _script(workload.turns)
            config = {"configurable": {"thread_id": name}, "recursion_limit": 4 * workload.turns + 10}
            end = await compiled.ainvoke({"messages": [HumanMessage(QUESTION)]}, config, durability="sync")
            return end["messages"][-1].content

        bound: Run = run
        yield bound
        async with saver.conn.execute("SELECT count(*) FROM checkpoints") as rows:
            workload.notes["checkpoints"] = (await rows.fetchone())[0]
        async with saver.conn.execute("PRAGMA synchronous") as rows:
            workload.notes["pragma_synchronous"] = (await rows.fetchone())[0]


if __name__ == "__main__":
    play(langgraph)
