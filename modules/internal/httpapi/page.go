package httpapi

import (
	"encoding/base64"
	"strconv"

	"github.com/portico-run/portico/modules/internal/errs"
)

// Limits of a list's page.
const (
	DefaultPageSize = 50
	MaxPageSize     = 200
)

// PageQuery is the query of every list; embed it in an operation's input.
type PageQuery struct {
	Cursor string `query:"cursor" maxLength:"64" doc:"nextCursor of the page before; empty for the first"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"How many items at most"`
}

// Page is the data of every list.
type Page[T any] struct {
	Items      []T    `json:"items" nullable:"false"`
	NextCursor string `json:"nextCursor,omitempty" doc:"Set when there is more"`
}

// EncodeCursor hides a row number, so that clients do not count on its form.
func EncodeCursor(pk int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(pk, 36)))
}

// DecodeCursor reads a cursor; the empty one is zero.
func DecodeCursor(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		var pk int64
		if pk, err = strconv.ParseInt(string(b), 36, 64); err == nil && pk > 0 {
			return pk, nil
		}
	}
	return 0, errs.New(errs.Invalid, "The cursor is not valid.").Do("Use nextCursor of an earlier answer, or leave it out.").With(err)
}

// PageOf cuts a list that was read one item longer than the page, so that it
// knows whether there is more.
func PageOf[T any](items []T, limit int, pk func(T) int64) Page[T] {
	if len(items) <= limit {
		return Page[T]{Items: items}
	}
	return Page[T]{Items: items[:limit], NextCursor: EncodeCursor(pk(items[limit-1]))}
}

// MapPage turns a page of things into a page of what is written of them.
func MapPage[T, B any](p Page[T], body func(T) B) Page[B] {
	out := Page[B]{Items: make([]B, len(p.Items)), NextCursor: p.NextCursor}
	for i, item := range p.Items {
		out.Items[i] = body(item)
	}
	return out
}
