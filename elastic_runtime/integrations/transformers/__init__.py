"""`from elastic_runtime.integrations.transformers import ElasticTrainer`.

The import waits for the first use (PEP 562): the package has modules that need no framework.
"""

from typing import TYPE_CHECKING, Any

__all__ = ["ElasticTrainer"]

if TYPE_CHECKING:
    from elastic_runtime.integrations.transformers.trainer import ElasticTrainer
else:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from elastic_runtime.integrations.transformers.trainer import ElasticTrainer

        return ElasticTrainer
