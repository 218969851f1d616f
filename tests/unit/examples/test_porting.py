"""The scripts before and after porting."""

import runpy
import sys
from types import ModuleType

import pytest

from tests.harness.ported_scripts import PORTING


@pytest.mark.parametrize("name", ["stateful_loader", "stateful_loader_before"])
def test_a_script_with_loader_workers_of_its_own_trains_only_as_the_main_module(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """From Python 3.14 on, its loader workers import it for the class of its data."""
    torchdata = ModuleType("torchdata.stateful_dataloader")
    torchdata.__dict__["StatefulDataLoader"] = None
    monkeypatch.setitem(sys.modules, "torchdata.stateful_dataloader", torchdata)
    monkeypatch.setitem(sys.modules, "torchdata", ModuleType("torchdata"))
    monkeypatch.syspath_prepend(PORTING)
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    defined = runpy.run_path(str(PORTING / f"{name}.py"), run_name="__mp_main__")
    assert "Records" in defined
    assert "model" not in defined
