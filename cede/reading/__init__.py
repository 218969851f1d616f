"""Reads what a report needs, with the rights of whoever asks."""
