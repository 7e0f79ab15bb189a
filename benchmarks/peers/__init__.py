"""Other frameworks on the workload of `loop`, each a small program in an environment of its own.

A program imports its framework, so that none of this can be imported by the project's own environment but
`workload`, which knows the standard library alone.
"""
