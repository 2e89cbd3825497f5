package ptc

import (
	"fmt"
	"slices"
	"strings"
)

// Question is what a decision is about.
type Question struct {
	UID      string
	Toolsets []string // keys
	Title    string   // of the run
}

// Decision is the answer, with one step per check in their order.
type Decision struct {
	Enabled    bool   `json:"enabled"`
	Sequential bool   `json:"sequential"`
	Steps      []Step `json:"steps"`
}

// Step is one check of a decision.
type Step struct {
	Check  string `json:"check" doc:"Name of the check"`
	Result Result `json:"result" enum:"pass,fail,skip"`
	Reason string `json:"reason" doc:"Why, for an administrator"`
}

// Result is the outcome of one check.
type Result string

// A check that does not apply, or comes after one that failed, is skipped.
const (
	Pass Result = "pass"
	Fail Result = "fail"
	Skip Result = "skip"
)

// Explanation says in one sentence why the answer is no.
func (d Decision) Explanation() string {
	for _, s := range d.Steps {
		if s.Result == Fail {
			return s.Check + ": " + s.Reason
		}
	}
	return "every check passed"
}

// check is one rule: its outcome and the reason.
type check struct {
	name string
	run  func(Policy, Question) (Result, string)
}

// checks are in the order of docs/rulings.md#who-may-use-ptc: the first that fails decides.
func checks() []check {
	return []check{
		{"mode", Policy.checkMode},
		{"user_allowlist", Policy.checkUser},
		{"toolset_blocklist", Policy.checkBlocklist},
		{"toolset_allowlist", Policy.checkAllowlist},
		{"rollout", Policy.checkRollout},
		{"debug_title", Policy.checkTitle},
	}
}

// Decide answers whether PTC is on for a run.
func (p Policy) Decide(q Question) Decision {
	d := Decision{Enabled: true, Sequential: p.sequential}
	for _, c := range checks() {
		step := Step{Check: c.name, Result: Skip, Reason: "an earlier check has decided"}
		if d.Enabled {
			step.Result, step.Reason = c.run(p, q)
			d.Enabled = step.Result != Fail
		}
		d.Steps = append(d.Steps, step)
	}
	if p.breakEven {
		d.Steps = append(d.Steps, p.stepBreakEven(d.Enabled))
	}
	return d
}

// stepBreakEven stands for the check that the run makes later, when its tools are
// known. It is a step only if AGENT_BREAK_EVEN is set.
func (p Policy) stepBreakEven(enabled bool) Step {
	reason := "an earlier check has decided"
	if enabled {
		reason = "AGENT_BREAK_EVEN is true: when an agent run starts, it compares the tokens that describing its tools takes for code and for plain tool calling, " +
			"calls them plainly where that takes no more, and says so in its stream; programs that are sent to the server are not affected"
	}
	return Step{Check: "break_even", Result: Skip, Reason: reason}
}

func (p Policy) checkMode(Question) (Result, string) {
	if p.mode == Off {
		return Fail, "PTC_MODE is off"
	}
	return Pass, "PTC_MODE is " + string(p.mode)
}

func (p Policy) checkUser(q Question) (Result, string) {
	switch {
	case p.mode != Partial:
		return Skip, "PTC_USER_ALLOWLIST counts only with PTC_MODE=partial"
	case slices.Contains(p.users, q.UID):
		return Pass, fmt.Sprintf("%s is in PTC_USER_ALLOWLIST", q.UID)
	}
	return Fail, fmt.Sprintf("%s is not in PTC_USER_ALLOWLIST", q.UID)
}

func (p Policy) checkBlocklist(q Question) (Result, string) {
	if len(p.block) == 0 {
		return Skip, "PTC_TOOLSET_BLOCKLIST is empty"
	}
	for _, key := range q.Toolsets {
		if p.blocks(key) {
			return Fail, fmt.Sprintf("%s is in PTC_TOOLSET_BLOCKLIST", key)
		}
	}
	return Pass, "no toolset is in PTC_TOOLSET_BLOCKLIST"
}

func (p Policy) checkAllowlist(q Question) (Result, string) {
	if !p.allowSet {
		return Skip, "PTC_TOOLSET_ALLOWLIST is not set"
	}
	for _, key := range q.Toolsets {
		if !p.lists(key) {
			return Fail, fmt.Sprintf("%s is not in PTC_TOOLSET_ALLOWLIST", key)
		}
	}
	return Pass, "every toolset is in PTC_TOOLSET_ALLOWLIST"
}

func (p Policy) checkRollout(q Question) (Result, string) {
	if p.percent >= 100 {
		return Pass, "PTC_ROLLOUT_PERCENT is 100"
	}
	bucket := Bucket(q.UID, p.salt)
	if float64(bucket) < p.percent {
		return Pass, fmt.Sprintf("bucket %d is below PTC_ROLLOUT_PERCENT %v", bucket, p.percent)
	}
	return Fail, fmt.Sprintf("bucket %d is not below PTC_ROLLOUT_PERCENT %v", bucket, p.percent)
}

func (p Policy) checkTitle(q Question) (Result, string) {
	title := strings.ToLower(q.Title)
	switch p.debug {
	case OptIn:
		if strings.Contains(title, optInWord) {
			return Pass, fmt.Sprintf("PTC_DEBUG is opt-in and the title contains %q", optInWord)
		}
		return Fail, fmt.Sprintf("PTC_DEBUG is opt-in and the title does not contain %q", optInWord)
	case OptOut:
		if strings.Contains(title, optOutWord) {
			return Fail, fmt.Sprintf("PTC_DEBUG is opt-out and the title contains %q", optOutWord)
		}
		return Pass, fmt.Sprintf("PTC_DEBUG is opt-out and the title does not contain %q", optOutWord)
	}
	return Skip, "PTC_DEBUG filters no titles"
}
