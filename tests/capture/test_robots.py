"""The identity that a robot's rows are written under."""

from __future__ import annotations

import subprocess
import sys

from lucky_recorder.capture.robots import Robot, entity_id


def test_an_entity_id_is_the_same_in_every_process_and_fits_a_signed_64_bit_integer() -> None:
    robots = ("left_base", "right_base", "", "机器人")
    here = [entity_id(name) for name in robots]
    code = f"from lucky_recorder.capture.robots import entity_id; print([entity_id(n) for n in {robots}])"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert there.strip() == str(here)
    assert here[0] == entity_id("left_base") == 5694537933012128263
    assert len(set(here)) == 4
    assert all(-(2**63) <= number < 2**63 for number in here)
    assert any(entity_id(f"robot{i}") < 0 for i in range(10))


def test_a_robots_id_is_that_of_its_name() -> None:
    assert Robot("left_base", (), ()).entity_id == entity_id("left_base")
