"""Training scripts that the tests of real processes run."""
