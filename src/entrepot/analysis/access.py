"""Whether the broker at the far end lets a bridge in: credentials on both sides (classic.md 1.2, 7.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from entrepot.analysis.model import Accounts, Channel, Issue, Network
from entrepot.config.findings import Severity


def credentials(network: Network) -> Iterator[Issue]:
    """Compare what a channel says with who may connect there; passwords are never quoted."""
    for link in network.links:
        if link.back:
            continue  # the other direction of a connection that is judged once
        for number in network.nodes[link.target].members:
            remote = network.members[number]
            user, password = _remote_login(link.channel)
            if remote.accounts is None:
                if user:
                    what = f"it signs in as {user!r}, and {remote.name} asks nobody for a password"
                    yield Issue(Severity.NOTE, link.channel.spot, what, "nothing to do, if that is meant")
                continue
            why = _refusal(remote.accounts, user, password)
            if why:
                there = remote.accounts.spot
                yield Issue(
                    Severity.ERROR if remote.accounts.complete else Severity.WARNING,
                    link.channel.spot,
                    f"{remote.name} does not let this bridge in: {why} ({there.file}:{there.line})",
                    "give userName and password (or remoteUserName and remotePassword) of a user of that broker",
                )
            elif user in remote.accounts.deaf and not link.channel.static_only:
                there = remote.accounts.spot
                yield Issue(
                    Severity.ERROR,
                    link.channel.spot,
                    f"{remote.name} lets this bridge hear of no consumers: {user!r} may not read advisories "
                    f"({there.file}:{there.line})",
                    'read, write and admin for one of its groups: <authorizationEntry topic="ActiveMQ.Advisory.>" ...',
                )


def local_credentials(network: Network) -> Iterator[Issue]:
    """In ActiveMQ a bridge signs in at its own broker as well, with userName and password."""
    for member in network.members:
        if member.accounts is None:
            continue
        for channel in member.channels:
            why = _refusal(member.accounts, channel.user, channel.password)
            if why:
                yield Issue(
                    Severity.WARNING,
                    channel.spot,
                    f"as ActiveMQ Classic, {member.name} would not let its own bridge in: {why}",
                    "give userName and password of a user of this broker; remoteUserName and remotePassword are for "
                    "the far side",
                )


def _remote_login(channel: Channel) -> tuple[str, str]:
    return (channel.remote_user or channel.user, channel.remote_password or channel.password)


def _refusal(accounts: Accounts, user: str, password: str) -> str:
    if not user:
        if accounts.anonymous:
            return ""
        return "it asks for a user, and the connector names none"
    if not accounts.complete:
        return ""  # who is in the realm is not in the file
    if user not in accounts.users:
        return f"it has no user {user!r}"
    return "" if accounts.users[user] == password else f"the password of {user!r} is another one"


ACCESS_RULES: Final[tuple[Callable[[Network], Iterable[Issue]], ...]] = (credentials, local_credentials)
