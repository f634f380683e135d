"""Real labelled traffic, made on one machine: networks, programs, taps, truth and self-checks.

The way in is the command `wirelens testbed`; docs/guide/testbed.md shows it at work. A run builds
a network of its own in namespaces (`lab`), records it (`taps`), lets one kind of scenario act
(`congestion`, `services`, `attacks`, `calls`, `latency`), and writes what was recorded beside what
is true of it (`truth`). A run that fails a check of its own is rejected (`run`).
"""
