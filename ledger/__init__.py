"""Counts the hours of every accelerator: who owned, used, borrowed and lent it, or left it idle."""
