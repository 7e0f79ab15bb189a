"""The embedded store: one folder, one file of SQLite, one writer."""
