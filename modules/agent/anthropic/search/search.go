// Package search finds tools of a request that its model has not been shown:
// docs/wire/anthropic.md#tool-search.
package search

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/toolset"
)

// The names of the tools.
const (
	regexName = "tool_search_tool_regex"
	bm25Name  = "tool_search_tool_bm25"
)

// dated is the newest version of both.
const dated = "_20251119"

// Is reports whether a type of tools is one of these.
func Is(kind string) bool {
	name := NameOf(kind)
	return name == regexName || name == bm25Name
}

// NameOf is the name of a tool of a type.
func NameOf(kind string) string { return strings.TrimSuffix(kind, dated) }

// Limits of a search.
const (
	maxPattern = 200 // characters
	maxFound   = 5
)

const (
	regexSchema = `{"type":"object","properties":{"pattern":{"type":"string","description":"A regular expression (RE2), at most 200 characters, such as (?i)weather|forecast"}},"required":["pattern"],"additionalProperties":false}`
	bm25Schema  = `{"type":"object","properties":{"query":{"type":"string","description":"Words that say what the tool is to do"}},"required":["query"],"additionalProperties":false}`
	regexText   = "Finds more tools by a regular expression that is looked for in their names and descriptions. You have those that are found from then on."
	bm25Text    = "Finds more tools by words about what they are to do. You have those that are found from then on."
)

// Tool is the tool of a name, over those of tools that are deferred.
func Tool(name string, tools []dialogue.Tool) dialogue.OwnTool {
	var deferred []dialogue.Tool
	for _, t := range tools {
		if t.Deferred && t.Direct {
			deferred = append(deferred, t)
		}
	}
	if name == regexName {
		return dialogue.OwnTool{Name: name, Description: regexText, Schema: json.RawMessage(regexSchema), Run: func(_ context.Context, arguments json.RawMessage) (dialogue.OwnResult, error) {
			return byPattern(deferred, arguments)
		}}
	}
	return dialogue.OwnTool{Name: name, Description: bm25Text, Schema: json.RawMessage(bm25Schema), Run: func(_ context.Context, arguments json.RawMessage) (dialogue.OwnResult, error) {
		return byWords(deferred, arguments)
	}}
}

// Text is what the model is told of a search.
func Text(names []string) string {
	if len(names) == 0 {
		return "No tool was found."
	}
	return "You have these tools now: " + strings.Join(names, ", ")
}

func result(names []string) dialogue.OwnResult {
	return dialogue.OwnResult{Text: Text(names), Loads: names}
}

func byPattern(tools []dialogue.Tool, arguments json.RawMessage) (dialogue.OwnResult, error) {
	var asked struct {
		Pattern string `json:"pattern"`
	}
	switch {
	case json.Unmarshal(arguments, &asked) != nil || asked.Pattern == "":
		return dialogue.OwnResult{}, errs.New(errs.Invalid, "pattern must be a text")
	case utf8.RuneCountInString(asked.Pattern) > maxPattern:
		return dialogue.OwnResult{}, errs.Newf(errs.Invalid, "The pattern has more than %d characters", maxPattern)
	}
	pattern, err := regexp.Compile(asked.Pattern)
	if err != nil {
		return dialogue.OwnResult{}, errs.Newf(errs.Invalid, "Invalid regular expression pattern: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	var names []string
	for _, t := range tools {
		if len(names) < maxFound && (pattern.MatchString(t.Name) || pattern.MatchString(t.Description)) {
			names = append(names, t.Name)
		}
	}
	return result(names), nil
}

func byWords(tools []dialogue.Tool, arguments json.RawMessage) (dialogue.OwnResult, error) {
	var asked struct {
		Query string `json:"query"`
	}
	if json.Unmarshal(arguments, &asked) != nil || strings.TrimSpace(asked.Query) == "" {
		return dialogue.OwnResult{}, errs.New(errs.Invalid, "query must be a text")
	}
	set := toolset.Definition{Key: "client"}
	for _, t := range tools {
		set.Tools = append(set.Tools, toolset.ToolDefinition{Name: t.Name, Description: t.Description, InputSchema: t.Schema, Callers: toolset.Callers{Code: true}})
	}
	var names []string
	for _, t := range catalogue.New([]toolset.Definition{set}, nil).Find(asked.Query) {
		if len(names) < maxFound {
			names = append(names, t.Name)
		}
	}
	return result(names), nil
}
