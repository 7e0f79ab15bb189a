"""What the masks recognise, what they leave alone, and how long they take."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackline_server.core import json_text
from jackline_server.core.gate_plans import MaskPlan, Pii
from jackline_server.core.plan import JsonObject, JsonValue
from jackline_server.policies.masking import REGIONS, PiiMasks

ALL = MaskPlan(kinds=frozenset(Pii))


def masked(text: str, *, region: str = "") -> str:
    return PiiMasks().text(text, MaskPlan(kinds=frozenset(Pii), region=region))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Write to ann.o'neil+x@mail.example.co.uk.", "Write to [email]."),
        ("<ann@exämple.org>", "<[email]>"),
        ("call +31 20 123 4567 today", "call [phone] today"),
        ("call 0031-20-1234567 today", "call [phone] today"),
        ("+1 (212) 555-0100", "[phone]"),
        ("card 4111 1111 1111 1111, 5500-0000-0000-0004", "card [card], [card]"),
        ("amex 378282246310005", "amex [card]"),
        ("NL91 ABNA 0417 1643 00 AND MORE", "[iban] AND MORE"),
        ("to de89370400440532013000!", "to [iban]!"),
        ("from 10.1.2.3:443 and 2001:db8::7 and ::1", "from [ip]:443 and [ip] and [ip]"),
        ("SSN 219-09-9998", "SSN [national_id]"),
        ("DNI 12345678Z, NIE X1234567L", "DNI [national_id], NIE [national_id]"),
        ("nino QQ 12 34 56 C AB123456C", "nino QQ 12 34 56 C [national_id]"),
        ("CPF 390.533.447-05", "CPF [national_id]"),
    ],
)
def test_personal_data_is_masked_where_it_stands(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1112 is no card",
        "NL91ABNA0417164301 is no account",
        "300.1.1.1 and 1.2.3 and 12:30:15 and 0.0.0.0",
        "2026-11-30T10:20:30Z",
        "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "order 1234567, invoice INV-2026-0042",
        "ann at example dot org",
        "0000 0000 0000 0000",
        "a@b",
        "run_01h455vb4pex5vsknk084sn02q",
    ],
)
def test_what_only_looks_like_it_is_left_alone(text: str) -> None:
    assert masked(text) == text


def test_a_region_tells_its_own_numbers_from_other_digits() -> None:
    text = "bel 020 123 4567, bsn 111222333"
    assert masked(text) == text
    assert masked(text, region="NL") == "bel [phone], bsn [national_id]"
    assert "NL" in REGIONS


def test_only_the_kinds_that_are_named_are_masked() -> None:
    plan = MaskPlan(kinds=frozenset({Pii.EMAIL}))
    assert PiiMasks().text("a@example.org 10.0.0.1", plan) == "[email] 10.0.0.1"


def test_a_document_is_masked_in_its_texts_keys_and_numbers_and_stays_one() -> None:
    given = '{"ann@example.org":["4111111111111111",4111111111111111,{"n":12,"x":true,"y":null,"z":1.5}]}'
    shown = PiiMasks().json(given, ALL)
    assert json_text.parse(shown) == {
        "[email]": ["[card]", "[card]", {"n": 12, "x": True, "y": None, "z": 1.5}]
    }


@pytest.mark.parametrize(
    "written", ["4111111111111111.0", "4.111111111111111e15", "4111111111111111", "-4111111111111111.0"]
)
def test_a_whole_number_is_masked_however_it_is_written(written: str) -> None:
    shown = json_text.parse(PiiMasks().json(f'{{"card":{written},"share":0.5,"of":2.0}}', ALL))
    assert shown == {"card": f"{'-' * written.startswith('-')}[card]", "share": 0.5, "of": 2.0}


def test_keys_that_are_masked_alike_stay_apart_and_no_value_is_lost() -> None:
    accounts = '"NL91ABNA0417164300":1,"NL91 ABNA 0417 1643 00":2,"nl91abna0417164300":3'
    shown = PiiMasks().json(f'{{{accounts},"[iban] 2":4,"a@example.org":5}}', ALL)
    assert shown == '{"[iban]":1,"[iban] 3":2,"[iban] 4":3,"[iban] 2":4,"[email]":5}'


def test_many_keys_that_are_masked_alike_are_numbered_in_time_in_proportion_to_them() -> None:
    keys: JsonObject = {f"a{number}@example.org": number for number in range(20_000)}
    shown = json_text.parse_object(
        PiiMasks().json(json_text.write(keys), MaskPlan(kinds=frozenset({Pii.EMAIL})))
    )
    assert list(shown.items())[19_999] == ("[email] 20000", 19_999)


def test_an_escape_hides_nothing_and_a_document_without_such_data_keeps_its_text() -> None:
    assert PiiMasks().json('{"to":"ann\\u0040example.org"}', ALL) == '{"to":"[email]"}'
    odd = '{ "a" : 1.0 }'
    assert PiiMasks().json(odd, ALL) == odd
    assert PiiMasks().json('{"to": ann@example.org', ALL) == '{"to": [email]'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r'{"result": "write to\nann@example.org"}', r'{"result":"write to\n[email]"}'),
        (
            r'{"a": "to\nNL91ABNA0417164300", "b": "at\n+31201234567"}',
            r'{"a":"to\n[iban]","b":"at\n[phone]"}',
        ),
        ('{"card": 4111111111111111}', '{"card":"[card]"}'),
        ('Here:\n```json\n{"card": 4111111111111111}\n```\n', 'Here:\n```json\n{"card":"[card]"}\n```\n'),
        ('{"a": "x"} {"n": [10, "10.1.2.3"]}\n{"a": 1}', '{"a": "x"} {"n":[10,"[ip]"]}\n{"a": 1}'),
        ('as {it} was [said]: ["a@example.org"]', 'as {it} was [said]: ["[email]"]'),
        (r'{"body": "{\"to\": \"x\\nann@example.org\"}"}', r'{"body":"{\"to\":\"x\\n[email]\"}"}'),
        (r'"{\"card\": 4111111111111111}"', r'"{\"card\":\"[card]\"}"'),
        (r'{"to":"ann\u0040ex\u00e4mple.org"}', '{"to":"[email]"}'),
    ],
)
def test_json_in_a_text_is_masked_in_what_it_holds_and_stays_json(text: str, shown: str) -> None:
    assert masked(text) == shown
    assert masked(shown) == shown


PIECES = st.lists(
    st.sampled_from(
        [
            *(
                "ann@example.org",
                "NL91ABNA0417164300",
                "+31201234567",
                "4111111111111111",
                "x",
                " ",
                "\n",
                "\t",
            ),
            *("\\", '"', "é", "{", "}", "[", "]", ":", ",", "\\n", "`", "\0", "😀"),
        ]
    ),
    max_size=6,
).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(4111111111111111) | PIECES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PIECES, inner, max_size=3),
    max_leaves=8,
)


@given(
    value=st.lists(VALUES, max_size=3) | st.dictionaries(PIECES, VALUES, max_size=3), ascii_only=st.booleans()
)
def test_any_json_in_a_text_is_masked_as_the_same_json_alone(value: JsonValue, *, ascii_only: bool) -> None:
    document = json.dumps(value, ensure_ascii=ascii_only, indent=1)
    alone = json_text.parse(PiiMasks().json(document, ALL))
    assert json_text.parse(masked(document)) == alone
    before, behind = "As {asked}:\n```json\n", "\n```\n"
    shown = masked(before + document + behind)
    assert json_text.parse(shown.removeprefix(before).removesuffix(behind)) == alone


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r'{"result": "write to\nann@example.org', r'{"result": "write to\n[email]'),
        (r"to\nNL91ABNA0417164300\tand\r\n+31201234567\"", r"to\n[iban]\tand\r\n[phone]\""),
        (r"{\"to\": \"x\\nann@example.org\", ", r"{\"to\": \"x\\n[email]\", "),
        (
            r'{"to": "caf\u00e9\u000aann\u0040example.org, \u002b31201234567',
            r'{"to": "café\u000a[email], [phone]',
        ),
        (r'{"a": "\ud83d\ude00b@example.org\u0022', r'{"a": "\ud83d\ude00[email]\u0022'),
        ("a\0b@example.org\\", "a\0[email]\\"),
        ('{"a": 1, "a": "x\\nb@example.org"}', '{"a": 1, "a": "x\\n[email]"}'),
        ("[" * 200 + '"x\\nb@example.org"' + "]" * 200, "[" * 200 + '"x\\n[email]"' + "]" * 200),
        ("[" * 20_000 + "b@example.org", "[" * 20_000 + "[email]"),
        ("[" + "9" * 5_000 + "] b@example.org", "[" + "9" * 5_000 + "] [email]"),
    ],
)
def test_an_escape_is_no_part_of_what_stands_beside_it_where_json_is_not_whole(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        r'{"a": "caf\u00e9", "b" : [1.0, 1e2, -0]}',
        r"C:\new\u0041\x \ \\n",
        r'"caf\u00e9" and {"b" : 2',
        "a\0b",
    ],
)
def test_a_text_in_which_nothing_is_masked_stays_as_it_is_written(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize(
    "piece",
    [
        *("a", "a@", "a.b-", "1 ", "1:", "+3120", "AB12 ", "020 123 4567 ", "1.1.1.", "::", "A1", "("),
        *(
            "[",
            '{"a":',
            '["a',
            '["',
            "[1,",
            "\\",
            r"\n",
            r"a\u0040",
            r"\u0022",
            '{"a":1}',
            '{"a":1,"a":1}',
            "{x",
        ),
    ],
)
def test_no_text_takes_more_than_time_in_proportion_to_it(piece: str) -> None:
    plan = MaskPlan(kinds=frozenset(Pii), region="NL")

    def took(characters: int) -> float:
        text = (piece * characters)[:characters]
        began = time.process_time()
        PiiMasks().text(text, plan)
        return time.process_time() - began

    took(1_000)
    assert took(64_000) < 0.05 + 16 * max(took(8_000), 0.002)
