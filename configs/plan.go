package configs

import (
	"errors"
	"fmt"
	"strings"
)

// planHelp is the problem with whatever is not in the form of PlanLimit.
const planHelp = "must be plans with their limits, like free timeout=30s maxFile=10MiB atOnce=2 perMinute=20, separated by commas"

// parsePlanLimits reads one plan after the other.
func parsePlanLimits(text string) ([]PlanLimit, error) {
	items, err := splitList(text)
	limits := make([]PlanLimit, len(items))
	seen := map[string]bool{}
	for i, item := range items {
		if limits[i], err = parsePlanLimit(item); err != nil {
			return nil, err
		}
		if seen[limits[i].Plan] {
			return nil, errors.New("must name each plan once")
		}
		seen[limits[i].Plan] = true
	}
	return limits, err
}

func parsePlanLimit(text string) (PlanLimit, error) {
	words := strings.Fields(text)
	p := PlanLimit{Plan: words[0]}
	if !keyForm.MatchString(p.Plan) || len(words) == 1 {
		return p, errors.New(planHelp)
	}
	given := map[string]bool{}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		before := p
		err := errors.New(planHelp)
		switch name {
		case "timeout":
			p.Timeout, err = parseDuration(value)
		case "maxFile":
			p.MaxFile, err = parseSize(value)
		case "atOnce":
			p.AtOnce, err = parseInt(value)
		case "perMinute":
			p.PerMinute, err = parseInt(value)
		}
		if err != nil || given[name] {
			return p, errors.New(planHelp)
		}
		if p == before { // nothing at all is not "no limit"
			return p, errors.New("must not limit anything to 0: leave a limit out to have none")
		}
		given[name] = true
	}
	return p, nil
}

// String writes the limits the way they are read.
func (p PlanLimit) String() string {
	text := p.Plan
	if p.Timeout > 0 {
		text += fmt.Sprintf(" timeout=%s", p.Timeout)
	}
	if p.MaxFile > 0 {
		text += fmt.Sprintf(" maxFile=%d", p.MaxFile)
	}
	if p.AtOnce > 0 {
		text += fmt.Sprintf(" atOnce=%d", p.AtOnce)
	}
	if p.PerMinute > 0 {
		text += fmt.Sprintf(" perMinute=%d", p.PerMinute)
	}
	return text
}
