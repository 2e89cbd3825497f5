// Package wire has the names, ids and errors that requests and answers of Anthropic's
// Messages API share: docs/wire/anthropic.md#messages.
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Prefixes of ids. Those of the model's own calls are the provider's.
const (
	CallPrefix      = "toolu_"     // before the id of a call of a program
	ProgramPrefix   = "srvtoolu_"  // before that of a program, or a search
	ContainerPrefix = "container_" // before that of a session
)

// Names of tools and of their callers.
const (
	CodePrefix = "code_execution_" // begins the types of the tool that runs programs
	OldestCode = "code_execution_20250522"
	EarlyCode  = "code_execution_20250825"
	// LateCode is what calls of programs of all newer types are marked with.
	LateCode   = "code_execution_20260120"
	NewestCode = "code_execution_20260521"
	CodeName   = "code_execution"
	Direct     = "direct"
	// ApprovalTool is a client's tool that is shown calls which wait for a person.
	ApprovalTool = "portico_approval"
)

// Caller is who calls a tool: the model, or a program.
type Caller struct {
	Type   string `json:"type"`
	ToolID string `json:"tool_id,omitempty"`
}

// CodeResult is how a program ended, or, with ErrorCode, that it did not. Reason, and
// the output beside an ErrorCode, are not the vendor's: clients send them back, so that
// the model reads later what it read before.
type CodeResult struct {
	Type       string       `json:"type"`
	ErrorCode  string       `json:"error_code,omitempty"`
	Stdout     string       `json:"stdout"`
	Stderr     string       `json:"stderr"`
	ReturnCode *int         `json:"return_code,omitempty"`
	Content    []CodeOutput `json:"content"`
	Reason     string       `json:"reason,omitempty"`
}

// CodeOutput is a file that a program left. Filename is not the vendor's.
type CodeOutput struct {
	Type     string `json:"type"`
	FileID   string `json:"file_id"`
	Filename string `json:"filename,omitempty"`
}

// SearchResult is what a search for tools found, or, with ErrorCode, why it failed.
type SearchResult struct {
	Type         string      `json:"type"`
	References   []Reference `json:"tool_references,omitempty"`
	ErrorCode    string      `json:"error_code,omitempty"`
	ErrorMessage string      `json:"error_message,omitempty"`
}

// Reference names a tool.
type Reference struct {
	Type string `json:"type"`
	Name string `json:"tool_name"`
}

// Given reports whether a member is there and not null.
func Given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// IsObject reports whether JSON is an object.
func IsObject(raw json.RawMessage) bool {
	trimmed := bytes.TrimSpace(raw)
	return len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed)
}

// Compact is JSON without spaces; as it is where it is none.
func Compact(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}

// At names an element of a list, as errors do.
func At(parameter string, i int) string { return fmt.Sprintf("%s.%d", parameter, i) }

// Texts reads a text or a list of blocks with one each, which follow each other.
func Texts(parameter string, raw json.RawMessage) ([]string, error) {
	if !Given(raw) {
		return nil, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []string{text}, nil
	}
	var blocks []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if json.Unmarshal(raw, &blocks) != nil {
		return nil, Invalid(parameter, "Input should be a text or a list of text blocks")
	}
	all := make([]string, 0, len(blocks))
	for i, b := range blocks {
		if b.Type != "text" || b.Text == nil {
			return nil, Invalid(At(parameter, i), "Input should be a text block")
		}
		all = append(all, *b.Text)
	}
	return all, nil
}
