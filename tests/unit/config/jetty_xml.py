"""A directory with ``activemq.xml`` and the ``jetty.xml`` that it imports, made of parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from entrepot.config.classic import Reading
from entrepot.config.classic import read as read_file
from entrepot.config.console import ConsoleSettings

from .broker_xml import MEMORY, broker, said

HASHED: Final = """<bean id="service" class="org.eclipse.jetty.security.HashLoginService">
    <property name="name" value="ActiveMQRealm"/>
    <property name="config" value="${activemq.conf}/jetty-realm.properties"/></bean>"""
JAAS: Final = """<bean id="service" class="org.eclipse.jetty.jaas.JAASLoginService">
    <property name="name" value="ActiveMQRealm"/><property name="loginModuleName" value="activemq"/>
    <property name="roleClassNames"><list><value>org.apache.activemq.jaas.GroupPrincipal</value></list></property>
    </bean>"""
PORT: Final = """<bean id="jettyPort" class="org.apache.activemq.web.WebConsolePort" init-method="start">
    <property name="host" value="127.0.0.1"/><property name="port" value="8161"/></bean>"""
PLAIN: Final = """<bean id="Connector" class="org.eclipse.jetty.server.ServerConnector"><constructor-arg ref="Server"/>
    <property name="host" value="#{systemProperties['jetty.host']}"/>
    <property name="port" value="#{systemProperties['jetty.port']}"/></bean>"""
REALM: Final = "admin: admin, admin\nuser: user, user\n"


def secure(inside: str = "", more: str = '<property name="port" value="8162"/>', factory: str = "$Server") -> str:
    """Return a connector that speaks TLS. ``inside``: properties of what makes it."""
    return f"""<bean id="SecureConnector" class="org.eclipse.jetty.server.ServerConnector">
      <constructor-arg ref="Server"/>
      <constructor-arg><bean class="org.eclipse.jetty.util.ssl.SslContextFactory{factory}">
        <property name="keyStorePath" value="${{activemq.conf}}/broker.ks"/>
        <property name="keyStorePassword" value="OBF:1v2j1uum1xtv1zej1zer1xtn1uvk1v1v"/>{inside}</bean>
      </constructor-arg>{more}</bean>"""


def constraint(name: str, roles: str, paths: str, *, asks: str = "true", more: str = "") -> str:
    """Return a constraint and its mapping."""
    return f"""<bean id="{name}" class="org.eclipse.jetty.util.security.Constraint">
        <property name="name" value="BASIC"/><property name="roles" value="{roles}"/>
        <property name="authenticate" value="{asks}"/>{more}</bean>
      <bean id="{name}Mapping" class="org.eclipse.jetty.security.ConstraintMapping">
        <property name="constraint" ref="{name}"/><property name="pathSpec" value="{paths}"/></bean>"""


GUARDED: Final = constraint("securityConstraint", "user,admin", "/,/api/*,*.jsp") + constraint(
    "adminSecurityConstraint", "admin", "*.action"
)


def jetty(
    *, connectors: str = PLAIN, service: str = HASHED, guarded: str = GUARDED, port: str = PORT, more: str = ""
) -> str:
    """Return a ``jetty.xml`` as ActiveMQ's is made, with other parts where a test gives some."""
    return f"""<beans xmlns="http://www.springframework.org/schema/beans">
      <bean id="httpConfig" class="org.eclipse.jetty.server.HttpConfiguration">
        <property name="sendServerVersion" value="false"/></bean>
      {service}{guarded}
      <bean id="pages" class="org.eclipse.jetty.server.handler.HandlerCollection"><property name="handlers"><list>
        <bean class="org.eclipse.jetty.webapp.WebAppContext"><property name="contextPath" value="/admin"/>
          <property name="resourceBase" value="${{activemq.home}}/webapps/admin"/></bean>
        <bean class="org.eclipse.jetty.server.handler.ResourceHandler">
          <property name="welcomeFiles"><list><value>index.html</value></list></property></bean>
      </list></property></bean>
      <bean id="securityHandler" class="org.eclipse.jetty.security.ConstraintSecurityHandler">
        <property name="authenticator">
          <bean class="org.eclipse.jetty.security.authentication.BasicAuthenticator"/></property>
        <property name="handler" ref="pages"/></bean>
      {port}
      <bean id="Server" depends-on="jettyPort" class="org.eclipse.jetty.server.Server" destroy-method="stop"/>
      <bean id="invokeConnectors" class="org.springframework.beans.factory.config.MethodInvokingFactoryBean">
        <property name="targetObject" ref="Server"/><property name="targetMethod" value="setConnectors"/>
        <property name="arguments"><list>{connectors}</list></property></bean>
      {more}</beans>"""


class Conf:
    """The directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "conf"
        self.folder.mkdir()
        self.write("jetty-realm.properties", REALM)

    def write(self, name: str, text: str) -> Path:
        """Write one file of it."""
        path = self.folder / name
        path.write_text(text)
        return path

    def read(self, body: str = "", *, around: str = '<import resource="jetty.xml"/>', **given: Any) -> Reading:
        """Read the broker's file, with ``body`` in the broker. ``given`` fills placeholders."""
        path = self.write("activemq.xml", broker(MEMORY + body, around=around))
        return read_file(path, spoken=("openwire", "stomp"), **given)

    def console(self, text: str, **given: Any) -> tuple[ConsoleSettings | None, list[str]]:
        """Return the console of a ``jetty.xml``, and all that is said of that file."""
        self.write("jetty.xml", text)
        reading = self.reading = self.read(**given)
        assert reading.config is not None, said(reading)
        file = str(self.folder / "jetty.xml")
        return reading.config.console, [one.what for one in reading.findings if one.file == file]
