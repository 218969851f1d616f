"""PURE. The packages of the extra `cli`: what to do where one of them is missing."""


def missing_sentence(missing: ModuleNotFoundError) -> str:
    """Which package is missing, and the cure."""
    package = (missing.name or "").partition(".")[0]
    return f"{package} is not installed here: install Cede's own wheel with its extra [cli]"
