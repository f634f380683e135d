"""What training and evaluation share, whatever is learned: metrics, networks, figures, options.

`wirelens.classify`, `wirelens.packetlog` and `wirelens.cca` import from here and never from each
other; nothing in here imports one of them.
"""
