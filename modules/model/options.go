package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/model/verbatim"
)

// Options are what one request says of how its answer is made. The zero value leaves
// all of it to the configuration and the provider. What a protocol has no member for is
// not sent: Unsupported says so.
type Options struct {
	// MaxOutput is the most tokens of the answer; 0 is what the configuration says, and
	// more than that is cut to it.
	MaxOutput         int64
	Temperature, TopP *float64
	// Stop are texts that end the answer.
	Stop   []string
	Format *Format
	// Effort is how much the model thinks, in the provider's words, such as low; empty
	// leaves it to the model.
	Effort string
	// Native are members that only providers of the protocol NativeTo understand.
	Native   map[string]json.RawMessage
	NativeTo Protocol
}

// Format is what an answer must look like: JSON that a schema describes, or any JSON
// object.
type Format struct {
	Name, Description string
	Schema            json.RawMessage
	Strict            bool
	Object            bool // any JSON object; the other members do not count
}

// Unsupported says what of the options the model would not be told, a sentence each.
func (c *Client) Unsupported(o Options) (left []string) {
	p := c.config.Protocol.orDefault()
	if len(o.Stop) > 0 && p == Responses {
		left = append(left, "The model's protocol has no stop sequences.")
	}
	if f := o.Format; f != nil && p == Messages {
		switch {
		case f.Object:
			left = append(left, "The model's protocol has no JSON mode without a schema.")
		case f.Description != "":
			left = append(left, "The model's protocol has no description of a format.")
		}
	}
	if names := slices.Sorted(maps.Keys(o.Native)); len(names) > 0 && o.NativeTo.orDefault() != p {
		left = append(left, fmt.Sprintf("The model's protocol does not know %s.", strings.Join(names, ", ")))
	}
	return left
}

func (p Protocol) orDefault() Protocol {
	if p == "" {
		return Responses
	}
	return p
}

// most is how many tokens an answer may have; 0 leaves it to the provider.
func (o Options) most(c Config) int64 {
	if o.MaxOutput > 0 && (c.MaxOutput == 0 || o.MaxOutput < c.MaxOutput) {
		return o.MaxOutput
	}
	return c.MaxOutput
}

// added are the members that the options and the configuration add to a request. Those
// of Options hold before Native, and Native before the configuration's; where two of
// them are objects, their members are put together by the same rule.
func (o Options) added(c Config) (map[string]json.RawMessage, error) {
	all := maps.Clone(c.Extra)
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	p := c.Protocol.orDefault()
	if o.NativeTo.orDefault() == p {
		for name, value := range o.Native {
			if slices.Contains(Reserved(), name) {
				return nil, errs.Newf(errs.Invalid, "The member %s of a request is written by the server.", name)
			}
			all[name] = over(all[name], value)
		}
	}
	for name, value := range o.members(p) {
		text, err := verbatim.Encode(value)
		if err != nil {
			return nil, err
		}
		all[name] = over(all[name], text)
	}
	return all, nil
}

// members are those of the options in a protocol: docs/wire/models.md#options.
func (o Options) members(p Protocol) map[string]any {
	m := map[string]any{}
	if o.Temperature != nil {
		m["temperature"] = *o.Temperature
	}
	if o.TopP != nil {
		m["top_p"] = *o.TopP
	}
	format := o.Format.member(p)
	switch p {
	case Chat:
		if len(o.Stop) > 0 {
			m["stop"] = o.Stop
		}
		if o.Effort != "" {
			m["reasoning_effort"] = o.Effort
		}
		if format != nil {
			m["response_format"] = format
		}
	case Messages:
		if len(o.Stop) > 0 {
			m["stop_sequences"] = o.Stop
		}
		output := map[string]any{}
		if o.Effort != "" {
			output["effort"] = o.Effort
		}
		if format != nil {
			output["format"] = format
		}
		if len(output) > 0 {
			m["output_config"] = output
		}
	default:
		if o.Effort != "" {
			m["reasoning"] = map[string]any{"effort": o.Effort}
		}
		if format != nil {
			m["text"] = map[string]any{"format": format}
		}
	}
	return m
}

// member is a format in a protocol; nil where there is none, or the protocol has none.
func (f *Format) member(p Protocol) map[string]any {
	switch {
	case f == nil, f.Object && p == Messages:
		return nil
	case f.Object:
		return map[string]any{"type": "json_object"}
	case p == Messages:
		return map[string]any{"type": "json_schema", "schema": f.Schema}
	}
	m := map[string]any{"name": f.Name, "schema": f.Schema, "strict": f.Strict}
	if f.Description != "" {
		m["description"] = f.Description
	}
	if p == Chat {
		return map[string]any{"type": "json_schema", "json_schema": m}
	}
	m["type"] = "json_schema"
	return m
}

// over is a value in the place of another one; of two objects, the members of both.
func over(below, value json.RawMessage) json.RawMessage {
	var under, upper map[string]json.RawMessage
	if json.Unmarshal(below, &under) != nil || json.Unmarshal(value, &upper) != nil || under == nil || upper == nil {
		return value
	}
	maps.Copy(under, upper)
	text, err := verbatim.Encode(under)
	if err != nil {
		return value
	}
	return text
}
