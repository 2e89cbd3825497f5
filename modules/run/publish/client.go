package publish

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Limits of one question to Redis: until it is connected, and until it answered.
const (
	dialTimeout = 2 * time.Second
	askTimeout  = 6 * time.Second
)

// client asks one Redis over one connection, which it makes when it needs one.
// One goroutine uses it at a time.
type client struct {
	at   address
	conn *connection // nil for none
}

// connection is an open one, signed in.
type connection struct {
	net.Conn
	in  *bufio.Reader
	out *bufio.Writer
}

// refusal is what Redis answered instead of a result.
type refusal string

// Error returns Redis's words.
func (r refusal) Error() string { return string(r) }

// eval runs a script that returns an integer; the script's text is sent only to
// a Redis that does not know it. The script must bear being run twice: it is
// sent again when a connection that was open turns out to be dead.
func (c *client) eval(ctx context.Context, script string, keys, args []string) (int64, error) {
	sum := sha1.Sum([]byte(script)) //nolint:gosec // see the import
	question := append([]string{"EVALSHA", hex.EncodeToString(sum[:]), strconv.Itoa(len(keys))}, keys...)
	question = append(question, args...)
	answer, err := c.ask(ctx, question)
	if said, ok := errors.AsType[refusal](err); ok && strings.HasPrefix(string(said), "NOSCRIPT") {
		question[0], question[1] = "EVAL", script
		answer, err = c.ask(ctx, question)
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(answer, 10, 64)
}

// ask sends a command and returns its answer. After a failure the next command
// gets a new connection: a Redis that refuses may no longer be the primary.
func (c *client) ask(ctx context.Context, command []string) (string, error) {
	kept := c.conn != nil
	answer, err := c.try(ctx, command)
	if kept && died(err) && ctx.Err() == nil {
		answer, err = c.try(ctx, command)
	}
	return answer, err
}

// died says whether a connection was closed by the other side, or on the way.
func died(err error) bool {
	_, refused := errors.AsType[refusal](err)
	failed, isNet := errors.AsType[net.Error](err)
	return err != nil && !refused && (!isNet || !failed.Timeout())
}

func (c *client) try(ctx context.Context, command []string) (string, error) {
	if c.conn == nil {
		conn, err := c.at.dial(ctx)
		if err != nil {
			return "", err
		}
		c.conn = conn
	}
	answers, err := c.conn.ask(ctx, command)
	if err != nil {
		if said, ok := errors.AsType[refusal](err); !ok || !strings.HasPrefix(string(said), "NOSCRIPT") {
			_ = c.close()
		}
		return "", err
	}
	return answers[0], nil
}

// close ends the connection, if there is one.
func (c *client) close() error {
	if c.conn == nil {
		return nil
	}
	conn := c.conn
	c.conn = nil
	// Who gave up while the answer came has closed it already.
	if err := conn.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// dial connects, signs in, and chooses the database.
func (a address) dial(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var conn net.Conn
	var err error
	if a.tls == nil {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", a.hostPort)
	} else {
		conn, err = (&tls.Dialer{Config: a.tls}).DialContext(ctx, "tcp", a.hostPort)
	}
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: conn, in: bufio.NewReader(conn), out: bufio.NewWriter(conn)}
	if commands := a.greeting(); len(commands) > 0 {
		if _, err := c.ask(ctx, commands...); err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
	return c, nil
}

// ask sends commands together and returns their answers in order. After an error
// that is not a refusal the connection is of no more use.
func (c *connection) ask(ctx context.Context, commands ...[]string) ([]string, error) {
	latest := time.Now().Add(askTimeout)
	if t, ok := ctx.Deadline(); ok && t.Before(latest) {
		latest = t
	}
	if err := c.SetDeadline(latest); err != nil {
		return nil, err
	}
	// Whoever gives up waits for no answer.
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	for _, command := range commands {
		c.write(command)
	}
	if err := c.out.Flush(); err != nil {
		return nil, err
	}
	answers := make([]string, len(commands))
	var refused error
	for i := range commands {
		answer, err := c.read()
		if _, ok := errors.AsType[refusal](err); ok && refused == nil {
			refused = err
		} else if err != nil && !ok {
			return nil, err
		}
		answers[i] = answer
	}
	return answers, refused
}

// write puts a command into the buffer; Flush has the error, if any.
func (c *connection) write(command []string) {
	_, _ = fmt.Fprintf(c.out, "*%d\r\n", len(command))
	for _, part := range command {
		_, _ = fmt.Fprintf(c.out, "$%d\r\n", len(part))
		_, _ = c.out.WriteString(part)
		_, _ = c.out.WriteString("\r\n")
	}
}

// read reads one answer: those that are one line, as this package's commands get.
func (c *connection) read() (string, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	line, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || len(line) == 0 {
		return "", errors.New("what answers is not a Redis")
	}
	switch text := string(line[1:]); line[0] {
	case '+', ':':
		return text, nil
	case '-':
		return "", refusal(text)
	default:
		return "", errors.New("what answers is not a Redis, or not one that this version knows")
	}
}
