"""The page for many people."""
