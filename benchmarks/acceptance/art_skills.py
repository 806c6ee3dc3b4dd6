"""slack-gif-creator, algorithmic-art, canvas-design, theme-factory, brand-guidelines: pictures, sketches, themes."""

from __future__ import annotations

from benchmarks.acceptance.model import ScriptedModel, expect
from benchmarks.acceptance.opening import office_text, pdf_text, see_page, see_picture

_SLACK_BYTES = 128 * 1024  # the most that Slack takes as an emoji
_GIF = """
import sys
sys.path.insert(0, "{skill}")
from core.easing import interpolate
from core.frame_composer import create_gradient_background, draw_star
from core.gif_builder import GIFBuilder
from core.validators import is_slack_ready, validate_gif

builder = GIFBuilder(width=128, height=128, fps=10)
for i in range(12):
    frame = create_gradient_background(128, 128, (20, 30, 80), (90, 60, 140))
    draw_star(frame, (64, int(interpolate(20, 96, i / 11, "bounce_out"))), 22, (255, 210, 60))
    builder.add_frame(frame)
builder.save("star.gif", num_colors=48, optimize_for_emoji=True)
passes, info = validate_gif("star.gif", is_emoji=True, verbose=True)
print("passes", passes, is_slack_ready("star.gif"))
"""


async def slack_gif_creator(model: ScriptedModel) -> str:
    """A star bounces in a GIF for an emoji."""
    await model.load()
    reported = await model.python(_GIF)
    expect("passes True True" in reported, f"the skill's validator says {reported[-400:]!r}")
    gif = model.product("star.gif")
    width, height, frames = await see_picture(gif)
    expect((width, height) == (128, 128) and 6 <= frames <= 12, f"Chromium sees {width} × {height} in {frames} frames")
    expect(gif.stat().st_size <= _SLACK_BYTES, f"it has {gif.stat().st_size} bytes")
    return f"{frames} frames of 128 × 128 in {gif.stat().st_size // 1024 + 1} KB, which Slack takes"


_SKETCH = """
let points = [];
function setup() {
  createCanvas(400, 400); randomSeed(params.seed); noiseSeed(params.seed);
  for (let i = 0; i < 400; i++) points.push(createVector(random(width), random(height)));
  background(245, 240, 230); noStroke(); noLoop();
}
function draw() {
  for (let step = 0; step < 60; step++) for (const point of points) {
    const angle = noise(point.x * 0.01, point.y * 0.01) * TWO_PI * 2;
    fill(40, 60 + angle * 12, 120, 40); circle(point.x, point.y, 1.6);
    point.add(cos(angle), sin(angle));
  }
  window.drawn = (window.drawn || 0) + 1;
}
"""
_PHILOSOPHY = "# Quiet Currents\n\nFlow fields, meticulously crafted, in which seeded noise draws what no hand would.\n"
_DRAWN = """async () => {
  for (let i = 0; i < 100 && !window.drawn; i++) await new Promise((done) => setTimeout(done, 50));
  const canvas = document.querySelector("canvas");
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const colours = new Set();
  for (let i = 0; i < pixels.length; i += 4) colours.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
  return [canvas.width >= 400, colours.size > 20];
}"""


async def algorithmic_art(model: ScriptedModel) -> str:
    """A flow field in p5.js with its philosophy; the library, which a browser would load, is the granted package."""
    await model.load()
    template = await model.skill_file("templates/viewer.html")
    expect("p5" in template, "the template is not the one of p5.js")
    await model.write("quiet-currents.md", _PHILOSOPHY)
    await model.write("sketch.js", _SKETCH)
    await model.bash("node --check sketch.js")
    page = (
        '<!doctype html><meta charset="utf-8"><title>Quiet Currents</title>\n'
        '<script src="https://cdnjs.cloudflare.com/ajax/libs/p5.js/1.7.0/p5.min.js"></script>\n'
        f"<script>const params = {{ seed: 12345 }};{_SKETCH}</script>\n"
    )
    await model.write("quiet-currents.html", page)
    await model.bash("cp $NODE_PATH/p5/lib/p5.min.js p5.min.js")
    seen = await see_page(model.product("quiet-currents.html"), _DRAWN, library=model.product("p5.min.js"))
    expect((seen.value, seen.errors) == ([True, True], ()), f"Chromium shows {seen}")
    return "the sketch draws in Chromium, in more than 20 colours"


_CANVAS = """
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.colors import HexColor
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen import canvas

fonts = "{skill}/canvas-fonts"
picture = Image.new("RGB", (900, 1200), "#f4efe6")
draw = ImageDraw.Draw(picture)
for ring in range(40, 400, 18):
    draw.ellipse([450 - ring, 520 - ring, 450 + ring, 520 + ring], outline="#1d3557", width=2)
draw.text((450, 1080), "orbit", fill="#e63946", font=ImageFont.truetype(f"{fonts}/BigShoulders-Bold.ttf", 64), anchor="mm")
picture.save("orbit.png")
pdfmetrics.registerFont(TTFont("Big", f"{fonts}/BigShoulders-Bold.ttf"))
page = canvas.Canvas("orbit.pdf", pagesize=(600, 800))
page.setStrokeColor(HexColor("#1d3557"))
for ring in range(30, 270, 12):
    page.circle(300, 450, ring)
page.setFont("Big", 40)
page.drawCentredString(300, 90, "orbit")
page.save()
"""


async def canvas_design(model: ScriptedModel) -> str:
    """A poster as picture and PDF with a font of the skill, and its philosophy."""
    await model.load()
    await model.write(
        "concentric-silence.md", "# Concentric Silence\n\nCircles, meticulously placed, around what is not said.\n"
    )
    await model.python(_CANVAS)
    expect(await model.look("orbit.png") == 1 and await model.look("orbit.pdf") == 1, "the poster is no picture for the model")
    width, height, _ = await see_picture(model.product("orbit.png"))
    expect((width, height) == (900, 1200), f"the picture is {width} × {height}")
    expect("orbit" in pdf_text(model.product("orbit.pdf")), "poppler does not read the word of the poster")
    return "picture of 900 × 1200 opens in Chromium; PDF with the skill's font in poppler"


async def theme_factory(model: ScriptedModel) -> str:
    """The showcase is shown, a theme is read and applied to a page."""
    await model.load()
    expect(await model.look(f"{model.skill_folder}/theme-showcase.pdf") >= 1, "the showcase is no picture for the model")
    theme = await model.skill_file("themes/ocean-depths.md")
    expect("#1a2332" in theme, "the theme has not the colour that its text names")
    await model.write(
        "report.html",
        "<!doctype html><title>Report</title><style>body{background:#1a2332;color:#f1faee;font-family:'DejaVu Sans'}"
        "h1{color:#a8dadc}</style><h1>Quarter</h1><p>Up by 4 %</p>",
    )
    seen = await see_page(
        model.product("report.html"),
        "() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('h1')).color]",
    )
    expect(seen.value == ["rgb(26, 35, 50)", "rgb(168, 218, 220)"], f"Chromium shows {seen.value}")
    return "showcase shown as pictures; the page has the theme's colours in Chromium"


_BRAND = """
from pptx import Presentation
from pptx.dml.color import RGBColor
from pptx.util import Inches, Pt

deck = Presentation()
slide = deck.slides.add_slide(deck.slide_layouts[5])
slide.background.fill.solid()
slide.background.fill.fore_color.rgb = RGBColor(0xFA, 0xF9, 0xF5)
title = slide.shapes.title
title.text = "Plan of the year"
run = title.text_frame.paragraphs[0].runs[0]
run.font.name, run.font.size, run.font.color.rgb = "Poppins", Pt(40), RGBColor(0x14, 0x14, 0x13)
for number, colour in enumerate(("D97757", "6A9BCC", "788C5D")):
    shape = slide.shapes.add_shape(1, Inches(1 + number * 2.8), Inches(3), Inches(2.4), Inches(1.5))
    shape.fill.solid()
    shape.fill.fore_color.rgb = RGBColor.from_string(colour)
deck.save("plan.pptx")
"""


async def brand_guidelines(model: ScriptedModel) -> str:
    """A slide in the brand's colours and fonts."""
    text = await model.load()
    expect("#d97757" in text, "the text has not the colour of the brand")
    await model.python(_BRAND)
    expect("Plan of the year" in office_text(model.product("plan.pptx")), "LibreOffice does not show the title")
    return "the slide opens in LibreOffice"
