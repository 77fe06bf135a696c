"""Sets of members, and how texts become sets."""
