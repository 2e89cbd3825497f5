package configs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Print writes the configuration as YAML that Load reads again, with the
// variable of each setting beside it and with secrets hidden.
func (c *Config) Print(w io.Writer) error {
	var out bytes.Buffer
	var open []string
	for _, s := range settings(c) {
		path := strings.Split(s.key, ".")
		groups, leaf := path[:len(path)-1], path[len(path)-1]
		for depth, group := range groups {
			if depth < len(open) && open[depth] == group {
				continue
			}
			fmt.Fprintf(&out, "%s%s:\n", strings.Repeat("  ", depth), group)
			open = append(open[:min(depth, len(open))], group)
		}
		open = open[:len(groups)]
		text, err := s.yaml()
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s%s: %s # %s\n", strings.Repeat("  ", len(groups)), leaf, text, s.env)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// yaml is the value as a YAML flow scalar or list. Texts are in JSON's quotes,
// which YAML reads the same way.
func (s setting) yaml() (string, error) {
	switch v := s.value.Interface().(type) {
	case time.Duration:
		return v.String(), nil
	case int64:
		return sizeText(v), nil
	case *Decimal:
		if v == nil {
			return quote("")
		}
		return v.yaml()
	case Decimal:
		return v.yaml()
	case int, bool:
		return fmt.Sprint(v), nil
	case []string:
		return quoteAll(v)
	case []netip.Prefix:
		return quoteAll(v)
	case []PlanLimit:
		return quoteAll(v)
	default:
		return quote(fmt.Sprint(v))
	}
}

func (d Decimal) yaml() (string, error) {
	if d >= yamlExact*One && d%One != 0 {
		return quote(d.String())
	}
	return d.String(), nil
}

func quoteAll[T any](items []T) (string, error) {
	texts := make([]string, len(items))
	for i, item := range items {
		text, err := quote(fmt.Sprint(item))
		if err != nil {
			return "", err
		}
		texts[i] = text
	}
	return "[" + strings.Join(texts, ", ") + "]", nil
}

func quote(text string) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(text)
	return strings.TrimSpace(out.String()), err
}

// sizeText writes a size in the largest unit that divides it.
func sizeText(n int64) string {
	suffix := ""
	for _, unit := range sizeUnits() {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, suffix = n/1024, unit
	}
	return strconv.FormatInt(n, 10) + suffix
}
