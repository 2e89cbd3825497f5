package configs

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// setting is one value of a Config with its two names.
type setting struct {
	key   string        // in the file, "server.listen"
	env   string        // in the environment, "PORTICO_LISTEN"
	also  string        // what else a text may be: asList, asLines or nothing
	value reflect.Value // the field, settable
}

// Values of the tag "also": the text may be a list, or may have several lines.
const (
	asList  = "list"
	asLines = "lines"
)

// name is how a problem with the setting calls it.
func (s setting) name() string { return s.env + " (" + s.key + ")" }

// settings lists every setting of c in the order of the fields.
func settings(c *Config) []setting {
	return fields(nil, "", reflect.ValueOf(c).Elem())
}

func fields(list []setting, prefix string, group reflect.Value) []setting {
	for i := range group.NumField() {
		field := group.Type().Field(i)
		key, ok := field.Tag.Lookup("key")
		if !ok {
			continue
		}
		if env, ok := field.Tag.Lookup("env"); ok {
			list = append(list, setting{prefix + key, env, field.Tag.Get("also"), group.Field(i)})
			continue
		}
		list = fields(list, prefix+key+".", group.Field(i))
	}
	return list
}

// Variables lists the name of every environment variable that Load reads.
func Variables() []string {
	names := []string{FileVariable}
	for _, s := range settings(new(Config)) {
		names = append(names, s.env)
	}
	return names
}

// setText gives the setting the value that text means. Its errors say how to
// write such a value and never repeat it: it may be a secret in the wrong
// place.
func (s setting) setText(text string) error {
	text = strings.TrimSpace(text)
	if s.also == asLines {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, s.refuses) {
		return errors.New("must be one line of UTF-8 text without control characters")
	}
	switch target := s.value.Addr().Interface().(type) {
	case *time.Duration:
		// The variables that carry their unit in the name hold plain numbers.
		if _, err := strconv.ParseUint(text, 10, 64); err == nil && strings.HasSuffix(s.env, "_MS") {
			text += "ms"
		}
		return parse(target, text, parseDuration)
	case *[]string:
		return parse(target, text, splitList)
	case *[]netip.Prefix:
		return parse(target, text, parseNetworks)
	case *[]PlanLimit:
		return parse(target, text, parsePlanLimits)
	case *Decimal:
		return parse(target, text, parseDecimal)
	case **Decimal:
		return parse(target, text, parseLimit)
	case *int:
		return parse(target, text, parseInt)
	case *int64:
		return parse(target, text, parseSize)
	case *bool:
		return parse(target, text, parseBool)
	}
	// The remaining types are texts: string, Secret and DatabaseURL.
	s.value.SetString(text)
	return nil
}

func parse[T any](target *T, text string, parser func(string) (T, error)) error {
	value, err := parser(text)
	if err == nil {
		*target = value
	}
	return err
}

// refuses reports whether no value of the setting has a character.
func (s setting) refuses(r rune) bool {
	return unicode.IsControl(r) && (s.also != asLines || r != '\n' && r != '\t')
}

// setYAML gives the setting a value as it was decoded from YAML.
func (s setting) setYAML(raw any) error {
	text, err := s.textOf(raw)
	if err != nil {
		return err
	}
	return s.setText(text)
}

func (s setting) textOf(raw any) (string, error) {
	list, isList := raw.([]any)
	if !isList {
		return s.scalarText(raw)
	}
	if s.value.Kind() != reflect.Slice && s.also != asList {
		return "", errors.New("must be one value, not a list")
	}
	items := make([]string, len(list))
	for i, item := range list {
		text, err := s.scalarText(item)
		if err == nil && strings.TrimSpace(text) == "" {
			err = errors.New("must not be empty")
		}
		if err != nil {
			return "", fmt.Errorf("item %d: %w", i+1, err)
		}
		items[i] = text
	}
	return strings.Join(items, ","), nil
}

// scalarText undoes what YAML did to a scalar. A number that is meant as text
// cannot be restored (007 became 7), so it has to be quoted.
func (s setting) scalarText(raw any) (string, error) {
	isText := s.value.Kind() == reflect.String || s.value.Kind() == reflect.Slice
	switch v := raw.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int, int64, uint64:
		if isText {
			return "", errors.New("must be in quotes, because YAML reads it as a number")
		}
		return fmt.Sprint(v), nil
	case float64:
		if isText {
			return "", errors.New("must be in quotes, because YAML reads it as a number")
		}
		if math.Abs(v) >= yamlExact {
			return "", errors.New("must be a whole number or in quotes, because YAML keeps only its first digits")
		}
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case time.Time:
		return "", errors.New("must be in quotes, because YAML reads it as a date")
	}
	return "", errors.New("must be one value, not a group")
}

// yamlExact is where numbers with six decimals become longer than the digits
// that YAML keeps of them.
const yamlExact = 1e9

func splitList(text string) ([]string, error) {
	list := []string{}
	if text == "" {
		return list, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			return nil, errors.New("must be a list without empty items, separated by commas")
		}
		list = append(list, item)
	}
	return list, nil
}

func parseNetworks(text string) ([]netip.Prefix, error) {
	items, err := splitList(text)
	networks := make([]netip.Prefix, len(items))
	for i, item := range items {
		network, err := netip.ParsePrefix(item)
		if err != nil {
			return nil, errors.New("must be networks such as 10.1.0.0/16, separated by commas")
		}
		networks[i] = network.Masked()
	}
	return networks, err
}

// maxDays keeps a duration in days inside the range of time.Duration.
const maxDays = 36_500

// parseDuration reads Go's form, and days before it: "1d", "1d12h".
func parseDuration(text string) (time.Duration, error) {
	const help = "must be a duration with a unit, like 500ms, 15s, 2h or 1d"
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "", text
	}
	var total time.Duration
	if found {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil || n > maxDays {
			return 0, errors.New(help)
		}
		total = time.Duration(n) * 24 * time.Hour
		if rest == "" {
			return total, nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || strings.ContainsAny(rest, "+-") || total+d < total {
		return 0, errors.New(help)
	}
	return total + d, nil
}

func parseInt(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, strconv.IntSize-1)
	if err != nil {
		return 0, errors.New("must be a whole number, without a sign or separators")
	}
	return int(n), nil
}

// parseSize reads a number of bytes with or without a unit.
func parseSize(text string) (int64, error) {
	const help = "must be a size in bytes, like 1048576, 512KiB, 10MiB or 1GiB"
	unit := int64(1)
	for i, suffix := range sizeUnits() {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			text, unit = strings.TrimSpace(number), int64(1)<<(10*(i+1))
			break
		}
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n > uint64(math.MaxInt64/unit) {
		return 0, errors.New(help)
	}
	return int64(n) * unit, nil
}

// sizeUnits are the suffixes of the powers of 1024, from the first one up.
func sizeUnits() []string { return []string{"KiB", "MiB", "GiB"} }

func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "1", "yes", "on":
		return true, nil
	case "false", "0", "no", "off":
		return false, nil
	}
	return false, errors.New("must be true or false")
}
