"""What hashers and classifiers share: vector input, rollback on failure, names of features,
fingerprints, and methods that exist only on some objects.
"""
