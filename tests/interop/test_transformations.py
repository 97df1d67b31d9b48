"""Maps and objects between Java and STOMP clients, in ActiveMQ's forms: octet by octet what ActiveMQ Classic makes."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Final

import classic
import ours
import pytest
from test_java_client import Program, unavailable
from test_talk import Stomp

MISSING: Final = [jar for jar in classic.TRANSFORMERS if not classic.VERSION and not Path(jar).exists()]
pytestmark = [
    pytest.mark.skipif(bool(unavailable()), reason=f"Java clients: {unavailable()}"),
    pytest.mark.skipif(bool(MISSING), reason=f"no {MISSING}; Debian: apt install libxstream-java libjettison-java"),
]

PATIENCE_S: Final = 10.0
FORMS: Final = ("jms-map-json", "jms-map-xml", "jms-json", "jms-xml", "jms-object-json", "jms-object-xml", "jms-byte")
SHOWN: Final = ("transformation", "content-length", "correlation-id", "type", "property", "number")
LAST: Final = "2"  # content-length of the bytes message that ends what Java says

JSON: Final = "jms-map-json"
XML: Final = "jms-map-xml"
SENT: Final = [
    (JSON, '{"map":{"entry":[{"string":["name","Dejan"]},{"string":"n","int":5}]}}'),
    (JSON, '{"map":{"entry":{"string":["name","Dejan"]}}}'),
    (JSON, '{"map":""}'),
    (JSON, '{"map":{"entry":[{"string":"a","long":5},{"string":"b","short":5},{"string":"c","byte":5}]}}'),
    (JSON, '{"map":{"entry":[{"string":"d","boolean":true},{"string":"e","char":"x"},{"string":"f","double":1.5}]}}'),
    (JSON, '{"map":{"entry":[{"string":"g","float":1.5},{"string":"i","null":""},{"string":"j","string":""}]}}'),
    (JSON, '{"map":{"entry":[{"string":"l","list":{"int":[1,2],"string":"x"}},{"string":"e","list":""}]}}'),
    (JSON, '{"map":{"entry":{"string":"m","map":{"entry":{"string":["p","q"]}}}}}'),
    (JSON, '{"map":{"entry":[{"string":["a",5]},{"string":["b",true]},{"string":["c",null]}]}}'),
    (JSON, '{"linked-hash-map":{"entry":[{"string":["a","b"]}]}}'),
    (JSON, '{"map":{"entry":[{"int":1,"string":"key"}]}}'),
    (JSON, '{"string":"x"}'),
    (JSON, "not json"),
    (JSON, ""),
    (XML, "<map><entry><string>name</string><int>5</int></entry></map>"),
    (
        XML,
        "<map>\n  <entry>\n    <string>a</string>\n    <string>&lt;&#65;<![CDATA[x]]> y</string>\n  </entry>\n</map>",
    ),
    (XML, "<map><entry><string>n</string><null/></entry><entry><string>h</string><int>0x10</int></entry></map>"),
    (
        XML,
        "<map><entry><string>u</string><byte>255</byte></entry><entry><string>o</string><int>010</int></entry></map>",
    ),
    (XML, "<map><entry><string>b</string><boolean>yes</boolean></entry></map>"),
    (XML, '<map><entry><string>c</string><char null="true"/></entry></map>'),
    (XML, "<map><entry><string>a</string><int>99999999999</int></entry></map>"),
    (XML, "<map><entry><string>a</string></entry></map>"),
    (XML, "<map><foo/></map>"),
    (XML, "<map><entry>"),
    (XML, '<!DOCTYPE a [<!ENTITY e "x">]><map><entry><string>a</string><string>&e;</string></entry></map>'),
    ("jms-object-json", '{"string":"x"}'),
    ("jms-object-json", '{"int":7}'),
    ("jms-object-json", '{"char":"c"}'),
    ("jms-object-xml", "<string>x</string>"),
    ("jms-object-xml", "<boolean>true</boolean>"),
    ("jms-object-xml", "<double>1.5</double>"),
    ("jms-object-xml", "<float>1.5</float>"),
    ("jms-object-xml", "<long>-1</long>"),
    ("jms-object-xml", "<short>3</short>"),
    ("jms-object-xml", "<byte>3</byte>"),
    ("jms-object-xml", "<java.lang.ProcessBuilder/>"),
    ("jms-json", '{"map":""}'),
    ("jms-xml", "<map/>"),
    ("jms-byte", "octets"),
    ("jms-strange", "strange"),
]


def talk(program: Program, broker: classic.Classic | ours.Entrepot) -> list[str]:
    """Return what STOMP clients are given, form by form, and what a Java client makes of what they send."""
    lines: list[str] = []
    program.run("Forms", broker.url, "say", *FORMS)
    for form in FORMS:
        stomp = Stomp(broker.stomp_port)
        stomp.send("SUBSCRIBE", {"id": "1", "destination": f"/queue/{form}", "transformation": form})
        while True:
            frame = stomp.read(PATIENCE_S)
            assert frame is not None, f"{form}: nothing after {lines[-1:]}"
            headers = {name: frame.headers[name] for name in SHOWN if name in frame.headers}
            lines.append(f"{form}: {headers} {frame.body!r}")
            if headers.get("content-length") == LAST:
                break
        stomp.close()
    stomp = Stomp(broker.stomp_port)
    for form, text in SENT:
        stomp.send("SEND", {"destination": "/queue/heard", "transformation": form}, text.encode())
    stomp.send("SEND", {"destination": "/queue/heard", "transformation": JSON, "content-length": "2"}, b"{}")
    heard = program.run("Forms", broker.url, "hear", "heard", str(len(SENT) + 1))
    lines += [f"{form} {text!r}: {line}" for (form, text), line in zip(SENT, heard.splitlines(), strict=False)]
    stomp.send("SUBSCRIBE", {"id": "2", "destination": "/queue/back", "transformation": XML})
    for form, text in SENT[:9]:
        stomp.send("SEND", {"destination": "/queue/back", "transformation": form}, text.encode())
        frame = stomp.read(PATIENCE_S)
        assert frame is not None
        lines.append(f"back: {frame.headers['transformation']} {frame.body!r}")
    stomp.close()
    return lines


def test_maps_and_objects_come_out_as_activemq_writes_them(tmp_path: Path) -> None:
    program = Program()
    theirs = classic.Classic(tmp_path / "classic", stomp=True, transformers=True)
    held: list[list[str]] = []
    for broker in (theirs, ours.Entrepot(tmp_path / "ours", like=theirs)):
        broker.start().await_ready()
        try:
            held.append(talk(program, broker))
        finally:
            broker.kill()
    difference = difflib.unified_diff(*held, "ActiveMQ", "entrepot", lineterm="", n=0)
    assert held[0] == held[1], "\n".join(difference)
    assert len(held[0]) > len(FORMS) * 60 + len(SENT)
