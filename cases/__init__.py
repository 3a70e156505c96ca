"""Turn results, and a person's decisions about them, into expectations under version control."""
