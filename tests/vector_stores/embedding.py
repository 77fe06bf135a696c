"""An embedding without a model: texts that share words are near each other."""

from __future__ import annotations

import zlib

import numpy as np
from langchain_core.embeddings import Embeddings

N_FEATURES = 16


class WordEmbedding(Embeddings):
    """The sum of a vector per word, which is always the same for the same word."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        vector = np.full(N_FEATURES, 0.5)  # all on one side, as those of many models are
        for word in text.lower().split():
            seed = zlib.crc32(word.encode("utf-8", "surrogatepass"))
            vector += np.random.default_rng(seed).standard_normal(N_FEATURES)
        return [float(number) for number in vector]
