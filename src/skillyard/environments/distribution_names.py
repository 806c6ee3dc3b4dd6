"""Facts about names: the distribution of an imported module, the modules node has itself, the programs that packages call."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Final

DISTRIBUTIONS: Final[Mapping[str, str]] = {
    "Bio": "biopython", "Crypto": "pycryptodome", "Cryptodome": "pycryptodomex", "Image": "pillow",
    "Levenshtein": "levenshtein", "MySQLdb": "mysqlclient", "OpenGL": "PyOpenGL", "OpenSSL": "pyopenssl", "PIL": "pillow",
    "Xlib": "python-xlib", "absl": "absl-py", "airflow": "apache-airflow", "allel": "scikit-allel",
    "ansible": "ansible-core", "attr": "attrs", "barcode": "python-barcode", "bidi": "python-bidi", "bs4": "beautifulsoup4",
    "bson": "pymongo", "cairo": "pycairo", "camelot": "camelot-py", "community": "python-louvain",
    "consolemenu": "console-menu", "consul": "python-consul", "crontab": "python-crontab", "cv2": "opencv-python-headless",
    "daemon": "python-daemon", "dateutil": "python-dateutil", "dbt": "dbt-core", "dbus": "dbus-python",
    "decouple": "python-decouple", "discord": "discord.py", "dns": "dnspython", "docx": "python-docx",
    "dotenv": "python-dotenv", "elftools": "pyelftools", "engineio": "python-engineio", "faiss": "faiss-cpu",
    "ffmpeg": "ffmpeg-python", "fitz": "pymupdf", "fontTools": "fonttools", "fpdf": "fpdf2", "git": "GitPython",
    "github": "PyGithub", "gitlab": "python-gitlab", "googleapiclient": "google-api-python-client", "gridfs": "pymongo",
    "grpc": "grpcio", "hcl2": "python-hcl2", "hydra": "hydra-core", "igraph": "python-igraph", "imagehash": "ImageHash",
    "jenkins": "python-jenkins", "jks": "pyjks", "jose": "python-jose", "jwt": "PyJWT", "kafka": "kafka-python",
    "keystoneclient": "python-keystoneclient", "magic": "python-magic", "markdown": "Markdown",
    "markdown_it": "markdown-it-py", "memcache": "python-memcached", "mpl_toolkits": "matplotlib",
    "msoffcrypto": "msoffcrypto-tool", "multipart": "python-multipart", "mysql": "mysql-connector-python", "nacl": "PyNaCl",
    "nats": "nats-py", "nmap": "python-nmap", "novaclient": "python-novaclient", "odf": "odfpy", "openid": "python3-openid",
    "opentelemetry": "opentelemetry-api", "osgeo": "GDAL", "pam": "python-pam", "patoolib": "patool", "pcap": "pypcap",
    "pkg_resources": "setuptools", "pptx": "python-pptx", "psycopg2": "psycopg2-binary", "pwn": "pwntools",
    "pyflink": "apache-flink", "pylab": "matplotlib", "pythoncom": "pywin32", "pywt": "PyWavelets",
    "readability": "readability-lxml", "rest_framework": "djangorestframework", "ruamel": "ruamel.yaml", "saml2": "pysaml2",
    "serial": "pyserial", "shapefile": "pyshp", "skbio": "scikit-bio", "skimage": "scikit-image", "sklearn": "scikit-learn",
    "skopt": "scikit-optimize", "sksurv": "scikit-survival", "slugify": "python-slugify", "snappy": "python-snappy",
    "snowflake": "snowflake-connector-python", "socketio": "python-socketio", "socks": "PySocks",
    "speech_recognition": "SpeechRecognition", "ssh2": "ssh2-python", "superset": "apache-superset",
    "swiftclient": "python-swiftclient", "tabula": "tabula-py", "talib": "TA-Lib", "telegram": "python-telegram-bot",
    "tlslite": "tlslite-ng", "tlz": "toolz", "twitter": "python-twitter", "umap": "umap-learn", "usb": "pyusb",
    "usb1": "libusb1", "vertexai": "google-cloud-aiplatform", "vlc": "python-vlc", "weaviate": "weaviate-client",
    "websocket": "websocket-client", "werkzeug": "Werkzeug", "whisper": "openai-whisper", "wikipediaapi": "Wikipedia-API",
    "wx": "wxPython", "xlsxwriter": "XlsxWriter", "yaml": "PyYAML", "yaml_include": "pyyaml-include", "z3": "z3-solver",
    "zmq": "pyzmq",
}  # fmt: skip
"""Modules whose distribution has another name."""
EXTRAS: Final[Mapping[str, str]] = {
    "azure.identity": "azure-identity", "azure.storage.blob": "azure-storage-blob", "google.api_core": "google-api-core",
    "google.auth": "google-auth", "google.cloud.bigquery": "google-cloud-bigquery",
    "google.cloud.storage": "google-cloud-storage", "google.generativeai": "google-generativeai",
    "google.genai": "google-genai", "google.oauth2": "google-auth", "google.protobuf": "protobuf",
}  # fmt: skip
"""Modules of a namespace that several distributions share."""
UNINSTALLABLE: Final = frozenset({
    "_typeshed", "azure", "bpy", "google", "gi", "idaapi", "maya", "pythoncom", "skillyard_sdk", "uno", "unohelper", "win32api",
    "win32com", "winreg",
})  # fmt: skip
"""Modules that no index has: parts of programs, of other systems, and our own."""
PROGRAMS_OF_PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "pdf2image": ("pdftoppm",), "pytesseract": ("tesseract",), "pypandoc": ("pandoc",), "playwright": ("chromium",),
    "ffmpeg-python": ("ffmpeg",), "moviepy": ("ffmpeg",), "pydub": ("ffmpeg",), "GitPython": ("git",), "graphviz": ("dot",),
    "camelot-py": ("gs",), "wand": ("convert",), "ocrmypdf": ("tesseract", "gs"), "puppeteer": ("chromium",),
    "puppeteer-core": ("chromium",), "docx2pdf": ("soffice",), "selenium": ("chromium",),
}  # fmt: skip
"""Programs that packages call."""
NODE_MODULES: Final = frozenset({
    "assert", "async_hooks", "buffer", "child_process", "cluster", "console", "constants", "crypto", "dgram",
    "diagnostics_channel", "dns", "domain", "events", "fs", "http", "http2", "https", "inspector", "module", "net",
    "os", "path", "perf_hooks", "process", "punycode", "querystring", "readline", "repl", "sea", "sqlite", "stream",
    "string_decoder", "sys", "test", "timers", "tls", "trace_events", "tty", "url", "util", "v8", "vm", "wasi",
    "worker_threads", "zlib", "skillyard_sdk",
})  # fmt: skip
_MODULE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,60}")
_NPM_PATH: Final = re.compile(r"((?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*)(?:/.*)?", re.DOTALL)


def distribution_of(module: str) -> str | None:
    """The distribution to install for an imported module (`yaml` or `google.genai`); `None` when there is none to install."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or not _MODULE.fullmatch(top):
        return None
    if shared := next((name for prefix, name in EXTRAS.items() if f"{module}.".startswith(f"{prefix}.")), None):
        return shared
    if top in UNINSTALLABLE:
        return None
    return DISTRIBUTIONS.get(top, top.replace("_", "-") if not top.startswith("_") else None)


def npm_package_of(specifier: str) -> str | None:
    """The npm package of an import specifier (`docx/build`, `@scope/a/b`); `None` for node's own modules and for files."""
    if specifier.startswith((".", "/", "#", "node:", "bun:", "data:", "http:", "https:", "file:")):
        return None
    match = _NPM_PATH.fullmatch(specifier)
    if not match or len(match[1]) > 200 or match[1] in NODE_MODULES or match[1].startswith("@/"):
        return None
    return match[1]
