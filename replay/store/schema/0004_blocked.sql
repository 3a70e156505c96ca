-- What the boundary of a trial kept from happening: what, and the line of the agent's code; NULL for nothing.
ALTER TABLE trials ADD COLUMN blocked JSON;
