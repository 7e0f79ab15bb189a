"""What the runtime needs of what is outside it, in its own words: a module a subject."""
