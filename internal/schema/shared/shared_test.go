package shared_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/schema/shared"
)

func schemas() shared.Schemas {
	return shared.Schemas{
		"Pet":   json.RawMessage(`{"description":"A pet","properties":{"a/b":{"type":"integer"},"mother":{"$ref":"#/schemas/Pet"},"name":{"type":"string"},"other":{"$ref":"#/schemas/Pet!2"}},"type":"object"}`),
		"Pet!2": json.RawMessage(`{"properties":{"pet":{"$ref":"#/schemas/Pet"}}}`),
		"Alias": json.RawMessage(`{"$ref":"#/schemas/Kind"}`),
		"Kind":  json.RawMessage(`{"type":"string"}`),
		"Any":   json.RawMessage(`true`),
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	pet := `{"description":"A pet","properties":{"a/b":{"type":"integer"},"mother":{},"name":{"type":"string"},"other":{}},"type":"object"}`
	for text, want := range map[string]string{
		`{"type":"string"}`:        `{"type":"string"}`,
		`true`:                     `true`,
		`{"$ref":"#/schemas/Pet"}`: pet,
		`{"items":{"$ref":"#/schemas/Kind"},"x":{"$ref":"#/schemas/Kind"}}`: `{"items":{"type":"string"},"x":{"$ref":"#/schemas/Kind"}}`,
		`{"oneOf":[{"$ref":"#/schemas/Alias"},{"$ref":"#/schemas/Any"}]}`:   `{"oneOf":[{"type":"string"},true]}`,
		`{"properties":{"name":"#/schemas/Pet","a/b":"#/schemas/Pet"}}`:     `{"properties":{"name":{"type":"string"},"a/b":{"type":"integer"}}}`,
		`{"properties":{"mother":"#/schemas/Pet"}}`:                         `{"properties":{"mother":{}}}`,
		`{"properties":{"x":{"$ref":"#/schemas/Pet/properties/a~1b"}}}`:     `{"properties":{"x":{"type":"integer"}}}`,
		`{"not":{"$ref":"#/schemas/Kind","description":"Which","zoo":1}}`:   `{"not":{"description":"Which","type":"string","zoo":1}}`,
		`{"items":{"$ref":"#/schemas/Kind","type":"integer"}}`:              `{"items":{"type":"integer"}}`,
		`{"enum":["#/schemas/Kind"],"const":{"$ref":"#/schemas/Kind"}}`:     `{"enum":["#/schemas/Kind"],"const":{"$ref":"#/schemas/Kind"}}`,
		`{"properties":{"$ref":{"$ref":"#/schemas/Kind"}}}`:                 `{"properties":{"$ref":{"type":"string"}}}`,
	} {
		got, err := schemas().Expand(nil, json.RawMessage(text))
		require.NoError(t, err, text)
		require.Equal(t, want, string(got), text)
		writer := shared.NewWriter(schemas())
		for range 2 {
			got, err = writer.Write(json.RawMessage(text))
			require.NoError(t, err, text)
			require.Equal(t, want, string(got), text)
		}
	}
	for _, text := range []string{`{"$ref":"#/schemas/None"}`, `{"items":{"$ref":"#/schemas/Pet/properties/none"}}`, `{"properties":{"none":"#/schemas/Pet"}}`} {
		_, err := schemas().Expand(nil, json.RawMessage(text))
		require.ErrorContains(t, err, "refers to no schema", text)
	}
}

// Schemas that name each other often are refused before they fill the memory.
func TestExpansionIsBounded(t *testing.T) {
	t.Parallel()
	s := shared.Schemas{"Leaf": json.RawMessage(`{"description":"` + strings.Repeat("x", 1000) + `"}`)}
	for n := range 15 {
		next := fmt.Sprintf(`{"$ref":"#/schemas/N%d"}`, n+1)
		s[fmt.Sprintf("N%d", n)] = json.RawMessage(`{"anyOf":[` + strings.Repeat(next+",", 7) + next + `]}`)
	}
	s["N15"] = json.RawMessage(`{"$ref":"#/schemas/Leaf"}`)
	got, err := s.Expand(nil, json.RawMessage(`{"$ref":"#/schemas/N0"}`))
	require.ErrorIs(t, err, shared.ErrTooLarge)
	require.Less(t, len(got), shared.MaxSize+10_000)
}

// What is nested deeper than 20 schemas is any value.
func TestDepthIsBounded(t *testing.T) {
	t.Parallel()
	s := shared.Schemas{}
	for n := range 30 {
		s[fmt.Sprintf("N%d", n)] = json.RawMessage(fmt.Sprintf(`{"items":{"$ref":"#/schemas/N%d"}}`, n+1))
	}
	got, err := s.Expand(nil, json.RawMessage(`{"$ref":"#/schemas/N0"}`))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat(`{"items":`, 21)+"{}"+strings.Repeat("}", 21), string(got))
}

func TestASetRemembersWhatItWrote(t *testing.T) { //nolint:paralleltest // it counts allocations
	set := &shared.Set{Schemas: schemas()}
	pet := json.RawMessage(`{"$ref":"#/schemas/Pet"}`)
	first, err := set.Remember(pet)
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		again, err := set.Remember(pet)
		if err != nil || &again[0] != &first[0] {
			t.Error("written again")
		}
	}))
	large := strings.Repeat("x", 500_000)
	for n := range 20 {
		_, err := set.Remember(json.RawMessage(fmt.Sprintf(`{"description":"%d%s"}`, n, large)))
		require.NoError(t, err)
		require.LessOrEqual(t, set.Size(), 2<<20)
	}
}

func FuzzExpand(f *testing.F) {
	f.Add(`{"properties":{"name":"#/schemas/Pet"},"items":[{"$ref":"#/schemas/Pet","a":1}]}`, `{"properties":{"\\u0041":{"$ref":"#/schemas/Pet"}}}`)
	f.Fuzz(func(t *testing.T, schema, pet string) {
		if !json.Valid([]byte(schema)) || !json.Valid([]byte(pet)) {
			return
		}
		s := shared.Schemas{"Pet": json.RawMessage(strings.TrimSpace(pet))}
		got, err := s.Expand(nil, json.RawMessage(schema))
		if err == nil && !json.Valid(got) {
			t.Errorf("%s of %s is no JSON: %s", schema, pet, got)
		}
	})
}
