"""Classify flows by service or device from their first packets: features, training, models."""
