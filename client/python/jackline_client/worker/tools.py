"""A tool that a worker serves: the function, and how it is described.

Owns the description and how the function is called. Does not own the stream (`stream`), nor which
invocations run (`invocations`).
"""

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from jackline.v1 import run_pb2, tool_worker_pb2
from jackline_client.worker.calls import Call, ToolFailed
from jackline_client.worker.signatures import call_parameter, parameters_of

_MOST_PARALLEL = 1_000

Effect = Literal["read", "idempotent", "write", "destructive"]

_EFFECTS: Mapping[str, run_pb2.Effect.ValueType] = {
    "read": run_pb2.EFFECT_READ,
    "idempotent": run_pb2.EFFECT_IDEMPOTENT,
    "write": run_pb2.EFFECT_WRITE,
    "destructive": run_pb2.EFFECT_DESTRUCTIVE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """How a tool is described beyond its function; what is left out is the function's own."""

    name: str | None = None
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    effect: Effect = "write"
    max_parallel: int | None = None


class OptionNames(TypedDict, total=False):
    """The same as keywords."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    output_schema: Mapping[str, Any]
    effect: Effect
    max_parallel: int


class Tool:
    """A function that is served. One that is not async runs in a thread, and can't be stopped."""

    def __init__(self, function: Callable[..., Any], options: ToolOptions) -> None:
        """Raises TypeError for a signature that is no schema, ValueError if nothing describes the tool."""
        self.name = options.name or function.__name__
        self.is_async = inspect.iscoroutinefunction(function)
        self.places = asyncio.Semaphore(options.max_parallel or _MOST_PARALLEL)
        self._function = function
        self._signature = inspect.signature(function)
        self._call_name = call_parameter(function)
        description = options.description or inspect.getdoc(function) or ""
        if not description:
            raise ValueError(f"the tool {self.name!r} needs a description: a model chooses by it")
        parameters = options.parameters if options.parameters is not None else parameters_of(function)
        output = "" if options.output_schema is None else json.dumps(options.output_schema)
        self.offer = tool_worker_pb2.WorkerTool(
            name=self.name,
            description=description,
            parameters_json=json.dumps(parameters).encode(),
            output_schema_json=output.encode(),
            effect=_EFFECTS[options.effect],
            max_parallel=options.max_parallel,
            cancellable=self.is_async,
        )

    async def run(self, arguments: Mapping[str, Any], call: Call, threads: ThreadPoolExecutor) -> object:
        """Call the function. Raises what it raises; being cancelled ends it, or leaves its thread behind."""
        # What it does not take is left out: a step may describe the tool more widely than the tool is.
        takes = self._signature.parameters
        is_open = any(one.kind is one.VAR_KEYWORD for one in takes.values())
        given = {name: value for name, value in arguments.items() if is_open or name in takes}
        if self._call_name is not None:
            given[self._call_name] = call
        try:
            self._signature.bind(**given)
        except TypeError as misfit:
            raise ToolFailed(f"the arguments do not fit: {misfit}") from None
        if self.is_async:
            return await self._function(**given)
        loop = asyncio.get_running_loop()
        return await asyncio.shield(loop.run_in_executor(threads, lambda: self._function(**given)))
