package store_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/schema/shared"
	"github.com/portico-run/portico/modules/connector/connectortest"
	"github.com/portico-run/portico/modules/toolset/store"
)

// schemas are what a call of send is checked against, and what it answers.
func (f *fixture) schemas() (request, response string, err error) {
	f.t.Helper()
	found, err := f.users.Identify(f.t.Context(), anna, "mail")
	require.NoError(f.t, err)
	m, _, err := f.users.Method(f.t.Context(), anna, found, "send")
	return string(m.Request), string(m.Response), err
}

func letters() store.Spec {
	spec := mail()
	spec.Methods[0].Request = json.RawMessage(`{"type":"object","properties":{"to":"#/schemas/Letter"}}`)
	spec.Methods[0].Response = json.RawMessage(`{"type":"array","items":{"$ref":"#/schemas/Letter"}}`)
	return spec
}

// What tools share is stored once, and readers see it where it is referred to.
func TestSharedSchemasAreStoredOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.store(letters())
		require.Equal(t, 1, f.count("SELECT count(*) FROM tool_schemas WHERE inventory_key = 'mail' AND name = 'Letter'"))
		require.Zero(t, f.count("SELECT count(*) FROM tool_methods WHERE request_schema LIKE '%string%' OR response_schema LIKE '%string%'"))
		request, response, err := f.schemas()
		require.NoError(t, err)
		require.Equal(t, `{"type":"object","properties":{"to":{"type":"string"}}}`, request)
		require.Equal(t, `{"type":"array","items":{"type":"object","properties":{"to":{"type":"string"}}}}`, response)

		defined, failures, err := f.users.Export(t.Context(), anna, []string{"mail"})
		require.NoError(t, err)
		require.Empty(t, failures)
		require.Equal(t, response, string(defined[0].Tools[1].OutputSchema))

		spec := letters()
		spec.Schemas["Letter"] = json.RawMessage(`{"type":"object","properties":{"to":{"type":"integer"}}}`)
		f.store(spec)
		request, _, err = f.schemas()
		require.NoError(t, err)
		require.Equal(t, `{"type":"object","properties":{"to":{"type":"integer"}}}`, request, "the new one is read")
	})
}

// Toolsets that were stored before there were shared schemas are read as they
// are, whatever they refer to within themselves.
func TestWholeSchemasAreReadAsTheyAre(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		const text = `{"properties":{"a":{"$ref":"#/schemas/x"}},"schemas":{"x":{"type":"string"}}}`
		spec := mail()
		spec.Schemas, spec.Methods[0].Request = nil, json.RawMessage(text)
		f.store(spec)
		request, _, err := f.schemas()
		require.NoError(t, err)
		require.Equal(t, text, request)
	})
}

// A tool whose schema cannot be read is refused; it is not called unchecked.
func TestASchemaThatIsGoneBreaksItsTool(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.store(letters())
		connectortest.Exec(t, f.db, "DELETE FROM tool_schemas WHERE name = 'Letter'")
		_, _, err := f.schemas()
		require.Equal(t, errs.Unavailable, errs.CodeOf(err))

		spec := letters()
		spec.Schemas = shared.Schemas{}
		f.store(spec)
	})
}

// A call writes out the schemas of its tool, and none of the toolset's others.
func TestACallReadsTheSchemasOfItsToolAlone(t *testing.T) { //nolint:paralleltest // it counts what the process allocates
	for _, d := range databasetest.Of(t) { //nolint:paralleltest // the same
		t.Run(string(d), func(t *testing.T) {
			f := newFixture(t, databasetest.Open(t, d, nil))
			spec := letters()
			long := strings.Repeat("long ", 2000)
			for n := range 500 {
				name := fmt.Sprintf("Letter%d", n)
				spec.Schemas[name] = json.RawMessage(`{"description":"` + long + `"}`)
				m := spec.Methods[0]
				m.Name, m.Response = fmt.Sprintf("send%d", n), json.RawMessage(`{"$ref":"#/schemas/`+name+`"}`)
				spec.Methods = append(spec.Methods, m)
			}
			f.store(spec)
			found, err := f.users.Identify(t.Context(), anna, "mail")
			require.NoError(t, err)
			taken := func(method string) uint64 {
				var from, to runtime.MemStats
				runtime.ReadMemStats(&from)
				_, _, err := f.users.Method(t.Context(), anna, found, method)
				runtime.ReadMemStats(&to)
				require.NoError(t, err)
				return to.TotalAlloc - from.TotalAlloc
			}
			require.Less(t, taken("send7"), uint64(50*len(long)), "the first call of a tool takes less than a tenth of the toolset")
			require.Less(t, taken("send7"), uint64(10*len(long)), "the next one")
		})
	}
}
