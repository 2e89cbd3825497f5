// What the clients in JavaScript have in common: the jobs, the tools that they run
// themselves, and what is printed.
// Arguments: the folder with node_modules. JOBS is a list of jobs as JSON: name, mode,
// scenario, prompt, url without a path, key, other (the key of another user), model.
import { pathToFileURL } from "node:url";

export const load = (file) => import(pathToFileURL(`${process.argv[2]}/node_modules/${file}`).href);

export const description = "One order as JSON.";
export const schema = { type: "object", properties: { id: { type: "integer" } }, required: ["id"], additionalProperties: false };

// getOrder is the function that the client runs; order 9 does not exist.
export function getOrder(seen, args) {
  seen.calls.push({ name: "get_order", arguments: args });
  if (args.id === 9) throw new Error("order 9 not found");
  return { id: args.id, total: 10 * args.id };
}

// failure is what a client says of a refusal.
export const failure = (e) => ({
  name: e?.constructor?.name,
  status: e?.status ?? e?.statusCode ?? null,
  code: e?.code ?? e?.error?.error?.details?.error_code ?? null,
  type: e?.type ?? e?.error?.error?.type ?? null,
  message: String(e?.message ?? e),
  param: e?.param ?? null,
});

// refused runs what must be refused, and notes how.
export async function refused(seen, attempt) {
  try {
    await attempt();
    seen.errors.push(null);
  } catch (e) {
    seen.errors.push(failure(e));
  }
}

// work does each job in turn and prints what was seen, by the job's name.
export async function work(run) {
  const all = {};
  for (const job of JSON.parse(process.env.JOBS)) {
    const seen = { texts: [], calls: [], items: [], answers: 0, deltas: 0, usage: { input: 0, output: 0 }, asked: [], errors: [] };
    try {
      await run(job, seen);
    } catch (e) {
      seen.failed = failure(e);
      if (process.env.STACKS) console.error(job.name, e);
    }
    all[job.name] = seen;
  }
  console.log(JSON.stringify(all));
}
