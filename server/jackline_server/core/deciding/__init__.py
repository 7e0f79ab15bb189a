"""The questions that `core.decide` asks, each with the module that owns its answer."""
