"""Who may preempt, and which jobs shrink or stop for it."""
