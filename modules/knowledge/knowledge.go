package knowledge

import (
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
)

// DefaultCollection is where documents go that name none, Apple where
// apple_search looks.
const (
	DefaultCollection = "documents"
	Apple             = "apple"
)

// Owner is whose a collection is. The zero value is nobody's, and refused.
type Owner struct {
	uid    string
	shared bool
}

// Of is the owner of what a user adds.
func Of(a actor.Actor) Owner { return Owner{uid: a.UID} }

// Shared is the operator, whose collections all users search and none of them
// changes.
func Shared() Owner { return Owner{shared: true} }

// Collection is documents that are searched together. A user and the operator
// may each have one of the same name; a search by the name covers both.
type Collection struct {
	Name   string
	Shared bool
	// Documents, Passages and Bytes are how many there are, and how long the
	// passages' text is.
	Documents, Passages, Bytes int64
	// Vectors is how many passages have a vector of the configured model.
	Vectors   int64
	UpdatedAt time.Time

	pk, version int64
}

// Document is what was read of one source.
type Document struct {
	Collection               string
	Shared                   bool
	Source, Title, Framework string
	Passages                 int
	Bytes                    int64
	// Model is that of the vectors, with its dimensions; empty without any.
	Model                string
	CreatedAt, UpdatedAt time.Time

	pk int64
}

// Passage is a piece of a document.
type Passage struct {
	Ordinal                         int
	Title, Section, Framework, Text string
	Symbol                          string
	Source, Collection              string
	Shared                          bool
}

// Hit is a passage that was found.
type Hit struct {
	Passage

	// Score orders the hits of one search: 1 is a passage that every list has
	// first. It compares with no other search's.
	Score float64
	// Similarity is the cosine of the angle between the vectors of question and
	// passage; 0 where that is not known.
	Similarity float64

	pk int64
}

// Query asks for passages.
type Query struct {
	// Text is words, of which passages with more and rarer ones come first. With
	// "…" or -word it is taken as it is written: everything must be there, and
	// what stands after a minus must not.
	Text string
	// Collection limits the search to collections of this name; empty searches all
	// of the user's and the operator's.
	Collection string
	// Framework limits it to documents about one; empty is any.
	Framework string
	// TopK is how many passages are returned at most, 10 when 0.
	TopK int
}

// Limits of a search.
const (
	DefaultTopK = 10
	MaxTopK     = 100
	// MaxQuery is the longest question, in bytes.
	MaxQuery = 4096
)

// Found is what a search found, best first.
type Found struct {
	Hits []Hit
	// Note says why the search was less than it could be; empty where it was not.
	Note string
}

// Errors of the module.
var (
	ErrCollectionMissing = errs.New(errs.NotFound, "There is no such collection.")
	ErrDocumentMissing   = errs.New(errs.NotFound, "There is no document of this source in the collection.")
	ErrFull              = errs.New(errs.StorageFull, "The knowledge store has no room for the document.")
	errNobody            = errs.New(errs.Forbidden, "The document has no owner.")
)
