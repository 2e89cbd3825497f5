// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
)

const (
	root   = "../.."
	module = "github.com/portico-run/portico/"
)

// island is the floor of packages that share no code with the server.
const island = -1

// house reads from ARCHITECTURE.md how high each package lives.
func house(t *testing.T) map[string]int {
	t.Helper()
	document, err := os.ReadFile(root + "/ARCHITECTURE.md")
	require.NoError(t, err)
	floors := map[string]int{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+|island) \| (.+) \|$`).FindAllStringSubmatch(string(document), -1) {
		floor, err := strconv.Atoi(row[1])
		if err != nil {
			floor = island
		}
		for _, named := range regexp.MustCompile("(?:^|· )`([a-z/]+)`").FindAllStringSubmatch(row[2], -1) {
			require.NotContains(t, floors, named[1], "a package is on two floors")
			require.DirExists(t, filepath.Join(root, named[1]))
			floors[named[1]] = floor
		}
	}
	require.Greater(t, len(floors), 30, "the table is read")
	return floors
}

// floorOf is that of the package, or of the nearest folder above it that is named.
func floorOf(floors map[string]int, path string) (int, bool) {
	for ; path != "."; path = filepath.Dir(path) {
		if floor, named := floors[path]; named {
			return floor, true
		}
	}
	return 0, false
}

// source is one Go file of the product.
type source struct {
	path string // of the file
	pkg  string // folder
	*ast.File
	files *token.FileSet
}

// place is where in the repository a node is.
func (s source) place(n ast.Node) string {
	return s.path + ":" + strconv.Itoa(s.files.Position(n.Pos()).Line)
}

// tree is read once for all tests: none of them changes what it is given.
var tree = sync.OnceValues(readTree)

func readTree() ([]source, error) {
	var list []source
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && slices.Contains([]string{".git", ".cache", "data", "bin", "testdata"}, e.Name()) {
			return filepath.SkipDir
		}
		if e.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		list = append(list, source{path: rel, pkg: filepath.Dir(rel), File: file, files: fset})
		return err
	})
	return list, err
}

func sources(t *testing.T) []source {
	t.Helper()
	list, err := tree()
	require.NoError(t, err)
	require.Greater(t, len(list), 100)
	return list
}

func (s source) test() bool {
	return strings.HasSuffix(s.path, "_test.go") || strings.HasSuffix(s.pkg, "test")
}

func TestImportsGoDownwards(t *testing.T) {
	t.Parallel()
	floors := house(t)
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		own, known := floorOf(floors, s.pkg)
		require.True(t, known, "%s: the package is on no floor; add it to the table", s.path)
		for _, i := range s.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			require.NoError(t, err)
			switch {
			case path == "github.com/gin-gonic/gin":
				require.Equal(t, "internal/httpapi", s.pkg, "%s imports gin", s.path)
			case strings.HasPrefix(path, "gorm.io/"):
				require.True(t, s.pkg == "internal/database" || strings.HasPrefix(filepath.Base(s.path), "repository"), "%s imports gorm", s.path)
			}
			rel, ours := strings.CutPrefix(path, module)
			if !ours {
				continue
			}
			theirs, known := floorOf(floors, rel)
			require.True(t, known, "%s imports %s", s.path, rel)
			if family(s.pkg) == family(rel) && own > 1 {
				continue
			}
			if own == island {
				require.Equal(t, island, theirs, "%s imports server code", s.path)
				continue
			}
			require.Less(t, theirs, own, "%s imports %s", s.path, rel)
		}
	}
}

// family is the folder of a module: modules/run for modules/run/stream.
func family(pkg string) string {
	parts := strings.SplitN(pkg, "/", 3)
	if parts[0] == "internal" {
		return parts[0]
	}
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// Queries that are not limited to one user are these; each has its reason.
func TestUnscopedQueriesAreListed(t *testing.T) {
	t.Parallel()
	shared := "what operators offer to all users has no user"
	insert := "a row is inserted with its user"
	allowed := map[string]string{
		"account.insertUser": insert, "account.insertKey": insert,
		"account.userByName": "operators know users by name", "account.users": "operators list users",
		"account.keys": "operators list keys", "account.search": "administrators list users", "account.othersAdminister": "the administrators of all users", "account.byLogin": "the user is found by the name, whose password is asked for",
		"erase.owner": "operators know runs by their ids", "erase.count": "the caller has found the user's run", "erase.clear": "the same",
		"erase.told":  "joined with the calls, which are scoped",
		"rows.Sealed": "whether the server's key opens what is stored", "rows.CountInstalled": shared, "composio.count": shared,
		"rows.DeleteInventory": shared, "rows.DeleteToolsets": shared, "composio.deleteAll": shared,
		"account.byHash": "who the user is follows from the key", "account.byID": "the user and the key are named, in a join with the user",
		"login.insert": insert, "login.insertCode": insert, "login.live": "who the user is follows from the signed token", "login.list": "the user is named, in a join with the user's keys",
		"login.good": "who the user is follows from the code", "login.purge": "what is over, of all users", "account.purge": "expired keys of sandboxes, of all users",
		"authserver.insert": insert, "authserver.by": "who the user is follows from the secret",
		"account.identity": "who the user is follows from the signed token", "account.identities": "operators list users",
		"account.countIdentities": "all people of hosts together are bounded", "account.insertIdentity": insert,
		"session.keep": insert, "session.link": insert, "session.insert": insert, "execution.insertExecution": insert,
		"drive.insert":  insert,
		"stored.insert": insert, "stored.chain": "each step names the user", "stored.purge": "what is over, of all users",
		"knowledge.owned": "the operator's have no user", "knowledge.visible": "the user's own and the operator's, in one condition",
		"knowledge.claim": insert, "knowledge.insert": "the collection was found for its owner", "knowledge.changed": "the same", "knowledge.sweep": "the same",
		"knowledge.within": "the same", "knowledge.fullText": "the same", "knowledge.passages": "the same",
		"session.expired": "what is over, of all users", "execution.purgeExecutions": "the same",
		"discard.insert": insert, "discard.take": "objects of all users", "discard.done": "the same", "holdings.named": "operators compare the storage of all users",
		"retention.oldRuns": "what is kept no longer, of all users", "retention.eventful": "the same", "retention.deleteEvents": "the run was found before", "retention.eventsGone": "the same",
		"retention.deleteMessages": "the same", "retention.ofRun": "the user is named", "retention.oldCalls": "what is kept no longer, of all users", "retention.deleteCalls": "the calls were found before",
		"retention.deleteRun": "the user is named", "retention.deleteAudit": "what is kept no longer, of all users", "retention.oldest": "the same", "retention.count": "the same",
		"report.users":       "operators verify the books of all users",
		"billing.saveLimits": insert, "billing.hold": insert, "billing.insertSubscription": insert, "billing.resumeSubscription": insert, "audit.insert": insert,
		"audit.all": "administrators read of all users", "billing.allLimits": "the same", "run.all": "the same; no column that a user wrote",
		"billing.savePlan": shared, "billing.plans": shared, "billing.plan": shared, "billing.saveRates": shared, "billing.rates": shared,
		"billing.quota": "joined with the user's subscriptions by the user", "composio.saveConnection": insert, "composio.claimConnection": insert,
		"server.visible": "the user's own and everybody's, in one condition", "server.owned": "those of everybody have no user", "server.all": "operators list servers",
		"server.insert": insert, "server.update": "the caller has found the owner's row", "server.remove": "the same",
		"server.savePlaceholders": insert, "server.saveList": insert,
		"oauth.save": insert, "oauth.held": shared, "oauth.forget": shared, "oauth.insertFlow": insert, "oauth.flow": "who the user is follows from the state",
		"oauth.purge": "flows that are over, of all users", "oauth.registered": "this server as a client has no user", "oauth.saveClient": "the same", "oauth.forgetClient": "the same",
		"rows.Marks": shared, "rows.MarksOf": shared, "rows.InsertMark": shared, "rows.DeleteMark": shared, "rows.DeleteMarks": shared,
		"approval.insert": insert, "approval.insertPermission": insert, "approval.owner": "operators name an approval by its call",
		"approval.waitingOf": "operators list what waits", "approval.abandoned": "what nobody waits for, of all users", "approval.due": "the webhook is told of those of all users",
		"approval.rulesOf": "the user's own and everybody's, in one condition", "approval.allRules": "operators list rules", "approval.saveRule": "those of everybody have no user",
		"approval.deleteRule": "the same",
		"bound.settle":        "a process asks for all of its users, whom the rows name", "bound.others": "the same", "bound.purge": "what nobody uses, of all users",
		"checkpoint.insert": insert, "checkpoint.orphans": "any process goes on with the runs of all users",
		"record.nth":    "own.uid, in a join of a user's calls with themselves",
		"rows.Formulas": shared, "rows.SaveFormula": shared,
		"billing.rechargeByID": "recharge ids are unique over all users; the caller compares the owner", "billing.insertUsage": insert, "billing.insertDebt": insert, "billing.insertRecharge": insert,
		"run.insert": insert, "run.insertEvent": insert, "run.insertCanvas": insert, "run.insertMessage": insert,
		"run.foreign": "whether somebody else has an id",
		"run.abandon": "a process gives up its own runs, of all users", "run.expired": "the reaper's",
		"run.versions": "the events of all users are published, each to its user's stream", "run.changed": "the same",
		"run.messages": "joined with the run's row, which is scoped", "run.changeMessage": "the same",
		"run.progress":  "each run is named with its user",
		"run.told":      "joined with the run's row and the calls, which are scoped",
		"run.events":    "joined with the run's row, which is scoped",
		"record.insert": insert, "record.abandon": "a process gives up its own calls, of all users", "record.expired": "the reaper's",
		"record.executingWhere": "the reaper's",
		"node.living":           "processes have no user", "node.join": "the same", "node.renew": "the same", "node.remove": "the same", "node.purge": "the same",
		"repl.claim": insert, "repl.purge": "what nobody has used for long, of all users",
		"erasure.next": "each part names the user", "erasure.clearOwn": "the user is named", "erasure.clearAbout": "what others did with the user, by the user's id",
		"erasure.clearDecisions": "what the user decided about calls of others", "erasure.forgetWords": "an index of all users",
		"sealed.after": "the key that seals is the server's", "sealed.replace": "the same",
		"rows.visible": "the user's own and everybody's, in one condition", "rows.Usable": "the same, joined with the inventory", "rows.Global": shared, "rows.UpdateGlobal": shared,
		"rows.InsertToolset": insert, "rows.Inventory": shared, "rows.AnyInventory": shared, "rows.Inventories": shared,
		"rows.InsertInventory": shared, "rows.UpdateInventory": shared, "rows.Methods": shared, "rows.AllMethods": shared,
		"rows.InsertMethods": shared, "rows.UpdateMethod": shared, "rows.Schemas": shared, "rows.InsertSchemas": shared, "rows.DeleteSchemas": shared,
	}
	found := map[string]bool{}
	for _, s := range sources(t) {
		if s.test() || s.pkg == "internal/database" {
			continue
		}
		for _, d := range s.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Unscoped" {
					name := s.Name.Name + "." + f.Name.Name
					found[name] = true
					if allowed[name] == "" {
						t.Errorf("%s: %s is not limited to one user and not on the list", s.path, name)
					}
				}
				return true
			})
		}
	}
	for name := range allowed {
		if !found[name] {
			t.Errorf("%s is on the list and not in the code", name)
		}
	}
}

func TestCodeKeepsTheHouseRules(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	for _, s := range sources(t) {
		text, err := os.ReadFile(filepath.Join(root, s.path))
		require.NoError(t, err)
		if lines := strings.Count(string(text), "\n"); !s.test() {
			require.LessOrEqual(t, lines, 450, "%s is long: split it", s.path)
		}
		for _, d := range s.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				require.NotEqual(t, "init", f.Name.Name, s.path)
			}
		}
		require.NotRegexp(t, `(?i)\b(utils?|helpers?|common)$`, s.Name.Name, s.path)
	}
}

var pathInDocs = regexp.MustCompile("`((?:cmd|modules|internal|migrations|sdkgen|configs|dev|docs|tools|bin)/[A-Za-z0-9_./{},*-]*)`|\\]\\(([^)#:]+)\\)")

// A document that names a path names one that exists.
func TestDocumentsNamePathsThatExist(t *testing.T) {
	t.Parallel()
	for doc, text := range texts(t) {
		if !strings.HasSuffix(doc, ".md") || strings.Contains(doc, "testdata/") {
			continue
		}
		for _, m := range pathInDocs.FindAllStringSubmatch(text, -1) {
			path := m[1] + m[2]
			if strings.HasPrefix(path, "bin/") || strings.ContainsAny(path, "{}*") {
				continue // built, or a pattern
			}
			base := root
			if m[2] != "" {
				base = filepath.Join(root, filepath.Dir(doc))
			}
			_, err := os.Stat(filepath.Join(base, path))
			require.NoError(t, err, "%s names %s", doc, path)
		}
	}
}

// Every migration of one database has its twin for the other.
func TestMigrationsComeInPairs(t *testing.T) {
	t.Parallel()
	names := func(dialect string) []string {
		entries, err := os.ReadDir(filepath.Join(root, "migrations", dialect))
		require.NoError(t, err)
		var list []string
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return list
	}
	require.Equal(t, names("postgres"), names("sqlite"))
}
