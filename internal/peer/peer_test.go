package peer_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/peer"
	"github.com/portico-run/portico/internal/signing"
	"github.com/portico-run/portico/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// town is the processes of a test and where they are.
type town struct {
	t     *testing.T
	mu    sync.Mutex
	nodes map[string]peer.Node
	now   time.Time
}

func found(t *testing.T) *town {
	return &town{t: t, nodes: map[string]peer.Node{}, now: time.Now()}
}

// Get implements peer.Directory.
func (d *town) Get(_ context.Context, id string) (peer.Node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := d.nodes[id]
	if !ok {
		return n, peer.ErrGone
	}
	return n, nil
}

// Live implements peer.Directory.
func (d *town) Live(context.Context) (list []peer.Node, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.nodes {
		list = append(list, n)
	}
	return list, nil
}

func (d *town) put(n peer.Node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes[n.ID] = n
}

func (d *town) bury(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.nodes, id)
}

func (d *town) later(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

func (d *town) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// settle adds a process that listens.
func (d *town) settle(id string, change func(*peer.Deps), handle func(*peer.Service)) *peer.Service {
	d.t.Helper()
	deps := peer.Deps{
		Self: id, Listen: testenv.FreeAddress(d.t), Keys: signing.Keys{[]byte("secret")}, Nodes: d, Now: d.clock, Logger: slog.New(slog.DiscardHandler),
		Times: peer.Times{Accept: time.Minute, Look: 10 * time.Millisecond, Grace: time.Minute},
	}
	if change != nil {
		change(&deps)
	}
	s, err := peer.New(deps)
	require.NoError(d.t, err)
	if handle != nil {
		handle(s)
	}
	require.NoError(d.t, s.Start(d.t.Context()))
	d.t.Cleanup(func() { require.NoError(d.t, s.Stop(context.Background())) })
	d.put(peer.Node{ID: id, Address: deps.Listen})
	return s
}

func anna() actor.Actor {
	return actor.Actor{UID: "u-anna", KeyID: "ak-1", Rights: actor.Run, Scope: actor.CodeAPI, Worker: "w"}
}

type echoed struct {
	Who  actor.Actor
	Said string
}

func echo(s *peer.Service) {
	s.Handle("echo", func(_ context.Context, who actor.Actor, body io.Reader) (any, error) {
		var said string
		err := json.NewDecoder(body).Decode(&said)
		return echoed{who, said}, err
	})
}

// A process is asked as whoever asked its peer, and answers, or says why not with the
// whole error that may be seen.
func TestAProcessAsksAnother(t *testing.T) {
	t.Parallel()
	d := found(t)
	secret := errs.New(errs.RateLimited, "Too much.").Do("Wait.").After(3 * time.Second).At("https://example.com").With(errors.New("private"))
	d.settle("b", nil, func(s *peer.Service) {
		echo(s)
		s.Handle("fails", func(context.Context, actor.Actor, io.Reader) (any, error) { return nil, secret })
		s.Handle("breaks", func(context.Context, actor.Actor, io.Reader) (any, error) { return nil, errors.New("private") })
	})
	a := d.settle("a", nil, nil)
	long := strings.Repeat("x", 1<<20)
	var got echoed
	require.NoError(t, a.Ask(t.Context(), "b", peer.Call{Op: "echo", Who: anna(), In: long}, &got))
	require.Equal(t, echoed{anna(), long}, got)

	err := a.Ask(t.Context(), "b", peer.Call{Op: "fails", Who: anna(), In: nil}, nil)
	require.ErrorIs(t, err, secret)
	e, _ := errors.AsType[*errs.Error](err)
	require.Equal(t, secret.With(nil), e)
	err = a.Ask(t.Context(), "b", peer.Call{Op: "breaks", Who: anna(), In: nil}, nil)
	require.Equal(t, errs.Internal, errs.CodeOf(err))
	require.NotContains(t, fmt.Sprint(err, errors.Unwrap(err)), "private")
	require.ErrorIs(t, a.Ask(t.Context(), "b", peer.Call{Op: "unknown", Who: anna(), In: nil}, nil), peer.ErrUnreachable)
	require.ErrorIs(t, a.Ask(t.Context(), "nobody", peer.Call{Op: "echo", Who: anna(), In: ""}, nil), peer.ErrGone)
}

// A token counts for one process, one operation, half a minute, and with one key.
func TestTokensAreRefused(t *testing.T) {
	t.Parallel()
	d := found(t)
	b := d.settle("b", nil, echo)
	var seen string
	spy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Get("Portico-Peer-Token")
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Portico-Peer-Problem", "none")
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(spy.Close)
	at, err := d.Get(t.Context(), "b")
	require.NoError(t, err)
	a := d.settle("a", nil, nil)
	stranger := d.settle("c", func(p *peer.Deps) { p.Keys = signing.Keys{[]byte("other")} }, nil)
	spied := func(s *peer.Service, to string) string {
		t.Helper()
		d.put(peer.Node{ID: to, Address: spy.Listener.Addr().String()})
		require.NoError(t, s.Ask(t.Context(), to, peer.Call{Op: "echo", Who: anna(), In: ""}, nil))
		d.put(at)
		return seen
	}
	ask := func(token, op string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+at.Address+"/peer/v1/"+op, strings.NewReader(`""`))
		require.NoError(t, err)
		r.Header.Set("Portico-Peer-Token", token)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("Portico-Peer-Problem")
	}
	good := spied(a, "b")
	status, _ := ask(good, "echo")
	require.Equal(t, http.StatusOK, status)
	for name, c := range map[string]struct{ token, op string }{
		"another operation": {good, "request"},
		"another key":       {spied(stranger, "b"), "echo"},
		"nothing":           {"", "echo"},
		"changed":           {good[:len(good)-2], "echo"},
	} {
		status, problem := ask(c.token, c.op)
		require.Equal(t, http.StatusUnauthorized, status, name)
		require.Equal(t, "refused", problem, name)
	}
	status, problem := ask(spied(a, "d"), "echo")
	require.Equal(t, http.StatusMisdirectedRequest, status)
	require.Equal(t, "other-node", problem)
	d.later(29 * time.Second)
	status, _ = ask(good, "echo")
	require.Equal(t, http.StatusOK, status)
	d.later(time.Second)
	status, _ = ask(good, "echo")
	require.Equal(t, http.StatusUnauthorized, status)
	_ = b
}

// What is at an address that another process had is not asked, and whether that
// process is gone, its lease says.
func TestAnAddressThatAnotherProcessHasNow(t *testing.T) {
	t.Parallel()
	d := found(t)
	d.settle("new", nil, echo)
	at, err := d.Get(t.Context(), "new")
	require.NoError(t, err)
	d.put(peer.Node{ID: "old", Address: at.Address})
	a := d.settle("a", nil, nil)
	require.ErrorIs(t, a.Ask(t.Context(), "old", peer.Call{Op: "echo", Who: anna(), In: ""}, nil), peer.ErrUnreachable)
	d.put(peer.Node{ID: "old", Address: at.Address})
	_ = a.Ask(t.Context(), "old", peer.Call{Op: "echo", Who: anna(), In: ""}, nil) // its address is known now
	d.bury("old")
	require.ErrorIs(t, a.Ask(t.Context(), "old", peer.Call{Op: "echo", Who: anna(), In: ""}, nil), peer.ErrGone)
}

// A process that does not take what it is sent has nothing of it; one that is gone
// without a word while it works is waited for no longer than its lease.
func TestAProcessThatIsSilent(t *testing.T) {
	t.Parallel()
	d := found(t)
	a := d.settle("a", func(p *peer.Deps) { p.Times.Accept = 50 * time.Millisecond }, nil)
	// It takes connections, as the kernel does for a process that is stopped.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	sent := make(chan string, 2)
	var taking sync.WaitGroup
	taking.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			taking.Go(func() {
				text, _ := io.ReadAll(c)
				_ = c.Close()
				sent <- string(text)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		taking.Wait()
	})
	d.put(peer.Node{ID: "silent", Address: l.Addr().String()})
	err = a.Ask(t.Context(), "silent", peer.Call{Op: "echo", Who: anna(), In: "the body"}, nil)
	require.ErrorIs(t, err, peer.ErrUnreachable)
	e, _ := errors.AsType[*errs.Error](err)
	require.Positive(t, e.RetryAfter)
	require.NotContains(t, <-sent, "the body")
	d.bury("silent")
	require.ErrorIs(t, a.Ask(t.Context(), "silent", peer.Call{Op: "echo", Who: anna(), In: ""}, nil), peer.ErrGone)

	begun, let := make(chan struct{}), make(chan struct{})
	d.settle("works", nil, func(s *peer.Service) {
		s.Handle("work", func(context.Context, actor.Actor, io.Reader) (any, error) {
			close(begun)
			<-let
			return "", nil
		})
	})
	t.Cleanup(func() { close(let) })
	ended := make(chan error, 1)
	go func() { ended <- a.Ask(t.Context(), "works", peer.Call{Op: "work", Who: anna(), In: ""}, nil) }()
	<-begun
	d.bury("works")
	require.ErrorIs(t, <-ended, peer.ErrLost)
	require.ErrorIs(t, peer.ErrLost, peer.ErrGone)
}

// A caller that leaves ends the work at the other process; an answer that is lost on
// its way is an error that says so.
func TestWhatBreaksOff(t *testing.T) {
	t.Parallel()
	d := found(t)
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	d.settle("b", nil, func(s *peer.Service) {
		s.Handle("work", func(ctx context.Context, _ actor.Actor, _ io.Reader) (any, error) {
			begun <- struct{}{}
			<-ctx.Done()
			ended <- ctx.Err()
			return "", ctx.Err()
		})
		s.Handle("dies", func(context.Context, actor.Actor, io.Reader) (any, error) { panic(http.ErrAbortHandler) })
	})
	a := d.settle("a", nil, nil)
	ctx, leave := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	go func() { asked <- a.Ask(ctx, "b", peer.Call{Op: "work", Who: anna(), In: ""}, nil) }()
	<-begun
	leave()
	require.ErrorIs(t, <-asked, context.Canceled)
	require.ErrorIs(t, <-ended, context.Canceled)
	require.ErrorIs(t, a.Ask(t.Context(), "b", peer.Call{Op: "dies", Who: anna(), In: ""}, nil), peer.ErrBroken)
}

// All others are asked at once; those that are gone are not missed.
func TestOthers(t *testing.T) {
	t.Parallel()
	d := found(t)
	var all sync.WaitGroup
	all.Add(3)
	for _, id := range []string{"b", "c", "d"} {
		d.settle(id, nil, func(s *peer.Service) {
			s.Handle("who", func(context.Context, actor.Actor, io.Reader) (any, error) {
				all.Done()
				all.Wait() // for the others: they are asked at once
				return id, nil
			})
		})
	}
	a := d.settle("a", nil, nil)
	said := map[string]bool{}
	each := func(m json.RawMessage) { said[string(m)] = true }
	require.NoError(t, a.Others(t.Context(), "who", anna(), nil, each))
	require.Len(t, said, 3)
	d.bury("b")
	d.bury("c")
	d.put(peer.Node{ID: "d", Address: testenv.FreeAddress(t)})
	lost := d.settle("e", nil, nil)
	d.bury("a")
	require.ErrorIs(t, lost.Others(t.Context(), "who", anna(), nil, each), peer.ErrUnreachable)
}

// Another process answers a whole request as if it had come to it: with its
// credential, its status, its headers, and the events of a stream one by one.
func TestForward(t *testing.T) {
	t.Parallel()
	d := found(t)
	next := make(chan struct{})
	d.settle("b", nil, func(s *peer.Service) {
		s.Requests(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			if r.URL.Path == "/stream" {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: 1\n\n")
				_ = http.NewResponseController(w).Flush()
				<-next
				_, _ = io.WriteString(w, "data: 2\n\n")
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("X-Answer", "yes")
			w.Header().Set("X-Client", r.RemoteAddr)
			w.WriteHeader(http.StatusTeapot)
			_, _ = fmt.Fprint(w, r.Method, " ", r.URL, " ", r.Host, " ", r.Header.Get("Authorization"), " ", r.Header.Get("Portico-Peer-Token"), r.Header.Get("Expect"), string(body), peer.Forwarded(r.Context()))
		}))
	})
	a := d.settle("a", nil, nil)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.RemoteAddr = "192.0.2.7:1"
		if err := a.Forward(w, r, body, "b"); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(front.Close)
	ask := func(method, path, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, front.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Host = "portico.example"
		r.Header.Set("Authorization", "Bearer x")
		r.Header.Set("Portico-Peer-Token", "mine")
		r.Header.Set("Portico-Peer-Client", "192.0.2.66:1")
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	for _, body := range []string{"", `{"a":1}`} {
		resp := ask(http.MethodPut, "/a%2Fb?c=d", body)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusTeapot, resp.StatusCode)
		require.Equal(t, "yes", resp.Header.Get("X-Answer"))
		require.Equal(t, "192.0.2.7:1", resp.Header.Get("X-Client"), "where it began, which no client says")
		require.Equal(t, "PUT /a%2Fb?c=d portico.example Bearer x "+body+"true", string(text))
	}
	resp := ask(http.MethodGet, "/stream", "")
	first := make([]byte, len("data: 1\n\n"))
	_, err := io.ReadFull(resp.Body, first)
	require.NoError(t, err, "it comes before the second one was made")
	close(next)
	rest, err := io.ReadAll(resp.Body)
	require.Error(t, err, "what broke off does not look whole")
	require.LessOrEqual(t, len(rest), len(first))
}

// A client that leaves ends the work that its request began in another process; a process
// that ends, or dies, does not.
func TestAClientLeavesAndAProcessDies(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]bool{"the client leaves": false, "the process ends": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := found(t)
			came, over, goOn := make(chan struct{}), make(chan error, 1), make(chan struct{})
			d.settle("b", nil, func(s *peer.Service) {
				s.Requests(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					close(came)
					select {
					case <-r.Context().Done():
					case <-goOn: // until the connection has broken
						for err := error(nil); err == nil; _, err = w.Write(make([]byte, 64<<10)) {
						}
					}
					over <- r.Context().Err()
				}))
			})
			a := d.settle("a", func(p *peer.Deps) { p.Ends = func() bool { return ends } }, nil)
			ctx, leave := context.WithCancel(actor.With(t.Context(), anna()))
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
			forwarded := make(chan error, 1)
			go func() { forwarded <- a.Forward(httptest.NewRecorder(), r, []byte("{}"), "b") }()
			<-came
			leave()
			require.ErrorIs(t, <-forwarded, context.Canceled)
			if ends {
				close(goOn)
				require.NoError(t, <-over)
			} else {
				require.ErrorIs(t, <-over, context.Canceled)
			}
		})
	}
}

// With certificates, a process without one of the same authority is refused, on both
// sides.
func TestCertificates(t *testing.T) {
	t.Parallel()
	d := found(t)
	ours, theirs := authority(t), authority(t)
	secure := func(c *tls.Config) func(*peer.Deps) {
		return func(p *peer.Deps) { p.TLS, p.Times.Accept = c, 10*time.Second }
	}
	d.settle("b", secure(ours), echo)
	require.NoError(t, d.settle("a", secure(ours), nil).Ask(t.Context(), "b", peer.Call{Op: "echo", Who: anna(), In: ""}, nil))
	require.ErrorIs(t, d.settle("c", secure(theirs), nil).Ask(t.Context(), "b", peer.Call{Op: "echo", Who: anna(), In: ""}, nil), peer.ErrUnreachable)
	require.ErrorIs(t, d.settle("d", nil, nil).Ask(t.Context(), "b", peer.Call{Op: "echo", Who: anna(), In: ""}, nil), peer.ErrUnreachable)
	_, err := peer.TLS("PORTICO_PEER_TLS", "missing", "missing", "missing")
	require.Error(t, err)
}

// authority makes an authority and a certificate of it, and loads both.
func authority(t *testing.T) *tls.Config {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, bytes []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600))
		return path
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	rootBytes, err := x509.CreateCertificate(rand.Reader, root, root, &rootKey.PublicKey, rootKey)
	require.NoError(t, err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "portico"}, NotAfter: time.Now().Add(time.Hour)}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	leafBytes, err := x509.CreateCertificate(rand.Reader, leaf, root, &key.PublicKey, rootKey)
	require.NoError(t, err)
	keyBytes, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	c, err := peer.TLS("PORTICO_PEER_TLS", write("cert", "CERTIFICATE", leafBytes), write("key", "PRIVATE KEY", keyBytes), write("ca", "CERTIFICATE", rootBytes))
	require.NoError(t, err)
	return c
}
