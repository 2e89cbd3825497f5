package shorten

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// writer copies a value and leaves out what its cutter says. Its methods
// report false as soon as the copy is larger than the limit.
type writer struct {
	scanner

	cut   cutter
	limit int
	out   []byte
}

func (w *writer) write(text []byte) bool {
	w.out = append(w.out, text...)
	return len(w.out) <= w.limit
}

func (w *writer) say(format string, n int) bool {
	return w.write(fmt.Appendf(nil, format, n))
}

func (w *writer) value(depth int) bool {
	switch first := w.peek(); {
	case first == '"':
		return w.text()
	case first == '[' && depth >= w.cut.depth:
		return w.say(`"[%d items omitted]"`, w.count())
	case first == '{' && depth >= w.cut.depth:
		return w.say(`"[object with %d members omitted]"`, w.count())
	case first == '[':
		return w.parts(depth, '[', `"[%d items omitted]"`)
	case first == '{':
		return w.parts(depth, '{', `"…":"[%d members omitted]"`)
	}
	return w.write(w.literal())
}

// parts writes the items of a list, or the members of an object.
func (w *writer) parts(depth int, open byte, left string) bool {
	w.at++
	w.out = append(w.out, open)
	n, omitted := 0, 0
	for w.peek() != open+2 { // ] follows [ by two, and } follows {
		if n++; n > w.cut.items {
			omitted++
			w.skip(open == '{')
			continue
		}
		if n > 1 {
			w.out = append(w.out, ',')
		}
		if open == '{' {
			if !w.text() {
				return false
			}
			w.peek()
			w.out = append(w.out, ':')
		}
		if !w.value(depth + 1) {
			return false
		}
	}
	w.at++
	if omitted > 0 {
		if n > omitted {
			w.out = append(w.out, ',')
		}
		w.say(left, omitted)
	}
	return w.write([]byte{open + 2})
}

// text writes a string, whole or its beginning.
func (w *writer) text() bool {
	quoted := w.literal()
	if len(quoted)-2 <= w.cut.text {
		return w.write(quoted)
	}
	end := 1
	for next := end; next <= w.cut.text+1; {
		end = next
		next += step(quoted[end:])
	}
	w.out = append(w.out, quoted[:end]...)
	return w.say(`… [%d bytes omitted]"`, len(quoted)-1-end)
}

// step is the length of the first character of a string, as it is written.
func step(text []byte) int {
	switch {
	case text[0] != '\\':
		_, size := utf8.DecodeRune(text)
		return size
	case text[1] != 'u':
		return 2
	case len(text) > 7 && text[2]|0x20 == 'd' && bytes.IndexByte([]byte("89abAB"), text[3]) >= 0 && text[6] == '\\':
		return 12 // two halves of one character
	}
	return 6
}

// scanner walks over valid JSON.
type scanner struct {
	data []byte
	at   int
}

// peek is the first byte of the next value, name or end; what stands between
// two of them is skipped.
func (s *scanner) peek() byte {
	for bytes.IndexByte([]byte(" \t\r\n,:"), s.data[s.at]) >= 0 {
		s.at++
	}
	return s.data[s.at]
}

// literal is the next string, number or word.
func (s *scanner) literal() []byte {
	first := s.peek()
	begin := s.at
	if first == '"' {
		for s.at++; ; s.at++ {
			s.at += bytes.IndexByte(s.data[s.at:], '"')
			if !escaped(s.data[begin:s.at]) {
				s.at++
				return s.data[begin:s.at]
			}
		}
	}
	for s.at < len(s.data) && bytes.IndexByte([]byte(" \t\r\n,:]}"), s.data[s.at]) < 0 {
		s.at++
	}
	return s.data[begin:s.at]
}

// escaped reports whether what follows the beginning of a string is escaped.
func escaped(begin []byte) (odd bool) {
	for at := len(begin) - 1; begin[at] == '\\'; at-- {
		odd = !odd
	}
	return odd
}

// skip passes a value, or a member with its name.
func (s *scanner) skip(member bool) {
	if member {
		s.peek()
		s.literal()
	}
	for depth := 0; ; {
		switch s.peek() {
		case '[', '{':
			depth++
			s.at++
		case ']', '}':
			depth--
			s.at++
		default:
			s.literal()
		}
		if depth == 0 {
			return
		}
	}
}

// count passes a list or an object and returns how many parts it has.
func (s *scanner) count() (n int) {
	open := s.peek()
	for s.at++; s.peek() != open+2; n++ {
		s.skip(open == '{')
	}
	s.at++
	return n
}
