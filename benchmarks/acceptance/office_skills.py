"""pdf, docx, xlsx and pptx: forms filled, changes tracked, formulas recalculated, slides rendered."""

from __future__ import annotations

import json
import re
import zipfile

from benchmarks.acceptance.model import ScriptedModel, expect
from benchmarks.acceptance.opening import office_text, pdf_pages, pdf_text, see_picture

_FORM = """
from reportlab.lib import colors
from reportlab.lib.pagesizes import letter
from reportlab.pdfgen import canvas
from reportlab.platypus import SimpleDocTemplate, Table, TableStyle

c = canvas.Canvas("form.pdf", pagesize=letter)
c.drawString(72, 720, "Last name")
c.acroForm.textfield(name="last_name", x=150, y=710, width=200, height=20)
c.drawString(72, 680, "Over 18")
c.acroForm.checkbox(name="adult", x=150, y=675, size=16)
c.save()
every = (0, 0), (-1, -1)
grid = TableStyle([("GRID", *every, 1, colors.black), ("FONTSIZE", *every, 24), ("LEADING", *every, 30)])
SimpleDocTemplate("table.pdf").build([Table([["Item", "Price"], ["Apple", "3"], ["Pear", "5"]], style=grid)])
"""
_VALUES = [
    {"field_id": "last_name", "description": "The last name", "page": 1, "value": "Simpson"},
    {"field_id": "adult", "description": "Checked when over 18", "page": 1, "value": "/Yes"},
]


async def pdf(model: ScriptedModel) -> str:
    """A form is filled, a table is extracted, a page is read by OCR, two files are merged."""
    await model.load()
    await model.skill_file("forms.md")
    await model.python(_FORM)
    reported = await model.bash("cd {skill} && python scripts/check_fillable_fields.py /workspace/form.pdf; cd /workspace")
    expect("has fillable form fields" in reported, f"the form was not recognised: {reported}")
    await model.bash("python {skill}/scripts/extract_form_field_info.py form.pdf field_info.json")
    fields = json.loads(model.product("field_info.json").read_text())
    expect({one["field_id"] for one in fields} == {"last_name", "adult"}, f"other fields: {fields}")
    await model.bash("mkdir -p pages && python {skill}/scripts/convert_pdf_to_images.py form.pdf pages")
    expect(await model.look("pages/page_1.png") == 1, "the page is no picture for the model")
    await model.write("field_values.json", json.dumps(_VALUES))
    await model.bash("python {skill}/scripts/fill_fillable_fields.py form.pdf field_values.json filled.pdf")
    table = await model.python(
        "import pandas as pd, pdfplumber\n"
        "with pdfplumber.open('table.pdf') as pdf:\n    table = pdf.pages[0].extract_tables()[0]\n"
        "frame = pd.DataFrame(table[1:], columns=table[0])\nprint(frame['Price'].astype(int).sum(), len(frame))\n"
    )
    expect(table == "8 2", f"the table was not extracted: {table}")
    read = await model.python(
        "import pytesseract\nfrom pdf2image import convert_from_path\n"
        "print(pytesseract.image_to_string(convert_from_path('table.pdf', dpi=200)[0], config='--psm 6'))"
    )
    expect("Apple" in read, f"OCR read {read!r}")
    await model.bash("qpdf --empty --pages filled.pdf table.pdf -- merged.pdf && pdftotext -layout merged.pdf merged.txt")
    await model.javascript(
        "const {PDFDocument} = require('pdf-lib');\nconst fs = require('fs');\n"
        "PDFDocument.load(fs.readFileSync('filled.pdf')).then((pdf) => "
        "console.log(pdf.getForm().getTextField('last_name').getText()));"
    )
    expect("Simpson" in pdf_text(model.product("filled.pdf")), "the filled form does not show the name")
    expect(pdf_pages(model.product("merged.pdf")) == 2, "the merged file has not two pages")
    return "form filled and shown by poppler; table and OCR text read; merged file valid for qpdf"


_DOCUMENT = """
const fs = require("fs");
const { Document, HeadingLevel, Packer, Paragraph, Table, TableCell, TableRow, TextRun, WidthType } = require("docx");
const cell = (text) => new TableCell({ width: { size: 4680, type: WidthType.DXA }, children: [new Paragraph(text)] });
const doc = new Document({ sections: [{
  properties: { page: { size: { width: 12240, height: 15840 } } },
  children: [
    new Paragraph({ heading: HeadingLevel.HEADING_1, children: [new TextRun("Delivery terms")] }),
    new Paragraph({ children: [new TextRun("The term is 30 days.")] }),
    new Table({ width: { size: 9360, type: WidthType.DXA }, columnWidths: [4680, 4680],
      rows: [new TableRow({ children: [cell("Item"), cell("Price")] })] }),
  ],
}] });
Packer.toBuffer(doc).then((buffer) => fs.writeFileSync("terms.docx", buffer));
"""
_RUN = "<w:t>30</w:t>"
_MARK = 'w:author="Claude" w:date="2026-01-01T00:00:00Z"'
_TRACKED = (
    '<w:r><w:t xml:space="preserve">The term is </w:t></w:r>'
    f'<w:del w:id="901" {_MARK}><w:r><w:delText>30</w:delText></w:r></w:del>'
    f'<w:ins w:id="902" {_MARK}><w:r><w:t>60</w:t></w:r></w:ins>'
    '<w:r><w:t xml:space="preserve"> days.</w:t></w:r>'
)


async def docx(model: ScriptedModel) -> str:
    """A document is written, validated, changed with the change tracked and commented, and the changes are accepted."""
    await model.load()
    await model.javascript(_DOCUMENT)
    await model.bash("cd {skill} && python scripts/office/validate.py /workspace/terms.docx; cd /workspace")
    await model.bash("python {skill}/scripts/office/unpack.py terms.docx unpacked/")
    found = await model.bash("grep -n -B3 -A3 'The term is 30 days' unpacked/word/document.xml")
    expect("The term is 30 days." in found, "the paragraph is not in the unpacked document")
    await model.python(
        "import re\npath = 'unpacked/word/document.xml'\ntext = open(path, encoding='utf-8').read()\n"
        "found = re.search(r'<w:r>(?:(?!<w:r>).)*?The term is 30 days\\..*?</w:r>', text, re.DOTALL)\nprint(found[0])\n"
    )
    await model.edit("unpacked/word/document.xml", await _run_of(model), _TRACKED)
    await model.bash("python {skill}/scripts/comment.py unpacked/ 0 'Agreed by telephone'")
    await model.bash("python {skill}/scripts/office/pack.py unpacked/ changed.docx --original terms.docx")
    reported = await model.bash("pandoc --track-changes=all changed.docx -t markdown")
    expect(
        "insertion" in reported and "deletion" in reported and "60" in reported,
        f"pandoc sees no tracked change: {reported[:300]}",
    )
    await model.bash("python {skill}/scripts/accept_changes.py changed.docx accepted.docx")
    await model.bash(
        "python {skill}/scripts/office/soffice.py --headless --convert-to pdf accepted.docx && "
        "pdftoppm -jpeg -r 60 accepted.pdf page"
    )
    with zipfile.ZipFile(model.product("changed.docx")) as archive:
        document = archive.read("word/document.xml").decode()
    expect("<w:del " in document and "<w:ins " in document, "the packed document has no tracked change")
    accepted = office_text(model.product("accepted.docx"))
    expect("The term is 60 days." in accepted, f"LibreOffice shows {accepted[:200]!r}")
    return "tracked change seen by pandoc, accepted document shown by LibreOffice"


async def _run_of(model: ScriptedModel) -> str:
    """The run of the sentence in the unpacked document, as an edit has to name it."""
    text = model.product("unpacked/word/document.xml").read_text("utf-8")
    place = text.index("The term is 30 days.")
    return text[text.rindex("<w:r>", 0, place) : text.index("</w:r>", place) + len("</w:r>")]


_SHEET = """
from openpyxl import Workbook
from openpyxl.styles import Font

book = Workbook()
sheet = book.active
sheet.title = "Budget"
sheet.append(["Item", "Units", "Price", "Sum"])
for row, (item, units, price) in enumerate([("Apple", 3, 1.5), ("Pear", 4, 2.25), ("Plum", 10, 0.5)], 2):
    sheet.append([item, units, price, f"=B{row}*C{row}"])
sheet["A5"], sheet["D5"] = "Total", "=SUM(D2:D4)"
sheet["D6"] = "=IF(D5>10,AVERAGE(D2:D4),0)"
sheet["D5"].font = Font(bold=True)
book.save("budget.xlsx")
"""


async def xlsx(model: ScriptedModel) -> str:
    """A sheet with formulas is written and recalculated; an error in a formula is found."""
    await model.load()
    await model.python(_SHEET)
    reported = json.loads(await model.bash("python {skill}/scripts/recalc.py budget.xlsx 90"))
    expect(reported.get("status") == "success" and reported["total_formulas"] == 5, f"recalculated: {reported}")
    values = await model.python(
        "import pandas as pd\nfrom openpyxl import load_workbook\nsheet = load_workbook('budget.xlsx', data_only=True).active\n"
        "print(sheet['D5'].value, round(sheet['D6'].value, 2), len(pd.read_excel('budget.xlsx')))"
    )
    expect(values == "18.5 6.17 5", f"the values are {values}")
    await model.python(
        "from openpyxl import load_workbook\nbook = load_workbook('budget.xlsx')\n"
        "book.active['E2'] = '=B2/0'\nbook.save('wrong.xlsx')"
    )
    reported = json.loads(await model.bash("python {skill}/scripts/recalc.py wrong.xlsx 90"))
    expect(
        reported.get("error_summary", {}).get("#DIV/0!", {}).get("count") == 1, f"the wrong formula was not found: {reported}"
    )
    text = office_text(model.product("budget.xlsx"), "csv")
    expect("Total,,,18.5" in text and "#" not in text and "Err" not in text, f"LibreOffice shows {text!r}")
    return "5 formulas, no error value, 18.5 in LibreOffice; #DIV/0! found in the wrong sheet"


_SLIDES = """
const pptxgen = require("pptxgenjs");
const deck = new pptxgen();
deck.layout = "LAYOUT_16x9";
deck.title = "Tides";
const dark = "21295C", light = "F4F1DE", accent = "E07A5F";
const titles = ["Tides", "What moves the sea", "Three forces", "Heights in metres", "What to remember"];
titles.forEach((title, index) => {
  const slide = deck.addSlide();
  const edge = index === 0 || index === 4;
  slide.background = { color: edge ? dark : light };
  slide.addShape(deck.shapes.OVAL, { x: 8.2, y: 0.5, w: 1.2, h: 1.2, fill: { color: accent } });
  slide.addText(title, { x: 0.6, y: 0.6, w: 7.2, h: 0.9, fontSize: 36, bold: true, margin: 0, color: edge ? light : dark });
  if (index === 1) slide.addText([{ text: "The Moon", options: { bullet: true, breakLine: true } },
    { text: "The Sun", options: { bullet: true } }], { x: 0.6, y: 1.9, w: 5, h: 2, fontSize: 20, color: dark });
  if (index === 2) ["Gravity", "Rotation", "Shape of the coast"].forEach((word, column) => {
    slide.addShape(deck.shapes.RECTANGLE, { x: 0.6 + column * 2.9, y: 2.2, w: 2.6, h: 1.6, fill: { color: "81B29A" } });
    slide.addText(word, { x: 0.6 + column * 2.9, y: 2.2, w: 2.6, h: 1.6, align: "center", fontSize: 18, color: dark });
  });
  if (index === 3) [7.5, 0.3, 16].forEach((metres, column) => slide.addShape(deck.shapes.RECTANGLE,
    { x: 1 + column * 2, y: 5 - metres * 0.19, w: 1.2, h: metres * 0.19, fill: { color: accent } }));
});
deck.writeFile({ fileName: "tides.pptx" });
"""


async def pptx(model: ScriptedModel) -> str:
    """Five slides are written and rendered to pictures; one is added by the scripts for editing."""
    await model.load()
    await model.skill_file("pptxgenjs.md")
    await model.javascript(_SLIDES)
    text = await model.bash("python -m markitdown tides.pptx")
    expect("Three forces" in text and "What to remember" in text, f"markitdown reads {text[:300]!r}")
    await model.bash(
        "python {skill}/scripts/office/soffice.py --headless --convert-to pdf tides.pptx && "
        "pdftoppm -jpeg -r 80 tides.pdf slide"
    )
    expect(await model.look("slide-1.jpg") == 1, "a slide is no picture for the model")
    await model.bash("cd {skill} && python scripts/thumbnail.py /workspace/tides.pptx /workspace/grid && cd /workspace")
    await model.bash("python {skill}/scripts/office/unpack.py tides.pptx unpacked/")
    added = await model.bash("cd {skill} && python scripts/add_slide.py /workspace/unpacked/ slide2.xml && cd /workspace")
    entry = re.search(r"<p:sldId [^>]*/>", added)
    expect(entry, f"add_slide.py wrote {added!r}")
    await model.edit("unpacked/ppt/presentation.xml", "</p:sldIdLst>", f"{entry[0] if entry else ''}</p:sldIdLst>")
    await model.bash(
        "python {skill}/scripts/clean.py unpacked/ && "
        "python {skill}/scripts/office/pack.py unpacked/ edited.pptx --original tides.pptx"
    )
    for number in range(1, 6):
        width, height, _ = await see_picture(model.product(f"slide-{number}.jpg"))
        expect(width == 800 and height in (450, 451), f"slide {number} is {width} × {height}")
    expect(pdf_pages(model.product("tides.pdf")) == 5, "the deck has not five slides")
    shown = office_text(model.product("edited.pptx"))
    expect(shown.count("What moves the sea") == 2, "LibreOffice does not show the slide that was added")
    return "five slides as pictures in Chromium; the edited deck opens in LibreOffice"
