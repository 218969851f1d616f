"""Objects for test cases, with defaults."""
