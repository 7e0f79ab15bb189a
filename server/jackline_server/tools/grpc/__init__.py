"""Step kind `grpc`: unary methods of the operator's connections.

tool         a call of the plan, and what its answer means for the run
targets      every connection of the config
link         one connection: its channel on first use, what it serves and how old that may be
reflection   asking a server what it serves
interface    descriptors as methods: the message classes of each, and its description that is pinned
schemas      a request message as JSON Schema
comments     what is written beside a method and a field, where descriptors have it
statuses     what a status says about whether the server acted
"""
