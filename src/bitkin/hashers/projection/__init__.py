"""Sign codes: a projection, a rotation, and the signs of what comes out."""
