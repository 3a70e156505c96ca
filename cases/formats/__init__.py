"""Files of cases as other tools write them: a module each, and `bridge`, which loses nothing."""
