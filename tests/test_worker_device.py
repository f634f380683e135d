"""A worker says what it lacks to compute on a card."""

from command import wirelens


def test_a_model_without_networks_is_refused_on_a_card() -> None:
    ran = wirelens("worker", "--model", "services", "--device", "cuda:1")
    assert ran.status == 1 and not ran.stdout
    assert "services: cuda:1: no stage is in ONNX" in ran.stderr, ran.stderr


def test_a_device_that_is_none_is_refused() -> None:
    ran = wirelens("worker", "--model", "services", "--device", "gpu")
    assert ran.status == 2 and "wanted cpu, cuda, or a card by its number" in ran.stderr, ran.stderr
