"""Parts that several encoder families share."""

from __future__ import annotations

from tracker.estimate.encoder import (
    Encoder,
)
from tracker.estimate.reader import Config

BERT = Encoder()


LABELLED = ("ForSequenceClassification", "ForTokenClassification")


def embedding_size(c: Config) -> int:
    """Size of the embeddings, where it is not the hidden size."""
    return c["embedding_size"]
