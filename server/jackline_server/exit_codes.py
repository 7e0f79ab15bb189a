"""The exit codes of a server's commands, `serve` among them; the same numbers mean the same in all of them.

Owns the numbers, and which of them an error of the store ends a command with. The table for users is in
`docs/operations.md`.
"""

from jackline_server.runtime.ports.store_errors import StoreError
from jackline_server.storage import boot_errors

EXIT_FOUND = 1
"""What was looked at is not as it should be."""

EXIT_USAGE = 2

EXIT_DATA = 65
"""A file that was given can't be used."""

EXIT_UNAVAILABLE = 69
"""A server that was asked does not answer."""

EXIT_CANT_CREATE = 73
EXIT_STORE = 74
EXIT_IN_USE = 75
EXIT_VERSION = 78
EXIT_ADDRESS_IN_USE = 98


def store_code(error: StoreError) -> int:
    """The code for an error of the store."""
    match error:
        case boot_errors.StoreInUse():
            return EXIT_IN_USE
        case boot_errors.StoreTooNew():
            return EXIT_VERSION
        case boot_errors.StoreUnsuitable():
            return EXIT_CANT_CREATE
        case _:
            return EXIT_STORE
