package httpapi

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Forwarded makes the address of a request the one that it began at, where it came
// through proxies that are trusted: each adds to X-Forwarded-For whom it was asked
// by. What others wrote there does not count. A request that has no such header, or
// one that cannot be read, is the last proxy's own.
func Forwarded(trusted []netip.Prefix, next http.Handler) http.Handler {
	if len(trusted) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
			if began := beganAt(trusted, from.Addr().Unmap(), r.Header.Values("X-Forwarded-For")); began != from.Addr().Unmap() {
				r.RemoteAddr = netip.AddrPortFrom(began, 0).String()
			}
		}
		next.ServeHTTP(w, r)
	})
}

// beganAt follows a header from its end, as long as who wrote it is trusted.
func beganAt(trusted []netip.Prefix, at netip.Addr, header []string) netip.Addr {
	path := strings.Split(strings.Join(header, ","), ",")
	for _, said := range slices.Backward(path) {
		if !slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(at) }) {
			break
		}
		said = strings.TrimSpace(said)
		before, err := netip.ParseAddr(strings.Trim(said, "[]"))
		if err != nil {
			with, err := netip.ParseAddrPort(said)
			if err != nil {
				break
			}
			before = with.Addr()
		}
		at = before.Unmap().WithZone("")
	}
	return at
}
