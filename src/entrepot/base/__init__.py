"""What everything else may use: errors, time, octets, patterns, settings and URIs. Knows nobody."""
