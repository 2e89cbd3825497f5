package guest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Poller waits for what many sandboxes have open, with one goroutine for all of
// them: a program that rests costs none for its outputs, its end and its tool
// socket.
type Poller struct {
	epoll   *os.File
	done    chan struct{}
	buffers sync.Pool // of *[readSize]byte, for whoever was told

	mu      sync.Mutex
	next    int32
	watched map[int32]*watched // by the number that the kernel tells
}

// readSize is how much of an output is read at once.
const readSize = 32 << 10

// watched is a descriptor that somebody waits for.
type watched struct {
	number int32
	what   syscall.RawConn
	ready  func() (again bool)
}

// NewPoller starts a poller.
func NewPoller() (*Poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("poller: %w", err)
	}
	// So that the wait for it is Go's own, and holds no thread.
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("poller: %w", err), unix.Close(fd))
	}
	p := &Poller{epoll: os.NewFile(uintptr(fd), "epoll"), done: make(chan struct{}), watched: map[int32]*watched{}}
	p.buffers.New = func() any { return new([readSize]byte) }
	raw, err := p.epoll.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("poller: %w", err), p.epoll.Close())
	}
	go p.run(raw)
	return p, nil
}

// Watch calls ready when what can be read, or ends, until ready returns false.
// The calls come one after the other, each in a goroutine of its own. What must
// stay open until then, or be closed for good. Whoever closes it before calls drop
// first: the kernel tells nothing of what is closed, and ready would be held for ever.
func (p *Poller) Watch(what syscall.Conn, ready func() (again bool)) (drop func(), err error) {
	raw, err := what.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("poller: %w", err)
	}
	p.mu.Lock()
	p.next++
	w := &watched{number: p.next, what: raw, ready: ready}
	p.watched[w.number] = w
	p.mu.Unlock()
	if err := p.control(w, unix.EPOLL_CTL_ADD); err != nil {
		p.forget(w)
		return nil, fmt.Errorf("poller: %w", err)
	}
	return func() { p.drop(w) }, nil
}

// drop ends the wait for a descriptor.
func (p *Poller) drop(w *watched) {
	p.forget(w)
	_ = p.control(w, unix.EPOLL_CTL_DEL) // it may be closed
}

// control tells the kernel what is waited for, once.
func (p *Poller) control(w *watched, operation int) error {
	epoll, err := p.epoll.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = w.what.Control(func(fd uintptr) {
		err := epoll.Control(func(own uintptr) {
			failed = unix.EpollCtl(int(own), operation, int(fd), &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: w.number})
		})
		failed = errors.Join(failed, err)
	})
	return errors.Join(failed, err)
}

func (p *Poller) forget(w *watched) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watched, w.number)
}

// run passes on what the kernel tells, until Close.
func (p *Poller) run(epoll syscall.RawConn) {
	defer close(p.done)
	events := make([]unix.EpollEvent, 64)
	for {
		n := 0
		err := epoll.Read(func(fd uintptr) bool {
			var err error
			n, err = unix.EpollWait(int(fd), events, 0)
			return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
		})
		if err != nil {
			return // closed
		}
		for _, e := range events[:max(n, 0)] {
			p.mu.Lock()
			w := p.watched[e.Fd]
			p.mu.Unlock()
			if w != nil {
				go p.tell(w)
			}
		}
	}
}

func (p *Poller) tell(w *watched) {
	if w.ready() && p.control(w, unix.EPOLL_CTL_MOD) == nil {
		return
	}
	p.drop(w)
}

// Close ends the poller. Nobody is told any more.
func (p *Poller) Close() error {
	err := p.epoll.Close()
	<-p.done
	return err
}

// read adds what is there of a pipe, without waiting. It reports false at the end.
func (p *Poller) read(from *os.File, add func(piece []byte)) (again bool) {
	raw, err := from.SyscallConn()
	if err != nil {
		return false
	}
	buffer, ok := p.buffers.Get().(*[readSize]byte)
	if !ok {
		return false // the pool has nothing else
	}
	defer p.buffers.Put(buffer)
	for {
		n := 0
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			n, failed = unix.Read(int(fd), buffer[:])
			return true
		})
		switch {
		case err != nil:
			return false
		case errors.Is(failed, unix.EAGAIN):
			return true
		case errors.Is(failed, unix.EINTR):
		case failed != nil || n == 0:
			return false
		default:
			add(buffer[:n])
		}
	}
}
