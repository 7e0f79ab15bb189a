"""Workflow files: read strictly, checked without running, compiled to the plan that a run carries.

Owns the language of the file and its defaults. Does not own what a plan does (`core`), how it is stored
(`codec`), or what models, connections and functions exist (`config`, `tools`): it is told by a `Catalog`.
"""
