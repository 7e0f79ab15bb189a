"""`jackline eval`: cases of a file against a server, what each expects, and what came of it.

    command         `eval`: its flags, and which of the three things is done
    shapes          a file of cases: which keys there are
    cases           reading such a file, every mistake at once
    sight           what is seen of a run from outside
    expecting       what a case expects against what was seen; pure
    judging         a judge's question as a workflow, and its word
    event_reading   what of a run's events a recording is made of
    door            the only module that asks a server
    running         the tries of all cases, some at once
    results         what came of them, as it is written to a file and read again
    reporting       a table for people, JUnit for programs
    comparing       two result files; pure
    keeping         `eval --record`: where a recording's files go
    recording       a run as a script and the draft of a case; pure

A command of the server's extra that is a client: it reads files with the server's readers and asks a server
as any client does (docs/decisions/0031).
"""
