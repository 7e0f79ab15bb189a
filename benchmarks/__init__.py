"""Measurements of a real server process, each beside its floor; `scripts/bench` runs them."""
