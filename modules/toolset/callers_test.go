package toolset_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/toolset"
)

// Who may call a tool follows from its name, unless its file says it. A name
// that this server gives a tool of its own means nothing in a toolset.
func TestCallers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, allowed         string
		direct, code, first   bool // who may call, and whether code comes first
		offered, offeredPlain bool // directly, with and without code
		listed                []string
	}{
		{"bash", "", true, true, false, false, true, nil},
		{"complete", "", true, true, false, false, true, nil},
		{"fail", "", true, true, false, false, true, nil},
		{"onboarding_handoff", "", true, true, false, false, true, nil},
		{"github__list_issues", "", true, true, true, false, true, []string{"code"}},
		{"github__complete", "", true, true, true, false, true, []string{"code"}},
		{"github__list_issues", "direct,code", true, true, false, true, true, []string{"direct", "code"}},
		{"github__list_issues", "direct", true, false, false, true, true, []string{"direct"}},
		{"bash", "direct", true, false, false, true, true, []string{"direct"}},
		{"bash", "code", false, true, false, false, false, []string{"code"}},
		{"bash", "direct,code", true, true, false, true, true, []string{"direct", "code"}},
		{"fail", "code", false, true, false, false, false, []string{"code"}},
		{"fail", "code,direct", true, true, false, true, true, []string{"direct", "code"}},
	} {
		got := toolset.Method{Name: c.name, AllowedCallers: c.allowed}.Callers()
		require.Equal(t, []bool{c.direct, c.code, c.first, c.offered, c.offeredPlain},
			[]bool{got.Direct, got.Code, got.CodeFirst, got.OfferedDirectly(true), got.OfferedDirectly(false)}, "%s %s", c.name, c.allowed)
		require.Equal(t, c.listed, got.Names(), "%s %s", c.name, c.allowed)
	}
}
