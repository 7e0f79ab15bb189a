"""The tables of a SQLite store, and what must hold of a file before it is used as one.

Owns the DDL of the newest schema, the pragmas and their read-back, and the refusals at boot. Does not own any
query, nor how an older schema becomes this one (`migrations`, which says how to change the tables).
"""

import time

import apsw

from jackline_server.runtime.ports.store_errors import StoreDamaged
from jackline_server.storage.boot_errors import StoreTooNew
from jackline_server.storage.sqlite.database import Database, connect
from jackline_server.storage.sqlite.folder import DataFolder
from jackline_server.storage.sqlite.identity import new_generation
from jackline_server.storage.sqlite.migrations import release_of, schema_version
from jackline_server.storage.sqlite.upgrade import readable_backup

APPLICATION_ID = 0x4A4C4E45
"""`JLNE`, in the header of the file."""

SCHEMA_VERSION = 6
"""The schema of the tables below."""

BUSY_MS = 2_000
"""How long the writer waits for a foreign process."""

_LOG_LIMIT_BYTES = 64 << 20

_TABLES = """
CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE plans (
  digest TEXT PRIMARY KEY,
  content_key_id TEXT,
  plan BLOB NOT NULL
);

-- `lease_until_ms` and `seen_ms` are of this boot's monotonic clock. `seen_unix_ms` is the last sign of
-- an owner that has not let go, and the only one of the three that means anything to the next boot.
-- `ready` says that a worker is needed now: by phase, or for a pending command. `is_delayed` is 1 until the
-- time at which a run begins has come. The row holds nothing that each event changes, so most appends leave
-- it alone.
CREATE TABLE runs (
  run_key INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  run_id TEXT NOT NULL UNIQUE,
  workflow TEXT NOT NULL,
  plan_digest TEXT NOT NULL,
  labels TEXT NOT NULL,
  created_unix_ms INTEGER NOT NULL,
  finished_unix_ms INTEGER,
  epoch INTEGER NOT NULL,
  owner TEXT,
  lease_until_ms INTEGER,
  seen_ms INTEGER,
  seen_unix_ms INTEGER,
  phase TEXT NOT NULL,
  terminal INTEGER NOT NULL,
  ready INTEGER NOT NULL,
  wake_unix_ms INTEGER,
  open_interrupts INTEGER NOT NULL,
  pending_commands INTEGER NOT NULL,
  content_key_id TEXT,
  summary BLOB NOT NULL,
  is_delayed INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX runs_by_age ON runs (tenant, created_unix_ms, run_id);
CREATE INDEX runs_ready ON runs (created_unix_ms, run_id) WHERE ready = 1;
CREATE INDEX runs_to_wake ON runs (wake_unix_ms) WHERE wake_unix_ms IS NOT NULL;
CREATE INDEX runs_owned ON runs (owner) WHERE owner IS NOT NULL;
CREATE INDEX runs_with_interrupts ON runs (tenant, created_unix_ms, run_id) WHERE open_interrupts > 0;
CREATE INDEX runs_living ON runs (tenant, created_unix_ms, run_id) WHERE terminal = 0;

CREATE TABLE labels (
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  run_key INTEGER NOT NULL,
  PRIMARY KEY (name, value, run_key)
) WITHOUT ROWID;

-- The run that started a run; there is no row for one that a caller started.
CREATE TABLE run_parents (
  run_key INTEGER PRIMARY KEY,
  parent_key INTEGER NOT NULL
);
CREATE INDEX run_parents_by_parent ON run_parents (parent_key);

CREATE TABLE requests (
  tenant TEXT NOT NULL,
  request_id TEXT NOT NULL,
  fingerprint BLOB NOT NULL,
  run_id TEXT NOT NULL,
  created_unix_ms INTEGER NOT NULL,
  PRIMARY KEY (tenant, request_id)
) WITHOUT ROWID;

CREATE TABLE events (
  event_key INTEGER PRIMARY KEY,
  run_key INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  content_key_id TEXT,
  meta BLOB NOT NULL,
  content BLOB NOT NULL
);
CREATE UNIQUE INDEX events_in_order ON events (run_key, sequence);

CREATE TABLE commands (
  command_key INTEGER PRIMARY KEY,
  run_key INTEGER NOT NULL,
  command_id TEXT NOT NULL,
  ordinal INTEGER NOT NULL,
  state TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  rejection TEXT NOT NULL,
  content_key_id TEXT,
  payload BLOB NOT NULL
);
CREATE UNIQUE INDEX commands_by_id ON commands (run_key, command_id);
CREATE UNIQUE INDEX commands_in_order ON commands (run_key, ordinal);
CREATE INDEX commands_pending ON commands (run_key, ordinal) WHERE state = 'pending';

CREATE TABLE workflows (
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  owned_by_files INTEGER NOT NULL,
  PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

CREATE TABLE revisions (
  revision_key INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  digest TEXT NOT NULL,
  yaml TEXT NOT NULL,
  created_unix_ms INTEGER NOT NULL,
  content_key_id TEXT
);
CREATE UNIQUE INDEX revisions_by_digest ON revisions (tenant, name, digest);

CREATE TABLE revision_files (
  revision_key INTEGER NOT NULL,
  path TEXT NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (revision_key, path)
) WITHOUT ROWID;

CREATE TABLE aliases (
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  alias TEXT NOT NULL,
  digest TEXT NOT NULL,
  PRIMARY KEY (tenant, name, alias)
) WITHOUT ROWID;

-- `holders` is how many rows of `blob_holders` name the blob, so that a sweep finds those without any.
-- `touched_unix_ms` is when it was last put.
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

-- The bytes, in parts of one length but for the last, so that a range is read without the rest.
CREATE TABLE blob_parts (
  part_key INTEGER PRIMARY KEY,
  blob_key INTEGER NOT NULL,
  part INTEGER NOT NULL,
  data BLOB NOT NULL
);
CREATE UNIQUE INDEX blob_parts_in_order ON blob_parts (blob_key, part);

-- What names a blob: `kind` says what `holder` is the id of.
CREATE TABLE blob_holders (
  kind TEXT NOT NULL,
  holder TEXT NOT NULL,
  blob_key INTEGER NOT NULL,
  PRIMARY KEY (kind, holder, blob_key)
) WITHOUT ROWID;

-- A thread has one active run at most. `place` orders the runs that wait for their turn, and is NULL for one
-- that has it or has had it; `replaces` says that a later one of the same right takes its place.
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

-- Messages that commits of runs owe to webhooks. `due_unix_ms` is NULL unless the delivery is pending;
-- `claimed` says that it is being sent, and is due again then only if nobody settles it. `since_unix_ms` is
-- when it was made or last resent, `tried_before` how many attempts there had been by then.
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

-- Each time that a tenant's kill switch was engaged. The command is what every run was given.
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

-- Until when a process's hold on a run that has owners is good.
CREATE TABLE run_owners (
  run_key INTEGER NOT NULL,
  worker TEXT NOT NULL,
  grace_ms INTEGER NOT NULL,
  until_unix_ms INTEGER NOT NULL,
  PRIMARY KEY (run_key, worker)
) WITHOUT ROWID;
"""


def create_database(folder: DataFolder, *, vfs: str | None) -> None:
    """Build an empty store beside its final name and move it there: a crash leaves no half store."""
    folder.make_fresh()
    connection = connect(folder.fresh, flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_TABLES)
        connection.execute("INSERT INTO meta VALUES ('generation', ?)", (new_generation(),))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
    folder.publish_fresh()


def open_writer(
    folder: DataFolder, *, vfs: str | None, newest: int = SCHEMA_VERSION, release: str = ""
) -> Database:
    """Open an existing store for writing, with every setting read back.

    `newest` is the schema up to which this version, whose name is `release`, can use it. What is refused is
    left as it is, its log included.

    Raises:
        StoreDamaged: not a database, not a store, or settings that don't hold.
        StoreTooNew: a newer version wrote it.
        apsw.BusyError: a foreign process holds it.
    """
    if folder.database.stat().st_size == 0:
        raise StoreDamaged(f"{folder.database} is empty; restore it from a backup. Nothing was changed.")
    connection = connect(folder.database, flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    try:
        connection.set_busy_timeout(BUSY_MS)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        _refuse_strangers(connection, folder, newest=newest, release=release)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_LIMIT_BYTES}")
        _expect(connection, "PRAGMA journal_mode", "wal")
        _expect(connection, "PRAGMA synchronous", 2)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
    except (apsw.CorruptError, apsw.NotADBError) as error:
        connection.close()
        raise StoreDamaged(
            f"{folder.database} is damaged ({error}); restore it from a backup. Nothing was changed."
        ) from error
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(folder: DataFolder, *, vfs: str | None) -> Database:
    """Open a connection that can only read, and never checkpoints."""
    connection = connect(folder.database, flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs)
    connection.set_busy_timeout(BUSY_MS)
    connection.execute("PRAGMA query_only = 1")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    return connection


def quick_check(connection: Database, *, budget_ms: int) -> bool:
    """Look for damage for at most so long; False if time ran out before the end.

    Raises:
        StoreDamaged: something was found.
    """
    deadline = time.monotonic() + budget_ms / 1000

    def is_late() -> bool:
        return time.monotonic() > deadline

    connection.set_progress_handler(is_late, 10_000)
    try:
        finding = connection.execute("PRAGMA quick_check(1)").get
    except apsw.InterruptError:
        return False
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise StoreDamaged(f"the database is damaged ({error}); restore it from a backup") from error
    finally:
        connection.set_progress_handler(None)
    if finding != "ok":
        raise StoreDamaged(f"the database is damaged ({finding}); restore it from a backup")
    return True


def _refuse_strangers(connection: Database, folder: DataFolder, *, newest: int, release: str) -> None:
    """Refuse a file of another program or of a newer version."""
    if connection.execute("PRAGMA application_id").get != APPLICATION_ID:
        raise StoreDamaged(f"{folder.database} is not a Jackline store; nothing was changed")
    version = schema_version(connection)
    if version < 1:
        raise StoreDamaged(f"{folder.database} has no schema version; restore it from a backup")
    if version > newest:
        raise StoreTooNew(_too_new(connection, folder, newest=newest, release=release))


def _too_new(connection: Database, folder: DataFolder, *, newest: int, release: str) -> str:
    """Who wrote the store, who can't read it, and what to do."""
    writer, backup = release_of(connection), readable_backup(folder.path, version=newest)
    wrote, able = ("a newer version", "that version")
    if writer:
        wrote = able = _jackline(writer)
    return (
        f"{folder.database} holds data of schema {schema_version(connection)}, written by {wrote}; this is "
        f"{_jackline(release)}, which knows schemas up to {newest}. Start {able} or a newer one, or restore "
        f"a backup of schema {newest} or less{f' (the newest here is {backup})' if backup else ''}. "
        "Nothing was changed."
    )


def _jackline(release: str) -> str:
    return f"Jackline {release}".rstrip()


def _expect(connection: Database, pragma: str, value: object) -> None:
    found = connection.execute(pragma).get
    if found != value:
        raise StoreDamaged(f"{pragma} is {found!r}, not {value!r}: the store can't keep its promises here")
