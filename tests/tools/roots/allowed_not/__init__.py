"""A neighbour whose name only begins like the root's."""


def neighbour() -> str:
    return "reached"
