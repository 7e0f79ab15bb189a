"""The operator's config: one TOML file, the environment and the command line, read once at boot.

    load_config(file=…, environ=os.environ, flags={"listen": "127.0.0.1:0"})

A later one of default, file, environment and flag wins. In the file every setting has its TOML path. In the
environment a setting of `[server]` is `JACKLINE_<KEY>`; any other is `JACKLINE_` and its path in capitals,
with `__` between the parts. A flag is named like the TOML path, the `server.` left out if one likes.

    ----------------------------  ----------------------------------  -----------------
    TOML                          environment                         default
    ----------------------------  ----------------------------------  -----------------
    (the file itself)             JACKLINE_CONFIG                     none
    server.listen                 JACKLINE_LISTEN                     127.0.0.1:50051
    server.data                   JACKLINE_DATA                       ./data
    server.workflows              JACKLINE_WORKFLOWS                  none
    server.max_active_runs        JACKLINE_MAX_ACTIVE_RUNS            1000
    server.drain_grace            JACKLINE_DRAIN_GRACE                20s
    server.lease_ttl              JACKLINE_LEASE_TTL                  15s
    server.insecure_bind          JACKLINE_INSECURE_BIND              false
    server.reflection             JACKLINE_REFLECTION                 on for loopback
    server.volatile               JACKLINE_VOLATILE                   false
    server.enable_failpoints      JACKLINE_ENABLE_FAILPOINTS          false
    models.fast.api_key           JACKLINE_MODELS__FAST__API_KEY      none
    connections.orders.timeout    JACKLINE_CONNECTIONS__ORDERS__TIMEOUT  30s
    functions.roots               JACKLINE_FUNCTIONS__ROOTS           none (a, b)
    limits.run.stored_bytes       JACKLINE_LIMITS__RUN__STORED_BYTES  268435456
    limits.run.start_delay        JACKLINE_LIMITS__RUN__START_DELAY   30d
    limits.tenant.active_runs     JACKLINE_LIMITS__TENANT__ACTIVE_RUNS  none
    limits.tenant.run_token_budget  JACKLINE_LIMITS__TENANT__RUN_TOKEN_BUDGET  none
    ----------------------------  ----------------------------------  -----------------

A relative path in the file starts at the file's folder, any other at the working directory. `${env:NAME}` and
`${file:PATH}` stand for a value inside a string of the file, and nowhere else.
"""

from jackline_server.config.load import load_config
from jackline_server.config.plans import model_plans
from jackline_server.config.problems import ConfigError, Problem, ProblemCode
from jackline_server.config.settings import (
    Config,
    Listen,
    ModelProfile,
    RunSettings,
    ServerSettings,
    TenantLimits,
)

__all__ = [
    "Config",
    "ConfigError",
    "Listen",
    "ModelProfile",
    "Problem",
    "ProblemCode",
    "RunSettings",
    "ServerSettings",
    "TenantLimits",
    "load_config",
    "model_plans",
]
