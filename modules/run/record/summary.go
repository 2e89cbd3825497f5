package record

import (
	"context"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
)

// Summary is a call without what it was asked and answered in full.
type Summary struct {
	CallID   string
	ParentID string // the program it was made by; empty for others
	Origin   ids.Origin
	UID      string
	ResultID string
	Version  int
	StepName string
	Toolset  string
	Tool     string
	Line     int // as Call has it
	Status   Status
	// Arguments are the beginning of the arguments' JSON text. A text that is cut
	// ends with "…".
	Arguments string
	// Error is the beginning of why the call failed, cut in the same way.
	Error string
	// Credits are what was charged for the call; nil where nothing was.
	Credits *money.Amount
	// Bytes is the size of the whole result; nil where it is not known.
	Bytes     *int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

// The most characters of a summary's texts.
const (
	maxArguments = 160
	maxError     = 300
)

// Summaries returns the calls of the given ids that are the actor's, by id. It
// reads no result.
func (s *Service) Summaries(ctx context.Context, a actor.Actor, callIDs []string) (map[string]Summary, error) {
	rows, err := s.rows.summaries(s.db.Read(ctx), a.UID, callIDs)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]Summary, len(rows))
	for _, r := range rows {
		byID[r.CallID] = r.summary()
	}
	return byID, nil
}

// ListSummaries is List without what the calls were asked and answered in full.
func (s *Service) ListSummaries(ctx context.Context, a actor.Actor, f Filter, p httpapi.PageQuery) (httpapi.Page[Summary], error) {
	w, err := s.window(ctx, a, f, p)
	if err != nil {
		return httpapi.Page[Summary]{}, err
	}
	rows, total, err := s.rows.listSummaries(s.db.Read(ctx), a.UID, f, w)
	if err != nil {
		return httpapi.Page[Summary]{}, err
	}
	return httpapi.MapPage(httpapi.PageOf(w, rows, total, func(r summaryRow) int64 { return r.PK }), summaryRow.summary), nil
}

// wrapping is what records have before the arguments, as WrapInput writes it.
const wrapping = `{"input":`

// shownArguments is the beginning of arguments, of the beginning of what a record
// holds. input has more characters than are shown, unless it is whole.
func shownArguments(input string) string {
	text, wrapped := strings.CutPrefix(input, wrapping)
	if wrapped && len([]rune(input)) < readArguments {
		text = strings.TrimSuffix(text, "}")
	}
	return cut(text, maxArguments)
}

// cut is a text of at most so many characters.
func cut(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}
