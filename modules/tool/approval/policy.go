package approval

import (
	"slices"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/run/record"
)

// Level is when calls of a tool wait.
type Level string

// The levels, from the least strict to the strictest. First waits until the user
// has allowed the tool for the run, or for arguments like these; Always waits
// unless the user has allowed arguments like these. The empty level says nothing.
const (
	Never  Level = "never"
	First  Level = "first"
	Always Level = "always"
)

// ParseLevel reads a level; the empty text is the empty level.
func ParseLevel(text string) (Level, error) {
	l := Level(text)
	if text != "" && !slices.Contains(levels(), l) {
		return "", errs.Newf(errs.Invalid, "approval %q is none of never, first and always.", text)
	}
	return l, nil
}

func levels() []Level { return []Level{Never, First, Always} }

// strictness orders levels; the empty one comes before all.
func (l Level) strictness() int { return slices.Index(levels(), l) }

// Stricter is the stricter of two levels.
func Stricter(a, b Level) Level {
	if b.strictness() > a.strictness() {
		return b
	}
	return a
}

// Question is a call of which the policy is asked. It was identified and checked.
type Question struct {
	Actor actor.Actor
	Call  record.Call
	// Tool is the name of the method, whatever the call names it.
	Tool string
	// Reads says that the tool changes nothing, as far as is known.
	Reads bool
	// Toolset and Method are what the file says, and Request what the request says
	// that began the program.
	Toolset, Method, Request Level
	// KeyID is the user's key that began the program, or makes the call.
	KeyID string
	// Arguments are those that the call is made with.
	Arguments map[string]any
	// Host is where the call goes, and Price what it costs at least; empty where
	// that is not known. Review does not look at them.
	Host, Price string
	// Leave is why the caller goes away where another process makes the call then; nil
	// where none would.
	Leave error

	continued bool // another process made the call wait
}

// Need is what the policy wants of a call.
type Need struct {
	Waits  bool
	Reason string // for people; empty where it does not wait
}

// voice is somebody who says a level, and who that is in a sentence.
type voice struct {
	level Level
	who   string
}

// strictest is the strictest of what is said; the default where nobody says
// anything.
func strictest(q Question, rules []rule, otherwise Level) voice {
	said := []voice{
		{q.Toolset, "The file of toolset " + q.Call.Toolset},
		{q.Method, "The file of toolset " + q.Call.Toolset + ", for this tool,"},
		{q.Request, "The request that began the program"},
	}
	for _, r := range rules {
		if r.covers(q) {
			said = append(said, voice{r.Level, r.who()})
		}
	}
	var top voice
	for _, v := range said {
		if v.level.strictness() > top.level.strictness() {
			top = v
		}
	}
	switch {
	case top.level != "":
		return top
	case q.Reads:
		return voice{Never, "A tool that only reads"}
	}
	return voice{otherwise, "This server, for tools that may write,"}
}

// sentence says why a call waits.
func (v voice) sentence() string {
	if v.level == First {
		return v.who + " wants a person to allow the tool first."
	}
	return v.who + " wants a person to allow each call."
}
