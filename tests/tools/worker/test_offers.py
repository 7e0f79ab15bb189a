"""What a worker may register: every fault is told at once, and nobody serves what was not allowed."""

import json
from typing import Any

import pytest

from jackline_server.core.plan import Effect
from jackline_server.runtime.pinned_tools import ToolHint
from jackline_server.runtime.refusals import Reason, Refused
from tests.tools.worker.scene import POOL, PRINCIPAL, Scene, registration, tool

DEEP = b'{"type":"object","a":' * 300 + b"1" + b"}" * 300


FIRST = "register.tools[0]"
REMOTE = b"""{"type":"object","$ref":"https://x.example/s"}"""
NAMES = (tool("../look"), tool("1st"), tool("\u00fc"), tool(""))
PARALLEL = ["register.max_parallel", f"{FIRST}.max_parallel"]
HINTS = [
    (Effect.READ, ToolHint.READ),
    (Effect.IDEMPOTENT, ToolHint.IDEMPOTENT),
    (Effect.WRITE, ToolHint.NONE),
    (None, ToolHint.NONE),
]


@pytest.mark.parametrize(
    ("made", "fields"),
    [
        ({"tools": tuple(tool(f"t{number}") for number in range(10_000))}, ["register.tools"]),
        ({"tools": (tool("look"), tool("look"))}, ["register.tools[1].name"]),
        ({"tools": NAMES}, [f"register.tools[{n}].name" for n in range(4)]),
        ({"tools": (tool(description=" "),)}, [f"{FIRST}.description"]),
        ({"tools": (tool(description="\u200b"),)}, [f"{FIRST}.description"]),
        ({"tools": (tool(description="x" * 9_000),)}, [f"{FIRST}.description"]),
        ({"tools": (tool(parameters_json=b"x" * (3 << 20)),)}, [f"{FIRST}.parameters_json"]),
        ({"tools": (tool(parameters_json=b'{"type":"string"}'),)}, [f"{FIRST}.parameters_json"]),
        ({"tools": (tool(parameters_json=b""),)}, [f"{FIRST}.parameters_json"]),
        ({"tools": (tool(parameters_json=DEEP),)}, [f"{FIRST}.parameters_json"]),
        ({"tools": (tool(parameters_json=REMOTE),)}, [f"{FIRST}.parameters_json"]),
        ({"tools": (tool(output_schema_json=b"[]"),)}, [f"{FIRST}.output_schema_json"]),
        ({"tools": (tool(max_parallel=0),), "max_parallel": 5_000}, PARALLEL),
        ({"worker": "a\nb"}, ["register.worker"]),
        ({"worker": ""}, ["register.worker"]),
        ({"worker": "  "}, ["register.worker"]),
        ({"invocations": ("x",) * 5_000}, ["register.invocations"]),
    ],
)  # fmt: skip
async def test_a_registration_that_breaks_its_rules_is_refused_with_every_fault(
    made: dict[str, Any], fields: list[str]
):
    there = Scene()
    with pytest.raises(Refused) as refused:
        await there.pools.join(PRINCIPAL, registration(**{"tools": (tool(),), **made}))
    assert refused.value.reason is Reason.INVALID_REQUEST
    assert [one.field for one in refused.value.violations] == fields
    assert there.pools.pools()[0].workers == []


async def test_a_worker_without_tools_is_refused():
    with pytest.raises(Refused) as refused:
        await Scene().pools.join(PRINCIPAL, registration(tools=()))
    assert [one.field for one in refused.value.violations] == ["register.tools"]


async def test_a_tool_outside_of_the_allow_list_can_not_be_served():
    there = Scene(allow=frozenset({"look"}))
    with pytest.raises(Refused) as refused:
        await there.worker(tool("look"), tool("wipe"))
    assert refused.value.reason is Reason.WORKER_TOOL_NOT_ALLOWED
    assert refused.value.metadata == {"tool": "wipe", "pool": POOL}
    assert there.pools.pools()[0].workers == []


async def test_a_pool_that_the_config_does_not_name_and_one_of_others_look_the_same():
    there = Scene(principals=frozenset({"ops"}))
    for pool in (POOL, "nowhere"):
        with pytest.raises(Refused) as refused:
            await there.worker(pool=pool)
        assert refused.value.reason is Reason.WORKER_POOL_NOT_FOUND
    assert not (await there.pools.join("ops", registration())).welcome.resumed


async def test_a_pool_has_no_more_workers_than_it_may():
    there = Scene(most_workers=1)
    first = await there.worker()
    with pytest.raises(Refused) as refused:
        await there.worker()
    assert refused.value.reason is Reason.WORKER_LIMIT
    first.seat.end(leaving=False)
    assert (await there.back(first)).seat.welcome.resumed


@pytest.mark.parametrize(("effect", "hint"), HINTS)
async def test_the_catalog_of_a_pool_is_what_its_workers_say(effect: Effect | None, hint: ToolHint):
    there = Scene()
    link = there.pools.link(POOL)
    assert link is not None
    assert isinstance(there.pools.catalog(POOL), str)
    worker = await there.worker(tool(effect=effect, output_schema_json=b'{"type":"object"}'))
    (found,) = (await link.catalog(max_age_s=0)).values()
    assert (found.name, found.description, found.hint) == ("look", "Looks.", hint)
    assert json.loads(found.output_schema_json or "null") == {"type": "object"}
    worker.seat.end(leaving=True)
    assert there.pools.catalog(POOL) == {"look": found}
