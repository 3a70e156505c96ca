-- Key columns are typed, payloads are JSON text. All timestamps are naive UTC.
-- Long texts name their compression: otherwise DuckDB spends most of an import on comparing methods.
CREATE TABLE traces (
    trace_id       VARCHAR PRIMARY KEY,
    source         VARCHAR NOT NULL,
    source_id      VARCHAR NOT NULL,      -- the id in the source; differs from trace_id if two sources use the same id
    content_hash   VARCHAR NOT NULL,      -- hash of the normalised trace: a second import of the same record changes nothing
    imported_at    TIMESTAMP NOT NULL,
    started_at     TIMESTAMP NOT NULL,
    ended_at       TIMESTAMP,
    updated_at     TIMESTAMP,             -- by the source, if known: an earlier state never replaces a later one
    incomplete     BOOLEAN NOT NULL,      -- the run had not ended when it was recorded
    state          VARCHAR NOT NULL,      -- complete, incomplete, no_content, or media_missing: only complete traces are sampled
    name           VARCHAR,
    session_id     VARCHAR,
    user_id        VARCHAR,
    environment    VARCHAR,
    release        VARCHAR,
    model          VARCHAR,
    tags           VARCHAR[] NOT NULL,
    tool_path      VARCHAR NOT NULL,
    follows        VARCHAR,               -- hash of the exchange before the input, as the messages carry it; or summary, or trace:ID
    continues      VARCHAR,               -- source_id of the trace that has what was written before the messages
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
    media_missing  VARCHAR[] NOT NULL,    -- why pictures, documents or audio of it cannot be had
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
    witness     VARCHAR,
    conflict    VARCHAR,
    PRIMARY KEY (trace_id, index)
);

CREATE TABLE rejects (
    source      VARCHAR NOT NULL,
    file        VARCHAR NOT NULL,
    line        BIGINT NOT NULL,          -- from 1; the record's number if the source has no lines
    id          VARCHAR NOT NULL,         -- the record's own id, if file and line do not identify it
    reason      VARCHAR NOT NULL,
    excerpt     VARCHAR NOT NULL,
    record      VARCHAR USING COMPRESSION zstd, -- complete, unless it is too long
    alone       BOOLEAN NOT NULL,         -- a whole trace, which `import --retry` can import again
    rejected_at TIMESTAMP NOT NULL,
    PRIMARY KEY (source, file, line, id)
);

-- The tokens that replace personal data. The values are not stored: digest is a hash of each, keyed with the
-- random key of this store, so that equal values get equal tokens in every import.
CREATE TABLE redactions (
    kind   VARCHAR NOT NULL,              -- EMAIL, PHONE, …
    number BIGINT NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (kind, number)
);

CREATE TABLE redaction_key (
    key BLOB NOT NULL
);

-- The time up to which each source was read completely; `import --since last` continues there.
CREATE TABLE import_marks (
    source      VARCHAR NOT NULL,
    origin      VARCHAR NOT NULL,         -- host, project, public key
    filter      JSON NOT NULL,            -- the other filters of the query
    read_until  TIMESTAMP NOT NULL,
    finished_at TIMESTAMP NOT NULL,
    PRIMARY KEY (source, origin, filter)
);

-- What an import reported about each tool, so that a later one prints only what is new.
CREATE TABLE reported_tools (
    name  VARCHAR PRIMARY KEY,
    state VARCHAR NOT NULL
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
    turns    VARCHAR[] NOT NULL,          -- the later traces of a conversation, in order
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
    max_tokens  BIGINT,                   -- the limit on tokens that the agents read and write together
    settings    JSON NOT NULL,
    finished_at TIMESTAMP,
    looks       JSON                      -- interim looks of a run that may stop early: items, answer, why it stopped
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
    turns          JSON,                  -- with several user turns: number, calls and response of each
    blocked        JSON,                  -- what its boundary kept from happening, and the line of the agent's code
    files          JSON,                  -- what it wrote in its own folder: path, size and SHA-256 of each file
    PRIMARY KEY (run_id, item_id, lane, index)
);

-- Model requests of a trial with their responses, as recorded by the gateway (`[run] record`). No headers, so no
-- keys.
CREATE TABLE model_calls (
    run_id       VARCHAR NOT NULL,
    item_id      VARCHAR NOT NULL,
    lane         VARCHAR NOT NULL,
    trial        INTEGER NOT NULL,
    index        INTEGER NOT NULL,        -- in the order of the requests
    api          VARCHAR NOT NULL,        -- anthropic or openai
    path         VARCHAR NOT NULL,
    request_hash VARCHAR NOT NULL,        -- hash of method, path and body
    request      JSON USING COMPRESSION zstd,
    status       INTEGER,
    content_type VARCHAR,
    response     VARCHAR USING COMPRESSION zstd, -- as the agent received it, including streams
    error        VARCHAR,                 -- why the response is incomplete
    model        VARCHAR,
    tool_calls   JSON USING COMPRESSION zstd NOT NULL,
    usage        JSON,
    cost_usd     DOUBLE,
    latency_ms   DOUBLE,
    started_at   TIMESTAMP NOT NULL,
    PRIMARY KEY (run_id, item_id, lane, trial, index)
);

-- Only grades that cost something are stored (the judge, the user's own graders). The tool-call match and
-- everything based on it is computed on demand.
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

-- The judge's votes by question: the same material is never paid for twice, in any run.
CREATE TABLE judge_votes (
    judge    VARCHAR NOT NULL,            -- its model, prompt hash and rubric hash
    material VARCHAR NOT NULL,            -- the first 40 hexadecimal digits of the SHA-256 of the judged document
    index    INTEGER NOT NULL,            -- number of the vote
    state    VARCHAR NOT NULL,
    score    DOUBLE,
    reason   VARCHAR USING COMPRESSION zstd,
    cost_usd DOUBLE,
    cast_at  TIMESTAMP NOT NULL,
    PRIMARY KEY (judge, material, index)
);

-- Batches of judge questions that were sent and not fetched yet, so that a restarted process finds them.
CREATE TABLE judge_batches (
    mark     VARCHAR PRIMARY KEY,         -- our own prefix of the ids of its questions
    judge    VARCHAR NOT NULL,
    requests INTEGER NOT NULL,
    sent_at  TIMESTAMP NOT NULL,
    batch_id VARCHAR                      -- the provider's; NULL while it is unknown whether it was accepted
);

-- Vectors of answers by the model of [diff] embedding: no text is sent to it twice.
CREATE TABLE embeddings (
    model     VARCHAR NOT NULL,
    text_hash VARCHAR NOT NULL,           -- SHA-256, in hexadecimal digits
    vector    FLOAT[] NOT NULL,
    made_at   TIMESTAMP NOT NULL,
    PRIMARY KEY (model, text_hash)
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
