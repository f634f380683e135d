"""Congestion control: flows of many controls share one queue, seen before and after it."""

from __future__ import annotations
