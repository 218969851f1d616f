"""PURE. What Kueue's settings are, and whether they are as Cede needs them."""
