package app_test

import "maps"

func questions() map[string]question {
	all := map[string]question{}
	for _, kind := range []map[string]question{office(), documents(), pictures(), statistics(), tables(), pages()} {
		maps.Copy(all, kind)
	}
	return all
}

func office() map[string]question {
	const chart = `
import zipfile
parts = zipfile.ZipFile("book.xlsx").namelist()
print(any(p.startswith("xl/charts/chart") for p in parts))
import openpyxl
sheet = openpyxl.load_workbook("book.xlsx").active
print(sheet["B4"].value, [row[1].value for row in sheet["A1:B3"]])
import pandas as pd
print(pd.read_excel("book.xlsx").columns.tolist())`
	const read = "True\n=SUM(B2:B3) ['sales', 10, 20]\n['month', 'sales']"
	return map[string]question{
		"a workbook by openpyxl": {file: "book.xlsx", again: chart, read: read, code: `
from openpyxl import Workbook
from openpyxl.chart import BarChart, Reference
book = Workbook(); sheet = book.active
for row in (["month", "sales"], ["Jan", 10], ["Feb", 20]): sheet.append(row)
sheet["B4"] = "=SUM(B2:B3)"
chart = BarChart()
chart.add_data(Reference(sheet, min_col=2, min_row=1, max_row=3), titles_from_data=True)
sheet.add_chart(chart, "D2")
book.save("book.xlsx")`},
		"a workbook by xlsxwriter": {file: "book.xlsx", again: chart, read: read, code: `
import pandas as pd
frame = pd.DataFrame({"month": ["Jan", "Feb"], "sales": [10, 20]})
with pd.ExcelWriter("book.xlsx", engine="xlsxwriter") as writer:
    frame.to_excel(writer, sheet_name="Sales", index=False)
    sheet = writer.sheets["Sales"]
    sheet.write_formula("B4", "=SUM(B2:B3)")
    chart = writer.book.add_chart({"type": "column"})
    chart.add_series({"values": "=Sales!$B$2:$B$3"})
    sheet.insert_chart("D2", chart)`},
		"a letter with a table": {
			file: "letter.docx", code: `
from docx import Document
from docx.shared import Inches
import matplotlib.pyplot as plt
plt.plot([1, 2]); plt.savefig("/tmp/plot.png"); plt.close()
letter = Document()
letter.add_heading("Report", 0)
letter.add_paragraph("Zażółć gęślą jaźń")
table = letter.add_table(rows=1, cols=2); table.style = "Table Grid"
table.rows[0].cells[0].text = "a"
table.add_row().cells[1].text = "5"
letter.add_picture("/tmp/plot.png", width=Inches(2))
letter.save("letter.docx")`, again: `
from docx import Document
letter = Document("letter.docx")
print([p.text for p in letter.paragraphs if p.text], [[c.text for c in r.cells] for r in letter.tables[0].rows], len(letter.inline_shapes))`,
			read: "['Report', 'Zażółć gęślą jaźń'] [['a', ''], ['', '5']] 1",
		},
		"slides": {
			file: "slides.pptx", code: `
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches
show = Presentation()
slide = show.slides.add_slide(show.slide_layouts[5])
slide.shapes.title.text = "Results"
data = CategoryChartData(); data.categories = ["a", "b"]; data.add_series("s", (1, 2))
slide.shapes.add_chart(XL_CHART_TYPE.PIE, Inches(1), Inches(2), Inches(4), Inches(3), data)
show.save("slides.pptx")`, again: `
from pptx import Presentation
for slide in Presentation("slides.pptx").slides:
    print(slide.shapes.title.text, [list(s.chart.plots[0].series[0].values) for s in slide.shapes if s.has_chart])`,
			read: "Results [[1.0, 2.0]]",
		},
	}
}

// report makes a PDF with text in a standard font, a table, text in Chinese,
// whose font is not part of the file, and a picture.
const report = `
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.platypus import Image, PageBreak, Paragraph, SimpleDocTemplate, Table
from PIL import Image as Picture
Picture.new("RGB", (40, 20), "red").save("/tmp/red.png")
pdfmetrics.registerFont(UnicodeCIDFont("STSong-Light"))
style = getSampleStyleSheet()
chinese = style["Normal"].clone("chinese", fontName="STSong-Light")
table = Table([["item", "price"], ["apples", "12"]], style=[("GRID", (0, 0), (-1, -1), 1, colors.black)])
SimpleDocTemplate("report.pdf", pagesize=A4, title="Report").build(
    [Paragraph("Revenue rises", style["Title"]), table, Paragraph("收入", chinese), Image("/tmp/red.png"), PageBreak(), Paragraph("End", style["Normal"])])
`

func documents() map[string]question {
	return map[string]question{
		"a PDF and pypdf": {code: report, file: "report.pdf", again: `
from pypdf import PdfReader, PdfWriter
pages = PdfReader("report.pdf").pages
print(len(pages), "Revenue rises" in pages[0].extract_text(), len(pages[0].images))
writer = PdfWriter(); writer.add_page(pages[1]); writer.encrypt("secret", algorithm="AES-256"); writer.write("locked.pdf")
locked = PdfReader("locked.pdf"); locked.decrypt("secret")
print(locked.pages[0].extract_text())`, read: "2 True 1\nEnd"},
		"a PDF and pdfplumber": {code: report, file: "report.pdf", again: `
import pdfplumber
with pdfplumber.open("report.pdf") as pdf:
    print(pdf.pages[0].extract_tables())
    pdf.pages[0].to_image(resolution=50).save("page.png")
from PIL import Image
print(Image.open("page.png").size)`, read: "[[['item', 'price'], ['apples', '12']]]\n(414, 585)"},
		"a PDF and poppler": {
			code: report, file: "report.pdf", againLang: "bash", again: `
pdftotext -layout report.pdf - | grep -oE 'Revenue rises|apples +12|收入|End' | tr -s ' '
pdfinfo report.pdf | grep -E '^(Title|Pages)' | tr -s ' '
pdfimages -list report.pdf | tail -n +3 | wc -l
pdfseparate report.pdf page-%d.pdf && pdfunite page-2.pdf page-1.pdf turned.pdf && pdftotext turned.pdf - | head -1`,
			read: "Revenue rises\napples 12\n收入\nEnd\nTitle: Report\nPages: 2\n1\nEnd",
		},
		// The letters are there, and not only the lines around them.
		"a PDF and pdftoppm": {code: report, file: "report.pdf", againLang: "bash", again: `
pdftoppm -png -r 60 report.pdf page && pdftocairo -svg report.pdf page.svg
python3 - <<'PY'
import glob, os
import numpy as np
from PIL import Image
for name in sorted(glob.glob("page-*.png")):
    picture = np.asarray(Image.open(name).convert("L"))
    print(name, picture.shape, (picture < 128).sum() > 20)
print(os.path.getsize("page.svg") > 1000)
PY`, read: "page-1.png (702, 497) True\npage-2.png (702, 497) True\nTrue"},
	}
}
