"""CEL and JSON Schema behind the core's Protocols, each with its budgets.

Owns the two instruments that judge values. Does not own where
expressions and schemas come from (`definitions`) or what follows from an answer (`core`).
"""
