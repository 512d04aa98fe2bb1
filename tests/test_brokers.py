"""Which broker tests run on."""

import pytest

from tests.brokers import CHOICE, running_broker


def test_without_a_docker_engine_a_container_is_refused_with_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv(CHOICE, "docker")
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    with pytest.raises(RuntimeError, match=f"unset {CHOICE}"), running_broker(tmp_path):
        raise AssertionError("nothing listens there")


def test_another_choice_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv(CHOICE, "cloud")
    with pytest.raises(ValueError, match="jars or docker"), running_broker(tmp_path):
        raise AssertionError("there is no such broker")
