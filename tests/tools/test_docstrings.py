"""What docstrings say of parameters."""

import inspect

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jackline_server.tools.docstrings import read

GOOGLE = """
Converts an amount.

Args:
    amount (float): How much,
        in euros.
    to: The currency: its code.
    other: Nobody has asked.

Returns:
    dict: What it came to.
"""
NUMPY = """
Converts an amount.

Parameters
----------
amount : float
    How much,
    in euros.
to
    The currency: its code.

Returns
-------
dict
    What it came to.
"""
SPHINX = """
Converts an amount.

:param float amount: How much,
    in euros.
:param to: The currency: its code.
:returns: What it came to.
"""


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_what_is_said_of_parameters_becomes_theirs_and_leaves_the_text(docstring: str):
    told = read(inspect.cleandoc(docstring), ["amount", "to"])
    assert told.parameters == {"amount": "How much, in euros.", "to": "The currency: its code."}
    assert told.text.startswith("Converts an amount.")
    assert "What it came to." in told.text
    assert "in euros" not in told.text


@pytest.mark.parametrize(
    "docstring", ["", "One line.", "Args: none of it.", "Args:\n\nNothing below.", "Note:\n    amount: none"]
)
def test_a_docstring_that_says_nothing_of_them_is_left_as_it_is(docstring: str):
    told = read(docstring, ["amount"])
    assert (told.text, told.parameters) == (docstring, {})


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet="ab:\n -Args(param)Parameters", max_size=120))
def test_no_docstring_is_too_odd(docstring: str):
    told = read(docstring, ["a", "b", "ab"])
    assert set(told.parameters) <= {"a", "b", "ab"}
