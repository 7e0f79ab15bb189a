"""Invocations as the runtime makes them, with everything a test does not care about filled in."""

from jackline_server.core.plan import (
    Effect,
    FunctionAction,
    HttpAction,
    JsonValue,
    OnUnknown,
    ToolAction,
    ToolStep,
)
from jackline_server.runtime.ports.tools import Invocation

ROOT = "tests.tools.roots.allowed"


def invocation(
    action: ToolAction,
    arguments: dict[str, JsonValue] | None = None,
    *,
    effect: Effect = Effect.READ,
    timeout_ms: int = 5_000,
    bound: dict[str, JsonValue] | None = None,
    step_input: dict[str, JsonValue] | None = None,
) -> Invocation:
    step = ToolStep(
        step_id="tool",
        kind="http" if isinstance(action, HttpAction) else "function",
        description="",
        input=None,
        routes={},
        next_step="",
        effect=effect,
        action=action,
        output_key="out",
        timeout_ms=timeout_ms,
        result_chars=8_000,
        on_unknown=OnUnknown.ASK,
        unknown_expiry_ms=1_000,
    )
    return Invocation(
        step=step,
        run_id="run_1",
        call_key="key_1",
        attempt=1,
        arguments=arguments or {},
        bound=bound or {},
        step_input=step_input or {},
        subject={"user": "ann"},
        timeout_ms=timeout_ms,
    )


def http_action(
    path: str = "/", *, method: str = "GET", connection: str = "orders", **more: object
) -> HttpAction:
    fields: dict[str, object] = {"query": {}, "headers": {}, "body_json": None}
    return HttpAction(
        connection=connection,
        method=method,
        path=path,
        **{**fields, **more},  # pyright: ignore[reportArgumentType] - the fields of the test
    )


def function_action(name: str, *, module: str = "orders") -> FunctionAction:
    return FunctionAction(function=f"{ROOT}.{module}:{name}")
