package publish

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/portico-run/portico/internal/sse"
	"github.com/portico-run/portico/modules/run"
)

// Names of what is published: streams, and channels of the same names.
const (
	runPrefix  = "portico:run:"
	userPrefix = "portico:user:"
	// seenSuffix ends the name of the hash that says how far each version of a run
	// is published.
	seenSuffix = ":seen"
)

// script adds events to a run and its user, each once and in order, whoever
// sends them: Redis knows the number of the last one, and runs a script as a
// whole. It returns that number. An event without data only moves it on.
const script = `
local seen = tonumber(redis.call('HGET', KEYS[2], ARGV[2])) or 0
for i = 6, #ARGV, 2 do
  local seq = tonumber(ARGV[i])
  if seq == seen + 1 then
    if ARGV[i + 1] ~= '' then
      for _, key in ipairs({KEYS[1], KEYS[3]}) do
        redis.call('XADD', key, 'MAXLEN', '~', ARGV[4], '*', 'resultId', ARGV[1], 'version', ARGV[2], 'seq', ARGV[i], 'uid', ARGV[3], 'data', ARGV[i + 1])
        redis.call('PUBLISH', key, '{"seq":' .. ARGV[i] .. ',"data":' .. ARGV[i + 1] .. '}')
      end
    end
    seen = seq
  end
end
redis.call('HSET', KEYS[2], ARGV[2], seen)
for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, ARGV[5]) end
return seen`

// store is Redis, as this package uses it.
type store struct {
	client client
	length int
	life   time.Duration
}

// open reads the address and connects to nothing yet.
func open(s Settings) (*store, error) {
	at, err := parseAddress(s.URL)
	if err != nil {
		return nil, err
	}
	return &store{client: client{at: at}, length: s.Length, life: s.Life}, nil
}

// append publishes events that follow each other, and returns the number of the
// last one that Redis has of the run.
func (s *store) append(ctx context.Context, r run.Run, events []sse.Event) (int64, error) {
	args := []string{r.ResultID, fmt.Sprint(r.Version), r.UID, strconv.Itoa(s.length), strconv.FormatInt(int64(s.life/time.Second), 10)}
	for _, e := range events {
		data := e.Data
		if !json.Valid(data) {
			data = nil
		}
		args = append(args, strconv.FormatInt(e.ID, 10), string(data))
	}
	name := runPrefix + r.ResultID
	seen, err := s.client.eval(ctx, script, []string{name, name + seenSuffix, userPrefix + r.UID}, args)
	if err != nil {
		return 0, fmt.Errorf("publish to Redis: %w", err)
	}
	return seen, nil
}

// seen is the number of the last event of a run that Redis has; 0 for none.
func (s *store) seen(ctx context.Context, r run.Run) (int64, error) {
	return s.append(ctx, r, nil)
}

func (s *store) close() error { return s.client.close() }
