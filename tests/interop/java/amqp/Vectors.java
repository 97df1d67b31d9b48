import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.qpid.proton.amqp.*;
import org.apache.qpid.proton.amqp.messaging.*;
import org.apache.qpid.proton.amqp.messaging.Properties;
import org.apache.qpid.proton.amqp.security.*;
import org.apache.qpid.proton.amqp.transaction.*;
import org.apache.qpid.proton.amqp.transport.*;
import org.apache.qpid.proton.amqp.transport.Source;
import org.apache.qpid.proton.amqp.transport.Target;
import org.apache.qpid.proton.codec.*;

/** Every type, performative and section as the encoder of proton-j writes it: a line "name TAB octets TAB what it says". */
public class Vectors {
    static final EncoderImpl encoder;
    static final DecoderImpl decoder = new DecoderImpl();
    static {
        encoder = new EncoderImpl(decoder);
        AMQPDefinedTypes.registerAllTypes(decoder, encoder);
    }

    static void put(String name, Object value, String says) {
        byte[] octets = new byte[1 << 20];
        ByteBuffer buffer = ByteBuffer.wrap(octets);
        encoder.setByteBuffer(buffer);
        encoder.writeObject(value);
        int length = buffer.position();
        StringBuilder hex = new StringBuilder();
        for (int i = 0; i < length; i++) hex.append(String.format("%02x", octets[i]));
        System.out.println(name + "\t" + hex + "\t" + says);
    }

    static UnsignedInteger uint(long value) {
        return UnsignedInteger.valueOf(value);
    }

    static Symbol symbol(String text) {
        return Symbol.valueOf(text);
    }

    static String repeat(String text, int times) {
        StringBuilder made = new StringBuilder();
        for (int i = 0; i < times; i++) made.append(text);
        return made.toString();
    }

    public static void main(String[] args) {
        types();
        performatives();
        states();
        sasl();
        sections();
    }

    static void types() {
        put("null", null, "None");
        put("boolean", true, "True");
        put("boolean", false, "False");
        for (int each : new int[] {0, 1, 127, 128, 255}) put("ubyte", UnsignedByte.valueOf((byte) each), "" + each);
        for (int each : new int[] {0, 255, 256, 65535}) put("ushort", UnsignedShort.valueOf((short) each), "" + each);
        for (long each : new long[] {0, 1, 255, 256, 4294967295L}) put("uint", uint(each), "" + each);
        for (long each : new long[] {0, 1, 255, 256, Long.MAX_VALUE}) put("ulong", UnsignedLong.valueOf(each), "" + each);
        put("ulong", UnsignedLong.valueOf(-1L >>> 1), "" + Long.MAX_VALUE);
        put("ulong", UnsignedLong.valueOf("18446744073709551615"), "18446744073709551615");
        for (byte each : new byte[] {0, 1, -1, 127, -128}) put("byte", each, "" + each);
        for (short each : new short[] {0, 1, -1, 32767, -32768}) put("short", each, "" + each);
        for (int each : new int[] {0, 1, -1, 127, 128, -128, -129, Integer.MAX_VALUE, Integer.MIN_VALUE}) put("int", each, "" + each);
        for (long each : new long[] {0, 1, -1, 127, 128, -128, -129, Long.MAX_VALUE, Long.MIN_VALUE}) put("long", each, "" + each);
        put("float", 1.5f, "1.5");
        put("double", -2.25, "-2.25");
        put("char", 'a', "'a'");
        put("char", '\u20ac', "'\\u20ac'");
        put("timestamp", new Date(1700000000123L), "1700000000123");
        put("timestamp", new Date(-1), "-1");
        put("uuid", new UUID(0x0123456789abcdefL, 0x0fedcba987654321L), "Exact(152, bytes.fromhex('0123456789abcdef0fedcba987654321'))");
        put("binary", new Binary(new byte[] {0, 1, -1}), "b'\\x00\\x01\\xff'");
        put("binary", new Binary(new byte[300]), "bytes(300)");
        put("string", "", "''");
        put("string", "caf\u00e9 \u20ac \ud83d\ude00", "'caf\\u00e9 \\u20ac \\U0001f600'");
        put("string", repeat("x", 300), "'x' * 300");
        put("symbol", symbol("amqp:x"), "'amqp:x'");
        put("symbol", symbol(repeat("y", 300)), "'y' * 300");
        put("list", Collections.emptyList(), "[]");
        put("list", Arrays.asList(1, "two", null, true), "[1, 'two', None, True]");
        put("list", Collections.nCopies(300, 7), "[7] * 300");
        put("map", new LinkedHashMap<>(), "{}");
        Map<Object, Object> map = new LinkedHashMap<>();
        map.put("a", 1);
        map.put(symbol("b"), Arrays.asList(2L));
        put("map", map, "{'a': 1, 'b': [2]}");
        put("array", new int[] {1, -2, 300}, "[1, -2, 300]");
        put("array", new Symbol[] {symbol("q"), symbol("t")}, "['q', 't']");
        put("array", new String[] {"x", "y"}, "['x', 'y']");
        put("array", new boolean[] {true, false}, "[True, False]");
        put("array", new long[] {5}, "[5]");
        put("array", new double[] {0.5}, "[0.5]");
        put("described", new UnknownDescribedType(symbol("a:b"), "v"), "Described('a:b', 'v')");
        put("described", new UnknownDescribedType(UnsignedLong.valueOf(0x468C00000004L), "x = 1"), "Described(77567109365764, 'x = 1')");
        put("decimal32", new Decimal32(1234), "Exact(116, bytes.fromhex('000004d2'))");
        put("decimal64", new Decimal64(1234), "Exact(132, bytes.fromhex('00000000000004d2'))");
    }

    static void performatives() {
        Open open = new Open();
        open.setContainerId("me");
        put("Open", open, "container_id='me'");
        open.setHostname("h");
        open.setMaxFrameSize(uint(4096));
        open.setChannelMax(UnsignedShort.valueOf((short) 9));
        open.setIdleTimeOut(uint(60000));
        open.setOfferedCapabilities(symbol("a"), symbol("b"));
        open.setDesiredCapabilities(symbol("c"));
        Map<Symbol, Object> properties = new LinkedHashMap<>();
        properties.put(symbol("product"), "p");
        open.setProperties(properties);
        put("Open", open, "container_id='me', hostname='h', max_frame_size=4096, channel_max=9, idle_time_out=60000, offered_capabilities=['a', 'b'], desired_capabilities=['c'], properties={'product': 'p'}");
        Begin begin = new Begin();
        begin.setNextOutgoingId(uint(1));
        begin.setIncomingWindow(uint(2047));
        begin.setOutgoingWindow(uint(2147483647L));
        put("Begin", begin, "next_outgoing_id=1, incoming_window=2047, outgoing_window=2147483647");
        begin.setRemoteChannel(UnsignedShort.valueOf((short) 300));
        begin.setHandleMax(uint(7));
        put("Begin", begin, "remote_channel=300, next_outgoing_id=1, incoming_window=2047, outgoing_window=2147483647, handle_max=7");
        Attach attach = new Attach();
        attach.setName("link");
        attach.setHandle(uint(3));
        attach.setRole(Role.SENDER);
        attach.setInitialDeliveryCount(uint(0));
        org.apache.qpid.proton.amqp.messaging.Target target = new org.apache.qpid.proton.amqp.messaging.Target();
        target.setAddress("orders");
        target.setCapabilities(symbol("queue"));
        attach.setTarget(target);
        put("Attach", attach, "name='link', handle=3, role=False, initial_delivery_count=0, target=Target(address='orders', expiry_policy='session-end', capabilities=['queue'])");
        Attach reads = new Attach();
        reads.setName("r");
        reads.setHandle(uint(0));
        reads.setRole(Role.RECEIVER);
        reads.setSndSettleMode(SenderSettleMode.UNSETTLED);
        reads.setRcvSettleMode(ReceiverSettleMode.SECOND);
        org.apache.qpid.proton.amqp.messaging.Source source = new org.apache.qpid.proton.amqp.messaging.Source();
        source.setAddress("news");
        source.setDurable(TerminusDurability.UNSETTLED_STATE);
        source.setExpiryPolicy(TerminusExpiryPolicy.NEVER);
        source.setDistributionMode(symbol("copy"));
        source.setDefaultOutcome(Released.getInstance());
        source.setOutcomes(symbol("amqp:accepted:list"), symbol("amqp:rejected:list"));
        reads.setSource(source);
        put("Attach", reads, "name='r', handle=0, role=True, snd_settle_mode=0, rcv_settle_mode=1, source=Source(address='news', durable=2, expiry_policy='never', distribution_mode='copy', default_outcome=Released(), outcomes=['amqp:accepted:list', 'amqp:rejected:list'])");
        Attach coordinates = new Attach();
        coordinates.setName("t");
        coordinates.setHandle(uint(1));
        coordinates.setRole(Role.SENDER);
        Coordinator coordinator = new Coordinator();
        coordinator.setCapabilities(symbol("amqp:local-transactions"));
        coordinates.setTarget(coordinator);
        put("Attach", coordinates, "name='t', handle=1, role=False, target=Coordinator(capabilities=['amqp:local-transactions'])");
        Flow flow = new Flow();
        flow.setNextIncomingId(uint(0));
        flow.setIncomingWindow(uint(10));
        flow.setNextOutgoingId(uint(4294967295L));
        flow.setOutgoingWindow(uint(20));
        put("Flow", flow, "next_incoming_id=0, incoming_window=10, next_outgoing_id=4294967295, outgoing_window=20");
        flow.setHandle(uint(1));
        flow.setDeliveryCount(uint(5));
        flow.setLinkCredit(uint(1000));
        flow.setDrain(true);
        flow.setEcho(true);
        put("Flow", flow, "next_incoming_id=0, incoming_window=10, next_outgoing_id=4294967295, outgoing_window=20, handle=1, delivery_count=5, link_credit=1000, drain=True, echo=True");
        Transfer transfer = new Transfer();
        transfer.setHandle(uint(1));
        transfer.setDeliveryId(uint(77));
        transfer.setDeliveryTag(new Binary(new byte[] {0, 0, 0, 77}));
        transfer.setMessageFormat(uint(0));
        put("Transfer", transfer, "handle=1, delivery_id=77, delivery_tag=bytes.fromhex('0000004d'), message_format=0");
        transfer.setSettled(true);
        transfer.setMore(true);
        TransactionalState inside = new TransactionalState();
        inside.setTxnId(new Binary(new byte[] {9}));
        transfer.setState(inside);
        put("Transfer", transfer, "handle=1, delivery_id=77, delivery_tag=bytes.fromhex('0000004d'), message_format=0, settled=1, more=True, state=TransactionalState(txn_id=bytes([9]))");
        Disposition disposition = new Disposition();
        disposition.setRole(Role.RECEIVER);
        disposition.setFirst(uint(3));
        disposition.setLast(uint(9));
        disposition.setSettled(true);
        disposition.setState(Accepted.getInstance());
        put("Disposition", disposition, "role=True, first=3, last=9, settled=True, state=Accepted()");
        Detach detach = new Detach();
        detach.setHandle(uint(2));
        detach.setClosed(true);
        ErrorCondition error = new ErrorCondition(symbol("amqp:not-found"), "no such queue");
        detach.setError(error);
        put("Detach", detach, "handle=2, closed=True, error=Error(condition='amqp:not-found', description='no such queue')");
        put("End", new End(), "");
        Close close = new Close();
        close.setError(error);
        put("Close", close, "error=Error(condition='amqp:not-found', description='no such queue')");
    }

    static void states() {
        put("Accepted", Accepted.getInstance(), "");
        put("Released", Released.getInstance(), "");
        Rejected rejected = new Rejected();
        rejected.setError(new ErrorCondition(symbol("a:b"), null));
        put("Rejected", rejected, "error=Error(condition='a:b')");
        Modified modified = new Modified();
        modified.setDeliveryFailed(true);
        modified.setUndeliverableHere(true);
        put("Modified", modified, "delivery_failed=True, undeliverable_here=True");
        Received received = new Received();
        received.setSectionNumber(uint(1));
        received.setSectionOffset(UnsignedLong.valueOf(2));
        put("Received", received, "section_number=1, section_offset=2");
        Declared declared = new Declared();
        declared.setTxnId(new Binary(new byte[] {1, 2}));
        put("Declared", declared, "txn_id=bytes([1, 2])");
        put("Declare", new Declare(), "");
        Discharge discharge = new Discharge();
        discharge.setTxnId(new Binary(new byte[] {1, 2}));
        discharge.setFail(true);
        put("Discharge", discharge, "txn_id=bytes([1, 2]), fail=True");
        TransactionalState state = new TransactionalState();
        state.setTxnId(new Binary(new byte[] {1}));
        state.setOutcome(Accepted.getInstance());
        put("TransactionalState", state, "txn_id=bytes([1]), outcome=Accepted()");
        put("DeleteOnClose", DeleteOnClose.getInstance(), "");
    }

    static void sasl() {
        SaslMechanisms mechanisms = new SaslMechanisms();
        mechanisms.setSaslServerMechanisms(symbol("PLAIN"), symbol("ANONYMOUS"));
        put("SaslMechanisms", mechanisms, "sasl_server_mechanisms=['PLAIN', 'ANONYMOUS']");
        SaslInit init = new SaslInit();
        init.setMechanism(symbol("PLAIN"));
        init.setInitialResponse(new Binary("\0a\0b".getBytes(StandardCharsets.UTF_8)));
        init.setHostname("h");
        put("SaslInit", init, "mechanism='PLAIN', initial_response=b'\\0a\\0b', hostname='h'");
        SaslChallenge challenge = new SaslChallenge();
        challenge.setChallenge(new Binary(new byte[] {1}));
        put("SaslChallenge", challenge, "challenge=bytes([1])");
        SaslResponse response = new SaslResponse();
        response.setResponse(new Binary(new byte[0]));
        put("SaslResponse", response, "response=b''");
        org.apache.qpid.proton.amqp.security.SaslOutcome outcome = new org.apache.qpid.proton.amqp.security.SaslOutcome();
        outcome.setCode(SaslCode.AUTH);
        put("SaslOutcome", outcome, "code=1");
    }

    static void sections() {
        Header header = new Header();
        put("Header", header, "");
        header.setDurable(true);
        header.setPriority(UnsignedByte.valueOf((byte) 7));
        header.setTtl(uint(60000));
        header.setDeliveryCount(uint(2));
        put("Header", header, "durable=True, priority=7, ttl=60000, delivery_count=2");
        Properties properties = new Properties();
        properties.setMessageId("ID:1");
        properties.setUserId(new Binary("u".getBytes(StandardCharsets.UTF_8)));
        properties.setTo("orders");
        properties.setSubject("kind");
        properties.setReplyTo("answers");
        properties.setCorrelationId(UnsignedLong.valueOf(7));
        properties.setContentType(symbol("text/plain"));
        properties.setContentEncoding(symbol("gzip"));
        properties.setAbsoluteExpiryTime(new Date(1700000000123L));
        properties.setCreationTime(new Date(1700000000000L));
        properties.setGroupId("g");
        properties.setGroupSequence(uint(3));
        properties.setReplyToGroupId("rg");
        put("Properties", properties, "message_id='ID:1', user_id=b'u', to='orders', subject='kind', reply_to='answers', correlation_id=7, content_type='text/plain', content_encoding='gzip', absolute_expiry_time=1700000000123, creation_time=1700000000000, group_id='g', group_sequence=3, reply_to_group_id='rg'");
    }
}
