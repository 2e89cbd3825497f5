package upstream_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/upstream"
)

// events are what a text holds, and the error at its end.
func events(r io.Reader) (list []upstream.Event, err error) {
	reader := upstream.NewEvents(r)
	for {
		e, err := reader.Next()
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
}

func TestEventsAreRead(t *testing.T) {
	t.Parallel()
	event := func(kind, data string) upstream.Event { return upstream.Event{Type: kind, Data: []byte(data)} }
	for text, want := range map[string][]upstream.Event{
		"":                                        nil,
		"data: a\n\n":                             {event("", "a")},
		"data:a\n\ndata:  b\n\n":                  {event("", "a"), event("", " b")},
		"event: x\ndata: a\n\ndata: b\n\n":        {event("x", "a"), event("", "b")},
		"data: a\r\ndata: b\r\n\r\ndata: c\r\r":   {event("", "a\nb"), event("", "c")},
		"data: a\n\r\ndata: b\n\r":                {event("", "a"), event("", "b")},
		": comment\n\n:\n\ndata: a\n: b\n\n":      {event("", "a")},
		"id: 7\nretry: 9\nodd\ndata: a\n\n":       {event("", "a")},
		"data\n\ndata:\ndata:\n\n":                {event("", ""), event("", "\n")},
		"event: x\n\ndata: a\n\n":                 {event("", "a")},
		"\uFEFFdata: a\n\ndata: \uFEFFb\n\n":      {event("", "a"), event("", "\uFEFFb")},
		"data: a\n\ndata: not complete\n":         {event("", "a")},
		"data: a\n\ndata: not even a whole line":  {event("", "a")},
		"data: {\"a\":\"\u2028 \x00 ä\"}\n\n\n\n": {event("", "{\"a\":\"\u2028 \x00 ä\"}")},
	} {
		for name, r := range map[string]io.Reader{"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text))} {
			got, err := events(r)
			require.ErrorIs(t, err, io.EOF, "%q %s", text, name)
			require.Equal(t, len(want), len(got), "%q %s", text, name)
			for i := range want {
				require.Equal(t, want[i].Type, got[i].Type, "%q %s", text, name)
				require.Equal(t, string(want[i].Data), string(got[i].Data), "%q %s", text, name)
			}
		}
	}
}

// An event is there as soon as its last byte is: a reader that waited for the
// line feed after a carriage return would show everything one event late.
func TestEventsDoNotWaitForTheNext(t *testing.T) {
	t.Parallel()
	waits := errors.New("it waits for more")
	for _, text := range []string{"data: a\n\n", "data: a\r\r", "data: a\r\n\r"} {
		e, err := upstream.NewEvents(io.MultiReader(strings.NewReader(text), iotest.ErrReader(waits))).Next()
		require.NoError(t, err, "%q", text)
		require.Equal(t, "a", string(e.Data))
	}
	_, err := upstream.NewEvents(io.MultiReader(strings.NewReader("data: a\n"), iotest.ErrReader(waits))).Next()
	require.ErrorIs(t, err, waits)
}

// endless is a stream that repeats a text.
type endless struct {
	text string
	read int
}

func (e *endless) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		n += copy(b[n:], e.text)
	}
	e.read += n
	return n, nil
}

func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"one line": strings.Repeat("x", 4096), "many lines": "data: xxxxxxxxxxxxxxxxxxxxxxxx\n"} {
		stream := &endless{text: text}
		_, err := upstream.NewEvents(stream).Next()
		require.ErrorContains(t, err, "more than 33554432 bytes", name)
		require.Less(t, stream.read, upstream.MaxEvent*3/2, name)
	}
	most := bytes.Repeat([]byte("x"), upstream.MaxEvent-len("data: "))
	got, err := events(io.MultiReader(strings.NewReader("data: "), bytes.NewReader(most), strings.NewReader("\n\n")))
	require.ErrorIs(t, err, io.EOF)
	require.Len(t, got, 1)
	require.True(t, bytes.Equal(most, got[0].Data))
}

// However a stream is cut into pieces, it holds the same events.
func FuzzEvents(f *testing.F) {
	f.Add("event: x\r\ndata: a\rdata: b\n\n: c\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		whole, _ := events(strings.NewReader(text))
		pieces, _ := events(iotest.OneByteReader(strings.NewReader(text)))
		require.Equal(t, whole, pieces)
		lines, _ := events(strings.NewReader(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)))
		require.Equal(t, whole, lines)
	})
}
