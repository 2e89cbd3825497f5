package toolset_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/connector/connectortest"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/file"
	"github.com/portico-run/portico/modules/toolset/install"
	"github.com/portico-run/portico/modules/toolset/rows"
	"github.com/portico-run/portico/modules/toolset/store"
)

// drawToolset draws a toolset file without its key. Each part is there or not,
// in one of several forms.
func drawToolset(t *rapid.T) map[string]any {
	spec := map[string]any{"name": rapid.SampledFrom([]string{"One", "Two"}).Draw(t, "name")}
	maybe := func(name string, values ...any) {
		if i := rapid.IntRange(0, len(values)).Draw(t, name); i > 0 {
			spec[name] = values[i-1]
		}
	}
	maybe("domain", "https://a.test", "https://b.test")
	maybe("labels", map[string]string{"en": "A"})
	maybe("descriptions", map[string]string{"en": "Does A"}, map[string]string{"en": "Does B", "zh-CN": "B"})
	maybe("enabled", false, true)
	maybe("global", false, true)
	maybe("egress", map[string]any{"allow": []string{"10.0.0.0/8"}}, map[string]any{"allow": []string{"10.0.0.0/8", "fd00::/8"}})
	maybe("credential", map[string]string{"value": "sk-a"}, map[string]string{"type": "header", "name": "X-Key", "value": "sk-b"})
	maybe("configItems", []any{map[string]string{"key": "region", "inputMode": "text"}})
	if rapid.Float64Range(0, 1).Draw(t, "kind") < 0.2 {
		spec["type"] = rapid.SampledFrom([]string{"external_oauth", "external_apikey"}).Draw(t, "type")
		maybe("billing", 1, map[string]any{"send": 4, "_default": 2})
		return spec
	}
	maybe("authPatterns", []any{map[string]any{"type": "credentials", "credentialItems": []any{map[string]string{"key": "k", "inputMode": "text"}}}})
	maybe("config", map[string]string{"region": "eu"})
	maybe("authType", "config_based", "credentials")
	prices := map[string]any{}
	var methods []any
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"read", "write", "list"}), 1, 3, rapid.ID[string]).Draw(t, "methods")
	for _, name := range names {
		methods = append(methods, drawMethod(t, name, prices))
	}
	spec["methods"], spec["billing"] = methods, prices
	if rapid.Bool().Draw(t, "one price") || len(prices) == 0 {
		spec["billing"] = rapid.IntRange(0, 2).Draw(t, "price")
	}
	return spec
}

func drawMethod(t *rapid.T, name string, prices map[string]any) map[string]any {
	m := map[string]any{"name": name, "endpoint": "https://a.test/" + name, "version": rapid.IntRange(1, 3).Draw(t, "version")}
	maybe := func(key string, value any) {
		if rapid.Bool().Draw(t, key) {
			m[key] = value
		}
	}
	maybe("description", "Does "+name)
	maybe("method", "GET")
	maybe("request", map[string]any{"type": "object", "properties": map[string]any{"text": map[string]string{"type": "string"}}})
	maybe("response", map[string]string{"type": "object"})
	maybe("adapter", map[string]any{"timeout": 1000})
	maybe("allowedCallers", []string{"code"})
	_, hasText := m["request"]
	if !hasText || rapid.Bool().Draw(t, "fixed price") {
		prices[name] = rapid.IntRange(0, 3).Draw(t, "price of a method")
		return m
	}
	rule := map[string]any{"fieldPath": "text", "phase": "input", "category": "text", "unitMode": "utf8_bytes", "defaultCreditsPerUnit": rapid.IntRange(1, 3).Draw(t, "per unit")}
	pricing := map[string]any{"rules": []any{rule}}
	if rapid.Bool().Draw(t, "tokens") {
		pricing["tokenPricing"] = map[string]any{"inputPer1MUsd": 2}
	}
	m["pricing"] = pricing
	return m
}

func asFile(t require.TestingT, key string, spec map[string]any) []file.File {
	content, err := json.Marshal(spec) // JSON is YAML
	require.NoError(t, err)
	return []file.File{{Name: "drawn.yaml", Content: []byte(strings.Replace(string(content), "{", `{"key":"`+key+`",`, 1))}}
}

// reads is what the readers of a toolset say about it, with its key and its
// ids left out.
func reads(t *testing.T, s *connectortest.Toolsets, key string) []any {
	t.Helper()
	ctx := t.Context()
	found, err := s.Identify(ctx, anna, key)
	out := []any{found, said(err, key)}
	for _, name := range []string{"read", "write", "list"} {
		m, c, err := s.Method(ctx, anna, found, name)
		out = append(out, m, c, said(err, key), found.Prices.Estimate(name, map[string]any{"text": "four"}))
	}
	definitions, failures, err := s.Export(ctx, anna, []string{key})
	require.NoError(t, err)
	for _, d := range definitions {
		d.Key = ""
		out = append(out, d)
	}
	for _, f := range failures {
		out = append(out, said(f.Problem, key))
	}
	offered, err := s.Installs.Inventory(ctx)
	require.NoError(t, err)
	for _, item := range offered {
		if item.Key == key {
			item.Key = ""
			out = append(out, item, item.Methods())
		}
	}
	return out
}

func said(err error, key string) string {
	return strings.ReplaceAll(fmt.Sprint(err), key, "KEY")
}

func TestApplyingAFileDoesNotDependOnWhatStoodThere(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(t, db)
		n := 0
		rapid.Check(t, func(rt *rapid.T) {
			n++
			after, alone := fmt.Sprintf("after-%d", n), fmt.Sprintf("alone-%d", n)
			first, second := drawToolset(rt), drawToolset(rt)
			_, err := s.Files.Apply(t.Context(), asFile(rt, after, first))
			require.NoError(rt, err)
			reads(t, s, after) // what was parsed must not outlive the file
			for _, key := range []string{after, alone} {
				_, err = s.Files.Apply(t.Context(), asFile(rt, key, second))
				require.NoError(rt, err)
			}
			options := cmp.Options{
				cmpopts.IgnoreFields(toolset.Toolset{}, "Key", "ToolsetID"), cmpopts.IgnoreUnexported(toolset.Sealed{}, install.InventoryItem{}, price.List{}),
				cmpopts.EquateComparable(netip.Prefix{}), cmpopts.EquateEmpty(),
			}
			if diff := cmp.Diff(rowsOf(t, db, s.Box, alone), rowsOf(t, db, s.Box, after)); diff != "" {
				rt.Fatalf("rows (- alone, + after another file):\n%s", diff)
			}
			if diff := cmp.Diff(reads(t, s, alone), reads(t, s, after), options); diff != "" {
				rt.Fatalf("what is read (- alone, + after another file):\n%s", diff)
			}
			again, err := s.Files.Apply(t.Context(), asFile(rt, after, second))
			require.NoError(rt, err)
			require.Equal(rt, store.Report{Unchanged: []string{after}}, again)
		})
	})
}

// Readers keep what they parsed until updated_at moves: it moves also where the
// clock does not, or goes back.
func TestReadersSeeAFileAppliedInTheSameMoment(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, now := service(t, db), database.Now()
		s.Time = &now
		for i, endpoint := range []string{"https://a.test", "https://b.test", "https://c.test"} {
			now = now.Add(-time.Duration(i) * time.Second)
			text := fmt.Sprintf(`{key: good, name: Good, billing: 0, methods: [{name: read, endpoint: %q}]}`, endpoint)
			_, err := s.Files.Apply(t.Context(), []file.File{{Name: "good.yaml", Content: []byte(text)}})
			require.NoError(t, err)
			found, err := s.Identify(t.Context(), anna, "good")
			require.NoError(t, err)
			m, _, err := s.Method(t.Context(), anna, found, "read")
			require.NoError(t, err)
			require.Equal(t, endpoint, m.Endpoint)
		}
	})
}

// A row that somebody or something has spoiled stops its own toolset only.
func TestABrokenToolsetStopsNoOther(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(t, db)
		_, err := s.Files.Apply(t.Context(), files(t, "weather.yaml"))
		require.NoError(t, err)
		good := `{key: good, name: Good, billing: 0, methods: [{name: read, endpoint: "https://a.test"}]}`
		_, err = s.Files.Apply(t.Context(), []file.File{{Name: "good.yaml", Content: []byte(good)}})
		require.NoError(t, err)
		for _, spoil := range []string{
			`UPDATE toolset_inventory SET egress = '', updated_at = ? WHERE key = 'weather'`,
			`UPDATE toolset_inventory SET egress = '{', updated_at = ? WHERE key = 'weather'`,
			`UPDATE toolset_inventory SET credit_billing = '', updated_at = ? WHERE key = 'weather'`,
			`UPDATE tool_methods SET adapter_config = '', updated_at = ? WHERE inventory_key = 'weather'`,
			`UPDATE tool_methods SET request_schema = '', updated_at = ? WHERE inventory_key = 'weather'`,
		} {
			connectortest.Exec(t, db, spoil, database.Now())
			connectortest.Exec(t, db, `UPDATE toolset_inventory SET updated_at = ? WHERE key = 'weather'`, database.Now())
			definitions, failures, err := s.Export(t.Context(), anna, nil)
			require.NoError(t, err, spoil)
			require.Equal(t, []string{"good"}, keysOf(definitions), spoil)
			require.Len(t, failures, 1, spoil)
			require.Equal(t, "weather", failures[0].Key)
			require.Equal(t, errs.Unavailable, errs.CodeOf(failures[0].Problem))
			require.NotContains(t, failures[0].Problem.Error(), "JSON")
			_, err = s.Installs.Inventory(t.Context())
			require.NoError(t, err, spoil)
			_, err = s.Installs.Tools(t.Context(), anna)
			require.NoError(t, err, spoil)
			_, err = s.Identify(t.Context(), actor.Actor{UID: anna.UID}, "good")
			require.NoError(t, err, spoil)

			_, err = s.Files.Apply(t.Context(), files(t, "weather.yaml"))
			require.NoError(t, err, spoil)
			_, failures, err = s.Export(t.Context(), anna, nil)
			require.NoError(t, err, spoil)
			require.Empty(t, failures, "applying the file mends the toolset: %s", spoil)
		}
	})
}

func keysOf(definitions []toolset.Definition) []string {
	var keys []string
	for _, d := range definitions {
		keys = append(keys, d.Key)
	}
	return keys
}

// rowsOf are the rows of a toolset that readers use, with the credential opened
// and the toolset's key, ids and times left out.
func rowsOf(t *testing.T, db *database.DB, box *secretbox.Box, key string) map[string][]map[string]any {
	t.Helper()
	out := map[string][]map[string]any{}
	for table, where := range map[string]string{
		"toolset_inventory": "key = ?",
		"toolsets":          "key = ? AND is_global AND deleted_at IS NULL",
		"tool_methods":      "inventory_key = ? AND enabled AND deleted_at IS NULL",
		"tool_billing":      "inventory_key = ? AND enabled",
	} {
		var found []map[string]any
		require.NoError(t, database.Unscoped(db.Read(t.Context())).Table(table).Where(where, key).Find(&found).Error)
		for _, row := range found {
			if sealed, ok := row["api_key"].(string); ok {
				opened, err := box.Open(sealed)
				require.NoError(t, err)
				row["api_key"] = string(opened)
			}
			for _, column := range []string{"pk", "key", "inventory_key", "toolset_id", "created_at", "updated_at"} {
				delete(row, column)
			}
		}
		slices.SortFunc(found, func(a, b map[string]any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		out[table] = found
	}
	return out
}

// storedKey is the sealed credential of a toolset.
func storedKey(t *testing.T, db *database.DB, key string) string {
	t.Helper()
	row, err := rows.Repository{}.Inventory(db.Read(t.Context()), key)
	require.NoError(t, err)
	return database.Text(row.APIKey)
}
