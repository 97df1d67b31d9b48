"""The console: a process of its own that asks brokers by management messages.

And tells browsers and tools over HTTP.
"""
