"""Jobs of `entrepot pipeline`: plain PySpark, each a function of a session, places and options."""
