-- +goose Up
CREATE TABLE knowledge_collections (
    pk         bigserial PRIMARY KEY,
    -- NULL: the operator's, which every user searches.
    uid        text REFERENCES users (uid),
    name       text        NOT NULL,
    -- Grows with every change of the collection's passages.
    version    bigint      NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX knowledge_collections_uid_name_key ON knowledge_collections (uid, name) WHERE uid IS NOT NULL;
CREATE UNIQUE INDEX knowledge_collections_name_key ON knowledge_collections (name) WHERE uid IS NULL;

CREATE TABLE knowledge_documents (
    pk            bigserial PRIMARY KEY,
    collection_pk bigint      NOT NULL REFERENCES knowledge_collections (pk) ON DELETE CASCADE,
    source        text        NOT NULL,
    title         text        NOT NULL,
    framework     text        NOT NULL DEFAULT '',
    -- Of what was read: the same hash is not read again.
    hash          text        NOT NULL,
    -- What a web server said of its version, to ask for it only if it has changed.
    etag          text        NOT NULL DEFAULT '',
    last_modified text        NOT NULL DEFAULT '',
    -- The model of the passages' vectors with its dimensions; empty without any.
    model         text        NOT NULL DEFAULT '',
    -- Of the passages' text.
    bytes         bigint      NOT NULL,
    passages      integer     NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    UNIQUE (collection_pk, source)
);

CREATE TABLE knowledge_passages (
    pk            bigserial PRIMARY KEY,
    collection_pk bigint  NOT NULL,
    document_pk   bigint  NOT NULL REFERENCES knowledge_documents (pk) ON DELETE CASCADE,
    ordinal       integer NOT NULL,
    title         text    NOT NULL,
    section       text    NOT NULL,
    framework     text    NOT NULL,
    symbol        text    NOT NULL,
    text          text    NOT NULL,
    -- The model of the vector, and its numbers: float32, little endian, of length 1.
    model         text    NOT NULL DEFAULT '',
    embedding     bytea,
    -- Everything is there by its English stems. Title, section and symbol are there
    -- as they are written, too: names may be words that English leaves out. What
    -- joins words is taken out before, as in a.b and a_b: PostgreSQL would keep
    -- these whole, as names of hosts and files.
    words         tsvector GENERATED ALWAYS AS (
        setweight(to_tsvector('english', translate(title || ' ' || symbol, './_-:@\<>&', '          ')), 'A') ||
        setweight(to_tsvector('english', translate(section, './_-:@\<>&', '          ')), 'B') ||
        to_tsvector('english', translate(text, './_-:@\<>&', '          ')) ||
        to_tsvector('simple', translate(title || ' ' || section || ' ' || symbol, './_-:@\<>&', '          '))
    ) STORED,
    UNIQUE (document_pk, ordinal)
);
CREATE INDEX knowledge_passages_words_idx ON knowledge_passages USING gin (words);
CREATE INDEX knowledge_passages_collection_pk_idx ON knowledge_passages (collection_pk, model, pk);

-- +goose Down
DROP TABLE knowledge_passages;
DROP TABLE knowledge_documents;
DROP TABLE knowledge_collections;
