"""Frameworks whose loop the session drives; each is imported only by the script that uses it."""
