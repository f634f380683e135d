"""The uncertain flows that are most worth a label: what `wirelens feedback` collects."""
