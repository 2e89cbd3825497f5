package stream

import (
	"net/http"
	"strconv"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/run"
)

type controller struct{ service *Service }

func (c controller) events(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	version, err := parseVersion(r)
	if err != nil {
		return err
	}
	after, err := parseCursor(r)
	if err != nil {
		return err
	}
	summary, err := parseDetail(r)
	if err != nil {
		return err
	}
	from := From{ResultID: r.PathValue("resultId"), Version: version, After: after, Summary: summary}
	if err := ticketFor(who, &from); err != nil {
		return err
	}
	return c.service.Watch(w, r, who, from)
}

// ticketFor holds a request with a ticket to the run and the version that the
// ticket is for.
func ticketFor(who actor.Actor, from *From) error {
	if who.Scope != actor.Watch {
		return nil
	}
	if from.ResultID != who.RunID || from.Version != nil && *from.Version != who.RunVersion {
		return run.ErrMissing
	}
	from.Version = &who.RunVersion
	return nil
}

// parseDetail reports whether the request asks for summaries.
func parseDetail(r *http.Request) (summary bool, err error) {
	switch r.URL.Query().Get("detail") {
	case "", "full":
		return false, nil
	case "summary":
		return true, nil
	}
	return false, errs.New(errs.Invalid, "detail is neither full nor summary.").Do("Leave it out for events with arguments and results.")
}

// parseVersion returns nil when the request names no version.
func parseVersion(r *http.Request) (*int, error) {
	text := r.URL.Query().Get("version")
	if text == "" {
		return nil, nil //nolint:nilnil // the absence of a version is not an error
	}
	version, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return nil, errs.New(errs.Invalid, "The version is not a number.").Do("Leave it out for the newest version.").With(err)
	}
	return new(int(version)), nil
}

// parseCursor reads where the client stopped: the header of the event-stream
// standard, or the query parameter that clients use which cannot send it.
func parseCursor(r *http.Request) (int64, error) {
	after, err := parseEventID(r.URL.Query().Get("lastEventId"))
	if header := r.Header.Get("Last-Event-ID"); err == nil && header != "" {
		return parseEventID(header)
	}
	return after, err
}

// parseEventID returns 0, the place before the first event, for no text.
func parseEventID(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	after, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, errs.New(errs.Invalid, "Last-Event-ID is not the number of an event.").
			Do("Send the id of the last event that arrived, or leave it out to begin at the start.").With(err)
	}
	return int64(after), nil
}
