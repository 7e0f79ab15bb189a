"""What an adapter knows of a model profile beside the plan: keys, addresses, script files, slots.

Owns the settings type. They come from the operator's config; `bootstrap` converts them. A plan never
holds them.
"""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from jackline_server.core.frozen import frozen
from jackline_server.core.plan import JsonValue
from jackline_server.runtime.ports.secrets import Secret


@frozen
class ModelProfile:
    """The settings of one profile.

    `api_key` None sends no key of ours: without a `base_url` the provider's usual variable of the
    environment may then have one, with one nothing is looked up. `script` is the scripted adapter's file.
    `concurrency` is how many attempts may run at once, `requests_per_minute` how many may begin in a minute,
    with how many tokens; None is no such limit.

    `headers` go with every request, over those of the adapter. `parameters` are further fields of the
    request's body. `api_version` is Azure's. `max_tokens_key` names the field that bounds the reply; None
    lets the model's name decide. `streams` false asks for the reply in one piece, where an adapter can.
    """

    api_key: Secret | None = None
    base_url: str | None = None
    script: Path | None = None
    concurrency: int = 32
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    headers: Mapping[str, Secret] = field(default_factory=dict[str, Secret])
    parameters: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    api_version: str | None = None
    max_tokens_key: str | None = None
    streams: bool = True
