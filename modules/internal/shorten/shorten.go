// Package shorten makes values and texts fit into a limit without breaking
// them: what is left is whole, and says what is missing.
package shorten

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"unicode/utf8"
)

// The first attempt at shortening, and how far it goes down.
const (
	startString = 64 << 10
	startItems  = 1000
	startDepth  = 32
)

// JSON returns valid JSON of at most limit bytes with the beginning of
// everything: long strings, lists and objects lose their ends, and each says
// how much it lost. It tries milder cuts first.
func JSON(data []byte, limit int) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("shorten an output: %w", err)
	}
	for cut := (cutter{startString, startItems, startDepth}); ; cut = cut.harder() {
		b, err := json.Marshal(cut.value(v, 0))
		if err != nil || len(b) <= limit {
			return b, err
		}
		if cut.items == 0 {
			return json.RawMessage(`"[omitted]"`), nil
		}
	}
}

// cutter limits the parts of a value.
type cutter struct{ text, items, depth int }

func (c cutter) harder() cutter {
	return cutter{max(c.text/2, 16), c.items / 2, max(c.depth-2, 2)}
}

func (c cutter) value(v any, depth int) any {
	switch v := v.(type) {
	case string:
		return c.string(v)
	case []any:
		if depth >= c.depth {
			return fmt.Sprintf("[%d items omitted]", len(v))
		}
		return c.list(v, depth)
	case map[string]any:
		if depth >= c.depth {
			return fmt.Sprintf("[object with %d members omitted]", len(v))
		}
		return c.object(v, depth)
	}
	return v
}

func (c cutter) string(s string) string {
	if len(s) <= c.text {
		return s
	}
	end := c.text
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%s… [%d bytes omitted]", s[:end], len(s)-end)
}

func (c cutter) list(v []any, depth int) []any {
	out := make([]any, 0, min(len(v), c.items)+1)
	for _, item := range v[:min(len(v), c.items)] {
		out = append(out, c.value(item, depth+1))
	}
	if left := len(v) - len(out); left > 0 {
		out = append(out, fmt.Sprintf("[%d items omitted]", left))
	}
	return out
}

func (c cutter) object(v map[string]any, depth int) map[string]any {
	names := make([]string, 0, len(v))
	for name := range v {
		names = append(names, name)
	}
	sort.Strings(names)
	out := make(map[string]any, min(len(v), c.items)+1)
	for _, name := range names[:min(len(names), c.items)] {
		out[c.string(name)] = c.value(v[name], depth+1)
	}
	if left := len(names) - c.items; left > 0 {
		out["…"] = fmt.Sprintf("[%d members omitted]", left)
	}
	return out
}

// Text returns a text of about limit bytes: one that is JSON stays JSON, any
// other keeps its beginning and its end.
func Text(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	if json.Valid([]byte(text)) {
		if short, err := JSON([]byte(text), limit); err == nil {
			return string(short)
		}
	}
	head, at := limit*3/4, len(text)-limit/4
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return fmt.Sprintf("%s\n[… %d of %d bytes are left out here …]\n%s", text[:head], at-head, len(text), text[at:])
}
