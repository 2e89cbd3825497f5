"""Read the text of a PDF or a Word file."""

import json
import re
import statistics
import zipfile


class Refused(Exception):
    def __init__(self, problem, detail):
        super().__init__(detail)
        self.problem = problem


class Text:
    """The sections of a document, within a bound."""

    def __init__(self, most):
        self.left = most
        self.path = []
        self.sections = []
        self.parts = []

    def add(self, part):
        part = part.strip("\n")
        if part.strip():
            self.left -= len(part)
            if self.left < 0:
                raise Refused("large", "It has more text than is read of one document. Split it.")
            self.parts.append(part)

    def heading(self, level, title):
        self.flush()
        self.path = [(at, name) for at, name in self.path if at < level] + [(level, title)]

    def flush(self):
        if self.parts:
            self.sections.append({"title": " > ".join(name for _, name in self.path), "text": "\n\n".join(self.parts)})
            self.parts = []


def table(rows):
    """Rows as a table in Markdown; nothing if they are not one."""
    rows = [[cell_text(cell) for cell in row] for row in rows]
    rows = [row for row in rows if any(row)]
    width = max((len(row) for row in rows), default=0)
    if width < 2 or len(rows) < 2:
        return " ".join(cell for row in rows for cell in row if cell)
    lines = ["| %s |" % " | ".join(row + [""] * (width - len(row))) for row in rows]
    return "\n".join([lines[0], "|" + "---|" * width, *lines[1:]])


def cell_text(cell):
    return "<br>".join(" ".join(line.split()) for line in (cell or "").splitlines() if line.strip()).replace("|", "\\|")


# --- PDF ---


def read_pdf(asked, text):
    import pdfplumber
    from pypdf import PdfReader
    from pypdf.errors import PdfReadError

    try:
        reader = PdfReader("document")
        if reader.is_encrypted and not reader.decrypt(""):
            raise Refused("encrypted", "It needs a password. Save it without one.")
        pages = len(reader.pages)
        outline = outline_of(reader)
        title = ((reader.metadata or {}).get("/Title") or "") if reader.metadata else ""
    except (PdfReadError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise Refused("damaged", "It is no PDF that can be read: %s" % error) from None
    if pages > asked["pages"]:
        raise Refused("large", "It has %d pages; at most %d are read. Split it." % (pages, asked["pages"]))
    with pdfplumber.open("document") as pdf:
        for number, page in enumerate(pdf.pages, 1):
            if number in outline:
                for level, name in outline[number]:
                    text.heading(level, name)
            elif not outline:
                text.heading(1, "Page %d" % number)
            for part in page_parts(page):
                text.add(part)
            page.close()
    text.flush()
    if not text.sections:
        raise Refused("empty", "Its %d pages hold images and no text: it was probably scanned. Recognise its text (OCR) first." % pages)
    return str(title)


def outline_of(reader):
    """The bookmarks of each page: (level, name)."""
    found = {}

    def walk(entries, level):
        for entry in entries:
            if isinstance(entry, list):
                walk(entry, min(level + 1, 6))
                continue
            try:
                page = reader.get_destination_page_number(entry)
            except Exception:
                continue  # it leads nowhere
            name = " ".join(str(entry.title).split())
            if page is not None and page >= 0 and name:
                found.setdefault(page + 1, []).append((level, name))

    try:
        walk(reader.outline, 1)
    except Exception:
        return {}  # damaged bookmarks; the text is there
    return found


def page_parts(page):
    """The paragraphs and tables of a page, from its top."""
    tables = page.find_tables() if len(page.lines) + len(page.rects) + len(page.curves) > 3 else []
    parts = [(t.bbox[1], table(t.extract())) for t in tables]
    rest = page
    for t in tables:
        rest = rest.filter(outside(t.bbox))
    parts += paragraphs(rest.extract_text_lines(strip=True, return_chars=False))
    return [part for _, part in sorted(parts, key=lambda part: part[0])]


def outside(box):
    left, top, right, bottom = box

    def keep(thing):
        across, down = (thing["x0"] + thing["x1"]) / 2, (thing["top"] + thing["bottom"]) / 2
        return not (left <= across <= right and top <= down <= bottom)

    return keep


def paragraphs(lines):
    """Lines that belong together, joined: those which are not further apart
    than lines usually are."""
    gaps = [b["top"] - a["bottom"] for a, b in zip(lines, lines[1:]) if b["top"] > a["top"]]
    usual = statistics.median(gaps) if gaps else 0
    joined, last = [], None
    for line in lines:
        height = line["bottom"] - line["top"]
        near = last is not None and -height < line["top"] - last["bottom"] <= max(usual * 1.5, height * 0.35) and abs(height - (last["bottom"] - last["top"])) < 1.5
        starts = re.match(r"(?:[•▪◦‣·–*-]|\d{1,3}[.)])\s", line["text"])
        if near and not starts:
            joined[-1][1] = join(joined[-1][1], line["text"])
        else:
            joined.append([line["top"], line["text"]])
        last = line
    return [(top, re.sub(r"^[•▪◦‣·]\s*", "- ", words)) for top, words in joined]


def join(before, after):
    if re.search(r"[^\W\d_]-$", before) and re.match(r"[^\W\d_]", after) and after[0].islower():
        return before[:-1] + after
    return before + " " + after


# --- Word ---


def read_docx(asked, text):
    try:
        with zipfile.ZipFile("document") as archive:
            parts = archive.infolist()
            names = {part.filename for part in parts}
            if len(parts) > asked["parts"] or sum(part.file_size for part in parts) > asked["unpacked"]:
                raise Refused("large", "Unpacked, it is larger than what is read. Take large images out.")
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise Refused("damaged", "It is no Word file that can be read: %s" % error) from None
    if "word/document.xml" not in names:
        raise Refused("type", "It is an archive, and no Word file (.docx).")
    import docx

    try:
        document = docx.Document("document")
    except Exception as error:
        raise Refused("damaged", "It is no Word file that can be read: %s" % error) from None
    title = document.core_properties.title or ""
    for block in document.iter_inner_content():
        if hasattr(block, "rows"):
            text.add(table([[cell.text for cell in row.cells] for row in block.rows]))
            continue
        words = paragraph(block)
        style = (block.style.name if block.style is not None else "") or ""
        level = re.fullmatch(r"Heading ([1-9])", style)
        if level and words:
            text.heading(int(level[1]), " ".join(block.text.split()))
        elif style == "Title" and words:
            title = title or " ".join(block.text.split())
        elif style.startswith("List Bullet"):
            text.add("- " + words)
        elif style.startswith("List Number"):
            text.add("1. " + words)
        else:
            text.add(words)
    text.flush()
    if not text.sections:
        raise Refused("empty", "There is no text in it.")
    return title


def paragraph(block):
    parts = []
    for part in block.iter_inner_content():
        address = getattr(part, "address", "")
        parts.append("[%s](%s)" % (part.text, address) if address and part.text.strip() else part.text)
    return "".join(parts).strip()


def main(asked):
    text = Text(asked["characters"])
    try:
        title = (read_pdf if asked["kind"] == "pdf" else read_docx)(asked, text)
    except Refused as refused:
        return {"problem": refused.problem, "detail": str(refused)}
    return {"title": title, "sections": text.sections}


with open("request.json") as request:
    answer = main(json.load(request))
with open("answer.json", "w", encoding="utf-8", errors="replace") as file:
    json.dump(answer, file)
