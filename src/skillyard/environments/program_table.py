"""Programs and packages by name, as data: what each program needs beside its binary, which distribution has a module.

Of a program `folders` are what it reads outside `/usr`; `variables` what it must be given; `needs` the least limits it works
with (MiB, processes, milliseconds); `debian` the package that has it there. A program that is not listed can be granted too; it
needs nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from skillyard.plain_json import read_json
from skillyard.sandbox import on_trusted_path

_BUILDS: Final = "playwright"  # the folder of browser builds among the commands that are made for a process
_FONTS: Final = ("/etc/fonts", "/usr/share/fonts", "/usr/local/share/fonts", "/var/cache/fontconfig")
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_NO_NEEDS: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NativeProgram:
    """One program: the Debian package that has it, other names of its binary, and what it needs to work.

    `options` it is always given; with `local_sockets` its processes talk to each other through sockets. In the values of
    `variables` `{commands}` is the folder of the commands that are made for a process, among them one of this program.
    """

    debian: str
    binaries: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=lambda: _NONE, hash=False)
    options: tuple[str, ...] = ()
    needs: Mapping[str, int] = field(default_factory=lambda: _NO_NEEDS, hash=False)
    local_sockets: bool = False


_OFFICE: Final = NativeProgram(
    "libreoffice",
    ("soffice", "libreoffice"),
    ("/etc/libreoffice", "/var/lib/libreoffice", "/opt/libreoffice", *_FONTS),
    {"SAL_USE_VCLPLUGIN": "svp", "SAL_DISABLE_SYNCHRONOUS_PRINTER_DETECTION": "1"},
    (),
    {"memory_mb": 1536, "pids": 128, "timeout_ms": 120_000, "tmp_mb": 512, "file_size_mb": 256, "nofile": 1024},
    local_sockets=True,
)
_IMAGES: Final = NativeProgram(
    "imagemagick",
    (),
    ("/etc/ImageMagick-6", "/etc/ImageMagick-7", "/var/lib/ghostscript", *_FONTS),
    {"MAGICK_THREAD_LIMIT": "2"},
    (),
    {"memory_mb": 1024, "timeout_ms": 60_000, "tmp_mb": 512, "file_size_mb": 256},
)
_POPPLER: Final = NativeProgram("poppler-utils", (), _FONTS, needs={"memory_mb": 512, "timeout_ms": 60_000, "tmp_mb": 256})
_VIDEO: Final = NativeProgram(
    "ffmpeg", (), (*_FONTS, "/etc/alsa"), needs={"memory_mb": 1024, "pids": 128, "timeout_ms": 120_000, "tmp_mb": 512}
)
_BROWSER: Final = NativeProgram(
    "chromium",
    ("chromium", "chromium-browser", "google-chrome"),
    ("/etc/chromium", "/etc/chromium.d", "/opt/google/chrome", "/proc/cpuinfo", *_FONTS),
    {
        **dict.fromkeys(("CHROME_BIN", "CHROME_PATH", "PUPPETEER_EXECUTABLE_PATH"), "{commands}/chromium"),
        "PUPPETEER_SKIP_DOWNLOAD": "1",
        "PLAYWRIGHT_BROWSERS_PATH": f"{{commands}}/{_BUILDS}",
        "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1",
    },
    # Its own sandbox needs user namespaces, which nothing inside this one may make; shared memory is small here.
    ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-zygote"),
    {"memory_mb": 2048, "pids": 512, "timeout_ms": 120_000, "tmp_mb": 512, "nofile": 4096},
    local_sockets=True,
)
_GHOSTSCRIPT: Final = NativeProgram(
    "ghostscript", (), ("/etc/ghostscript", "/var/lib/ghostscript", *_FONTS), needs={"memory_mb": 512}
)
_JAVA: Final = {"memory_mb": 1024, "pids": 128}
_MORE_TIME: Final = {"memory_mb": 512, "timeout_ms": 60_000}

PROGRAMS: Final[Mapping[str, NativeProgram]] = MappingProxyType({
    **dict.fromkeys(("soffice", "libreoffice"), _OFFICE),
    **dict.fromkeys(("convert", "magick", "identify", "mogrify", "montage", "composite"), _IMAGES),
    **dict.fromkeys(
        ("pdftotext", "pdftoppm", "pdfimages", "pdfinfo", "pdftocairo", "pdfunite", "pdfseparate", "pdffonts", "pdftohtml"),
        _POPPLER,
    ),
    **dict.fromkeys(("ffmpeg", "ffprobe"), _VIDEO),
    **dict.fromkeys(("chromium", "chromium-browser", "google-chrome"), _BROWSER),
    "qpdf": NativeProgram("qpdf"),
    "pdftk": NativeProgram("pdftk-java", (), ("/etc/java-17-openjdk", "/etc/java-21-openjdk"), needs=_JAVA),
    "pandoc": NativeProgram("pandoc", needs=_MORE_TIME),
    "tesseract": NativeProgram("tesseract-ocr", variables={"OMP_THREAD_LIMIT": "2"}, needs=_MORE_TIME),
    "gs": _GHOSTSCRIPT,
    "git": NativeProgram("git", variables={"GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}),
    "node": NativeProgram("nodejs", needs={"memory_mb": 512, "pids": 128}),
    "npm": NativeProgram("npm", needs={"memory_mb": 768, "pids": 128, "timeout_ms": 120_000, "tmp_mb": 512}),
    "npx": NativeProgram("npm", needs={"memory_mb": 768, "pids": 128, "timeout_ms": 120_000, "tmp_mb": 512}),
    "gcc": NativeProgram("gcc", needs={"memory_mb": 768, "timeout_ms": 60_000}),
    "make": NativeProgram("make"),
    "jq": NativeProgram("jq"),
    "curl": NativeProgram("curl"),
    "wget": NativeProgram("wget", (), ("/etc/wgetrc",)),
    "dot": NativeProgram("graphviz", (), _FONTS),
    "inkscape": NativeProgram("inkscape", (), _FONTS, needs={"memory_mb": 1024, "timeout_ms": 60_000}),
    "rsvg-convert": NativeProgram("librsvg2-bin", (), _FONTS),
    "exiftool": NativeProgram("libimage-exiftool-perl"),
    "sox": NativeProgram("sox"),
    "latex": NativeProgram("texlive-latex-base", (), ("/etc/texmf", "/var/lib/texmf", *_FONTS), needs=_MORE_TIME),
    "pdflatex": NativeProgram("texlive-latex-base", (), ("/etc/texmf", "/var/lib/texmf", *_FONTS), needs=_MORE_TIME),
    "xelatex": NativeProgram("texlive-xetex", (), ("/etc/texmf", "/var/lib/texmf", *_FONTS), needs=_MORE_TIME),
    "unzip": NativeProgram("unzip"),
    "zip": NativeProgram("zip"),
    "7z": NativeProgram("p7zip-full"),
    "sqlite3": NativeProgram("sqlite3"),
    "rg": NativeProgram("ripgrep"),
    "gh": NativeProgram("gh"),
    "docker": NativeProgram("docker.io"),
})  # fmt: skip
"""Programs by the name that scripts call."""

COMMON: Final = frozenset({"curl", "gcc", "git", "make", "node", "npm", "npx", "unzip", "wget", "zip", "docker", "gh"})
"""Programs that every run finds where the machine has them, or that a sandbox cannot use: no proposal names them."""


def find_program(name: str) -> str | None:
    """The path of a program on this machine, under any name that it has; `None` where it is not installed."""
    program = PROGRAMS.get(name)
    for binary in (name, *(program.binaries if program else ())):
        if path := next(on_trusted_path(binary), None):
            return path
    return None


def install_hint(name: str) -> str:
    """How to get a program that is not here."""
    program = PROGRAMS.get(name)
    return f"apt-get install {program.debian}" if program else f"install {name} and make sure that it is on PATH"


_LISTS: Final = ("playwright/driver/package/browsers.json", "playwright-core/browsers.json")
_LARGEST: Final = 256 * 1024  # bytes of such a list; they have about four thousand
_REVISION: Final = re.compile(r"[0-9]{1,9}")
_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "chromium": ("chrome-linux64/chrome", "chrome-linux-arm64/chrome", "chrome-linux/chrome"),
    "chromium-headless-shell": (
        "chrome-headless-shell-linux64/chrome-headless-shell",
        "chrome-headless-shell-linux-arm64/chrome-headless-shell",
        "chrome-linux/headless_shell",
    ),
}
"""By the name of a browser the places of its program in a build: newer versions of Playwright first."""


def browser_builds(packages: tuple[str, ...], script: str) -> dict[str, str]:
    """The commands that a Playwright in these folders of packages takes for its own Chromium: paths, each with `script`.

    Playwright starts no browser by name: it wants the build that its own package names, below `PLAYWRIGHT_BROWSERS_PATH`. So
    each place that a granted version of it would look at holds a small script that starts the Chromium of this machine.
    """
    return {
        f"{_BUILDS}/{name.replace('-', '_')}-{revision}/{place}": script
        for folder in packages
        for name, revision in _revisions(folder)
        for place in _PLACES[name]
    }


def _revisions(folder: str) -> Iterator[tuple[str, str]]:
    """The name and the revision of each Chromium that a Playwright in the folder was made with."""
    for place in _LISTS:
        try:
            with Path(folder, place).open("rb") as file:
                listed = read_json(file.read(_LARGEST).decode())
        except (OSError, ValueError):
            continue
        browsers = listed.get("browsers") if isinstance(listed, dict) else None
        for one in browsers if isinstance(browsers, list) else ():
            name, revision = (one.get("name"), one.get("revision")) if isinstance(one, dict) else (None, None)
            if name in _PLACES and isinstance(revision, str) and _REVISION.fullmatch(revision):
                yield str(name), revision


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
