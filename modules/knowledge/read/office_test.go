package read_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/knowledge/read"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/forkserver"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/sandbox/sandboxtest"
)

// engine is the sandbox that reads documents, in which they are made as well.
func engine(t *testing.T) *sandbox.Engine {
	t.Helper()
	root := sandboxtest.Root()
	testenv.Sandbox(t, root)
	d, err := forkserver.New(guest.Config{Root: root})
	require.NoError(t, err)
	e := sandbox.New(sandbox.Deps{Driver: d, MaxConcurrent: 2, MaxQueue: 100, Queue: sandbox.Queue{Timeout: time.Minute}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, e.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, e.Stop(context.WithoutCancel(t.Context()))) })
	return e
}

// made is a document that a program leaves as the file "made".
func made(t *testing.T, e *sandbox.Engine, code string) []byte {
	t.Helper()
	result, err := e.Run(t.Context(), sandbox.Job{Code: code, Timeout: time.Minute, Collect: sandbox.Collect{MaxFiles: 1, MaxBytes: 100 << 20}})
	require.NoError(t, err)
	require.Equal(t, sandbox.Completed, result.Status, result.Stderr)
	require.Len(t, result.Outputs, 1, "%s", result.Stderr)
	return result.Outputs[0].Content
}

func source(name, mime string, b []byte) read.Source {
	return read.Source{Name: name, MIME: mime, Size: int64(len(b)), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }}
}

func detail(err error) string {
	if e, ok := errors.AsType[*errs.Error](err); ok {
		return e.Detail
	}
	return ""
}

const makePDF = `
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import SimpleDocTemplate, Paragraph, Table, TableStyle, PageBreak
from reportlab.lib import colors
s = getSampleStyleSheet()
t = Table([["Part", "Weight"], ["Pump", "4 kg"], ["Valve | small", "1 kg"]])
t.setStyle(TableStyle([("GRID", (0, 0), (-1, -1), 1, colors.black)]))
class Doc(SimpleDocTemplate):
    def afterFlowable(self, f):
        if getattr(f, "style", None) is not None and f.style.name == "Heading1":
            self.canv.bookmarkPage(f.getPlainText()); self.canv.addOutlineEntry(f.getPlainText(), f.getPlainText(), 0)
Doc("made", pagesize=A4, title="Pump manual").build([
    Paragraph("Safety", s["Heading1"]),
    Paragraph("Close the valve before you open the housing. " * 6, s["BodyText"]),
    Paragraph("A second paragraph.", s["BodyText"]),
    PageBreak(), Paragraph("Parts", s["Heading1"]), t, Paragraph("After the table.", s["BodyText"])])
`

func TestPDFBecomesSectionsWithTables(t *testing.T) {
	t.Parallel()
	e := engine(t)
	d, err := read.Office{Sandbox: e, Timeout: time.Minute}.Read(t.Context(), source("manual.pdf", "application/pdf", made(t, e, makePDF)))
	require.NoError(t, err)
	require.Equal(t, "Pump manual", d.Title)
	require.Len(t, d.Sections, 2)
	require.Equal(t, "Safety", d.Sections[0].Title)
	require.Contains(t, d.Sections[0].Text, "open the housing. Close the valve", "lines of one paragraph are joined")
	require.Contains(t, d.Sections[0].Text, "\n\nA second paragraph.")
	require.Equal(t, "Parts", d.Sections[1].Title)
	require.Contains(t, d.Sections[1].Text, "| Part | Weight |\n|---|---|\n| Pump | 4 kg |\n| Valve \\| small | 1 kg |\n\nAfter the table.")
}

func TestDocxBecomesSectionsWithTables(t *testing.T) {
	t.Parallel()
	e := engine(t)
	b := made(t, e, `
import docx
d = docx.Document()
d.core_properties.title = "House rules"
d.add_paragraph("Before all headings.")
d.add_heading("Kitchen", 1)
d.add_heading("Fridge", 2)
d.add_paragraph("Label what is yours.", style="List Bullet")
t = d.add_table(2, 2)
t.cell(0, 0).text, t.cell(0, 1).text, t.cell(1, 0).text, t.cell(1, 1).text = "Day", "Who", "Monday", "Ada"
d.add_heading("Garden", 1)
d.add_paragraph("Water it.")
d.save("made")
`)
	d, err := read.Office{Sandbox: e, Timeout: time.Minute}.Read(t.Context(), source("rules.docx", "", b))
	require.NoError(t, err)
	require.Equal(t, "House rules", d.Title)
	require.Equal(t, []read.Section{
		{Text: "Before all headings."},
		{Title: "Kitchen > Fridge", Text: "- Label what is yours.\n\n| Day | Who |\n|---|---|\n| Monday | Ada |"},
		{Title: "Garden", Text: "Water it."},
	}, d.Sections)
}

func TestDocumentsThatCannotBeReadSayWhy(t *testing.T) {
	t.Parallel()
	e := engine(t)
	for name, c := range map[string]struct {
		code string
		want error
		says string
	}{
		"with a password": {makePDF + `
from pypdf import PdfReader, PdfWriter
w = PdfWriter(clone_from=PdfReader("made")); w.encrypt("secret", algorithm="AES-256")
w.write("made")`, read.ErrEncrypted, "needs a password"},
		"scanned": {`
from reportlab.pdfgen import canvas
c = canvas.Canvas("made"); c.rect(10, 10, 200, 200, fill=1); c.showPage(); c.save()`, read.ErrEmpty, "OCR"},
		"many pages": {`
from pypdf import PdfWriter
w = PdfWriter()
for _ in range(1501): w.add_blank_page(100, 100)
w.write("made")`, read.ErrTooLarge, "1501 pages"},
		"damaged PDF": {`open("made", "wb").write(b"%PDF-1.7\nnothing more")`, read.ErrDamaged, "no PDF"},
		"zip bomb": {`
import zipfile
with zipfile.ZipFile("made", "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("[Content_Types].xml", "<Types/>")
    with z.open("word/document.xml", "w", force_zip64=True) as f:
        for _ in range(200): f.write(b" " * (1 << 20))`, read.ErrTooLarge, "Unpacked"},
		"no Word file": {`
import zipfile
with zipfile.ZipFile("made", "w") as z: z.writestr("a.txt", "x")`, read.ErrType, "no Word file"},
		"empty Word file":   {`import docx; docx.Document().save("made")`, read.ErrEmpty, "no text"},
		"damaged Word file": {`open("made", "wb").write(b"PK\x03\x04 and no more")`, read.ErrDamaged, "no Word file"},
		"old Word file":     {`open("made", "wb").write(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")`, read.ErrEncrypted, ".docx"},
		"another type":      {`open("made", "wb").write(b"GIF89a")`, read.ErrType, "neither"},
		"empty":             {`open("made", "wb").write(b"")`, read.ErrEmpty, "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := read.Office{Sandbox: e, Timeout: time.Minute}.Read(t.Context(), source("x", "", made(t, e, c.code)))
			require.ErrorIs(t, err, c.want, "%v %s", err, detail(err))
			require.Contains(t, detail(err), c.says)
		})
	}
	_, err := read.Office{Sandbox: e, Timeout: time.Minute}.Read(t.Context(), read.Source{Name: "x.pdf", Size: 49 << 20})
	require.ErrorIs(t, err, read.ErrTooLarge, "by its size alone")
}
