"""What an evaluation has found: its rollouts, and what they come to."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lucky_recorder.lazy import lazy
from lucky_recorder.storage.write import write_json

if TYPE_CHECKING:
    from rich import box
    from rich import table as drawing
else:
    # rich is imported only where a table is asked for.
    box, drawing = lazy("rich.box"), lazy("rich.table")

_Z_95 = 1.959963984540054


@dataclass(frozen=True)
class Rollout:
    """One episode of an evaluation.

    Attributes:
        seed: The seed of its reset.
        success: The verdict; None if the environment says nothing of success.
        reason: Why it ended: ``verdict``, ``no_verdict`` or ``time_limit``.
        length: Steps.
        total_reward: The sum of the environment's rewards, its return.
        reward: The verdict as a number from 0 to 1, as the sidecar has it; None without a verdict.
        decisions: How often the policy was asked.
        seconds: Wall-clock time.
    """

    seed: int
    success: bool | None
    reason: str
    length: int
    total_reward: float
    reward: float | None
    decisions: int
    seconds: float


@dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation.

    Attributes:
        rollouts: Its episodes, in order.
        policy: The policy's name.
        action: Which vector the policy spoke: ``gym`` or ``actuators``.
        path: The session's folder; None where only bundles were written.
        koyu_path: The koyu dataset's folder; None where no bundles were written.
    """

    rollouts: tuple[Rollout, ...]
    policy: str
    action: str
    path: Path | None = None
    koyu_path: Path | None = None

    @property
    def judged(self) -> tuple[Rollout, ...]:
        """The rollouts that have a verdict."""
        return tuple(r for r in self.rollouts if r.success is not None)

    @property
    def successes(self) -> int:
        """How many succeeded."""
        return sum(bool(r.success) for r in self.judged)

    @property
    def success_rate(self) -> float | None:
        """The share of the judged rollouts that succeeded; None if none was judged."""
        return self.successes / len(self.judged) if self.judged else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Between which the true success rate lies, at 95 % confidence (Wilson); None if no rollout was judged."""
        return wilson(self.successes, len(self.judged)) if self.judged else None

    @property
    def mean_reward(self) -> float | None:
        """The mean of the rewards that the sidecars carry, the manifest's ``success_rate``; None without one."""
        return _mean([r.reward for r in self.rollouts if r.reward is not None])

    @property
    def mean_length(self) -> float | None:
        """Mean steps of a rollout."""
        return _mean([r.length for r in self.rollouts])

    @property
    def mean_return(self) -> float | None:
        """Mean sum of the environment's rewards."""
        return _mean([r.total_reward for r in self.rollouts])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {
            "policy": self.policy,
            "action": self.action,
            "episodes": len(self.rollouts),
            "judged": len(self.judged),
            "successes": self.successes,
            "success_rate": self.success_rate,
            "success_rate_95": None if self.interval is None else list(self.interval),
            "mean_reward": self.mean_reward,
            "mean_length": self.mean_length,
            "mean_return": self.mean_return,
            "session": None if self.path is None else str(self.path),
            "koyu": None if self.koyu_path is None else str(self.koyu_path),
            "rollouts": [asdict(r) for r in self.rollouts],
        }

    def to_json(self) -> str:
        """Return everything as JSON text."""
        return json.dumps(self.to_dict(), indent=4, ensure_ascii=False)

    def save(self, path: str | Path) -> None:
        """Write everything as a JSON file.

        Raises:
            StorageError: If the file system refuses.
        """
        write_json(Path(path), self.to_dict())

    def table(self) -> drawing.Table:
        """Return a table of the rollouts, and of what they come to, for a ``rich`` console."""
        table = drawing.Table(box=box.SIMPLE_HEAD, title=self._title(), title_justify="left")
        table.show_footer = bool(self.rollouts)
        footers = ("", f"{len(self.rollouts)} episodes", self._rate(), "", _short(self.mean_length))
        columns = ("#", "seed", "success", "ended by", "steps")
        for title, footer in zip(columns, footers, strict=True):
            table.add_column(title, footer, justify="left" if title in ("success", "ended by") else "right")
        table.add_column("return", _short(self.mean_return), justify="right")
        for number, r in enumerate(self.rollouts):
            said = "-" if r.success is None else "yes" if r.success else "no"
            table.add_row(str(number), str(r.seed), said, r.reason, str(r.length), _short(r.total_reward))
        return table

    def _title(self) -> str:
        return f"{self.policy}, action={self.action}"

    def _rate(self) -> str:
        if self.interval is None or self.success_rate is None:
            return "-"
        low, high = self.interval
        return f"{self.success_rate:.0%} ({low:.0%} to {high:.0%})"


def wilson(successes: int, count: int) -> tuple[float, float]:
    """Return the Wilson interval of a rate at 95 % confidence: right also for few trials, and at 0 and 1."""
    z2 = _Z_95**2
    rate = successes / count
    middle = (rate + z2 / (2 * count)) / (1 + z2 / count)
    half = _Z_95 / (1 + z2 / count) * math.sqrt(rate * (1 - rate) / count + z2 / (4 * count**2))
    # At the ends exactly 0 and 1, which rounding would miss.
    return (0.0 if successes == 0 else middle - half, 1.0 if successes == count else middle + half)


def _mean(numbers: Sequence[float]) -> float | None:
    return statistics.fmean(numbers) if numbers else None


def _short(number: float | None) -> str:
    return "-" if number is None else f"{number:.1f}"
