package fetch

import (
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
	pattern string
}

// Bounds of robots.txt: how much is read, which RFC 9309 asks for, and how long a
// site may ask to wait between two pages.
const (
	maxRobots = 500 << 10
	maxDelay  = 10 * time.Second
)

// parseRobots reads the rules of RFC 9309 for the group "portico", or else for
// that of all.
func parseRobots(text string) robots {
	text = strings.TrimPrefix(text, "\ufeff") // Windows' editors begin files with it
	if len(text) > maxRobots {
		text = text[:strings.LastIndexByte(text[:maxRobots], '\n')+1] // half a rule says something else
	}
	groups := map[string]*robots{}
	var names []string
	naming := false
	for line := range strings.Lines(text) {
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
	case (key == "allow" || key == "disallow") && value != "":
		r.rules = append(r.rules, rule{key == "allow", value})
	}
}

// fits reports whether a rule is about a path: * stands for anything, and $ for the end.
func (r rule) fits(path string) bool {
	pattern, whole := strings.CutSuffix(r.pattern, "$")
	begin, rest, more := strings.Cut(pattern, "*")
	path, fits := strings.CutPrefix(path, begin)
	for more && fits {
		if begin, rest, more = strings.Cut(rest, "*"); whole && !more {
			return strings.HasSuffix(path, begin)
		}
		_, path, fits = strings.Cut(path, begin)
	}
	return fits && (path == "" || !whole)
}

// allows reports whether a path, with its query, may be read: the longest rule
// that fits decides, and of two of one length the one that allows.
func (r robots) allows(path string) bool {
	allowed, longest := true, -1
	for _, rule := range r.rules {
		length := len(rule.pattern)
		if (length > longest || length == longest && rule.allow) && rule.fits(path) {
			allowed, longest = rule.allow, length
		}
	}
	return allowed
}
