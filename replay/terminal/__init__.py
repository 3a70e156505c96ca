"""What people see in a terminal: widths, colour, progress, transcripts."""
