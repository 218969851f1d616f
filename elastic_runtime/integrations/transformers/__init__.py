"""`from elastic_runtime.integrations.transformers import ElasticTrainer`."""

from elastic_runtime.integrations.transformers.trainer import ElasticTrainer

__all__ = ["ElasticTrainer"]
