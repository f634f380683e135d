"""Real labelled traffic, made on one machine: networks, programs, taps, ground truth, self-checks.

Use it by the command `wirelens testbed`; see docs/guide/testbed.md. A run builds
a network of its own in namespaces (`lab`), records it (`taps`), performs one kind of scenario
(`congestion`, `services`, `attacks`, `calls`, `latency`), and writes the captures together with
their ground truth (`truth`). A run that fails one of its checks is rejected (`run`).
"""
