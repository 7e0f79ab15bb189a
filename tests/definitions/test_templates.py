"""Templates: names and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackline_server.core import templates
from jackline_server.core.templates import Literal, Name, TemplateError


def test_a_text_is_split_into_literals_and_names():
    assert templates.parse("/{{ shop }}/orders/{{id}}") == (
        Literal("/"),
        Name("shop"),
        Literal("/orders/"),
        Name("id"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "{{",
        "{{ a",
        "a }}",
        "{{ }}",
        "{{ a b }}",
        "{{ a.b }}",
        "{{ a | up }}",
        "{{ 1a }}",
        "{{{ a }}}",
        "{{\na }}",
    ],
)
def test_what_is_no_template_is_refused(text: str):
    with pytest.raises(TemplateError):
        templates.parse(text)


def test_names_come_once_in_order_and_from_inside_json():
    assert templates.names("{{ b }}{{ a }}{{ b }}") == ("b", "a")
    assert templates.names_in({"x": ["{{ b }}", {"y": "{{ a }}"}], "{{ key }}": 1}) == ("b", "a")


def test_a_value_is_never_a_template_itself():
    assert templates.render("{{ a }}-{{ b }}", {"a": "{{ b }}", "b": "x"}, str) == "{{ b }}-x"


def test_a_name_without_a_value_is_an_error():
    with pytest.raises(TemplateError):
        templates.render("{{ a }}", {}, str)


def test_a_sole_name_is_known_as_such():
    assert templates.sole_name("{{ a }}") == "a"
    assert templates.sole_name("x{{ a }}") is None
    assert templates.sole_name("") is None


@given(st.text(st.sampled_from("{} ab")))
def test_any_text_is_refused_or_rendered(text: str):
    try:
        names = templates.names(text)
    except TemplateError:
        return
    assert "{{" not in templates.render(text, dict.fromkeys(names, "v"), str)
