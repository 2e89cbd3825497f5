-- +goose Up
CREATE TABLE knowledge_collections (
    pk         integer PRIMARY KEY AUTOINCREMENT,
    -- NULL: the operator's, which every user searches.
    uid        text REFERENCES users (uid),
    name       text     NOT NULL,
    -- Grows with every change of the collection's passages.
    version    integer  NOT NULL DEFAULT 0,
    created_at datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    updated_at datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00')
);
CREATE UNIQUE INDEX knowledge_collections_uid_name_key ON knowledge_collections (uid, name) WHERE uid IS NOT NULL;
CREATE UNIQUE INDEX knowledge_collections_name_key ON knowledge_collections (name) WHERE uid IS NULL;

CREATE TABLE knowledge_documents (
    pk            integer PRIMARY KEY AUTOINCREMENT,
    collection_pk integer  NOT NULL REFERENCES knowledge_collections (pk) ON DELETE CASCADE,
    source        text     NOT NULL,
    title         text     NOT NULL,
    framework     text     NOT NULL DEFAULT '',
    -- Of what was read: the same hash is not read again.
    hash          text     NOT NULL,
    -- What a web server said of its version, to ask for it only if it has changed.
    etag          text     NOT NULL DEFAULT '',
    last_modified text     NOT NULL DEFAULT '',
    -- The model of the passages' vectors with its dimensions; empty without any.
    model         text     NOT NULL DEFAULT '',
    -- Of the passages' text.
    bytes         integer  NOT NULL,
    passages      integer  NOT NULL,
    created_at    datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    updated_at    datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    UNIQUE (collection_pk, source)
);

CREATE TABLE knowledge_passages (
    pk            integer PRIMARY KEY AUTOINCREMENT,
    collection_pk integer NOT NULL,
    document_pk   integer NOT NULL REFERENCES knowledge_documents (pk) ON DELETE CASCADE,
    ordinal       integer NOT NULL,
    title         text    NOT NULL,
    section       text    NOT NULL,
    framework     text    NOT NULL,
    symbol        text    NOT NULL,
    text          text    NOT NULL,
    -- The model of the vector, and its numbers: float32, little endian, of length 1.
    model         text    NOT NULL DEFAULT '',
    embedding     blob,
    UNIQUE (document_pk, ordinal)
);
CREATE INDEX knowledge_passages_collection_pk_idx ON knowledge_passages (collection_pk, model, pk);

-- The index of the passages' words, by their English stems. It holds no text of
-- its own; the triggers keep it as the table is.
CREATE VIRTUAL TABLE knowledge_words USING fts5 (
    title, section, symbol, text, content = 'knowledge_passages', content_rowid = 'pk', tokenize = 'porter unicode61 remove_diacritics 2'
);
-- +goose StatementBegin
CREATE TRIGGER knowledge_passages_inserted AFTER INSERT ON knowledge_passages BEGIN
    INSERT INTO knowledge_words (rowid, title, section, symbol, text) VALUES (new.pk, new.title, new.section, new.symbol, new.text);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER knowledge_passages_deleted AFTER DELETE ON knowledge_passages BEGIN
    INSERT INTO knowledge_words (knowledge_words, rowid, title, section, symbol, text) VALUES ('delete', old.pk, old.title, old.section, old.symbol, old.text);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER knowledge_passages_changed AFTER UPDATE OF title, section, symbol, text ON knowledge_passages BEGIN
    INSERT INTO knowledge_words (knowledge_words, rowid, title, section, symbol, text) VALUES ('delete', old.pk, old.title, old.section, old.symbol, old.text);
    INSERT INTO knowledge_words (rowid, title, section, symbol, text) VALUES (new.pk, new.title, new.section, new.symbol, new.text);
END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE knowledge_words;
DROP TABLE knowledge_passages;
DROP TABLE knowledge_documents;
DROP TABLE knowledge_collections;
