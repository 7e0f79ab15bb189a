"""Step kind `sql`: one statement on a data source of the operator's.

    tool        a call of the plan: its slot, its time, its thread, and what its end means for the run
    job         a statement under way, that can be given up until it is committed
    databases   what the kinds of databases have in common: a question, an answer, a failure
    sqlite      a database in a file
    postgres    a database of a server
    rows        what of the rows is kept, as JSON

The libraries are imported on first use, in a thread.
"""
