"""Advisories behind switches, and retroactive consumers: one activemq.xml and one Java program, two brokers."""

from __future__ import annotations

import difflib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import classic
import ours
import pytest
from test_java_client import Program, unavailable

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Java clients: {unavailable()}")

ATTRIBUTES: Final = """anonymousProducerAdvisorySupport="true" useVirtualDestSubs="true"
    useVirtualDestSubsOnCreation="true" """
COMPOSITES: Final = """\
<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>
  <compositeQueue name="mix.in"><forwardTo><queue physicalName="mix.a"/><topic physicalName="mix.b"/></forwardTo>
  </compositeQueue>
  <compositeTopic name="mix.news"><forwardTo><queue physicalName="mix.c"/></forwardTo></compositeTopic>
  <compositeQueue name="mix.picky"><forwardTo><filteredDestination selector="n = 1" queue="mix.d"/>
    <queue physicalName="mix.made"/></forwardTo></compositeQueue>
</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>
"""
FATES: Final = 'advisoryForDelivery="true" advisoryForConsumed="true" sendAdvisoryIfNoConsumers="true"'
RECALL: Final = (
    '<policyEntry topic="recall.{}"><subscriptionRecoveryPolicy>{}</subscriptionRecoveryPolicy></policyEntry>'
)
WRAPPED: Final = """<retainedMessageSubscriptionRecoveryPolicy><wrapped><noSubscriptionRecoveryPolicy/></wrapped>
</retainedMessageSubscriptionRecoveryPolicy>"""
POLICIES: Final = f"""\
<destinationPolicy><policyMap><policyEntries>
  <policyEntry queue="told.>" {FATES}/>
  <policyEntry topic="told.>" {FATES}/>
  <policyEntry queue="whole.>" {FATES} includeBodyForAdvisory="true"/>
  <policyEntry topic="slow.>" advisoryForSlowConsumers="true"/>
  <policyEntry topic="few.>" advisoryForDiscardingMessages="true">
    <pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="2"/></pendingMessageLimitStrategy>
  </policyEntry>
  <policyEntry queue="full.>" advisoryWhenFull="true" advisoryForFastProducers="true" memoryLimit="4096"
               ><pendingQueuePolicy><vmQueueCursor/></pendingQueuePolicy></policyEntry>
  {RECALL.format("last", "<lastImageSubscriptionRecoveryPolicy/>")}
  {RECALL.format("count", '<fixedCountSubscriptionRecoveryPolicy maximumSize="3"/>')}
  {RECALL.format("sized", '<fixedSizedSubscriptionRecoveryPolicy maximumSize="4096"/>')}
  {RECALL.format("timed", '<timedSubscriptionRecoveryPolicy recoverDuration="60000"/>')}
  {RECALL.format("kept", WRAPPED)}
  <policyEntry topic="recall.always" alwaysRetroactive="true">
    <subscriptionRecoveryPolicy><lastImageSubscriptionRecoveryPolicy/></subscriptionRecoveryPolicy>
  </policyEntry>
</policyEntries></policyMap></destinationPolicy>
"""


def test_the_same_file_tells_the_same(tmp_path: Path) -> None:
    program = Program()

    def tell(broker: classic.Classic | ours.Entrepot) -> str:
        broker.start().await_ready()
        try:
            return program.run("Advised", broker.url)
        finally:
            broker.kill()

    theirs = classic.Classic(tmp_path / "classic", attributes=ATTRIBUTES, policies=COMPOSITES + POLICIES)
    with ThreadPoolExecutor() as pool:  # the program waits most of the time
        wanted, seen = pool.map(tell, (theirs, ours.Entrepot(tmp_path / "ours", like=theirs)))
    difference = difflib.unified_diff(wanted.splitlines(), seen.splitlines(), "ActiveMQ", "entrepot", lineterm="")
    assert wanted == seen, "\n".join(difference)
