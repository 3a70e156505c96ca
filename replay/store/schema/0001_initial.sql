-- Key columns are typed, payloads are JSON text. All timestamps are naive UTC.
-- Long texts say how they are compressed: left to choose, DuckDB spends most of an import on trying the others.
CREATE TABLE traces (
    trace_id       VARCHAR PRIMARY KEY,
    source         VARCHAR NOT NULL,
    source_id      VARCHAR NOT NULL,      -- the id the source gave; differs from trace_id where two sources use one id
    content_hash   VARCHAR NOT NULL,      -- of the normalised trace: a second import of the same record changes nothing
    imported_at    TIMESTAMP NOT NULL,
    started_at     TIMESTAMP NOT NULL,
    ended_at       TIMESTAMP,
    updated_at     TIMESTAMP,             -- by the source, where it says so: an earlier state never replaces a later one
    incomplete     BOOLEAN NOT NULL,      -- the run had not ended when it was recorded
    state          VARCHAR NOT NULL,      -- complete, incomplete, or no_content: only complete traces are sampled
    name           VARCHAR,
    session_id     VARCHAR,
    user_id        VARCHAR,
    environment    VARCHAR,
    release        VARCHAR,
    model          VARCHAR,
    tags           VARCHAR[] NOT NULL,
    tool_path      VARCHAR NOT NULL,
    input          VARCHAR USING COMPRESSION zstd NOT NULL,
    final_response VARCHAR USING COMPRESSION zstd,
    input_tokens   BIGINT,
    output_tokens  BIGINT,
    cost_usd       DOUBLE,
    latency_ms     DOUBLE,
    error          VARCHAR USING COMPRESSION zstd,
    usage          JSON,
    scores         JSON NOT NULL,
    metadata       JSON USING COMPRESSION zstd NOT NULL,
    messages       JSON USING COMPRESSION zstd NOT NULL,
    steps          JSON USING COMPRESSION zstd NOT NULL
);

CREATE TABLE tool_calls (
    trace_id    VARCHAR NOT NULL,
    index       INTEGER NOT NULL,
    name        VARCHAR NOT NULL,
    args        JSON USING COMPRESSION zstd NOT NULL,
    call_id     VARCHAR,
    result      JSON USING COMPRESSION zstd,
    error       VARCHAR USING COMPRESSION zstd,
    answered    BOOLEAN NOT NULL,
    started_at  TIMESTAMP,
    duration_ms DOUBLE,
    PRIMARY KEY (trace_id, index)
);

CREATE TABLE rejects (
    source      VARCHAR NOT NULL,
    file        VARCHAR NOT NULL,
    line        BIGINT NOT NULL,          -- 1-based; the record's number where the source has no lines
    id          VARCHAR NOT NULL,         -- the record's own id, where file and line do not say which one it is
    reason      VARCHAR NOT NULL,
    excerpt     VARCHAR NOT NULL,
    record      VARCHAR USING COMPRESSION zstd, -- whole, where it is not too long
    alone       BOOLEAN NOT NULL,         -- a trace by itself, so that `import --retry` can try it again
    rejected_at TIMESTAMP NOT NULL,
    PRIMARY KEY (source, file, line, id)
);

-- The tokens that stand for personal data. The values are not here: digest is a hash of each, keyed with the
-- random key of this store, so that the same value gets the same token in every import.
CREATE TABLE redactions (
    kind   VARCHAR NOT NULL,              -- EMAIL, PHONE, …
    number BIGINT NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (kind, number)
);

CREATE TABLE redaction_key (
    key BLOB NOT NULL
);

-- Up to when each place was read completely, which is where `import --since last` goes on.
CREATE TABLE import_marks (
    source      VARCHAR NOT NULL,
    origin      VARCHAR NOT NULL,         -- host, project, public key
    filter      JSON NOT NULL,            -- what else was asked for
    read_until  TIMESTAMP NOT NULL,
    finished_at TIMESTAMP NOT NULL,
    PRIMARY KEY (source, origin, filter)
);

CREATE TABLE samples (
    name         VARCHAR PRIMARY KEY,
    created_at   TIMESTAMP NOT NULL,
    month        VARCHAR,
    where_clause VARCHAR,
    by_fields    VARCHAR[] NOT NULL,
    size         INTEGER NOT NULL,
    seed         BIGINT NOT NULL,
    population   BIGINT NOT NULL
);

CREATE TABLE sample_items (
    sample   VARCHAR NOT NULL,
    trace_id VARCHAR NOT NULL,
    position INTEGER NOT NULL,
    stratum  VARCHAR NOT NULL,
    weight   DOUBLE NOT NULL,
    PRIMARY KEY (sample, trace_id)
);

CREATE TABLE runs (
    run_id      VARCHAR PRIMARY KEY,
    created_at  TIMESTAMP NOT NULL,
    sample      VARCHAR,
    golden_path VARCHAR,
    mode        VARCHAR NOT NULL,
    lanes       JSON NOT NULL,
    trials      INTEGER NOT NULL,
    seed        BIGINT NOT NULL,
    budget_usd  DOUBLE,
    max_tokens  BIGINT,                   -- what the agents may read and write together
    settings    JSON NOT NULL,
    finished_at TIMESTAMP
);

-- A run keeps a copy of its items: a later import or an edited golden set does not change it.
CREATE TABLE run_items (
    run_id   VARCHAR NOT NULL,
    item_id  VARCHAR NOT NULL,
    position INTEGER NOT NULL,            -- the seeded random order in which blocks are replayed
    trace_id VARCHAR,
    case_id  VARCHAR,
    stratum  VARCHAR NOT NULL,
    weight   DOUBLE NOT NULL,
    item     JSON USING COMPRESSION zstd NOT NULL,
    PRIMARY KEY (run_id, item_id)
);

CREATE TABLE trials (
    run_id         VARCHAR NOT NULL,
    item_id        VARCHAR NOT NULL,
    lane           VARCHAR NOT NULL,
    index          INTEGER NOT NULL,
    status         VARCHAR NOT NULL,
    reason         VARCHAR USING COMPRESSION zstd,
    final_response VARCHAR USING COMPRESSION zstd,
    served         JSON USING COMPRESSION zstd NOT NULL,
    usage          JSON,
    cost_usd       DOUBLE,
    latency_ms     DOUBLE,
    started_at     TIMESTAMP,
    attempts       INTEGER NOT NULL,
    scores         JSON NOT NULL,
    stderr         VARCHAR USING COMPRESSION zstd,
    turns          JSON,                  -- of several turns of the user: number, calls and response of each
    PRIMARY KEY (run_id, item_id, lane, index)
);

-- What the model gateway recorded of a trial (`--record`): its requests to models, with their answers. No headers,
-- so no keys.
CREATE TABLE model_calls (
    run_id       VARCHAR NOT NULL,
    item_id      VARCHAR NOT NULL,
    lane         VARCHAR NOT NULL,
    trial        INTEGER NOT NULL,
    index        INTEGER NOT NULL,        -- in the order in which the agent asked
    api          VARCHAR NOT NULL,        -- anthropic or openai
    path         VARCHAR NOT NULL,
    request_hash VARCHAR NOT NULL,        -- of method, path and body
    request      JSON USING COMPRESSION zstd,
    status       INTEGER,
    content_type VARCHAR,
    response     VARCHAR USING COMPRESSION zstd, -- as the agent got it, a stream included
    error        VARCHAR,                 -- why there is no whole answer
    model        VARCHAR,
    tool_calls   JSON USING COMPRESSION zstd NOT NULL,
    usage        JSON,
    cost_usd     DOUBLE,
    latency_ms   DOUBLE,
    started_at   TIMESTAMP NOT NULL,
    PRIMARY KEY (run_id, item_id, lane, trial, index)
);

-- Only what costs something to know is kept here (the judge, graders of the user's own):
-- the tool-call match and everything built on it is computed when it is asked for.
CREATE TABLE grades (
    run_id         VARCHAR NOT NULL,
    item_id        VARCHAR NOT NULL,
    lane           VARCHAR NOT NULL,
    trial          INTEGER NOT NULL,
    grader         VARCHAR NOT NULL,
    grader_version VARCHAR NOT NULL,
    state          VARCHAR NOT NULL,
    score          DOUBLE,
    passed         BOOLEAN,
    reason         VARCHAR USING COMPRESSION zstd,
    detail         JSON USING COMPRESSION zstd NOT NULL,
    votes          JSON USING COMPRESSION zstd NOT NULL,
    cost_usd       DOUBLE,
    PRIMARY KEY (run_id, item_id, lane, trial, grader, grader_version)
);

-- What the judge answered, by what it was asked: the same material is never paid for twice, in no run.
CREATE TABLE judge_votes (
    judge    VARCHAR NOT NULL,            -- its model, prompt hash and rubric hash
    material VARCHAR NOT NULL,            -- SHA-256 of the judged document, 40 hexadecimal digits of it
    index    INTEGER NOT NULL,            -- of the vote
    state    VARCHAR NOT NULL,
    score    DOUBLE,
    reason   VARCHAR USING COMPRESSION zstd,
    cost_usd DOUBLE,
    cast_at  TIMESTAMP NOT NULL,
    PRIMARY KEY (judge, material, index)
);

-- Batches of the judge's questions that were sent and not fetched yet: a process that died finds them here.
CREATE TABLE judge_batches (
    mark     VARCHAR PRIMARY KEY,         -- ours: what the ids of its questions begin with
    judge    VARCHAR NOT NULL,
    requests INTEGER NOT NULL,
    sent_at  TIMESTAMP NOT NULL,
    batch_id VARCHAR                      -- the provider's; NULL while it is not known whether it was taken
);

CREATE TABLE decisions (
    item_id VARCHAR NOT NULL,
    action  VARCHAR NOT NULL,
    decided_at TIMESTAMP NOT NULL,
    person  VARCHAR NOT NULL,
    run_id  VARCHAR,
    reason  VARCHAR,
    case_id VARCHAR,
    label   INTEGER                       -- 1 poor to 3 good
);
