"""TileGym's loggers: Python's, whose warnings can be limited to the first."""

from __future__ import annotations

import logging
import os
from typing import Any

__all__ = ["TileGymLogger", "get_logger", "set_log_level", "warn_limited", "warn_once"]

_counts: dict[tuple[str, str], int] = {}


class TileGymLogger(logging.LoggerAdapter):  # type: ignore[type-arg]
    """A logger of Python's; several arguments are joined as `print` does."""

    def warn_limited(
        self, message: str, max_count: int = 5, category: str | None = None, **options: Any
    ) -> None:
        """Warns, unless it has so often."""
        text = f"[{category}] {message}" if category else message
        count = _counts[self.name, text] = _counts.get((self.name, text), 0) + 1
        if count <= max_count:
            self.logger.warning(text, **{"stacklevel": 2, **options})

    def warn_once(self, message: str, category: str | None = None, **options: Any) -> None:
        """Warns, unless it has."""
        self.warn_limited(message, 1, category, **{"stacklevel": 3, **options})

    def log(self, level: int, msg: object, *args: object, **options: Any) -> None:
        """Logs all arguments side by side."""
        text = " ".join(map(str, (msg, *args)))
        super().log(level, "%s", text, **{"stacklevel": 2, **options})


def get_logger(name: str | None = None) -> TileGymLogger:
    """The logger of a name, by default `tilegym`; its level is TILEGYM_LOG_LEVEL, if set."""
    logger = logging.getLogger(name or "tilegym")
    if level := os.environ.get("TILEGYM_LOG_LEVEL"):
        logger.setLevel(level.upper())
    return TileGymLogger(logger, {})


def set_log_level(level: str) -> None:
    """Sets the level of the logger `tilegym`."""
    logging.getLogger("tilegym").setLevel(level.upper())


def warn_once(message: str, category: str | None = None, **options: Any) -> None:
    """Warns by the logger `tilegym`, unless it has."""
    get_logger().warn_once(message, category, **{"stacklevel": 4, **options})


def warn_limited(
    message: str, max_count: int = 5, category: str | None = None, **options: Any
) -> None:
    """Warns by the logger `tilegym`, unless it has so often."""
    get_logger().warn_limited(message, max_count, category, **{"stacklevel": 3, **options})
