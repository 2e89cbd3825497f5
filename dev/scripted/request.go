package scripted

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/portico-run/portico/internal/schema/strict"
)

// request is what the server reads of a request.
type request struct {
	Model  string `json:"model"`
	Stream bool   `json:"stream"`
	Input  json.RawMessage
	Tools  []tool `json:"tools"`

	options

	items []item
	size  int
	usage bool // it is reported
}

type tool struct {
	Type       string          `json:"type"`
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
	Strict     bool            `json:"strict"`
}

type item struct {
	ID     string          `json:"id"`
	Type   string          `json:"type"`
	Role   string          `json:"role"`
	CallID string          `json:"call_id"`
	Text   json.RawMessage `json:"content"`
	Output json.RawMessage `json:"output"`
	Failed json.RawMessage `json:"is_error"`
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// sentence is a refusal in the service's own words.
type sentence string

// Error implements error.
func (s sentence) Error() string { return string(s) }

func refuseText(format string, args ...any) error { return sentence(fmt.Sprintf(format, args...)) }

func (responses) read(raw []byte, _ http.Header) (request, error) {
	req := request{size: len(raw)}
	if err := json.Unmarshal(raw, &req); err != nil {
		return req, unparsed(err)
	}
	var text string
	if json.Unmarshal(req.Input, &text) == nil {
		req.items = []item{{Type: "message", Role: "user"}}
	} else if err := json.Unmarshal(req.Input, &req.items); err != nil || len(req.items) == 0 {
		return req, refuseText("Missing required parameter: 'input'.")
	}
	for i, it := range req.items {
		if err := it.check(fmt.Sprintf("input[%d]", i)); err != nil {
			return req, err
		}
	}
	return req, req.options.check("responses", raw)
}

// check refuses what is wrong with an item of the Responses protocol.
func (it item) check(where string) error {
	types := []string{"input_text", "input_image", "input_file"}
	switch {
	case it.Failed != nil:
		return refuseText("Unknown parameter: '%s.is_error'.", where)
	case it.Type == "function_call_output":
		return checkParts(where+".output", it.Output, types...)
	case it.Type != "message":
		return nil
	case it.Role == "assistant":
		types = []string{"output_text", "refusal"}
	}
	return checkParts(where+".content", it.Text, types...)
}

func unparsed(err error) error {
	return refuseText("We could not parse the JSON body of your request: %v", err)
}

// check refuses what each service refuses.
func (r request) check() error {
	if r.Model == "" {
		return refuseText("Missing required parameter: 'model'.")
	}
	names := map[string]bool{}
	for i, t := range r.Tools {
		switch {
		case t.Type != "function":
			continue
		case !toolName.MatchString(t.Name):
			return refuseText("Invalid 'tools[%d].name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", i)
		case names[t.Name]:
			return refuseText("Duplicate tool name %q.", t.Name)
		}
		names[t.Name] = true
		if t.Strict {
			if err := strict.Verify(t.Parameters); err != nil {
				return refuseText("Invalid schema for function '%s': %v", t.Name, err)
			}
		}
	}
	return r.calls()
}

// calls checks that every call has its output, and every output its call.
func (r request) calls() error {
	open := map[string]bool{}
	known := map[string]bool{}
	for _, it := range r.items {
		switch it.Type {
		case "function_call":
			open[it.CallID], known[it.CallID] = true, true
		case "function_call_output":
			if !known[it.CallID] {
				return refuseText("No tool call found for function call output with call_id %s.", it.CallID)
			}
			delete(open, it.CallID)
		}
	}
	for id := range open {
		return refuseText("No tool output found for function call %s.", id)
	}
	return nil
}

// ownID finds the turn in the ids that the server gives its items.
var ownID = regexp.MustCompile(`_scripted_(\d+)_`)

// turn is the number of the turn that answers the request.
func (r request) turn(s Script) int {
	next := 0
	for _, it := range r.items {
		for _, id := range []string{it.ID, it.CallID} { // clients may keep one of them only
			m := ownID.FindStringSubmatch(id)
			if m == nil {
				continue
			}
			if n, err := strconv.Atoi(m[1]); err == nil {
				next = max(next, n+1)
			}
		}
	}
	if next > 0 {
		return next
	}
	said := r.last()
	return max(0, slices.IndexFunc(s.Turns, func(t Turn) bool { return t.On != "" && strings.Contains(said, t.On) }))
}

// last is what the user said last, as JSON.
func (r request) last() string {
	for _, it := range slices.Backward(r.items) {
		if it.Role == "user" {
			return string(it.Text)
		}
	}
	return ""
}

// first tells conversations apart: by what the user said first.
func (r request) first() string {
	for _, it := range r.items {
		if it.Role == "user" {
			return string(it.Text)
		}
	}
	return ""
}
