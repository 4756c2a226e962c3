"""TLS of the gateway's address: a certificate and its key, read once at the start."""

import ssl
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """What TLS is served with: TLS 1.2 and above, HTTP/1.1 only, no certificate asked of clients.

    `certificate` holds the server's certificate and those between it and a root, `key` its private key without a
    password, both in PEM; they may be one file. Raises ValueError with a sentence that does not quote the files.
    """
    certificate_pem, key_pem = _read(certificate), _read(key)
    try:
        x509.load_pem_x509_certificates(certificate_pem)
    except ValueError:
        raise ValueError(f"there is no certificate in PEM in {certificate}") from None
    try:
        load_pem_private_key(key_pem, password=None)
    except TypeError:
        raise ValueError(f"the key in {key} has a password; one without is expected") from None
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError(f"there is no private key in PEM in {key}") from None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        fault = "is not that of the certificate" if error.reason == "KEY_VALUES_MISMATCH" else "cannot be served with"
        raise ValueError(f"the key in {key} {fault}") from None
    return context


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
