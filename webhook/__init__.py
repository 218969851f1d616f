"""Admission: gives a team's jobs their queue, their priority, and what they need to be elastic."""
