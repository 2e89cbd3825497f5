package httpapi

import (
	"cmp"
	"encoding/base64"
	"strconv"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
)

// Limits of a list's page.
const (
	DefaultPageSize = 50
	MaxPageSize     = 200
	// numberedPageSize is what a frontend that counts pages expects by default.
	numberedPageSize = 10
	// maxNumbered is how many items numbered pages reach: the database reads
	// all that are before a page.
	maxNumbered = 10_000
)

// PageQuery is the query of every list; embed it in an operation's input. A
// page is asked for by cursor and limit, or by its number.
type PageQuery struct {
	Cursor   string `query:"cursor" maxLength:"64" documented:"pattern=^[A-Za-z0-9_-]*$" doc:"nextCursor of the page before; empty for the first"`
	Limit    int    `query:"limit" minimum:"1" maximum:"200" doc:"How many items at most; 50 when left out"`
	Page     int    `query:"page" minimum:"1" doc:"Instead of a cursor, the number of the page; with total in the answer. Numbered pages reach 10000 items"`
	PageSize int    `query:"pageSize" minimum:"1" maximum:"200" doc:"Instead of limit, items of a numbered page; 10 when left out"`
}

// Window says which rows the query asks for.
func (q PageQuery) Window() (database.Window, error) {
	if q.Page == 0 && q.PageSize == 0 {
		after, err := DecodeCursor(q.Cursor)
		return database.Window{After: after, Limit: cmp.Or(q.Limit, DefaultPageSize)}, err
	}
	if q.Cursor != "" || q.Limit != 0 {
		return database.Window{}, errs.New(errs.Invalid, "The query asks for a page in two ways.").
			Do("Send page and pageSize, or cursor and limit.")
	}
	page, size := max(q.Page, 1), cmp.Or(q.PageSize, numberedPageSize)
	if page > maxNumbered/size {
		return database.Window{}, errs.Newf(errs.Invalid, "Numbered pages reach the first %d items only.", maxNumbered).
			Do("Go on with cursor: each answer has the next one as nextCursor.")
	}
	return database.Window{Offset: (page - 1) * size, Limit: size, Count: true}, nil
}

// Page is the data of every list.
type Page[T any] struct {
	Items      []T    `json:"items" nullable:"false"`
	NextCursor string `json:"nextCursor,omitempty" doc:"Set when there is more"`
	// The others come with a numbered page only.
	Total    *int64 `json:"total,omitempty" doc:"Items of the whole list, where page or pageSize was sent"`
	Page     int    `json:"page,omitempty" doc:"As it was asked for"`
	PageSize int    `json:"pageSize,omitempty" doc:"As it was asked for"`
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

// PageOf cuts a list that was read one item longer than its window, so that it
// knows whether there is more. total is that of the whole list, or nil.
func PageOf[T any](w database.Window, items []T, total *int64, pk func(T) int64) Page[T] {
	p := Page[T]{Items: items, Total: total}
	if len(items) > w.Limit {
		p.Items, p.NextCursor = items[:w.Limit], EncodeCursor(pk(items[w.Limit-1]))
	}
	if w.Count {
		p.Page, p.PageSize = w.Offset/w.Limit+1, w.Limit
	}
	return p
}

// MapPage turns a page of things into a page of what is written of them.
func MapPage[T, B any](p Page[T], body func(T) B) Page[B] {
	out := Page[B]{Items: make([]B, len(p.Items)), NextCursor: p.NextCursor, Total: p.Total, Page: p.Page, PageSize: p.PageSize}
	for i, item := range p.Items {
		out.Items[i] = body(item)
	}
	return out
}
