package fetch

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// robots are the rules of a site for this server.
type robots struct {
	rules []rule
	delay time.Duration
}

type rule struct {
	allow   bool
	length  int
	pattern *regexp.Regexp
}

// Bounds of robots.txt: how much is read, how many rules are kept, and how long
// a site may ask to wait between two pages.
const (
	maxRobots = 500 << 10
	maxRules  = 1000
	maxDelay  = 10 * time.Second
)

// parseRobots reads the rules of RFC 9309 for the group "portico", or else for
// that of all.
func parseRobots(text string) robots {
	groups := map[string]*robots{}
	var names []string
	naming := false
	for line := range strings.Lines(text[:min(len(text), maxRobots)]) {
		line, _, _ = strings.Cut(line, "#")
		key, value, found := strings.Cut(line, ":")
		if !found {
			continue
		}
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
		if key == "user-agent" {
			if !naming {
				names = nil
			}
			naming = true
			name := strings.ToLower(value)
			names = append(names, name)
			if groups[name] == nil {
				groups[name] = &robots{}
			}
			continue
		}
		naming = false
		for _, name := range names {
			if name == "portico" || name == "*" {
				groups[name].set(key, value)
			}
		}
	}
	for _, name := range []string{"portico", "*"} {
		if g := groups[name]; g != nil {
			return *g
		}
	}
	return robots{}
}

func (r *robots) set(key, value string) {
	switch {
	case key == "crawl-delay":
		if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds > 0 {
			r.delay = min(time.Duration(min(seconds, maxDelay.Seconds())*float64(time.Second)), maxDelay)
		}
	case (key == "allow" || key == "disallow") && value != "" && len(r.rules) < maxRules:
		r.rules = append(r.rules, rule{key == "allow", len(value), pattern(value)})
	}
}

// pattern is the expression of a path in which * stands for anything, and $ for
// the end.
func pattern(path string) *regexp.Regexp {
	path, whole := strings.CutSuffix(path, "$")
	parts := strings.Split(path, "*")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	text := "^" + strings.Join(parts, ".*")
	if whole {
		text += "$"
	}
	return regexp.MustCompile(text) // its parts are quoted
}

// allows reports whether a path, with its query, may be read: the longest rule
// that fits decides, and of two of one length the one that allows.
func (r robots) allows(path string) bool {
	allowed, longest := true, -1
	for _, rule := range r.rules {
		if (rule.length > longest || rule.length == longest && rule.allow) && rule.pattern.MatchString(path) {
			allowed, longest = rule.allow, rule.length
		}
	}
	return allowed
}
