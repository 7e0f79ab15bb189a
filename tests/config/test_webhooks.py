"""Webhooks in the config: every default, secrets that are none, addresses that are private by name alone."""

from pathlib import Path

import pytest

from jackline_server.config import Config, ConfigError, ProblemCode, load_config
from jackline_server.config.effective import effective_settings
from jackline_server.config.masking import MASK
from jackline_server.core.facts import Phase
from jackline_server.runtime.ports.http import Origin
from jackline_server.runtime.ports.webhooks import WebhookEvent

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLD = "whsec_" + "b2xk" * 8
URL = "url = 'https://hooks.example.com/jackline'\n"
HEAD = f"[webhooks.ops]\nsecret = '{SECRET}'\n"


def loaded(folder: Path, toml: str) -> Config:
    file = folder / "jackline.toml"
    file.write_text(toml)
    return load_config(file=file, environ={"NEW": SECRET, "OLD": OLD})


def test_a_webhook_is_read_with_every_default(tmp_path: Path):
    made = loaded(tmp_path, HEAD + URL).webhooks["ops"]

    assert made.origin == Origin(scheme="https", host="hooks.example.com", port=443)
    assert (made.target, [one.reveal() for one in made.secrets]) == ("/jackline", [SECRET])
    assert made.events == frozenset(WebhookEvent)
    assert (made.states, made.signals, made.workflows, made.labels) == (
        frozenset(),
        frozenset(),
        frozenset(),
        {},
    )
    assert (made.children, made.full, made.timeout_ms, made.concurrency) == (False, False, 10_000, 4)
    assert made.reach.trusted == {made.origin}
    assert not made.reach.trusted_private
    assert not made.reach.hosts


def test_a_webhook_is_read_with_everything_said(tmp_path: Path):
    made = loaded(
        tmp_path,
        "[webhooks.ops]\nurl = 'http://billing.internal:8080/a/b?c=d&e'\n"
        "secret = '${env:NEW}'\nprevious_secret = '${env:OLD}'\nevents = ['run.finished']\n"
        "states = ['failed', 'aborted']\nsignals = ['error']\nworkflows = ['refunds']\n"
        "labels = {team = 'a'}\nchildren = true\nview = 'full'\ntimeout = '25s'\nconcurrency = 64\n"
        "allow_private = true\n",
    ).webhooks["ops"]

    assert made.origin == Origin(scheme="http", host="billing.internal", port=8_080)
    assert made.target == "/a/b?c=d&e"
    assert [one.reveal() for one in made.secrets] == [SECRET, OLD]
    assert made.events == {WebhookEvent.RUN_FINISHED}
    assert made.states == {Phase.FAILED, Phase.ABORTED}
    assert (made.signals, made.workflows, made.labels) == ({"error"}, {"refunds"}, {"team": "a"})
    assert (made.children, made.full, made.timeout_ms, made.concurrency) == (True, True, 25_000, 64)
    assert made.reach.trusted_private


@pytest.mark.parametrize(
    ("host", "private"),
    [
        ("127.0.0.1:8080", True),
        ("[::1]:8080", True),
        ("10.0.0.7", True),
        ("localhost:8080", True),
        ("billing.internal", False),
        ("localhost.example.com", False),
    ],
)
def test_an_address_that_is_written_may_be_private_a_name_may_not(tmp_path: Path, host: str, private: bool):
    made = loaded(tmp_path, f"{HEAD}url = 'http://{host}/'\n").webhooks["ops"]

    assert made.reach.trusted_private is private


@pytest.mark.parametrize(
    ("toml", "code", "key"),
    [
        (HEAD, ProblemCode.MISSING, "webhooks.ops.url"),
        ("[webhooks.ops]\n" + URL, ProblemCode.MISSING, "webhooks.ops.secret"),
        (HEAD + "url = 'ftp://a/'\n", ProblemCode.BAD_VALUE, "webhooks.ops.url"),
        (HEAD + "url = 'https://u:p@a/'\n", ProblemCode.BAD_VALUE, "webhooks.ops.url"),
        (HEAD + "url = 'https://a/#b'\n", ProblemCode.BAD_VALUE, "webhooks.ops.url"),
        (HEAD + "url = 'https://a/../b'\n", ProblemCode.BAD_VALUE, "webhooks.ops.url"),
        (HEAD + "url = 'https://a/b c'\n", ProblemCode.BAD_VALUE, "webhooks.ops.url"),
        (HEAD + "url = 'https://[::1/'\n", ProblemCode.BAD_VALUE, "webhooks.ops.url"),
        ("[webhooks.ops]\nsecret = 'hush'\n" + URL, ProblemCode.BAD_VALUE, "webhooks.ops.secret"),
        (
            HEAD + URL + "previous_secret = 'whsec_YQ=='\n",
            ProblemCode.BAD_VALUE,
            "webhooks.ops.previous_secret",
        ),
        (HEAD + URL + "events = ['run.started']\n", ProblemCode.BAD_VALUE, "webhooks.ops.events"),
        (HEAD + URL + "states = ['running']\n", ProblemCode.BAD_VALUE, "webhooks.ops.states"),
        (HEAD + URL + "view = 'all'\n", ProblemCode.BAD_VALUE, "webhooks.ops.view"),
        (HEAD + URL + "labels = {a = 1}\n", ProblemCode.BAD_VALUE, "webhooks.ops.labels.a"),
        (HEAD + URL + "timeout = '26s'\n", ProblemCode.BAD_VALUE, "webhooks.ops.timeout"),
        (HEAD + URL + "concurrency = 65\n", ProblemCode.BAD_VALUE, "webhooks.ops.concurrency"),
        (HEAD + URL + "retries = 3\n", ProblemCode.UNKNOWN_KEY, "webhooks.ops.retries"),
        ("[webhooks.'o ps']\nsecret = '" + SECRET + "'\n" + URL, ProblemCode.BAD_VALUE, "webhooks.o***"),
    ],
)
def test_what_is_wrong_is_said_once_and_where(tmp_path: Path, toml: str, code: ProblemCode, key: str):
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, toml)

    assert [(problem.code, problem.key) for problem in caught.value.problems] == [(code, key)]
    assert SECRET not in str(caught.value)


def test_neither_a_secret_nor_what_stands_in_the_path_of_a_url_is_shown(tmp_path: Path):
    file = tmp_path / "jackline.toml"
    file.write_text(
        f"{HEAD}previous_secret = '{OLD}'\nurl = 'https://hooks.example.com/services/T0AB12CD/x9?token=hush'\n"
    )

    effective = effective_settings(file=file, environ={}, flags={})

    shown = {setting.path[-1]: setting.value for setting in effective.settings if "ops" in setting.path}
    assert (shown["secret"], shown["previous_secret"]) == (MASK, MASK)
    assert str(shown["url"]).startswith("https://hooks.example.com/")
    assert not any(word in str(shown) for word in ("T0AB12CD", "hush", "MfKQ", "b2xk"))
    assert "MfKQ" not in repr(effective.config)
    assert {SECRET, OLD} <= {secret.reveal() for secret in effective.config.all_hidden}
