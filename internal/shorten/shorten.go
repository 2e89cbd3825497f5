// Package shorten makes values and texts fit into a limit without breaking
// them: what is left is whole, and says what is missing.
package shorten

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// The first attempt at shortening, and how far it goes down.
const (
	startString = 64 << 10
	startItems  = 1000
	startDepth  = 32
)

// JSON returns valid JSON of at most limit bytes with the beginning of
// everything: long strings, lists and objects lose their ends, and each says
// how much it lost. It tries milder cuts first. It takes no more memory than
// its result, however large data is.
func JSON(data []byte, limit int) (json.RawMessage, error) {
	if !json.Valid(data) {
		return nil, errors.New("shorten an output: it is not JSON")
	}
	for cut := (cutter{startString, startItems, startDepth}); ; cut = cut.harder() {
		w := writer{scanner: scanner{data: data}, cut: cut, limit: limit}
		if w.value(0) {
			return w.out, nil
		}
		if cut.items == 0 {
			return json.RawMessage(`"[omitted]"`), nil
		}
	}
}

// cutter limits the parts of a value.
type cutter struct{ text, items, depth int }

func (c cutter) harder() cutter {
	return cutter{max(c.text/2, 16), c.items / 2, max(c.depth-2, 2)}
}

// Text returns a text of about limit bytes: one that is JSON stays JSON, any
// other keeps its beginning and its end.
func Text(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	if json.Valid([]byte(text)) {
		if short, err := JSON([]byte(text), limit); err == nil {
			return string(short)
		}
	}
	head, at := limit*3/4, len(text)-limit/4
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return fmt.Sprintf("%s\n[… %d of %d bytes are left out here …]\n%s", text[:head], at-head, len(text), text[at:])
}
