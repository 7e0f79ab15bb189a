"""What the server's commands say: for people and for programs, and never raw on a terminal."""

import json
import unicodedata

from hypothesis import given, strategies

from jackline_server.commands.given import printable, printable_json

HIDDEN = "\x00\x07\x1b\x7f\x85\x9b\u00ad\u200e\u202e\u2066\u2028\ufeff\U000e0041"


def test_hidden_characters_are_escapes_for_people_and_for_programs() -> None:
    for made in (printable(f"a{HIDDEN}b"), printable_json(json.dumps([f"a{HIDDEN}b"], ensure_ascii=False))):
        assert not [one for one in made if unicodedata.category(one) in {"Cc", "Cf", "Zl"}]


@given(strategies.dictionaries(strategies.text(), strategies.text(), max_size=4))
def test_json_whose_hidden_characters_are_escapes_means_the_same(value: dict[str, str]) -> None:
    assert json.loads(printable_json(json.dumps(value, ensure_ascii=False, indent=2))) == value
