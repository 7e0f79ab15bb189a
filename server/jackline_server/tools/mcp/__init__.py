"""Step kind `mcp`: tools of servers that speak the Model Context Protocol.

    tool        a call of the plan, and what its answer means for the run
    servers     every connection of the config; what the compiler and the runtime ask of their catalogs
    link        one connection: its session started on first use, started again with backoff, its catalog
    session     one session of the SDK, owned by one task from its first scope to its last
    listing     a server's tools, page by page, within caps
    exchange    one attempt at a call: an answer, or a question to a person, and what follows the answer to it
    dialogue    a call under way that may ask in its midst; `held_calls` those that wait for a person
    asking      questions and answers in the protocol's words, of both generations
    calling     the request that calls a tool
    answers     a tool's answer as a result
    failures    what can go wrong, as far as a call has to tell it apart
    stdio       the SDK's transport over a process of ours; `process` starts and kills it, `lines` cuts it up
    guarded     the SDK's transport over the guarded HTTP clients; `sse` the one of servers of 2024
    tidying     what of a server's messages the SDK would choke on

The SDK takes a second to import: `session` and what stands below it are imported on first use, in a thread.
"""
