"""Stand-in until the BPF controls land."""


def remove_stale() -> list[str]:
    return []
