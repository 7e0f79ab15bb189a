"""The `jackline` command. Owns what a person types and sees; everything else is the library's."""
