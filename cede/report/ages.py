"""PURE. Sentences without their durations, which change with every second."""

import re

AGE = re.compile(r"\d+ (s|min|h|d)\b")


def without_age(sentence: str) -> str:
    return AGE.sub("", sentence)
