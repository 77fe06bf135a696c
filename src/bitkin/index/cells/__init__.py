"""CellIndex: rows in runs beside the nearest of many centres, of which a query looks into a few."""
