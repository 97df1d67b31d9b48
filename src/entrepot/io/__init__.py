"""The real world: loop, sockets, disk, signals, clock. Drives the cores, and is known to none of them."""
