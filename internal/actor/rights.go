package actor

import (
	"slices"
	"strings"
)

// Rights narrow a user's own API key. The zero value is everything that its user
// may do.
type Rights uint8

// What a key may do where it may not do everything.
const (
	Read  Rights = 1 << iota // read, and change nothing
	Run                      // run programs and agents, and call tools
	Tools                    // call tools
)

// rightNames are in the order of their bits.
func rightNames() []string { return []string{"read", "run", "tools"} }

// ParseRights reads names of rights; none is everything. It reports the first name
// that there is not.
func ParseRights(names []string) (r Rights, unknown string) {
	for _, name := range names {
		i := slices.Index(rightNames(), name)
		if i < 0 {
			return 0, name
		}
		r |= 1 << i
	}
	return r, ""
}

// Names lists the rights; none for everything.
func (r Rights) Names() []string {
	names := []string{}
	for i, name := range rightNames() {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String joins the names with commas.
func (r Rights) String() string { return strings.Join(r.Names(), ",") }
