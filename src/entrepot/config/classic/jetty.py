"""``jetty.xml``, which ``activemq.xml`` imports: where the web console is, over which TLS, and who comes in.

It is a file of Spring that puts a server of Jetty together from beans. Read are those that say something about the
console: where it listens, key stores, who logs in. Beans that only hold others together mean nothing by themselves. A
bean that is not known might keep somebody out, so with one of those no console is started.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from entrepot.base.errors import InvalidConfiguration, InvalidOption
from entrepot.base.values import boolean
from entrepot.config.classic.beans import SpringBean, references, text_of, texts
from entrepot.config.classic.jetty_login import Login
from entrepot.config.console import ConsolePlace, ConsoleSettings, ConsoleTls, Doubts, port_of, versions
from entrepot.config.realm import revealed
from entrepot.config.sources import Sources
from entrepot.config.xml import Element, parse

EVERYWHERE: Final = "0.0.0.0"
PORT: Final = "8161"
PORT_BEAN: Final = "WebConsolePort"
SERVER_BEAN: Final = "JettyServerBean"
"""What the files of ActiveMQ 6.3 have."""
_SYSTEM: Final = re.compile(r"#\{\s*systemProperties\[\s*['\"]jetty\.(host|port)['\"]\s*\]\s*\}")

CONNECTORS: Final = ("ServerConnector", "SelectChannelConnector", "SocketConnector", "BlockingChannelConnector")
SECURE_CONNECTORS: Final = ("SslSelectChannelConnector", "SslSocketConnector")
TLS_CLASSES: Final = ("SslContextFactory", "SslContextFactory$Server")
STRUCTURE: Final = frozenset(
    (
        PORT_BEAN,
        "BasicAuthenticator",
        "ConstraintSecurityHandler",
        "ContextHandlerCollection",
        "DefaultHandler",
        "DefaultIdentityService",
        "HandlerCollection",
        "HandlerList",
        "HttpConfiguration",
        "HttpConnectionFactory",
        "MethodInvokingFactoryBean",
        "ResourceHandler",
        "SecureRequestCustomizer",
        "Server",
        "SslConnectionFactory",
        "WebAppContext",
        *TLS_CLASSES,
    )
)
"""Beans that hold others together, or are read with the one that they are in."""
PARTS: Final = frozenset(
    (
        *(
            "arguments",
            "authenticator",
            "connectors",
            "constraintMappings",
            "contextPath",
            "handler",
            "handlers",
            "host",
        ),
        *("directoriesListed", "identityService", "logUrlOnStart", "loginService", "port", "resourceBase"),
        *("sendServerVersion", "serveIcon", "staticMethod", "targetMethod", "targetObject", "welcomeFiles"),
    )
)
"""Properties of these that hold others, are read elsewhere, or are about pages that are not those of this console."""
NO_EFFECT: Final = {
    "AsyncNCSARequestLog": "requests are not logged; who changes something is, by entrepot.audit",
    "AsyncRequestLogWriter": "requests are not logged; who changes something is, by entrepot.audit",
    "CustomRequestLog": "requests are not logged; who changes something is, by entrepot.audit",
    "NCSARequestLog": "requests are not logged; who changes something is, by entrepot.audit",
    "RequestLogHandler": "requests are not logged; who changes something is, by entrepot.audit",
    "Slf4jRequestLog": "requests are not logged; who changes something is, by entrepot.audit",
    "DigestAuthenticator": "tools log in by Basic, browsers by a form",
    "FormAuthenticator": "tools log in by Basic, browsers by a form",
    "GzipHandler": "answers are not compressed",
    "QueuedThreadPool": "one thread serves all connections",
    "RewriteHandler": "the console sends security headers of its own",
    "StatisticsHandler": "requests are not counted",
}
APPLICATIONS: Final = ("/admin", "/api", "/")
PLACE_NO_EFFECT: Final = (
    "acceptQueueSize",
    "acceptors",
    "idleTimeout",
    "lowResourcesMaxIdleTime",
    "maxIdleTime",
    "name",
    "reuseAddress",
    "server",
    "soLingerTime",
    "statsOn",
)
TLS_NAMES: Final = {
    "keyStorePath": "certificate",
    "keyStore": "certificate",
    "keystore": "certificate",
    "keyStorePassword": "password",
    "password": "password",
    "trustStorePath": "trust",
    "trustStore": "trust",
    "truststore": "trust",
    "trustStorePassword": "trust_password",
    "trustPassword": "trust_password",
}
TLS_FLAGS: Final = {"needClientAuth": "need_client", "wantClientAuth": "want_client"}
TLS_NO_EFFECT: Final = {
    "keyStoreType": "the file itself tells",
    "trustStoreType": "the file itself tells",
    "provider": "TLS is OpenSSL's",
    "protocol": "TLS is OpenSSL's",
    "secureRandomAlgorithm": "TLS is OpenSSL's",
    "sslKeyManagerFactoryAlgorithm": "TLS is OpenSSL's",
    "sslTrustManagerFactoryAlgorithm": "TLS is OpenSSL's",
    "renegotiationAllowed": "nothing is renegotiated",
    "allowRenegotiate": "nothing is renegotiated",
    "sessionCachingEnabled": "TLS is OpenSSL's",
}
TLS_OTHERWISE: Final = {
    "certAlias": "the key store's one key is shown",
    "excludeCipherSuites": "OpenSSL offers none that is broken; includeCipherSuites says which are wanted",
    "validateCerts": "certificates are not validated when the console starts",
}


def read(path: Path, sources: Sources) -> ConsoleSettings | None:
    """Return the console of a file; None where it cannot be started as written, which is a finding then."""
    doubts = Doubts(sources.findings, str(path))
    root = parse(path.read_bytes(), str(path))
    return Jetty(root, sources, doubts).settings()


class Jetty:
    """Reads one file."""

    def __init__(self, root: Element, sources: Sources, doubts: Doubts) -> None:
        self.root: Final = root
        self.sources: Final = sources
        self.doubts: Final = doubts
        self.named: Final = {
            text_of(one, "id"): one for one in root.walk() if one.name == "bean" and "id" in one.attributes
        }
        self.referred: Final = {name: None for one in root.walk() for name in references(one)}
        self.port: Final = next((one for one in self._beans() if one.short == PORT_BEAN), None)
        self.login: Final = Login(sources, doubts, self.named)
        self.places: Final[list[ConsolePlace]] = []

    def settings(self) -> ConsoleSettings | None:
        """Return what it says."""
        self._below(self.root)
        realm = self.login.realm()
        if not self.places and not self.doubts.closed:
            self.doubts.close(self.root, "it opens no place that can be listened at", "add a ServerConnector")
        if self.doubts.closed:
            return None
        return ConsoleSettings(
            places=tuple(self.places),
            realm=realm,
            file=self.doubts.file,
            line=self.root.line,
            path=self.root.path,
        )

    def _beans(self) -> Iterator[SpringBean]:
        for element in self.root.walk():
            if element.name == "bean":
                yield SpringBean(element, self.named)

    def _below(self, element: Element) -> None:
        """Take every bean below ``element``, from the outermost in."""
        for child in element.children:
            if child.name == "bean":
                self._bean(SpringBean(child, self.named))
            elif element is not self.root:
                self._below(child)
            elif child.name not in ("description",):
                self.doubts.close(child, f"<{child.name}> is not understood here", "take it out")

    def _bean(self, bean: SpringBean) -> None:
        short = bean.short
        if short in CONNECTORS or short in SECURE_CONNECTORS:
            self._connector(bean)
        elif self.login.takes(bean):
            pass
        elif short in NO_EFFECT:
            self._idle(bean)
        elif short in STRUCTURE:
            self._part(bean)
        elif text_of(bean.element, "class").endswith("web.config.JspConfigurer"):
            pass
        elif short == SERVER_BEAN:
            what = f"{short} is put together from files in Jetty's own language, which are not read"
            self.doubts.close(bean.element, what, "write jetty.xml as ActiveMQ 6.2 has it")
        else:
            name = text_of(bean.element, "class") or "without a class"
            self.doubts.close(bean.element, f"the Java bean {name} is not understood here", "take it out")

    def _idle(self, bean: SpringBean) -> None:
        """Say that a bean has no effect; what it passes requests on to is read all the same."""
        self.doubts.note(bean.element, f"{bean.short} has no effect here: {NO_EFFECT[bean.short]}")
        for name, element in bean.properties().items():
            if name in ("handler", "handlers"):
                self._below(element)
            for child in element.walk() if name == "rules" else ():
                rule = SpringBean(child, self.named).short
                if child.name == "bean" and rule != "HeaderPatternRule":
                    self.doubts.warn(child, f"the {rule} is not followed here")

    def _part(self, bean: SpringBean) -> None:
        """Read what a bean of the structure holds, and name what else is said of it."""
        for name, element in bean.properties().items():
            if name == "contextPath" and ",".join(texts(element)) not in APPLICATIONS:
                self.doubts.warn(element, f"the web application at {','.join(texts(element))!r} is not served here")
            elif name not in PARTS and bean.short not in TLS_CLASSES:
                self.doubts.note(element, f"{name} of {bean.short} has no effect here")
        self._below(bean.element)

    # -- places --------------------------------------------------------------------------------------------------------

    def _connector(self, bean: SpringBean) -> None:
        if bean.element.parent is self.root and bean.id not in self.referred:
            self.doubts.warn(bean.element, f"the connector {bean.id!r} is not opened: no server has it", "refer to it")
            return
        try:
            store = self._store(bean)
            tls = None if store is None else self._tls(store)
            said = {"host": EVERYWHERE, "port": PORT}
            for name, element in bean.properties().items():
                if name in said:
                    said[name] = self._text(element) or said[name]
                elif name in PLACE_NO_EFFECT:
                    self.doubts.note(element, f"{name} has no effect here: connections are limited by the console")
                elif store is None or store.element is not bean.element:
                    raise InvalidOption(f"a connector has no property {name!r} here", remedy="take it out")
            self.places.append(self._place(bean.element, said["host"], said["port"], tls))
        except (InvalidConfiguration, InvalidOption) as error:
            self.doubts.warn(bean.element, f"this connector is not opened: {error.message}", error.remedy)
        except ValueError as error:
            self.doubts.warn(bean.element, f"this connector is not opened: {error}")

    def _place(self, element: Element, host: str, port: str, tls: ConsoleTls | None) -> ConsolePlace:
        return ConsolePlace(
            host=host,
            port=port_of(port),
            tls=tls,
            file=self.doubts.file,
            line=element.line,
            path=element.path,
        )

    def _store(self, bean: SpringBean) -> SpringBean | None:
        """Return the bean that says what TLS a connector speaks: one that it has, or itself; None for no TLS."""
        found = next((one for one in bean.below() if one.short in TLS_CLASSES), None)
        return bean if found is None and bean.short in SECURE_CONNECTORS else found

    def _tls(self, bean: SpringBean) -> ConsoleTls:
        """Return the TLS that a bean says. Raises InvalidOption, InvalidConfiguration, ValueError."""
        values: dict[str, Any] = {}
        included = excluded = keyed = ""
        for name, element in bean.properties().items():
            text = self._text(element)
            if name in TLS_NAMES:
                values[TLS_NAMES[name]] = self._store_value(TLS_NAMES[name], text)
            elif name in TLS_FLAGS:
                values[TLS_FLAGS[name]] = boolean(text)
            elif name in ("keyManagerPassword", "keyPassword"):
                keyed = self._store_value("password", text)
            elif name == "includeProtocols":
                included = text
            elif name == "excludeProtocols":
                excluded = text
            elif name == "includeCipherSuites":
                values["ciphers"] = text
            elif name in TLS_NO_EFFECT:
                self.doubts.note(element, f"{name} has no effect here: {TLS_NO_EFFECT[name]}")
            elif name in TLS_OTHERWISE:
                self.doubts.warn(element, f"{name} is not done here: {TLS_OTHERWISE[name]}")
            elif name not in ("host", "port", *PLACE_NO_EFFECT):
                raise InvalidOption(f"{bean.short} has no property {name!r} here", remedy="take it out")
        if keyed and values.setdefault("password", keyed) != keyed:
            raise InvalidOption("the key and its store have different passwords", remedy="give both the same")
        return ConsoleTls(**values, protocols=versions(included, excluded))

    def _store_value(self, name: str, text: str) -> str:
        """Return the file or the password of a store."""
        if name not in ("certificate", "trust"):
            password = revealed(text)
            self.sources.findings.hide(text)
            self.sources.findings.hide(password)
            return password
        path = self.sources.local(text)
        if path is None:
            raise InvalidOption(f"{text!r} is not a file of this machine", remedy="use file: and a path")
        return str(path)

    def _text(self, element: Element) -> str:
        """Return a value, filled in; of a list all its values with commas between. Raises InvalidConfiguration."""
        return ",".join(self.sources.fill(_SYSTEM.sub(self._system, text)) for text in texts(element))

    def _system(self, found: re.Match[str]) -> str:
        """Return what the bean for it makes of a property of Java's: what the command line says goes before."""
        name = found[1]
        given = self.sources.defines.get(f"jetty.{name}")
        if given is not None or self.port is None:
            return given or ""
        said = self.port.properties().get(name)
        return (EVERYWHERE if name == "host" else PORT) if said is None else ",".join(texts(said))
