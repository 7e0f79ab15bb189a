"""Makes stock.db beside this file: the parts of two stores, and no orders."""

import sqlite3
from contextlib import closing
from pathlib import Path

FILE = Path(__file__).with_name("stock.db")
TABLES = """
CREATE TABLE parts (store TEXT, part TEXT, name TEXT, quantity INTEGER, wanted INTEGER);
CREATE TABLE orders (key TEXT PRIMARY KEY, store TEXT, part TEXT, quantity INTEGER);
INSERT INTO parts VALUES ('forepeak', 'R-12', 'Rope, 12 mm', 60, 100),
                         ('forepeak', 'S-08', 'Shackle', 24, 20),
                         ('locker', 'L-01', 'Lamp', 0, 2);
"""


def make(file: Path = FILE) -> None:
    """Make the file anew."""
    file.unlink(missing_ok=True)
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(TABLES)


if __name__ == "__main__":
    make()
    print(f"made {FILE}")
