"""The loop as pure functions: what a run is, what it may spend, and what it does next.

Nothing in here does I/O, reads a clock, draws chance, logs, or knows protobuf or asyncio. From the ground up:

    the vocabulary      facts, plan, state, bounds, steps and what they are made of: the modules right here
    reading             what a state says: the conversation, the time, the limits that are near
    folding, evolve     how facts change a state
    deciding            the questions of the loop, one module an answer
    calling, gating     what open tool calls lead to, and who is asked before anything goes on
    decide              the order of the questions
    recorded            recorded logs, decided again or begun anew

A module imports from its own storey and from those above it in this list, which the checks hold.
"""
