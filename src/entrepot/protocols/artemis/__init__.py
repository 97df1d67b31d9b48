"""CORE, the language of ActiveMQ Artemis: channel versions 121 to 136.

Read in this order: `schema` (which packets exist and what they carry), `packets` (those packets as classes, written by
``tools/core_packets.py`` from the schema), `primitives` (how one value travels), `codec` (frames). `properties`,
`headers` and `bodies` open what messages carry.

The side that dials is `client` (one connection) and `conversation` (what a program's connection has opened and asked).
"""
