package ptc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/portico-run/portico/modules/ptc"
)

func parse(t *testing.T, raw ptc.Raw) ptc.Policy {
	t.Helper()
	p, warnings, err := ptc.Parse(raw)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%+v: %v, %v", raw, warnings, err)
	}
	return p
}

// What the settings decide, row by row.
func TestTruthTable(t *testing.T) {
	t.Parallel()
	on := ptc.Raw{Mode: "on"}
	with := func(change func(*ptc.Raw)) ptc.Raw {
		raw := on
		change(&raw)
		return raw
	}
	partial := ptc.Raw{Mode: "partial", UserAllowlist: "u-1, u-2 ,u-123", ToolsetAllowlist: "google, notion", ToolsetBlocklist: "bad-tool"}
	lists := with(func(r *ptc.Raw) { r.ToolsetAllowlist, r.ToolsetBlocklist = "t1,t2,blocked", "blocked" })
	cases := []struct {
		row  string
		raw  ptc.Raw
		q    ptc.Question
		want bool
	}{
		{"1 defaults are off", ptc.Raw{}, ptc.Question{UID: "u-123"}, false},
		{"2 lists are trimmed", partial, ptc.Question{UID: "u-2", Toolsets: []string{"google", "notion"}}, true},
		{"2 blocked", partial, ptc.Question{UID: "u-1", Toolsets: []string{"bad-tool"}}, false},
		{"4 true is opt-in", with(func(r *ptc.Raw) { r.Debug = "true" }), ptc.Question{UID: "u-123", Title: "x"}, false},
		{"4 true is opt-in, title", with(func(r *ptc.Raw) { r.Debug = "true" }), ptc.Question{UID: "u-123", Title: "my UsePTC run"}, true},
		{"5 opt-in", with(func(r *ptc.Raw) { r.Debug = " OPT-IN " }), ptc.Question{UID: "u-123", Title: "useptc"}, true},
		{"6 opt-out", with(func(r *ptc.Raw) { r.Debug = "opt-out" }), ptc.Question{UID: "u-123", Title: "NonPTC"}, false},
		{"6 opt-out, other title", with(func(r *ptc.Raw) { r.Debug = "opt-out" }), ptc.Question{UID: "u-123", Title: "x"}, true},
		{"8 off", ptc.Raw{Mode: "off"}, ptc.Question{UID: "u-123"}, false},
		{"9 on", on, ptc.Question{UID: "u-123"}, true},
		{"10 partial, listed", partial, ptc.Question{UID: "u-123"}, true},
		{"10 partial, other", partial, ptc.Question{UID: "u-other"}, false},
		{"11 in blocklist", lists, ptc.Question{UID: "u-123", Toolsets: []string{"blocked"}}, false},
		{"12 no lists", on, ptc.Question{UID: "u-123", Toolsets: []string{"any"}}, true},
		{"13 in allowlist", lists, ptc.Question{UID: "u-123", Toolsets: []string{"t1"}}, true},
		{"14 not in allowlist", lists, ptc.Question{UID: "u-123", Toolsets: []string{"unknown"}}, false},
		{"15 in both lists", lists, ptc.Question{UID: "u-123", Toolsets: []string{"blocked"}}, false},
		{"16 all allowed", lists, ptc.Question{UID: "u-123", Toolsets: []string{"t1", "t2"}}, true},
		{"17 same, off", ptc.Raw{Mode: "off", ToolsetAllowlist: "t1,t2"}, ptc.Question{UID: "u-123", Toolsets: []string{"t1", "t2"}}, false},
		{"18 one blocked", lists, ptc.Question{UID: "u-123", Toolsets: []string{"t1", "blocked"}}, false},
		{"18 one unknown", lists, ptc.Question{UID: "u-123", Toolsets: []string{"t1", "unknown"}}, false},
		{"19 percent 0", with(func(r *ptc.Raw) { r.RolloutPercent = "0" }), ptc.Question{UID: "u-123", Toolsets: []string{"t1"}}, false},
		{"20 off and percent 0", ptc.Raw{Mode: "off", RolloutPercent: "0"}, ptc.Question{UID: "u-123"}, false},
		{"21 percent 100", with(func(r *ptc.Raw) { r.RolloutPercent = "100" }), ptc.Question{UID: "u-123"}, true},
		{"22 percent 0, no toolset", with(func(r *ptc.Raw) { r.RolloutPercent = "0" }), ptc.Question{UID: "u-3"}, false},
		{"23 stable below", with(func(r *ptc.Raw) { r.RolloutPercent = "50" }), ptc.Question{UID: "u-abc"}, true},
		{"builtins are on no list", lists, ptc.Question{UID: "u-123", Toolsets: []string{"execute_code", "t1"}}, true},
		{"an allowlist of nothing", with(func(r *ptc.Raw) { r.ToolsetAllowlist = "," }), ptc.Question{UID: "u-123", Toolsets: []string{"t1"}}, false},
		{"mode is trimmed", ptc.Raw{Mode: " ON "}, ptc.Question{UID: "u-123"}, true},
		{"bucket 3 at 3 is out", with(func(r *ptc.Raw) { r.RolloutPercent = "3" }), ptc.Question{UID: "u-3"}, false},
		{"bucket 3 at 3.5 is in", with(func(r *ptc.Raw) { r.RolloutPercent = "3.5" }), ptc.Question{UID: "u-3"}, true},
		{"the switch of the compact form", ptc.Raw{Enabled: " True "}, ptc.Question{UID: "u-123"}, true},
		{"it is off when it is not set", ptc.Raw{}, ptc.Question{UID: "u-123"}, false},
		{"debug cannot turn on what is off", ptc.Raw{Mode: "off", Debug: "opt-in"}, ptc.Question{UID: "u-123", Title: "useptc"}, false},
	}
	for _, c := range cases {
		t.Run(c.row, func(t *testing.T) {
			t.Parallel()
			d := parse(t, c.raw).Decide(c.q)
			if d.Enabled != c.want {
				t.Errorf("enabled = %v, want %v: %+v", d.Enabled, c.want, d.Steps)
			}
			if c.want == (d.Explanation() != "every check passed") {
				t.Errorf("explanation %q", d.Explanation())
			}
		})
	}
}

// Rows 3 and 7 of the table, and the other values that are not understood.
func TestValuesThatAreNotUnderstood(t *testing.T) {
	t.Parallel()
	p, warnings, err := ptc.Parse(ptc.Raw{Mode: "invalid", Debug: "false"})
	if err != nil || len(warnings) != 2 {
		t.Fatalf("%v, %v", warnings, err)
	}
	if p.Decide(ptc.Question{}).Enabled || !p.SandboxDebug() {
		t.Errorf("an unknown mode is on, or an unknown debug value is lost: %+v", p)
	}
	for raw, enabled := range map[ptc.Raw]bool{{Enabled: "yes"}: false, {Enabled: "true", Mode: "off"}: false, {Enabled: "false", Mode: "on"}: true} {
		p, warnings, err := ptc.Parse(raw)
		if err != nil || len(warnings) != 1 || p.Decide(ptc.Question{}).Enabled != enabled {
			t.Errorf("%+v: %v, %v", raw, warnings, err)
		}
	}
	if _, warnings, _ := ptc.Parse(ptc.Raw{Enabled: "false", Mode: "off"}); len(warnings) != 0 {
		t.Errorf("both say the same: %v", warnings)
	}
	for _, percent := range []string{"abc", "-1", "100.1", "NaN", "Inf", "5%"} {
		if _, _, err := ptc.Parse(ptc.Raw{RolloutPercent: percent}); err == nil {
			t.Errorf("percent %q is accepted", percent)
		}
	}
	for _, percent := range []string{"", " 50 ", "1e1", "12.5", "0", "100"} {
		if _, _, err := ptc.Parse(ptc.Raw{RolloutPercent: percent}); err != nil {
			t.Errorf("percent %q: %v", percent, err)
		}
	}
}

func TestSequentialIsOrthogonal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"true": true, " true ": true, "": false, "false": false, "TRUE": false, "1": false} {
		d := parse(t, ptc.Raw{Sequential: text}).Decide(ptc.Question{})
		if d.Sequential != want || d.Enabled {
			t.Errorf("PTC_SEQUENTIAL %q: %+v", text, d)
		}
	}
}

func TestRolloutVectors(t *testing.T) {
	t.Parallel()
	vectors := map[string]uint32{
		"u-123": 30, "u-abc": 46, "u-other": 14, "u-local": 78, "u-0": 9, "u-1": 69, "u-2": 55, "u-3": 3, "u-4": 44,
		"u-5": 37, "u-6": 83, "u-7": 7, "u-8": 24, "u-9": 69, "u-10": 76, "": 3,
	}
	for uid, want := range vectors {
		if got := ptc.Bucket(uid, "ptc-rollout"); got != want {
			t.Errorf("bucket of %q = %d, want %d", uid, got, want)
		}
	}
	for salt, want := range map[string][]uint32{
		"salt-a": {53, 76, 40, 78, 87, 94, 9, 32, 94, 52},
		"salt-b": {98, 39, 45, 67, 52, 92, 27, 9, 52, 52},
	} {
		var got []uint32
		for i := range 10 {
			got = append(got, ptc.Bucket(fmt.Sprintf("u-%d", i), salt))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", salt, diff)
		}
	}
}

func TestStepsAreAlwaysAllThereInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := ptc.Raw{
			Mode:             rapid.SampledFrom([]string{"", "off", "on", "partial"}).Draw(t, "mode"),
			Debug:            rapid.SampledFrom([]string{"", "opt-in", "opt-out"}).Draw(t, "debug"),
			UserAllowlist:    rapid.SampledFrom([]string{"", "u-1"}).Draw(t, "users"),
			ToolsetAllowlist: rapid.SampledFrom([]string{"", "a", "a,b"}).Draw(t, "allow"),
			ToolsetBlocklist: rapid.SampledFrom([]string{"", "b"}).Draw(t, "block"),
			RolloutPercent:   rapid.SampledFrom([]string{"", "0", "50"}).Draw(t, "percent"),
		}
		p, _, err := ptc.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		d := p.Decide(ptc.Question{UID: "u-1", Toolsets: []string{"a", "b"}})
		var names []string
		failed := 0
		for _, s := range d.Steps {
			names = append(names, s.Check)
			if s.Reason == "" {
				t.Fatalf("%s gives no reason", s.Check)
			}
			if s.Result == ptc.Fail {
				failed++
			} else if failed > 0 && s.Result != ptc.Skip {
				t.Fatalf("%s was run after a failure", s.Check)
			}
		}
		want := "mode user_allowlist toolset_blocklist toolset_allowlist rollout debug_title"
		if strings.Join(names, " ") != want || d.Enabled != (failed == 0) || failed > 1 {
			t.Fatalf("%+v", d)
		}
	})
}

func TestAGrowingPercentageOnlyAddsUsers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		uid := rapid.String().Draw(t, "uid")
		a, b := rapid.IntRange(0, 100).Draw(t, "a"), rapid.IntRange(0, 100).Draw(t, "b")
		decide := func(percent int) bool {
			p, _, err := ptc.Parse(ptc.Raw{Mode: "on", RolloutPercent: fmt.Sprint(percent)})
			if err != nil {
				t.Fatal(err)
			}
			return p.Decide(ptc.Question{UID: uid}).Enabled
		}
		if decide(min(a, b)) && !decide(max(a, b)) {
			t.Fatalf("%q is in at %d and out at %d", uid, min(a, b), max(a, b))
		}
	})
}

func TestSwapTakesEffectAtOnce(t *testing.T) {
	t.Parallel()
	s := ptc.New(parse(t, ptc.Raw{})).Service
	s.Swap(parse(t, ptc.Raw{Mode: "on", ToolsetBlocklist: "x"}))
	if !s.Decide(ptc.Question{}).Enabled || s.AllowsToolset("x") || !s.AllowsToolset("y") || s.SandboxDebug() {
		t.Error("the old policy is still in force")
	}
}

// Where agent runs may fall back to plain tool calling, the last step says so.
func TestBreakEvenIsExplained(t *testing.T) {
	t.Parallel()
	q := ptc.Question{UID: "u-1"}
	for _, s := range parse(t, ptc.Raw{Mode: "on"}).Decide(q).Steps {
		if s.Check == "break_even" {
			t.Error("a step for a check that is not made")
		}
	}
	for mode, want := range map[string]string{"on": "AGENT_BREAK_EVEN is true", "off": "an earlier check has decided"} {
		d := parse(t, ptc.Raw{Mode: mode, BreakEven: true}).Decide(q)
		last := d.Steps[len(d.Steps)-1]
		if last.Check != "break_even" || last.Result != ptc.Skip || !strings.Contains(last.Reason, want) {
			t.Errorf("%s: %+v", mode, last)
		}
		if d.Enabled != (mode == "on") {
			t.Errorf("%s: enabled is %v", mode, d.Enabled)
		}
	}
}
