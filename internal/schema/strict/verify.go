package strict

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/portico-run/portico/internal/schema/jsontree"
)

// errRequired is the provider's own sentence.
const errRequired = "required is required to be supplied and to be an array including every key in properties"

// Verify reports the first place where a schema that is to be sent as strict
// leaves the subset, in the provider's words where they are known.
func Verify(schema json.RawMessage) error {
	v, err := jsontree.Parse(schema)
	if err != nil {
		return err
	}
	root, ok := v.(*jsontree.Object)
	if !ok || root.String("type") != "object" || root.Has("anyOf") {
		return errors.New("schema must be a JSON Schema of 'type: \"object\"', without anyOf")
	}
	return verify(root, "")
}

func verify(node *jsontree.Object, path string) error {
	fail := func(text string) error { return fmt.Errorf("in context=(%q), %s", path, text) }
	for _, word := range []string{
		"allOf", "oneOf", "not", "if", "then", "else", "const", "propertyNames", "patternProperties", "prefixItems",
		"dependentRequired", "dependentSchemas", "unevaluatedProperties", "minLength", "maxLength",
	} {
		if node.Has(word) {
			return fail("'" + word + "' is not permitted")
		}
	}
	if ref := node.String("$ref"); ref != "" && node.Len() > 1 {
		return fail("$ref cannot have keywords beside it")
	}
	if f := node.String("format"); f != "" && !slices.Contains(formats(), f) {
		return fail("'" + f + "' is not a valid format")
	}
	if !node.Has("type") && !node.Has("$ref") && !node.Has("anyOf") {
		return fail("schema must have a 'type' key")
	}
	if slices.Contains(typesOf(node), "object") {
		if node.Get("additionalProperties") != false {
			return fail("'additionalProperties' is required to be supplied and to be false")
		}
		properties := node.Object("properties")
		if properties == nil {
			properties = jsontree.NewObject()
		}
		for _, name := range properties.Names() {
			if !slices.Contains(node.List("required"), any(name)) {
				return fail(errRequired + ". Missing '" + name + "'")
			}
		}
		if err := verifyAll(properties, path+"/properties"); err != nil {
			return err
		}
	}
	if slices.Contains(typesOf(node), "array") {
		items := node.Object("items")
		if items == nil {
			return fail("array schema missing items")
		}
		if err := verify(items, path+"/items"); err != nil {
			return err
		}
	}
	for i, b := range node.List("anyOf") {
		o, ok := b.(*jsontree.Object)
		if !ok {
			return fail("anyOf holds no schema")
		}
		if err := verify(o, fmt.Sprintf("%s/anyOf/%d", path, i)); err != nil {
			return err
		}
	}
	if defs := node.Object("$defs"); defs != nil {
		return verifyAll(defs, path+"/$defs")
	}
	return nil
}

func verifyAll(members *jsontree.Object, path string) error {
	for _, name := range members.Names() {
		o := members.Object(name)
		if o == nil {
			return fmt.Errorf("in context=(%q), schema must have a 'type' key", path+"/"+name)
		}
		if err := verify(o, path+"/"+name); err != nil {
			return err
		}
	}
	return nil
}
