"""The page for many people: who they are, and what each of them may see."""
