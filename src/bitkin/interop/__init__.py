"""Models and codes to and from other libraries: FAISS, sentence-transformers. None of them is
needed otherwise.
"""

from bitkin.interop.faiss_objects import from_faiss, to_faiss
from bitkin.interop.packed_embeddings import from_sentence_transformers

__all__ = ["from_faiss", "from_sentence_transformers", "to_faiss"]
