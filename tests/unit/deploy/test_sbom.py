"""The bill of materials lists what the image of the controllers installs."""

import re

from deploy import sbom


def test_every_locked_package_is_in_the_bill_with_its_hashes() -> None:
    pins = re.findall(r"^([A-Za-z0-9_.-]+)==", sbom.LOCK.read_text(), re.MULTILINE)
    components = sbom.bill()["components"]
    assert [component["name"] for component in components] == pins
    for component in components:
        assert component["purl"] == f"pkg:pypi/{component['name']}@{component['version']}"
        assert component["properties"], f"{component['name']} has no hash"


def test_the_bill_is_cyclonedx_and_the_same_each_time() -> None:
    bill = sbom.bill()
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    references = [component["bom-ref"] for component in bill["components"]]
    assert len(references) == len(set(references))
    assert sbom.bill() == bill
