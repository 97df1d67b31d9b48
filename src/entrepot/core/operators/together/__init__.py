"""Several processes that are one broker (`run --processes`): how they ask one another, and what is made of the answers.

`line.py` asks one other process and `visit.py` is asked by one, both without sockets; `everyone.py` asks all for a
user; `whole.py` makes what they say one answer. Real: `io/reception.py` and `management/processes.py`; simulated:
`simulation/answering.py`.
"""
