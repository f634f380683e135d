"""Places whose captures train and choose nothing, so that they can say what strangers get."""

import hashlib


def is_sealed(family: str, share: float) -> bool:
    """Whether a family of captures is among those that train and choose nothing: by a hash of its
    name, so that it is the same in every run, under every seed.
    """
    digest = hashlib.sha256(family.encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64
