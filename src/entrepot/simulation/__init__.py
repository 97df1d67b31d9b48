"""The other world: a whole broker in one thread from one seed, with clients, cuts, crashes and disks that tear."""
