"""How facts change a run, by the part of the state that they change. The door is `core.evolve`."""
