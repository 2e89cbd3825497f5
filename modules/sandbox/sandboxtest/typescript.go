package sandboxtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

// TypeScript runs as JavaScript does, and errors name the program's own lines.
func (s Suite) testTypeScript(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	for name, c := range map[string]struct{ code, stdout, stderr string }{
		"types": {
			`
interface Point<T extends number = number> { x: T; readonly y?: T }
type Shape = { kind: "circle"; r: number } | { kind: "square"; side: number };
abstract class Base<T> { protected abstract area(): T; declare tag: string }
class Circle extends Base<number> implements Point { x = 1; override area(): number { return this.x! * 2 } }
function first<T,>(list: readonly T[], ...rest: unknown[]): T | undefined { return list[0] }
function pick(a: string): string; function pick(a: number): number; function pick(a: any) { return a }
const area = (s: Shape): number => (s.kind === "circle" ? s.r : s.side) as number;
const settings = { mode: "a" } satisfies Record<string, string>;
let generic = first<number>([5])!, call = pick("p"), isText = (v: unknown): v is string => typeof v === "string";
console.log(new Circle().area(), generic, call, area({ kind: "circle", r: 2 }), settings.mode, isText("x"), 1 < 2, process.argv.slice(2), __filename)`,
			"2 5 p 2 a true true [ 'a', 'b c' ] /mnt/data/main.ts\n", "",
		},
		"a module": {`import type { Stats } from "node:fs";
import { readdirSync, type Dirent } from "node:fs";
export type Names = string[];
const names: Names = await Promise.resolve(readdirSync("/refly_tools"));
let seen: Stats | Dirent | undefined;
console.log(names.length, seen, typeof require)`, "0 undefined function\n", ""},
		"more than types": {`enum Color { Red, Green = "g" }
const enum Size { Small = 3 }
namespace Inner { export const depth = 7 }
class Person { constructor(private readonly name: string, public age = 4) {} hello() { return this.name } }
console.log(Color.Red, Color[0], Color.Green, Size.Small, Inner.depth, new Person("p").hello(), <number>8)`, "0 Red g 3 7 p 8\n", ""},
		"throws":                      {"type A = {\n  x: number;\n};\nfunction f(a: A): never { throw new Error('oops') }\nf({ x: 1 });", "", "at f (/mnt/data/main.ts:4:33)"},
		"a module throws":             {"import 'node:fs';\nlet x: number = 1;\nthrow new Error('oops')", "", "/mnt/data/main.ts:3:7"},
		"throws beside an enum":       {"enum A {\n  x,\n  y,\n}\n\n\nthrow new Error('oops ' + A.y)", "", "/mnt/data/main.ts:7"},
		"a module beside an enum":     {"import 'node:fs';\nenum A {\n  x,\n}\n\n\nthrow new Error('oops ' + A.x)", "", "/mnt/data/main.ts:7"},
		"a rejected promise":          {"async function f(): Promise<void> {\n  throw new Error('oops')\n}\nf()", "", "/mnt/data/main.ts:2"},
		"wrong":                       {"let a = 1;\nlet x: = 5;", "", "/mnt/data/main.ts:2\nlet a = 1;\nlet x: = 5;\n       ^\n\nSyntaxError"},
		"wrong beside an enum":        {"enum A { x }\nlet y: = 5;", "", "/mnt/data/main.ts:2"},
		"wrong in JavaScript as well": {"let x: number = 08n;", "", "/mnt/data/main.ts:1"},
	} {
		r := run(t, d, sandbox.Job{Language: sandbox.TypeScript, Code: c.code, Args: []string{"a", "b c"}})
		require.Equal(t, c.stdout, r.Stdout, "%s: %s", name, r.Stderr)
		require.Contains(t, r.Stderr, c.stderr, name)
		require.NotContains(t, r.Stderr, "/tmp/.portico", name)
		if c.stderr == "" {
			require.Empty(t, r.Stderr, name)
		} else {
			require.Equal(t, 1, r.ExitCode, name)
		}
	}
	r, rounds := s.calls(t, sandbox.TypeScript, `
type Answer = { input: { n: number } };
const [answer, other]: Answer[] = await Promise.all([get({ n: 1 }), get({ n: 2 })]);
console.log(answer.input.n + other.input.n);`)
	require.Equal(t, "3\n", r.Stdout, r.Stderr)
	require.Equal(t, []string{`get-it({"n":1}) get-it({"n":2})`}, rounds)
}
