"""What hashers and classifiers share: input, names of features, fingerprints, methods that may not
exist.
"""
