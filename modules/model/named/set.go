package named

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/model"
)

// Set asks models by their names. It is safe for concurrent use.
type Set struct {
	models map[string]*entry
	names  []string // that of the first one first
	first  string
	logger *slog.Logger
}

type entry struct {
	Model
	client *model.Client
}

// New makes a set of at least one model, in which an empty name is the one that is
// named first. It asks nothing yet.
func New(models []Model, first string, logger *slog.Logger) (*Set, error) {
	if len(models) == 0 {
		return nil, errors.New("there are no models")
	}
	s := &Set{models: map[string]*entry{}, first: first, logger: logger}
	for _, m := range models {
		m.Config.Logger = logger
		s.models[m.Name] = &entry{m, model.New(m.Config)}
		s.names = append(s.names, m.Name)
	}
	if first == "" {
		s.first = s.names[0]
	}
	at := slices.Index(s.names, s.first)
	if at < 0 {
		return nil, fmt.Errorf("there is no model %q; there are: %s", first, strings.Join(s.names, ", "))
	}
	s.names = slices.Concat([]string{s.first}, s.names[:at], s.names[at+1:])
	return s, nil
}

// Names are those of all models: the first one's, then the others' in their order.
func (s *Set) Names() []string { return slices.Clone(s.names) }

// Has reports whether there is a model of a name; the empty name is the first one's.
func (s *Set) Has(name string) bool { return name == "" || s.models[name] != nil }

// Find returns a model; the first one for an empty name, and for one that is gone.
func (s *Set) Find(name string) Model { return s.of(name).Model }

func (s *Set) of(name string) *entry {
	if e := s.models[name]; e != nil {
		return e
	}
	return s.models[s.first]
}

// Protocol is how a model is spoken with; the first one for an empty name.
func (s *Set) Protocol(name string) model.Protocol {
	return cmp.Or(s.of(name).Config.Protocol, model.Responses)
}

// Unsupported says what of the options a model would not be told, a sentence each.
func (s *Set) Unsupported(name string, o model.Options) []string {
	return s.of(name).client.Unsupported(o)
}

// CountTokens says how many tokens a request has for the model that would be asked
// first. It charges nothing and asks no fallback.
func (s *Set) CountTokens(ctx context.Context, req model.Request) (model.Counted, error) {
	name := s.candidates(req)[0]
	req.Input = readable(req.Input, name, len(s.models) > 1)
	return s.models[name].client.CountTokens(ctx, req)
}

// Fit prepares a tool for whichever model will be asked.
func (s *Set) Fit(t model.Tool) (model.Fitted, error) { return s.models[s.first].client.Fit(t) }

// Respond asks the model that the request names. Where it gives no answer, its
// fallbacks are asked in turn, and a conversation stays with the one that answered: the
// answer names it, and why the others did not answer. Those that are not admitted are
// passed over.
func (s *Set) Respond(ctx context.Context, req model.Request, on func(model.Delta)) (model.Response, error) {
	var (
		passed []model.Passed
		before error
	)
	candidates, err := s.admitted(ctx, req)
	if err != nil {
		return model.Response{}, err
	}
	for i, name := range candidates {
		e := s.models[name]
		asked := req
		asked.Input = readable(req.Input, name, len(s.models) > 1)
		heard := false
		got, err := e.client.Respond(ctx, asked, func(d model.Delta) {
			heard = heard || d.Kind != model.Restart
			on(d)
		})
		if err == nil {
			got.Name, got.Passed = name, passed
			if len(s.models) > 1 {
				got.Output = append([]model.Item{Marker(name)}, got.Output...)
			}
			return got, nil
		}
		why := err.Error()
		if len(passed) > 0 && errs.CodeOf(err) == errs.Invalid {
			err = before // this one cannot carry what the first one takes
		}
		before = err
		if i == len(candidates)-1 || ctx.Err() != nil || !gaveNoAnswer(err) {
			got.Name, got.Passed = name, passed
			return got, err
		}
		s.logger.WarnContext(ctx, "a model gives no answer; another one is asked", "model", name, "instead", candidates[i+1], "error", err)
		passed = append(passed, model.Passed{Name: name, Why: why})
		if heard {
			on(model.Delta{Kind: model.Restart})
		}
	}
	return model.Response{}, errors.New("there is no model to ask")
}

// candidates are the models to ask, in their order: the one that the conversation is
// with, then the fallbacks of the one that was asked for.
func (s *Set) candidates(req model.Request) []string {
	wanted := s.of(req.Model)
	names := []string{wanted.Name}
	for _, f := range wanted.Fallbacks {
		if !slices.Contains(names, f) {
			names = append(names, f)
		}
	}
	with := ""
	for _, raw := range req.Input {
		if name := MarkedBy(raw); name != "" {
			with = name
		}
	}
	if at := slices.Index(names, with); at > 0 {
		names = slices.Concat(names[at:at+1], names[:at], names[at+1:])
	}
	return names
}

// admitted are the candidates without those that nothing is left to pay with. The one
// that was asked for is always among them.
func (s *Set) admitted(ctx context.Context, req model.Request) ([]string, error) {
	var names []string
	for _, name := range s.candidates(req) {
		if req.Admit != nil && name != s.of(req.Model).Name {
			err := req.Admit(ctx, name)
			if errs.CodeOf(err) == errs.NoCredits {
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		names = append(names, name)
	}
	return names, nil
}

// gaveNoAnswer reports whether another model may do better: the provider could not be
// reached, was too busy, or broke. A request that it refused is refused.
func gaveNoAnswer(err error) bool {
	refused, ok := errors.AsType[*model.Error](err)
	if !ok {
		return false
	}
	switch status := refused.Status; {
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooManyRequests, status >= http.StatusInternalServerError:
		return true
	case status != 0:
		return false
	}
	return refused.Lost() || slices.Contains([]string{"overloaded_error", "api_error", "server_error", "rate_limit_error", "rate_limit_exceeded"}, refused.Code)
}

// markerType is the type of items that say which model wrote those after them. No
// provider sees them.
const markerType = "portico_model"

// Marker says which model wrote the items after it.
func Marker(name string) model.Item {
	text, _ := json.Marshal(map[string]string{"type": markerType, "name": name}) // texts always marshal
	return text
}

// MarkedBy is the name in a marker; empty for other items.
func MarkedBy(raw model.Item) string {
	var m struct{ Type, Name string }
	if json.Unmarshal(raw, &m) != nil || m.Type != markerType {
		return ""
	}
	return m.Name
}

// readable is a conversation for one model. What it wrote itself is as it wrote it;
// what another one wrote is the words and calls in it, since nobody else can read that
// one's reasoning.
func readable(items []model.Item, name string, several bool) []model.Item {
	out := make([]model.Item, 0, len(items))
	writer := ""
	if !several {
		writer = name
	}
	for _, raw := range items {
		switch by := MarkedBy(raw); {
		case by != "":
			writer = by
		case writer == name || model.Ours(raw):
			out = append(out, raw)
		default:
			out = append(out, model.Translate(raw)...)
		}
	}
	return out
}
