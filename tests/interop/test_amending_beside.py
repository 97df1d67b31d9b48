"""Settings, rights and users that an operator gives a running broker, beside a real Artemis with the same files.

Both go through the same deeds, a kill and a start, and a change of broker.xml; what they answer is compared.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import artemis
import pytest
from managing import Broker, Manager
from ours import Entrepot, like_artemis

LOGIN: Final = """\
activemq {
   org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule required
       reload=true
       org.apache.activemq.jaas.properties.user="artemis-users.properties"
       org.apache.activemq.jaas.properties.role="artemis-roles.properties";
};
"""
USERS: Final = "# who may come in\nboss = manager\n"
ROLES: Final = "all = boss\n"
FILES: Final = {"login.config": LOGIN, "artemis-users.properties": USERS, "artemis-roles.properties": ROLES}
REFRESH: Final = "<configuration-file-refresh-period>300</configuration-file-refresh-period>"
SETTINGS: Final = """
<address-setting match="orders.#"><max-delivery-attempts>3</max-delivery-attempts>
<redelivery-delay>70</redelivery-delay></address-setting>
"""
PATIENCE_S: Final = 20.0
AMENDED: Final = {
    "maxDeliveryAttempts": 5, "addressFullMessagePolicy": "FAIL", "maxSizeBytes": 20000000, "redeliveryMultiplier": 2.0,
    "sendToDLAOnNoRoute": True, "slowConsumerCheckPeriod": 9, "slowConsumerThresholdMeasurementUnit":
    "MESSAGES_PER_HOUR", "configDeleteQueues": "FORCE", "defaultMaxConsumers": 7, "expiryQueuePrefix": "E.",
    "autoDeleteQueuesDelay": 33, "defaultLastValueKey": "k", "idCacheSize": 9, "noExpiry": True, "pageLimitBytes": 5000,
}  # fmt: skip

pytestmark = pytest.mark.skipif(bool(artemis.unavailable()), reason=artemis.unavailable())


class Realm(artemis.Artemis):
    """A real Artemis whose users are in files."""

    def start(self) -> Realm:
        login = f"-Djava.security.auth.login.config={self.home / 'login.config'}"
        self.run(login, "-cp", artemis.class_path(), "Artemis", str(self.home / "broker.xml"))
        return self


class Deeds:
    """What an operator does with one broker; each answer, or refusal, is kept."""

    def __init__(self, broker: Broker) -> None:
        for name, text in FILES.items():
            (broker.home / name).write_text(text)
        self.broker = broker
        self.seen: list[tuple[str, Any]] = []
        self.start()

    def start(self) -> None:
        self.broker.start().await_ready()
        self.manager = Manager(self.broker, "boss", "manager")

    def again(self) -> None:
        """Kill the broker, and start it again."""
        self.broker.kill()
        self.start()

    def ask(self, name: str, *given: object) -> Any:
        """Ask, and keep the answer."""
        answer = self.told(name, *given)
        if name == "addAddressSettings" and answer != "refused":
            answer = {word: value for word, value in json.loads(answer).items() if word in str(given[1])}
        self.seen.append((f"{name}{given}", answer))
        return answer

    def told(self, name: str, *given: object) -> Any:
        try:
            return self.manager.ask("broker", name, *given)
        except RuntimeError:
            return "refused"

    def settings(self, address: str = "orders.x") -> None:
        """Keep what holds for an address."""
        found = json.loads(self.told("getAddressSettingsAsJSON", address))
        self.seen.append(("settings", {name: found.get(name) for name in [*AMENDED, "redeliveryDelay"]}))

    def roles(self, address: str = "orders.x") -> None:
        """Keep who may do what at an address."""
        rows = json.loads(self.told("getRolesAsJSON", address))
        self.seen.append(("roles", sorted(rows, key=lambda row: str(row["name"]))))

    def users(self) -> None:
        """Keep who is known."""
        rows = json.loads(self.told("listUser", ""))
        known = {row["username"]: sorted(row["roles"]) for row in rows}
        self.seen.append(("users", dict(sorted(known.items()))))

    def enters(self, user: str, password: str) -> None:
        """Keep whether somebody comes in."""
        try:
            Manager(self.broker, user, password).close()
        except Exception:  # each client says it in its own way
            self.seen.append((f"{user} comes in", False))
        else:
            self.seen.append((f"{user} comes in", True))

    def await_setting(self, address: str, name: str, value: object) -> None:
        """Wait until the file that was changed holds."""

        def there() -> bool:
            return json.loads(self.told("getAddressSettingsAsJSON", address)).get(name) == value

        wait_for(there)

    def rewrite(self, old: str, new: str) -> None:
        """Change broker.xml."""
        file = self.broker.home / "broker.xml"
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))


def wait_for(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.1)


def beside(tmp_path: Path, deeds: Callable[[Deeds], None]) -> tuple[list[Any], list[Any]]:
    """Return what a real Artemis answers, and what this broker does."""
    real = Realm(tmp_path / "real", name="ref", authenticated=True, core=REFRESH, settings=SETTINGS)
    mine = like_artemis(tmp_path / "ours", real)
    seen = []
    for broker in (real, mine):
        try:
            one = Deeds(broker)
            deeds(one)
            one.manager.close()
            seen.append(one.seen)
            print(*one.seen, sep="\n")
        finally:
            broker.kill()
    return seen[0], seen[1]


def amend_settings(one: Deeds) -> None:
    one.settings()
    one.ask("addAddressSettings", "orders.#", json.dumps(AMENDED))
    one.settings()
    one.again()
    one.settings()
    one.ask("addAddressSettings", "orders.#", "no json")
    one.ask("addAddressSettings", "orders.#", '{"maxSizeBytes": -2}')
    one.rewrite("</max-delivery-attempts>", "</max-delivery-attempts><expiry-delay>4</expiry-delay>")
    one.rewrite(
        '<address-setting match="orders.#">',
        '<address-setting match="other"><expiry-delay>5</expiry-delay></address-setting>'
        '<address-setting match="orders.#">',
    )
    one.await_setting("other", "expiryDelay", 5)
    one.settings()
    one.ask("addAddressSettings", "loose.#", '{"maxDeliveryAttempts": 6}')
    one.settings("loose.x")
    for pattern in ("loose.#", "loose.#", "orders.#"):
        one.ask("removeAddressSettings", pattern)
    one.settings("loose.x")
    one.again()
    one.settings("loose.x")
    one.settings()


def amend_rights(one: Deeds) -> None:
    one.roles()
    one.ask("addSecuritySettings", "orders.#", "x, y", "y", "x", "x", "z", "", "all", "y", "x", "x")
    one.roles()
    one.roles("elsewhere")
    one.again()
    one.roles()
    one.ask("addSecuritySettings", "orders.#", "y", "y", "y", "y", "y", "y", "all")
    one.roles()
    one.ask("addSecuritySettings", "orders.#", "b")
    one.rewrite(
        '<security-setting match="#">',
        '<security-setting match="orders.#"><permission type="send" roles="file"/></security-setting>'
        '<security-setting match="other"><permission type="send" roles="other"/></security-setting>'
        '<security-setting match="#">',
    )
    wait_for(lambda: "other" in str(one.told("getRolesAsJSON", "other")))
    one.roles()
    one.ask("addSecuritySettings", "loose.#", "y", "y", "y", "y", "y", "y", "all")
    one.roles("loose.x")
    for pattern in ("loose.#", "loose.#", "orders.#"):
        one.ask("removeSecuritySettings", pattern)
    one.roles("loose.x")
    one.again()
    one.roles("loose.x")
    one.roles()


def amend_users(one: Deeds) -> None:
    one.users()
    one.ask("listUser", "boss")
    one.ask("listUser", "nobody")
    one.ask("addUser", "ann", "kappa-1", "shop, all", False)
    one.ask("addUser", "ben", "kappa-3", "shop", True)
    one.ask("addUser", "ann", "again", "shop", False)
    one.users()
    time.sleep(1)
    for user, password in (("ann", "kappa-1"), ("ann", "wrong"), ("ben", "kappa-3")):
        one.enters(user, password)
    one.ask("resetUser", "ann", "kappa-2", "shop", False)
    one.ask("resetUser", "ben", None, "all")
    one.ask("resetUser", "nobody", "x", "all")
    one.users()
    time.sleep(1)
    one.enters("ann", "kappa-2")
    one.again()  # Artemis remembers for a while who came in; here the former password is none at once
    one.users()
    one.ask("removeUser", "ann")
    one.ask("removeUser", "ann")
    one.users()
    time.sleep(1)
    one.enters("ann", "kappa-2")
    assert "kappa-2" not in (one.broker.home / "artemis-users.properties").read_text()
    assert "# who may come in" in (one.broker.home / "artemis-users.properties").read_text()
    if isinstance(one.broker, Entrepot):
        assert "kappa" not in (one.broker.home / "log").read_text()


@pytest.mark.parametrize("deeds", [amend_settings, amend_rights, amend_users])
def test_what_an_operator_says_holds_as_long_as_it_does_in_artemis(
    tmp_path: Path, deeds: Callable[[Deeds], None]
) -> None:
    theirs, mine = beside(tmp_path, deeds)
    for at, (real, ours) in enumerate(zip(theirs, mine, strict=True)):
        assert (at, said(real, ours)) == (at, real)


def said(real: Any, ours: Any) -> Any:
    """Return ``ours``, without what Artemis does not say as nobody set it: here it is said with its default."""
    if ours[0] != "settings":
        return ours
    return ours[0], {name: ours[1][name] if value is not None else None for name, value in real[1].items()}
