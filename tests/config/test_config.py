import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jackline_server.config import Config, ConfigError, ProblemCode, load_config, model_plans
from jackline_server.core.plan import AttemptLimits, Price
from jackline_server.runtime.ports.http import Origin

WHOLE = """
[server]
listen = "127.0.0.1:6000"
data = "./store"
workflows = "./flows"
max_active_runs = 7
drain_grace = "1.5s"

[models.fast]
model = "openai/gpt-4o-mini"
api_key = "${env:THE_KEY}"
base_url = "http://vllm.internal:8000/v1"
concurrency = 3
price = {input_per_million = 0.15, output_per_million = 0.60}

[models.demo]
script = "./script.yaml"
price = {input_per_million = 0, output_per_million = 0}

[connections.orders]
kind = "http"
base_url = "http://127.0.0.1:9000/api/"
headers = {authorization = "Bearer ${file:token}", x-shop = "17"}
timeout = "10s"
concurrency = 4

[functions]
roots = ["company.tools"]

[limits.tenant]
active_runs = 200
"""

Load = Callable[..., Config]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    (tmp_path / "token").write_text("from-a-file\n")

    def loaded(toml: str = "", *, environ: dict[str, str] | None = None, **flags: str | int | bool) -> Config:
        file = tmp_path / "jackline.toml"
        file.write_text(toml)
        return load_config(file=file, environ={"THE_KEY": "from-env", **(environ or {})}, flags=flags)

    return loaded


def problems_of(load: Load, toml: str = "", **more: object) -> list[tuple[ProblemCode, str]]:
    with pytest.raises(ConfigError) as caught:
        load(toml, **more)
    return [(problem.code, problem.key) for problem in caught.value.problems]


def test_without_anything_the_defaults_hold():
    config = load_config(environ={})
    assert str(config.server.listen) == "127.0.0.1:50051"
    assert (config.server.data, config.server.workflows) == (Path("data"), None)
    assert (config.server.max_active_runs, config.server.drain_grace_ms) == (1_000, 20_000)
    assert config.server.reflection
    assert not config.server.enable_failpoints
    assert (config.file, config.models, config.connections, config.function_roots) == (None, {}, {}, ())


def test_every_section_is_read(load: Load, tmp_path: Path):
    config = load(WHOLE)
    assert (config.server.listen.port, config.server.drain_grace_ms) == (6000, 1_500)
    assert (config.server.data, config.server.workflows) == (tmp_path / "store", tmp_path / "flows")
    fast, demo = config.models["fast"], config.models["demo"]
    assert fast.api_key is not None
    assert fast.api_key.reveal() == "from-env"
    assert (fast.adapter, demo.adapter) == ("openai", "scripted")
    assert fast.price == Price(input_per_million=150_000, output_per_million=600_000)
    assert demo.price == Price(input_per_million=0, output_per_million=0)
    assert demo.script == tmp_path / "script.yaml"
    orders = config.connections["orders"]
    assert orders.origin == Origin(scheme="http", host="127.0.0.1", port=9000)
    assert (orders.base_path, orders.timeout_ms, orders.concurrency) == ("/api", 10_000, 4)
    assert orders.headers["authorization"].reveal() == "Bearer from-a-file"
    assert orders.reach.trusted == frozenset({orders.origin})
    assert (config.function_roots, config.tenant.active_runs) == (("company.tools",), 200)


@pytest.mark.parametrize(
    ("profile", "adapter"),
    [
        ("model = 'openai/m'", "openai"),
        ("model = 'openai/m'\nadapter = 'litellm'", "litellm"),
        ("model = 'anthropic/m'", "litellm"),
        ("model = 'anthropic/m'\nbase_url = 'http://x/v1'", "litellm"),
        ("model = 'anthropic/m'\nadapter = 'openai'\nbase_url = 'http://x/v1'", "openai"),
        ("model = 'm'", "litellm"),
        ("model = 'm'\nbase_url = 'http://x/v1'", "openai"),
        ("model = 'azure/m'\nbase_url = 'http://x'", "litellm"),
        ("model = 'azure/m'\nbase_url = 'http://x'\napi_key = 'k'", "openai"),
        ("script = 's.yaml'", "scripted"),
        ("script = 's.yaml'\nmodel = 'openai/m'", "openai"),
        ("script = 's.yaml'\nmodel = 'openai/m'\nadapter = 'scripted'", "scripted"),
    ],
)
def test_the_adapter_follows_from_the_model_unless_it_is_said(load: Load, profile: str, adapter: str):
    config = load(f"[models.a]\n{profile}\n")
    assert config.models["a"].adapter == model_plans(config)["a"].adapter == adapter


def test_what_goes_with_every_request_of_a_model_is_read(load: Load):
    toml = """
        [models.a]
        model = "openai/m"
        api_version = "2024-10-21"
        max_tokens_key = "max_completion_tokens"
        headers = {X-Team = "${env:THE_KEY}"}
        [models.a.params]
        temperature = 0.2
        seed = 7
        stop = ["a", "b"]
        provider = {order = ["x"], allow = true}
    """
    profile = load(toml, environ={"JACKLINE_MODELS__A__PARAMS__TOP_P": "0.5"}).models["a"]
    assert profile.params == {
        "temperature": 0.2,
        "seed": 7,
        "stop": ["a", "b"],
        "provider": {"order": ["x"], "allow": True},
        "top_p": 0.5,
    }
    assert profile.headers["X-Team"].reveal() == "from-env"
    assert (profile.api_version, profile.max_tokens_key) == ("2024-10-21", "max_completion_tokens")


@pytest.mark.parametrize(
    ("line", "key", "code"),
    [
        ("params = {model = 'x'}", "models.a.params.model", ProblemCode.BAD_VALUE),
        ("params = {max_tokens = 5}", "models.a.params.max_tokens", ProblemCode.BAD_VALUE),
        ("params = {since = 2020-01-01}", "models.a.params.since", ProblemCode.WRONG_TYPE),
        ("params = {much = inf}", "models.a.params.much", ProblemCode.WRONG_TYPE),
        ("params = 5", "models.a.params", ProblemCode.WRONG_TYPE),
        ("headers = {host = 'x'}", "models.a.headers.host", ProblemCode.BAD_VALUE),
        ("max_tokens_key = 'n'", "models.a.max_tokens_key", ProblemCode.BAD_VALUE),
        ("adapter = 'openai'", "models.a.base_url", ProblemCode.MISSING),
        ("adapter = 'other'", "models.a.adapter", ProblemCode.BAD_VALUE),
    ],
)
def test_what_can_not_go_with_a_model_is_refused(load: Load, line: str, key: str, code: ProblemCode):
    assert problems_of(load, f"[models.a]\nmodel = 'm'\n{line}\n") == [(code, key)]


def test_no_secret_shows_in_the_config(load: Load):
    shown = repr(load(WHOLE)) + repr(model_plans(load(WHOLE)))
    assert "from-env" not in shown
    assert "from-a-file" not in shown


def test_model_plans_carry_the_price_and_no_address(load: Load):
    plans = model_plans(load(WHOLE))
    assert plans["fast"].price == Price(input_per_million=150_000, output_per_million=600_000)
    assert (plans["fast"].model, plans["demo"].adapter) == ("openai/gpt-4o-mini", "scripted")
    assert "vllm" not in repr(plans)


def test_a_flag_wins_over_the_environment_and_that_over_the_file(load: Load):
    toml = '[server]\nlisten = "127.0.0.1:1"\nmax_active_runs = 1\ndrain_grace = "1s"\n'
    environ = {"JACKLINE_LISTEN": "127.0.0.1:2", "JACKLINE_MAX_ACTIVE_RUNS": "2"}
    config = load(toml, environ=environ, listen="127.0.0.1:3")
    assert config.server.listen.port == 3
    assert (config.server.max_active_runs, config.server.drain_grace_ms) == (2, 1_000)


def test_the_file_may_be_named_by_the_environment(tmp_path: Path):
    file = tmp_path / "x.toml"
    file.write_text("[server]\nmax_active_runs = 5\n")
    assert load_config(environ={"JACKLINE_CONFIG": str(file)}).server.max_active_runs == 5


def test_a_variable_reaches_any_setting(load: Load):
    environ = {
        "JACKLINE_MODELS__FAST__API_KEY": "other",
        "JACKLINE_MODELS__FAST__PRICE__INPUT_PER_MILLION": "1.25",
        "JACKLINE_CONNECTIONS__ORDERS__TIMEOUT": "3s",
        "JACKLINE_FUNCTIONS__ROOTS": "a.b, c",
    }
    config = load(WHOLE, environ=environ)
    fast = config.models["fast"]
    assert fast.api_key is not None
    assert fast.api_key.reveal() == "other"
    assert fast.price == Price(input_per_million=1_250_000, output_per_million=600_000)
    assert (config.connections["orders"].timeout_ms, config.function_roots) == (3_000, ("a.b", "c"))


def test_a_path_from_a_flag_starts_at_the_working_directory(load: Load):
    assert load("", data="here").server.data == Path("here")


def test_the_timers_and_caps_of_a_model_are_those_of_its_plan(load: Load):
    toml = """
    [models.a]
    model = "x"
    connect_timeout = "2s"
    first_token_timeout = "90s"
    idle_timeout = "5s"
    request_timeout = "40s"
    max_reply_bytes = 2048
    max_reply_chunks = 50
    supports = ["json_schema"]
    [models.b]
    model = "x"
    """
    plans = model_plans(load(toml))
    assert plans["a"].limits == AttemptLimits(
        connect_timeout_ms=2_000,
        first_token_timeout_ms=90_000,
        idle_timeout_ms=5_000,
        request_timeout_ms=40_000,
        reply_bytes=2_048,
        reply_chunks=50,
    )
    assert (plans["a"].calls_tools, plans["a"].native_schema) == (False, True)
    assert (plans["b"].limits, plans["b"].calls_tools) == (AttemptLimits(), True)


@pytest.mark.parametrize(
    "line",
    [
        "connect_timeout = '0s'",
        "first_token_timeout = '25h'",
        "idle_timeout = 5",
        "request_timeout = '-1s'",
        "max_reply_bytes = 1023",
        "max_reply_bytes = 8388609",
        "max_reply_chunks = 0",
        "max_reply_chunks = 1000001",
        "requests_per_minute = 0",
        "requests_per_minute = 1000001",
        "tokens_per_minute = -5",
        "tokens_per_minute = '600'",
    ],
)
def test_a_timer_or_cap_out_of_its_range_is_named(load: Load, line: str):
    key = line.partition(" ")[0]
    assert [found for _, found in problems_of(load, f"[models.a]\nmodel = 'x'\n{line}")] == [
        f"models.a.{key}"
    ]


@pytest.mark.parametrize("names", ["['c']", "['a']", "['b', 'b']"], ids=["unknown", "itself", "twice"])
def test_a_fallback_is_another_profile_and_stands_once(load: Load, names: str):
    toml = f"[models.a]\nmodel = 'x'\nfallbacks = {names}\n[models.b]\nmodel = 'x'\n"
    assert problems_of(load, toml) == [(ProblemCode.BAD_VALUE, "models.a.fallbacks")]


def test_the_fallbacks_of_a_profile_are_kept_in_their_order(load: Load):
    toml = (
        "[models.a]\nmodel = 'x'\nfallbacks = ['c', 'b']\n[models.b]\nmodel = 'x'\n[models.c]\nmodel = 'x'\n"
    )
    assert load(toml).models["a"].fallbacks == ("c", "b")


def test_a_misspelt_variable_is_noticed(load: Load):
    assert len(load("", environ={"JACKLINE_LISTN": "127.0.0.1:2", "JACKLINE_TOKEN": "x"}).notices) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("JACKLINE_DRAIN_GRACE", "abc"),
        ("JACKLINE_DRAIN_GRACE", ""),
        ("JACKLINE_DRAIN_GRACE", "-5s"),
        ("JACKLINE_DRAIN_GRACE", "0s"),
        ("JACKLINE_DRAIN_GRACE", "20"),
        ("JACKLINE_MAX_ACTIVE_RUNS", "abc"),
        ("JACKLINE_MAX_ACTIVE_RUNS", "-1"),
        ("JACKLINE_MAX_ACTIVE_RUNS", "0"),
        ("JACKLINE_MAX_ACTIVE_RUNS", "1e3"),
        ("JACKLINE_INSECURE_BIND", "maybe"),
        ("JACKLINE_LISTEN", ""),
        ("JACKLINE_LISTEN", "nowhere"),
        ("JACKLINE_LISTEN", "127.0.0.1:70000"),
        ("JACKLINE_DATA", ""),
        ("JACKLINE_DATA", "a\x00b"),
    ],
)
def test_a_bad_variable_is_named(load: Load, name: str, value: str):
    with pytest.raises(ConfigError) as caught:
        load("", environ={name: value})
    [problem] = caught.value.problems
    assert problem.where == name


@pytest.mark.parametrize("listen", ["0.0.0.0:1", "[::]:1", "192.168.1.1:1", "example.org:1"])
def test_beyond_loopback_needs_the_operators_word(load: Load, listen: str):
    assert problems_of(load, listen=listen) == [(ProblemCode.INSECURE, "server.listen")]
    server = load("", listen=listen, insecure_bind=True).server
    assert not server.listen.is_loopback
    assert not server.reflection


@pytest.mark.parametrize("listen", ["127.0.0.2:0", "[::1]:0", "localhost:0"])
def test_loopback_needs_no_word(load: Load, listen: str):
    assert str(load("", listen=listen).server.listen) == listen


@pytest.mark.parametrize(
    ("toml", "key"),
    [
        ("[server]\nlistne = 1", "server.listne"),
        ("[sever]\nlisten = 1", "sever"),
        ("[models.a]\nmodel = 'x'\nmodle = 'x'", "models.a.modle"),
        ("[models.a]\nmodel = 'x'\nprice = {input = 1}", "models.a.price.input"),
        ("[connections.a]\nkind = 'http'\nbase_url = 'http://a'\nurl = 'x'", "connections.a.url"),
        ("[functions]\nroot = []", "functions.root"),
        ("[limits]\ntenants = 1", "limits.tenants"),
    ],
)
def test_an_unknown_key_is_refused_by_name(load: Load, toml: str, key: str):
    assert (ProblemCode.UNKNOWN_KEY, key) in problems_of(load, toml)


def test_an_unknown_key_is_answered_with_the_nearest_one_and_its_line(load: Load):
    with pytest.raises(ConfigError) as caught:
        load("[server]\n\nlistne = 1\n")
    [problem] = caught.value.problems
    assert problem.where.endswith("jackline.toml:3")
    assert "'listen'" in problem.message


def test_a_key_by_its_name_elsewhere_is_answered_with_ours(load: Load):
    with pytest.raises(ConfigError) as caught:
        load("[connections.a]\nkind = 'http'\nbase_url = 'http://a'\nmax_parallel = 2\n")
    [problem] = caught.value.problems
    assert "'concurrency'" in problem.message


def test_a_mistyped_key_is_one_problem_and_not_also_a_missing_one(load: Load):
    assert problems_of(load, "[models.a]\nscrpt = 'a.yaml'") == [(ProblemCode.UNKNOWN_KEY, "models.a.scrpt")]


def test_a_key_that_is_missing_is_told_with_the_line_of_its_section(load: Load):
    with pytest.raises(ConfigError) as caught:
        load("[models.a]\nadapter = 'litellm'\n")
    [problem] = caught.value.problems
    assert problem.code is ProblemCode.MISSING
    assert problem.where.endswith("jackline.toml:2")


@pytest.mark.parametrize(
    ("toml", "key"),
    [
        ("[server]\nhttp = '127.0.0.1:8080'", "server.http"),
        ("[server]\nstore = 'postgresql://x'", "server.store"),
        ("[auth]\nx = 1", "auth"),
        ("[limits.tenant]\nusd_per_day = 100", "limits.tenant.usd_per_day"),
    ],
)
def test_what_is_not_built_is_refused_as_that(load: Load, toml: str, key: str):
    assert problems_of(load, toml) == [(ProblemCode.NOT_BUILT, key)]


@pytest.mark.parametrize(
    "toml",
    [
        "[server]\nmax_active_runs = '10'",
        "[server]\nmax_active_runs = true",
        "[server]\nmax_active_runs = 10.5",
        "[server]\ndrain_grace = 20",
        "[server]\ninsecure_bind = 'true'",
        "[server]\nlisten = 50051",
        "server = 1",
        "[models]\na = 1",
        "[functions]\nroots = 'a'",
        "[functions]\nroots = [1]",
        "[server.listen]\nx = 1",
    ],
)
def test_a_value_of_another_type_is_never_coerced(load: Load, toml: str):
    assert all(code is ProblemCode.WRONG_TYPE for code, _ in problems_of(load, toml))


BOTH = "{input_per_million = 1, output_per_million = 1}"


@pytest.mark.parametrize("price", ["-1", "nan", "inf", "0.0000001", "1e30", "'1'", "true"])
def test_a_price_is_exact_and_sane(load: Load, price: str):
    toml = f"[models.a]\nmodel = 'x'\nprice = {{input_per_million = {price}, output_per_million = 1}}"
    assert [key for _, key in problems_of(load, toml)] == ["models.a.price.input_per_million"]


def test_parts_of_a_prompt_and_of_a_reply_may_have_prices_of_their_own(load: Load):
    price = (
        "{input_per_million = 2, output_per_million = 8, cached_per_million = 0.5, reasoning_per_million = 0}"
    )
    profile = load(f"[models.a]\nmodel = 'x'\nprice = {price}").models["a"]
    assert profile.price == Price(
        input_per_million=2_000_000,
        output_per_million=8_000_000,
        cached_per_million=500_000,
        reasoning_per_million=0,
    )
    assert not profile.price_is_ceiling


def test_a_model_of_unknown_price_is_counted_at_its_ceiling_if_its_profile_says_so(load: Load):
    toml = (
        "[models.a]\nmodel = 'x'\nunknown_price = 'ceiling'\n"
        "ceiling_price = {input_per_million = 5, output_per_million = 20}"
    )
    plan = model_plans(load(toml))["a"]
    assert plan.price == Price(input_per_million=5_000_000, output_per_million=20_000_000)
    assert plan.price_is_ceiling


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("unknown_price = 'free'", (ProblemCode.BAD_VALUE, "models.a.unknown_price")),
        ("unknown_price = 'ceiling'", (ProblemCode.MISSING, "models.a.ceiling_price")),
        (f"ceiling_price = {BOTH}", (ProblemCode.BAD_VALUE, "models.a.ceiling_price")),
        (
            f"unknown_price = 'refuse'\nceiling_price = {BOTH}",
            (ProblemCode.BAD_VALUE, "models.a.ceiling_price"),
        ),
        (
            f"price = {BOTH}\nunknown_price = 'ceiling'\nceiling_price = {BOTH}",
            (ProblemCode.BAD_VALUE, "models.a.unknown_price"),
        ),
        (
            "unknown_price = 'ceiling'\nceiling_price = {input_per_million = -1, output_per_million = 1}",
            (ProblemCode.BAD_VALUE, "models.a.ceiling_price.input_per_million"),
        ),
    ],
)
def test_a_ceiling_that_could_not_count_is_refused(load: Load, lines: str, problem: tuple[ProblemCode, str]):
    assert problems_of(load, f"[models.a]\nmodel = 'x'\n{lines}") == [problem]


def test_half_a_price_is_refused(load: Load):
    toml = "[models.a]\nmodel = 'x'\nprice = {input_per_million = 1}"
    assert problems_of(load, toml) == [(ProblemCode.MISSING, "models.a.price.output_per_million")]


@pytest.mark.parametrize(
    "value",
    [
        "${env:UNSET}",
        "${env:EMPTY}",
        "${env:${env:THE_KEY}}",
        "${env:LEADS_ON}",
        "${file:leads_on}",
        "${file:missing}",
        "${file:}",
        "${file:..}",
        "${vault:x}",
        "${env:THE_KEY",
        "a ${env:THE_KEY} ${",
    ],
)
def test_a_bad_reference_names_its_key_and_shows_no_value(load: Load, tmp_path: Path, value: str):
    (tmp_path / "leads_on").write_text("hidden-value ${env:THE_KEY}")
    environ = {"EMPTY": "", "LEADS_ON": "hidden-value ${env:THE_KEY}"}
    with pytest.raises(ConfigError) as caught:
        load(f"[models.a]\nmodel = 'x'\napi_key = '{value}'\n", environ=environ)
    [problem] = caught.value.problems
    assert (problem.code, problem.key) == (ProblemCode.BAD_REFERENCE, "models.a.api_key")
    assert problem.where.endswith("jackline.toml:3")
    assert "hidden-value" not in str(caught.value)
    assert "from-env" not in str(caught.value)


def test_a_value_from_a_reference_is_never_shown_when_it_is_wrong(load: Load):
    toml = "[server]\nlisten = '${env:THE_KEY}'\nmax_active_runs = '${env:THE_KEY}'\n"
    with pytest.raises(ConfigError) as caught:
        load(toml)
    assert len(caught.value.problems) == 2
    assert "from-env" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "orders.internal",
        "ftp://a",
        "http://",
        "http://user:pw@a",
        "http://a?x=1",
        "http://a#x",
        "http://a:0",
        "http://a:99999",
        "http://a/../b",
        "http://a//b",
        "http://a b",
        "http://[::1",
    ],
)
def test_a_base_url_is_an_origin_and_a_path(load: Load, url: str):
    toml = f"[connections.a]\nkind = 'http'\nbase_url = '{url}'"
    assert set(problems_of(load, toml)) == {(ProblemCode.BAD_VALUE, "connections.a.base_url")}


@pytest.mark.parametrize("name", ["host", "Content-Length", "cookie", "idempotency-key", "'a b'"])
def test_a_header_that_is_ours_is_refused(load: Load, name: str):
    toml = f"[connections.a]\nkind = 'http'\nbase_url = 'http://a'\nheaders = {{{name} = 'x'}}"
    assert [code for code, _ in problems_of(load, toml)] == [ProblemCode.BAD_VALUE]


def test_a_header_can_not_break_its_line(load: Load):
    toml = "[connections.a]\nkind = 'http'\nbase_url = 'http://a'\nheaders = {x = \"a\\r\\nb: c\"}"
    assert problems_of(load, toml) == [(ProblemCode.BAD_VALUE, "connections.a.headers.x")]


def test_all_problems_are_told_at_once(load: Load):
    toml = (
        "[server]\nlistne = 1\nmax_active_runs = 0\n[models.a]\n[connections.b]\nkind = 'x'\n[tls]\na = 1\n"
    )
    assert {key for _, key in problems_of(load, toml)} == {
        "tls",
        "server.listne",
        "server.max_active_runs",
        "models.a.model",
        "connections.b.kind",
    }


def test_a_syntax_error_has_its_line(load: Load):
    with pytest.raises(ConfigError) as caught:
        load("[server]\nlisten = \n")
    [problem] = caught.value.problems
    assert problem.code is ProblemCode.SYNTAX
    assert problem.where.endswith("jackline.toml:2")


def test_a_file_that_everybody_may_write_is_refused(tmp_path: Path):
    file = tmp_path / "jackline.toml"
    file.write_text("")
    file.chmod(0o646)
    with pytest.raises(ConfigError) as caught:
        load_config(file=file, environ={})
    assert [problem.code for problem in caught.value.problems] == [ProblemCode.UNSAFE_FILE]


def test_a_symlink_is_followed_once_and_stated(tmp_path: Path):
    (tmp_path / "real.toml").write_text("[server]\nmax_active_runs = 5\n")
    (tmp_path / "link.toml").symlink_to("real.toml")
    (tmp_path / "far.toml").symlink_to("link.toml")
    config = load_config(file=tmp_path / "link.toml", environ={})
    assert config.server.max_active_runs == 5
    assert len(config.notices) == 1
    with pytest.raises(ConfigError) as caught:
        load_config(file=tmp_path / "far.toml", environ={})
    assert [problem.code for problem in caught.value.problems] == [ProblemCode.UNSAFE_FILE]


def test_a_missing_file_a_folder_and_a_pipe_are_refused(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("missing", ".", "pipe"):
        with pytest.raises(ConfigError):
            load_config(file=tmp_path / name, environ={})


@pytest.mark.parametrize("data", [b"\xff\xfe", b"a = 1\na = 2", b"a = " + b"[" * 5_000, b"x" * 2_000_000])
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, data: bytes):
    file = tmp_path / "jackline.toml"
    file.write_bytes(data)
    with pytest.raises(ConfigError):
        load_config(file=file, environ={})


def test_functions_get_processes_of_their_own_as_the_operator_says(load: Load) -> None:
    usual = load("[functions]\nroots = ['a']\n").function_processes
    said = load(
        "[functions]\nroots = ['a']\nisolate = true\n[functions.process]\nmemory_mib = 64\ncpu = '1500ms'\n"
        "files = 20\nenv = {A = '${env:THE_KEY}'}\nfolder = 'work'\nhide_server = false\n"
    ).function_processes
    assert (usual.folder, usual.hide_server) == (None, True)
    assert said.folder is not None
    assert (said.folder.is_absolute(), said.folder.name, said.hide_server) == (True, "work", False)
    assert (usual.always, usual.memory_bytes, usual.environment) == (False, None, None)
    assert (said.always, said.memory_bytes, said.cpu_s, said.files) == (True, 64 * 1024**2, 2, 20)
    assert said.environment is not None
    assert said.environment["A"].reveal() == "from-env"
    assert "from-env" not in repr(said)


@pytest.mark.parametrize(
    "key", ["files = 1", "memory = 5", "cpu = 'x'", "env = {'1a' = 'b'}", "hide_server = 1"]
)
def test_what_a_function_process_can_not_have_is_a_problem(load: Load, key: str) -> None:
    assert problems_of(load, f"[functions]\nroots = ['a']\n[functions.process]\n{key}\n")
