"""Elastic versions of what training frameworks offer; each needs its framework in the image."""
