package rest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/portico-run/portico/internal/schema/shared"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/connector/rest/graphql/exchange"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// graphqlTypes keeps the definitions of toolsets that were needed last: reading
// those of a large API takes some tenths of a second.
type graphqlTypes struct {
	mu   sync.Mutex
	read map[*shared.Set]*ast.Schema
}

// maxGraphQLTypes is how many toolsets' definitions are kept.
const maxGraphQLTypes = 8

func (t *graphqlTypes) of(s *shared.Set) (*ast.Schema, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := t.read[s]; found != nil {
		return found, nil
	}
	types, err := exchange.Types(s.Schemas)
	if err != nil || types == nil {
		return nil, err
	}
	if t.read == nil || len(t.read) >= maxGraphQLTypes {
		t.read = map[*shared.Set]*ast.Schema{}
	}
	t.read[s] = types
	return types, nil
}

// graphqlCall is a call with the arguments that are sent: the request in
// GraphQL's language, and its variables.
func (c *Connector) graphqlCall(in tool.Invocation) (tool.Invocation, *tool.Failure) {
	g := in.Method.Adapter.GraphQL
	if g == nil {
		return in, nil
	}
	variables := maps.Clone(in.Arguments)
	if variables == nil {
		variables = map[string]any{}
	}
	query := g.Query
	if chosen, ok := variables[g.Fields].(string); ok && g.Fields != "" && chosen != "" {
		var failure *tool.Failure
		if query, failure = c.selected(in, *g, chosen); failure != nil {
			return in, failure
		}
	}
	if g.Fields != "" {
		delete(variables, g.Fields)
	}
	in.Arguments = map[string]any{"query": query, "operationName": in.Method.Name, "variables": variables}
	return in, nil
}

// selected is the request with the fields that the caller chose.
func (c *Connector) selected(in tool.Invocation, g toolset.GraphQL, fields string) (string, *tool.Failure) {
	i := slices.IndexFunc(in.Toolset.Methods, func(m toolset.Method) bool { return m.Name == in.Method.Name && m.Shared != nil })
	if i < 0 {
		return "", invalid(g.Fields, "cannot be chosen: the toolset has no types to check them against")
	}
	types, err := c.types.of(in.Toolset.Methods[i].Shared)
	if err != nil || types == nil {
		return "", invalid(g.Fields, "cannot be chosen: the toolset's types cannot be read; the administrator imports it again")
	}
	query, err := exchange.Select(types, g, fields)
	if err != nil {
		return "", invalid(g.Fields, err.Error())
	}
	return query, nil
}

// graphqlOutcome says what an answer to a request in GraphQL's language means:
// one with errors is a failure, whatever its status, with all that was answered.
func graphqlOutcome(g toolset.GraphQL, r upstream.Response, s upstream.Secrets) tool.Outcome {
	body := s.Redact(r.Body)
	answer, ok := exchange.Read(body)
	switch {
	case !ok && !r.OK():
		return failed(r.Refusal(s))
	case !ok:
		return failed(s.Scrub(&tool.Failure{
			Code: upstream.CodeInvalid, Message: "The upstream's answer is none of GraphQL. Upstream response: " + upstream.Quote(body),
		}))
	case len(answer.Errors) == 0 && r.OK():
		if data, ok := answer.Data[g.Root]; ok {
			return tool.Outcome{Data: data}
		}
		return failed(&tool.Failure{Code: upstream.CodeInvalid, Message: "The upstream answered without " + g.Root + ".", Data: body})
	case len(answer.Errors) == 0:
		return failed(r.Refusal(s))
	}
	f := &tool.Failure{Code: answer.Code(), Message: upstream.Limit(answer.Message(), 4*upstream.MaxReason), Data: body}
	if !r.OK() && f.Code == exchange.CodeError {
		f.Code = upstream.CodeOf(r.Status)
	}
	switch wait := answer.Wait(); {
	case r.Status == http.StatusTooManyRequests:
		f.Message += r.TryAgain()
	case f.Code == exchange.CodeLimited && wait > 0:
		f.Message += fmt.Sprintf(" Try again after %ds.", wait)
	}
	return failed(s.Scrub(f))
}
