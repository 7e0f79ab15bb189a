"""The loop as pure functions: what a run is, what it may spend, and what it does next.

Nothing in here does I/O, reads a clock, draws chance, logs, or knows protobuf or asyncio.
"""
