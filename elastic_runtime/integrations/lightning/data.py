"""The data of `fit`: from its arguments, from a LightningDataModule or from the module itself."""

from typing import Any

from torch.utils.data import DataLoader

from elastic_runtime.data import given_data
from elastic_runtime.data.map_dataset import Loader
from elastic_runtime.integrations.lightning import mistakes
from elastic_runtime.session import Session


class Data:
    def __init__(self, module: Any, train: Any, validation: Any, datamodule: Any) -> None:
        self._source = module if datamodule is None else datamodule
        self._module = module
        self._train = train
        self._validation = validation

    def prepare(self) -> None:
        """Called by every worker, so it may have to do with what another one is writing."""
        self._source.prepare_data()
        if self._source is not self._module:
            self._module.prepare_data()

    def training(self) -> "DataLoader[Any]":
        """Raises Mistake if its samples cannot be dealt out."""
        train = self._source.train_dataloader() if self._train is None else self._train
        mistakes.raise_first(mistakes.loader_mistakes(train))
        loader: DataLoader[Any] = train
        return loader

    def validation(self) -> list["DataLoader[Any]"]:
        """Empty if nothing is to be validated."""
        loaders = self._validation
        if not mistakes.overridden(self._module, "validation_step"):
            return []
        if loaders is None and mistakes.overridden(self._source, "val_dataloader"):
            loaders = self._source.val_dataloader()
        given = as_list(loaders)
        for loader in given:
            mistakes.raise_first(mistakes.validation_loader_mistakes(loader))
        return given


def elastic_loader(session: Session, loader: "DataLoader[Any]") -> Loader:
    """The same dataset with the session's order."""
    return session.loader(loader.dataset, **given_data.loader_options(loader))


def as_list(given: Any) -> list[Any]:
    """None, False, one thing or several."""
    if given is None or given is False:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]
