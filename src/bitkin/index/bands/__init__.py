"""The index of rows that agree in whole bands, and the bands themselves."""
