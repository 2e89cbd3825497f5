// Package jsonschema checks values against JSON Schemas and says what is
// wrong with them field by field, without repeating the values.
package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	upstream "github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is a compiled JSON Schema: draft 2020-12, or the one it names.
// Formats are checked. A schema that refers to another document does not
// compile: nothing is loaded from anywhere.
type Schema struct {
	compiled *upstream.Schema
	root     any // the schema as written, for its defaults
}

// location is the name a schema is compiled under; it is never loaded.
const location = "https://schema.invalid/whole"

// Compile compiles a schema. The empty text is the schema of an object
// without rules.
func Compile(raw json.RawMessage) (*Schema, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage(`{"type":"object"}`)
	}
	root, err := decode(raw)
	if err != nil {
		return nil, fmt.Errorf("not a JSON document: %w", err)
	}
	c := upstream.NewCompiler()
	c.UseLoader(closed{})
	c.AssertFormat()
	if err := c.AddResource(location, root); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(location)
	if err != nil {
		return nil, explain(err)
	}
	return &Schema{compiled: compiled, root: root}, nil
}

// explain says what is wrong with a schema as it is said of any other value.
func explain(err error) error {
	wrong, ok := errors.AsType[*upstream.SchemaValidationError](err)
	if !ok {
		return err
	}
	invalid, ok := errors.AsType[*upstream.ValidationError](wrong.Err)
	if !ok {
		return err
	}
	return errors.New(problems(invalid, nil).String())
}

func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return v, nil
}

// closed refuses every document a schema refers to.
type closed struct{}

func (closed) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is another document, and schemas must be whole", url)
}

// Check fills the defaults of the schema into value, then reports what is
// wrong with it, in the order of the fields' names. Numbers in value are
// json.Number.
func (s *Schema) Check(value map[string]any) Problems {
	fill := filler{s.root, newMeter(value)}
	err := fill.object(s.root, value, 0)
	if err == nil {
		err = newMeter(value).check(s.compiled, value)
	}
	if err == nil {
		err = s.compiled.Validate(value)
	}
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*upstream.ValidationError](err)
	if !ok {
		return Problems{{Message: "cannot be checked: " + err.Error()}}
	}
	return problems(invalid, s.root)
}

// Cache compiles each schema once. It is safe for concurrent use.
type Cache struct {
	mu      sync.Mutex
	schemas map[string]*Schema
	size    int // of the texts, in bytes
}

// Bounds of the cache, in schemas and in bytes of their texts; a compiled schema
// takes several times its text. Schemas change with deployments, not requests,
// so that starting afresh is rare and cheap.
const (
	cacheSize  = 4096
	cacheBytes = 8 << 20
)

// Get returns the compiled schema.
func (c *Cache) Get(raw json.RawMessage) (*Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.schemas[string(raw)]; ok {
		return s, nil
	}
	s, err := Compile(raw)
	if err != nil {
		return nil, err
	}
	if c.schemas == nil || len(c.schemas) >= cacheSize || c.size+len(raw) > cacheBytes {
		c.schemas, c.size = make(map[string]*Schema), 0
	}
	c.schemas[string(raw)] = s
	c.size += len(raw)
	return s, nil
}
