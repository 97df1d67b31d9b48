"""The elements of ``bootstrap.xml``, and what becomes of each attribute here."""

from __future__ import annotations

from typing import Final

from entrepot.config.vocabulary import Does, Kind, Slot, no_effect, obeyed, otherwise, registry

SPACE: Final = "http://activemq.apache.org/schema"
SPACES: Final = (SPACE, "")

STORES: Final = (
    "keyStorePath:text keyStorePassword:text trustStorePath:text trustStorePassword:text passwordCodec:text "
    "clientAuth:flag includedTLSProtocols:text excludedTLSProtocols:text includedCipherSuites:text"
)
UNDONE: Final = (
    otherwise(
        "OpenSSL offers none that is broken; includedCipherSuites says which are wanted", "excludedCipherSuites:text"
    )
    + otherwise(
        "one certificate is shown, whatever name is asked for", "sniHostCheck:flag=false sniRequired:flag=false"
    )
    + otherwise("a changed key store takes a restart", "sslAutoReload:flag=false")
    + no_effect("the file itself tells", "keyStoreType:text trustStoreType:text")
)

KINDS: Final = registry(
    [
        Kind("server", obeyed("configuration:text"), about="which broker.xml is started"),
        Kind(
            "jaas-security",
            obeyed("domain:text"),
            otherwise("users with certificates are not known in broker.xml", "certificate-domain:text"),
            about="which entry of login.config says who comes in",
        ),
        Kind(
            "web",
            obeyed("bind:text", STORES),
            UNDONE,
            no_effect("the console brings its own pages", "path:text=web webContentEnabled:flag=false"),
            no_effect("/ is the console", "rootRedirectLocation:text=console"),
            no_effect("one thread serves all connections", "maxThreads:number minThreads:number"),
            no_effect("one thread serves all connections", "idleThreadTimeout:number"),
            no_effect("stores are read when the console starts", "scanPeriod:number"),
            no_effect("the console has limits of its own", "maxRequestHeaderSize:number maxResponseHeaderSize:number"),
            otherwise("a Java class cannot be loaded here", "customizer:text"),
            Slot("binding", ("binding",), many=True),
            Slot("app", ("app",), many=True),
            Slot(
                "request-log",
                does=Does.NO_EFFECT,
                why="requests are not logged; who changes something is, by entrepot.audit",
            ),
            about="the console, at one place where it has `bind`, or where its bindings say",
        ),
        Kind(
            "binding",
            obeyed("name:text uri:text", STORES),
            UNDONE,
            otherwise("HTTP/1.1 is spoken", "http2:flag=false"),
            Slot("app", ("app",), many=True),
            about="one place of the console",
        ),
        Kind("app", obeyed("name:text url:text war:text"), about="one web application of a place"),
    ]
)
