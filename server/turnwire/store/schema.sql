-- Version 1 of a Turnwire database. The rules of history stand here as constraints, so that no program that writes to
-- the file can break them; the IDs are those of SPEC.md.

CREATE TABLE sessions (
    session_id TEXT PRIMARY KEY,
    title TEXT,
    config TEXT NOT NULL CHECK (json_valid(config)),
    metadata TEXT CHECK (metadata IS NULL OR json_valid(metadata)),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    archived_at INTEGER,
    -- Kept by the triggers of messages: also the last sequence (M5).
    message_count INTEGER NOT NULL DEFAULT 0,
    origin TEXT CHECK (origin IS NULL OR json_valid(origin))
) STRICT;

CREATE INDEX sessions_by_activity ON sessions (updated_at DESC, session_id) WHERE archived_at IS NULL;
CREATE INDEX sessions_archived_by_activity ON sessions (updated_at DESC, session_id) WHERE archived_at IS NOT NULL;

CREATE TABLE messages (
    message_id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    turn_id TEXT,
    role TEXT NOT NULL CHECK (role IN ('user', 'agent')),
    sequence INTEGER NOT NULL CHECK (sequence >= 1),
    revision INTEGER NOT NULL CHECK (revision BETWEEN 1 AND 9007199254740991),
    visibility TEXT NOT NULL CHECK (visibility IN ('visible', 'internal')),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    -- Streaming, or with a Part in a state that no crash may leave behind (S7).
    unfinished INTEGER NOT NULL CHECK (unfinished IN (0, 1)),
    preview TEXT,
    -- The Message's JSON without its Parts, as it is sent.
    head TEXT NOT NULL CHECK (
        head ->> '$.message_id' IS message_id
        AND head ->> '$.role' IS role
        AND head ->> '$.sequence' IS sequence
        AND head ->> '$.revision' IS revision
    ),
    UNIQUE (session_id, sequence),
    -- What parts refer to: a Part belongs to a Message of its own Session and role (P2).
    UNIQUE (message_id, session_id, role)
) STRICT;

CREATE INDEX messages_visible ON messages (session_id, sequence) WHERE visibility = 'visible';
CREATE INDEX messages_with_preview ON messages (session_id, sequence) WHERE preview IS NOT NULL;
CREATE INDEX messages_unfinished ON messages (session_id, sequence) WHERE unfinished;

CREATE TABLE parts (
    session_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    role TEXT NOT NULL,
    part_id TEXT NOT NULL,
    sequence INTEGER NOT NULL CHECK (sequence >= 1),
    type TEXT NOT NULL,
    -- The Part as it is sent.
    json TEXT NOT NULL CHECK (json <> ''),
    -- A Message has one Session and one role, so this means: one Part for each sequence (P1). All columns of the foreign
    -- key come first, so that SQLite finds a Message's Parts by it, however many the Session has.
    UNIQUE (message_id, session_id, role, sequence),
    UNIQUE (session_id, part_id),
    FOREIGN KEY (message_id, session_id, role) REFERENCES messages (message_id, session_id, role) ON DELETE CASCADE,
    -- A role never holds the other role's Parts; types of a newer writer may come in either (P2).
    CONSTRAINT type_by_role CHECK (
        CASE role
            WHEN 'user' THEN type NOT IN ('reasoning', 'tool', 'interaction', 'source', 'action', 'error')
            ELSE type NOT IN ('context')
        END
    )
) STRICT;

CREATE INDEX interactions_by_id ON parts (session_id, json ->> '$.interaction_id') WHERE type = 'interaction';

CREATE TABLE turns (
    turn_id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    status TEXT NOT NULL CHECK (status IN ('queued', 'running', 'completed', 'failed', 'stopped')),
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    error TEXT CHECK (error IS NULL OR json_valid(error)),
    CHECK (CASE status WHEN 'queued' THEN started_at IS NULL WHEN 'running' THEN started_at IS NOT NULL ELSE 1 END),
    CHECK ((status IN ('queued', 'running')) = (finished_at IS NULL))
) STRICT;

CREATE INDEX turns_by_session ON turns (session_id);
CREATE INDEX turns_unfinished ON turns (session_id) WHERE status IN ('queued', 'running');

CREATE TABLE requests (
    session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    client_request_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    answer TEXT NOT NULL CHECK (json_valid(answer)),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (session_id, client_request_id)
) STRICT, WITHOUT ROWID;

-- Derived by the Composer, in tables whose names begin with context_: its connection can write to no others (C1, C2).

CREATE TABLE context_summaries (
    session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    -- The last Message that the summary speaks of.
    through_sequence INTEGER NOT NULL CHECK (through_sequence >= 1),
    text TEXT NOT NULL CHECK (text <> ''),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (session_id, through_sequence)
) STRICT, WITHOUT ROWID;

-- M5: sequence is 1, 2, 3, ... without holes.

CREATE TRIGGER message_sequence BEFORE INSERT ON messages
WHEN NEW.sequence IS NOT (SELECT message_count + 1 FROM sessions WHERE session_id = NEW.session_id)
BEGIN
    SELECT RAISE(ABORT, 'a new Message takes the next sequence of its Session (M5)');
END;

CREATE TRIGGER message_counted AFTER INSERT ON messages
BEGIN
    UPDATE sessions SET message_count = NEW.sequence, updated_at = max(updated_at, NEW.updated_at)
    WHERE session_id = NEW.session_id;
END;

-- A Session's own end is the only end of a Message: in a cascade the Session is gone already.
CREATE TRIGGER message_kept BEFORE DELETE ON messages
WHEN EXISTS (SELECT 1 FROM sessions WHERE session_id = OLD.session_id)
BEGIN
    SELECT RAISE(ABORT, 'a Message goes only with its Session (M5)');
END;

-- M5: identity never changes, revision only grows.

CREATE TRIGGER message_identity BEFORE UPDATE ON messages
WHEN (NEW.message_id, NEW.session_id, NEW.sequence, NEW.role, NEW.created_at)
    IS NOT (OLD.message_id, OLD.session_id, OLD.sequence, OLD.role, OLD.created_at)
BEGIN
    SELECT RAISE(ABORT, 'message_id, session_id, sequence, role and created_at of a Message never change (M5)');
END;

CREATE TRIGGER message_revision BEFORE UPDATE ON messages
WHEN NEW.revision <= OLD.revision
BEGIN
    SELECT RAISE(ABORT, 'the revision of a Message only grows (M5)');
END;

CREATE TRIGGER message_touched AFTER UPDATE ON messages
BEGIN
    UPDATE sessions SET updated_at = max(updated_at, NEW.updated_at) WHERE session_id = NEW.session_id;
END;

CREATE TRIGGER part_identity BEFORE UPDATE ON parts
WHEN (NEW.part_id, NEW.session_id, NEW.message_id, NEW.role, NEW.sequence)
    IS NOT (OLD.part_id, OLD.session_id, OLD.message_id, OLD.role, OLD.sequence)
BEGIN
    SELECT RAISE(ABORT, 'part_id, message and sequence of a Part never change (P1)');
END;

-- T1, T2: a Turn is started once and finished once.

CREATE TRIGGER turn_begins BEFORE INSERT ON turns
WHEN NEW.status NOT IN ('queued', 'running')
BEGIN
    SELECT RAISE(ABORT, 'a new Turn is queued or running (T2)');
END;

CREATE TRIGGER turn_goes_on BEFORE UPDATE ON turns
WHEN NOT CASE OLD.status
    WHEN 'queued' THEN NEW.status IN ('running', 'failed', 'stopped')
    WHEN 'running' THEN NEW.status IN ('completed', 'failed', 'stopped')
    ELSE 0
END
BEGIN
    SELECT RAISE(ABORT, 'a Turn is started once and finished once (T2)');
END;

CREATE TRIGGER turn_identity BEFORE UPDATE ON turns
WHEN (NEW.turn_id, NEW.session_id, NEW.created_at) IS NOT (OLD.turn_id, OLD.session_id, OLD.created_at)
    OR (OLD.started_at IS NOT NULL AND NEW.started_at IS NOT OLD.started_at)
BEGIN
    SELECT RAISE(ABORT, 'turn_id, session_id, created_at and started_at of a Turn never change (T2)');
END;
