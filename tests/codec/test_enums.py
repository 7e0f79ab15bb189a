"""Each enum of the domain is fully there in the contract, and back."""

from enum import Enum

import pytest

from jackline_server.codec import enums
from jackline_server.codec.enums import EnumTable
from jackline_server.runtime.ports.codec import UnknownFact

TABLES: dict[str, EnumTable[Enum, int]] = {
    name: value for name, value in vars(enums).items() if isinstance(value, EnumTable)
}


@pytest.mark.parametrize("name", sorted(TABLES))
def test_each_member_goes_there_and_back(name: str) -> None:
    table = TABLES[name]
    members: list[Enum] = list(table.domain)
    assert set(table.wire) == set(members)
    assert [table.read(table.wire[member]) for member in members] == members
    assert 0 not in table.of


@pytest.mark.parametrize("name", sorted(TABLES))
def test_no_value_is_read_as_something_else(name: str) -> None:
    table = TABLES[name]
    assert table.read_optional(0) is None
    for value in (0, 9_999, -1):
        with pytest.raises(UnknownFact):
            table.read(value)
