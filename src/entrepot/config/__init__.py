"""Files of either family, read into one typed model. Stands above the cores, which do not know that it exists."""
