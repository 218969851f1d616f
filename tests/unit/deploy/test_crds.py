"""The committed CRDs are the generated ones."""

from deploy.crds import generate


def test_the_committed_crds_are_the_generated_ones() -> None:
    for name, text in generate.files().items():
        assert (generate.FOLDER / name).read_text() == text, (
            f"{name} is old: run python -m deploy.crds.generate"
        )


def test_an_allocation_of_before_is_refused_no_write_for_its_name() -> None:
    """A rule at the root is asked at every write, also of the status and in a deletion."""
    schema = next(text for name, text in generate.files().items() if "computeallocations" in name)
    of_names = [line for line in schema.splitlines() if "self.metadata.name in [" in line]
    assert of_names
    assert not [line for line in of_names if "kubeflow" in line]
