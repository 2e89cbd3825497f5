package flat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
)

// Call is a call of a plain function.
type Call struct {
	Name  string
	Input json.RawMessage // an object; empty for none
	// Context is what the call claims about where it was made.
	Context        tool.Context
	IdempotencyKey string
}

// Execute calls a plain function. The answer is a success: whatever went wrong is
// an error with a sentence for the caller. The whole result, if there is one, is
// closed by who gets it.
func (s *Service) Execute(ctx context.Context, a actor.Actor, c Call) (record.Answer, *record.Whole, error) {
	key, name, err := s.resolve(ctx, a, c.Name)
	if f, ok := errors.AsType[*tool.Failure](err); ok { // its server cannot be asked about it
		return record.Answer{}, nil, failed(c.Name, record.Answer{Error: f.Message, ErrorCode: f.Code, Data: f.Data})
	}
	if err != nil {
		return record.Answer{}, nil, err
	}
	answer, whole, err := s.deps.Executor.Execute(tool.Inside(ctx), a, tool.Request{
		Toolset: key, Tool: name, Arguments: c.Input, Context: c.Context, IdempotencyKey: c.IdempotencyKey,
	})
	if err != nil {
		return answer, nil, err
	}
	if answer.Status == record.Success {
		return answer, whole, nil
	}
	if whole != nil {
		_ = whole.Close() // it was not read
	}
	return answer, nil, failed(c.Name, answer)
}

// resolve finds the tool that a function is.
func (s *Service) resolve(ctx context.Context, a actor.Actor, name string) (key, tool string, err error) {
	f, own := s.deps.Functions.Find(name)
	switch {
	case ptc.NeverFromCode(name):
		return "", "", errs.Newf(errs.Forbidden, "Tool %s cannot be called: it %s.", name, ptc.WhyNeverFromCode)
	case s.deps.Settings.Off && name != Query:
		return "", "", errs.New(errs.Forbidden, "Plain functions are switched off on this server.").Do("The administrator switches them on with FLAT_TOOLS=true.")
	case own && !f.SandboxCallable:
		return "", "", errs.Newf(errs.Forbidden, "Tool %s is not one that code may call.", name)
	case own:
		return ptc.Own, name, nil
	}
	marks, err := s.deps.Marks.All(ctx)
	if err != nil {
		return "", "", err
	}
	for _, m := range marks {
		if m.Name != name {
			continue
		}
		why, err := s.contradiction(ctx, a, m)
		if err == nil && why != "" {
			err = errs.Newf(errs.Forbidden, "Tool %s cannot be called: it %s.", name, why)
		}
		return m.Toolset, m.Tool, err
	}
	return "", "", s.unknown(ctx, a, name)
}

// unknown says which functions there are, the nearest first.
func (s *Service) unknown(ctx context.Context, a actor.Actor, name string) error {
	sets, err := s.For(ctx, a, nil)
	if err != nil {
		return err
	}
	var names []string
	for _, set := range sets {
		for _, t := range set.Tools {
			names = append(names, t.As)
		}
	}
	slices.Sort(names)
	advice := "There are none: an operator marks tools with `portico tool mark`."
	if len(names) > 0 {
		advice = "There are: " + strings.Join(names, ", ") + "."
		if near := near(name, names); len(near) > 0 {
			advice = "Did you mean " + strings.Join(near, " or ") + "? " + advice
		}
	}
	return errs.Newf(errs.NotFound, "There is no tool %q that may be called here.", name).Do(advice)
}

// maxNear is how many names are offered for a wrong one.
const maxNear = 3

// near are the names that come closest to a wrong one: those that it nearly is,
// and those that have one of its words.
func near(name string, names []string) []string {
	var list []string
	if nearly := jsonschema.Nearly(name, names); nearly != "" {
		list = append(list, nearly)
	}
	for _, n := range names {
		shared := slices.ContainsFunc(strings.Split(strings.ToLower(name), "_"), func(word string) bool {
			return len(word) > 2 && slices.Contains(strings.Split(strings.ToLower(n), "_"), word)
		})
		if shared && len(list) < maxNear && !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}

// failed is the error of a call that did not succeed:
// docs/wire/flat-tools.md#failures.
func failed(name string, answer record.Answer) error {
	code := errs.ToolFailed
	switch answer.ErrorCode {
	case tool.CodeInvalidArguments:
		code = errs.Invalid
	case tool.CodeToolsetNotFound, tool.CodeMethodNotFound, tool.CodeNotFound:
		code = errs.NotFound
	case tool.CodeNotAuthorized, tool.CodeNotAllowed, tool.CodeCallerNotAllowed:
		code = errs.Forbidden
	case tool.CodeSpendingLimit:
		code = errs.NoCredits
	case CodeQueryLimit:
		code = errs.RateLimited
	case upstream.CodeUnavailable:
		code = errs.Unavailable
	case tool.CodeInternal:
		code = errs.Internal
	}
	return errs.Newf(code, "%s failed: %s", name, answer.Error).Do(fmt.Sprintf("(%s)", answer.ErrorCode)).At(connectURL(answer))
}

// connectURL is where a person authorizes what a call needs; empty where it failed
// for another reason.
func connectURL(answer record.Answer) string {
	var data struct {
		URL string `json:"url"`
	}
	if answer.ErrorCode != upstream.CodeAuthNeeded || json.Unmarshal(answer.Data, &data) != nil {
		return ""
	}
	return data.URL
}
