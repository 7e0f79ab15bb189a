"""Where `jackline health` asks when nobody says."""

import pytest

from jackline_server.probe import served_address


@pytest.mark.parametrize(
    ("environ", "address"),
    [
        ({}, "127.0.0.1:50051"),
        ({"JACKLINE_LISTEN": "0.0.0.0:7000"}, "127.0.0.1:7000"),
        ({"JACKLINE_LISTEN": "[::]:7000"}, "[::1]:7000"),
        ({"JACKLINE_LISTEN": "10.0.0.7:7000"}, "10.0.0.7:7000"),
        ({"JACKLINE_ADDRESS": "localhost:1", "JACKLINE_LISTEN": "0.0.0.0:7000"}, "localhost:1"),
    ],
)
def test_a_server_is_asked_where_its_environment_says(environ: dict[str, str], address: str) -> None:
    assert served_address(environ) == address
