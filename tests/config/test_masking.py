"""What of a config may be shown: nothing that is not plainly harmless."""

from pathlib import Path

import pytest

from jackline_server.config import ConfigError, load_config
from jackline_server.config.effective import effective_settings
from jackline_server.config.masking import Veil, masked, masked_command, masked_name

PW = "hunter2"


@pytest.mark.parametrize(
    "words",
    [
        [f"--dsn=postgres://bob:{PW}@db/app"],
        [f"DATABASE_URL=postgres://bob:{PW}@db/app"],
        [f"--url=https://h/x?api_key={PW}"],
        [f"https://h/x?api_key={PW}"],
        [f"https://h.example/mcp/#token={PW}"],
        [f"https://h/sse/{PW}"],
        [f"https://{PW}@h/sse"],
        [f"https://u:{PW}/x@h/sse"],
        [f"https://[{PW}"],
        [f"postgresql://bob:pa/{PW}@db"],
        [f"redis://:{PW}"],
        [f"redis://{PW}"],
        [f"see https://{PW}"],
        ["--header", f"X-Api-Key: {PW}"],
        ["--header", f"Authorization: Basic {PW}"],
        ["--pw", PW],
        ["--pw", f"--{PW}"],
        ["--password", "@hunter2/hunter2"],
        [f"-p{PW}"],
        [f"-password={PW}"],
        [f"--x {PW}"],
        ["run", PW],
        [f"/{PW}"],
        [f"./{PW}"],
        [f"@{PW}"],
        [f"@scope/name@{PW}"],
        [f"{PW}=="],
    ],
    ids=" ".join,
)
def test_no_word_of_a_command_shows_a_password(words: list[str]):
    shown = masked_command(["/usr/bin/npx", *words])
    assert shown[0] == "/usr/bin/npx"
    assert len(shown) == len(words) + 1
    assert PW not in " ".join(shown)


def test_what_is_plainly_harmless_in_a_command_is_shown(tmp_path: Path):
    harmless = ["-y", "--read-only", "--", "@modelcontextprotocol/server-everything@1.2.3", str(tmp_path)]
    assert masked_command([str(tmp_path / "program"), *harmless]) == [str(tmp_path / "program"), *harmless]
    assert masked_command(["/x", "--level=3", "https://mcp.example:8443/sse"]) == [
        "/x",
        "--level=***",
        "https://mcp.example:8443/***",
    ]


def test_a_whole_command_line_in_place_of_a_program_is_cut_behind_it():
    assert masked_command([f"/usr/bin/x --pw {PW}"]) == ["/usr/bin/x***"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://models.internal/openai/v1", "https://models.internal/openai/v1"),
        ("http://[::1]:8000/v1beta2/", "http://[::1]:8000/v1beta2/"),
        (f"https://h/sse/{PW}", "https://h/sse/***"),
        (f"https://bob:{PW}@h/x", "https://***"),
        (f"https://bob:pa/{PW}@h/x", "https://***"),
        (f"https://h/x?key={PW}", "https://h/***"),
        (f"https://h/x#{PW}", "https://h/***"),
        (f"ftp://{PW}/x", "ftp://***"),
        (f"a b://{PW}", "***"),
    ],
)
def test_of_an_address_the_origin_and_plain_words_of_its_path_are_shown(url: str, shown: str):
    assert masked(url) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [("X-Api-Key", "X-Api-Key"), (f"Auth {PW}", "Auth***"), (f"K={PW}", "K***"), (f"X: {PW}", "X***")],
)
def test_a_name_is_shown_up_to_where_no_name_goes_on(name: str, shown: str):
    assert masked_name(name) == shown


def test_a_name_of_any_length_is_cut():
    assert len(masked_name("a" * 100_000)) < 200


# --- in what is shown of a config --------------------------------------------------------------


def problems(tmp_path: Path, toml: str, **environ: str) -> str:
    file = tmp_path / "jackline.toml"
    file.write_text(toml, "utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(file=file, environ=environ)
    return str(caught.value)


CONNECTION = '[connections.c]\nkind = "mcp"\ntransport = "stdio"\ncommand = ["/bin/false"]\n'
MODEL = '[models.m]\nmodel = "openai/x"\n'


@pytest.mark.parametrize(
    "toml",
    [
        f"{MODEL}api_key = 12345678\n",
        f"{MODEL}api_key = [12345678]\n",
        f"{CONNECTION}env = {{K = 12345678}}\n",
        f"{CONNECTION}env = 12345678\n",
        '[connections.c]\nkind = "http"\nbase_url = "https://h"\nheaders = {X-Key = 12345678}\n',
        '[connections.c]\nkind = "http"\nbase_url = "https://h"\nheaders = 12345678\n',
        '[connections.c]\nkind = "http"\nbase_url = "https://h"\nheaders = {"X-Key: 12345678" = "x"}\n',
        f'{CONNECTION}env = {{"K=12345678" = "x"}}\n',
        f'{MODEL}"api_key=12345678" = 1\n',
        f'{MODEL}supports = ["${{env:SECRET}}"]\n',
        '[server]\nlisten = "${env:SECRET}.example:1"\n',
        '[server]\nmax_active_runs = "${env:SECRET}"\n',
    ],
)
def test_a_problem_never_shows_what_may_be_a_secret(tmp_path: Path, toml: str):
    assert "12345678" not in problems(tmp_path, toml, SECRET="12345678")


def test_a_number_out_of_its_range_is_shown(tmp_path: Path):
    assert "not 0" in problems(tmp_path, "[server]\nmax_active_runs = 0\n")


def test_a_path_that_is_an_address_is_masked(tmp_path: Path):
    file = tmp_path / "jackline.toml"
    file.write_text(f'[server]\ndata = "postgres://bob:{PW}@db/app"\n', "utf-8")
    effective = effective_settings(file=file, environ={}, flags={})
    assert [one.value for one in effective.settings if one.path == ("server", "data")] == ["***"]


def test_a_veil_hides_a_value_and_what_is_made_of_it():
    veil = Veil([PW, "https://secret-host.internal:9/x", "/srv/secret/place/flows", "Bearer abcdefgh-1", "9"])
    shown = veil.over(
        f"folder/{PW.upper()}; http, secret-host.internal:9; below /srv/secret/place; lock flows; "
        "abcdefgh-1; 9 tools"
    )
    assert shown == "folder/***; http, ***:9; below ***; lock ***; ***; 9 tools"


def test_a_veil_takes_short_values_as_whole_words_and_lets_the_words_of_the_config_be():
    assert Veil(["gpt", "mcp", "20s"]).over("gpt, a gptx; mcp: not done within 20s") == (
        "***, a gptx; mcp: not done within 20s"
    )
    assert Veil([]).over("as it is") == "as it is"
