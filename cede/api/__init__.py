"""The words: every object we read or write, as values. Pure."""
