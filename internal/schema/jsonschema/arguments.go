package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Arguments reads what a model wrote as the arguments of a call, which must be
// an object, fills in the defaults of the schema, and checks the object. Numbers
// in it are json.Number. The error is words for the model, without the values.
func (s *Schema) Arguments(text []byte) (map[string]any, error) {
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // an id of 19 digits must arrive as it was written
	err := d.Decode(&object)
	if err == nil && d.More() {
		err = errors.New("more than one value")
	}
	if err != nil {
		return nil, NotJSON(err)
	}
	if object == nil {
		return nil, errors.New("the arguments must be a JSON object")
	}
	if problems := s.Check(object); len(problems) > 0 {
		return nil, fmt.Errorf("the arguments do not fit: %s", problems)
	}
	return object, nil
}

// NotJSON tells a model that the arguments it wrote cannot be read.
func NotJSON(cause error) error {
	return fmt.Errorf("the arguments are not valid JSON (%v); send one JSON object", cause) //nolint:errorlint // words for the model, not a chain
}
