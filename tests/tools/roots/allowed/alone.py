"""A function of a module that nothing else imports, so that what is compiled of it is known."""


def answer() -> int:
    """The answer."""
    return 42
