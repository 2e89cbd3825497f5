package knowledge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/tenant"
	"github.com/portico-run/portico/modules/knowledge/read"
	"github.com/portico-run/portico/modules/knowledge/vector"
)

// Addition is a source that is to be found from now on. A source that is there
// already is replaced.
type Addition struct {
	// Collection is where it goes, DefaultCollection when empty. Framework is what
	// it is about, where its reader does not say that.
	Collection, Framework string
	// Title is its name for people; empty takes the document's own.
	Title  string
	Source read.Source
	// Reader reads it; nil is the module's.
	Reader read.Reader
	// Document is a source that was read already; only the name of Source counts
	// then. Validators are what its server said of it.
	Document   *read.Document
	Validators Validators
}

// Validators are what a web server says of the version of a page.
type Validators struct{ ETag, LastModified string }

// Added is what became of an addition.
type Added struct {
	Document Document
	// Unchanged says that the source is as it was and nothing was done.
	Unchanged bool
}

const (
	maxSource = 2048
	maxTitle  = 500
)

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// Add reads a source, divides it into passages and stores them in one
// transaction, so that searches find the document as it was or as it is. One
// whose bytes are as they were is not read again. Nothing is stored when the
// vectors cannot be had.
func (s *Service) Add(ctx context.Context, o Owner, a Addition) (Added, error) {
	a.Collection = cmp.Or(a.Collection, DefaultCollection)
	if err := s.check(o, a); err != nil {
		return Added{}, err
	}
	hash, err := s.hash(a)
	if err != nil {
		return Added{}, err
	}
	if known, err := s.unchanged(ctx, o, a, hash); err != nil || known.Unchanged {
		return known, err
	}
	d, err := s.read(ctx, o, a)
	if err != nil {
		return Added{}, err
	}
	d.Title, d.Framework = shown(cmp.Or(a.Title, d.Title, a.Source.Name)), cmp.Or(d.Framework, a.Framework)
	passages, bytes := rowsOf(read.Split(d, read.SplitOptions{}))
	if len(passages) == 0 {
		return Added{}, read.ErrEmpty
	}
	// Before anything is paid for.
	if !o.shared {
		if err := s.room(s.deps.DB.Read(ctx), o, a, int64(len(passages)), bytes); err != nil {
			return Added{}, err
		}
	}
	row := documentRow{Source: a.Source.Name, Title: d.Title, Framework: d.Framework, Hash: hash, Bytes: bytes, Passages: len(passages)}
	row.Etag, row.LastModified = a.Validators.ETag, a.Validators.LastModified
	if err := s.embed(ctx, &row, passages); err != nil {
		return Added{}, err
	}
	return s.store(ctx, o, a, row, passages)
}

func (s *Service) read(ctx context.Context, o Owner, a Addition) (read.Document, error) {
	switch {
	case a.Document != nil:
		return *a.Document, nil
	case a.Reader != nil:
		return a.Reader.Read(ctx, a.Source)
	}
	return s.deps.Reader(o.uid).Read(ctx, a.Source)
}

func (s *Service) check(o Owner, a Addition) error {
	switch {
	case o.shared == (o.uid != ""):
		return errNobody
	case !nameForm.MatchString(a.Collection):
		return errs.New(errs.Invalid, "The name of the collection is not valid.").Do("Use up to 64 letters, digits and . _ -")
	case a.Source.Name == "" || len(a.Source.Name) > maxSource || !utf8.ValidString(a.Source.Name) || strings.ContainsFunc(a.Source.Name, unicode.IsControl):
		return errs.New(errs.Invalid, "The source of the document is not valid.").Do(fmt.Sprintf("Use up to %d bytes of text without line breaks.", maxSource))
	case len(a.Framework) > maxTitle || shown(a.Framework) != a.Framework:
		return errs.New(errs.Invalid, "The framework of the document is not valid.").Do(fmt.Sprintf("Use up to %d bytes of text without line breaks.", maxTitle))
	case a.Source.Size > s.deps.Settings.MaxDocument:
		return s.tooLarge()
	}
	return nil
}

func (s *Service) tooLarge() error {
	return read.ErrTooLarge.Do(fmt.Sprintf("A document may have %d bytes (KNOWLEDGE_MAX_DOCUMENT).", s.deps.Settings.MaxDocument))
}

// hash is of the bytes of a source, and of what else decides about its passages.
func (s *Service) hash(a Addition) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q\n", a.Source.MIME, a.Framework, a.Title)
	if a.Document != nil {
		fmt.Fprintf(h, "%q", *a.Document)
		return hex.EncodeToString(h.Sum(nil)), nil
	}
	r, err := a.Source.Open()
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }() // it was only read
	n, err := io.Copy(h, io.LimitReader(r, s.deps.Settings.MaxDocument+1))
	if err == nil && n > s.deps.Settings.MaxDocument {
		err = s.tooLarge()
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

func (s *Service) unchanged(ctx context.Context, o Owner, a Addition, hash string) (Added, error) {
	h := s.deps.DB.Read(ctx)
	of, err := s.rows.ofOwner(h, o, a.Collection)
	if err != nil || len(of) == 0 {
		return Added{}, err
	}
	row, found, err := s.rows.known(h, of[0].pk, a.Source.Name)
	return Added{row.document(of[0]), found && row.Hash == hash && row.Model == s.model()}, err
}

// model is that of new vectors; empty where none are made.
func (s *Service) model() string {
	if s.deps.Embedder == nil {
		return ""
	}
	return s.deps.Embedder.Model()
}

// rowsOf are the passages as they are stored, and how long their texts are.
func rowsOf(passages []read.Passage) (rows []passageRow, bytes int64) {
	rows = make([]passageRow, len(passages))
	for i, p := range passages {
		text := plain(p.Text)
		rows[i] = passageRow{
			Ordinal: i, Title: shown(p.Title), Section: shown(p.Section), Framework: shown(p.Framework),
			Symbol: shown(p.Symbol), Text: text,
		}
		bytes += int64(len(text))
	}
	return rows, bytes
}

// plain is text that databases store: valid, and without NUL.
func plain(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// shown is one line of at most maxTitle bytes.
func shown(text string) string {
	text = strings.Join(strings.Fields(plain(text)), " ")
	if len(text) > maxTitle {
		text = strings.ToValidUTF8(text[:maxTitle-len("…")], "") + "…"
	}
	return text
}

// embed gives passages their vectors, where a service makes some. A vector is of
// the text with its title and heading, which say what it is about.
func (s *Service) embed(ctx context.Context, d *documentRow, passages []passageRow) error {
	if s.deps.Embedder == nil {
		return nil
	}
	texts := make([]string, len(passages))
	for i, p := range passages {
		texts[i] = strings.TrimSpace(strings.Join([]string{p.Title, p.Section, p.Symbol, p.Text}, "\n"))
	}
	vectors, err := s.deps.Embedder.Embed(ctx, texts)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		s.deps.Logger.ErrorContext(ctx, "a document has no vectors and was not stored", "source", d.Source, "error", err)
		return errs.New(errs.Unavailable, "The embedding service made no vectors: the document was not stored.").Do("Try again later.").With(err)
	}
	d.Model = s.deps.Embedder.Model()
	for i := range passages {
		passages[i].Model, passages[i].Embedding = d.Model, vector.Encode(vectors[i])
	}
	return nil
}

// store replaces the document in one transaction.
func (s *Service) store(ctx context.Context, o Owner, a Addition, row documentRow, passages []passageRow) (added Added, err error) {
	err = s.deps.DB.InTx(ctx, func(tx database.Tx) error {
		at := s.now()
		if !o.shared { // the user's row is locked before any of theirs, so that two additions do not both fit
			if err := tenant.LockEnabled(tx, o.uid); err != nil {
				return err
			}
			if err := s.room(tx.Handle, o, a, int64(row.Passages), row.Bytes); err != nil {
				return err
			}
		}
		c, err := s.rows.claim(tx, o, a.Collection, at)
		if err != nil {
			return err
		}
		old, found, err := s.rows.known(tx.Handle, c.pk, row.Source)
		if err != nil {
			return err
		}
		row.CollectionPK, row.CreatedAt, row.UpdatedAt = c.pk, at, at
		if found {
			row.CreatedAt = old.CreatedAt
			if _, err := s.rows.remove(tx, c.pk, row.Source); err != nil {
				return err
			}
		}
		if err := s.rows.insert(tx, &row, passages); err != nil {
			return err
		}
		added.Document = row.document(c)
		return s.rows.changed(tx, c.pk, at)
	})
	return added, err
}

// room refuses what is over a user's limits. What it replaces does not count.
func (s *Service) room(h database.Handle, o Owner, a Addition, passages, bytes int64) error {
	of, err := s.rows.ofOwner(h, o, "")
	if err != nil {
		return err
	}
	sums, err := s.rows.sums(h, pksOf(of))
	if err != nil {
		return err
	}
	for _, c := range of {
		passages += sums[c.pk].Passages
		bytes += sums[c.pk].Bytes
		if c.Name != a.Collection {
			continue
		}
		old, _, err := s.rows.known(h, c.pk, a.Source.Name)
		if err != nil {
			return err
		}
		passages -= int64(old.Passages)
		bytes -= old.Bytes
	}
	limits := s.deps.Settings
	if passages > limits.MaxPassages || bytes > limits.MaxBytes {
		return ErrFull.Do(fmt.Sprintf("With it you would have %d passages of %d bytes; %d of %d bytes are allowed (KNOWLEDGE_MAX_PASSAGES, KNOWLEDGE_MAX_BYTES). Remove documents that are not needed.",
			passages, bytes, limits.MaxPassages, limits.MaxBytes))
	}
	return nil
}

// Validators are those of an owner's document; the zero value where it is to be
// read anew.
func (s *Service) Validators(ctx context.Context, o Owner, collection, source string) (Validators, error) {
	h := s.deps.DB.Read(ctx)
	of, err := s.rows.ofOwner(h, o, cmp.Or(collection, DefaultCollection))
	if err != nil || len(of) == 0 {
		return Validators{}, err
	}
	row, _, err := s.rows.known(h, of[0].pk, source)
	if row.Model != s.model() {
		return Validators{}, err
	}
	return Validators{row.Etag, row.LastModified}, err
}
