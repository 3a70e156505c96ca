-- What an import looks up before it converts a record: the hash of the record as it was read, and of all else
-- that the conversion depends on. With redaction it is keyed with redaction_key.
-- NULL where the trace was made of several records, or redacted by a hook.
ALTER TABLE traces ADD COLUMN record_hash UHUGEINT;
-- Tool calls: all; without a result; paired with one by name alone; with records that contradict each other.
ALTER TABLE traces ADD COLUMN call_counts INTEGER[];
