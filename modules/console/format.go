package console

import (
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"time"
)

func (s *shell) funcs() template.FuncMap {
	return template.FuncMap{
		"path": s.path, "when": s.when, "size": size, "icon": s.icon, "asset": s.asset, "inc": func(i int) int { return i + 1 },
		"pair": func(a, b any) any { return struct{ First, Second any }{a, b} },
	}
}

// path is an address of the console; what does not begin with a slash is one part
// of it.
func (s *shell) path(parts ...string) string {
	var b strings.Builder
	b.WriteString(s.base)
	for _, p := range parts {
		if strings.HasPrefix(p, "/") {
			b.WriteString(p)
		} else {
			b.WriteString(strings.ReplaceAll(url.PathEscape(p), "%2F", "/"))
		}
	}
	return b.String()
}

// asset is the address of a file that pages load.
func (s *shell) asset(name string) string { return s.base + "/static/" + s.assets.hash + "/" + name }

func (s *shell) icon(name string) template.HTML {
	return template.HTML(`<svg class="icon" aria-hidden="true" width="14" height="14"><use href="` + template.HTMLEscapeString(s.asset("icons.svg")+"#"+name) + `"></use></svg>`) //nolint:gosec // escaped
}

// when is a moment as a distance from now, with the moment itself beside.
func (s *shell) when(v any) (template.HTML, error) {
	var at time.Time
	switch v := v.(type) {
	case time.Time:
		at = v
	case *time.Time:
		at = *v
	case int64:
		at = time.UnixMilli(v)
	default:
		return "", fmt.Errorf("%T is no moment", v)
	}
	if at.IsZero() {
		return "", nil
	}
	exact := at.UTC().Format("2006-01-02 15:04:05 UTC")
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`, at.UTC().Format(time.RFC3339), exact, distance(s.now().Sub(at)))), nil //nolint:gosec // of digits
}

func distance(d time.Duration) string {
	words := "%s ago"
	if d < 0 {
		words, d = "in %s", -d
	}
	switch {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf(words, fmt.Sprintf("%d min", d/time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf(words, fmt.Sprintf("%d h", d/time.Hour))
	}
	return fmt.Sprintf(words, fmt.Sprintf("%d days", d/(24*time.Hour)))
}

// size is a number of bytes.
func size(v any) (string, error) {
	var n int64
	switch v := v.(type) {
	case int:
		n = int64(v)
	case int64:
		n = v
	case *int64:
		n = *v
	default:
		return "", fmt.Errorf("%T is no number of bytes", v)
	}
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n), nil
	}
	f, i := float64(n)/unit, 0
	for ; f >= unit && i < 4; i++ {
		f /= unit
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGTP"[i]), nil
}
