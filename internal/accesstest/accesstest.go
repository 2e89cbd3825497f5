// Package accesstest makes sure that the tests of a service try every method of
// it as another user.
package accesstest

import (
	"reflect"
	"testing"
)

// Each tries the exported methods of a service. It fails for one that has no
// try, unless it is excused: system names those that belong to no user, with the
// reason.
func Each(t *testing.T, service reflect.Type, tries map[string]func(t *testing.T), system map[string]string) {
	t.Helper()
	known := map[string]bool{}
	for m := range service.Methods() {
		known[m.Name] = true
		try, tried := tries[m.Name]
		_, excused := system[m.Name]
		switch {
		case tried && excused:
			t.Errorf("%s.%s is tried, and excused", service, m.Name)
		case tried:
			try(t)
		case !excused:
			t.Errorf("%s.%s is not tried as another user", service, m.Name)
		}
	}
	for name := range tries {
		if !known[name] {
			t.Errorf("%s has no method %s to try", service, name)
		}
	}
	for name := range system {
		if !known[name] {
			t.Errorf("%s has no method %s to excuse", service, name)
		}
	}
}
