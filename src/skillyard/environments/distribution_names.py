"""Facts about names: the distribution of an imported module, the modules node has itself, the programs that packages call."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Final

DISTRIBUTIONS: Final[Mapping[str, str]] = {
    "Bio": "biopython", "Crypto": "pycryptodome", "Cryptodome": "pycryptodomex", "Levenshtein": "levenshtein",
    "MySQLdb": "mysqlclient", "OpenSSL": "pyopenssl", "PIL": "pillow", "PyPDF2": "PyPDF2", "PyQt5": "PyQt5",
    "PyQt6": "PyQt6", "Xlib": "python-xlib", "absl": "absl-py", "attr": "attrs", "barcode": "python-barcode",
    "bidi": "python-bidi", "bs4": "beautifulsoup4", "cairo": "pycairo", "camelot": "camelot-py",
    "community": "python-louvain", "cv2": "opencv-python-headless", "dateutil": "python-dateutil",
    "decouple": "python-decouple", "discord": "discord.py", "dns": "dnspython", "docx": "python-docx",
    "docx2pdf": "docx2pdf", "dotenv": "python-dotenv", "editdistance": "editdistance", "elftools": "pyelftools",
    "engineio": "python-engineio", "exif": "exif", "faiss": "faiss-cpu", "fitz": "pymupdf", "flask_cors": "flask-cors",
    "fontTools": "fonttools", "git": "GitPython", "github": "PyGithub", "gitlab": "python-gitlab", "grpc": "grpcio",
    "googleapiclient": "google-api-python-client", "igraph": "python-igraph", "imagehash": "ImageHash",
    "jose": "python-jose", "jwt": "PyJWT", "kafka": "kafka-python", "ldap3": "ldap3", "lxml": "lxml",
    "magic": "python-magic", "markdown": "Markdown", "mpl_toolkits": "matplotlib", "msoffcrypto": "msoffcrypto-tool",
    "nacl": "PyNaCl", "odf": "odfpy", "pkg_resources": "setuptools", "pptx": "python-pptx",
    "psycopg2": "psycopg2-binary", "pylab": "matplotlib", "pymupdf": "pymupdf", "pythoncom": "pywin32",
    "pytesseract": "pytesseract", "pywt": "PyWavelets", "qrcode": "qrcode", "rest_framework": "djangorestframework",
    "ruamel": "ruamel.yaml", "sentence_transformers": "sentence-transformers", "serial": "pyserial",
    "skimage": "scikit-image", "sklearn": "scikit-learn", "slack_sdk": "slack-sdk", "slugify": "python-slugify",
    "socketio": "python-socketio", "socks": "PySocks", "speech_recognition": "SpeechRecognition",
    "telegram": "python-telegram-bot", "tinycss2": "tinycss2", "tlz": "toolz", "umap": "umap-learn", "usb": "pyusb",
    "vobject": "vobject", "websocket": "websocket-client", "werkzeug": "Werkzeug", "wx": "wxPython",
    "xlsxwriter": "XlsxWriter", "yaml": "PyYAML", "youtube_transcript_api": "youtube-transcript-api", "zmq": "pyzmq",
}  # fmt: skip
"""Modules whose distribution has another name."""
EXTRAS: Final[Mapping[str, str]] = {"google.generativeai": "google-generativeai", "google.genai": "google-genai"}
"""Modules of a namespace that several distributions share."""
UNINSTALLABLE: Final = frozenset({
    "_typeshed", "bpy", "google", "gi", "idaapi", "maya", "pythoncom", "skillyard_sdk", "uno", "unohelper", "win32api",
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
