"""Plans which jobs shrink for a pending one, asks and resizes them, and lets jobs grow again."""
