package openapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/connector/rest"
	"github.com/portico-run/portico/modules/connector/rest/openapi"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/file"
	"github.com/portico-run/portico/modules/toolset/store"
)

// inventory takes what a file says.
type inventory struct{ specs []store.Spec }

func (i *inventory) Store(_ context.Context, specs []store.Spec) (store.Report, error) {
	i.specs = specs
	return store.Report{}, nil
}

func (*inventory) CheckKey(context.Context) error { return nil }

// stored is what the inventory is given of a toolset file.
func stored(t testing.TB, made openapi.Toolset, err error) store.Spec {
	t.Helper()
	require.NoError(t, err)
	var i inventory
	files := file.New(file.Deps{
		Inventory: &i, Variables: map[string]string{"TOOLSET_PETS_API_KEY": "k"}, Pricer: price.NewPricer(120 * money.Credit),
		Kinds: toolset.NewKinds(rest.New(rest.Deps{}), rest.OAuth{Connector: rest.New(rest.Deps{})}),
	})
	_, err = files.Apply(t.Context(), []file.File{{Name: "made.yaml", Content: made.File}})
	require.NoError(t, err, "%s", made.File)
	require.Len(t, i.specs, 1)
	return i.specs[0]
}

// Whoever reads a tool reads the same bytes, whether its schemas are stored
// whole or shared with other tools.
func TestSharedSchemasReadAsWholeOnes(t *testing.T) {
	t.Parallel()
	large, _ := document(t, 40)
	for name, text := range map[string][]byte{"pets": read(t, "pets.yaml"), "graph": read(t, "graph.yaml"), "large": large} {
		o := openapi.Options{Key: "pets", Price: "1"}
		made, err := openapi.Inline(t.Context(), text, o)
		want := stored(t, made, err)
		made, err = openapi.Shared(t.Context(), text, o)
		got := stored(t, made, err)
		require.Nil(t, want.Schemas, name)
		require.NotEmpty(t, got.Schemas, name)
		require.Len(t, got.Methods, len(want.Methods))
		for i, m := range got.Methods {
			whole, err := m.Whole()
			require.NoError(t, err)
			require.Equal(t, want.Methods[i].Name, m.Name)
			require.Equal(t, string(want.Methods[i].Request), string(whole.Request), "%s: %s", name, m.Name)
			require.Equal(t, string(want.Methods[i].Response), string(whole.Response), "%s: %s", name, m.Name)
		}
	}
}

// document has as many operations as it is told, over schemas that refer to each
// other.
func document(t testing.TB, operations int) (text []byte, size int) {
	t.Helper()
	ref := func(n int) string { return fmt.Sprintf(`{"$ref":"#/components/schemas/Thing%d"}`, n) }
	var schemas, paths []string
	for n := range 60 {
		var fields []string
		for f := range 12 {
			fields = append(fields, fmt.Sprintf(`"field_%d":{"type":"string","description":"Field %d of thing %d, as it was given when the thing was made"}`, f, f, n))
		}
		for _, next := range []int{2*n + 1, 2*n + 2} {
			if next < 60 {
				fields = append(fields, fmt.Sprintf(`"part_%d":%s`, next%2, ref(next)))
			}
		}
		schemas = append(schemas, fmt.Sprintf(`"Thing%d":{"type":"object","required":["field_0"],"properties":{%s}}`, n, strings.Join(fields, ",")))
	}
	for n := range operations {
		media := func(n int) string { return `{"application/json":{"schema":` + ref(n%60) + `}}` }
		var filters []string
		for f := range 5 {
			filters = append(filters, fmt.Sprintf(`{"name":"filter_%d","in":"query","schema":{"type":"string"},"description":"Only what matches filter %d of operation %d, case and accents ignored"}`, f, f, n))
		}
		paths = append(paths, fmt.Sprintf(`"/things/%d/{id}":{"post":{"operationId":"changeThing%d","summary":"Change thing %d and answer what it is afterwards",
			"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"}},%s],
			"requestBody":{"content":%s},"responses":{"200":{"description":"What it is afterwards","content":%s}}}}`, n, n, n, strings.Join(filters, ","), media(n), media(n+7)))
	}
	text = fmt.Appendf(nil, `{"openapi":"3.0.3","info":{"title":"Large","version":"1"},"servers":[{"url":"https://api.example.com"}],"components":{"schemas":{%s}},"paths":{%s}}`,
		strings.Join(schemas, ","), strings.Join(paths, ","))
	require.True(t, json.Valid(text))
	return text, len(text)
}
