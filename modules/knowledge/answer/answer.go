// Package answer is what programs and clients ask of the knowledge store: for
// passages, and for answers, which a model gives from passages and with its sources.
package answer

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/knowledge"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool/function"
)

// Knowledge finds passages.
type Knowledge interface {
	Search(ctx context.Context, a actor.Actor, q knowledge.Query) (knowledge.Found, error)
}

// Model answers requests.
type Model interface {
	Respond(ctx context.Context, req model.Request, on func(model.Delta)) (model.Response, error)
}

// Biller charges the answers of models.
type Biller interface {
	AdmitModel(ctx context.Context, uid, resultID string, version int) error
	ChargeModel(ctx context.Context, tx database.Tx, c billing.ModelCharge) error
}

// Records know the calls by which questions come.
type Records interface {
	Call(ctx context.Context, a actor.Actor, callID string) (record.Call, error)
}

// Deps is what the module needs.
type Deps struct {
	Knowledge Knowledge
	// Model is nil where none is configured.
	Model    Model
	DB       *database.DB
	Billing  Biller
	Records  Records
	Settings Settings
	Logger   *slog.Logger
}

// Settings are the price and the limits of answers.
type Settings struct {
	// Price is what the tokens of a model cost, by its name; the empty name is that of
	// the model that is asked first.
	Price func(model string) price.Tokens
	// Timeout bounds one answer.
	Timeout time.Duration
	// MinSimilarity is how near the vector of a passage must be to that of a
	// question, from 0 to 1, for the passage to answer it.
	MinSimilarity float64
}

// Module is the wired package.
type Module struct{ Service *Service }

// New wires the module and starts nothing.
func New(d Deps) *Module { return &Module{&Service{d}} }

// Service answers questions.
type Service struct{ deps Deps }

// ErrNoModel is the answer where no model is configured.
var ErrNoModel = errs.New(errs.Unavailable, "No model answers questions on this server.").
	Do("The administrator names one with MODEL_NAME or MODEL_FILE; search_knowledge works without.")

// Question asks for an answer.
type Question struct {
	Text string
	// Collection limits the sources to collections of this name; empty is all.
	Collection string
}

// Answer is what a model says about passages.
type Answer struct {
	// Text names its sources as [1]. It is Nothing where no passage answers the
	// question; there are no sources then.
	Text    string
	Sources []Cited
	Note    string
}

// Cited is a passage that an answer relies on, with the number it is named by.
type Cited struct {
	N int
	knowledge.Passage
}

// Nothing is the answer to a question that no passage answers.
const Nothing = "Nothing in the knowledge store answers this question."

// given is how many passages a model reads for one answer.
const given = 8

// Ask answers a question from the passages that fit it best. Without any, no
// model is asked. The answer is charged like every other of a model's.
func (s *Service) Ask(ctx context.Context, c function.Caller, q Question) (Answer, error) {
	found, err := s.deps.Knowledge.Search(ctx, c.Actor, knowledge.Query{Text: q.Text, Collection: q.Collection, TopK: given})
	if err != nil {
		return Answer{}, err
	}
	sources := s.fitting(q.Text, found.Hits)
	if len(sources) == 0 {
		return Answer{Text: Nothing, Note: found.Note}, nil
	}
	if s.deps.Model == nil {
		return Answer{}, ErrNoModel
	}
	text, err := s.respond(ctx, c, prompt(q.Text, sources))
	if err != nil {
		return Answer{}, err
	}
	if strings.Trim(text, " \n.*`\"") == notFound {
		return Answer{Text: Nothing, Note: found.Note}, nil
	}
	used, invented := cited(text, sources)
	if invented != "" {
		found.Note = strings.TrimSpace(found.Note + " The answer names sources that there are not: " + invented + ".")
	}
	return Answer{text, used, found.Note}, nil
}
