"""Names that do not say which distribution they come from: imports, fixtures and markers."""

from __future__ import annotations


def _table(text: str) -> dict[str, str]:
    """`name:distribution` pairs; a plus sign joins several distributions."""
    pairs = (word.split(":", 1) for word in text.split())
    return {name: distribution.replace("+", " ") for name, distribution in pairs}


DISTRIBUTIONS = _table(
    """
    yaml:pyyaml attr:attrs dateutil:python-dateutil PIL:pillow cv2:opencv-python
    sklearn:scikit-learn bs4:beautifulsoup4 jwt:pyjwt zmq:pyzmq git:gitpython dotenv:python-dotenv
    google.protobuf:protobuf Crypto:pycryptodome OpenSSL:pyopenssl serial:pyserial
    websocket:websocket-client socks:pysocks psycopg2:psycopg2-binary MySQLdb:mysqlclient
    redis_lock:python-redis-lock pkg_resources:setuptools<81 nacl:pynacl magic:python-magic
    docx:python-docx grpc:grpcio slugify:python-slugify multipart:python-multipart jose:python-jose
    usb:pyusb ruamel:ruamel.yaml fakeredis:fakeredis _pytest:pytest pytest_asyncio:pytest-asyncio
    mock:mock distutils:setuptools Cython:cython socketio:python-socketio engineio:python-engineio
    opentelemetry:opentelemetry-api typing_extensions:typing-extensions snappy:python-snappy lz4:lz4
    zstandard:zstandard OpenGL:pyopengl ldap3:ldap3 flask_cors:flask-cors
    """
)
"""Import names whose distribution is called otherwise."""
FIXTURES = _table(
    """
    mocker:pytest-mock httpx_mock:pytest-httpx aiohttp_client:pytest-aiohttp
    aiohttp_server:pytest-aiohttp httpserver:pytest-httpserver httpbin:pytest-httpbin
    benchmark:pytest-benchmark freezer:pytest-freezer snapshot:syrupy nursery:pytest-trio
    autojump_clock:pytest-trio requests_mock:requests-mock subtests:pytest-subtests respx_mock:respx
    faker:faker datadir:pytest-datadir unused_tcp_port:pytest-asyncio
    """
)
"""Fixtures that a plugin provides."""
MARKERS = _table(
    """
    asyncio:pytest-asyncio trio:pytest-trio anyio:anyio timeout:pytest-timeout
    django_db:django+pytest-django flaky:flaky repeat:pytest-repeat xdist_group:pytest-xdist
    freeze_time:pytest-freezer respx:respx vcr:pytest-recording gen_test:tornado
    """
)
"""Markers that mean something only with a plugin."""
