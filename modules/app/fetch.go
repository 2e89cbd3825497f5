package app

import "github.com/portico-run/portico/modules/knowledge/fetch"

// fetching wires what reads pages of the web and files for programs.
func (a *App) fetching() *fetch.Module {
	c := a.Config
	return fetch.New(fetch.Deps{
		Client: a.egress, Sandbox: a.Engine, Files: a.Drive.Service,
		Settings: fetch.Settings{
			MaxBytes: c.Fetch.MaxBytes, Timeout: c.Fetch.Timeout, Egress: c.Fetch.Egress, MaxPages: c.Fetch.MaxPages,
			Roots: c.LoadFile.Roots, MaxFile: c.LoadFile.MaxBytes,
		},
	})
}
