package pages

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/portico-run/portico/docs"
	"github.com/portico-run/portico/modules/console/form"
	"github.com/portico-run/portico/modules/console/help"
)

// Templates are the templates of the pages, each named as its Answer says. They use
// the functions path, when, size, icon and pair, and the template "form".
//
//go:embed templates/*.html
var Templates embed.FS

// New makes what the pages need. base is the path before all of them.
func New(base string, now func() time.Time) (*Pages, error) {
	p := &Pages{now: now, documents: sync.OnceValues(func() (*help.Library, error) { return help.New(docs.Files, base+"/help/") })}
	var err error
	for _, f := range []struct {
		to     **form.Form
		schema string
	}{{&p.createKey, keyForm}, {&p.createCanvas, canvasForm}, {&p.password, wordForm}, {&p.newLimits, limitsForm}, {&p.newUser, userForm}, {&p.gift, giftForm}, {&p.anyObject, `{"type":"object"}`}} {
		if *f.to, err = form.New(json.RawMessage(f.schema)); err != nil {
			return nil, fmt.Errorf("a form: %w", err)
		}
	}
	return p, nil
}

// Routes are the pages by their patterns, below the console's path.
func (p *Pages) Routes() map[string]func(*Visit) (Answer, error) {
	const get, post = http.MethodGet + " ", http.MethodPost + " "
	return map[string]func(*Visit) (Answer, error){
		get + "/keys": p.keys, post + "/keys": p.makeKey, post + "/keys/{id}/name": p.renameKey, post + "/keys/{id}/revoke": p.revokeKey,
		get + "/credits": p.credits, get + "/credits.csv": p.ledger,
		get + "/activity": p.activity,
		get + "/files":    p.canvases, post + "/files": p.makeCanvas, get + "/files/{canvas}": p.files, post + "/files/{canvas}/upload": p.upload,
		post + "/files/{canvas}/name": p.renameCanvas, post + "/files/{canvas}/delete": p.deleteCanvas,
		get + "/files/{canvas}/{file}": p.file, post + "/files/{canvas}/{file}/link": p.linkFile, post + "/files/{canvas}/{file}/delete": p.deleteFile,
		get + "/toolsets": p.toolsets, get + "/toolsets/{key}": p.toolset, post + "/toolsets/{key}/call": p.call, post + "/toolsets/{key}/install": p.install,
		post + "/toolsets/{key}/remove": p.removeToolset, post + "/toolsets/{key}/connect": p.connect, post + "/toolsets/{key}/disconnect": p.disconnect,
		get + "/approvals": p.approvals, get + "/approvals/{call}": p.approval, post + "/approvals/{call}/decide": p.decide,
		get + "/admin": p.admin, get + "/admin/ptc": p.adminPTC, get + "/admin/users": p.adminUsers, post + "/admin/users": p.makeUser,
		get + "/admin/users/{uid}": p.adminUser, post + "/admin/users/{uid}": p.changeUser, post + "/admin/users/{uid}/credits": p.grantUser,
		get + "/admin/toolsets": p.adminToolsets,
		get + "/admin/limits":   p.adminLimits, post + "/admin/limits": p.setLimits, get + "/admin/audit": p.adminAudit,
		get + "/account": p.account, post + "/account/password": p.setPassword, post + "/account/sessions/{id}/end": p.endSession, post + "/account/apps/{id}/end": p.endApp,
		get + "/authorize": p.authorize, post + "/authorize": p.letIn,
		get + "/help": p.help, get + "/help/{name...}": p.document,
	}
}
