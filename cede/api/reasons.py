"""Every reason of a condition or an event, with the sentence that explains it. Pure."""

from enum import StrEnum


class Reason(StrEnum):
    """A machine-readable reason in CamelCase, and `sentence`: what it means, for people."""

    sentence: str

    def __new__(cls, value: str, sentence: str) -> "Reason":
        member = str.__new__(cls, value)
        member._value_ = value
        member.sentence = sentence
        return member
