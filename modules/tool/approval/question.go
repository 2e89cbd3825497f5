package approval

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/internal/wake"
)

// Asked is what a tool asks a person in the middle of a call. The words are the
// tool's, and may say anything.
type Asked struct {
	// From is the name of who asks.
	From    string `json:"from" example:"MCP server booking" doc:"Who asks"`
	Message string `json:"message" doc:"The question, in the words of who asks"`
	// Schema describes the answer, an object of plain values; empty for none.
	Schema json.RawMessage `json:"schema,omitempty" documented:"type=object additionalProperties=true" doc:"What the answer looks like"`
	// URL is a page that the person is to visit before they answer; empty for none.
	URL string `json:"url,omitempty" doc:"A page to visit before the answer"`
}

// Reply is what came of a question.
type Reply struct {
	State   State
	Content json.RawMessage // an object; nil where the answer has none
}

// Bounds of a question.
const (
	maxMessage    = 4 << 10  // bytes
	maxSchema     = 16 << 10 // bytes
	maxURL        = 2 << 10  // bytes
	maxProperties = 20
)

// Ask makes a call of this process, which executes, wait for an answer, and returns
// when there is one, or nobody gave one in time. The call executes again then. It
// returns ErrTooMany, and the call does not wait, where too many of its user do; and
// an error with the code Invalid for a question that nobody could be shown.
func (s *Service) Ask(ctx context.Context, q Question, asked Asked) (Reply, error) {
	if err := asked.check(); err != nil {
		return Reply{}, err
	}
	woken, cancel := s.deps.Hub.Subscribe(wake.Topic(settled, q.Call.CallID))
	defer cancel()
	q.Leave = nil // what was sent cannot go on in another process
	if err := s.hold(ctx, q, Need{Reason: asked.From + " asks a question."}, &asked); err != nil {
		return Reply{}, err
	}
	row, err := s.await(ctx, q, woken)
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer done()
	if err != nil {
		return Reply{}, err
	}
	r := Reply{State: row.State}
	if row.State == Allowed && row.ChangedArguments != nil {
		r.Content = json.RawMessage(*row.ChangedArguments)
	}
	return r, s.deps.Records.Take(ctx, q.Call, nil)
}

// check refuses a question that cannot be shown whole, or whose answer nobody could
// type.
func (a Asked) check() error {
	for _, part := range []struct {
		name      string
		has, most int
	}{{"message", len(a.Message), maxMessage}, {"schema", len(a.Schema), maxSchema}, {"address", len(a.URL), maxURL}} {
		if part.has > part.most {
			return errs.Newf(errs.Invalid, "The %s of its question has more than %d bytes.", part.name, part.most)
		}
	}
	if len(a.Schema) == 0 {
		return nil
	}
	var schema struct {
		Type       string
		Properties map[string]struct {
			Type any
			Enum []any
		}
	}
	if err := json.Unmarshal(a.Schema, &schema); err != nil || schema.Type != "object" {
		return errs.New(errs.Invalid, "The schema of its question does not describe an object.").With(err)
	}
	if len(schema.Properties) > maxProperties {
		return errs.Newf(errs.Invalid, "Its question wants %d values, and may want %d.", len(schema.Properties), maxProperties)
	}
	for name, p := range schema.Properties {
		if kind, _ := p.Type.(string); !slices.Contains([]string{"string", "number", "integer", "boolean", "array"}, kind) && len(p.Enum) == 0 {
			return errs.Newf(errs.Invalid, "The value %.64q that its question wants is none that a person can give.", name)
		}
	}
	if _, err := jsonschema.Compile(a.Schema); err != nil {
		return errs.New(errs.Invalid, "The schema of its question is no JSON Schema.").With(err)
	}
	return nil
}

// answered is what a ruling changes of a row that waits for an answer.
func (s *Service) answered(row approvalRow, r Ruling) (map[string]any, error) {
	switch r.Decision {
	case Refuse:
		return map[string]any{"state": Refused, "decision": r.Decision, "note": cmp.Or(r.Reason, noReason)}, nil
	case Allow:
	default:
		return nil, errs.Newf(errs.Invalid, "The call waits for the answer to a question; %s is none.", r.Decision).Do("Decide allow, with the answer as arguments, or refuse.")
	}
	columns := map[string]any{"state": Allowed, "decision": r.Decision, "note": r.Reason}
	var asked Asked
	if err := json.Unmarshal([]byte(*row.Question), &asked); err != nil {
		return nil, err
	}
	given := len(r.Arguments) > 0 && string(r.Arguments) != "null"
	switch {
	case len(asked.Schema) == 0 && given:
		return nil, errs.New(errs.Invalid, "The question takes no values.").Do("Decide allow without arguments, or refuse.")
	case len(asked.Schema) == 0:
		return columns, nil
	case !given:
		return nil, errs.New(errs.Invalid, "The question takes values.").Do("Send the answer as arguments, as question.schema describes it, or refuse.")
	case len(r.Arguments) > maxSchema:
		return nil, errs.Newf(errs.TooLarge, "The answer has more than %d bytes.", maxSchema)
	}
	answer, err := object(r.Arguments)
	if err != nil {
		return nil, errs.New(errs.Invalid, "The answer is not a JSON object.").Do("Send an object, as question.schema describes it.").With(err)
	}
	schema, err := jsonschema.Compile(asked.Schema)
	if err != nil {
		return nil, err
	}
	if problems := schema.Check(answer); len(problems) > 0 {
		return nil, errs.New(errs.Invalid, "The answer does not fit the question: "+problems.String())
	}
	var text bytes.Buffer
	if err := json.Compact(&text, r.Arguments); err != nil {
		return nil, err
	}
	columns["changed_arguments"] = text.String()
	return columns, nil
}

// text is a question as a row has it; nil for none.
func (a *Asked) text() (*string, error) {
	if a == nil {
		return nil, nil //nolint:nilnil // NULL is no question
	}
	text, err := json.Marshal(a)
	return new(string(text)), err
}

// nextRound is which wait of its call comes next.
func (s *Service) nextRound(tx database.Tx, q Question) (int, error) {
	n, err := s.rows.waits(tx.Handle, q.Call.UID, q.Call.CallID)
	return int(n), err
}
