-- What a trial wrote in its own folder: path, size and SHA-256 of each file; NULL where it wrote none.
ALTER TABLE trials ADD COLUMN files JSON;
