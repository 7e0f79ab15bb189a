"""Commands that the server adds to the `jackline` command line, each by an entry point of its own.

    serving         `serve`: the flags of a server
    backup          `backup`: a copy of a data folder, whose server may run
    restore         `restore`: such a copy in the place of a data folder's store
    config_show     `config show`: the settings in effect
    doctor          `doctor`: what keeps a server from serving; `checks` holds what it looks at
    tools           `tools test` and `tools lock`: tools as a model sees them, and their pins
    starting        `init`: a project to begin with, from the files of `starter`
    schema          `schema`: JSON Schemas for editors
    replay          `replay`: recorded runs decided again; `replaying` reads and compares them
    given           what they share: reading the config, and ending with a code

What a command needs of the server it imports when it is called: `--help` stays fast. The exit codes are those
of the whole command line; server and client share only the contract, so that `given` has its own few.
"""

from jackline_server.commands.serving import serve

__all__ = ["serve"]
