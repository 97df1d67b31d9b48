"""OpenWire, the language of ActiveMQ Classic: wire versions 1 to 12, tight and loose, with and without cache.

Read in this order: `schema` (which types exist and what they carry), `commands` (those types as classes, written by
``tools/openwire_commands.py`` from the schema), `frames` (how one field travels), `codec` (frames, and the state
around them), `negotiation` (what two peers agree on). `primitives` and `bodies` open what messages carry; `ids` holds
the text forms of identities.
"""
