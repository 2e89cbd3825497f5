package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/portico-run/portico/dev/instance"
)

// upgrade has the last release's own program and this one work on one database, whose
// schema is this one's, as in the middle of a rolling upgrade.
func upgrade(ctx context.Context, say func(format string, arguments ...any), programs [2]string, w world) (err error) {
	p, err := newPlace(ctx, filepath.Join(w.dir, "shared"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.destroy(context.WithoutCancel(ctx))) }()
	var servers [2]*instance.Server // the new one, the old one
	for i, program := range programs {
		address, err := instance.FreeAddress(ctx)
		if err != nil {
			return err
		}
		settings := append([]string{"PORTICO_PEER_LISTEN=" + address, "PORTICO_PEER_ADDRESS=" + address}, w.settings...)
		if servers[i], err = p.start(ctx, program, settings); err != nil {
			return err
		}
		server := servers[i]
		defer func() { err = errors.Join(err, server.Stop(context.WithoutCancel(ctx))) }()
	}
	say("a new and an old server are ready on the new schema")
	key, err := servers[0].User(ctx, "anna")
	if err != nil {
		return err
	}
	busy := [2]*worker{work(ctx, servers[0].URL, key), work(ctx, servers[1].URL, key)}
	for i, name := range []string{"new", "old"} {
		if err = errors.Join(err, busy[i].until(ctx, 2*time.Second)); err == nil {
			say("the %s server has done %s", name, busy[i].done())
		}
	}
	busy[0].stop()
	busy[1].stop()
	if err != nil {
		return err
	}
	for i, name := range []string{"new", "old"} {
		where, err := paused(ctx, key, servers[i].URL, servers[1-i].URL)
		if err != nil {
			return fmt.Errorf("a program that pauses at the %s server: %w", name, err)
		}
		say("a program that paused at the %s server was continued at %s", name, where)
	}
	for _, s := range servers {
		answer, err := s.Run(ctx, "credit", "verify")
		if err != nil {
			return fmt.Errorf("%w: %s", err, answer)
		}
		say("portico credit verify: %s", strings.TrimSpace(string(answer)))
	}
	answer, err := servers[0].Run(ctx, "storage", "verify")
	say("portico storage verify: %s", strings.TrimSpace(string(answer)))
	return err
}

// paused has a program ask for a call at one server, and brings the result to the other
// one. A release whose processes do not know each other says that it is elsewhere, and
// runs nothing; then the first one takes the result.
func paused(ctx context.Context, key, first, other string) (where string, err error) {
	answer, err := ask(ctx, key, first+"/v1/exec/programmatic", map[string]any{
		"code": "print('answer', await look(q='x'))", "tools": []any{map[string]any{
			"name": "look", "parameters": map[string]any{"type": "object", "properties": map[string]any{"q": map[string]string{"type": "string"}}},
		}},
	})
	if err != nil {
		return "", err
	}
	var round struct {
		Status string
		Token  string                `json:"continuation_token"`
		Calls  []struct{ ID string } `json:"tool_calls"`
	}
	if err := json.Unmarshal(answer, &round); err != nil || len(round.Calls) != 1 {
		return "", fmt.Errorf("it answered %s: %w", answer, err)
	}
	result := map[string]any{"continuation_token": round.Token, "tool_results": []any{map[string]any{"call_id": round.Calls[0].ID, "result": 42, "is_error": false}}}
	where = "the other one"
	answer, err = ask(ctx, key, other+"/v1/exec/programmatic", result)
	if err != nil && strings.Contains(err.Error(), fmt.Sprint(http.StatusNotFound)) {
		where = "the same one, for the other one refused it"
		answer, err = ask(ctx, key, first+"/v1/exec/programmatic", result)
	}
	if err == nil && !strings.Contains(string(answer), "answer 42") {
		err = fmt.Errorf("it answered %s", answer)
	}
	return where, err
}
