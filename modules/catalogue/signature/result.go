package signature

import (
	"encoding/json"
)

// maxResult is how long the type of a result may be, in bytes. A longer one is
// abbreviated: help shows the whole schema.
const maxResult = 100

// fewMembers is how many members of an object are written where all of them
// would be too long.
const fewMembers = 5

// Result writes the type of what a tool returns. It is Any where no schema
// says, and dict for an object whose members are not known. Objects are written
// out as deep as fits into maxResult; "**Any" stands for members left out.
func Result(schema json.RawMessage) string {
	root := object(schema)
	if root == nil {
		return "Any"
	}
	for _, members := range []int{0, fewMembers, 2} {
		t := newTyper(root)
		t.members, t.space = members, " "
		text, fits := t.within(root, maxResult)
		if fits {
			return text
		}
	}
	return newTyper(root).of(root, maxNesting)
}
