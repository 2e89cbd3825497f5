package exchange

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// Error is one that a server tells in its answer.
type Error struct {
	Message string `json:"message"`
	Path    []any  `json:"path"`
	// Type is where some servers put what others put into Extensions.
	Type string `json:"type"`
	// Extensions are the server's own, of any form.
	Extensions json.RawMessage `json:"extensions"`
}

// words are those of an error's extensions that name its kind.
func (e Error) words() []string {
	var extensions struct {
		Code any `json:"code"`
		Type any `json:"type"`
	}
	_ = json.Unmarshal(e.Extensions, &extensions) // what has another form names no kind
	code, _ := extensions.Code.(string)
	kind, _ := extensions.Type.(string)
	return []string{code, kind, e.Type}
}

// Answer is what a server says.
type Answer struct {
	Data   map[string]json.RawMessage
	Errors []Error
	// Cost is what some servers say of their budget.
	Cost cost
}

type cost struct {
	Requested float64 `json:"requestedQueryCost"`
	Throttle  struct {
		Available float64 `json:"currentlyAvailable"`
		Rate      float64 `json:"restoreRate"`
	} `json:"throttleStatus"`
}

// Read reads an answer. It reports false for what is not one of GraphQL.
func Read(body []byte) (Answer, bool) {
	var a struct {
		Data       *map[string]json.RawMessage `json:"data"`
		Errors     []Error                     `json:"errors"`
		Extensions json.RawMessage             `json:"extensions"`
	}
	if json.Unmarshal(body, &a) != nil || a.Data == nil && len(a.Errors) == 0 {
		return Answer{}, false
	}
	out := Answer{Errors: a.Errors}
	var known struct {
		Cost cost `json:"cost"`
	}
	if json.Unmarshal(a.Extensions, &known) == nil { // they are the server's own, of any form
		out.Cost = known.Cost
	}
	if a.Data != nil {
		out.Data = *a.Data
	}
	return out, true
}

// maxErrors is how many errors a message has.
const maxErrors = 5

// Message is what the errors say, each with the field that it is about.
func (a Answer) Message() string {
	var parts []string
	for i, e := range a.Errors {
		if i == maxErrors {
			parts = append(parts, fmt.Sprintf("and %d more errors", len(a.Errors)-i))
			break
		}
		text := strings.TrimSuffix(strings.TrimSpace(e.Message), ".")
		if text == "" {
			text = "An error without a message"
		}
		if len(e.Path) > 1 {
			steps := make([]string, len(e.Path))
			for i, step := range e.Path {
				steps[i] = fmt.Sprint(step)
			}
			text += " (at " + strings.Join(steps, ".") + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ") + "."
}

// Codes of failures that this package tells apart.
const (
	CodeError   = "GRAPHQL_ERROR"
	CodeLimited = "RATE_LIMIT_ERROR"
)

// Code is the code of a failure, by what servers call their errors.
func (a Answer) Code() string {
	for _, e := range a.Errors {
		for _, word := range e.words() {
			switch strings.ToUpper(strings.NewReplacer("-", "_", " ", "_").Replace(word)) {
			case "RATE_LIMITED", "RATELIMITED", "RATE_LIMIT", "THROTTLED", "TOO_MANY_REQUESTS", "RATE_LIMIT_EXCEEDED":
				return CodeLimited
			case "UNAUTHENTICATED", "UNAUTHORIZED", "AUTHENTICATION_ERROR":
				return "UNAUTHORIZED"
			case "FORBIDDEN", "ACCESS_DENIED":
				return "FORBIDDEN"
			case "NOT_FOUND":
				return "NOT_FOUND"
			case "BAD_USER_INPUT", "GRAPHQL_VALIDATION_FAILED", "GRAPHQL_PARSE_FAILED":
				return "BAD_REQUEST"
			}
		}
	}
	return CodeError
}

// Wait is how many seconds until the server's budget allows the request again;
// 0 where the answer does not say.
func (a Answer) Wait() int {
	missing := a.Cost.Requested - a.Cost.Throttle.Available
	if missing <= 0 || a.Cost.Throttle.Rate <= 0 {
		return 0
	}
	return int(math.Ceil(min(missing/a.Cost.Throttle.Rate, 3600)))
}
