// Package read turns files and pages into documents of sections, and documents
// into passages of a size that a search can use. HTML, Markdown and text are read
// here; PDF and Word are read in the sandbox, because their readers are large and
// what they read may be made to break them.
package read

import (
	"context"
	"io"
)

// Document is a text with its parts in order.
type Document struct {
	// Source is where it comes from: an address or the name of a file.
	Source, Title string
	// Framework and Symbol say what a page of programming documentation is about,
	// such as SwiftUI and View.body; empty for all others.
	Framework, Symbol string
	Sections          []Section
}

// Section is what stands below one heading, as Markdown. Title is the path of
// headings, as "Install > Linux"; it is empty before the first heading.
type Section struct{ Title, Text string }

// Passage is a piece of a document that can be found by itself.
type Passage struct {
	Title, Section, Framework, Text string
	Symbol                          string
}

// Source is what is read.
type Source struct {
	// Name is an address or the name of a file; MIME is its media type as it was
	// declared, with a charset perhaps, or empty.
	Name, MIME string
	// Open gives the content, which has Size bytes. Size is below zero where it
	// is not known.
	Open func() (io.ReadCloser, error)
	Size int64
}

// Reader reads one kind of source. Errors that a caller can do something about
// are those of this package.
type Reader interface {
	Read(ctx context.Context, s Source) (Document, error)
}
