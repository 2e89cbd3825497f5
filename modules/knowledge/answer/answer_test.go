package answer_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/accesstest"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/knowledge"
	"github.com/portico-run/portico/modules/knowledge/answer"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool/function"
)

var anna = actor.Actor{UID: "u-anna", Scope: actor.Full}

// passages is a store that finds these, for anna.
type passages []knowledge.Hit

func (p passages) Search(_ context.Context, a actor.Actor, _ knowledge.Query) (knowledge.Found, error) {
	if a.UID != anna.UID {
		return knowledge.Found{}, nil
	}
	return knowledge.Found{Hits: p}, nil
}

// speaker is a model that says one thing.
type speaker struct {
	says    string
	cut     bool
	err     error
	asked   []string
	tokens  int64
	instead string // the model that answers in place of this one
	ended   model.Ending
}

func (s *speaker) Respond(ctx context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
	if s.instead != "" {
		if err := req.Admit(ctx, s.instead); err != nil {
			return model.Response{}, err
		}
	}
	for _, i := range req.Input {
		s.asked = append(s.asked, string(i))
	}
	b, err := json.Marshal([]any{map[string]any{"type": "message", "role": "assistant", "content": []any{map[string]any{"type": "output_text", "text": s.says}}}})
	if err != nil {
		return model.Response{}, err
	}
	r := model.Response{Model: "speaker-1", Name: s.instead, Ended: s.ended, Usage: model.Usage{Input: s.tokens, Output: s.tokens}}
	if s.cut {
		r.Incomplete = &struct {
			Reason string `json:"reason"`
		}{"max_output_tokens"}
	}
	return r, errors.Join(s.err, json.Unmarshal(b, &r.Output))
}

// books remember what is charged.
type books struct {
	refuse  error
	charged []billing.ModelCharge
}

func (b *books) AdmitModel(context.Context, string, string, int) error { return b.refuse }

func (b *books) ChargeModel(_ context.Context, _ database.Tx, c billing.ModelCharge) error {
	b.charged = append(b.charged, c)
	return nil
}

// calls are of a run.
type calls struct{}

func (calls) Call(_ context.Context, a actor.Actor, callID string) (record.Call, error) {
	return record.Call{CallID: callID, UID: a.UID, ResultID: "ar-1", Version: 3}, nil
}

type fixture struct {
	*answer.Service
	model *speaker
	books *books
	free  *bool // whether the model that is asked first is
}

func setup(t *testing.T, says string) fixture {
	t.Helper()
	hit := func(title, text string, similarity float64) knowledge.Hit {
		return knowledge.Hit{Passage: knowledge.Passage{Title: title, Source: strings.ToLower(title) + ".md", Text: text}, Similarity: similarity}
	}
	f := fixture{model: &speaker{says: says, tokens: 1_000_000}, books: &books{}, free: new(bool)}
	prices := func(name string) price.Tokens {
		switch {
		case name == "dear":
			return price.PerMillion(10*money.Credit, 20*money.Credit)
		case *f.free:
			return price.Tokens{}
		}
		return price.PerMillion(money.Credit, 2*money.Credit)
	}
	f.Service = answer.New(answer.Deps{
		Knowledge: passages{
			hit("Lamps", "A lantern burns for nine hours.", 0), hit("Pets", "Dogs may bark.", 0), hit("Near", "Nothing of the same words.", 0.9),
			hit("Far", "Nothing of it either.", 0.1),
		},
		Model: f.model, DB: databasetest.Open(t, database.SQLite, nil), Billing: f.books, Records: calls{},
		Settings: answer.Settings{Price: prices, Timeout: time.Minute, MinSimilarity: 0.5},
		Logger:   slog.New(slog.DiscardHandler),
	}).Service
	return f
}

func TestAnswersNameTheirSources(t *testing.T) {
	t.Parallel()
	f := setup(t, "Nine hours [1], or so [7].")
	got, err := f.Ask(t.Context(), function.Caller{Actor: anna, CallID: "call-1"}, answer.Question{Text: "How long do lanterns burn?"})
	require.NoError(t, err)
	require.Equal(t, "Nine hours [1], or so [7].", got.Text)
	require.Len(t, got.Sources, 1)
	require.Equal(t, 1, got.Sources[0].N)
	require.Equal(t, "lamps.md", got.Sources[0].Source)
	require.Contains(t, got.Note, "[7]", "no such source")
	asked := strings.Join(f.model.asked, "\n")
	require.Contains(t, asked, "[1] Lamps (lamps.md)")
	require.Contains(t, asked, "[2] Near")
	require.NotContains(t, asked, "Dogs", "it is about something else")
	require.NotContains(t, asked, "Far")
	require.Contains(t, asked, "How long do lanterns burn?")
	require.Equal(t, []billing.ModelCharge{{
		UID: anna.UID, ResultID: "ar-1", Version: 3, Model: "speaker-1", Input: 1_000_000, Output: 1_000_000, Price: 3 * money.Credit,
	}}, f.books.charged)
}

func TestAnswersThatNameNothingHaveAllSources(t *testing.T) {
	t.Parallel()
	f := setup(t, "Nine hours.")
	got, err := f.Ask(t.Context(), function.Caller{Actor: anna}, answer.Question{Text: "How long do lanterns burn?"})
	require.NoError(t, err)
	require.Len(t, got.Sources, 2)
	require.Empty(t, f.books.charged[0].ResultID, "it belongs to no run")
}

func TestWhatNothingAnswersIsSaid(t *testing.T) {
	t.Parallel()
	f := setup(t, "NOT FOUND.")
	got, err := f.Ask(t.Context(), function.Caller{Actor: anna}, answer.Question{Text: "How long do lanterns burn?"})
	require.NoError(t, err)
	require.Equal(t, answer.Nothing, got.Text)
	require.Empty(t, got.Sources)
	require.Len(t, f.books.charged, 1, "the model was asked")

	f = setup(t, "Never asked.")
	got, err = f.Ask(t.Context(), function.Caller{Actor: actor.Actor{UID: "u-ben"}}, answer.Question{Text: "How long do lanterns burn?"})
	require.NoError(t, err)
	require.Equal(t, answer.Nothing, got.Text)
	require.Empty(t, f.model.asked)
	require.Empty(t, f.books.charged)
}

func TestAnswersThatAreNotWholeAreErrors(t *testing.T) {
	t.Parallel()
	question := answer.Question{Text: "How long do lanterns burn?"}
	for name, change := range map[string]func(s *speaker){
		"cut":     func(s *speaker) { s.cut = true },
		"empty":   func(s *speaker) { s.says = " " },
		"refused": func(s *speaker) { s.err = &model.Error{Status: 500, Message: "of sk-secret"} },
	} {
		f := setup(t, "Nine hours [1].")
		change(f.model)
		_, err := f.Ask(t.Context(), function.Caller{Actor: anna}, question)
		require.Equal(t, errs.Unavailable, errs.CodeOf(err), name)
		require.NotContains(t, err.Error(), "sk-secret")
	}
	f := setup(t, "Nine hours [1].")
	f.books.refuse = errs.New(errs.NoCredits, "Nothing is left.")
	_, err := f.Ask(t.Context(), function.Caller{Actor: anna}, question)
	require.Equal(t, errs.NoCredits, errs.CodeOf(err))
	require.Empty(t, f.model.asked)

	none := answer.New(answer.Deps{Knowledge: passages{{Passage: knowledge.Passage{Text: "A lantern burns for nine hours."}}}})
	_, err = none.Service.Ask(t.Context(), function.Caller{Actor: anna}, question)
	var said *errs.Error
	require.ErrorAs(t, err, &said)
	require.Contains(t, said.Detail, "MODEL_NAME or MODEL_FILE")
}

// An answer costs what the model costs that gave it, also one in place of another, and
// a refusal is an answer. Who has no credits is not answered by a model that costs.
func TestAnswersCostWhatTheirModelCosts(t *testing.T) {
	t.Parallel()
	question := answer.Question{Text: "How long do lanterns burn?"}
	f := setup(t, "Nine hours [1].")
	f.model.instead = "dear"
	_, err := f.Ask(t.Context(), function.Caller{Actor: anna}, question)
	require.NoError(t, err)
	require.Equal(t, 30*money.Credit, f.books.charged[0].Price)

	f.model.err, f.model.ended = &model.Error{Message: "No."}, model.Refused
	_, err = f.Ask(t.Context(), function.Caller{Actor: anna}, question)
	require.Equal(t, errs.Unavailable, errs.CodeOf(err))
	require.Len(t, f.books.charged, 2)

	f = setup(t, "Nine hours [1].")
	f.model.instead, f.books.refuse = "dear", errs.New(errs.NoCredits, "Nothing is left.")
	*f.free = true
	_, err = f.Ask(t.Context(), function.Caller{Actor: anna}, question)
	require.Equal(t, errs.NoCredits, errs.CodeOf(err), "the first one is free")
	require.Empty(t, f.books.charged)
}

func TestEveryMethodIsScoped(t *testing.T) {
	t.Parallel()
	f := setup(t, "Nine hours [1].")
	accesstest.Each(t, reflect.TypeFor[*answer.Service](), map[string]func(t *testing.T){
		"Ask": func(t *testing.T) {
			got, err := f.Ask(t.Context(), function.Caller{Actor: actor.Actor{UID: "u-ben"}}, answer.Question{Text: "lantern"})
			require.NoError(t, err)
			require.Empty(t, got.Sources)
		},
	}, map[string]string{"Functions": "they take their user with each call"})
}
