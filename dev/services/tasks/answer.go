package tasks

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Answer is what the words of a model must say to be right, however they are
// formatted.
type Answer struct {
	// Numbers are those that must be there, to half a hundredth.
	Numbers []float64
	// Words must all be there, Any one of them, and None must not; in any case of
	// letters, as whole words.
	Words, Any, None []string
	// Unpriced says that there must be no amount, such as 12.50: the model would
	// have invented it.
	Unpriced bool
}

// near is how far a number may be from the right one.
const near = 0.005

// Check returns an error that says what is wrong with an answer, for a person.
func (a Answer) Check(text string) error {
	found := numbers(text)
	for _, want := range a.Numbers {
		if !within(found, want) {
			return fmt.Errorf("the answer lacks the number %s", strconv.FormatFloat(want, 'f', -1, 64))
		}
	}
	for _, word := range a.Words {
		if !says(text, word) {
			return fmt.Errorf("the answer lacks %q", word)
		}
	}
	for _, word := range a.None {
		if says(text, word) {
			return fmt.Errorf("the answer has %q", word)
		}
	}
	if a.Unpriced && amount.MatchString(text) {
		return fmt.Errorf("the answer has an amount, %s, that nobody told", amount.FindString(text))
	}
	if len(a.Any) == 0 {
		return nil
	}
	for _, word := range a.Any {
		if says(text, word) {
			return nil
		}
	}
	return fmt.Errorf("the answer has none of: %s", strings.Join(a.Any, ", "))
}

func within(found []float64, want float64) bool {
	for _, n := range found {
		if math.Abs(n-want) <= near {
			return true
		}
	}
	return false
}

// says reports whether a text has a word, or several in a row. One item may be many:
// an s may follow.
func says(text, word string) bool {
	plain := strings.NewReplacer("*", "", "`", "", "’", "'", "\u00a0", " ").Replace(text)
	form := `(?i)(?:^|[^\pL\pN])` + regexp.QuoteMeta(word) + `s?(?:$|[^\pL\pN])`
	return regexp.MustCompile(form).MatchString(plain)
}

var (
	amount = regexp.MustCompile(`\d[.,]\d\d\b`)
	dates  = regexp.MustCompile(`\b\d{4}-\d\d-(\d\d)\b|\b(\d{1,2})\.\d{1,2}\.\d{4}\b`)
	digits = regexp.MustCompile("\\d+(?:[.,' \u00a0\u202f]\\d{3})*(?:[.,]\\d+)?")
)

// numbers are those of a text, each in every way that it can be read: 1.234 may be
// one or a thousand. What belongs to an id, such as O-1001, is none, and of a date
// only the day.
func numbers(text string) (list []float64) {
	for _, m := range dates.FindAllStringSubmatch(text, -1) {
		list = append(list, readings(m[1]+m[2])...)
	}
	text = dates.ReplaceAllString(text, "")
	for _, at := range digits.FindAllStringIndex(text, -1) {
		before := text[:at[0]]
		sign := 1.0
		switch {
		case strings.HasSuffix(before, "−"):
			sign = -1
		case strings.HasSuffix(before, "-"):
			if len(before) > 1 && !strings.ContainsAny(before[len(before)-2:len(before)-1], " \t\n(|*:=\u00a0") {
				continue
			}
			sign = -1
		case len(before) > 0 && letter(before[len(before)-1]):
			continue
		}
		for _, n := range readings(text[at[0]:at[1]]) {
			list = append(list, sign*n)
		}
	}
	return list
}

func letter(c byte) bool { return c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' }

// readings are the values that a number may mean. A blank in it may stand for
// thousands, or between two numbers.
func readings(number string) (list []float64) {
	parts := strings.FieldsFunc(number, func(r rune) bool { return strings.ContainsRune(" '\u00a0\u202f", r) })
	for _, whole := range append(parts, strings.Join(parts, "")) {
		for _, thousands := range []string{",", "."} {
			text := strings.ReplaceAll(whole, thousands, "")
			if n, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", "."), 64); err == nil {
				list = append(list, n)
			}
		}
	}
	return list
}
