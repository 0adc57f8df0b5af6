"""How a program of the soak says what it has done: its last line holds figures, which those who run it add up."""

from __future__ import annotations

import json
from collections import Counter

_MARK = "figures: "


def tell(figures: Counter[str]) -> int:
    """Print the figures, and return the status that the program ends with: 1 if anything was ``wrong``."""
    print(_MARK + json.dumps(dict(sorted(figures.items()))), flush=True)
    return int(figures["wrong"] > 0)


def told(output: str) -> Counter[str] | None:
    """Return the figures that a program has printed; None if it did not come to its end."""
    *_, last = output.splitlines() or [""]
    return Counter(json.loads(last.removeprefix(_MARK))) if last.startswith(_MARK) else None
