"""Gentle preemption: plans who shrinks for whom, asks, hands over, and lets jobs grow again."""
