"""Products opened by programs that have not made them: poppler, qpdf, LibreOffice, pandoc, Chromium."""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import Page, Route, async_playwright

from benchmarks.acceptance.model import StepFailed, expect

_SECONDS = 180


def run_program(*command: str, folder: Path | None = None) -> str:
    """What a program of this machine says about a product.

    Raises:
        StepFailed: it is not installed, or it refuses the product.
    """
    if shutil.which(command[0]) is None:
        raise StepFailed(f"{command[0]}, which opens the product, is not on this machine")
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False, cwd=folder)
    expect(done.returncode == 0, f"{command[0]}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def pdf_text(path: Path) -> str:
    """The text of a PDF, which has to keep the rules of the format."""
    run_program("qpdf", "--check", str(path))
    return run_program("pdftotext", "-layout", str(path), "-")


def pdf_pages(path: Path) -> int:
    """How many pages a PDF has."""
    return int(run_program("qpdf", "--show-npages", str(path)))


def office_text(path: Path, form: str = "pdf") -> str:
    """The text of an office document after LibreOffice has converted it: to a PDF, or a sheet to `csv`."""
    with tempfile.TemporaryDirectory(prefix="skillyard-acceptance-") as folder:
        profile = f"-env:UserInstallation=file://{folder}/profile"
        run_program("soffice", profile, "--headless", "--convert-to", form, "--outdir", folder, str(path))
        made = Path(folder, f"{path.stem}.{form}")
        expect(made.is_file(), f"LibreOffice cannot open {path.name}")
        return pdf_text(made) if form == "pdf" else made.read_text("utf-8")


@dataclass(frozen=True)
class Seen:
    """A page as Chromium shows it: what `script` gives, and what went wrong on it."""

    value: object
    errors: tuple[str, ...]


async def see_page(path: Path, script: str, *, library: Path | None = None) -> Seen:
    """Open an HTML file, wait until it is quiet, and evaluate `script` on it; what it loads from elsewhere is `library`."""
    errors: list[str] = []

    async def answer(route: Route) -> None:
        url = route.request.url
        if url == _ADDRESS:
            await route.fulfill(path=path, content_type="text/html; charset=utf-8")
        elif library is not None and url.endswith(".js"):
            await route.fulfill(path=library, content_type="text/javascript")
        else:
            await route.abort()

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        try:
            page: Page = await browser.new_page()
            page.on("pageerror", lambda error: errors.append(str(error)))
            await page.route("**/*", answer)
            await page.goto(_ADDRESS, wait_until="load")
            value = await page.evaluate(script)
        finally:
            await browser.close()
    return Seen(value, tuple(errors))


_ADDRESS = "https://acceptance.test/"  # never reached: every request is answered here
_DECODE = """async ([data, type]) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const decoder = new ImageDecoder({data: bytes, type});
  await decoder.tracks.ready;
  await decoder.completed;
  const {image} = await decoder.decode();
  return [image.displayWidth, image.displayHeight, decoder.tracks.selectedTrack.frameCount];
}"""


async def see_picture(path: Path) -> tuple[int, int, int]:
    """The width and height of a picture in pixels, and how many frames it has, as Chromium decodes it."""
    kind = {".jpg": "jpeg"}.get(path.suffix, path.suffix[1:])
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        try:
            page = await browser.new_page()
            await page.route("**/*", lambda route: route.fulfill(body="<p>"))
            await page.goto(_ADDRESS)
            data = base64.b64encode(path.read_bytes()).decode()
            width, height, frames = await page.evaluate(_DECODE, [data, f"image/{kind}"])
        finally:
            await browser.close()
    return width, height, frames
