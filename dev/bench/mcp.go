package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/modules/connector/mcp/hub"
	"github.com/portico-run/portico/modules/connector/mcp/hubtest"
	"github.com/portico-run/portico/modules/connector/mcp/server"
)

const (
	mcpServers = 20
	mcpTools   = 20 // of each server
	mcpUsual   = 12 // of them, those of hubtest
)

// benchMCP measures a call through the hub over a call of the same server by the
// SDK alone, and what it takes to know 400 tools of 20 servers.
func benchMCP(ctx context.Context, o options) (_ []result, err error) {
	servers, stop, err := listenMCP(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	web := egress.New(egress.Config{})
	defer web.Close()
	h := hub.New(hub.Deps{Directory: &hubtest.Directory{}, Client: web})
	if err := h.Start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.Stop(context.WithoutCancel(ctx))) }()
	who := actor.Actor{UID: "u-bench"}
	known, memory, err := knowAll(ctx, h, who, servers)
	if err != nil {
		return nil, err
	}
	direct, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: servers[0].URL}, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, direct.Close()) }()
	arguments := json.RawMessage(`{"zeta":"x","alpha":1}`)
	sides, err := takeTurns(ctx, o, p50(func(ctx context.Context) error {
		_, err := direct.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: arguments})
		return err
	}), p50(func(ctx context.Context) error {
		_, err := h.Call(ctx, who, servers[0], hub.Call{Tool: "echo", Arguments: arguments})
		return err
	}))
	if err != nil {
		return nil, err
	}
	added := sides[1].median() - sides[0].median()
	return []result{
		{
			what: "call of an MCP tool through the hub, p50 (the SDK alone)", measured: sides[1].milliseconds(), baseline: sides[0].milliseconds(),
			ratio: fmt.Sprintf("+%.2f ms", added), target: "≤ +3 ms", holds: added <= 3, noise: sides[0].spread(),
		},
		{what: fmt.Sprintf("%d tools of %d MCP servers known", mcpServers*mcpTools, mcpServers), measured: ms(known)},
		{what: fmt.Sprintf("memory of the hub with %d connections", mcpServers), measured: fmt.Sprintf("%.1f MiB", float64(memory)/(1<<20))},
	}, nil
}

// p50 is the median of how long something takes, in milliseconds.
func p50(work func(ctx context.Context) error) sideFunc {
	return func(ctx context.Context, d time.Duration) (float64, error) {
		var took []time.Duration
		for end := time.Now().Add(d); time.Now().Before(end); {
			begin := time.Now()
			if err := work(ctx); err != nil {
				return 0, err
			}
			took = append(took, time.Since(begin))
		}
		slices.Sort(took)
		return float64(took[len(took)/2]) / float64(time.Millisecond), nil
	}
}

// knowAll lists the tools of all servers at once. It returns how long that takes,
// and how many bytes the heap has more afterwards, the servers' side included.
func knowAll(ctx context.Context, h *hub.Hub, who actor.Actor, servers []server.Server) (took time.Duration, memory uint64, err error) {
	before := heap()
	begin := time.Now()
	work, within := errgroup.WithContext(ctx)
	for _, s := range servers {
		work.Go(func() error {
			list, err := h.Tools(within, who, s)
			if err == nil && len(list.Tools) != mcpTools {
				err = fmt.Errorf("server %s lists %d tools", s.Name, len(list.Tools))
			}
			return err
		})
	}
	err = work.Wait()
	took = time.Since(begin)
	return took, max(heap(), before) - before, err
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// listenMCP starts the servers.
func listenMCP(ctx context.Context) (servers []server.Server, stop func() error, err error) {
	var all []*http.Server
	stop = func() error {
		var failed []error
		for _, web := range all {
			failed = append(failed, web.Close())
		}
		return errors.Join(failed...)
	}
	for n := range mcpServers {
		of := hubtest.New()
		for i := range mcpTools - mcpUsual {
			of.Add(fmt.Sprintf("tool_%d", i), `{"type":"object","properties":{"query":{"type":"string","description":"What is asked for"},"limit":{"type":"integer"}},"required":["query"]}`,
				func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					return hubtest.Words("ok"), nil
				})
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, stop, errors.Join(err, stop())
		}
		web := &http.Server{Handler: of.Handler(), ReadHeaderTimeout: time.Minute}
		all = append(all, web)
		go func() { _ = web.Serve(l) }() // it ends with Close
		servers = append(servers, server.Server{
			Name: fmt.Sprintf("s%d", n), Transport: server.HTTP, URL: "http://" + l.Addr().String(), Egress: hubtest.Loopback(), Version: "1",
		})
	}
	return servers, stop, nil
}
