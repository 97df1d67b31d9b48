"""Airflow 3: an operator that lands what is there, and a sensor that waits for messages (docs/airflow.md).

::

    arrived = MessagesSensor(task_id="arrived", queue_name="orders", url="{{ conn.broker.get_uri() }}", at_least=1000)
    landed = LandOperator(task_id="landed", config="/etc/entrepot/land.toml")
    arrived >> landed

Both run `entrepot` as a process of its own (`pipeline/landing/outside.py`), which may be of another environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow.sdk import BaseOperator, BaseSensorOperator

from entrepot.base.errors import Unreachable
from entrepot.pipeline.landing.outside import PROGRAM, Landing, waiting


class LandOperator(BaseOperator):  # type: ignore[misc]
    """Land what is there now, as ``config`` says (docs/landing.md). Its result is how many rows each flow landed.

    ``environment``: variables that the file names, such as passwords. ``program``: of the environment that has Spark,
    ``["/opt/entrepot/bin/entrepot"]``. Fails where a flow does; a retry goes on where it was, and lands nothing twice.
    A task that is killed lets the batches under way come to their end.
    """

    template_fields: ClassVar[Sequence[str]] = ("config", "environment")

    def __init__(
        self,
        *,
        config: str,
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = PROGRAM,
        **given: Any,
    ) -> None:
        super().__init__(**given)
        self.config = config
        self.environment = dict(environment or {})
        self.program = list(program)
        self._landing: Landing | None = None

    def execute(self, context: Any) -> dict[str, int]:
        """Run it. Raises OperatorError."""
        self._landing = Landing(self.config, program=self.program, environment=self.environment, say=self.log.info)
        return {row["flow"]: row["rows"] for row in self._landing.run()}

    def on_kill(self) -> None:
        """End it in order."""
        if self._landing is not None:
            self._landing.stop()


class MessagesSensor(BaseSensorOperator):  # type: ignore[misc]
    """Wait until a queue has ``at_least`` messages; what others hold of it counts too.

    A broker that does not answer is asked again at the next poke, until the sensor's ``timeout``. ``url`` is that of a
    user who may manage: ``stomp://user:password@host:61613``.
    """

    template_fields: ClassVar[Sequence[str]] = ("queue_name", "url")

    def __init__(
        self, *, queue_name: str, url: str, at_least: int = 1, program: Sequence[str] = PROGRAM, **given: Any
    ) -> None:
        super().__init__(**given)
        self.queue_name = queue_name
        self.url = url
        self.at_least = at_least
        self.program = list(program)

    def poke(self, context: Any) -> bool:
        """Return whether there are so many. Raises OperatorError for what the broker refuses."""
        try:
            count = waiting(self.queue_name, self.url, program=self.program)
        except Unreachable as error:
            self._say(str(error))
            return False
        self._say(f"{count} messages wait in {self.queue_name}")
        return count >= self.at_least

    def _say(self, text: str) -> None:
        say = self.log.info  # Airflow's, which is read with the task: its lines have no code of ours
        say(text)
