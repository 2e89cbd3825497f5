package scripted

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/portico-run/portico/internal/schema/strict"
)

// options are the members about sampling, of all protocols.
type options struct {
	Temperature *float64 `json:"temperature"`
	TopP        *float64 `json:"top_p"`
	Stop        []string `json:"stop"`
	Sequences   []string `json:"stop_sequences"`
	Format      *format  `json:"response_format"`
	Effort      *string  `json:"reasoning_effort"`
	Reasoning   struct {
		Effort *string `json:"effort"`
	} `json:"reasoning"`
	Text struct {
		Format *format `json:"format"`
	} `json:"text"`
	Output struct {
		Effort *string `json:"effort"`
		Format *format `json:"format"`
	} `json:"output_config"`
}

// format is what an answer must look like, in each protocol's form.
type format struct {
	Type   string          `json:"type"`
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict"`
	Within *format         `json:"json_schema"`
}

// unknown says how a service refuses a member that it does not know; empty where it
// knows it. Anthropic's refuses all but its own, and takes fewer where it only counts.
func unknown(protocol, name string) string {
	counted := []string{"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control", "speed"}
	known := append(slices.Clip(counted),
		"max_tokens", "stream", "stop_sequences", "temperature", "top_p", "top_k", "metadata", "service_tier", "container", "inference_geo", "diagnostics")
	var foreign []string
	switch protocol {
	case "count":
		known = counted
		fallthrough
	case "messages":
		if !slices.Contains(known, name) {
			return name + ": Extra inputs are not permitted"
		}
	case "chat":
		foreign = []string{"stop_sequences", "max_output_tokens", "input", "text", "output_config"}
	default:
		foreign = []string{"stop", "stop_sequences", "max_tokens", "max_completion_tokens", "messages", "response_format", "reasoning_effort", "output_config", "system", "thinking"}
	}
	if slices.Contains(foreign, name) {
		return "Unknown parameter: '" + name + "'."
	}
	return ""
}

// check refuses what a service refuses of a request's options.
func (o options) check(protocol string, raw []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return unparsed(err)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if why := unknown(protocol, name); why != "" {
			return refuseText("%s", why)
		}
	}
	warmest := 2.0
	if protocol == "messages" {
		warmest = 1
	}
	switch {
	case o.Temperature != nil && (*o.Temperature < 0 || *o.Temperature > warmest):
		return refuseText("Invalid 'temperature': expected a number from 0 to %g.", warmest)
	case o.TopP != nil && (*o.TopP < 0 || *o.TopP > 1):
		return refuseText("Invalid 'top_p': expected a number from 0 to 1.")
	case len(o.Stop) > 4:
		return refuseText("Invalid 'stop': array too long. Expected an array with maximum length 4.")
	}
	efforts := []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}
	if o.Output.Effort != nil {
		efforts = efforts[2:]
	}
	for _, effort := range []*string{o.Effort, o.Reasoning.Effort, o.Output.Effort} {
		if effort != nil && !slices.Contains(efforts, *effort) {
			return refuseText("Invalid value: '%s'. Supported values are: %q.", *effort, efforts)
		}
	}
	if err := o.Output.Format.check("output_config.format", protocol); err != nil {
		return err
	}
	if err := o.Text.Format.check("text.format", protocol); err != nil {
		return err
	}
	return o.Format.check("response_format", protocol)
}

func (f *format) check(where, protocol string) error {
	if f == nil || f.Type == "text" {
		return nil
	}
	if f.Type == "json_object" && protocol != "messages" && protocol != "count" {
		return nil
	}
	if f.Type != "json_schema" {
		return refuseText("Invalid value for '%s.type': %q.", where, f.Type)
	}
	if protocol == "chat" {
		if f.Within == nil {
			return refuseText("Missing required parameter: '%s.json_schema'.", where)
		}
		f, where = f.Within, where+".json_schema"
	}
	var schema map[string]any
	switch {
	case json.Unmarshal(f.Schema, &schema) != nil || schema == nil:
		return refuseText("Missing required parameter: '%s.schema'.", where)
	case protocol != "messages" && protocol != "count" && !toolName.MatchString(f.Name):
		return refuseText("Invalid '%s.name': string does not match pattern.", where)
	case f.Strict:
		if err := strict.Verify(f.Schema); err != nil {
			return refuseText("Invalid schema for response_format '%s': %v", f.Name, err)
		}
	}
	return nil
}

// scalar writes a number or a truth with the name of its member, so that a script may
// expect it.
func scalar(name string, v any) string {
	switch v.(type) {
	case bool, float64:
		return fmt.Sprintf("%s: %v\n", name, v)
	}
	return name + "\n"
}
