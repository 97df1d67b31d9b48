"""Beans of Spring: class, properties, and what they hold or refer to."""

from __future__ import annotations

from entrepot.config.classic.beans import SpringBean, references, text_of, texts
from entrepot.config.xml import Element, parse


def named(text: str) -> dict[str, Element]:
    root = parse(f"<beans>{text}</beans>".encode(), "f.xml")
    return {text_of(one, "id"): one for one in root.walk() if one.name == "bean"}


def test_a_bean_has_the_name_of_its_class_and_properties() -> None:
    found = named('<bean id="a" class="x.y.Server$Own"><property name="p" value=" 1 "/><property name="q"/></bean>')
    bean = SpringBean(found["a"], found)
    assert (bean.short, bean.id, list(bean.properties())) == ("Server$Own", "a", ["p", "q"])
    assert texts(bean.properties()["p"]) == ["1"]


def test_what_is_below_is_what_it_holds_and_what_it_refers_to_each_once() -> None:
    found = named("""
      <bean id="a"><property name="p" ref="b"/><property name="q"><list><ref bean="b"/><bean id="c"/></list></property>
        <constructor-arg ref="none"/></bean>
      <bean id="b"><property name="back"><ref local="a"/></property><property name="more" ref="d"/></bean>
      <bean id="d"/><bean id="e"/>""")
    assert sorted(one.id for one in SpringBean(found["a"], found).below()) == ["b", "c", "d"]


def test_values_stand_in_an_attribute_or_in_a_list() -> None:
    (element,) = parse(b'<b><p value="x"><list><value> y </value><value>z</value></list></p></b>', "f.xml").children
    assert texts(element) == ["x", "y", "z"]
    assert references(element) == []
