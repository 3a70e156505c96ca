"""What people see in a terminal: widths, colour, progress, transcripts; standard error for words, output for data."""
