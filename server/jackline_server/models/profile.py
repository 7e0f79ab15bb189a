"""What an adapter knows of a model profile beside the plan: keys, addresses, script files, slots.

Owns the settings type. They come from the operator's config; `bootstrap` converts them. A plan never
holds them.
"""

from pathlib import Path

from jackline_server.core.frozen import frozen
from jackline_server.runtime.secrets import Secret


@frozen
class ModelProfile:
    """The settings of one profile.

    `api_key` None sends no key of ours: without a `base_url` the provider library may then find one in the
    environment under the provider's usual name, with one nothing is looked up. `script` is the scripted
    adapter's file. `concurrency` is how many attempts may run at once. Times are milliseconds.
    """

    api_key: Secret | None = None
    base_url: str | None = None
    script: Path | None = None
    concurrency: int = 32
    connect_ms: int = 10_000
    first_token_ms: int = 60_000
