// Package lite is a SQLite connection that prepares each statement once. The driver
// of database/sql prepares a statement at each execution, which costs about as much
// as the execution of a small one; this is the same library without that driver.
package lite

import (
	"database/sql/driver"
	"fmt"
	"math"
	"time"

	"modernc.org/libc"
	sqlite "modernc.org/sqlite/lib"
)

// Conn is one connection. It is not safe for concurrent use.
type Conn struct {
	tls  *libc.TLS
	db   uintptr
	out  uintptr            // where the library puts a pointer
	kept map[string]uintptr // prepared statements by their text
}

// Error is what SQLite says of a statement that it did not execute.
type Error struct {
	Code int // the primary result code
	text string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("SQLite: %s (%d)", e.text, e.Code) }

// Refused reports whether the statement is at fault, or what it found, and not the
// state of the file: the transaction goes on without it.
func (e *Error) Refused() bool {
	return e.Code == sqlite.SQLITE_CONSTRAINT || e.Code == sqlite.SQLITE_ERROR
}

// Open connects to the file of a URI and executes statements that set it up. A
// statement waits so long for other writers.
func Open(uri string, wait time.Duration, setup ...string) (*Conn, error) {
	c := &Conn{tls: libc.NewTLS(), kept: map[string]uintptr{}}
	if c.out = libc.Xmalloc(c.tls, pointerSize); c.out == 0 {
		c.tls.Close()
		return nil, errMemory
	}
	name, err := libc.CString(uri)
	if err != nil {
		return nil, c.failed(errMemory)
	}
	defer libc.Xfree(c.tls, name)
	// As the driver opens its connections.
	rc := sqlite.Xsqlite3_open_v2(c.tls, name, c.out, sqlite.SQLITE_OPEN_READWRITE|sqlite.SQLITE_OPEN_CREATE|sqlite.SQLITE_OPEN_FULLMUTEX|sqlite.SQLITE_OPEN_URI, 0)
	c.db = libc.AtomicLoadPUintptr(c.out)
	if rc != sqlite.SQLITE_OK {
		return nil, c.failed(c.error(rc))
	}
	sqlite.Xsqlite3_busy_timeout(c.tls, c.db, int32(wait.Milliseconds()))
	for _, statement := range setup {
		if _, err := c.Do(statement); err != nil {
			return nil, c.failed(err)
		}
	}
	return c, nil
}

const pointerSize = 8

var errMemory = &Error{Code: sqlite.SQLITE_NOMEM, text: "out of memory"}

func (c *Conn) failed(err error) error {
	c.Close()
	return err
}

// Do executes one statement, which stays prepared until Close: its text is one of a
// few that the program holds. It returns the number of rows that the statement
// changed, or that it found if it is one that returns rows; these are not read.
// Arguments are what database/sql takes.
func (c *Conn) Do(text string, args ...any) (rows int64, err error) {
	statement, err := c.prepare(text)
	if err != nil {
		return 0, err
	}
	texts, err := c.bind(statement, args)
	defer func() {
		sqlite.Xsqlite3_reset(c.tls, statement) // says again what the execution said
		sqlite.Xsqlite3_clear_bindings(c.tls, statement)
		for _, p := range texts {
			libc.Xfree(c.tls, p)
		}
	}()
	if err != nil {
		return 0, err
	}
	rc := sqlite.Xsqlite3_step(c.tls, statement)
	for ; rc == sqlite.SQLITE_ROW; rc = sqlite.Xsqlite3_step(c.tls, statement) {
		rows++
	}
	if rc != sqlite.SQLITE_DONE {
		return 0, c.error(rc)
	}
	if sqlite.Xsqlite3_column_count(c.tls, statement) == 0 {
		rows = int64(sqlite.Xsqlite3_changes(c.tls, c.db))
	}
	return rows, nil
}

// InTransaction reports whether a transaction has begun and has not ended. Some
// errors end it.
func (c *Conn) InTransaction() bool { return sqlite.Xsqlite3_get_autocommit(c.tls, c.db) == 0 }

// Close takes back a transaction that has not ended.
func (c *Conn) Close() {
	for _, statement := range c.kept {
		sqlite.Xsqlite3_finalize(c.tls, statement)
	}
	sqlite.Xsqlite3_close_v2(c.tls, c.db)
	libc.Xfree(c.tls, c.out)
	c.tls.Close()
}

func (c *Conn) prepare(text string) (uintptr, error) {
	if statement, ok := c.kept[text]; ok {
		return statement, nil
	}
	p, err := libc.CString(text)
	if err != nil {
		return 0, errMemory
	}
	defer libc.Xfree(c.tls, p)
	if rc := sqlite.Xsqlite3_prepare_v3(c.tls, c.db, p, -1, sqlite.SQLITE_PREPARE_PERSISTENT, c.out, 0); rc != sqlite.SQLITE_OK {
		return 0, c.error(rc)
	}
	statement := libc.AtomicLoadPUintptr(c.out)
	if statement == 0 {
		return 0, &Error{Code: sqlite.SQLITE_ERROR, text: "there is no statement in " + text}
	}
	c.kept[text] = statement
	return statement, nil
}

// bind returns the copies of texts, which the library reads until the statement is
// reset.
func (c *Conn) bind(statement uintptr, args []any) (texts []uintptr, err error) {
	if n := int(sqlite.Xsqlite3_bind_parameter_count(c.tls, statement)); n != len(args) {
		return nil, &Error{Code: sqlite.SQLITE_ERROR, text: fmt.Sprintf("%d arguments for %d places", len(args), n)}
	}
	for i, arg := range args {
		v, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return texts, err
		}
		var p uintptr
		rc, place := int32(sqlite.SQLITE_OK), int32(i+1)
		switch v := v.(type) {
		case nil: // as it is
		case int64:
			rc = sqlite.Xsqlite3_bind_int64(c.tls, statement, place, v)
		case float64:
			rc = sqlite.Xsqlite3_bind_double(c.tls, statement, place, v)
		case bool:
			n := int64(0)
			if v {
				n = 1
			}
			rc = sqlite.Xsqlite3_bind_int64(c.tls, statement, place, n)
		case string:
			p, rc, err = c.text(statement, place, v)
		case time.Time:
			p, rc, err = c.text(statement, place, v.Format(moment))
		default:
			err = fmt.Errorf("a %T is no argument of a statement", v)
		}
		if p != 0 {
			texts = append(texts, p)
		}
		if err != nil {
			return texts, err
		}
		if rc != sqlite.SQLITE_OK {
			return texts, c.error(rc)
		}
	}
	return texts, nil
}

// moment is how the driver writes a time.
const moment = "2006-01-02 15:04:05.999999999-07:00"

func (c *Conn) text(statement uintptr, place int32, v string) (p uintptr, rc int32, err error) {
	if len(v) > math.MaxInt32 {
		return 0, 0, &Error{Code: sqlite.SQLITE_TOOBIG, text: "a text is too long"}
	}
	if p, err = libc.CString(v); err != nil {
		return 0, 0, errMemory
	}
	return p, sqlite.Xsqlite3_bind_text(c.tls, statement, place, p, int32(len(v)), 0), nil
}

func (c *Conn) error(rc int32) error {
	return &Error{Code: int(rc & 0xff), text: libc.GoString(sqlite.Xsqlite3_errmsg(c.tls, c.db))}
}
