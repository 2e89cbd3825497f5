package publish_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv/redistest"
	"github.com/portico-run/portico/modules/run/publish"
)

const addOne = "return redis.call('INCRBY', KEYS[1], ARGV[1])"

func TestAddressesOfRedis(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"redis://h":                        "h:6379",
		"redis://h:1/":                     "h:1",
		"redis://h:1/0":                    "h:1",
		"redis://:p%40ss@h/3":              "h:6379 AUTH p@ss SELECT 3",
		"redis://joe:pass@[::1]:7/12":      "[::1]:7 AUTH joe pass SELECT 12",
		"rediss://default:secret@h.test:7": "h.test:7 AUTH default secret TLS",
	} {
		got, err := publish.Address(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"http://h", "redis://", "redis://:secret@h/x", "redis://:secret@h/-1", "redis://:secret@h?db=1", "redis://:sec ret@h:x"} {
		_, err := publish.Address(text)
		require.ErrorContains(t, err, "REDIS_URL is not the address of a Redis", text)
		require.NotContains(t, err.Error(), "sec", text)
	}
}

// A user of Redis with a password and a database of its own is signed in.
func TestRedisIsAskedAsItsUser(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "")
	require.NoError(t, r.Client.Do(t.Context(), "ACL", "SETUSER", "joe", "on", ">pa ss", "~n*", "+incrby", "+evalsha", "+eval", "+select").Err())
	c, err := publish.NewClient("redis://joe:pa%20ss@" + r.Address + "/3")
	require.NoError(t, err)
	defer c.Close()
	n, err := c.Eval(t.Context(), addOne, []string{"n"}, []string{"5"})
	require.NoError(t, err)
	require.EqualValues(t, 5, n)
	require.Zero(t, r.Client.Exists(t.Context(), "n").Val(), "it is in database 3")
	third := redis.NewClient(&redis.Options{Addr: r.Address, DB: 3})
	defer third.Close()
	require.Equal(t, "5", third.Get(t.Context(), "n").Val())
	_, err = c.Eval(t.Context(), addOne, []string{"other"}, []string{"1"})
	require.ErrorContains(t, err, "NOPERM")
	n, err = c.Eval(t.Context(), addOne, []string{"n"}, []string{"1"})
	require.NoError(t, err, "after a refusal it goes on")
	require.EqualValues(t, 6, n)

	wrong, err := publish.NewClient("redis://joe:wrong@" + r.Address)
	require.NoError(t, err)
	defer wrong.Close()
	_, err = wrong.Eval(t.Context(), addOne, []string{"n"}, []string{"1"})
	require.ErrorContains(t, err, "WRONGPASS")
}

// A question that is given up while its answer comes leaves a closed connection:
// the next one gets another, and the end is none the worse.
func TestAClosedConnectionIsNoFailure(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "")
	c, err := publish.NewClient(r.URL())
	require.NoError(t, err)
	for range 2 {
		_, err = c.Eval(t.Context(), addOne, []string{"n"}, []string{"1"})
		require.NoError(t, err)
		require.NoError(t, c.GiveUp())
	}
	require.NoError(t, c.Close())
	require.Equal(t, "2", r.Client.Get(t.Context(), "n").Val())
}

// The text of a script is sent once; a Redis that forgot it, or closed the
// connection meanwhile, costs nothing.
func TestConnectionsThatDiedAreMadeAnew(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "")
	c, err := publish.NewClient(r.URL())
	require.NoError(t, err)
	defer c.Close()
	add := func() int64 {
		n, err := c.Eval(t.Context(), addOne, []string{"n"}, []string{"1"})
		require.NoError(t, err)
		return n
	}
	require.EqualValues(t, 1, add())
	require.EqualValues(t, 2, add())
	require.Contains(t, r.Client.Info(t.Context(), "commandstats").Val(), "cmdstat_eval:calls=1,")
	require.NoError(t, r.Client.ScriptFlush(t.Context()).Err())
	require.EqualValues(t, 3, add())
	require.NoError(t, r.Client.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
	require.EqualValues(t, 4, add())
	r.Restart()
	require.EqualValues(t, 1, add())
	r.Kill()
	_, err = c.Eval(t.Context(), addOne, []string{"n"}, []string{"1"})
	require.Error(t, err)
	r.Restart()
	require.EqualValues(t, 1, add())
}

// Whoever gives up waits for no answer, and gets that of the next question.
func TestQuestionsToRedisAreGivenUp(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "")
	c, err := publish.NewClient(r.URL())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Eval(t.Context(), addOne, []string{"n"}, []string{"1"})
	require.NoError(t, err)
	require.NoError(t, r.Client.Do(t.Context(), "CLIENT", "PAUSE", 60_000, "WRITE").Err())
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	begin := time.Now()
	_, err = c.Eval(ctx, addOne, []string{"n"}, []string{"10"})
	require.Error(t, err)
	require.Less(t, time.Since(begin), 3*time.Second)
	require.NoError(t, r.Client.Do(t.Context(), "CLIENT", "UNPAUSE").Err())
	n, err := c.Eval(t.Context(), addOne, []string{"m"}, []string{"7"})
	require.NoError(t, err)
	require.EqualValues(t, 7, n)
}

// A megabyte, and bytes that are no text, arrive as they are.
func TestScriptsGetWhatTheyAreGiven(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "")
	c, err := publish.NewClient(r.URL())
	require.NoError(t, err)
	defer c.Close()
	value := strings.Repeat("x\r\n$1\x00\xff é", 100_000)
	n, err := c.Eval(t.Context(), "redis.call('SET', KEYS[1], ARGV[1]); return #ARGV[1]", []string{"a\r\nkey"}, []string{value})
	require.NoError(t, err)
	require.EqualValues(t, len(value), n)
	require.Equal(t, value, r.Client.Get(t.Context(), "a\r\nkey").Val())
}

// overTLS answers with TLS in front of a Redis, and returns where, and whom to
// trust.
func overTLS(t *testing.T, behind string) (string, *x509.CertPool) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	config := s.TLS.Clone()
	s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	config.NextProtos = nil
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	require.NoError(t, err)
	var open sync.WaitGroup
	t.Cleanup(open.Wait)
	t.Cleanup(func() { _ = l.Close() })
	open.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { join(in, behind) })
		}
	})
	return l.Addr().String(), pool
}

func join(in net.Conn, address string) {
	defer in.Close()
	out, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer out.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(in, out)
		_ = in.Close()
	})
	_, _ = io.Copy(out, in)
	_ = out.Close()
	back.Wait()
}

func TestRedisIsAskedOverTLS(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "")
	at, trusted := overTLS(t, r.Address)
	c, err := publish.NewClient("rediss://" + at)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Eval(t.Context(), addOne, []string{"n"}, []string{"1"})
	require.ErrorContains(t, err, "certificate", "a certificate of nobody known")
	c.Trust(trusted)
	n, err := c.Eval(t.Context(), addOne, []string{"n"}, []string{"1"})
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}

// What answers may be anything, such as a web server.
func TestWhatIsNotARedisIsTold(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(nil)
	defer s.Close()
	c, err := publish.NewClient("redis://" + s.Listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Eval(t.Context(), addOne, []string{"n"}, []string{"1"})
	require.ErrorContains(t, err, "not a Redis")
	_, err = publish.New(publish.Deps{Settings: publish.Settings{URL: "redis://:secret@h/x"}, Logger: slog.New(slog.DiscardHandler)})
	require.ErrorContains(t, err, "REDIS_URL")
}
