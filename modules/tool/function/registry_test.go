package function_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/tool/function"
)

func reads(name string) function.Function {
	return function.Function{
		Name: name, Description: "Reads.", Input: json.RawMessage(`{"type":"object"}`), ReadOnly: true, SandboxCallable: true,
		Run: func(context.Context, function.Caller, json.RawMessage) (json.RawMessage, error) { return nil, nil },
	}
}

// None of the refused names is ever registered, and code calls only what reads
// or may be repeated. The error names the function.
func TestWhatCannotBeRegistered(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"rlm_exec", "rlm_reset", "rlm_sub_agent", "rlm_ingest", "rlm_load_dir", "rlm_fetch_sitemap", "rlm_knowledge_clear"} {
		f := reads(name)
		f.SandboxCallable = false
		_, err := function.NewRegistry(reads("fine"), f)
		require.ErrorContains(t, err, `function "`+name+`" runs code, starts agents, or changes what is kept`)
	}
	for want, change := range map[string]func(f *function.Function){
		"only if it only reads":               func(f *function.Function) { f.ReadOnly = false },
		"no JSON Schema of an object":         func(f *function.Function) { f.Input = json.RawMessage(`{"type":"string"}`) },
		"arguments that are no JSON":          func(f *function.Function) { f.Input = json.RawMessage(`{"type":"object","properties":5}`) },
		"has no description":                  func(f *function.Function) { f.Description = " " },
		"does nothing":                        func(f *function.Function) { f.Run = nil },
		"must be named by":                    func(f *function.Function) { f.Name = "a-b" },
		`function "same" is registered twice`: func(f *function.Function) { f.Name = "same" },
	} {
		f := reads("wrong")
		change(&f)
		_, err := function.NewRegistry(reads("same"), f)
		require.ErrorContains(t, err, want)
	}
	r, err := function.NewRegistry(reads("a"), func() function.Function { f := reads("b"); f.SandboxCallable, f.ReadOnly = false, false; return f }())
	require.NoError(t, err)
	require.Len(t, r.All(), 2)
	require.Len(t, r.ForCode(), 1)
}
