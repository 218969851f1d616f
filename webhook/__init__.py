"""Admission: gives a team's jobs a queue, a priority and the settings that elastic jobs need."""
