"""Names the service or the device of a flow from its first packets: features, training, models."""
