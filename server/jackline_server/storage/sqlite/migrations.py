"""The changes of the tables between released schemas, and how a store is brought up to the newest one.

Owns the ordered list of migrations and the one transaction that applies those a store lacks: it moves the
schema version with them, so that a crash leaves the old schema or the new one. Does not own the backup that
comes first (`backup`) or the order of the two (`upgrade`).

How to change the tables: append a `Migration` to MIGRATIONS, make the same change in the tables of
`schema`, and raise SCHEMA_VERSION there. A migration that was released is never edited.
"""

from collections.abc import Callable, Sequence

import apsw

from jackline_server.core.frozen import frozen
from jackline_server.failpoints import hit
from jackline_server.storage.boot_errors import UpgradeFailed
from jackline_server.storage.sqlite.database import Database

FIRST_VERSION = 1
"""The schema of the first release; nothing leads to it."""


@frozen
class Migration:
    """One change of the tables, from the schema before `version` to `version`.

    `title` says what it does, for the log. `apply` runs inside the transaction of the upgrade: it must not
    begin, commit or roll back, and it may read and write every table.
    """

    version: int
    title: str
    apply: Callable[[Database], None]


def _add_blobs(connection: Database) -> None:
    connection.execute(
        """
        CREATE TABLE blobs (
          blob_key INTEGER PRIMARY KEY,
          tenant TEXT NOT NULL,
          digest TEXT NOT NULL,
          size INTEGER NOT NULL,
          holders INTEGER NOT NULL,
          touched_unix_ms INTEGER NOT NULL,
          content_key_id TEXT
        );
        CREATE UNIQUE INDEX blobs_by_digest ON blobs (tenant, digest);
        CREATE INDEX blobs_unheld ON blobs (touched_unix_ms) WHERE holders = 0;
        CREATE TABLE blob_parts (
          part_key INTEGER PRIMARY KEY,
          blob_key INTEGER NOT NULL,
          part INTEGER NOT NULL,
          data BLOB NOT NULL
        );
        CREATE UNIQUE INDEX blob_parts_in_order ON blob_parts (blob_key, part);
        CREATE TABLE blob_holders (
          kind TEXT NOT NULL,
          holder TEXT NOT NULL,
          blob_key INTEGER NOT NULL,
          PRIMARY KEY (kind, holder, blob_key)
        ) WITHOUT ROWID;
        """
    )


def _add_threads(connection: Database) -> None:
    connection.execute(
        """
        CREATE TABLE threads (
          thread_key INTEGER PRIMARY KEY,
          tenant TEXT NOT NULL,
          thread_id TEXT NOT NULL,
          created_unix_ms INTEGER NOT NULL,
          changed_unix_ms INTEGER NOT NULL,
          messages INTEGER NOT NULL,
          active_run_key INTEGER,
          ended INTEGER NOT NULL,
          prompt_tokens INTEGER NOT NULL,
          completion_tokens INTEGER NOT NULL,
          cached_tokens INTEGER NOT NULL,
          reasoning_tokens INTEGER NOT NULL,
          estimated INTEGER NOT NULL,
          cost_micros INTEGER NOT NULL
        );
        CREATE UNIQUE INDEX threads_by_id ON threads (tenant, thread_id);
        CREATE INDEX threads_by_age ON threads (tenant, created_unix_ms, thread_id);
        CREATE UNIQUE INDEX threads_by_run ON threads (active_run_key) WHERE active_run_key IS NOT NULL;
        CREATE TABLE run_threads (
          run_key INTEGER PRIMARY KEY,
          thread_key INTEGER NOT NULL,
          place INTEGER,
          replaces INTEGER NOT NULL
        );
        CREATE INDEX run_threads_by_thread ON run_threads (thread_key);
        CREATE UNIQUE INDEX run_threads_waiting ON run_threads (thread_key, place) WHERE place IS NOT NULL;
        CREATE TABLE thread_messages (
          thread_key INTEGER NOT NULL,
          position INTEGER NOT NULL,
          digest TEXT NOT NULL,
          role TEXT NOT NULL,
          size INTEGER NOT NULL,
          run_id TEXT NOT NULL,
          principal TEXT NOT NULL,
          added_unix_ms INTEGER NOT NULL,
          PRIMARY KEY (thread_key, position)
        ) WITHOUT ROWID;
        CREATE TABLE thread_pending (
          pending_key INTEGER PRIMARY KEY,
          thread_key INTEGER NOT NULL,
          digest TEXT NOT NULL,
          role TEXT NOT NULL,
          size INTEGER NOT NULL,
          principal TEXT NOT NULL
        );
        CREATE INDEX thread_pending_in_order ON thread_pending (thread_key, pending_key);
        CREATE TABLE thread_appends (
          thread_key INTEGER NOT NULL,
          request_id TEXT NOT NULL,
          fingerprint BLOB NOT NULL,
          PRIMARY KEY (thread_key, request_id)
        ) WITHOUT ROWID;
        """
    )


def _add_families(connection: Database) -> None:
    connection.execute(
        """
        CREATE TABLE run_parents (
          run_key INTEGER PRIMARY KEY,
          parent_key INTEGER NOT NULL
        );
        CREATE INDEX run_parents_by_parent ON run_parents (parent_key);
        """
    )


def _add_deliveries(connection: Database) -> None:
    connection.execute(
        """
        CREATE TABLE deliveries (
          delivery_key INTEGER PRIMARY KEY,
          tenant TEXT NOT NULL,
          delivery_id TEXT NOT NULL UNIQUE,
          endpoint TEXT NOT NULL,
          event TEXT NOT NULL,
          run_id TEXT NOT NULL,
          sequence INTEGER NOT NULL,
          created_unix_ms INTEGER NOT NULL,
          since_unix_ms INTEGER NOT NULL,
          state TEXT NOT NULL,
          due_unix_ms INTEGER,
          settled_unix_ms INTEGER,
          claimed INTEGER NOT NULL,
          attempts INTEGER NOT NULL,
          tried_before INTEGER NOT NULL,
          content_key_id TEXT,
          body BLOB NOT NULL
        );
        CREATE INDEX deliveries_due ON deliveries (endpoint, due_unix_ms) WHERE due_unix_ms IS NOT NULL;
        CREATE INDEX deliveries_waiting ON deliveries (since_unix_ms) WHERE due_unix_ms IS NOT NULL;
        CREATE INDEX deliveries_settled ON deliveries (state, settled_unix_ms)
          WHERE settled_unix_ms IS NOT NULL;
        CREATE INDEX deliveries_claimed ON deliveries (claimed) WHERE claimed = 1;
        CREATE INDEX deliveries_by_run ON deliveries (tenant, run_id);
        CREATE INDEX deliveries_by_endpoint ON deliveries (tenant, endpoint, state);
        CREATE TABLE delivery_attempts (
          delivery_key INTEGER NOT NULL,
          attempt INTEGER NOT NULL,
          ended_unix_ms INTEGER NOT NULL,
          took_ms INTEGER NOT NULL,
          outcome TEXT NOT NULL,
          status INTEGER NOT NULL,
          PRIMARY KEY (delivery_key, attempt)
        ) WITHOUT ROWID;
        """
    )


def _add_control(connection: Database) -> None:
    connection.execute(
        """
        CREATE INDEX runs_living ON runs (tenant, created_unix_ms, run_id) WHERE terminal = 0;
        CREATE TABLE kill_switches (
          switch_key INTEGER PRIMARY KEY,
          tenant TEXT NOT NULL,
          engaged_unix_ms INTEGER NOT NULL,
          engaged_by TEXT NOT NULL,
          reason TEXT NOT NULL,
          command_id TEXT NOT NULL,
          content_key_id TEXT,
          payload BLOB NOT NULL,
          released_unix_ms INTEGER,
          released_by TEXT NOT NULL,
          release_reason TEXT NOT NULL
        );
        CREATE INDEX kill_switches_by_tenant ON kill_switches (tenant, switch_key);
        CREATE UNIQUE INDEX kill_switches_engaged ON kill_switches (tenant) WHERE released_unix_ms IS NULL;
        CREATE TABLE run_owners (
          run_key INTEGER NOT NULL,
          worker TEXT NOT NULL,
          grace_ms INTEGER NOT NULL,
          until_unix_ms INTEGER NOT NULL,
          PRIMARY KEY (run_key, worker)
        ) WITHOUT ROWID;
        ALTER TABLE runs ADD COLUMN is_delayed INTEGER NOT NULL DEFAULT 0;
        """
    )


MIGRATIONS: tuple[Migration, ...] = (
    Migration(version=2, title="blobs", apply=_add_blobs),
    Migration(version=3, title="threads", apply=_add_threads),
    Migration(version=4, title="child runs", apply=_add_families),
    Migration(version=5, title="webhook deliveries", apply=_add_deliveries),
    Migration(version=6, title="control of many runs", apply=_add_control),
)
"""Every migration since the first release, in order."""


def newest_version(migrations: Sequence[Migration]) -> int:
    """The schema that these migrations lead to.

    Raises:
        ValueError: they are not numbered from the first one on without a hole.
    """
    versions = [migration.version for migration in migrations]
    if versions != list(range(FIRST_VERSION + 1, FIRST_VERSION + 1 + len(versions))):
        raise ValueError(f"migrations must be numbered {FIRST_VERSION + 1}, ... without a hole: {versions}")
    return versions[-1] if versions else FIRST_VERSION


def migrate(connection: Database, migrations: Sequence[Migration], *, release: str) -> None:
    """Apply, in one transaction, what the store lacks, and say in it who wrote the schema.

    Raises:
        UpgradeFailed: a migration can't be applied; the store is as it was.
        apsw.Error, OSError: the disk failed or is full; the store is as it was.
    """
    hit("migrate.before")
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = schema_version(connection)
        for migration in migrations:
            if migration.version > version:
                _apply(connection, migration)
        hit("migrate.mid")
        connection.execute(f"PRAGMA user_version = {newest_version(migrations)}")
        note_release(connection, release)
        hit("migrate.before_commit")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    hit("migrate.after")


def schema_version(connection: Database) -> int:
    """The schema that the file says it has; 0 if it says nothing."""
    version = connection.execute("PRAGMA user_version").get
    return version if isinstance(version, int) else 0


def note_release(connection: Database, release: str) -> None:
    """Remember which release wrote the store last, so that an older one can name it; not an empty name."""
    if release and release_of(connection) != release:
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('written_by', ?)", (release,))


def release_of(connection: Database) -> str:
    """The release that wrote the store last; empty where that is not known, whatever its schema is."""
    try:
        release = connection.execute("SELECT value FROM meta WHERE name = 'written_by'").get
    except apsw.SQLError:
        return ""
    return release if isinstance(release, str) else ""


def _apply(connection: Database, migration: Migration) -> None:
    try:
        migration.apply(connection)
    except (apsw.FullError, apsw.IOError, apsw.CorruptError):
        raise
    except (apsw.Error, ValueError, TypeError, LookupError) as error:
        raise UpgradeFailed(
            f"the step to schema {migration.version} ({migration.title}) failed: {error}"
        ) from error
    if not connection.in_transaction:
        raise UpgradeFailed(f"the step to schema {migration.version} ended the transaction it was given")
