package httpapi

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portico-run/portico/internal/actor"
)

// Stream is the data of an answer that is too large to be in memory at once.
type Stream struct {
	// Size is how many bytes of JSON WriteTo writes.
	Size int64
	// WriteTo writes the data. It is called once. An error ends the connection,
	// so that a part is never taken for the whole.
	WriteTo func(w io.Writer) error
}

// RegisterStream adds an operation whose data, described by O, may be a
// stream: if there is one, it is written in O's place.
func RegisterStream[I, O any](a *API, op Operation, fn func(ctx context.Context, who actor.Actor, in *I) (O, *Stream, error)) {
	register(a, op, func(ctx context.Context, in *I) (*answer[O], error) {
		who, _ := actor.From(ctx)
		data, stream, err := fn(ctx, who, in)
		if err != nil {
			return nil, a.public(ctx, err)
		}
		return &answer[O]{Body: Envelope[O]{Success: true, Data: data, stream: stream}}, nil
	})
}

// streamed is an answer that may be a stream.
type streamed interface{ streams() *Stream }

func (e Envelope[O]) streams() *Stream { return e.stream }

// marshal writes every answer of the API library.
func marshal(w io.Writer, v any) error {
	if s, ok := v.(streamed); ok && s.streams() != nil {
		return s.streams().write(w)
	}
	return huma.DefaultJSONFormat.Marshal(w, v)
}

const streamHead, streamTail = `{"success":true,"data":`, "}\n"

func (s Stream) write(w io.Writer) error {
	if r, ok := w.(http.ResponseWriter); ok {
		r.Header().Set("Content-Length", strconv.FormatInt(int64(len(streamHead)+len(streamTail))+s.Size, 10))
	}
	_, err := io.WriteString(w, streamHead)
	if err == nil {
		err = s.WriteTo(w)
	}
	if err == nil {
		_, err = io.WriteString(w, streamTail)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the client sees that the answer is not whole
	}
	return nil
}
