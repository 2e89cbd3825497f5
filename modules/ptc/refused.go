package ptc

import (
	"slices"
	"strings"
)

// WhyNeverFromCode is what is said of a name that is NeverFromCode.
const WhyNeverFromCode = "runs code, starts agents, or changes what is kept for everybody: a tool of this name is never called from code"

// NeverFromCode reports whether a tool of this name may never be a function of
// programs, whatever is claimed of it. A tool of a tool server is refused for
// its own name, too.
func NeverFromCode(name string) bool {
	never := []string{"rlm_exec", "rlm_reset", "rlm_sub_agent", "rlm_ingest", "rlm_load_dir", "rlm_fetch_sitemap", "rlm_knowledge_clear"}
	_, own, _ := strings.Cut(name, "__")
	return slices.Contains(never, name) || slices.Contains(never, own)
}
