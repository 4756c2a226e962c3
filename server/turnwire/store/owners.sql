-- Version 2: who created a Session owns it. Sessions from before have no owner.

ALTER TABLE sessions ADD COLUMN owner TEXT;

CREATE INDEX sessions_owned ON sessions (owner, updated_at DESC, session_id) WHERE archived_at IS NULL;
CREATE INDEX sessions_owned_archived ON sessions (owner, updated_at DESC, session_id) WHERE archived_at IS NOT NULL;

CREATE TRIGGER session_owner BEFORE UPDATE ON sessions
WHEN NEW.owner IS NOT OLD.owner
BEGIN
    SELECT RAISE(ABORT, 'the owner of a Session never changes');
END;
