package toolset_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/toolset"
)

// The classification of seeds/compact-sdk-ptc.md, and the overrides.
func TestCallers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, allowed         string
		direct, code          bool // who may call
		offered, offeredPlain bool // directly, with and without code
	}{
		{"bash", "", true, true, false, true},
		{"complete", "", true, false, true, true},
		{"fail", "", true, false, true, true},
		{"onboarding_handoff", "", true, false, true, true},
		{"github__list_issues", "", true, true, false, true},
		{"github__complete", "", true, true, false, true},
		{"bash", "direct", true, false, true, true},
		{"bash", "code", false, true, false, false},
		{"bash", "direct,code", true, true, true, true},
		{"fail", "code", false, true, false, false},
		{"fail", "code,direct", true, true, true, true},
	} {
		got := toolset.Method{Name: c.name, AllowedCallers: c.allowed}.Callers()
		require.Equal(t, []bool{c.direct, c.code, c.offered, c.offeredPlain},
			[]bool{got.Direct, got.Code, got.OfferedDirectly(true), got.OfferedDirectly(false)}, "%s %s", c.name, c.allowed)
	}
}
