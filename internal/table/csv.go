package table

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// file is a CSV file and how it is written.
type file struct {
	src      io.ReadSeeker
	comma    rune
	encoding string
	decoder  *encoding.Decoder
}

// sample is how many bytes of a file are read to find its delimiter.
const sample = 64 << 10

// examine finds the encoding and the delimiter of a file.
func examine(src io.ReadSeeker) (file, error) {
	f := file{src: src, encoding: "UTF-8", decoder: unicode.UTF8BOM.NewDecoder()}
	head := make([]byte, 3)
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return f, err
	}
	n, err := io.ReadFull(src, head)
	switch {
	case errors.Is(err, io.EOF):
		return f, ErrInvalid.Do("It is empty.")
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return f, err
	case n >= 2 && (bytes.HasPrefix(head, []byte{0xFF, 0xFE}) || bytes.HasPrefix(head, []byte{0xFE, 0xFF})):
		f.encoding, f.decoder = "UTF-16", unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder()
	default:
		valid, err := validUTF8(src)
		if err != nil {
			return f, err
		}
		if !valid {
			f.encoding, f.decoder = "Windows-1252", charmap.Windows1252.NewDecoder()
		}
	}
	r, err := f.open()
	if err != nil {
		return f, err
	}
	start, err := io.ReadAll(io.LimitReader(r, sample))
	if err != nil {
		return f, err
	}
	if bytes.IndexByte(start, 0) >= 0 {
		return f, ErrInvalid.Do("It holds bytes that no text has. Send CSV as text.")
	}
	f.comma = delimiter(string(start))
	return f, nil
}

func validUTF8(src io.ReadSeeker) (bool, error) {
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	r := bufio.NewReaderSize(src, sample)
	for {
		// A rune that is cut by the end of the buffer is not read yet.
		c, size, err := r.ReadRune()
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil || c == utf8.RuneError && size == 1 {
			return false, err
		}
	}
}

// open reads the file from its beginning, as UTF-8.
func (f file) open() (io.Reader, error) {
	if _, err := f.src.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return transform.NewReader(f.src, f.decoder), nil
}

// delimiter is what separates fields: of those that give the first rows the
// same number of fields, the one that gives the most.
func delimiter(start string) rune {
	best, most := ',', 1
	for _, comma := range []rune{',', ';', '\t', '|'} {
		r := csv.NewReader(strings.NewReader(start))
		r.Comma, r.LazyQuotes, r.FieldsPerRecord = comma, true, -1
		var counts []int
		for len(counts) < 50 {
			row, err := r.Read()
			if err != nil {
				break
			}
			counts = append(counts, len(row))
		}
		if len(counts) > 1 && r.InputOffset() == int64(len(start)) {
			counts = counts[:len(counts)-1] // the sample may have cut it
		}
		if len(counts) == 0 {
			continue
		}
		usual := slices.Clone(counts)
		slices.Sort(usual)
		middle := usual[len(usual)/2]
		if middle == counts[0] && middle > most {
			best, most = comma, middle
		}
	}
	return best
}

// guard stops reading a row that is too long, before it fills the memory.
type guard struct {
	r    io.Reader
	left int
}

var errLong = errors.New("the row is too long")

func (g *guard) Read(p []byte) (int, error) {
	if g.left <= 0 {
		return 0, errLong
	}
	n, err := g.r.Read(p[:min(len(p), g.left)])
	g.left -= n
	return n, err
}

// rows reads the rows of a file.
type rows struct {
	*csv.Reader
	guard *guard
}

func (f file) rows() (rows, error) {
	r, err := f.open()
	if err != nil {
		return rows{}, err
	}
	g := &guard{r: r, left: MaxRow}
	c := csv.NewReader(g)
	c.Comma, c.LazyQuotes, c.FieldsPerRecord, c.ReuseRecord = f.comma, true, -1, true
	return rows{c, g}, nil
}

// next is the next row. What is wrong with a row alone is a *csv.ParseError.
func (r rows) next() ([]string, error) {
	r.guard.left = MaxRow
	before := r.InputOffset()
	fields, err := r.Read()
	if errors.Is(err, errLong) {
		return nil, ErrInvalid.Do(fmt.Sprintf("A row that begins at byte %d is longer than %d bytes; perhaps a quote is never closed there.", before, MaxRow))
	}
	return fields, err
}

// header is the names of the columns: trimmed, none empty and none twice.
func (f file) header() ([]string, error) {
	r, err := f.rows()
	if err != nil {
		return nil, err
	}
	fields, err := r.next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, ErrInvalid.Do("It is empty.")
	case err != nil:
		return nil, badHeader(err)
	case len(fields) > MaxColumns:
		return nil, ErrInvalid.Do(fmt.Sprintf("It has %d columns; %d are possible.", len(fields), MaxColumns))
	}
	names, taken := make([]string, len(fields)), map[string]bool{}
	for i, name := range fields {
		name = strings.TrimSpace(name)
		if name == "" {
			name = fmt.Sprintf("column_%d", i+1)
		}
		unique := name
		for n := 2; taken[unique]; n++ {
			unique = fmt.Sprintf("%s_%d", name, n)
		}
		names[i], taken[unique] = unique, true
	}
	return names, nil
}

func badHeader(err error) error {
	if p, ok := errors.AsType[*csv.ParseError](err); ok {
		return ErrInvalid.Do("Its header cannot be read: " + p.Err.Error() + ".")
	}
	return err
}

// each visits the rows below the header, with what is wrong with each. The
// fields are valid until the visit ends.
func (f file) each(ctx context.Context, columns int, visit func(line int, fields []string, bad string) error) error {
	r, err := f.rows()
	if err != nil {
		return err
	}
	if _, err := r.next(); err != nil {
		return badHeader(err)
	}
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		fields, err := r.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		line, bad := 0, ""
		if p, ok := errors.AsType[*csv.ParseError](err); ok {
			line, bad = p.StartLine, p.Err.Error()
		} else if err != nil {
			return err
		} else {
			line, _ = r.FieldPos(0)
			if len(fields) != columns {
				bad = fmt.Sprintf("%d fields instead of %d", len(fields), columns)
			}
		}
		if err := visit(line, fields, bad); err != nil {
			return err
		}
	}
}
