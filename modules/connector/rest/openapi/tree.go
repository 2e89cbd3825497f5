package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Limits of one document.
const (
	// maxNesting is how deep a document is nested.
	maxNesting = 200
	// maxValues is how many values it has, with those of its YAML aliases.
	maxValues = 4_000_000
)

var errNesting = fmt.Errorf("it is nested more than %d levels deep", maxNesting)

// parse reads JSON or YAML as maps, lists, texts, booleans, nil and numbers,
// which are int64, uint64 or float64.
func parse(text []byte) (any, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if start := bytes.TrimSpace(text); len(start) > 0 && start[0] == '{' {
		v, err := parseJSON(text)
		if err == nil {
			return v, nil
		}
		if v, other := parseYAML(text); other == nil {
			return v, nil
		}
		return nil, err
	}
	return parseYAML(text)
}

func parseJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands behind the document")
	}
	return plain(v, 0)
}

// plain writes numbers as Go has them.
func plain(v any, depth int) (any, error) {
	if depth > maxNesting {
		return nil, errNesting
	}
	var err error
	switch v := v.(type) {
	case json.Number:
		return number(v.String())
	case map[string]any:
		for name := range v {
			if v[name], err = plain(v[name], depth+1); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range v {
			if v[i], err = plain(v[i], depth+1); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func number(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, fmt.Errorf("the number %s is too large", text)
	}
	return f, nil
}

func parseYAML(text []byte) (any, error) {
	var n yaml.Node
	if err := yaml.Unmarshal(text, &n); err != nil {
		return nil, err
	}
	if n.Kind == 0 {
		return nil, errors.New("it is empty")
	}
	r := yamlReader{left: maxValues}
	return r.value(&n, 0)
}

// yamlReader turns YAML nodes into values. Of an entry that is there twice the
// last one counts, as in JSON.
type yamlReader struct{ left int }

func (r *yamlReader) value(n *yaml.Node, depth int) (any, error) {
	r.left--
	switch {
	case depth > maxNesting:
		return nil, errNesting
	case r.left < 0:
		return nil, fmt.Errorf("it has more than %d values", maxValues)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return r.value(n.Content[0], depth)
	case yaml.AliasNode:
		return r.value(n.Alias, depth+1)
	case yaml.MappingNode:
		return r.object(n, depth)
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, item := range n.Content {
			var err error
			if out[i], err = r.value(item, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return scalarOf(n)
}

func (r *yamlReader) object(n *yaml.Node, depth int) (any, error) {
	out := make(map[string]any, len(n.Content)/2)
	var merged []any
	for i := 0; i+1 < len(n.Content); i += 2 {
		v, err := r.value(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		key := n.Content[i]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		switch {
		case key.Tag == "!!merge":
			merged = append(merged, v)
		case key.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("line %d: a name must be plain text", key.Line)
		default:
			out[key.Value] = v // 200 is the name of a response as well as "200"
		}
	}
	for _, m := range merged {
		list, ok := m.([]any)
		if !ok {
			list = []any{m}
		}
		for _, one := range list {
			more, _ := one.(map[string]any)
			for name, v := range more {
				if _, has := out[name]; !has {
					out[name] = v
				}
			}
		}
	}
	return out, nil
}

// scalarOf reads a single value. A date is text, as in JSON.
func scalarOf(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil //nolint:nilnil // null is a value
	case "!!bool":
		var b bool
		err := n.Decode(&b)
		return b, err
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return i, nil
		}
		var u uint64
		if n.Decode(&u) == nil {
			return u, nil
		}
		return number(n.Value)
	case "!!float":
		var f float64
		if err := n.Decode(&f); err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return n.Value, err
		}
		return f, nil
	}
	return n.Value, nil
}
