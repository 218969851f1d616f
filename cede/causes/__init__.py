"""Why a job waits, is stopped, lacks pods or is smaller than its user wants."""
