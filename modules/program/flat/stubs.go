package flat

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/schema/jsontree"
	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/catalogue/signature"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// The parts of the text that are the same for everybody.
//
//go:embed stubs_head.py
var head string

//go:embed stubs_query.py
var query string

//go:embed stubs_batch.py
var batch string

// Callback is where a sandbox reaches this server.
type Callback struct {
	// URL is the server's; empty for the host of a container.
	URL string
	// Local says that the sandbox is a process of the server's machine.
	Local bool
}

// address is the URL that functions call.
func (s *Service) address(c Callback) (string, error) {
	switch {
	case c.URL != "" && c.Local:
		return "", errs.New(errs.Invalid, "callbackUrl and local are two answers to one question.").Do("Send one of them.")
	case c.Local:
		return "http://127.0.0.1:" + s.deps.Settings.Port, nil
	case c.URL == "":
		return "http://host.docker.internal:" + s.deps.Settings.Port, nil
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errs.New(errs.Invalid, "callbackUrl must be an http or https URL without credentials, query and fragment.").Do("Such as http://10.0.0.5:5800.")
	}
	return strings.TrimSuffix(c.URL, "/"), nil
}

// Stubs writes the functions of a user as a Python text that needs the standard
// library only. llm_query comes first, and is the same whatever follows it. No
// credential is in the text. The error is NotFound where there is no function.
func (s *Service) Stubs(ctx context.Context, a actor.Actor, c Callback) (string, error) {
	address, err := s.address(c)
	if err != nil {
		return "", err
	}
	sets, err := s.For(ctx, a, nil)
	if err != nil {
		return "", err
	}
	var b, rest strings.Builder
	fmt.Fprintf(&b, "# Functions of Portico for this sandbox. The key that they call with is in the\n# environment variable PORTICO_API_KEY.\nPORTICO_URL = %s\n%s", literal(address), head)
	stubs := catalogue.Stubs(sandbox.Python, sets)
	if len(stubs) == 0 {
		return "", errs.New(errs.NotFound, "There are no functions for you.").Do("An operator marks tools with `portico tool mark`, or names a model with LLM_QUERY_MODEL.")
	}
	names := map[catalogue.Ref]string{}
	for _, set := range sets {
		for _, t := range set.Tools {
			names[catalogue.Ref{Toolset: set.Key, Tool: t.Name}] = t.As
		}
	}
	for _, one := range stubs {
		call := "_portico_tool(%s, %s, [%s])"
		if one.Name == loads && one.Toolset == catalogue.Own {
			helper, err := guest.VariableHelper()
			if err != nil {
				return "", err
			}
			rest.WriteString("\n\n" + helper)
			call = "portico_variable(" + call + ")"
		}
		switch {
		case one.Name == Query && one.Toolset == catalogue.Own:
			b.WriteString(query)
			if !s.deps.Settings.Off {
				rest.WriteString(batch)
			}
		default:
			if err := define(&rest, one, names[catalogue.Ref{Toolset: one.Toolset, Tool: one.Name}], call); err != nil {
				return "", err
			}
		}
	}
	return b.String() + rest.String(), nil
}

// loads is the function whose result becomes a variable.
const loads = "load_file"

// define writes the function that is called by a name. call is the form of what
// it returns.
func define(b *strings.Builder, s sandbox.Stub, name, call string) error {
	var parameters, given []string
	open := s.Open
	for _, p := range s.Parameters {
		if !signature.Identifier(p.Name) {
			open = true
			continue
		}
		text := p.Name
		if p.Type != "" {
			text += ": " + annotation(p.Type)
		}
		if !p.Required {
			value := "None"
			if len(p.Default) > 0 {
				v, err := jsontree.Parse(p.Default)
				if err != nil {
					return err
				}
				value = python(v)
			}
			text += " = " + value
		}
		parameters = append(parameters, text)
		given = append(given, literal(p.Name)+": "+p.Name)
	}
	arguments := "{" + strings.Join(given, ", ") + "}"
	if open {
		parameters = append(parameters, "**_more")
		arguments = "{**" + arguments + ", **_more}"
	}
	var nullable []string
	for _, p := range s.Parameters {
		if p.Required && p.Nullable {
			nullable = append(nullable, literal(p.Name))
		}
	}
	returns := ""
	if s.Returns != "" {
		returns = " -> " + annotation(s.Returns)
	}
	fmt.Fprintf(b, "\n\ndef %s(%s)%s:\n    %s\n    return "+call+"\n",
		s.Identifier, strings.Join(parameters, ", "), returns, documentation(s.Doc), literal(name), arguments, strings.Join(nullable, ", "))
	return nil
}

// annotation is a type: one of Python's own by its name, any other in words.
func annotation(text string) string {
	switch text {
	case "str", "int", "float", "bool", "dict", "list":
		return text
	}
	return literal(text)
}

// documentation is a docstring.
func documentation(text string) string {
	if text == "" || strings.ContainsAny(text, "\\\r") || strings.Contains(text, `"""`) || strings.HasSuffix(text, `"`) {
		return literal(text)
	}
	return `"""` + strings.ReplaceAll(text, "\n", "\n    ") + `"""`
}

// literal is a text as Python writes it, which reads the escapes of JSON.
func literal(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // texts always encode
	return strings.TrimSpace(b.String())
}

// python is a value of JSON as Python writes it.
func python(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		return literal(v)
	case []any:
		parts := make([]string, len(v))
		for i, one := range v {
			parts[i] = python(one)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case *jsontree.Object:
		parts := make([]string, 0, v.Len())
		for _, name := range v.Names() {
			parts = append(parts, literal(name)+": "+python(v.Get(name)))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v) // a number
}
