"""Model adapters, and what guards one attempt at a model.

Importing this package, or `models.router`, loads no provider library; the litellm adapter does so in a
thread when the first request needs it.
"""
