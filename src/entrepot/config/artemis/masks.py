"""Passwords that Artemis' default codec hides: ``ENC(...)``, or bare ones where ``mask-password`` is true.

The codec is Blowfish in ECB, the octets written as one signed number in hexadecimal digits. Its key is the ``key`` of
``password-codec``, else that of the environment or of ``-D artemis.default.sensitive.string.codec.key``, else one that
everybody knows. It hides a password from a glance; with the common key, from nobody else. What `artemis mask` prints
is read; another codec is a Java class, which cannot be loaded.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import InvalidConfiguration
from entrepot.base.values import boolean_or
from entrepot.config.findings import Severity
from entrepot.config.sources import ENCRYPTED, Decrypt, Sources
from entrepot.config.xml import Element

CODEC: Final = "org.apache.activemq.artemis.utils.DefaultSensitiveStringCodec"
COMMON_KEY: Final = "clusterpassword"
KEY_PROPERTY: Final = "artemis.default.sensitive.string.codec.key"
KEY_VARIABLE: Final = "ARTEMIS_DEFAULT_SENSITIVE_STRING_CODEC_KEY"
BLOCK_OCTETS: Final = 8
KEY_OCTETS: Final = range(4, 57)
SECRETS: Final = ("cluster-password", "password")
"""Scalars that ``mask-password`` is about."""


def unmask(core: Element, sources: Sources) -> None:
    """Let values of ``core`` be read as what they hide. What cannot be is a finding, here or where it is read."""
    try:
        key = key_of(_scalar(core, "password-codec", sources), sources)
    except InvalidConfiguration as error:
        element = next(iter(core.named("password-codec")), core)
        sources.findings.add(Severity.ERROR, sources.file, element.line, element.path, error.message, error.remedy)
        return
    sources.decrypt = _late(key)
    if boolean_or(_scalar(core, "mask-password", sources), False):
        for element in core.walk():
            _wrap(element)


def key_of(codec: str, sources: Sources) -> str:
    """Return the key by which ``codec`` masks: a class with options, "" for the usual one.

    Raises InvalidConfiguration.
    """
    name, _, rest = codec.partition(";")
    options = dict(part.partition("=")[::2] for part in rest.split(";") if part)
    if name and name.strip() != CODEC:
        raise InvalidConfiguration(
            f"the codec of passwords {name!r} is a Java class, which cannot be loaded here",
            remedy=f"mask them with {CODEC}, or give them by variables of the environment",
        )
    given = sources.defines.get(KEY_PROPERTY) or sources.environment.get(KEY_VARIABLE)
    return options.get("key") or given or COMMON_KEY


def decrypting(codec: str, sources: Sources) -> Decrypt:
    """Return what reads masked values by ``codec``; what is wrong with it is said with the first value."""

    def decrypt(text: str) -> str:
        return decoder(key_of(codec, sources))(text)

    return decrypt


def _scalar(core: Element, name: str, sources: Sources) -> str:
    for child in core.named(name):
        return _filled(child.text, sources)
    given = core.attributes.get(name)
    return "" if given is None else _filled(given.text, sources)


def _filled(text: str, sources: Sources) -> str:
    try:
        return sources.fill(text.strip())
    except InvalidConfiguration:  # the reader of the rest says so
        return ""


def _wrap(element: Element) -> None:
    """Mark the passwords of ``element`` as masked ones."""
    if element.name in SECRETS and element.text.strip():
        element.text = _masked(element.text.strip())
    for name, attribute in element.attributes.items():
        if name in SECRETS and attribute.text:
            attribute.text = _masked(attribute.text)


def _masked(text: str) -> str:
    return text if ENCRYPTED.fullmatch(text) else f"ENC({text})"


def _late(key: str) -> Decrypt:
    """Return what decrypts with ``key``; the package for it is looked for with the first value."""

    def decrypt(text: str) -> str:
        return decoder(key)(text)

    return decrypt


def decoder(key: str) -> Decrypt:
    """Return what decodes by ``key``. Raises InvalidConfiguration where the package for it is not installed."""
    try:
        from cryptography.hazmat.decrepit.ciphers.algorithms import Blowfish  # noqa: PLC0415 - optional
        from cryptography.hazmat.primitives.ciphers import Cipher  # noqa: PLC0415
        from cryptography.hazmat.primitives.ciphers.modes import ECB  # noqa: PLC0415
    except ImportError:
        raise InvalidConfiguration(
            "unmasking passwords takes the Python package 'cryptography', which is not installed",
            remedy="pip install 'entrepot[pkcs12]', or give them by variables of the environment",
        ) from None
    octets = key.encode()
    if len(octets) not in KEY_OCTETS:
        raise InvalidConfiguration(f"the key of masked passwords has {len(octets)} octets", remedy="use 4 to 56")

    def decode(text: str) -> str:
        hidden = _octets(text.strip())
        machine = Cipher(Blowfish(octets), ECB()).decryptor()
        padded = machine.update(hidden) + machine.finalize()
        count = padded[-1]
        if not 1 <= count <= BLOCK_OCTETS or padded[-count:] != bytes([count]) * count:
            raise ValueError("it was masked with another key, or is no masked password")
        return padded[:-count].decode("utf-8", "replace")

    return decode


def _octets(text: str) -> bytes:
    """Return the octets of a signed number in hexadecimal digits, in whole blocks. Raises ValueError."""
    try:
        number = int(text, 16)
    except ValueError:
        raise ValueError("it is no number in hexadecimal digits") from None
    blocks = max((number if number >= 0 else ~number).bit_length() // 8 // BLOCK_OCTETS + 1, 1)
    return number.to_bytes(blocks * BLOCK_OCTETS, "big", signed=True)
