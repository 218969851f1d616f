"""The committed CRDs are the generated ones."""

from deploy.crds import generate


def test_the_committed_crds_are_the_generated_ones() -> None:
    for name, text in generate.files().items():
        assert (generate.FOLDER / name).read_text() == text, (
            f"{name} is old: run python -m deploy.crds.generate"
        )
