"""L4S: what became of each packet at a router with two queues.

- `read_trace`: the records of a simulation or of a router in front of real TCP, as a table
"""

from wirelens.l4s.trace import read_trace

__all__ = ["read_trace"]
