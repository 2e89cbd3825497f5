// Package ptc decides who may use programmatic tool calling, and says why.
package ptc

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Mode is the main switch.
type Mode string

// Partial is on for listed users only.
const (
	Off     Mode = "off"
	On      Mode = "on"
	Partial Mode = "partial"
)

// Debug is the filter on a run's title that follows a positive decision.
type Debug string

// The filters; the older value "true" means OptIn.
const (
	NoDebug Debug = ""
	OptIn   Debug = "opt-in"
	OptOut  Debug = "opt-out"
)

// The words a title is searched for, without regard to case.
const (
	optInWord  = "useptc"
	optOutWord = "nonptc"
)

const defaultSalt = "ptc-rollout"

// Raw is the settings as an administrator wrote them.
type Raw struct {
	Enabled, Mode, Debug, UserAllowlist, ToolsetAllowlist, ToolsetBlocklist, Sequential, RolloutPercent, RolloutSalt string
	// BreakEven says that agent runs may fall back to plain tool calling.
	BreakEven bool
}

// Policy is the settings as they are applied. It is immutable.
type Policy struct {
	mode       Mode
	debug      Debug
	debugSet   bool // PTC_DEBUG holds anything at all
	users      []string
	allow      []string
	allowSet   bool // an allowlist is configured, be it empty
	block      []string
	percent    float64
	salt       string
	sequential bool
	breakEven  bool
}

// Parse reads the settings. An unknown mode or filter is replaced by the safe
// choice with a warning. A percentage that cannot be read is an error, because any
// guess would be wrong for somebody.
func Parse(raw Raw) (Policy, []string, error) {
	p := Policy{salt: strings.TrimSpace(raw.RolloutSalt), percent: 100, sequential: strings.TrimSpace(raw.Sequential) == "true", breakEven: raw.BreakEven}
	var warnings []string
	switch m := Mode(strings.ToLower(strings.TrimSpace(raw.Mode))); m {
	case Off, On, Partial:
		p.mode = m
	case "":
		p.mode = Off
		if strings.EqualFold(strings.TrimSpace(raw.Enabled), "true") {
			p.mode = On
		}
	default:
		p.mode = Off
		warnings = append(warnings, fmt.Sprintf("PTC_MODE %q is not off, on or partial: it is taken as off", raw.Mode))
	}
	if e := strings.ToLower(strings.TrimSpace(raw.Enabled)); e != "" && e != "true" && e != "false" {
		warnings = append(warnings, fmt.Sprintf("PTC_ENABLED %q is not true or false: it is taken as not set", raw.Enabled))
	} else if e != "" && strings.TrimSpace(raw.Mode) != "" && (e == "true") == (p.mode == Off) {
		warnings = append(warnings, fmt.Sprintf("PTC_ENABLED is %s and PTC_MODE is %s: PTC_MODE counts", e, p.mode))
	}
	switch d := Debug(strings.ToLower(strings.TrimSpace(raw.Debug))); d {
	case NoDebug, OptIn, OptOut:
		p.debug, p.debugSet = d, d != NoDebug
	case "true":
		p.debug, p.debugSet = OptIn, true
	default:
		p.debugSet = true
		warnings = append(warnings, fmt.Sprintf("PTC_DEBUG %q is not opt-in or opt-out: no title is filtered", raw.Debug))
	}
	p.users, p.block = list(raw.UserAllowlist), list(raw.ToolsetBlocklist)
	p.allow, p.allowSet = list(raw.ToolsetAllowlist), strings.TrimSpace(raw.ToolsetAllowlist) != ""
	if p.salt == "" {
		p.salt = defaultSalt
	}
	if text := strings.TrimSpace(raw.RolloutPercent); text != "" {
		percent, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(percent) || percent < 0 || percent > 100 {
			return Policy{}, warnings, errors.New("PTC_ROLLOUT_PERCENT must be a number from 0 to 100")
		}
		p.percent = percent
	}
	return p, warnings, nil
}

// list splits a comma-separated setting; blanks are dropped.
func list(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// Bucket is the user's place in the rollout, 0 to 99. It never changes for a
// salt, so that a growing percentage only ever adds users.
func Bucket(uid, salt string) uint32 {
	sum := sha256.Sum256([]byte(uid + salt))
	return binary.BigEndian.Uint32(sum[:4]) % 100
}

// SandboxDebug reports whether sandboxes get REFLY_PTC_DEBUG=true: whenever
// PTC_DEBUG is not empty.
func (p Policy) SandboxDebug() bool { return p.debugSet }

// Sequential reports whether programs are to make their calls one by one.
func (p Policy) Sequential() bool { return p.sequential }

// AllowsToolset reports whether the lists let code call a toolset. The
// blocklist wins; builtin tools are on no list.
func (p Policy) AllowsToolset(key string) bool {
	return !p.blocks(key) && p.lists(key)
}

func (p Policy) blocks(key string) bool { return !IsBuiltin(key) && slices.Contains(p.block, key) }

func (p Policy) lists(key string) bool {
	return IsBuiltin(key) || !p.allowSet || slices.Contains(p.allow, key)
}

// Builtins lists the tools of the platform itself, by name.
func Builtins() []string {
	return []string{
		"create_chart", "execute_code", "get_time", "help", "list_files", "python_repl", "read_agent_result", "read_file", "read_tool_result", "search_tools",
	}
}

// Own is the toolset key under which programs of an agent call the platform's
// own tools.
const Own = "portico"

// IsBuiltin reports whether a key is the name of one of the platform's own tools,
// or reserved for one. These are part of every run; allowlists and blocklists do
// not apply to them.
func IsBuiltin(key string) bool {
	reserved := []string{Own, "exec_code", "web_search", "generate_doc", "generate_code_artifact", "send_email"}
	return slices.Contains(Builtins(), key) || slices.Contains(reserved, key)
}
