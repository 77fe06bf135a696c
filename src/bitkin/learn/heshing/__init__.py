"""HeshingClassifier: what it learns, how, and what it keeps."""
